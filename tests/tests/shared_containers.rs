//! Producers and the consumer of one ring in different pid and user namespaces, and of different
//! users: they share only the group's permission on the file. The kernel's lock on the file
//! decides liveness, not a pid.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use perfring_consumer::{
    Consumer,
    files::recover,
    stat::{Count, Stat},
};
use perfring_producer::{CpuProducer, Options, SharedProducer, files::create};
use perfring_testkit::wait::{WATCHDOG, until};
use perfring_tests::shared::{Driven, Raw, Reported, balance, said};
use perfring_tests::{NUMBERED, ring_dir, skip};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A user and a group that own nothing.
const STRANGER: u32 = 65_534;
const GROUP: u32 = 64_042;

/// A directory that every user may enter, with the programs in it, and a ring of the group's.
struct Yard {
    dir: TempDir,
    ring: PathBuf,
}

impl Yard {
    /// `None`, with a message, where this cannot be tried.
    fn new(mode: u32) -> Option<Self> {
        if !nix::unistd::Uid::effective().is_root() {
            skip("only root can become another user to try");
            return None;
        }
        let dir = ring_dir();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for (name, exe) in [
            ("sharer", env!("CARGO_BIN_EXE_sharer")),
            ("actor", env!("CARGO_BIN_EXE_actor")),
            ("cpuer", env!("CARGO_BIN_EXE_cpuer")),
        ] {
            std::fs::copy(exe, dir.path().join(name)).unwrap();
        }
        let ring = dir.path().join("ring");
        create(&ring, &Options { size: 1 << 14, mode, ..Options::many() }).unwrap();
        chown(&ring, Some(0), Some(GROUP)).unwrap();
        Some(Yard { dir, ring })
    }

    /// Returns a program as this user and group, on the ring, in its own namespaces if `inside`.
    fn command(&self, inside: bool, who: (u32, u32), program: &str, args: &[&str]) -> Command {
        self.command_on(&self.ring, inside, who, program, args)
    }

    fn command_on(
        &self,
        path: &Path,
        inside: bool,
        who: (u32, u32),
        program: &str,
        args: &[&str],
    ) -> Command {
        let on = path;
        let path = self.dir.path().join(program);
        let mut command = if inside {
            let mut command = Command::new("unshare");
            // The process inside dies with the unshare(1) that is driven.
            command
                .args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"])
                .arg(path);
            command
        } else {
            Command::new(path)
        };
        command.args(args).arg(on).uid(who.0).gid(who.1).current_dir("/");
        command
    }

    /// Returns whether an unprivileged user may have namespaces here.
    fn can_unshare(&self) -> bool {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "true"]);
        let output = command.uid(STRANGER).gid(GROUP).current_dir("/").output();
        match output {
            Ok(output) if output.status.success() => true,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                skip(&format!("cannot make namespaces: {}", said.trim()));
                false
            }
            Err(_) => {
                skip("there is no unshare(1) (Debian: util-linux)");
                false
            }
        }
    }

    fn drive(&self, inside: bool, who: (u32, u32), name: &str) -> (Driven, u32) {
        let (driven, line) = Driven::of(&mut self.command(inside, who, "sharer", &["drive", name]));
        let slot = line.strip_prefix("attached ").unwrap_or_else(|| panic!("{line}"));
        (driven, slot.parse().unwrap())
    }

    fn alive(&self, slot: u32) -> bool {
        let stat = Stat::read(&self.ring).unwrap();
        stat.producers.iter().any(|one| one.number == slot && one.is_alive())
    }

    fn reclaimed(&self) -> Count {
        Stat::read(&self.ring).unwrap().totals.unwrap().producer.reclaimed
    }
}

const MEMBER: (u32, u32) = (STRANGER, GROUP);
const ROOT: (u32, u32) = (0, 0);

#[test]
fn a_death_in_a_container_is_noticed_outside_and_the_other_way_round() {
    let Some(yard) = Yard::new(0o660) else { return };
    if !yard.can_unshare() {
        return;
    }
    // Two containers, each with its own namespaces, and a process outside.
    let (mut one, one_slot) = yard.drive(true, MEMBER, "one");
    let (mut two, _) = yard.drive(true, MEMBER, "two");
    let (mut three, three_slot) = yard.drive(false, ROOT, "three");
    let own = SharedProducer::attach(&yard.ring).unwrap();
    let stat = Stat::read(&yard.ring).unwrap();
    let who: Vec<_> = stat.producers.iter().map(|one| &one.owner).collect();
    // Each is the first process of its own namespace, and root there.
    assert_eq!((who[0].pid, who[0].uid, who[1].pid, who[1].uid), (1, 0, 1, 0));
    assert!(stat.producers.iter().all(|one| one.is_alive()));

    // The process inside dies; the process outside continues.
    assert_eq!(one.ask("reserve 1 1 0 100"), "ok");
    own.publish_as(NUMBERED, &said(4, 0, 100)).unwrap();
    let mut consumer = Consumer::attach(&yard.ring).unwrap();
    assert!(!consumer.wait(std::time::Duration::from_millis(30)), "not before it ends");
    assert!(yard.alive(one_slot));
    one.kill();
    until("the kernel to release the lock", || !yard.alive(one_slot));
    let mut reported = Reported::default();
    assert!(consumer.wait(WATCHDOG));
    reported.drain(&mut consumer);
    assert_eq!((reported.by(1), reported.by(4)), (&[][..], &[0][..]));
    assert_eq!(yard.reclaimed().records, 1);
    drop(consumer);

    // The process outside dies; the process inside continues, and no other process acts.
    assert_eq!(three.ask("reserve 1 3 0 100"), "ok");
    assert_eq!(two.ask("publish 2 0 100"), "ok");
    let head = Raw::read(&yard.ring).head();
    three.kill();
    assert!(!yard.alive(three_slot));
    for seq in 1..=64 {
        assert_eq!(two.ask(&format!("publish 2 {seq} 10")), "ok");
    }
    assert!(Raw::read(&yard.ring).head() > head);
    assert_eq!(yard.reclaimed().records, 2);

    // From one container to another: the consumer is in a third.
    let (mut four, four_slot) = yard.drive(true, MEMBER, "four");
    let mut command = yard.command(true, MEMBER, "actor", &["hold", "consumer"]);
    let (mut consumer, line) = Driven::of(&mut command);
    assert_eq!(line, "attached");
    consumer.send("66");
    for seq in 0..65 {
        assert_eq!(consumer.line(), ((2u64 << 32) + seq).to_string());
    }
    assert_eq!(four.ask("reserve 1 5 0 100"), "ok");
    assert_eq!(two.ask("publish 2 65 100"), "ok");
    four.kill();
    assert_eq!(consumer.line(), ((2u64 << 32) + 65).to_string());
    assert_eq!(consumer.line(), "done");
    until("the kernel to release the lock", || !yard.alive(four_slot));
    assert_eq!(yard.reclaimed().records, 3);
    two.end();
    consumer.end();
    drop(own);
    balance(&yard.ring, true);
}

#[test]
fn permission_on_the_file_is_what_it_takes() {
    let Some(yard) = Yard::new(0o640) else { return };
    let own = SharedProducer::attach(&yard.ring).unwrap();
    own.publish_as(NUMBERED, &said(0, 7, 100)).unwrap();
    // The group may read.
    let run = |who, program: &str, args: &[&str]| {
        let output = yard.command(false, who, program, args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(run(MEMBER, "actor", &["observe"]), (true, "7".to_owned(), String::new()));
    // It may not publish, and gets an error with the reason.
    let refused = |path: &Path, wanted: &str| {
        format!("refused: no permission to open {} for {wanted}", path.display())
    };
    let (_, said_of, _) = run(MEMBER, "sharer", &["drive", "member"]);
    println!("{said_of}");
    assert!(said_of.starts_with(&refused(&yard.ring, "reading and writing")), "{said_of}");
    // Users outside the group may do neither.
    let nobody = (STRANGER, STRANGER);
    let (looked, ..) = run(nobody, "actor", &["observe"]);
    assert!(!looked);
    // With write permission it may, beside root, and root detects its death.
    std::fs::set_permissions(&yard.ring, PermissionsExt::from_mode(0o660)).unwrap();
    let (_, said_of, _) = run(nobody, "sharer", &["drive", "nobody"]);
    assert!(said_of.starts_with(&refused(&yard.ring, "reading and writing")), "{said_of}");
    let (mut member, slot) = yard.drive(false, MEMBER, "member");
    assert_eq!(Stat::read(&yard.ring).unwrap().producers[1].owner.uid, STRANGER);
    assert_eq!(member.ask("reserve 1 1 0 100"), "ok");
    assert_eq!(member.ask("publish 1 1 100"), "ok");
    member.kill();
    assert!(!yard.alive(slot));
    let mut reported = Reported::default();
    let mut consumer = Consumer::attach(&yard.ring).unwrap();
    while reported.records < 2 {
        assert!(consumer.wait(WATCHDOG));
        reported.drain(&mut consumer);
    }
    assert_eq!((reported.by(0), reported.by(1)), (&[7][..], &[1][..]));
    drop((own, consumer));
    assert_eq!(balance(&yard.ring, true).totals.unwrap().producer.reclaimed.records, 1);
}

/// All of them on one CPU, each in its own namespaces.
#[test]
fn a_ring_per_cpu_is_published_to_from_containers_and_outlives_a_death_in_one() {
    let Some(yard) = Yard::new(0o660) else { return };
    if !yard.can_unshare() {
        return;
    }
    let set = yard.dir.path().join("set");
    let options = Options { size: 1 << 14, mode: 0o660, ..Options::per_cpu() };
    let own = CpuProducer::create(&set, &options).unwrap();
    let cpu = own.cpus().next().unwrap();
    let ring = set.join(format!("cpu{cpu}"));
    for path in [&set, &ring] {
        chown(path, Some(0), Some(GROUP)).unwrap();
    }
    let mut only = CpuSet::new();
    only.set(cpu as usize).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
    let drive = |name| {
        let mut command = yard.command_on(&set, true, MEMBER, "cpuer", &["drive", name]);
        Driven::of(&mut command).0
    };
    let (mut one, mut two) = (drive("one"), drive("two"));
    let mut consumer = Consumer::attach(&ring).unwrap();
    for seq in 0..100 {
        assert_eq!(one.ask(&format!("publish 1 {seq} 40")), "ok");
        assert_eq!(two.ask(&format!("publish 2 {seq} 40")), "ok");
        own.publish_as(NUMBERED, &said(3, seq, 40)).unwrap();
    }
    assert_eq!(one.ask("reserve 1 1 100 40"), "ok");
    assert_eq!(two.ask("publish 2 100 40"), "ok");
    own.publish_as(NUMBERED, &said(3, 100, 40)).unwrap();
    one.kill();
    until("the kernel to release the lock", || {
        let stat = Stat::read(&ring).unwrap();
        stat.producers.iter().filter(|one| one.is_alive()).count() == 2
    });
    // The next producer finds out, and opens the ring again.
    assert_eq!(two.ask("publish 2 101 40"), "ok");
    own.publish_as(NUMBERED, &said(3, 101, 40)).unwrap();
    let mut reported = Reported::default();
    while reported.records < 304 {
        assert!(consumer.wait(WATCHDOG), "{reported:?}");
        reported.drain(&mut consumer);
    }
    let all: Vec<u64> = (0..102).collect();
    assert_eq!([1, 2, 3].map(|who| reported.by(who)), [&all[..100], &all[..], &all[..]]);
    two.end();
    drop((own, consumer));
    recover(&ring).unwrap();
    assert_eq!(balance(&ring, false).totals.unwrap().producer.reclaimed.records, 1);
}
