//! The perfring algorithm: reserve, commit, evict, read.
//!
//! Safe code over a [`Header`] of atomics and a slice of 64-bit atomic words, so that loom, Miri
//! and property tests run on a heap ring (`heap` feature) the very code that runs on a mapping.
//! Nothing here makes a system call, and nothing on the way of a record allocates.
//!
//! Who has what: `writer` and `room` are the exclusive producer, `shared`, `shared_room`, `lock` and
//! `slot` one of many, `large` and
//! `large_shared` what is too long for the data area; `reader`, `observer` and `snapshot` read both kinds of rings, `ahead` what
//! they do not release yet, `kernel` those of the kernel; `totals` are
//! the books, `latch` and `book` how they are kept, `wait` who sleeps and who wakes, `types` the
//! type table, `time` what tells wall-clock times of stamps.
//!
//! # Orderings
//!
//! The only crate with an `Ordering`. Each site carries its letter; `proto/ABI.md` and
//! `proto/perfring.h` repeat this table.
//!
//! | letter | site | pairs with | so that |
//! |---|---|---|---|
//! | A | a producer stores `data_head` (release), [`Writer::publish`] | B | a reader that sees the head sees every record before it |
//! | B | a reader loads `data_head` (acquire; on read-only pages relaxed, then an acquire fence) | A | |
//! | C | the consumer of a drop ring stores `aux_tail` (release), and `data_tail` (release), [`Reader::release`] | D | what the consumer has read is not overwritten before it has read it, and what it hands back is not stored over what is new |
//! | D | the producer loads `data_tail`, or `aux_tail` (acquire) | C | |
//! | E | a producer stores `data_tail`, or `aux_tail` (overwrite; a drop ring's has loaded it, D), and its book, then a release fence, then writes over the oldest records, or ranges | F | a reader that copied any new byte sees the tail past its record, or range |
//! | F | a reader has copied a record, or a range; an acquire fence, then it loads `data_tail`, the book, or `aux_tail`, again | E | |
//! | G | a latch's owner stores the first word, a release fence, the body, the last word (release) | H | a copy whose first and last word agree is whole |
//! | H | a reader of a latch loads the last word, an acquire fence, the body, an acquire fence, the first word | G | |
//! | I | a producer stores `data_head`, a light fence, loads `wait.armed` | J | a consumer never sleeps past a record: one of the two sees the other |
//! | J | a consumer stores `wait.armed`, a heavy fence, loads `data_head` | I | |
//! | K | the consumer stores `data_tail`, a light fence, loads `space.armed` | L | a producer never sleeps past free space |
//! | L | a producer stores `space.armed`, a heavy fence, loads `data_tail` | K | |
//! | M | a producer of a shared ring takes the lock word by compare-and-swap (acquire) and gives it back (release) | M | whoever holds the lock sees all that was written under it before |
//! | N | a reservation of a shared ring is ended by a swap of its header word (release); whoever looks at a word that may be open loads it (acquire) | N | a record that is seen to have ended is whole |
//! | O | a producer of a shared ring has ended a record, or has stored `producer_pos` (release); a full fence, then it loads `data_head`, `producer_pos` (acquire) and the header words from there on | O | of an older record that ends and a younger one that has ended, one side sees the other; and no word before `producer_pos` is an older one |
//! | P | a producer that holds the type table's lock has written an entry, then stores `types_used` (release) | P | a reader that sees the count (relaxed, then an acquire fence) sees every entry before it |
//! | Q | a producer has written an anchor, then stores `anchors_written` (release); a release fence before the next anchor's words | Q | a reader that sees the count (relaxed, then an acquire fence) sees the anchor, and one that sees a word of the next sees the count before it, when it looks again after an acquire fence |
//! | R | a producer stores `lock` odd, a release fence, perf's time fields, `lock` even (release) | R | a perf reader that finds the same even `lock` before and after has fields of one moment |
//!
//! Light and heavy fences are the asymmetric pair of P1202 (Goldblatt, "Asymmetric Thread
//! Fences"): the heavy side is `membarrier(2)` and costs microseconds, once per sleep; the light
//! side keeps the compiler from reordering and costs nothing. Where `membarrier` is not to be had,
//! the light side is a full fence, see [`Fences`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod ahead;
mod book;
#[cfg(any(feature = "heap", loom))]
pub mod heap;
mod holder;
mod hot;
mod kernel;
mod large;
mod large_shared;
mod latch;
mod lock;
mod observer;
mod oldest;
mod reader;
mod record;
mod room;
mod shared;
mod shared_room;
mod shared_time;
mod slot;
mod snapshot;
mod time;
mod totals;
mod types;
mod wait;
mod writer;

use perfring_abi::Header;
use perfring_abi::atomic::{AtomicU64, Ordering, fence};

pub use ahead::{Front, Mark};
pub use book::{ConsumerBook, Count, ProducerBook, Refused};
pub use holder::Who;
pub use hot::{Changed, Hot};
pub use kernel::{KernelFrame, KernelReader};
pub use lock::{LOCK_ROUNDS, Peers, Recovered, Shared, recover};
pub use observer::{Observer, Saved, Seen, Start};
pub use reader::Reader;
pub use record::{Corrupt, Found, Frame, Lost, Range};
pub use shared::{Group, SharedWriter, Unattached};
pub use slot::SlotFigures;
pub use snapshot::{Snapshot, Step};
pub use time::{Anchor, Anchors, Reading, Scale};
pub use totals::{Totals, newest_stamp};
pub use types::{TableFull, TypeTable, TypeTableWriter};
pub use wait::{Fences, Wake, WakeAt, full_fence};
pub use writer::{Refusal, Reserved, Writer};

/// A ring as the algorithm sees it: the header's live fields and the data area.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    header: &'a Header,
    data: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    /// A view of a ring. The data area must be a power of two of words, which whoever made it has
    /// checked: positions in any other would be wrong, though never out of bounds.
    #[must_use]
    #[inline]
    pub fn new(header: &'a Header, data: &'a [AtomicU64]) -> Self {
        debug_assert!(data.len().is_power_of_two());
        Ring { header, data }
    }

    /// The header's live fields.
    #[must_use]
    #[inline]
    pub fn header(&self) -> &'a Header {
        self.header
    }

    /// Bytes of the data area.
    #[must_use]
    #[inline]
    pub fn data_size(&self) -> u64 {
        self.data.len() as u64 * 8
    }

    /// The word at a position.
    #[inline]
    fn word(&self, pos: u64) -> &'a AtomicU64 {
        &self.data[(pos >> 3) as usize & (self.data.len() - 1)]
    }

    /// `data_head` as an observer sees it, on pages that may be mapped read-only.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        let head = self.header.data_head.load(Ordering::Relaxed);
        fence(Ordering::Acquire); // B, pairs with A
        head
    }

    /// `data_tail`, read after all that was read before it.
    #[must_use]
    #[inline]
    pub fn tail(&self) -> u64 {
        fence(Ordering::Acquire); // F, pairs with E
        self.header.data_tail.load(Ordering::Relaxed)
    }

    /// What the word at a position holds: a relaxed load. Of a drop ring's record it is what was
    /// committed, if the head was loaded before (B) and the tail does not move past it; elsewhere the
    /// caller looks at the tail afterwards (F).
    #[must_use]
    #[inline]
    pub fn load(&self, pos: u64) -> u64 {
        self.word(pos).load(Ordering::Relaxed)
    }

    /// Copies the words from `pos` on, at most a ring of them: relaxed loads, since a producer may
    /// be writing over them; the caller looks at the tail afterwards (F).
    pub fn copy_out(&self, pos: u64, to: &mut [u64]) {
        let start = (pos >> 3) as usize & (self.data.len() - 1);
        let (first, second) = to.split_at_mut(to.len().min(self.data.len() - start));
        for (to, from) in first.iter_mut().zip(&self.data[start..]) {
            *to = from.load(Ordering::Relaxed);
        }
        for (to, from) in second.iter_mut().zip(self.data) {
            *to = from.load(Ordering::Relaxed);
        }
    }
}

/// Positions beyond this are not believed: a ring written at 100 GB/s comes here after a year.
const POS_MAX: u64 = 1 << 62;

/// Whether a head and a tail can be those of one ring.
fn sane(ring: Ring<'_>, head: u64, tail: u64) -> bool {
    head.is_multiple_of(8)
        && tail.is_multiple_of(8)
        && head <= POS_MAX
        && tail <= head
        && head - tail < ring.data_size()
}

/// Puts the positions where nobody leaves them: of a ring that is to be taken for damaged by all who
/// look at it, readers and producers.
pub fn spoil(header: &Header) {
    // Relaxed, and then a fence: it is of no ring any more, and what is done to its data comes after.
    header.data_tail.store(u64::MAX, Ordering::Relaxed);
    header.data_head.store(u64::MAX, Ordering::Relaxed);
    header.aux.tail.store(u64::MAX, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}
