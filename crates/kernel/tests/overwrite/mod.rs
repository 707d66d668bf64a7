//! Maps in overwrite mode: the kernel's own, so only where the kernel is Linux 6.19 or younger. `tools/guest` runs these in a
//! machine that has such a kernel.
//!
//! Seen red: with the check after each copy left out, with the cursor moved to the newest record after a loss, and with a
//! loss that is short by one word.

mod traces;

use super::{Act, MOST, Writer, checked};
use perfring_consumer::{Cause, Item};
use perfring_kernel::BpfRing;
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::{Watchdog, until};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// `BPF_F_RB_OVERWRITE`
const OVERWRITE: u32 = 1 << 19;
const SIZE: u64 = 16 << 10;

/// Returns a writer of a map in overwrite mode, if this machine has such maps.
fn overwriting(size: u32) -> Option<Writer> {
    let writer = Writer::with_flags(size, OVERWRITE);
    if writer.is_none() {
        assert!(std::env::var_os("PERFRING_GUEST").is_none(), "the guest's kernel lacks the mode");
    }
    writer
}

/// What a record of one number is: all of it follows from the number.
fn shape(seq: u64) -> (u64, Act) {
    let mut rng = Rng::new(seq);
    match rng.below(9) {
        0 => (40, Act::Discard),
        _ => (8 + rng.below(MOST - 7), Act::Submit),
    }
}

/// Returns the bytes that the map needs for a number's record.
fn size(seq: u64) -> u64 {
    (shape(seq).0 + 8).next_multiple_of(8)
}

/// Returns the positions of the records of a single writer, up to a number: that after the last one is the last.
fn positions(records: u64) -> Vec<u64> {
    (0..records).fold(vec![0], |mut all, seq| {
        all.push(all.last().unwrap() + size(seq));
        all
    })
}

/// What a reader got, held against what was written.
struct Account<'a> {
    positions: &'a [u64],
    /// The number of the next record.
    next: u64,
    records: u64,
    lost: u64,
    losses: u64,
}

impl<'a> Account<'a> {
    fn new(positions: &'a [u64]) -> Self {
        Account { positions, next: 0, records: 0, lost: 0, losses: 0 }
    }

    /// Skips discarded records, of which a reader gets nothing.
    fn pass_discarded(&mut self) {
        while (self.next as usize) < self.positions.len() - 1 && shape(self.next).1 == Act::Discard
        {
            self.next += 1;
        }
    }

    /// Takes everything that is there now, at most so many records.
    fn take(&mut self, ring: &mut BpfRing, most: u64) {
        ring.peek().unwrap();
        for _ in 0..most {
            let Some((item, _)) = ring.take().unwrap() else { return };
            match item {
                Item::Record(record) => {
                    self.pass_discarded();
                    let seq = checked(record.bytes);
                    assert_eq!(seq, self.next, "a record is missing, or comes twice");
                    assert_eq!(record.bytes.len() as u64, shape(seq).0);
                    assert_eq!(record.pos, self.positions[seq as usize]);
                    self.next += 1;
                    self.records += 1;
                }
                Item::Lost(lost) => {
                    assert_eq!((lost.cause, lost.records), (Cause::Lapped, 0));
                    // Discarded records may lie before what was lost. The account may have passed others before the reader.
                    let begin =
                        self.positions.binary_search(&lost.pos).expect("a record's position")
                            as u64;
                    let mut between = begin.min(self.next)..begin.max(self.next);
                    assert!(
                        between.all(|seq| shape(seq).1 == Act::Discard),
                        "{begin}, {}",
                        self.next
                    );
                    let end = self.positions.binary_search(&(lost.pos + lost.bytes));
                    self.next = end.expect("a record's position") as u64;
                    self.lost += lost.bytes;
                    self.losses += 1;
                }
            }
        }
    }
}

/// The writer waits for the reader after each section. Through every other section, which is several turns of the map, the
/// reader waits, too: so there are losses and records, whichever of the two is faster.
#[test]
fn a_flood_over_many_turns_leaves_a_slow_reader_whole_records_and_exact_losses() {
    const RECORDS: u64 = 200_000;
    const SECTION: u64 = 1_000;
    let Some(writer) = overwriting(SIZE as u32) else { return };
    let positions = positions(RECORDS);
    let (written, caught_up) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut rng = Rng::from_env();
    std::thread::scope(|scope| {
        let (positions, written, caught_up) = (&positions, &written, &caught_up);
        let mut ring = writer.observer();
        let reader = scope.spawn(move || {
            let (mut account, dog) = (Account::new(positions), Watchdog::default());
            loop {
                dog.check(format_args!("record {}", account.next));
                let now = written.load(Ordering::Acquire);
                let is_whole = now.is_multiple_of(SECTION);
                if !is_whole && (now / SECTION).is_multiple_of(2) {
                    std::thread::yield_now();
                    continue;
                }
                // A few, many, or after more than a turn.
                match rng.below(4) {
                    0 => {
                        let until = (now + rng.below(400)).min(now.next_multiple_of(SECTION));
                        while written.load(Ordering::Acquire) < until {
                            dog.check(format_args!("record {until} is written"));
                            std::thread::yield_now();
                        }
                    }
                    1 => account.take(&mut ring, rng.below(20)),
                    _ => account.take(&mut ring, u64::MAX),
                }
                if is_whole {
                    account.take(&mut ring, u64::MAX);
                    account.pass_discarded();
                    assert!(account.next >= now, "what was written last is read");
                    caught_up.store(now, Ordering::Release);
                    if now == RECORDS {
                        return (account.next, account.records, account.lost, account.losses);
                    }
                }
            }
        });
        for seq in 0..RECORDS {
            let (len, act) = shape(seq);
            assert!(writer.write(seq, len, act), "a map in overwrite mode refuses nothing");
            written.store(seq + 1, Ordering::Release);
            if (seq + 1).is_multiple_of(SECTION) {
                until("the reader has read the section", || {
                    caught_up.load(Ordering::Acquire) > seq
                });
            }
        }
        let (next, records, lost, losses) = reader.join().unwrap();
        let (turns, sections) = (positions[RECORDS as usize] / SIZE, RECORDS / SECTION);
        println!(
            "{RECORDS} records in {turns} turns: {records} read, {lost} bytes in {losses} losses"
        );
        assert_eq!(next, RECORDS);
        assert!(turns > 5 * sections && losses >= sections / 2 && records > 10 * sections);
    });
}

#[test]
fn what_is_there_at_the_end_is_the_longest_suffix_that_fits() {
    const RECORDS: u64 = 5_000;
    let Some(writer) = overwriting(SIZE as u32) else { return };
    let positions = positions(RECORDS);
    let mut shortest = u64::MAX;
    for seq in 0..RECORDS {
        let (len, act) = shape(seq);
        assert!(writer.write(seq, len, act));
        if seq % 97 != 0 && seq != RECORDS - 1 {
            continue;
        }
        let mut ring = writer.observer();
        let mut account = Account::new(&positions[..seq as usize + 2]);
        let head = positions[seq as usize + 1];
        let oldest = (0..=seq).find(|oldest| head - positions[*oldest as usize] < SIZE).unwrap();
        account.next = oldest;
        account.take(&mut ring, u64::MAX);
        account.pass_discarded();
        assert_eq!((account.next, account.losses), (seq + 1, 0));
        if oldest > 0 {
            shortest = shortest.min(account.records);
        }
    }
    println!("{shortest} records or more in {SIZE} bytes");
    assert!(shortest > 40);
}

#[test]
fn two_writers_and_a_slow_reader_leave_no_byte_unaccounted() {
    const EACH: u64 = 100_000;
    let Some(writer) = overwriting(SIZE as u32) else { return };
    let done = AtomicU64::new(0);
    let mut rng = Rng::from_env();
    let mut ring = writer.observer();
    std::thread::scope(|scope| {
        for who in 0..2 {
            let (writer, done) = (&writer, &done);
            scope.spawn(move || {
                // A reservation of the other writer that stays open for a turn refuses what would overwrite it.
                let write = |seq: &u64| {
                    let (len, act) = shape(*seq);
                    writer.write(seq * 2 + who, len, act)
                };
                let bytes: u64 = (0..EACH).filter(write).map(size).sum();
                done.fetch_add(1 + (bytes << 8), Ordering::Release);
            });
        }
        let (mut pos, mut next, mut records, mut read) = (0, [0, 1], 0u64, 0u64);
        let (mut lost, mut losses) = (0u64, 0u64);
        let dog = Watchdog::default();
        loop {
            let over = done.load(Ordering::Acquire) & 0xff == 2;
            dog.check(format_args!("byte {pos}"));
            if rng.below(8) == 0 {
                ring.wait(Duration::from_millis(1));
            }
            ring.peek().unwrap();
            while let Some((item, _)) = ring.take().unwrap() {
                match item {
                    Item::Record(record) => {
                        let seq = checked(record.bytes);
                        assert!(seq >= next[seq as usize % 2], "a writer's records in their order");
                        next[seq as usize % 2] = seq + 2;
                        assert_eq!(record.bytes.len() as u64, shape(seq / 2).0);
                        // Discarded records alone are between one item and the next.
                        assert!(record.pos >= pos && (record.pos - pos).is_multiple_of(48));
                        pos = record.pos + size(seq / 2);
                        (records, read) = (records + 1, read + size(seq / 2));
                    }
                    Item::Lost(bytes) => {
                        assert!(bytes.pos >= pos && (bytes.pos - pos).is_multiple_of(48));
                        pos = bytes.pos + bytes.bytes;
                        (lost, losses) = (lost + bytes.bytes, losses + 1);
                    }
                }
            }
            if over {
                break;
            }
        }
        let written = done.load(Ordering::Acquire) >> 8;
        let (discarded, bytes) = ring.discarded();
        println!(
            "{written} bytes written, {read} read in {records} records, {bytes} discarded in {discarded}, {lost} lost in \
             {losses} losses"
        );
        assert_eq!(ring.fill().unread, 0);
        assert!(records > 1000 && losses > 10);
        assert_eq!(read + bytes + lost, written);
    });
}
