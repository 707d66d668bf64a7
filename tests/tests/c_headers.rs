//! The C headers in `proto` against Rust, in both directions: each reads the other's records, all
//! records are accounted for, and each takes over the rings that the other leaves behind.

use perfring_consumer::{
    Cause, Consumer, Item, Observer, Policy, Snapshot, Start, register_process,
    stat::{SeatState, Stat},
};
use perfring_producer::{Evict, Options, Producer, Report, ReserveError};
use perfring_testkit::image::at;
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::{WATCHDOG, until};
use perfring_tests::foreign::{Build, Peer, c_peer, lines, refused};
use perfring_tests::golden::{self, with_unmarked};
use perfring_tests::shared::Raw;
use perfring_tests::{
    NUMBERED, number_of, numbered, numbers, ring_dir, skip, within_a_second, workspace,
};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

mod losses;
mod timed;

/// Builds the program as C11.
fn peer(dir: &Path) -> PathBuf {
    c_peer(Build::C11, dir).expect("a C compiler: install gcc")
}

/// Returns an item in the form of the golden descriptions, from a line of `c_peer items`.
fn item(line: &str) -> Value {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    if words[0] == "lost" {
        return json!({
            "pos": number(1),
            "cause": Cause::from_code(number(2)).name(),
            "lost_records": number(3),
            "lost_bytes": number(4),
        });
    }
    assert_eq!(words[0], "record", "{line}");
    let hex = words[7].as_bytes().chunks(2);
    let bytes: Vec<u8> =
        hex.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect();
    let mut shown = golden::record(number(1), number(2) as u32, &bytes);
    if words[3] != "-" {
        shown["time"] = number(3).into();
        shown["wall"] = number(4).into();
    }
    if words[5] != "-" {
        shown["pid"] = number(5).into();
        shown["tid"] = number(6).into();
    }
    shown
}

fn is_item(line: &&String) -> bool {
    line.starts_with("record ") || line.starts_with("lost ")
}

/// Returns a figure from the output of `c_peer items`: `NAME RECORDS BYTES`, or `NAME POSITION`.
fn figure(lines: &[String], name: &str) -> Vec<u64> {
    let line = lines.iter().find(|line| line.split(' ').next() == Some(name)).unwrap();
    line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect()
}

/// Each level of optimisation has its own warnings, and each warning is an error.
#[test]
fn a_c_program_of_every_role_compiles_in_every_build() {
    let dir = ring_dir();
    for build in Build::ALL {
        if c_peer(build, dir.path()).is_none() {
            skip("there is no g++, which compiles the C headers as C++");
        }
    }
}

#[test]
fn c_reads_every_golden_file_as_it_is_described() {
    let dir = ring_dir();
    let mut found = 0;
    for build in [Build::C11, Build::Cxx17, Build::Sanitized] {
        let Some(exe) = c_peer(build, dir.path()) else {
            skip("there is no g++, which compiles the C headers as C++");
            continue;
        };
        let folder = workspace().join("proto/golden");
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for path in names.filter(|path| path.extension().is_some_and(|ext| ext == "perfring")) {
            let text = fs::read_to_string(path.with_extension("expect.json")).unwrap();
            let expect: Value = serde_json::from_str(&text).unwrap();
            let untouched = fs::read(&path).unwrap();
            let is_unknown =
                ["named_drop.perfring", "metrics.perfring"].iter().any(|name| path.ends_with(name));
            if expect.get("aux").is_some() || is_unknown {
                // An AUX area, named consumers or a metrics area, which the headers do not read: they report that.
                let said = refused(&exe, &["items"], &path);
                assert!(said.contains("needs features"), "{path:?}: {said}");
                continue;
            }
            let said = lines(&exe, &["items"], &path);
            let items: Vec<_> = said.iter().filter(is_item).map(|line| item(line)).collect();
            let wanted = with_unmarked(&expect["items"], &expect);
            assert_eq!(json!(items), wanted, "{build:?}, {path:?}: observer");
            assert_eq!(json!(figure(&said, "from")[0]), expect["data_tail"], "{path:?}");
            assert_eq!(json!(figure(&said, "to")[0]), expect["data_head"], "{path:?}");
            for name in ["written", "discarded", "reclaimed", "reported_full", "reported_too_large"]
            {
                let figures = figure(&said, name);
                // The golden files keep the word that they were frozen with.
                let name = name.replace("reported", "told");
                for (unit, figure) in ["records", "bytes"].into_iter().zip(figures) {
                    let key = format!("{name}_{unit}");
                    assert_eq!(json!(figure), expect["books"][&key], "{path:?}: {key}");
                }
            }
            let present = figure(&said, "written")[0] - figure(&said, "before")[0];
            assert_eq!(json!(present), expect["books"]["present_records"], "{path:?}");
            assert_eq!(fs::read(&path).unwrap(), untouched, "{path:?}: reading changed the file");

            let copy = dir.path().join("copy");
            fs::write(&copy, &untouched).unwrap();
            let said = lines(&exe, &["unread"], &copy);
            let items: Vec<_> = said.iter().map(|line| item(line)).collect();
            let wanted = with_unmarked(&expect["unread"], &expect);
            assert_eq!(json!(items), wanted, "{build:?}, {path:?}: consumer");
            let totals = Stat::read(&copy).unwrap().totals.unwrap();
            assert_eq!(totals.consumer.pos, totals.head, "{path:?}");
            let passed = totals.consumer.read.plus(totals.consumer.lapped);
            assert_eq!(passed, totals.producer.written, "{path:?}: written = read + lapped");
            found += items.len();
        }
    }
    println!("{found} unread items of golden files found by C, in three builds");
}

fn options(policy: Policy) -> Options {
    Options { size: 1 << 14, policy, ..Options::default() }
}

#[test]
fn what_c_publishes_a_rust_consumer_reads_and_all_is_accounted_for() {
    const COUNT: u64 = 200_000;
    let dir = ring_dir();
    let exe = peer(dir.path());
    for (mode, report, time) in [
        ("write", Report::InStream, false),
        ("offer", Report::InStream, false),
        ("offer", Report::CountersOnly, false),
        ("write", Report::InStream, true),
        ("offer", Report::InStream, true),
        ("offer", Report::CountersOnly, true),
    ] {
        let ring = dir.path().join(format!("{mode}-{report:?}-{time}"));
        let options = Options { report, time, ..options(Policy::Drop) };
        perfring_producer::files::create(&ring, &options).unwrap();
        let mut consumer = Consumer::attach(&ring).unwrap();
        let mut c = Peer::start(&exe, &[mode, &COUNT.to_string()], &ring);
        assert_eq!(c.line(), "ready");
        let (mut read, mut lost, mut last, mut newest) = (0, 0, None, None);
        // The last record of `offer` is one more, which waits.
        let end = COUNT - u64::from(mode == "write");
        loop {
            match consumer.read().unwrap() {
                Some(Item::Record(record)) => {
                    let number = number_of(record.bytes);
                    assert!(last < Some(number), "{number} after {last:?}");
                    assert!(record.time.is_some() == time && record.time >= newest);
                    newest = record.time;
                    // A marker comes before the record, or its losses were returned at an earlier end of the stream.
                    let missing = number - read;
                    assert!(report == Report::CountersOnly || missing <= lost, "{missing} {lost}");
                    (read, last) = (read + 1, Some(number));
                }
                Some(Item::Lost(reported)) => {
                    assert_eq!(reported.cause, Cause::Full);
                    lost += reported.records;
                }
                None if last == Some(end) => break,
                None => assert!(consumer.wait(WATCHDOG), "nothing came after {last:?}"),
            }
        }
        let said = c.end();
        drop(consumer);
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        let (written, full) =
            (totals.producer.written.records, totals.producer.refused.full.records);
        println!("{mode}, {report:?}: {said}; read {read}, reported lost {lost}");
        assert_eq!(said, format!("written {written} full {full}"));
        assert_eq!((written, written + full), (read, end + 1));
        assert_eq!(totals.consumer.read, totals.producer.written, "written = read");
        assert!((mode == "write") == (full == 0), "a test of losses must have some");
        assert_eq!(lost, full, "by markers, or at the end of the stream");
        match report {
            Report::InStream => assert_eq!(totals.unreported().records, 0),
            Report::CountersOnly => assert_eq!(totals.producer.lost_markers, 0),
        }
    }
}

#[test]
fn what_c_overwrites_a_rust_observer_follows() {
    const COUNT: u64 = 500_000;
    let dir = ring_dir();
    let exe = peer(dir.path());
    for (evict, time) in
        [(Evict::Exact, false), (Evict::Half, false), (Evict::Exact, true), (Evict::Half, true)]
    {
        let ring = dir.path().join(format!("{evict:?}-{time}"));
        let options = Options { evict, time, ..options(Policy::Overwrite) };
        perfring_producer::files::create(&ring, &options).unwrap();
        let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
        let mut c = Peer::start(&exe, &["write", &COUNT.to_string()], &ring);
        assert_eq!(c.line(), "ready");
        let (mut next, mut read, mut lapped, mut newest) = (0, 0, 0, None);
        while next < COUNT {
            match observer.read().unwrap() {
                Some(Item::Record(record)) => {
                    assert!(record.time.is_some() == time && record.time >= newest);
                    newest = record.time;
                    assert_eq!(number_of(record.bytes), next);
                    (next, read) = (next + 1, read + 1);
                }
                Some(Item::Lost(reported)) => {
                    (next, lapped) = (next + reported.records, lapped + reported.records)
                }
                None => std::thread::yield_now(),
            }
        }
        c.end();
        println!("{evict:?}: read {read}, lapped {lapped}");
        let snapshot = Snapshot::take(&ring).unwrap();
        let (present, totals) = (numbers(&snapshot).0, snapshot.totals());
        assert_eq!(totals.producer.written.records, COUNT);
        assert_eq!(totals.overwritten.plus(totals.present), totals.producer.written);
        assert!(present.into_iter().eq(totals.overwritten.records..COUNT));
    }
}

#[test]
fn what_rust_publishes_c_reads() {
    const COUNT: u64 = 200_000;
    let dir = ring_dir();
    let exe = peer(dir.path());
    for policy in [Policy::Drop, Policy::Overwrite] {
        let ring = dir.path().join(policy.name());
        let mut producer = Producer::create(&ring, &options(policy)).unwrap();
        let count = COUNT.to_string();
        let mut consumer = Peer::start(&exe, &["read", &count], &ring);
        let mut observer = Peer::start(&exe, &["observe", &count], &ring);
        assert_eq!((consumer.line(), observer.line()), ("ready".into(), "ready".into()));
        for number in 0..COUNT {
            let payload = numbered(number, 8 + number as usize % 90);
            producer.publish_timeout(NUMBERED, &payload, WATCHDOG).unwrap();
            if number % 100 == 0 {
                producer.reserve_timeout(NUMBERED, 50, WATCHDOG).unwrap().discard();
            }
        }
        let figures = |said: String| -> Vec<u64> {
            said.split(' ').filter_map(|word| word.parse().ok()).collect()
        };
        let (consumed, observed) = (figures(consumer.end()), figures(observer.end()));
        println!("{}: consumer {consumed:?}, observer {observed:?}", policy.name());
        assert_eq!(observed[0] + observed[2], COUNT, "read + lapped");
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        assert_eq!(totals.consumer.read.records, consumed[0]);
        assert_eq!(totals.consumer.lapped.records, consumed[2]);
        assert_eq!(consumed[0] + consumed[2], totals.producer.written.records);
        assert!(policy == Policy::Overwrite || consumed == [COUNT, 0, 0]);
        drop(producer);
    }
}

#[test]
fn sleepers_of_either_language_are_woken_by_the_other() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let ring = dir.path().join("ring");
    let field_of = |ring: &Path, name: &str| {
        let file = Raw::read(ring).bytes;
        u32::from_ne_bytes(file[at(name)].try_into().unwrap())
    };
    let field = |name: &str| field_of(&ring, name);
    // A C consumer, and a Rust producer that finds it armed.
    let mut producer = Producer::create(&ring, &options(Policy::Drop)).unwrap();
    let mut c = Peer::start(&exe, &["read", "1"], &ring);
    assert_eq!(c.line(), "ready");
    until("the consumer is about to sleep", || field("wait_armed") == 1);
    producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap();
    assert_eq!(c.end(), "read 1 lost 0 lapped 0");
    drop(producer);

    // A Rust consumer, and a C producer that has attached before, because an attach wakes a sleeper, and is no publish.
    // At a full second the consumer wakes by itself.
    let wakes = within_a_second(|| {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        perfring_producer::files::create(&ring, &options(Policy::Drop)).unwrap();
        let mut consumer = Consumer::attach(&ring).unwrap();
        let mut c = Peer::start(&exe, &["asked", "1"], &ring);
        assert_eq!(c.line(), "ready");
        let before = field_of(&ring, "wait_seq");
        let sleeper = std::thread::spawn(move || consumer.wait(WATCHDOG));
        until("the consumer to be about to sleep", || field_of(&ring, "wait_armed") == 1);
        c.send("now");
        assert!(c.end().starts_with("written 1"));
        assert!(sleeper.join().unwrap(), "there is a record");
        field_of(&ring, "wait_seq") - before
    });
    // Without membarrier, as in qemu, it sleeps in slices of 20 ms, and may be awake between two of them.
    assert!(wakes == 1 || (wakes == 0 && !register_process()), "{wakes} wakes, not its timeout");

    // A C producer that waits for space, and a Rust consumer that releases it.
    let mut consumer = Consumer::attach(&ring).unwrap();
    let before = field("space_seq");
    let mut c = Peer::start(&exe, &["write", "1000"], &ring);
    assert_eq!(c.line(), "ready");
    until("the producer to wait for space", || field("space_armed") == 1);
    let mut read = 0;
    while read < 1000 {
        match consumer.read().unwrap() {
            Some(_) => read += 1,
            None => assert!(consumer.wait(WATCHDOG)),
        }
    }
    assert!(field("space_seq") > before, "by a wake");
    assert!(c.end().starts_with("written 1001"));
    drop(consumer);

    // In the other direction: a Rust producer that waits, and a C consumer.
    let mut producer = Producer::attach(&ring).unwrap();
    let mut number = producer.totals().written.records;
    while producer.publish_as(NUMBERED, &numbered(number, 90)).is_ok() {
        number += 1;
    }
    let before = field("space_seq");
    std::thread::scope(|scope| {
        let sleeper =
            scope.spawn(|| producer.publish_timeout(NUMBERED, &numbered(number + 1, 90), WATCHDOG));
        until("the producer to wait for space", || field("space_armed") == 1);
        // The refused record is reported before the last.
        let said = Peer::start(&exe, &["read", &(number + 2).to_string()], &ring).end();
        assert!(said.ends_with("lost 1 lapped 0"), "{said}");
        sleeper.join().unwrap().unwrap();
    });
    assert!(field("space_seq") > before, "by a wake");
}

/// A C program in epoll is woken for each record that comes while it is there, misses none of those
/// that come at any other time, and ends while it is armed.
#[test]
fn a_c_program_in_epoll_is_woken_for_every_record() {
    const ONE_BY_ONE: u64 = 100;
    /// Each just when the one before was released, which is when it arms itself.
    const MEANWHILE: u64 = 5_000;
    const AT_ONCE: u64 = 50_000;
    let dir = ring_dir();
    let exe = peer(dir.path());
    let ring = dir.path().join("ring");
    let armed = || {
        let file = Raw::read(&ring).bytes;
        u32::from_ne_bytes(file[at("wait_armed")].try_into().unwrap()) == 1
    };
    let all_back = || {
        let file = Raw::read(&ring).bytes;
        file[at("data_tail")] == file[at("data_head")]
    };
    for policy in [Policy::Drop, Policy::Overwrite] {
        let mut producer = Producer::create(&ring, &options(policy)).unwrap();
        let meanwhile = if policy == Policy::Drop { MEANWHILE } else { 0 };
        let count = ONE_BY_ONE + meanwhile + if meanwhile > 0 { AT_ONCE } else { 0 };
        let mut c = Peer::start(&exe, &["poll", &count.to_string()], &ring);
        assert_eq!(c.line(), "ready");
        for number in 0..ONE_BY_ONE {
            until("it waits", armed);
            producer.publish_as(NUMBERED, &numbered(number, 16)).unwrap();
        }
        for number in ONE_BY_ONE..ONE_BY_ONE + meanwhile {
            until("all is handed back", all_back);
            producer.publish_as(NUMBERED, &numbered(number, 16)).unwrap();
        }
        for number in ONE_BY_ONE + meanwhile..count {
            producer.publish_timeout(NUMBERED, &numbered(number, 16), WATCHDOG).unwrap();
        }
        assert_eq!(c.end(), format!("read {count} lost 0 lapped 0"));
        drop(producer);
        std::fs::remove_file(&ring).unwrap();
    }
}

/// The same steps in both languages: the same answers, the same totals, the same contents.
#[test]
fn c_and_rust_do_the_same_in_the_same_case() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let mut steps = 0;
    for seed in 1..=24u64 {
        let mut rng = Rng::new(seed * 7919);
        let policy = if seed % 2 == 0 { Policy::Drop } else { Policy::Overwrite };
        let report = if seed % 5 == 0 { Report::CountersOnly } else { Report::InStream };
        let time = seed % 3 == 0;
        let options = Options { size: 4096, policy, report, time, ..Options::default() };
        let [ours, theirs] = ["rust", "c"].map(|who| dir.path().join(format!("{who}-{seed}")));
        perfring_producer::files::create(&theirs, &options).unwrap();
        let mut producer = Some(Producer::create(&ours, &options).unwrap());
        let mut consumer = Consumer::attach(&ours).unwrap();
        let mut c = Peer::start(&exe, &["script"], &theirs);
        for number in 0..400u64 {
            // Mostly small; some are large, some longer than the limit.
            let len = 8 + [100, 100, 100, 1000, 4100][rng.below(5) as usize].min(4200);
            let len = 8 + rng.below(len);
            let (word, keep) = match rng.below(16) {
                0..=6 => ("publish", len),
                7..=9 => ("commit", rng.below(len + 1).max(8)),
                10..=11 => ("discard", len),
                12..=14 => ("read", rng.below(40)),
                _ => ("detach", 0),
            };
            let mut answer = 0;
            let line = match word {
                "read" => {
                    for _ in 0..keep {
                        if consumer.read().unwrap().is_none() {
                            break;
                        }
                    }
                    consumer.release();
                    format!("read {keep}")
                }
                "detach" => {
                    drop(producer.take());
                    producer = Some(Producer::attach(&ours).unwrap());
                    "detach".into()
                }
                _ => {
                    match producer.as_mut().unwrap().reserve(NUMBERED, len as usize) {
                        Ok(mut record) => {
                            record.copy_from_slice(&numbered(number, len as usize));
                            match word {
                                "discard" => record.discard(),
                                _ => record.commit_len(keep as usize),
                            }
                        }
                        Err(ReserveError::Full) => answer = -13,
                        Err(ReserveError::TooLarge { .. }) => answer = -14,
                        Err(error) => panic!("{error}"),
                    }
                    format!("{word} {len} {keep}")
                }
            };
            assert_eq!(c.ask(&line), answer.to_string(), "seed {seed}, step {number}: {line}");
            steps += 1;
        }
        c.end();
        drop(producer);
        consumer.release();
        drop(consumer);
        let state = |ring: &Path| {
            let snapshot = Snapshot::take(ring).unwrap();
            let shown = |item: Item<'_>| match item {
                Item::Record(r) => golden::record(r.pos, r.kind, r.bytes),
                Item::Lost(l) => json!([l.pos, l.records, l.bytes, l.cause.name()]),
            };
            let items: Vec<_> = snapshot.iter().map(|item| shown(item.unwrap())).collect();
            let t = *snapshot.totals();
            (
                t.head,
                t.tail,
                t.producer,
                t.overwritten,
                t.present,
                t.consumer.read,
                t.consumer.lapped,
                items,
            )
        };
        assert_eq!(state(&ours), state(&theirs), "seed {seed}");
    }
    println!("{steps} steps by both");
}

/// C publishes only in rings with one producer, and names the kind of any other ring.
#[test]
fn a_c_producer_refuses_a_shared_ring_and_its_readers_do_not() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let ring = dir.path().join("many");
    perfring_producer::files::create(&ring, &Options { time: true, ..Options::many() }).unwrap();
    let said = refused(&exe, &["write", "1"], &ring);
    assert!(said.contains("is made for many producers at a time: this code publishes"), "{said}");
    assert_eq!(lines(&exe, &["unread"], &ring), Vec::<String>::new());
}

#[test]
fn a_c_producer_refuses_a_ring_per_cpu_in_rusts_words() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let ring = dir.path().join("cpu3");
    let options = Options { cpu: 3, ..Options::per_cpu() };
    perfring_producer::files::create(&ring, &options).unwrap();
    let said = refused(&exe, &["write", "1"], &ring);
    let rusts = Producer::attach(&ring).unwrap_err().to_string();
    let sentence = rusts.split_once(" is ").unwrap().1;
    assert!(said.contains(sentence), "{said}: {rusts}");
    // Its readers know such a ring.
    assert_eq!(lines(&exe, &["unread"], &ring), Vec::<String>::new());
}

#[test]
fn a_killed_c_producer_is_followed_by_rust_and_the_other_way() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    for policy in [Policy::Drop, Policy::Overwrite] {
        let ring = dir.path().join(policy.name());
        perfring_producer::files::create(&ring, &options(policy)).unwrap();
        let mut consumer = Consumer::attach(&ring).unwrap();
        let (mut next, mut deaths) = (0, 0);
        let mut drain = |upto: u64, next: &mut u64| {
            while *next < upto {
                match consumer.read().unwrap() {
                    Some(Item::Record(record)) => {
                        assert_eq!(number_of(record.bytes), *next);
                        *next += 1;
                    }
                    Some(Item::Lost(reported)) => *next += reported.records,
                    None => assert!(consumer.wait(WATCHDOG)),
                }
            }
        };
        for _ in 0..10 {
            // In the middle of an endless stream.
            let mut c = Peer::start(&exe, &["write", "0"], &ring);
            assert_eq!(c.line(), "ready");
            drain(next + 2000, &mut next);
            let error = Producer::attach(&ring).unwrap_err();
            assert!(
                error.to_string().contains("c_peer"),
                "the lock shows the live holder: {error}"
            );
            c.kill();
            deaths += 1;
            let mut producer = Producer::attach(&ring).unwrap();
            let written = producer.totals().written.records;
            drain(written, &mut next);
            for number in written..written + 50 {
                producer.publish_as(NUMBERED, &numbered(number, 40)).unwrap();
            }
            drain(written + 50, &mut next);
            drop(producer);
        }
        let totals = Stat::read(&ring).unwrap().totals.unwrap();
        println!("{}: {deaths} deaths, {} records", policy.name(), totals.producer.written.records);
    }
}

#[test]
fn a_c_program_that_detached_is_told_from_one_that_was_killed() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let ring = dir.path().join("ring");
    perfring_producer::files::create(&ring, &options(Policy::Overwrite)).unwrap();
    let states =
        || Stat::read(&ring).map(|stat| (stat.producer.state, stat.consumer.state)).unwrap();
    for (written, read, end) in
        [("10", "10", SeatState::Detached), ("0", "1000000000000", SeatState::Dead)]
    {
        let mut producer = Peer::start(&exe, &["write", written], &ring);
        let mut consumer = Peer::start(&exe, &["read", read], &ring);
        assert_eq!((producer.line(), consumer.line()), ("ready".into(), "ready".into()));
        if end == SeatState::Dead {
            assert_eq!(states(), (SeatState::Alive, SeatState::Alive));
            producer.kill();
            consumer.kill();
        } else {
            producer.end();
            consumer.end();
        }
        assert_eq!(states(), (end, end));
    }
}

#[test]
fn a_child_of_a_c_producer_has_nothing_of_its_ring() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let ring = dir.path().join("ring");
    perfring_producer::files::create(&ring, &options(Policy::Drop)).unwrap();
    let mut c = Peer::start(&exe, &["fork"], &ring);
    let mut said = [c.line(), c.line()];
    said.sort();
    assert_eq!(said, ["child -16 -16", "parent 0"]);
    // The parent has killed itself; the child lives until its input ends.
    until("the parent's death to be detected", || Producer::attach(&ring).is_ok());
    c.kill();
    let totals = Stat::read(&ring).unwrap().totals.unwrap();
    assert_eq!(totals.producer.written.records, 1, "the parent's alone");
}

/// At the unmap the handle is on no list, and a fork in another thread would not detach the child from
/// the lock.
#[test]
fn a_closing_c_handle_holds_no_lock_once_it_unmaps() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let ring = dir.path().join("ring");
    perfring_producer::files::create(&ring, &options(Policy::Drop)).unwrap();
    let mut c = Peer::start(&exe, &["close"], &ring);
    assert_eq!(c.line(), "closing");
    // The consumer's header and data while the producer is attached; then the producer's, and its
    // slots.
    assert_eq!([c.line(), c.line(), c.line()], ["1 0", "0 0", "0 0"]);
    assert_eq!(c.end(), "closed");
}
