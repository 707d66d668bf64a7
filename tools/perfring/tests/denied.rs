//! The command names what forbids it to open, make or remove a ring: a directory, a file system, a link, another kind of file.

use crate::command::skipped;
use crate::command::{Done, Live, Place, run};
use nix::sys::signal::Signal;
use perfring_testkit::wait::until;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

fn set_mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_directory_that_forbids_something_is_named_and_not_the_ring_s_mode() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user to try");
    }
    let place = Place::new();
    set_mode(place.0.path(), 0o755);
    let exe = place.path("perfring");
    // By another process: a child that another test forks meanwhile would keep the copy from being run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_perfring")).arg(&exe).status();
    assert!(copied.unwrap().success());
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new(&exe);
        Done(command.args(args).uid(65534).gid(65534).output().unwrap())
    };
    let closed = place.path("closed");
    fs::create_dir(&closed).unwrap();
    let (ring, link, new) = (closed.join("ring"), place.path("link"), place.path("new"));
    let [ring, link, new] = [&ring, &link, &new].map(|path| path.to_str().unwrap());
    assert_eq!(run(&["create", ring, "--mode", "666"], b"").code(), 0);
    symlink(ring, link).unwrap();
    set_mode(&closed, 0o700);
    let dir = closed.to_str().unwrap();
    for path in [ring, link] {
        for command in ["stat", "consume", "publish", "dump", "rm"] {
            let done = as_nobody(&[command, path]);
            done.refuses(1, &format!("no permission to search {dir}, on the way to {path}"));
        }
    }
    let inside = closed.join("new");
    let done = as_nobody(&["create", inside.to_str().unwrap()]);
    done.refuses(1, &format!("write and execute permission for the directory {dir}"));
    let top = place.0.path().to_str().unwrap();
    for more in [&[][..], &["--producers", "cpu"]] {
        let done = as_nobody(&[&["create", new], more].concat());
        done.refuses(1, &format!("write and execute permission for the directory {top}"));
    }
    // A set that may be listed and not searched has rings that nobody sees.
    let set = place.path("set");
    let made = run(&["create", set.to_str().unwrap(), "--producers", "cpu", "--mode", "666"], b"");
    assert_eq!(made.code(), 0);
    set_mode(&set, 0o744);
    let listed = as_nobody(&["ls", top]).err();
    assert!(listed.contains("is left out: its directory may not be searched"), "{listed}");
    set_mode(&set, 0o700);
    let listed = as_nobody(&["ls", top]).err();
    assert!(listed.contains("set is left out: no permission to read this directory"), "{listed}");
}

#[test]
fn a_recorder_that_may_read_no_ring_says_what_the_others_are_and_ends_with_its_signal() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user to try");
    }
    let place = Place::new();
    set_mode(place.0.path(), 0o777);
    let exe = place.path("perfring");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_perfring")).arg(&exe).status();
    assert!(copied.unwrap().success());
    let rings = place.path("rings");
    fs::create_dir(&rings).unwrap();
    let [closed, bad] = ["closed", "bad"].map(|name| rings.join(name));
    for ring in [&closed, &bad] {
        assert_eq!(run(&["create", ring.to_str().unwrap()], b"").code(), 0);
    }
    set_mode(&closed, 0o600);
    // The end of the file is missing.
    set_mode(&bad, 0o644);
    fs::File::options().write(true).open(&bad).unwrap().set_len(4096).unwrap();
    let file = place.path("run.perfrec");
    let record = |more: &[&str]| {
        let mut command = Command::new(&exe);
        command.arg("record").arg(&rings).arg("-o").arg(&file).args(["--force"]).args(more);
        command.uid(65534).gid(65534).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let done = Done(record(&["--for", "10ms"]).output().unwrap());
    assert_eq!(done.code(), 6, "{}", done.err());
    let says = "no permission to read 1 ring, and the only other one is damaged: ";
    assert!(done.err().contains(says), "{}", done.err());
    // A signal has its own code.
    fs::remove_file(&file).unwrap();
    let live = Live::of(record(&[]));
    until("it records", || file.is_file());
    live.signal(Signal::SIGINT);
    let (_, err, code) = live.end();
    assert_eq!(code, 130, "{err}");
}

#[test]
fn a_file_system_that_is_mounted_read_only_is_named() {
    let place = Place::new();
    let dir = place.path("mounted");
    fs::create_dir(&dir).unwrap();
    let mount = |args: &[&str]| {
        let done = Command::new("mount").args(args).arg(&dir).output();
        done.is_ok_and(|done| done.status.success())
    };
    if !mount(&["-t", "tmpfs", "none"]) {
        return skipped("there is no permission to mount a tmpfs");
    }
    let (ring, set, new) = (dir.join("ring"), dir.join("set"), dir.join("new"));
    let [ring, set, new] = [&ring, &set, &new].map(|path| path.to_str().unwrap());
    let made = [run(&["create", ring], b""), run(&["create", set, "--producers", "cpu"], b"")];
    let read_only = mount(&["-o", "remount,ro"]);
    let all = ["consume", "rm", "publish"].map(|command| run(&[command, ring], b""));
    let pruned = run(&["prune", "--dead-for", "0s", dir.to_str().unwrap()], b"");
    let published = run(&["publish", set], b"");
    let created = run(&["create", new], b"");
    let read = run(&["stat", ring], b"");
    assert!(Command::new("umount").arg(&dir).status().unwrap().success());
    assert!(read_only && made.iter().all(|made| made.code() == 0));
    for done in all.iter().chain([&published, &created]) {
        done.refuses(1, "is on a file system that is mounted read-only");
    }
    assert_eq!(pruned.out().matches("is on a file system that is mounted read-only").count(), 2);
    assert_eq!(read.code(), 0, "{}", read.err());
}

#[test]
fn a_link_that_leads_nowhere_and_what_is_no_file_are_named() {
    let place = Place::new();
    let (to, link) = (place.path("nowhere"), place.path("link"));
    symlink("middle", &link).unwrap();
    symlink(&to, place.path("middle")).unwrap();
    symlink("circle", place.path("circle")).unwrap();
    fs::write(place.path("file"), "").unwrap();
    mknodat(CWD, place.path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(place.path("socket")).unwrap();
    let says = format!("is a symbolic link to {}, which does not exist", to.display());
    let link = link.to_str().unwrap();
    for command in ["stat", "tail", "publish", "consume", "dump", "recover"] {
        run(&[command, link], b"").refuses(3, &says);
    }
    run(&["create", link], b"").refuses(1, &says);
    for (name, code, says) in [
        ("pipe", 4, "it is a FIFO"),
        ("socket", 4, "it is a socket"),
        ("circle", 1, "lead in a circle"),
        ("file/ring", 1, "file is not a directory"),
    ] {
        run(&["stat", place.path(name).to_str().unwrap()], b"").refuses(code, says);
    }
    let none = place.path("none/ring");
    run(&["create", none.to_str().unwrap()], b"").refuses(1, "none: make it first");
    let none = place.path("none/set");
    let create = ["create", none.to_str().unwrap(), "--producers", "cpu"];
    run(&create, b"").refuses(1, "none: make it first");
}
