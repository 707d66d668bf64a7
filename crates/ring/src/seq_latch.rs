//! Reading and writing a [`SeqLatch`]: two copies, one of which is always whole.

use perfring_abi::SeqLatch;
use perfring_abi::atomic::{AtomicU64, Ordering, fence, spin_loop};

/// How often a reader retries when both copies changed while it read them. A live writer leaves one
/// copy whole while it writes the other, so this many failures mean that the
/// page is corrupt.
const TRIES: u32 = if cfg!(loom) { 3 } else { 1000 };

#[derive(Debug, Default)]
pub(crate) struct SeqLatchWriter {
    seq: u64,
    /// The lowest bit of `phase ^ seq` is the copy that is written next, so that a write with the next number changes
    /// `seq` alone.
    phase: u64,
}

impl SeqLatchWriter {
    /// Continues after `kept`, the copy that counts. The next write replaces the other copy, which may
    /// be whole and newer. Its number must not be reused with another body, so the next number is
    /// higher than both.
    pub(crate) fn after<const N: usize>(
        seq_latch: &SeqLatch<N>,
        kept: Option<&LatchCopy<N>>,
    ) -> Self {
        let numbers =
            [0, 1].map(|copy| read_copy(seq_latch, copy).map_or(0, |whole| whole.words[0]));
        let seq = numbers[0].max(numbers[1]);
        SeqLatchWriter { seq, phase: seq ^ kept.map_or(0, |whole| 1 - whole.copy as u64) }
    }

    #[inline(always)]
    fn next<'a, const N: usize>(&self, seq_latch: &'a SeqLatch<N>) -> &'a [AtomicU64; N] {
        &seq_latch.copies[(self.seq ^ self.phase) as usize & 1]
    }

    /// Returns whether another writer has continued after this writer. A smaller number comes from no writer: the page
    /// is damaged, or its file was truncated.
    pub(crate) fn is_passed<const N: usize>(&self, seq_latch: &SeqLatch<N>) -> bool {
        // Relaxed: any number of another writer is enough.
        let [one, other] = [0, 1].map(|copy| seq_latch.copies[copy][0].load(Ordering::Relaxed));
        one.max(other) > self.seq
    }

    /// Writes a copy with the next number.
    #[inline]
    pub(crate) fn write<const N: usize>(&mut self, seq_latch: &SeqLatch<N>, words: &[u64; N]) {
        let seq = self.seq.wrapping_add(1);
        write_copy(self.next(seq_latch), seq, 1, &words[1..N - 1]);
        self.seq = seq;
    }

    /// Writes a copy with a number that the caller knows to rise: the position of the tail mark.
    #[inline(always)]
    pub(crate) fn write_as<const N: usize>(
        &mut self,
        seq_latch: &SeqLatch<N>,
        seq: u64,
        words: &[u64; N],
    ) {
        write_copy(self.next(seq_latch), seq, 1, &words[1..N - 1]);
        self.phase ^= self.seq ^ seq ^ 1;
        self.seq = seq;
    }

    /// Writes a copy with the next number, if all other words of that copy are as they should be: only these,
    /// from `at` on, are stored.
    #[inline(always)]
    pub(crate) fn write_some<const N: usize, const M: usize>(
        &mut self,
        seq_latch: &SeqLatch<N>,
        at: usize,
        words: &[u64; M],
    ) {
        let seq = self.seq.wrapping_add(1);
        write_copy(self.next(seq_latch), seq, at, words);
        self.seq = seq;
    }
}

/// Stores words of a copy, from `at` on, between its two numbers.
#[inline(always)]
fn write_copy<const N: usize>(copy: &[AtomicU64; N], seq: u64, at: usize, words: &[u64]) {
    copy[0].store(seq, Ordering::Relaxed);
    fence(Ordering::Release); // G, pairs with H: the body is never seen before the first word
    for (to, from) in copy[at..N - 1].iter().zip(words) {
        to.store(*from, Ordering::Relaxed);
    }
    copy[N - 1].store(seq, Ordering::Release); // G, pairs with H
}

pub(crate) struct LatchCopy<const N: usize> {
    pub(crate) words: [u64; N],
    copy: usize,
}

/// Reads one copy, if it is whole; else returns its first word: the number that is being written.
fn read_copy<const N: usize>(seq_latch: &SeqLatch<N>, copy: usize) -> Result<LatchCopy<N>, u64> {
    let from = &seq_latch.copies[copy];
    let mut words = [0; N];
    words[N - 1] = from[N - 1].load(Ordering::Relaxed);
    fence(Ordering::Acquire); // H, pairs with G; a fence, because the page may be read-only
    for (to, from) in words[1..N - 1].iter_mut().zip(&from[1..N - 1]) {
        *to = from.load(Ordering::Relaxed);
    }
    fence(Ordering::Acquire); // H, pairs with G
    words[0] = from[0].load(Ordering::Relaxed);
    if words[0] == words[N - 1] { Ok(LatchCopy { words, copy }) } else { Err(words[0]) }
}

/// Finds the newest whole copy, which is not older than the newest at the time of the call. `None`
/// only if no perfring writer wrote.
pub(crate) fn find<const N: usize>(seq_latch: &SeqLatch<N>) -> Option<LatchCopy<N>> {
    let mut last = None;
    for _ in 0..TRIES {
        match (read_copy(seq_latch, 0), read_copy(seq_latch, 1)) {
            (Ok(a), Ok(b)) => return Some(if b.words[0] > a.words[0] { b } else { a }),
            (Ok(one), Err(next)) | (Err(next), Ok(one)) => {
                // The other copy is being written as the next one, so this copy is the newest. A higher number means
                // that this copy was replaced while the other was read.
                if next <= one.words[0].saturating_add(1) {
                    return Some(one);
                }
                last = Some(one);
            }
            (Err(_), Err(_)) => {}
        }
        spin_loop();
    }
    last
}

/// Finds the newest whole copy that fits: after a death, the copy of the published
/// position.
pub(crate) fn find_where<const N: usize>(
    seq_latch: &SeqLatch<N>,
    fits: impl Fn(&[u64; N]) -> bool,
) -> Option<LatchCopy<N>> {
    [read_copy(seq_latch, 0), read_copy(seq_latch, 1)]
        .into_iter()
        .flatten()
        .filter(|whole| fits(&whole.words))
        .max_by_key(|whole| whole.words[0])
}

/// Finds the whole copy with the least number that is not below `least`.
pub(crate) fn find_least<const N: usize>(
    seq_latch: &SeqLatch<N>,
    least: u64,
) -> Option<LatchCopy<N>> {
    [read_copy(seq_latch, 0), read_copy(seq_latch, 1)]
        .into_iter()
        .flatten()
        .filter(|whole| whole.words[0] >= least)
        .min_by_key(|whole| whole.words[0])
}
