//! Timestamps that C takes: of one clock with Rust's, in one order, with true dates.

use super::peer;
use perfring_consumer::{Anchors, Item, Observer, Snapshot, Start, advanced::MachineClock};
use perfring_producer::{Evict, Options, Policy, Producer, error::CreateError, files::create};
use perfring_shm::ClockError;
use perfring_testkit::image::at;
use perfring_tests::foreign::{Build, Peer, c_program, lines};
use perfring_tests::{NUMBERED, number_of, numbered, ring_dir, skip};
use std::fs;
use std::path::Path;
use std::process::Command;

fn word(ring: &Path, at: usize) -> u64 {
    u64::from_ne_bytes(fs::read(ring).unwrap()[at..at + 8].try_into().unwrap())
}

/// Sets words of a ring that no process has.
fn set(ring: &Path, words: &[(usize, u64)]) {
    let mut bytes = fs::read(ring).unwrap();
    for (at, value) in words {
        bytes[*at..*at + 8].copy_from_slice(&value.to_ne_bytes());
    }
    fs::write(ring, bytes).unwrap();
}

/// Returns number and time of each record, in order.
fn times(ring: &Path) -> Vec<(u64, u64)> {
    let mut observer = Observer::attach(ring, Start::Oldest).unwrap();
    let mut found = Vec::new();
    while let Some(item) = observer.read().unwrap() {
        let Item::Record(record) = item else { continue };
        found.push((number_of(record.bytes), record.time.unwrap()));
    }
    found
}

fn timed(policy: Policy) -> Options {
    Options { size: 1 << 14, policy, time: true, ..Options::default() }
}

/// Two rings, one of C and one of Rust, whose records are made in turn: in the order of time they are in turn, each
/// timestamp is between the readings of the clock around it, and each date too.
#[test]
fn the_records_of_c_and_of_rust_are_in_turn_by_time() {
    const ROUNDS: u64 = 60;
    let dir = ring_dir();
    let exe = peer(dir.path());
    let clock = MachineClock::find().unwrap();
    for policy in [Policy::Drop, Policy::Overwrite] {
        let [ours, theirs] = ["rust", "c"].map(|who| dir.path().join(format!("{who}-{policy:?}")));
        let mut producer = Producer::create(&ours, &timed(policy)).unwrap();
        create(&theirs, &timed(policy)).unwrap();
        let mut c = Peer::start(&exe, &["script"], &theirs);
        let mut moments = vec![clock.now_ns()];
        for number in 0..ROUNDS {
            assert_eq!(c.ask("publish 40"), "0");
            moments.push(clock.now_ns());
            producer.publish_as(NUMBERED, &numbered(number, 40)).unwrap();
            moments.push(clock.now_ns());
        }
        c.end();
        drop(producer);
        let (_, last) = times(&theirs)[ROUNDS as usize - 1];
        assert_eq!(word(&theirs, at("newest_timestamp").start), last, "for a successor");
        let mut merged = Vec::new();
        for (ring, who) in [(&theirs, "c"), (&ours, "rust")] {
            merged.extend(times(ring).into_iter().map(|(number, time)| (time, number, who)));
        }
        merged.sort_by_key(|(time, ..)| *time);
        assert_eq!(merged.len() as u64, 2 * ROUNDS);
        for (nth, (time, number, who)) in merged.iter().enumerate() {
            assert_eq!((*number, *who), (nth as u64 / 2, ["c", "rust"][nth % 2]), "{nth}");
            // ABI.md, "Time": the counter of a Rust producer may be wrong by 12 µs; the clock of C is not.
            let error = if *who == "c" { 0 } else { 12_000 };
            assert!(moments[nth] <= time + error && *time <= moments[nth + 1] + error, "{nth}");
        }
        let snapshot = Snapshot::take(&theirs).unwrap();
        let anchors: &Anchors = snapshot.anchors();
        assert_eq!(anchors.all()[0].pos, 0);
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let (now, wall) = (clock.now_ns(), since.as_nanos() as u64);
        let (time, ..) = merged[0];
        let dated = anchors.wall(0, time).unwrap();
        assert!((wall - dated).abs_diff(now - time) < 1_000_000, "{dated}");
    }
}

/// Times rise from one producer to the next in one ring, whichever language each is in, however each ended.
#[test]
fn times_rise_from_c_to_rust_and_back() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    for (policy, evict) in [
        (Policy::Drop, Evict::Exact),
        (Policy::Overwrite, Evict::Exact),
        (Policy::Overwrite, Evict::Half),
    ] {
        let ring = dir.path().join(format!("{policy:?}-{evict:?}"));
        create(&ring, &Options { evict, ..timed(policy) }).unwrap();
        let newest = at("newest_timestamp").start;
        let mut ahead = 0;
        for round in 0..6 {
            let mut producer = Producer::attach(&ring).unwrap();
            for _ in 0..5 {
                let number = producer.totals().written.records;
                producer.publish_as(NUMBERED, &numbered(number, 40)).unwrap();
            }
            drop(producer);
            // Ahead of the clock by less than a second: times stand still, and do not go back.
            if round == 2 {
                ahead = word(&ring, newest) + 400_000_000;
                set(&ring, &[(newest, ahead)]);
            }
            let mut c = Peer::start(&exe, &["script"], &ring);
            for _ in 0..5 {
                assert_eq!(c.ask("publish 40"), "0");
            }
            c.kill();
            if round == 4 {
                // The dead producer had not noted its last record's time.
                let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
                let mut last = 0;
                while let Some(item) = observer.read().unwrap() {
                    let Item::Record(record) = item else { continue };
                    last = record.pos;
                }
                let data = word(&ring, at("data_offset").start);
                let at = data + (last & (word(&ring, at("data_size").start) - 1)) + 8;
                ahead = word(&ring, at as usize) + 400_000_000;
                set(&ring, &[(at as usize, ahead), (newest, 0)]);
                assert_eq!(lines(&exe, &["write", "1"], &ring).len(), 2);
            }
        }
        let times = times(&ring);
        assert!(times.is_sorted_by_key(|(_, time)| *time), "{times:?}");
        assert!(times.iter().any(|(_, time)| *time == ahead), "{ahead}");
        println!("{policy:?}, {evict:?}: {} records", times.len());
    }
}

/// The times of a ring from before a reboot are not in the future: a producer in C begins again, and clears the fields from
/// which perf's readers would compute.
#[test]
fn a_c_producer_after_a_reboot_begins_again() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let ring = dir.path().join("ring");
    create(&ring, &timed(Policy::Drop)).unwrap();
    let clock = MachineClock::find().unwrap();
    let [newest, boot, anchors] =
        ["newest_timestamp", "time_boot", "anchors_written"].map(|name| at(name).start);
    let of_now = word(&ring, boot);
    assert_ne!(of_now, 0, "this boot has an id");
    // perf's words: `lock` and `index`; `capabilities`; `pmc_width`, `time_shift` and `time_mult`; `time_zero`.
    let [lock, perf, shift, zero] = [8, 40, 48, 64];
    let hour = 3600 * 1_000_000_000;
    for (noted, boots) in [(clock.now_ns() + hour, of_now), (clock.now_ns() + hour, 7), (5, 7)] {
        set(
            &ring,
            &[
                (newest, noted),
                (boot, boots),
                (perf, 18),
                (shift, 0x0000_1234_0009_0000),
                (zero, 99),
            ],
        );
        let before = clock.now_ns();
        let said = lines(&exe, &["write", "1"], &ring);
        assert!(said[1].starts_with("written"), "{said:?}");
        let (_, time) = *times(&ring).last().unwrap();
        assert!(before <= time && time <= clock.now_ns(), "{time}: it is the clock's again");
        assert_eq!(word(&ring, boot), of_now);
        let cleared = (word(&ring, perf), word(&ring, shift), word(&ring, zero));
        let kept = (18, 0x0000_1234_0009_0000, 99);
        assert_eq!(cleared, if boots == 7 { (2, 0, 0) } else { kept });
        assert_eq!(word(&ring, lock) & 1, 0);
    }
    // A producer that died while it wrote these words left `lock` odd.
    set(&ring, &[(lock, 5), (zero, 99)]);
    assert_eq!(lines(&exe, &["write", "1"], &ring).len(), 2);
    assert_eq!((word(&ring, zero), word(&ring, lock)), (0, 6));
    // The wall clock was set meanwhile: one more anchor, from the next record on.
    let (before, first) = (word(&ring, anchors), at("anchors").start);
    set(&ring, &[(first + 16, word(&ring, first + 16) - hour)]);
    assert_eq!(lines(&exe, &["write", "1"], &ring).len(), 2);
    let all = Snapshot::take(&ring).unwrap().anchors().all().to_vec();
    assert_eq!((before, all.len()), (1, 2));
    assert!(all[1].pos > 0 && all[1].realtime_ns - all[0].realtime_ns > hour, "{all:?}");
}

/// A process in another time namespace takes the same timestamps, or says why it cannot, where the kernel does not say how
/// far its clock is shifted.
#[test]
fn c_in_another_time_namespace_has_the_same_clock_or_says_why_not() {
    let dir = ring_dir();
    let exe = peer(dir.path());
    let maker = c_program(Build::C11, "tests/foreign/c_maker.c", dir.path()).expect("a C compiler");
    let inside = || {
        let mut command = Command::new("unshare");
        command.args(["--time", "--boottime", "1000", "--fork"]);
        command
    };
    match inside().arg("true").output() {
        Err(_) => return skip("there is no unshare(1) (Debian: util-linux)"),
        Ok(output) if !output.status.success() => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return skip(&format!("cannot make a time namespace: {said}"));
        }
        Ok(_) => {}
    }
    let ring = dir.path().join("ring");
    let clock = MachineClock::find().unwrap();
    let before = clock.now_ns();
    let run = |command: &mut Command| {
        let output = command.arg(&ring).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run(inside().arg(&maker).args(["create", "time=1"])), "0 \n");
    run(inside().arg(&exe).args(["write", "5"]));
    let after = clock.now_ns();
    assert_eq!(lines(&exe, &["write", "5"], &ring).len(), 2, "and one outside of it");
    let times = times(&ring);
    assert_eq!(times.len(), 10);
    assert!(times.is_sorted_by_key(|(_, time)| *time), "{times:?}");
    assert!(times[..5].iter().all(|(_, time)| before <= *time && *time <= after), "{times:?}");
    let anchors = Snapshot::take(&ring).unwrap().anchors().all().to_vec();
    assert_eq!(anchors.len(), 1, "the wall clock was not set");
    assert!(before <= anchors[0].clock_ns && anchors[0].clock_ns <= after);

    // It has made a namespace for its children, and is not in the initial one.
    let rusts = ClockError::OtherNamespace;
    let said = run(inside().arg(&maker).args(["attach", "unshare=1"]));
    let attach =
        format!("-26 the ring has timestamps, and this process cannot take them: {rusts}\n0 \n");
    assert_eq!(said, attach, "a consumer takes none");
    fs::remove_file(&ring).unwrap();
    let said = run(inside().arg(&maker).args(["create", "time=1,unshare=1"]));
    let create = CreateError::Clock { location: ring.clone().into(), source: rusts };
    assert_eq!(said, format!("-26 {create}\n"));
    assert!(!ring.exists());
}
