//! Write-touching the cache lines of records that were read, before the tail moves.
//!
//! A line that a reader has only loaded is shared by two cores. A producer that wraps around to it
//! has to request it twice: for its content, if it was evicted, and for ownership. A line that the
//! reader was the last to write has one owner, and moves at once. Therefore the reader stores back the
//! word that it has just loaded. Only the timing shows the difference (`benches/NOTES.md`).

use crate::view::Ring;
use perfring_abi::atomic::Ordering;

/// Bytes of a cache line, for this purpose: longer lines are touched twice. Half as long
/// under loom, whose rings are no longer than one line.
const LINE: u64 = if cfg!(loom) { 32 } else { 64 };

/// The end of the line to be touched next; `u64::MAX` to touch no lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineTouch {
    next: u64,
}

impl LineTouch {
    /// Touches no lines.
    pub(crate) const NEVER: LineTouch = LineTouch { next: u64::MAX };

    /// Touches lines from the first line that begins at the tail or after it. Before the tail, the producer may be writing.
    pub(crate) fn from_tail(tail: u64) -> Self {
        LineTouch { next: tail.next_multiple_of(LINE) + LINE }
    }

    /// Write-touches the lines that end at `upto` or before, all of which were read and not
    /// released.
    #[inline(always)]
    pub(crate) fn write_touch(&mut self, ring: Ring<'_>, upto: u64) {
        while self.next <= upto {
            let word = ring.word(self.next - LINE);
            // Relaxed: the producer stores there after it has seen the tail move past it (C, D).
            word.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
            self.next += LINE;
        }
    }
}
