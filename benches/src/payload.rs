//! The payloads, and how the reader verifies them. The same code for all contestants.

/// An odd multiplier spreads a sequence number over all bits, so that a stale or torn record
/// cannot pass for a newer one.
pub const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The payloads that can be measured: each is compiled for its own length.
pub const PAYLOADS: [usize; 7] = [8, 64, 256, 1024, 4096, 16_384, 65_472];

/// Bytes of a record wherever the length does not matter.
pub const SMALL: usize = 64;

/// Calls a generic body with a payload's length as a constant: every payload of
/// [`PAYLOADS`](crate::payload::PAYLOADS) has its own code, as a program with a fixed record type
/// would.
#[macro_export]
macro_rules! sized {
    ($payload:expr, $n:ident => $body:expr) => {
        match $payload {
            8 => {
                const $n: usize = 8;
                $body
            }
            64 => {
                const $n: usize = 64;
                $body
            }
            256 => {
                const $n: usize = 256;
                $body
            }
            1024 => {
                const $n: usize = 1024;
                $body
            }
            4096 => {
                const $n: usize = 4096;
                $body
            }
            16_384 => {
                const $n: usize = 16_384;
                $body
            }
            65_472 => {
                const $n: usize = 65_472;
                $body
            }
            other => Err($crate::error::BenchError::Usage(format!("no payload of {other} bytes"))),
        }
    };
}
pub use crate::sized;

/// Writes record `seq`: its number, and in every further word a value derived from it.
#[inline(always)]
pub fn fill<const N: usize>(slot: &mut [u8; N], seq: u64) {
    let (words, _) = slot.as_chunks_mut::<8>();
    if let [first, rest @ ..] = words {
        *first = seq.to_ne_bytes();
        rest.fill(seq.wrapping_mul(SPREAD).to_ne_bytes());
    }
}

/// Returns whether every byte is as [`fill`] wrote it for `seq`.
#[inline(always)]
pub fn verify<const N: usize>(bytes: &[u8; N], seq: u64) -> bool {
    let (words, _) = bytes.as_chunks::<8>();
    let Some((first, rest)) = words.split_first() else { return false };
    let value = seq.wrapping_mul(SPREAD);
    let mut differ = u64::from_ne_bytes(*first) ^ seq;
    // All of it without a branch, so that it is vectorized.
    for word in rest {
        differ |= u64::from_ne_bytes(*word) ^ value;
    }
    differ == 0
}

/// Returns how many payloads a [`Pool`] has: a prime number, so that no lap of a ring is a multiple
/// of it and a stale record is not the one that is due, of those by which a processor divides with
/// one multiplication; and few, so that they stay in the nearest caches.
pub const fn pooled<const N: usize>() -> u64 {
    match (64 << 10) / N {
        64.. => 59,
        16.. => 13,
        4.. => 5,
        _ => 3,
    }
}

/// Payloads that exist before they are sent, as a program's events do. Number `n` is sent for each
/// record whose number is `n` modulo [`pooled`].
pub struct Pool<const N: usize>(Vec<Pooled<N>>);

/// It begins at a cache line.
#[derive(Clone)]
#[repr(align(64))]
struct Pooled<const N: usize>([u8; N]);

impl<const N: usize> Pool<N> {
    /// Writes all of them.
    #[must_use]
    pub fn new() -> Self {
        let mut pool = vec![Pooled([0; N]); pooled::<N>() as usize];
        for (number, slot) in (0..).zip(&mut pool) {
            fill(&mut slot.0, number);
        }
        Pool(std::hint::black_box(pool))
    }

    /// Returns the payload of this record.
    #[inline(always)]
    pub fn get(&self, number: u64) -> &[u8; N] {
        &self.0[(number % pooled::<N>()) as usize].0
    }
}

impl<const N: usize> Default for Pool<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a reader has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    next: u64,
    /// The number that the next record's payload was made of, and where these begin again.
    due: u64,
    period: u64,
    /// Records that were skipped.
    pub lost: u64,
    /// Records that did not match their number, or came out of order.
    pub bad: u64,
}

impl Default for Check {
    /// Every record is made of its own number.
    fn default() -> Self {
        Check { next: 0, due: 0, period: u64::MAX, lost: 0, bad: 0 }
    }
}

impl Check {
    /// Returns the check of records from a [`Pool`].
    #[must_use]
    pub fn of_pool<const N: usize>() -> Self {
        Check { period: pooled::<N>(), ..Check::default() }
    }

    /// Checks the next record.
    #[inline(always)]
    pub fn see<const N: usize>(&mut self, bytes: &[u8; N]) {
        if !verify(bytes, self.due) {
            *self = self.puzzle(bytes);
        }
        self.next = self.next.wrapping_add(1);
        self.due = if self.due + 1 == self.period { 0 } else { self.due + 1 };
    }

    /// Handles a record that is not the expected one: an intact one after a gap, or damage. By
    /// value, so that the count can stay in registers.
    #[cold]
    #[inline(never)]
    fn puzzle<const N: usize>(mut self, bytes: &[u8; N]) -> Self {
        let seq = bytes.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first));
        // Of a pool's, an old one and one after a gap look the same: the totals tell.
        let again = self.period != u64::MAX && seq < self.due;
        if (seq > self.due || again) && seq < self.period && verify(bytes, seq) {
            let gap = if again { seq + self.period - self.due } else { seq - self.due };
            self.lost += gap;
            self.next += gap;
            self.due = seq;
        } else {
            self.bad += 1;
        }
        self
    }

    /// Ends the count: what was sent and never arrived is lost.
    pub fn finish(&mut self, sent: u64) {
        self.lost += sent.saturating_sub(self.next);
        self.bad += self.next.saturating_sub(sent);
        self.next = sent;
    }

    /// Returns how many records arrived intact and in order.
    pub fn good(&self) -> u64 {
        self.next.saturating_sub(self.lost + self.bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record<const N: usize>(seq: u64) -> [u8; N] {
        let mut bytes = [0xaa; N];
        fill(&mut bytes, seq);
        bytes
    }

    fn every_flipped_bit_is_seen<const N: usize>() {
        let mut bytes = record::<N>(12_345);
        for bit in 0..N * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!verify(&bytes, 12_345), "bit {bit} of {N} bytes");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(verify(&bytes, 12_345));
        assert!(!verify(&bytes, 12_346));
    }

    #[test]
    fn a_flipped_bit_anywhere_is_seen() {
        every_flipped_bit_is_seen::<8>();
        every_flipped_bit_is_seen::<64>();
        every_flipped_bit_is_seen::<1024>();
        every_flipped_bit_is_seen::<16_384>();
    }

    #[test]
    fn a_skipped_record_is_lost_and_a_damaged_one_is_bad() {
        let mut check = Check::default();
        for seq in [0, 1, 2, 5, 6] {
            check.see(&record::<64>(seq));
        }
        assert_eq!((check.lost, check.bad, check.good()), (2, 0, 5));
        let mut torn = record::<64>(7);
        torn[63] ^= 1;
        check.see(&torn);
        check.see(&record::<64>(8));
        assert_eq!((check.lost, check.bad, check.good()), (2, 1, 6));
        check.see(&record::<64>(3)); // an old one again
        check.finish(12);
        assert_eq!((check.lost, check.bad, check.good()), (4, 2, 6));
    }

    #[test]
    fn records_of_a_pool_are_checked_in_their_order() {
        let (pool, period) = (Pool::<64>::new(), pooled::<64>());
        let mut check = Check::of_pool::<64>();
        let skipped = |seq: &u64| [5, period + 3, period + 4].contains(seq);
        for seq in (0..3 * period).filter(|seq| !skipped(seq)) {
            check.see(pool.get(seq));
        }
        assert_eq!((check.lost, check.bad, check.good()), (3, 0, 3 * period - 3));
        let mut torn = *pool.get(3 * period);
        torn[63] ^= 1;
        check.see(&torn);
        check.see(pool.get(3 * period)); // an old one again: a gap that is not
        check.finish(3 * period + 1);
        assert_eq!((check.lost, check.bad), (3 + period - 1, 1 + period));
    }

    #[test]
    fn more_than_was_sent_is_bad() {
        let mut check = Check::default();
        for seq in 0..3 {
            check.see(&record::<8>(seq));
        }
        check.finish(2);
        assert_eq!((check.lost, check.bad), (0, 1));
    }
}
