//! The findings of `perfring doctor`.

use crate::command::{Done, Place, check, json_lines, perfring, publish, run};
use nix::unistd::Uid;
use perfring_abi::FIELDS;
use perfring_consumer::Consumer;
use perfring_producer::{Options, Producer};
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

fn doctor(ring: &str) -> Done {
    run(&["doctor", "--json", ring], b"")
}

#[test]
fn a_healthy_ring_needs_no_attention() {
    let place = Place::new();
    for kind in ["one", "many"] {
        let ring = place.ring(&["--producers", kind]);
        publish(&ring, b"x\n");
        let _consumer = Consumer::attach(Path::new(&ring)).unwrap();
        let done = doctor(&ring);
        assert_eq!((done.code(), done.err().as_str()), (0, ""), "{}", done.out());
        for (name, says) in [
            ("layout", "version 1, drop, 1 MiB, "),
            ("access", "mode 0600"),
            ("locks", "work here"),
            ("pages", "bytes"),
            ("boot", "since this machine started"),
            ("totals", "written 1 = read 0 + present 1"),
            ("consumer", "alive"),
            ("losses", "no record was refused"),
            ("drafts", "no unfinished rings in"),
        ] {
            let (level, said) = check(&done, &ring, name);
            assert!(level == "ok" && said.contains(says), "{name}: {level} {said}");
        }
        let machine = "this machine";
        assert!(check(&done, machine, "shm").1.starts_with("/dev/shm: tmpfs, "));
        for name in ["version", "access", "space", "rseq", "membarrier", "pages"] {
            check(&done, machine, name);
        }
        let text = run(&["doctor", &ring], b"").out();
        assert!(text.starts_with("this machine\n  ok    version      perfring "), "{text}");
        assert!(text.contains(&format!("\n{ring}\n  ok    layout       version 1")), "{text}");
        fs::remove_file(&ring).unwrap();
    }
}

#[test]
fn who_registers_threads_for_restartable_sequences_is_named() {
    let place = Place::new();
    let ring = place.ring(&[]);
    for (tunable, who) in
        [("glibc.pthread.rseq=1", "the C library"), ("glibc.pthread.rseq=0", "perfring")]
    {
        let mut command = perfring(&["doctor", "--json", &ring]);
        let done = Done(command.env("GLIBC_TUNABLES", tunable).output().unwrap());
        let (level, said) = check(&done, "this machine", "rseq");
        let expected = format!("rings per CPU can be used: {who} registers each thread");
        assert!(level != "warn" && said.starts_with(&expected), "{level}: {said}");
        assert!(
            said.contains("bytes (the original mode")
                || said.contains("bytes (the extensible mode"),
            "{said}"
        );
    }
}

/// Builds an example in C.
fn c_example(name: &str, place: &Place) -> PathBuf {
    let proto = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto"));
    let exe = place.path(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(proto);
    cc.arg(proto.join("examples").join(format!("{name}.c"))).arg("-o").arg(&exe);
    assert!(cc.status().expect("a C compiler: install gcc").success());
    exe
}

#[test]
fn a_ring_of_a_c_program_needs_no_attention() {
    let place = Place::new();
    let exe = c_example("flight_recorder", &place);
    let ring = place.path("ring").to_str().unwrap().to_owned();
    assert!(Command::new(&exe).args([&ring, "3"]).status().unwrap().success());
    let done = doctor(&ring);
    assert_eq!((done.code(), done.err().as_str()), (0, ""), "{}", done.out());
    for (name, says) in [
        ("layout", "version 1, overwrite, 64 KiB, one producer at a time"),
        ("access", "mode 0600"),
        ("boot", "since this machine started"),
        ("totals", "written 3 = overwritten 0 + present 3"),
        ("producer", "detached"),
        ("losses", "no record was refused"),
        ("drafts", "no unfinished rings in"),
    ] {
        let (level, said) = check(&done, &ring, name);
        assert!(level == "ok" && said.contains(says), "{name}: {level} {said}");
    }
}

#[test]
fn the_rings_of_a_c_program_and_of_rust_are_merged_by_time() {
    const ROUNDS: usize = 20;
    let place = Place::new();
    let exe = c_example("flight_recorder", &place);
    let dir = place.path("rings");
    fs::create_dir(&dir).unwrap();
    let timed = Options { time: true, ..Options::default() };
    let mut producer = Producer::create(dir.join("rust"), &timed).unwrap();
    for _ in 0..ROUNDS {
        assert!(Command::new(&exe).arg(dir.join("c")).arg("1").status().unwrap().success());
        producer.publish(b"answer").unwrap();
    }
    let done = run(&["dump", "--json", dir.to_str().unwrap()], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let rows = json_lines(&done.out());
    assert_eq!(rows.len(), 2 * ROUNDS);
    for (nth, row) in rows.iter().enumerate() {
        assert_eq!(row["text"], ["event 1", "answer"][nth % 2], "{nth}: {row}");
        assert!(row["time"].is_string(), "{row}");
    }
}

#[test]
fn it_says_what_killed_processes_left_and_what_of_it_is_whole() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n2\n3\n");
    let dir = place.path("files");
    fs::create_dir(&dir).unwrap();
    let file = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let whole = file("whole.perfrec");
    assert_eq!(run(&["record", &ring, "-n", "3", "-o", &whole], b"").code(), 0);
    let bytes = fs::read(&whole).unwrap();
    let done = doctor(&whole);
    assert_eq!(done.code(), 0, "{}", done.out());
    assert_eq!(
        check(&done, &whole, "recording"),
        ("ok".into(), "it is whole, with 3 records".into())
    );
    // Its last block has no end.
    fs::write(file("torn.perfrec"), &bytes[..bytes.len() - 8]).unwrap();
    let mine = std::process::id();
    fs::write(file(&format!("perf.data.{mine}.part")), "x").unwrap();
    // No process has this number: it is beyond the greatest.
    fs::write(file("perf.data.4194305.part"), "xy").unwrap();
    fs::write(file("mine.part"), "").unwrap();
    let done = doctor(dir.to_str().unwrap());
    assert_eq!(done.code(), 1, "{}", done.out());
    assert_eq!(check(&done, &whole, "recording").0, "ok");
    let (level, said) = check(&done, &file("torn.perfrec"), "recording");
    assert!(level == "warn" && said.contains("has no end"), "{said}");
    assert_eq!(check(&done, &file(&format!("perf.data.{mine}.part")), "part").0, "note");
    let (level, said) = check(&done, &file("perf.data.4194305.part"), "part");
    assert!(level == "warn" && said.contains("process 4194305 was killed"), "{said}");
    assert!(!done.out().contains("mine.part"));
    // Its advice works.
    let new = file("new.perfrec");
    run(&["export", &file("torn.perfrec"), "--to", "recording", "-o", &new], b"");
    assert_eq!(check(&doctor(&new), &new, "recording").0, "ok");
    // A directory of rings is still one.
    let done = doctor(Path::new(&ring).parent().unwrap().to_str().unwrap());
    assert_eq!(check(&done, &ring, "layout").0, "ok");
}

#[test]
fn other_files_and_damaged_rings_have_the_usual_exit_codes() {
    let place = Place::new();
    let none = place.path("none");
    let none = none.to_str().unwrap();
    let done = doctor(none);
    assert_eq!(done.code(), 3);
    assert_eq!(check(&done, none, "layout").0, "fail");
    assert_eq!(done.err(), "perfring: something needs attention: 1 failure\n");
    let ring = place.ring(&[]);
    let whole = fs::read(&ring).unwrap();
    for (name, bytes, says) in [
        ("foreign", &[7; 8192][..], "not a perfring file"),
        ("truncated", &whole[..whole.len() - 4096], "cut short"),
    ] {
        let path = place.path(name);
        fs::write(&path, bytes).unwrap();
        let file = path.to_str().unwrap();
        let done = doctor(file);
        let (level, said) = check(&done, file, "layout");
        assert!(done.code() == 4 && level == "fail" && said.contains(says), "{said}");
    }
    // The worst of several rings determines the exit code, and the others are checked all the same.
    let foreign = place.path("foreign");
    let done = run(&["doctor", "--json", none, foreign.to_str().unwrap(), &ring], b"");
    assert_eq!((done.code(), check(&done, &ring, "totals").0), (4, "ok".to_owned()));
    // Invalid totals.
    let file = fs::File::options().write(true).open(&ring).unwrap();
    let head = FIELDS.iter().find(|field| field.name == "data_head").unwrap();
    file.write_all_at(&u64::MAX.to_ne_bytes(), head.offset as u64).unwrap();
    let done = doctor(&ring);
    let (level, said) = check(&done, &ring, "totals");
    assert!(done.code() == 4 && level == "fail" && said.contains("perfring dump"), "{said}");
}

#[test]
fn a_full_ring_without_a_consumer_is_a_warning_and_losses_are_a_note() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K"]);
    publish(&ring, b"one\n");
    let (level, said) = check(&doctor(&ring), &ring, "consumer");
    assert!(level == "note" && said == "none so far, and 1 record waits", "{level} {said}");
    let lines: String = (0..300).map(|n| format!("{n}\n")).collect();
    publish(&ring, lines.as_bytes());
    let done = doctor(&ring);
    let (level, said) = check(&done, &ring, "consumer");
    assert!(done.code() == 1 && level == "warn" && said.contains("`perfring consume"), "{said}");
    let (level, said) = check(&done, &ring, "losses");
    assert!(level == "note" && said.contains("full 46"), "{said}");
    assert_eq!(done.err(), "perfring: something needs attention: 1 warning\n");
    run(&["consume", &ring], b"");
    assert_eq!(doctor(&ring).code(), 0);
}

#[test]
fn a_draft_of_a_killed_creator_is_found() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let draft = place.path(".perfring-0123.tmp");
    let file = fs::File::create(&draft).unwrap();
    // It may still be written.
    assert_eq!(check(&doctor(&ring), &ring, "drafts").0, "ok");
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let done = doctor(&ring);
    let (level, said) = check(&done, &ring, "drafts");
    assert_eq!((done.code(), level.as_str()), (1, "warn"));
    assert!(said.contains(&format!("rm '{}'", draft.display())), "{said}");
    assert!(draft.exists(), "the doctor changes nothing");
    // What it names removes it.
    let prune = |flags: &[&str]| {
        run(&[&["prune"][..], flags, &[&*place.path("").to_string_lossy()]].concat(), b"")
    };
    let dry = prune(&["--dry-run"]);
    assert!(
        dry.out().contains("would remove .perfring-0123.tmp: 0 bytes, the process"),
        "{}",
        dry.out()
    );
    assert!(draft.exists());
    let done = prune(&["--json"]);
    let drafts = json_lines(&done.out()).into_iter().filter(|line| line["uuid"].is_null());
    let outcomes: Vec<_> = drafts.map(|draft| draft["outcome"].clone()).collect();
    assert_eq!((done.code(), outcomes), (0, vec!["removed".into()]), "{}", done.err());
    assert!(!draft.exists());
    assert!(!prune(&[]).out().contains("tmp"));
}

/// Below a directory are sets of rings per CPU, also those without a ring yet, and directories of Parquet files.
#[test]
fn leftovers_below_a_directory_are_found() {
    let place = Place::new();
    for dir in ["requests", "tables"] {
        fs::create_dir(place.path(dir)).unwrap();
    }
    let dir = place.path("").to_str().unwrap().to_owned();
    let done = doctor(&dir);
    assert_eq!(check(&done, &dir, "rings").0, "note");
    assert_eq!((done.code(), check(&done, &dir, "drafts").0), (0, "ok".to_owned()));
    let draft = place.path("requests/.perfring-0123.tmp");
    let file = fs::File::create(&draft).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    // No process has this number.
    let part = place.path("tables/perfring.Log.parquet.4194305.part");
    fs::write(&part, b"PAR1").unwrap();
    let done = doctor(&dir);
    let set = place.path("requests");
    assert_eq!(check(&done, set.to_str().unwrap(), "drafts").0, "warn");
    assert_eq!(check(&done, part.to_str().unwrap(), "part").0, "warn");
    assert_eq!(run(&["prune", &dir], b"").code(), 0);
    assert!(!draft.exists());
    // It is no ring, but another program's file.
    let socket = place.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for command in ["stat", "dump", "tail"] {
        run(&[command, socket.to_str().unwrap()], b"")
            .refuses(4, "it is a socket, not a ring's file");
    }
    assert_eq!(doctor(socket.to_str().unwrap()).code(), 4);
}

#[test]
fn a_ring_of_another_boot_is_noted() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let file = fs::File::options().write(true).open(&ring).unwrap();
    let boot = FIELDS.iter().find(|field| field.name == "boot_id").unwrap();
    file.write_all_at(&[7; 16], boot.offset as u64).unwrap();
    let done = doctor(&ring);
    let (level, said) = check(&done, &ring, "boot");
    assert!(level == "note" && said.contains("before this machine started"), "{level} {said}");
    assert_eq!(done.code(), 0);
    file.write_all_at(&[0; 16], boot.offset as u64).unwrap();
    let (level, said) = check(&doctor(&ring), &ring, "boot");
    assert!(level == "note" && said.contains("is unknown"), "{level} {said}");
}

#[test]
fn a_user_who_may_only_observe_is_reported() {
    if !Uid::effective().is_root() {
        println!("skipped: only root can become another user to try");
        return;
    }
    let place = Place::new();
    let ring = place.ring(&["--producers", "many", "--mode", "0644"]);
    fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let exe = place.path("perfring");
    // By another process: a child that another test forks while this one writes to the copy would
    // keep it from being run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_perfring")).arg(&exe).status();
    assert!(copied.unwrap().success());
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new(&exe);
        Done(command.args(args).uid(65534).gid(65534).output().unwrap())
    };
    let done = as_nobody(&["doctor", "--json", &ring]);
    let (level, said) = check(&done, &ring, "access");
    assert!(level == "note" && said.contains("uid 65534 may observe it"), "{level} {said}");
    as_nobody(&["recover", &ring]).refuses(1, "no permission to write to");
    as_nobody(&["rm", &ring]).refuses(1, "that takes write permission for its directory");
    fs::set_permissions(&ring, fs::Permissions::from_mode(0o600)).unwrap();
    let done = as_nobody(&["doctor", "--json", &ring]);
    let (level, said) = check(&done, &ring, "layout");
    assert!(done.code() == 1 && level == "fail" && said.contains("no permission"), "{said}");
    fs::set_permissions(&ring, fs::Permissions::from_mode(0o666)).unwrap();
    let (level, said) = check(&doctor(&ring), &ring, "access");
    assert!(level == "note" && said.contains("every user"), "{level} {said}");
}

#[test]
fn without_a_name_every_ring_in_shared_memory_is_checked() {
    let name = format!("perfring-doctor-test-{}", std::process::id());
    let segment = format!("shm:{name}");
    let path = format!("/dev/shm/{name}");
    assert_eq!(run(&["create", &segment], b"").code(), 0);
    let other = format!("{path}-other");
    fs::write(&other, [7; 8192]).unwrap();
    let producer = Producer::attach_as(segment.as_str(), "me").unwrap();
    let done = run(&["doctor", "--json"], b"");
    drop(producer);
    fs::remove_file(&other).unwrap();
    assert_eq!(run(&["rm", &segment], b"").code(), 0);
    let (level, said) = check(&done, &path, "producer");
    assert!(level == "ok" && said.starts_with("me, pid "), "{level} {said}");
    assert!(!done.out().contains(&other), "a file that is no ring: {}", done.out());
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let place = Place::new();
    let ring = place.ring(&[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for args in [&["doctor", &ring][..], &["recover", &ring], &["stat", &ring]] {
        let done = Done(perfring(args).stdout(writer.try_clone().unwrap()).output().unwrap());
        assert_eq!((done.code(), done.err().as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn who_has_a_read_lock_on_a_ring_is_named() {
    let place = Place::new();
    let ring = place.ring(&[]);
    assert_eq!(check(&doctor(&ring), &ring, "read locks"), ("ok".to_owned(), "none".to_owned()));
    // By a descriptor that can only read: this may anybody who may read the file.
    let file = fs::File::open(&ring).unwrap();
    rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::LockShared).unwrap();
    let done = doctor(&ring);
    let (level, said) = check(&done, &ring, "read locks");
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    let named = format!("{} (pid {}) has a read lock on it", name.trim(), std::process::id());
    assert!(level == "warn" && said.starts_with(&named), "{level} {said}");
    assert_eq!(done.code(), 1);
    drop(file);
    assert_eq!(check(&doctor(&ring), &ring, "read locks").0, "ok");
}
