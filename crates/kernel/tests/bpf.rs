//! BPF ring-buffer maps of the running kernel, to which programs submit records.
//!
//! Seen red: with the reader's cursor released instead of what was taken, without the release of discarded records, with
//! `time` read at another offset, and with a writable mapping for an observer.
#![allow(clippy::unwrap_used, clippy::panic)]

mod overwrite;

use perfring_bench::bpf::{Program, create_map, freeze, insn, map_id, number, op, open_map};
use perfring_bench::error::BenchError;
use perfring_consumer::advanced::{Front, MachineClock};
use perfring_consumer::{Cause, Item};
use perfring_kernel::{BpfFault, BpfOpenError, BpfOptions, BpfPlace, BpfRing, BpfTime};
use perfring_set::Source;
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::{Watchdog, until};
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const RINGBUF: u32 = 27;
/// The longest payload of the program.
const MOST: u64 = 264;
/// Multiplied by its number, a record's bytes.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the program does in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Submits a record.
    Submit = 0,
    /// Reserves a record, and discards it.
    Discard = 1,
    /// Submits a record with the two clocks at the offsets 8 and 16.
    Timed = 2,
}

/// A map, and a program that writes one record to it in each run.
struct Writer {
    map: OwnedFd,
    program: Program,
}

impl Writer {
    /// Makes both, if this machine permits it.
    fn new(size: u32) -> Option<Self> {
        Self::with_flags(size, 0)
    }

    /// The same with a map of these flags, of which the kernel may know none.
    fn with_flags(size: u32, flags: u32) -> Option<Self> {
        let made = create_map(RINGBUF, [0, 0], size, flags).and_then(|map| {
            let program = Program::load(&code(number(map.as_fd())))?;
            drop(open_map(map_id(map.as_fd())?)?); // another capability
            Ok(Writer { map, program })
        });
        match made {
            Ok(writer) => Some(writer),
            // No setting of this machine changes that.
            Err(BenchError::System { source, .. }) if flags != 0 && source as i32 == 22 => {
                println!(
                    "SKIPPED: this kernel has no maps in overwrite mode (Linux 6.19 has): see tools/guest"
                );
                None
            }
            Err(BenchError::System { what, source }) if [1, 13, 38].contains(&(source as i32)) => {
                let why = format!("this machine forbids {what}: {source}");
                assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "not to be skipped: {why}");
                println!("SKIPPED: {why}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Writes a record. Returns whether there was room.
    fn write(&self, seq: u64, len: u64, act: Act) -> bool {
        match self.program.run(&[seq, len, act as u64]).unwrap() {
            0 => true,
            1 => false,
            other => panic!("the program returned {other}"),
        }
    }

    fn options(&self) -> BpfOptions {
        BpfOptions::of(BpfPlace::Id(map_id(self.map.as_fd()).unwrap()))
    }

    fn consumer(&self) -> BpfRing {
        let ring = BpfRing::open(&self.options()).unwrap();
        assert!(ring.consumes());
        ring
    }

    fn observer(&self) -> BpfRing {
        let ring = BpfRing::open(&BpfOptions { observe: true, ..self.options() }).unwrap();
        assert!(!ring.consumes());
        ring
    }
}

/// A program that writes one record: its context is the number, the length and the [`Act`]. Returns 0, or 1 where there was
/// no room.
fn code(map: u32) -> Vec<u64> {
    const OUTPUT: i32 = 130;
    const RESERVE: i32 = 131;
    const DISCARD: i32 = 133;
    const KTIME: i32 = 5;
    const BOOT: i32 = 125;
    let at = |offset: u64| offset as i16 - MOST as i16;
    let load_map =
        |register| [insn(op::LOAD_IMM, register, op::MAP, 0, map as i32), insn(0, 0, 0, 0, 0)];
    let number = |register, imm| insn(op::MOVE_IMM, register, 0, 0, imm);
    let call = |function| insn(op::CALL, 0, 0, 0, function);
    let exit = |result| [number(0, result), insn(op::EXIT, 0, 0, 0, 0)];
    let mut code = vec![
        insn(op::LOAD, 6, 1, 0, 0),
        insn(op::LOAD, 7, 1, 8, 0),
        insn(op::LOAD, 8, 1, 16, 0),
        insn(op::STORE, 10, 6, at(0), 0),
        insn(op::MOVE, 1, 6, 0, 0),
        insn(op::LOAD_IMM, 2, 0, 0, SPREAD as i32),
        insn(0, 0, 0, 0, (SPREAD >> 32) as i32),
        insn(op::MULTIPLY, 1, 2, 0, 0),
    ];
    code.extend((8..MOST).step_by(8).map(|offset| insn(op::STORE, 10, 1, at(offset), 0)));
    // The two clocks.
    code.push(insn(op::JUMP_UNLESS_IMM, 8, 0, 4, Act::Timed as i32));
    code.extend([call(KTIME), insn(op::STORE, 10, 0, at(8), 0)]);
    code.extend([call(BOOT), insn(op::STORE, 10, 0, at(16), 0)]);
    // A record that is discarded.
    let mut discard = Vec::from(load_map(1));
    discard.extend([number(2, 40), number(3, 0), call(RESERVE)]);
    discard.push(insn(op::JUMP_UNLESS_IMM, 0, 0, 2, 0));
    discard.extend(exit(1));
    discard.push(insn(op::STORE, 0, 6, 0, 0));
    discard.extend([insn(op::MOVE, 1, 0, 0, 0), number(2, 0), call(DISCARD)]);
    discard.extend(exit(0));
    code.push(insn(op::JUMP_UNLESS_IMM, 8, 0, discard.len() as i16, Act::Discard as i32));
    code.extend(discard);
    // Any other record.
    code.push(insn(op::JUMP_ABOVE_IMM, 7, 0, 11, MOST as i32));
    code.extend(load_map(1));
    code.extend([insn(op::MOVE, 2, 10, 0, 0), insn(op::ADD_IMM, 2, 0, 0, -(MOST as i32))]);
    code.extend([insn(op::MOVE, 3, 7, 0, 0), number(4, 0), call(OUTPUT)]);
    code.push(insn(op::JUMP_UNLESS_IMM, 0, 0, 1, 0));
    code.push(insn(op::EXIT, 0, 0, 0, 0));
    code.extend(exit(1));
    code.extend(exit(2));
    code
}

/// Takes one record, and checks it. Returns its number.
fn take(ring: &mut BpfRing) -> Option<u64> {
    match ring.take().unwrap()?.0 {
        Item::Record(record) => Some(checked(record.bytes)),
        Item::Lost(lost) => panic!("{lost:?}"),
    }
}

fn checked(bytes: &[u8]) -> u64 {
    let seq = u64::from_ne_bytes(*bytes.first_chunk().unwrap());
    for (nth, chunk) in bytes.chunks(8).enumerate().skip(1) {
        let word = seq.wrapping_mul(SPREAD).to_ne_bytes();
        assert_eq!(chunk, &word[..chunk.len()], "word {nth} of record {seq}");
    }
    seq
}

fn release(ring: &mut BpfRing) {
    let resume_point = ring.resume_point();
    ring.release_to(&resume_point);
}

/// Returns the numbers of all records that are there.
fn drain(ring: &mut BpfRing) -> Vec<u64> {
    let mut seen = Vec::new();
    ring.peek().unwrap();
    seen.extend(std::iter::from_fn(|| take(ring)));
    release(ring);
    seen
}

#[test]
fn a_million_records_of_any_size_are_read_once_each_and_in_order_while_others_are_discarded() {
    const RECORDS: u64 = 1_000_000;
    let Some(writer) = Writer::new(64 << 10) else { return };
    let mut ring = writer.consumer();
    let mut rng = Rng::from_env();
    let (mut discards, mut refused, mut full) = (0u64, 0u64, 0u64);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let (mut next, mut polls, mut bytes) = (0, 0u64, 0u64);
            let dog = Watchdog::default();
            while next < RECORDS {
                dog.check(format_args!("record {next}"));
                ring.wait(Duration::from_millis(100));
                ring.peek().unwrap();
                polls += 1;
                while let Some((item, _)) = ring.take().unwrap() {
                    let Item::Record(record) = item else { panic!("{item:?}") };
                    assert_eq!(checked(record.bytes), next);
                    (next, bytes) = (next + 1, bytes + record.bytes.len() as u64);
                }
                release(&mut ring);
            }
            ring.peek().unwrap();
            (polls, bytes, ring.discarded(), ring.fill())
        });
        for seq in 0..RECORDS {
            while rng.below(8) == 0 {
                match writer.write(seq, 0, Act::Discard) {
                    true => discards += 1,
                    false => full += 1,
                }
            }
            // A map that is full refuses, until the reader has made room.
            let len = 8 + rng.below(MOST - 7);
            while !writer.write(seq, len, Act::Submit) {
                refused += 1;
                std::thread::yield_now();
            }
        }
        let (polls, bytes, discarded, fill) = reader.join().unwrap();
        println!(
            "{RECORDS} records of {bytes} bytes in {polls} polls; {discards} discarded; the map was full {} times",
            refused + full
        );
        // The last of them are after the last record.
        assert_eq!(discarded, (discards, discards * 48));
        assert_eq!((fill.unread, fill.held), (0, 0));
    });
}

#[test]
fn a_full_map_refuses_and_what_it_granted_is_all_there() {
    let Some(writer) = Writer::new(4096) else { return };
    let mut ring = writer.consumer();
    let (mut seq, mut rounds) = (0, 0);
    for len in [8, 9, 100, 264, 1 + 8] {
        let (mut granted, mut refused) = (0u64, 0u64);
        for offered in 0..1000 {
            match writer.write(seq + granted, len, Act::Submit) {
                true => granted += 1,
                false => refused += 1,
            }
            assert_eq!(granted + refused, offered + 1);
        }
        let size = (len + 8).next_multiple_of(8);
        assert_eq!(ring.fill().unread, granted * size);
        // As in the kernel's other rings, one byte is never used.
        assert_eq!(granted, 4095 / size);
        assert_eq!(drain(&mut ring), (seq..seq + granted).collect::<Vec<_>>());
        println!("{granted} records of {len} bytes, {refused} refused");
        seq += granted;
        rounds += 1;
    }
    assert_eq!(rounds, 5);
}

#[test]
fn a_consumer_continues_where_the_last_one_has_released() {
    let Some(writer) = Writer::new(4096) else { return };
    (0..20).for_each(|seq| assert!(writer.write(seq, 24, Act::Submit)));
    let mut first = writer.consumer();
    first.peek().unwrap();
    (0..5).for_each(|seq| assert_eq!(take(&mut first), Some(seq)));
    release(&mut first);
    // Taken, and not released.
    (5..9).for_each(|seq| assert_eq!(take(&mut first), Some(seq)));
    assert_eq!(first.fill().held, 4 * 32);
    drop(first);
    let mut second = writer.consumer();
    assert_eq!(drain(&mut second), (5..20).collect::<Vec<_>>());
    drop(second);
    assert!(drain(&mut writer.consumer()).is_empty());
}

#[test]
fn a_map_with_nothing_but_discarded_records_never_fills_up() {
    let Some(writer) = Writer::new(4096) else { return };
    let mut ring = writer.consumer();
    // A lap is 85 records of 48 bytes.
    for round in 0..20 {
        for _ in 0..50 {
            assert!(writer.write(0, 0, Act::Discard), "round {round}");
        }
        assert_eq!(ring.peek().unwrap(), Front::Empty);
    }
    assert_eq!(ring.discarded(), (1000, 48_000));
    // Not before what is held is released.
    assert!(writer.write(7, 8, Act::Submit));
    ring.peek().unwrap();
    assert_eq!(take(&mut ring), Some(7));
    assert!(writer.write(0, 0, Act::Discard));
    ring.peek().unwrap();
    assert_eq!(ring.fill().held, 16 + 48);
    release(&mut ring);
    assert_eq!(ring.fill().held, 0);
}

#[test]
fn an_observer_leaves_everything_there_and_reports_what_the_consumer_released_first() {
    let Some(writer) = Writer::new(4096) else { return };
    let [mut observer, mut other] = [writer.observer(), writer.observer()];
    (0..10).for_each(|seq| assert!(writer.write(seq, 24, Act::Submit)));
    assert_eq!(drain(&mut observer), (0..10).collect::<Vec<_>>());
    assert_eq!(observer.fill().unread, 0);
    let mut consumer = writer.consumer();
    assert_eq!(drain(&mut consumer), (0..10).collect::<Vec<_>>());
    (10..13).for_each(|seq| assert!(writer.write(seq, 24, Act::Submit)));
    assert_eq!(drain(&mut observer), [10, 11, 12]);
    other.peek().unwrap();
    match other.take().unwrap() {
        Some((Item::Lost(lost), Front::Timestamped(_))) => {
            assert_eq!(
                (lost.pos, lost.bytes, lost.records, lost.cause),
                (0, 320, 0, Cause::Lapped)
            );
            assert_eq!(
                lost.to_string(),
                format!("an unknown number of records (320 bytes) lost: {}", Cause::Lapped)
            );
        }
        item => panic!("{item:?}"),
    }
    assert_eq!(drain(&mut other), [10, 11, 12]);
}

#[test]
fn a_frozen_map_is_observed_and_not_consumed() {
    let Some(writer) = Writer::new(4096) else { return };
    freeze(writer.map.as_fd()).unwrap();
    assert!(writer.write(1, 8, Act::Submit));
    let refused = BpfRing::open(&writer.options());
    assert!(matches!(refused, Err(BpfOpenError::Frozen { .. })), "{refused:?}");
    assert_eq!(drain(&mut writer.observer()), [1]);
}

#[test]
fn the_descriptor_is_readable_while_there_is_something_to_release() {
    let Some(writer) = Writer::new(4096) else { return };
    let mut ring = writer.consumer();
    let is_readable = |ring: &BpfRing| {
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(ring, PollFlags::IN)], Some(&now)).unwrap() == 1
    };
    for seq in 0..3 {
        assert!(!is_readable(&ring));
        assert!(!ring.wait(Duration::ZERO));
        assert!(writer.write(seq, 8, Act::Submit));
        assert!(is_readable(&ring) && ring.wait(Duration::ZERO));
        assert_eq!(drain(&mut ring), [seq]);
    }
    // The kernel wakes a sleeper, which sleeps without a limit.
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel();
        let ring = &ring;
        let sleeper = scope.spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
            poll(&mut [PollFd::new(ring, PollFlags::IN)], None).unwrap();
            ring.wait(Duration::ZERO)
        });
        let stat = format!("/proc/self/task/{}/stat", receive.recv().unwrap());
        until("the other thread sleeps", || {
            let stat = std::fs::read_to_string(&stat).unwrap();
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
        });
        assert!(writer.write(3, 8, Act::Submit));
        assert!(sleeper.join().unwrap());
    });
}

#[test]
fn a_stop_ends_reading_at_what_is_there() {
    let Some(writer) = Writer::new(4096) else { return };
    (0..3).for_each(|seq| assert!(writer.write(seq, 8, Act::Submit)));
    let mut ring = writer.consumer();
    let stopper = ring.stopper();
    ring.peek().unwrap();
    assert!(!stopper.is_over() && Source::has_producer(&ring));
    stopper.stop();
    assert!(!stopper.is_over());
    ring.peek().unwrap();
    (3..9).for_each(|seq| assert!(writer.write(seq, 8, Act::Submit)));
    assert_eq!(drain(&mut ring), [0, 1, 2]);
    assert_eq!(ring.peek().unwrap(), Front::Empty);
    assert!(stopper.is_over() && !Source::has_producer(&ring));
    drop(ring);
    assert_eq!(drain(&mut writer.consumer()), [3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_second_consumer_is_reported_once_it_has_moved_the_position() {
    let Some(writer) = Writer::new(4096) else { return };
    let [mut one, mut other] = [writer.consumer(), writer.consumer()];
    assert!(writer.write(0, 8, Act::Submit));
    assert_eq!(drain(&mut one), [0]);
    let fault = other.peek().unwrap_err();
    assert_eq!(fault, BpfFault::OtherConsumer { ours: 0, found: 16 });
    assert_eq!(one.peek().unwrap(), Front::Empty);
}

#[test]
fn a_records_time_is_when_it_was_found_or_what_the_program_wrote() {
    let Some(writer) = Writer::new(4096) else { return };
    let clock = MachineClock::find().unwrap();
    let time_of = |time: Option<BpfTime>, act| {
        let mut ring = BpfRing::open(&BpfOptions { time, ..writer.options() }).unwrap();
        let before = clock.now_ns();
        assert!(writer.write(5, 24, act));
        let written = clock.now_ns();
        ring.peek().unwrap();
        let time = match ring.take().unwrap() {
            Some((Item::Record(record), _)) => record.time.unwrap(),
            item => panic!("{item:?}"),
        };
        release(&mut ring);
        (before, time, written, clock.now_ns())
    };
    let (_, time, written, found) = time_of(None, Act::Submit);
    assert!((written..=found).contains(&time));
    // The distance of the two clocks is known as exactly as both are read.
    const ERROR: u64 = 100_000;
    for at in [BpfTime::Monotonic(8), BpfTime::Boot(16)] {
        let (before, time, written, _) = time_of(Some(at), Act::Timed);
        let error = if at == BpfTime::Boot(16) { 0 } else { ERROR };
        assert!(
            (before - error..=written + error).contains(&time),
            "{at:?}: {before} {time} {written}"
        );
    }
    // A record without room for it.
    for at in [17, 24, u32::MAX] {
        let (_, time, written, found) = time_of(Some(BpfTime::Boot(at)), Act::Timed);
        assert!((written..=found).contains(&time), "{at}");
    }
}
