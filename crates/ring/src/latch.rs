//! Reading and writing a [`Latch`]: two copies, of which one is always whole.

use perfring_abi::Latch;
use perfring_abi::atomic::{Ordering, fence};

/// How often a reader looks at a latch whose both copies it found torn. A live writer leaves one
/// whole for the time that it takes to write the other, so this many failures mean that the page
/// lies.
const TRIES: u32 = 1000;

/// The owner's side of a latch.
#[derive(Debug, Default)]
pub(crate) struct LatchWriter {
    seq: u64,
    next: usize,
}

impl LatchWriter {
    /// Goes on after what `find` found: the other copy is written next.
    pub(crate) fn after<const N: usize>(found: Option<&Whole<N>>) -> Self {
        found.map_or(LatchWriter { seq: 0, next: 0 }, |whole| LatchWriter {
            seq: whole.words[0],
            next: 1 - whole.copy,
        })
    }

    /// Writes a copy, numbered one more than the last.
    #[inline]
    pub(crate) fn write<const N: usize>(&mut self, latch: &Latch<N>, words: &[u64; N]) {
        let seq = self.seq.wrapping_add(1);
        self.write_as(latch, seq, words);
    }

    /// Writes a copy with a number that the caller knows to rise: the tail mark's position.
    #[inline]
    pub(crate) fn write_as<const N: usize>(
        &mut self,
        latch: &Latch<N>,
        seq: u64,
        words: &[u64; N],
    ) {
        let copy = &latch.copies[self.next];
        copy[0].store(seq, Ordering::Relaxed);
        fence(Ordering::Release); // G, pairs with H: the body is never seen before the first word
        for (to, from) in copy[1..N - 1].iter().zip(&words[1..N - 1]) {
            to.store(*from, Ordering::Relaxed);
        }
        copy[N - 1].store(seq, Ordering::Release); // G, pairs with H
        self.seq = seq;
        self.next = 1 - self.next;
    }
}

/// A whole copy, and which one it was.
pub(crate) struct Whole<const N: usize> {
    pub(crate) words: [u64; N],
    copy: usize,
}

/// One copy, if it is whole.
fn read_copy<const N: usize>(latch: &Latch<N>, copy: usize) -> Option<Whole<N>> {
    let from = &latch.copies[copy];
    let mut words = [0; N];
    words[N - 1] = from[N - 1].load(Ordering::Relaxed);
    fence(Ordering::Acquire); // H, pairs with G; a fence, as the page may be read-only
    for (to, from) in words[1..N - 1].iter_mut().zip(&from[1..N - 1]) {
        *to = from.load(Ordering::Relaxed);
    }
    fence(Ordering::Acquire); // H, pairs with G
    words[0] = from[0].load(Ordering::Relaxed);
    (words[0] == words[N - 1]).then_some(Whole { words, copy })
}

/// The newest whole copy. `None` only where no writer of ours wrote.
pub(crate) fn find<const N: usize>(latch: &Latch<N>) -> Option<Whole<N>> {
    for _ in 0..TRIES {
        match (read_copy(latch, 0), read_copy(latch, 1)) {
            (Some(a), Some(b)) => return Some(if b.words[0] > a.words[0] { b } else { a }),
            (Some(one), None) | (None, Some(one)) => return Some(one),
            (None, None) => core::hint::spin_loop(),
        }
    }
    None
}

/// The whole copy that fits, the newest first: after a death, the one that belongs to the position
/// that was really published.
pub(crate) fn find_where<const N: usize>(
    latch: &Latch<N>,
    fits: impl Fn(&[u64; N]) -> bool,
) -> Option<Whole<N>> {
    let (a, b) = (read_copy(latch, 0), read_copy(latch, 1));
    [a, b].into_iter().flatten().filter(|whole| fits(&whole.words)).max_by_key(|w| w.words[0])
}
