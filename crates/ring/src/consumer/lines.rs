//! Handing the cache lines of what was read back to the producer, before the tail goes.
//!
//! A line that a reader has only looked at is shared by two cores, and a producer that comes
//! round to it has to ask for it twice: for its content, if it was pushed out, and for leave to
//! write. A line that the reader was the last to write is one core's, and moves at once. So the
//! reader stores the word back that it has just loaded. Nobody can tell, but by the time it
//! takes (`benches/NOTES.md`).

use crate::view::Ring;
use perfring_abi::atomic::Ordering;

/// Bytes of a cache line, as far as handing it back goes: with longer ones it is handed back twice.
/// Half as long under loom, whose rings are no longer than one.
const LINE: u64 = if cfg!(loom) { 32 } else { 64 };

/// Where the line ends that is handed back next; never, if none are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    next: u64,
}

impl Lines {
    /// None are handed back.
    pub(crate) const NEVER: Lines = Lines { next: u64::MAX };

    /// From the first line on that does not begin before the tail, where the producer may be writing.
    pub(crate) fn from_tail(tail: u64) -> Self {
        Lines { next: tail.next_multiple_of(LINE) + LINE }
    }

    /// Hands back those that end at `upto` or before, all of which was read and not released.
    #[inline(always)]
    pub(crate) fn hand_to(&mut self, ring: Ring<'_>, upto: u64) {
        while self.next <= upto {
            let word = ring.word(self.next - LINE);
            // Relaxed: the producer stores there after it has seen the tail move past it (C, D).
            word.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
            self.next += LINE;
        }
    }
}
