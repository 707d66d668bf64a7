//! The oldest record of a ring, and what stood before it.

use crate::counters::{ConsumerBook, Saved};
use crate::latch;
use crate::record::Corrupt;
use crate::recount::{count_at, newest_book};
use crate::tail_mark::marked;
use crate::view::{POS_MAX, Ring};
use perfring_abi::Policy;
use perfring_abi::atomic::spin_loop;

/// How often the oldest record is looked for before that is taken for damage: it reports the ring as damaged.
const TRIES: u32 = if cfg!(loom) { 3 } else { 1000 };
/// How often the ring is walked to count what stands before a tail that keeps moving.
const WALKS_MAX: u32 = 4;

/// The oldest valid record, and what stood before it.
pub(crate) fn oldest(ring: Ring<'_>, policy: Policy) -> Result<Saved, Corrupt> {
    let mut walks = 0;
    for _ in 0..TRIES {
        let tail = ring.tail();
        let place = match policy {
            Policy::Overwrite => marked(ring, tail),
            Policy::Drop => match released(ring, tail) {
                Some(place) => Some(place),
                // The consumer was faster, and has another book for another tail.
                None if ring.tail() != tail => None,
                // A foreign perf reader moves the tail and keeps no book: count from the
                // producer's, or at worst begin there.
                None => {
                    walks += 1;
                    counted(ring, tail, walks)?
                }
            },
        };
        // The mark, or the tail, was published after a head that is not before it.
        let head = ring.head();
        if head > POS_MAX || !tail.is_multiple_of(8) {
            return Err(Corrupt { pos: tail });
        }
        if let Some(place) = place.filter(|place| place.pos <= head) {
            return Ok(place);
        }
        spin_loop();
    }
    Err(Corrupt { pos: ring.tail() })
}

/// The consumer's book at this tail.
fn released(ring: Ring<'_>, tail: u64) -> Option<Saved> {
    let fits = |words: &_| ConsumerBook::from_words(words).pos == tail;
    let whole = latch::find_where(&ring.header.consumer, fits)?;
    Some(Saved { pos: tail, before: ConsumerBook::from_words(&whole.words).passed() })
}

/// The place at a tail that nobody keeps a book of.
fn counted(ring: Ring<'_>, tail: u64, walks: u32) -> Result<Option<Saved>, Corrupt> {
    if walks > WALKS_MAX {
        let book = newest_book(ring)?;
        let place = Saved { pos: book.pos, before: book.written };
        return Ok((book.pos >= tail).then_some(place));
    }
    let before = count_at(ring, tail)?;
    Ok(before.map(|before| Saved { pos: tail, before }))
}
