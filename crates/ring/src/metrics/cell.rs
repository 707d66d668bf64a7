//! The updates of an instrument: each is some relaxed operations on words of this instrument alone.

use super::buckets::{Bucket, Buckets};
use super::kind::{LINE, MetricKind, REFUSED};
use perfring_abi::atomic::{AtomicU64, Ordering};

/// Words of a histogram's first line in each stripe; the buckets follow after the line.
pub(super) const SUM: usize = 0;
pub(super) const LEAST: usize = 1;
pub(super) const GREATEST: usize = 2;
pub(super) const ZEROS: usize = 3;
/// A gauge's words: its value, and whether it was ever set.
pub(super) const VALUE: usize = 0;
pub(super) const IS_SET: usize = 1;

/// Returns the words of a stripe of a block; empty if the block does not have the stripe.
#[inline(always)]
#[must_use]
pub(super) fn stripe_of(block: &[AtomicU64], kind: MetricKind, stripe: u32) -> &[AtomicU64] {
    let len = kind.stripe();
    let begin = LINE + stripe as usize * len;
    block.get(begin..begin + len).unwrap_or_default()
}

/// Adds to a sum of whole numbers; a negative number as its two's complement. Wraps.
#[inline(always)]
pub fn add(block: &[AtomicU64], stripe: u32, value: u64) {
    if let Some(word) = block.get(LINE + stripe as usize * LINE) {
        word.fetch_add(value, Ordering::Relaxed);
    }
}

/// Raises a sum of whole numbers, of one stripe, to this value, unless the sum is greater.
#[inline(always)]
pub fn raise(block: &[AtomicU64], value: u64) {
    if let Some(word) = block.get(LINE) {
        replace_while(word, value, |before| value > before);
    }
}

/// Replaces the value of a word if `is_beyond` returns true for the present value.
#[inline(always)]
fn replace_while(word: &AtomicU64, new: u64, is_beyond: impl Fn(u64) -> bool) {
    let mut before = word.load(Ordering::Relaxed);
    while is_beyond(before) {
        match word.compare_exchange(before, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => before = now,
        }
    }
}

/// Adds to a sum.
#[inline(always)]
pub fn add_f64(block: &[AtomicU64], stripe: u32, value: f64) {
    if let Some(word) = block.get(LINE + stripe as usize * LINE) {
        add_to(word, value);
    }
}

/// Adds to a word that has a double.
#[inline(always)]
fn add_to(word: &AtomicU64, value: f64) {
    let mut before = word.load(Ordering::Relaxed);
    loop {
        let sum = (f64::from_bits(before) + value).to_bits();
        match word.compare_exchange(before, sum, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => before = now,
        }
    }
}

/// Sets a gauge to the bits of an `f64` or of an `i64`, by its kind.
#[inline(always)]
pub fn set(block: &[AtomicU64], bits: u64) {
    change(block, |word| word.store(bits, Ordering::Relaxed));
}

/// Adds to a gauge that is an `f64`.
#[inline(always)]
pub fn adjust(block: &[AtomicU64], by: f64) {
    change(block, |word| add_to(word, by));
}

#[inline(always)]
fn change(block: &[AtomicU64], change: impl FnOnce(&AtomicU64)) {
    let Some(line) = block.get(LINE..).and_then(<[_]>::first_chunk::<LINE>) else { return };
    change(&line[VALUE]);
    if line[IS_SET].load(Ordering::Relaxed) == 0 {
        line[IS_SET].store(1, Ordering::Release); // V
    }
}

/// Counts a measurement, or a refusal if it is negative, infinite or not a number.
#[inline]
pub fn measure(block: &[AtomicU64], buckets: Buckets, stripe: u32, value: f64) {
    let words = stripe_of(block, MetricKind::Histogram(buckets), stripe);
    let Some((line, counts)) = words.split_first_chunk::<LINE>() else { return };
    let count = match buckets.bucket(value) {
        Bucket::At(at) => counts.get(at),
        Bucket::Zero => Some(&line[ZEROS]),
        Bucket::Refused => {
            if let Some(refused) = block.get(REFUSED) {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            None
        }
    };
    let Some(count) = count else { return };
    add_to(&line[SUM], value);
    replace_while(&line[LEAST], value.to_bits(), |least| value < f64::from_bits(least));
    replace_while(&line[GREATEST], value.to_bits(), |most| value > f64::from_bits(most));
    count.fetch_add(1, Ordering::Release); // V
}
