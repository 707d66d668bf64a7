//! What `perfring create` and `perfring doctor` say of the file system that a ring is on.

use crate::command::{Done, Place, check};
use std::fs::File;
use std::io::Write;
use std::process::Command;

/// Prints why a test does not run; fails where it must run.
fn skipped(why: &str) {
    assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "should run here, but {why}");
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
}

/// Runs commands with a mount that only they see, and the directory as the current one. `None`, with a
/// message, where nothing can be mounted like that.
fn mounted(place: &Place, mount: &str, commands: &str) -> Option<Done> {
    let script = format!("{mount} || exit 99; {commands}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(place.0.path());
    command.env("PERFRING", env!("CARGO_BIN_EXE_perfring")).env_remove("COLUMNS");
    match command.output() {
        Ok(output) if output.status.code() != Some(99) && output.status.code().is_some() => {
            Some(Done(output)).filter(|done| {
                let refused = done.err().starts_with("unshare: ");
                if refused {
                    skipped(&done.err());
                }
                !refused
            })
        }
        Ok(output) => {
            skipped(&format!("cannot mount: {}", String::from_utf8_lossy(&output.stderr).trim()));
            None
        }
        Err(error) => {
            skipped(&format!("there is no unshare(1): {error}"));
            None
        }
    }
}

#[test]
fn a_file_system_that_copies_on_write_is_a_warning_of_create_and_of_doctor() {
    let place = Place::new();
    File::create(place.path("image")).unwrap().set_len(256 << 20).unwrap();
    std::fs::create_dir(place.path("mnt")).unwrap();
    let made = Command::new("mkfs.btrfs").arg("-q").arg(place.path("image")).output();
    if !made.is_ok_and(|made| made.status.success()) {
        return skipped("there is no mkfs.btrfs (Debian: btrfs-progs)");
    }
    let commands = "\"$PERFRING\" create mnt/ring && \"$PERFRING\" doctor --json mnt/ring";
    let Some(done) = mounted(&place, "mount -o loop image mnt", commands) else { return };
    assert!(
        done.err()
            .starts_with("perfring: warning: mnt/ring is on btrfs: a page that is written again"),
        "{}",
        done.err()
    );
    let (level, said) = check(&done, "mnt/ring", "file system");
    assert!(level == "warn" && said.contains("killed by SIGBUS"), "{level} {said}");
    assert_eq!(done.code(), 1);
}

#[test]
fn an_overlay_is_a_note_and_its_upper_directory_a_warning() {
    let place = Place::new();
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let mount = "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged";
    let commands =
        "\"$PERFRING\" create merged/ring && \"$PERFRING\" doctor --json merged/ring upper/ring";
    let Some(done) = mounted(&place, mount, commands) else { return };
    // A relative upper directory, as Docker mounts it where there are many layers.
    let (level, said) = check(&done, "merged/ring", "file system");
    assert!(level == "note" && said.contains("upper directory does not see the locks"), "{said}");
    let (level, said) = check(&done, "upper/ring", "overlay");
    let path = place.path("merged/ring");
    assert!(
        level == "warn" && said.contains(&format!("opened it as {}", path.display())),
        "{said}"
    );
    assert!(!done.out().lines().any(|line| {
        line.contains("\"overlay\"") && line.contains("\"subject\":\"merged/ring\"")
    }));
    assert_eq!(done.err().lines().count(), 1, "create has nothing to warn of: {}", done.err());
}
