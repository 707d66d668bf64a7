//! The words of a ring in memory that any process with the file can change.

use perfring_abi::atomic::{AtomicU32, AtomicU64, Ordering};
use perfring_abi::{Header, Slot};

/// A word of a ring.
#[derive(Debug)]
pub enum Word<'a> {
    /// A word of 64 bits.
    Long(&'a AtomicU64),
    /// A word of 32 bits.
    Short(&'a AtomicU32),
}

impl Word<'_> {
    /// Loads the word.
    #[must_use]
    pub fn load(&self) -> u64 {
        match self {
            Word::Long(word) => word.load(Ordering::Relaxed),
            Word::Short(word) => word.load(Ordering::Relaxed).into(),
        }
    }

    /// Stores the word.
    pub fn store(&self, value: u64) {
        match self {
            Word::Long(word) => word.store(value, Ordering::Relaxed),
            Word::Short(word) => word.store(value as u32, Ordering::Relaxed),
        }
    }
}

/// Returns the words that readers and writers read first: head, tail, the end of the reservations,
/// and the lock.
#[must_use]
pub fn positions(header: &Header) -> [&AtomicU64; 4] {
    [&header.data_head, &header.data_tail, &header.shared.producer_pos, &header.shared.lock]
}

/// Returns all other words in header and slots that change while a ring is in use. Inputs of the
/// fuzzer contain indices of this list.
#[must_use]
pub fn others<'a>(header: &'a Header, slots: &'a [Slot]) -> Vec<Word<'a>> {
    let mut long = vec![&header.perf_time.scale, &header.perf_time.zero];
    long.extend(header.tail_mark.copies.iter().flatten());
    long.extend(header.producer.copies.iter().flatten());
    long.extend([&header.wait.wake_pos, &header.wait.wake_records, &header.space.wake_pos]);
    long.extend(header.consumer.copies.iter().flatten());
    long.push(&header.consumer_holder.epoch);
    long.extend(&header.consumer_holder.name);
    let line = &header.shared;
    long.extend([
        &line.running_written,
        &line.running_stale,
        &line.newest_timestamp,
        &line.running_more,
    ]);
    long.extend(&line.running);
    long.extend([&line.stuck_pos, &line.stuck_since_ns]);
    long.extend([&header.time.boot, &header.time.anchors_written]);
    long.extend(header.time.anchors.iter().flatten());
    for slot in slots {
        long.push(&slot.holder.epoch);
        long.extend(slot.written.copies.iter().flatten());
        long.extend(slot.losses.copies.iter().flatten());
        long.extend(&slot.base);
    }
    let short = [&header.wait.armed, &header.wait.seq, &header.space.armed, &header.space.seq];
    let short = short.into_iter().chain([&header.perf_time.lock]);
    // Last, so that the indices of the others stay.
    let tails = header.named_tails.iter().flatten().chain([&header.tail_next]);
    let all = long.into_iter().map(Word::Long).chain(short.map(Word::Short));
    all.chain(tails.map(Word::Long)).collect()
}
