//! The rings of the running kernel in overwrite mode.
//!
//! A shell gives itself names that are numbers. Each is a `perf.Comm` record, so a hole shows.

use crate::{Driven, ERROR_NS, options};
use perfring_consumer::types::read::TypeTable;
use perfring_consumer::{Cause, Consumer, Item, Lost, RecordType};
use perfring_kernel::records::Comm;
use perfring_kernel::{EventKind, KernelRecorder, KernelSnapshot, OpenError, Options, types};
use perfring_producer::Producer;
use perfring_set::Merge;
use perfring_testkit::wait::{Watchdog, until};
use perfring_types::Record as _;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::io::Write;
use std::time::Duration;

/// Each line becomes its name.
const NAMED: &str = "while read line; do printf %s $line > /proc/$$/comm; echo $line; done";
/// After one more line, it gives itself the names 1, 2, 3 and so on, until it is killed.
const COUNTING: &str = "read line; echo $line; read line; i=0; \
    while :; do i=$((i+1)); printf %s $i > /proc/$$/comm; done";

/// Opens recorders, if this machine permits it.
fn recorders(options: &Options) -> Option<Vec<KernelRecorder>> {
    match KernelRecorder::open(options) {
        Ok(recorders) => Some(recorders),
        Err(error) if error.is_forbidden() => {
            assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "not to be skipped: {error}");
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Opens the recorder of a processor that this process may use. The child is bound to that processor.
fn recorder_of(child: &Driven, data_size: u64) -> Option<KernelRecorder> {
    let tasks = options(child.pid(), &[EventKind::Tasks]);
    let options = Options { data_size: Some(data_size), ..tasks };
    let usable = sched_getaffinity(None).unwrap();
    let is_usable = |recorder: &KernelRecorder| usable.is_set(recorder.cpu() as usize);
    let recorder = recorders(&options)?.into_iter().find(is_usable).unwrap();
    let mut cpus = CpuSet::new();
    cpus.set(recorder.cpu() as usize);
    sched_setaffinity(Pid::from_raw(child.pid() as i32), &cpus).unwrap();
    Some(recorder)
}

/// The content of a snapshot.
#[derive(Debug, Default, PartialEq)]
struct Content {
    /// The loss before everything.
    overwritten: Option<Lost>,
    /// The names, the oldest first.
    numbers: Vec<u64>,
    /// The number of a record, and how many records the kernel dropped during a snapshot before that record.
    dropped_before: Vec<(u64, u64)>,
    /// Records that the kernel dropped after the last record.
    dropped_at_end: u64,
    /// The position of the end.
    end: u64,
    last_time: u64,
}

impl Content {
    /// Returns how many records the kernel has dropped before records with greater numbers.
    fn dropped_after(&self, number: u64) -> u64 {
        let later = self.dropped_before.iter().filter(|(next, _)| *next > number);
        later.map(|(_, records)| records).sum()
    }

    fn dropped(&self) -> u64 {
        self.dropped_after(0) + self.dropped_at_end
    }
}

/// Takes everything, and checks that it has no hole that no loss explains.
fn content(mut snapshot: KernelSnapshot) -> Content {
    let (mut content, mut dropped) = (Content::default(), 0);
    let mut pos = 0;
    snapshot.peek().unwrap();
    while let Some((item, _)) = snapshot.take().unwrap() {
        match item {
            Item::Lost(lost) if lost.cause == Cause::Lapped => {
                assert_eq!(
                    (lost.pos, pos, lost.records),
                    (0, 0, 0),
                    "not the first item: {lost:?}"
                );
                assert!(lost.bytes > 0);
                (content.overwritten, pos) = (Some(lost), lost.bytes);
            }
            Item::Lost(lost) => {
                // Several in a row only if records of theirs are overwritten.
                let begin = content.overwritten.map_or(0, |lost| lost.bytes);
                let is_further = content.numbers.is_empty() && lost.pos == begin + LOST;
                assert!(lost.pos == pos || is_further, "{lost:?} after {pos}");
                assert_eq!(lost.cause, Cause::Foreign);
                dropped += lost.records;
                pos = lost.pos;
            }
            Item::Record(record) => {
                assert_eq!(record.kind, Comm::SCHEMA.id.get());
                let of_loss = if dropped > 0 { LOST } else { 0 };
                assert!([pos, pos + of_loss].contains(&record.pos), "{} after {pos}", record.pos);
                let comm: Comm = *record.as_pod().unwrap();
                let len = comm.comm.iter().position(|byte| *byte == 0).unwrap();
                let number = std::str::from_utf8(&comm.comm[..len]).unwrap().parse().unwrap();
                if let Some(last) = content.numbers.last() {
                    assert_eq!(number, last + 1 + dropped, "{dropped} were dropped");
                }
                pos = record.pos + size(number);
                if dropped > 0 {
                    content.dropped_before.push((number, std::mem::take(&mut dropped)));
                }
                content.numbers.push(number);
                assert!(record.time.unwrap() >= content.last_time);
                content.last_time = record.time.unwrap();
            }
        }
    }
    (content.dropped_at_end, content.end) = (dropped, pos);
    assert_eq!(snapshot.fill().unread, 0);
    content
}

/// The bytes of a `PERF_RECORD_LOST`: header, id, number, and the words that all records end with.
const LOST: u64 = 8 + 8 + 8 + 32;

/// The bytes of a record in the kernel's ring: header, ids, the name with a zero, and the words that all records end with.
fn size(number: u64) -> u64 {
    8 + 8 + (number.to_string().len() as u64 + 1).next_multiple_of(8) + 32
}

fn ask(child: &mut Driven, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        assert_eq!(child.ask(&number.to_string()), format!("{number}\n"));
    }
}

#[test]
fn a_recorder_that_did_not_wrap_has_everything_and_keeps_it() {
    let mut child = Driven::start(NAMED);
    let Some(mut recorder) = recorder_of(&child, 64 << 10) else { return };
    assert_eq!(content(recorder.snapshot().unwrap()), Content::default());
    ask(&mut child, 1..=100);
    let first = content(recorder.snapshot().unwrap());
    assert_eq!((&first.numbers, first.overwritten), (&(1..=100).collect(), None));
    assert_eq!(content(recorder.snapshot().unwrap()), first);
    ask(&mut child, 101..=150);
    let second = content(recorder.snapshot().unwrap());
    assert_eq!((&second.numbers, second.overwritten), (&(1..=150).collect(), None));
    assert!(second.dropped() == 0 && !recorder.is_over());
    // What was there when the process ended, or the kernel was stopped, stays.
    drop(child);
    until("its end is seen", || recorder.is_over());
    recorder.stopper().stop().unwrap();
    let numbers = |mut snapshot: KernelSnapshot| {
        let mut comms = 0;
        while let Some((item, _)) = snapshot.take().unwrap() {
            let Item::Record(record) = item else { panic!("{item:?}") };
            comms += u64::from(record.kind == Comm::SCHEMA.id.get());
        }
        comms
    };
    assert_eq!(numbers(recorder.snapshot().unwrap()), 150);
}

#[test]
fn a_recorder_that_wrapped_has_exactly_the_newest_that_fit_and_reports_an_unknown_loss() {
    let mut child = Driven::start(NAMED);
    let Some(mut recorder) = recorder_of(&child, 8192) else { return };
    let kept = 8192 / 2;
    let mut written = 0;
    let (mut wrapped, mut whole) = (0, 0);
    // Over several laps; numbers from 8 digits on have longer records.
    for from in (9_999_700..10_000_300).step_by(17) {
        ask(&mut child, from..=from + 16);
        written += (from..=from + 16).map(size).sum::<u64>();
        let mut bytes = 0;
        let fits = |number: &u64| {
            bytes += size(*number);
            bytes <= kept
        };
        let mut newest: Vec<u64> = (9_999_700..=from + 16).rev().take_while(fits).collect();
        newest.reverse();
        let there: u64 = newest.iter().copied().map(size).sum();
        let content = content(recorder.snapshot().unwrap());
        assert_eq!(content.numbers, newest);
        match content.overwritten {
            None => whole += u32::from(written == there),
            Some(lost) => wrapped += u32::from(lost.bytes == written - there && lost.bytes > 0),
        }
    }
    println!("{whole} snapshots of all, {wrapped} of a ring that had wrapped, {written} bytes");
    assert!(whole > 2 && wrapped > 20);
    assert_eq!(whole + wrapped, (600_f64 / 17.0).ceil() as u32);
}

/// Ends a process that does not read its input.
struct Killed(Driven);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.child.kill();
    }
}

#[test]
fn a_thousand_snapshots_at_full_speed_have_no_hole_and_each_is_newer() {
    const SNAPSHOTS: u32 = 1000;
    // Since Linux 6.0.
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let counts_dropped = release.split('.').next().unwrap().parse::<u32>().unwrap() >= 6;
    let drops_are_certain = counts_dropped && sched_getaffinity(None).unwrap().count() > 1;
    let mut child = Killed(Driven::start(COUNTING));
    for size in [4096, 64 << 10] {
        let Some(mut recorder) = recorder_of(&child.0, size) else { return };
        if size == 4096 {
            writeln!(child.0.to.as_mut().unwrap(), "go").unwrap();
        }
        let dog = Watchdog::default();
        let (mut newest, mut newer, mut all) = (0, 0, 0);
        let (mut wrapped, mut records, mut reported_twice) = (0, 0, 0);
        let mut before = Content::default();
        // With a second processor, some of them come while the kernel has something to write. A small ring may have no record
        // of the snapshot before.
        let is_enough = |before: &Content, reported_twice: u64| {
            !drops_are_certain || before.dropped() > 0 && (size == 4096 || reported_twice > 0)
        };
        while newer < SNAPSHOTS || !is_enough(&before, reported_twice) {
            dog.check(format_args!("{newer} snapshots that are newer than the one before"));
            let content = content(recorder.snapshot().unwrap());
            all += 1;
            wrapped += u64::from(content.overwritten.is_some());
            records += content.numbers.len();
            let Some(last) = content.numbers.last().copied() else {
                before = content;
                continue;
            };
            assert!(last >= newest, "{last} after {newest}: something is gone");
            match last > newest {
                true => newer += 1,
                false => std::thread::yield_now(),
            }
            if counts_dropped {
                // Each reports all records that were ever dropped. Those since the newest record are at the end.
                let is_newer = content.end != before.end;
                let since =
                    content.dropped_at_end - if is_newer { 0 } else { before.dropped_at_end };
                assert_eq!(
                    content.dropped(),
                    before.dropped() + since,
                    "{content:?} after {before:?}"
                );
                // Then the kernel reports the same number.
                if is_newer && content.numbers[0] <= newest {
                    let reported = content.dropped_after(newest);
                    assert_eq!(reported, before.dropped_at_end, "{content:?} after {before:?}");
                    reported_twice += reported;
                }
            }
            (newest, before) = (last, content);
        }
        println!(
            "{size} bytes: {newer} of {all} snapshots were newer, {wrapped} of a ring that had wrapped, with {records} \
             records, up to {newest}; {} records were dropped, {reported_twice} of them at the end of a snapshot and later \
             before a record",
            before.dropped()
        );
        assert!(wrapped > 0 && newest > u64::from(SNAPSHOTS));
    }
}

#[test]
fn snapshots_of_all_processors_and_a_ring_are_merged_by_time_to_their_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let ours = perfring_producer::Options { time: true, ..Default::default() };
    let mut producer = Producer::create(&path, &ours).unwrap();
    let mut child = Driven::start(NAMED);
    let Some(mut recorders) = recorders(&options(child.pid(), &[EventKind::Tasks])) else { return };
    for round in 1..=50_u64 {
        ask(&mut child, round..=round);
        producer.publish(&round.to_ne_bytes()).unwrap();
    }
    let mut merge = Merge::new(Duration::from_millis(20)).unwrap();
    let ring = merge.add(Box::new(Consumer::attach(&path).unwrap()));
    let ids: Vec<_> = recorders
        .iter_mut()
        .map(|recorder| merge.add(Box::new(recorder.snapshot().unwrap())))
        .collect();
    let (mut times, mut of_ring, mut named) = (Vec::new(), Vec::new(), Vec::new());
    let mut ring_times = Vec::new();
    let dog = Watchdog::default();
    let types: TypeTable = types();
    while of_ring.len() < 50 || !ids.iter().all(|id| merge.is_drained(*id)) {
        dog.check("the end of all snapshots");
        let Some(merged) = merge.next().unwrap() else {
            merge.wait(Duration::from_millis(20));
            continue;
        };
        let Item::Record(record) = merged.item else { panic!("{:?}", merged.item) };
        times.push(merged.time);
        if merged.source == ring {
            of_ring.push(u64::from_ne_bytes(record.bytes.try_into().unwrap()));
            ring_times.push(merged.time);
        } else {
            let kind = types.get(RecordType::new(record.kind).unwrap()).unwrap();
            assert!(kind.decode(record.bytes).is_ok());
            named.push(merged.time);
        }
    }
    assert!(times.is_sorted());
    assert_eq!((of_ring, named.len()), ((1..=50).collect(), 50));
    // Each name was given before its record, and after the record before it.
    let order = named.iter().zip(&ring_times).flat_map(|(name, ring)| [*name, *ring]);
    let order: Vec<u64> = order.collect();
    assert!(order.windows(2).all(|two| two[0] <= two[1] + ERROR_NS), "{order:?}");
}

/// In a merge with such a delay, nothing is due after the poll of a ring that is empty, unless a ring fills up.
#[test]
fn a_snapshot_of_a_ring_that_wrapped_is_no_ring_that_fills_up() {
    let mut child = Driven::start(NAMED);
    let Some(mut recorder) = recorder_of(&child, 4096) else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let ours = perfring_producer::Options { time: true, ..Default::default() };
    let _producer = Producer::create(&path, &ours).unwrap();
    let mut merge = Merge::new(Duration::from_secs(24 * 3600)).unwrap();
    merge.add(Box::new(Consumer::attach(&path).unwrap()));
    ask(&mut child, 1..=500);
    let mut snapshot = recorder.snapshot().unwrap();
    let mut unread = vec![snapshot.fill().unread];
    while let Some((item, _)) = snapshot.take().unwrap() {
        let is_record = matches!(item, Item::Record(_));
        unread.push(snapshot.fill().unread);
        assert_eq!(unread[unread.len() - 1] < unread[unread.len() - 2], is_record);
    }
    assert!(unread[0] <= 4096 && unread.ends_with(&[0]), "{unread:?}");

    merge.add(Box::new(recorder.snapshot().unwrap()));
    assert!(merge.next().unwrap().is_none());
    assert_eq!(merge.figures().hurried, 0);
}

#[test]
fn a_recorder_that_cannot_be_opened_is_an_error_with_a_reason() {
    let gone = options(u32::MAX >> 1, &[EventKind::Tasks]);
    let opened = |options: &Options| KernelRecorder::open(options).unwrap_err();
    assert!(matches!(opened(&gone), OpenError::NoProcess { .. }));
    let me = std::process::id();
    assert!(matches!(opened(&options(me, &[])), OpenError::Nothing));
    let odd = Options { data_size: Some(2048), ..options(me, &[EventKind::Tasks]) };
    let error = opened(&odd);
    assert!(error.is_forbidden() || matches!(error, OpenError::Size { size: 2048 }), "{error}");
    assert!(OpenError::Overwrite.is_forbidden());
    assert!(OpenError::Overwrite.to_string().contains("Linux 4.7"));
}
