//! Rings of CPUs on which a process may not run, and the CPUs and the boot that a container sees.
//!
//! Seen red: with an unknown boot taken for another unknown boot.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use perfring_consumer::{Consumer, Item, files::recover, stat::Stat};
use perfring_producer::{
    CpuProducer, Options,
    files::{Removal, remove},
};
use perfring_tests::shared::{Driven, Raw, balance, reporter};
use perfring_tests::{ring_dir, skip};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

fn cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false)).collect()
}

/// Makes this thread, and its children, run on this CPU alone.
fn stay_on(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
}

/// Reads all records of a ring: their producers and their numbers.
fn read(ring: &Path) -> Vec<(u64, u64)> {
    let mut consumer = Consumer::attach(ring).unwrap();
    let mut seen = Vec::new();
    while let Some(item) = consumer.read().unwrap() {
        if let Item::Record(record) = item {
            seen.push(reporter(record.bytes));
        }
    }
    seen
}

#[test]
fn the_ring_of_a_cpu_out_of_reach_is_read_recovered_and_removed() {
    let cpus = cpus();
    let (Some(&here), Some(&there)) = (cpus.first(), cpus.get(1)) else {
        return skip("there is one CPU");
    };
    for closed in [false, true] {
        let dir = ring_dir();
        let set = dir.path().join("set");
        stay_on(there);
        drop(CpuProducer::create(&set, &Options::per_cpu()).unwrap());
        let (mut victim, line) =
            Driven::start(env!("CARGO_BIN_EXE_cpuer"), &["drive", "victim"], &set);
        assert!(line.starts_with("attached"), "{line}");
        assert_eq!(victim.ask("publish 9 1 40"), "ok");
        if closed {
            assert_eq!(victim.ask("reserve 1 9 2 40"), "ok");
            assert_eq!(victim.ask("publish 9 3 40"), "ok");
        }
        victim.kill();
        let ring = set.join(format!("cpu{there}"));
        assert_eq!(Raw::read(&ring).field("cpu_state") != 0, closed);

        stay_on(here);
        // It continues here, and has the other ring only on request.
        let producer = CpuProducer::attach(&set).unwrap();
        assert_eq!(producer.cpus().collect::<Vec<_>>(), [here as u32]);
        producer.publish(b"from here").unwrap();
        assert_eq!(Stat::read(&ring).unwrap().layout.cpu as usize, there);
        let recovered = recover(&ring).unwrap();
        let swept: u64 = recovered.swept.iter().map(|(_, records)| records).sum();
        assert_eq!(swept, u64::from(closed), "{recovered:?}");
        let expected: &[(u64, u64)] = if closed { &[(9, 1), (9, 3)] } else { &[(9, 1)] };
        assert_eq!(read(&ring), expected);
        balance(&ring, false);
        producer.attach_to(there as u32).unwrap();
        drop(producer);
        remove(&ring, Removal::IfFree).unwrap();
        assert!(!ring.exists());
    }
}

/// Runs the driven program in a mount namespace in which a file is another.
fn with_files(files: &[(&str, &Path)], set: &Path) -> Option<(Driven, String)> {
    let script: String = files
        .iter()
        .map(|(path, by)| format!("mount --bind {} {path} || exit 77; ", by.display()))
        .collect();
    let mut command = Command::new("unshare");
    let program =
        format!("{script} exec {} drive inside {}", env!("CARGO_BIN_EXE_cpuer"), set.display());
    command.args(["-m", "sh", "-c", &program]);
    let (driven, line) = Driven::of(&mut command);
    if line.is_empty() && !can_mount() {
        skip("no mount namespace can be made here");
        return None;
    }
    Some((driven, line))
}

fn can_mount() -> bool {
    let mut command = Command::new("unshare");
    command.args(["-m", "mount", "--bind", "/dev/null", "/sys/devices/system/cpu/possible"]);
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn what_a_container_is_told_of_its_cpus_is_not_believed() {
    let cpu = *cpus().last().unwrap();
    let dir = ring_dir();
    let (set, fake) = (dir.path().join("set"), dir.path().join("fake"));
    std::fs::write(&fake, "4096-4097\n").unwrap();
    stay_on(cpu);
    drop(CpuProducer::create(&set, &Options::per_cpu()).unwrap());
    let lists =
        ["possible", "online", "present"].map(|list| format!("/sys/devices/system/cpu/{list}"));
    let files: Vec<_> = lists.iter().map(|list| (list.as_str(), fake.as_path())).collect();
    let Some((mut driven, line)) = with_files(&files, &set) else { return };
    assert!(line.starts_with("attached"), "{line}");
    assert_eq!(driven.ask("publish 9 1 40"), "ok");
    assert_eq!(read(&set.join(format!("cpu{cpu}"))), [(9, 1)]);
    assert_eq!(std::fs::read_dir(&set).unwrap().count(), 1);
}

/// As in `proto/ABI.md`.
const BOOT_ID: u64 = 1272;

/// Zeros in the file and zeros here need not be one boot.
#[test]
fn an_unknown_boot_is_refused() {
    stay_on(cpus()[0]);
    for (file_knows, system_knows) in [(true, true), (true, false), (false, true), (false, false)] {
        let dir = ring_dir();
        let set = dir.path().join("set");
        drop(CpuProducer::create(&set, &Options::per_cpu()).unwrap());
        let ring = set.join(format!("cpu{}", cpus()[0]));
        if !file_knows {
            let ring = std::fs::File::options().write(true).open(&ring).unwrap();
            ring.write_all_at(&[0; 16], BOOT_ID).unwrap();
        }
        let file: &[(&str, &Path)] = if system_knows {
            &[]
        } else {
            &[("/proc/sys/kernel/random/boot_id", Path::new("/dev/null"))]
        };
        let Some((_driven, line)) = with_files(file, &set) else { return };
        assert_eq!(line.starts_with("attached"), file_knows && system_knows, "{line}");
        assert!(Stat::read(&ring).is_ok());
    }
}
