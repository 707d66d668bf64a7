//! A process that ends by `exit(3)` has detached, wherever it kept its attachment. A process that is killed has not, and
//! neither has the parent of a child that ends.

use nix::sys::signal::Signal;
use perfring_consumer::{
    Consumer, Item,
    stat::{SeatState, Stat},
};
use perfring_producer::{CpuProducer, Options, Policy, files::create};
use perfring_tests::ring_dir;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

const KINDS: [&str; 5] = ["one", "many", "cpu", "consumer", "named"];

/// Makes a ring for a seat of this kind. Returns the path to attach to, and the ring's file.
fn ring(dir: &Path, kind: &str) -> (PathBuf, PathBuf) {
    let path = dir.join("ring");
    match kind {
        "many" => create(&path, &Options::many()).unwrap(),
        "named" => create(&path, &Options { consumers: 2, ..Options::default() }).unwrap(),
        "cpu" => {
            let set = CpuProducer::create(&path, &Options::per_cpu()).unwrap();
            set.attach_to(0).unwrap();
            drop(set);
            let file = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            let mut rings = file.filter(|file| file.to_str().unwrap().ends_with("cpu0"));
            return (path.clone(), rings.next().unwrap());
        }
        _ => create(&path, &Options::default()).unwrap(),
    }
    (path.clone(), path)
}

fn start(kind: &str, how: &str, ring: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ender"))
        .args([kind, how, ring.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn ended(kind: &str, how: &str, ring: &Path) -> ExitStatus {
    start(kind, how, ring).wait().unwrap()
}

/// Returns the state of the seat that a process of this kind had.
fn state(kind: &str, file: &Path) -> SeatState {
    let stat = Stat::read(file).unwrap();
    match kind {
        "one" => stat.producer.state,
        "consumer" => stat.consumer.state,
        "named" => stat.consumers[0].state,
        _ => stat.producers.last().unwrap().state,
    }
}

#[test]
fn a_process_that_ends_by_exit_has_detached_wherever_it_kept_what_it_attached() {
    let mut ends = 0;
    for kind in KINDS {
        for (how, code) in [("return", 0), ("exit", 0), ("panic", 101), ("thread", 0)] {
            let dir = ring_dir();
            let (path, file) = ring(dir.path(), kind);
            assert_eq!(ended(kind, how, &path).code(), Some(code), "{kind}, {how}");
            assert_eq!(state(kind, &file), SeatState::Detached, "{kind}, {how}");
            ends += 1;
        }
    }
    println!("{ends} ends");
}

#[test]
fn a_process_that_ends_otherwise_is_dead() {
    for kind in KINDS {
        for (how, code) in [("_exit", Some(0)), ("abort", None)] {
            let dir = ring_dir();
            let (path, file) = ring(dir.path(), kind);
            assert_eq!(ended(kind, how, &path).code(), code, "{kind}, {how}");
            assert_eq!(state(kind, &file), SeatState::Dead, "{kind}, {how}");
        }
    }
}

#[test]
fn a_child_that_ends_by_exit_signs_off_nothing_of_its_parent() {
    for kind in KINDS {
        for how in ["fork", "clone"] {
            let dir = ring_dir();
            let (path, file) = ring(dir.path(), kind);
            let mut parent = start(kind, how, &path);
            let mut line = String::new();
            BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "child\n", "{kind}, {how}");
            assert_eq!(state(kind, &file), SeatState::Alive, "{kind}, {how}");
            drop(parent.stdin.take());
            assert_eq!(parent.wait().unwrap().code(), Some(0));
            // The parent has ended by `_exit(2)`. If the child had signed its seat off, it would be detached.
            assert_eq!(state(kind, &file), SeatState::Dead, "{kind}, {how}");
        }
    }
}

#[test]
fn a_process_whose_file_was_truncated_ends_with_its_own_code() {
    for kind in ["one", "many", "consumer", "named"] {
        let dir = ring_dir();
        let (path, _) = ring(dir.path(), kind);
        let status = ended(kind, "truncated", &path);
        let signal = status.signal().and_then(|number| Signal::try_from(number).ok());
        assert_eq!((status.code(), signal), (Some(0), None), "{kind}");
    }
}

#[test]
fn a_producer_that_attaches_while_its_process_ends_has_detached_too() {
    let dir = ring_dir();
    let (path, file) = ring(dir.path(), "many");
    assert_eq!(ended("many", "late", &path).code(), Some(0));
    let stat = Stat::read(&file).unwrap();
    let states: Vec<_> = stat
        .producers
        .iter()
        .filter(|member| member.owner.epoch != 0)
        .map(|member| (member.owner.name.as_str(), member.state))
        .collect();
    let wanted = [("ender", SeatState::Detached), ("late", SeatState::Detached)];
    assert_eq!(states, wanted);
}

/// How often a busy process ends.
const BUSY: u32 = 40;

#[test]
fn threads_that_publish_attach_and_detach_meanwhile_do_no_harm_to_the_end_nor_to_the_ring() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let options = Options { policy: Policy::Overwrite, ..Options::many() };
    create(&path, &options).unwrap();
    for round in 0..BUSY {
        let status = ended("many", "busy", &path);
        assert_eq!((status.code(), status.signal()), (Some(0), None), "round {round}");
        let stat = Stat::read(&path).unwrap();
        let mut states = stat.producers.iter().map(|member| member.state);
        assert!(states.clone().all(|state| state != SeatState::Alive), "round {round}");
        assert!(states.any(|state| state == SeatState::Detached), "round {round}");
    }
    let (mut records, mut consumer) = (0u64, Consumer::attach(&path).unwrap());
    while let Some(item) = consumer.read().unwrap() {
        if let Item::Record(record) = item {
            assert_eq!(record.bytes.len(), 8);
            records += 1;
        }
    }
    println!("{records} records after {BUSY} ends");
    assert!(records > 0);
}
