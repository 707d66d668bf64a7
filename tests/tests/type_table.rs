//! The type table: many processes register at once, it is full, it is missing, it is invalid.

use perfring_consumer::{Consumer, Item, Observer, Snapshot, Start};
use perfring_producer::types::{Encoding, Schema};
use perfring_producer::{Options, Producer, ReserveError, SharedProducer, error::TypeError};
use perfring_tests::{
    NUMBERED, NUMBERED_TYPE, OTHER_TYPE, actor, numbered, register, ring_dir, types_in,
};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

const TYPES: u32 = 200;

#[test]
fn processes_that_register_the_same_types_at_once_put_each_there_once() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    perfring_producer::files::create(&ring, &Options::many()).unwrap();
    let mut actors: Vec<_> = (0..6)
        .map(|n| {
            // Half of them at the same time, the others one after another.
            let (count, from) = (TYPES.to_string(), (n % 2 * n * 7).to_string());
            actor(env!("CARGO_BIN_EXE_actor"), &["register", &count, &from], &ring)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for actor in &mut actors {
        let mut line = String::new();
        BufReader::new(actor.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }
    for actor in &mut actors {
        actor.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }
    for mut actor in actors {
        assert!(actor.wait().unwrap().success());
    }
    let types = types_in(&Snapshot::take(&ring).unwrap());
    assert_eq!(types.len(), TYPES as usize);
    assert!(types.values().all(|&times| times == 1), "{types:?}");
}

#[test]
fn threads_that_register_at_once_do_not_spoil_each_others_entries() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    perfring_producer::files::create(&ring, &Options::many()).unwrap();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let ring = &ring;
            scope.spawn(move || {
                let producer = SharedProducer::attach(ring).unwrap();
                for number in 0..100 {
                    // Half of them are shared by all.
                    let whose = if number % 2 == 0 { 9 } else { n };
                    let name = format!("tests.Type{whose}.{number}");
                    register(&producer, &Schema::new(&name, Encoding::Json).with_hashed_id());
                }
            });
        }
    });
    let types = types_in(&Snapshot::take(&ring).unwrap());
    assert_eq!(types.len(), 50 + 4 * 50);
    assert!(types.values().all(|&times| times == 1), "{types:?}");
}

#[test]
fn of_threads_that_register_a_new_type_at_the_same_moment_one_does() {
    const ROUNDS: usize = 300;
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    perfring_producer::files::create(&ring, &Options::many()).unwrap();
    let together = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let producer = SharedProducer::attach(&ring).unwrap();
                for round in 0..ROUNDS {
                    let name = format!("tests.Round{round}");
                    let schema = Schema::new(&name, Encoding::Json).with_hashed_id();
                    together.wait();
                    register(&producer, &schema);
                }
            });
        }
    });
    let types = types_in(&Snapshot::take(&ring).unwrap());
    assert_eq!(types.len(), ROUNDS);
    assert!(types.values().all(|&times| times == 1), "{types:?}");
}

#[test]
fn a_full_table_says_so_and_holds_what_it_held() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let options = Options { types_size: 4096, ..Options::default() };
    let mut producer = Producer::create(&ring, &options).unwrap();
    let mut registered = 0;
    let full = loop {
        let name = format!("tests.Type{registered}");
        match producer.register(&Schema::new(&name, Encoding::Json).with_hashed_id()) {
            Ok(()) => registered += 1,
            Err(error) => break error,
        }
    };
    let ReserveError::Type(TypeError::Full { needed, left }) = full else { panic!("{full:?}") };
    assert!(needed > left && left < 100, "{needed} {left}");
    assert!(full.to_string().contains("make the ring with a larger one"), "{full}");
    assert!(registered > 40, "{registered}");
    // Present types stay, and are found.
    let known = Schema::new("tests.Type3", Encoding::Json).with_hashed_id();
    assert_eq!(producer.register(&known), Ok(()));
    assert_eq!(types_in(&Snapshot::take(&ring).unwrap()).len(), registered);
    // Records continue.
    producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap();

    let none = dir.path().join("none");
    let options = Options { types_size: 0, ..Options::default() };
    let mut producer = Producer::create(&none, &options).unwrap();
    let refused = producer.register(&OTHER_TYPE);
    assert_eq!(refused, Err(ReserveError::Type(TypeError::NoTable)));
    assert!(types_in(&Snapshot::take(&none).unwrap()).is_empty());
}

#[test]
fn a_number_has_one_layout_and_any_help() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut producer = Producer::create(&ring, &Options::default()).unwrap();
    producer.register(&NUMBERED_TYPE).unwrap();
    let rephrased = Schema { help: "another text", ..NUMBERED_TYPE };
    assert_eq!(producer.register(&rephrased), Ok(()));
    let other = Schema { id: NUMBERED, ..OTHER_TYPE };
    let taken = Err(ReserveError::Type(TypeError::Taken { id: NUMBERED.get() }));
    assert_eq!(producer.register(&other), taken);
    drop(producer);
    // The next producer gets the same error.
    let mut producer = Producer::attach(&ring).unwrap();
    assert_eq!(producer.register(&other), taken);
    assert_eq!(producer.register(&rephrased), Ok(()));
    assert_eq!(types_in(&Snapshot::take(&ring).unwrap()).len(), 1);
}

#[test]
fn a_lock_that_is_never_given_back_is_waited_for_only_so_long() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    perfring_producer::files::create(&ring, &Options::many()).unwrap();
    let producer = SharedProducer::attach(&ring).unwrap();
    let at = producer.layout().areas().types.start;
    let file = OpenOptions::new().read(true).write(true).open(&ring).unwrap();
    lock(&file, at);
    assert_eq!(producer.register(&OTHER_TYPE), Err(ReserveError::Type(TypeError::Busy)));
    producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap(); // records continue meanwhile
    drop(file);
    assert_eq!(producer.register(&OTHER_TYPE), Ok(()));
}

fn lock(file: &File, byte: u64) {
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
}

/// Overwrites words of the table, and checks that readers and writers survive it.
fn survives(ring: &Path, what: &str, words: &[(u64, u64)]) {
    let file = OpenOptions::new().read(true).write(true).open(ring).unwrap();
    let at = Snapshot::take(ring).unwrap().layout().areas().types.start;
    for (offset, word) in words {
        file.write_all_at(&word.to_ne_bytes(), at + offset).unwrap();
    }
    let count = Snapshot::take(ring).unwrap().types().entries().count();
    assert!(count < 70_000, "{what}: {count}");
    let observer = Observer::attach(ring, Start::Oldest).unwrap();
    assert!(!observer.has_more_types(&observer.types()), "{what}");
    let mut producer = Producer::attach(ring).unwrap();
    let answer = producer.register(&NUMBERED_TYPE);
    match answer {
        Ok(()) => {
            let snapshot = Snapshot::take(ring).unwrap();
            let mut good = snapshot.types().entries().map_while(Result::ok);
            assert!(good.any(|entry| entry.id == NUMBERED), "{what}");
        }
        Err(ReserveError::Type(TypeError::Damaged { at })) => assert_eq!(at % 8, 0, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
    producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap();
    drop(producer);
    let mut consumer = Consumer::attach(ring).unwrap();
    assert!(matches!(consumer.read().unwrap(), Some(Item::Record(_))), "{what}");
}

#[test]
fn an_invalid_table_does_no_harm() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let mut producer = Producer::create(&ring, &Options::default()).unwrap();
    producer.register(&OTHER_TYPE).unwrap();
    drop(producer);
    let size = 64 << 10;
    for used in [0, 7, 63, 64, 65, 72, 80, 4096, size - 8, size, size + 8, 1 << 40, u64::MAX] {
        survives(&ring, &format!("used {used}"), &[(0, used)]);
    }
    for word in [0, 8, 24, 32, 4096 << 32 | 32, u64::MAX, size] {
        for offset in [64, 72, 80, 88, 96] {
            let what = format!("{word:#x} at {offset}");
            survives(&ring, &what, &[(0, 4096), (offset, word)]);
        }
    }
}
