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

/// `cp --sparse`, and all that do the same, leave holes where a ring has zeros.
#[test]
fn a_sparse_copy_on_a_full_tmpfs_is_refused_and_works_once_there_is_room() {
    let place = Place::new();
    std::fs::create_dir(place.path("mnt")).unwrap();
    let commands = r#"
        cd mnt
        # One CPU, and so one ring of a set.
        cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
        perfring() { taskset -c "$cpu" "$PERFRING" "$@"; }
        for kind in "one drop" "one overwrite" "many drop" "many overwrite" "cpu drop"; do
            set -- $kind
            perfring create full --size 1M --producers $1 --policy $2 >/dev/null || exit 1
            perfring -q publish full </dev/null
            cp -r --sparse=always full copy && rm -r full || exit 1
            dd if=/dev/zero of=fill bs=64K 2>/dev/null
            seq 1000 | perfring publish copy 2>../said; echo "$kind, publish: $? $(cat ../said)"
            [ $1 = cpu ] || { perfring consume copy >/dev/null 2>../said; echo "$kind, consume: $? $(cat ../said)"; }
            rm fill
            seq 1000 | perfring publish copy 2>../said; echo "$kind, with room: $? $(cat ../said)"
            echo "$kind, there: $(perfring dump copy 2>/dev/null | wc -l)"
            rm -r copy
        done"#;
    let Some(done) = mounted(&place, "mount -t tmpfs -o size=8m tmpfs mnt", commands) else {
        return;
    };
    let (out, mut seen) = (done.out(), 0);
    for line in out.lines() {
        let (kind, said) = line.split_once(", ").unwrap();
        let (what, said) = said.split_once(": ").unwrap();
        match what {
            "there" => assert_eq!(said, "1000", "{line}"),
            "with room" => {
                assert_eq!(said, "0 perfring: published 1000 records, lost 0", "{line}");
            }
            _ => assert!(
                said.starts_with("1 perfring: copy") && said.contains("lacks pages"),
                "{kind}: {line}"
            ),
        }
        seen += 1;
    }
    assert_eq!(seen, 5 * 4 - 1, "{out}{}", done.err());
}
