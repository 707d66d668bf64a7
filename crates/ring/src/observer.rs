//! The observer: reads without leaving a trace, copies each record, and looks afterwards whether
//! the copy was of a record or of what was being written over it.

use crate::book::{ConsumerBook, Count};
use crate::latch::{self, LatchWriter};
use crate::reader::lost_at;
use crate::{Corrupt, Frame, Lost, Ring};
use alloc::vec::Vec;
use perfring_abi::atomic::{Ordering, spin_loop};
use perfring_abi::{Cause, HEADER_LEN, Policy, RecordType, RecordWord, SIZE_MAX};

/// An observer that was lapped this often without reading a record in between goes on from the
/// producer's last book instead of from the oldest record, which it would never catch.
const LAPS_MAX: u32 = 4;
/// How often an observer tries to find its feet before it reports the ring as damaged.
const TRIES: u32 = if cfg!(loom) { 3 } else { 1000 };
/// How often it walks the ring to count what stands before a tail that keeps moving.
const WALKS_MAX: u32 = 4;

/// A place in the stream to go on from later, with what is needed to count what was lost meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The position of the next record.
    pub pos: u64,
    /// What stood before it since the ring was made.
    pub before: Count,
}

/// Where an observer starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record that is there.
    #[default]
    Oldest,
    /// At the next record to be published.
    Latest,
    /// Where another observer of the same ring left off.
    At(Saved),
}

/// What an observer saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// A record: where it stood, and a copy of its payload.
    Record(Frame, &'a [u64]),
    /// Records that it will not see.
    Lost(Lost),
}

/// The private state of an observer. Also the consumer of an overwrite ring, which saves its
/// place in the page.
#[derive(Debug)]
pub struct Observer {
    cursor: u64,
    head: u64,
    /// Records before `cursor`, since the ring was made: read and lost.
    passed: Count,
    /// Of those, lost.
    lapped: Count,
    laps_in_a_row: u32,
    policy: Policy,
    copy: Vec<u64>,
    latch: LatchWriter,
}

impl Observer {
    /// An observer of this ring, dead or alive.
    ///
    /// # Errors
    /// [`Corrupt`] if the positions are such as no producer leaves.
    pub fn new(ring: Ring<'_>, policy: Policy, start: Start) -> Result<Self, Corrupt> {
        let place = match start {
            Start::At(saved) => saved,
            Start::Oldest => oldest(ring, policy)?,
            Start::Latest => {
                let book = crate::totals::newest_book(ring)?;
                Saved { pos: book.pos, before: book.written }
            }
        };
        let size = ring.data_size().min(SIZE_MAX.into());
        if !place.pos.is_multiple_of(8) {
            return Err(Corrupt { pos: place.pos });
        }
        Ok(Observer {
            cursor: place.pos,
            head: place.pos,
            passed: place.before,
            lapped: Count::default(),
            laps_in_a_row: 0,
            policy,
            copy: alloc::vec![0; (size / 8) as usize],
            latch: LatchWriter::default(),
        })
    }

    /// As [`Observer::new`], going on where the last consumer of this overwrite ring saved itself.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn resume(ring: Ring<'_>) -> Result<Self, Corrupt> {
        let whole = latch::find(&ring.header.consumer).ok_or(Corrupt { pos: 0 })?;
        let book = ConsumerBook::from_words(&whole.words);
        let saved = Saved { pos: book.pos, before: book.passed() };
        let mut observer = Observer::new(ring, Policy::Overwrite, Start::At(saved))?;
        observer.lapped = book.lapped;
        observer.latch = LatchWriter::after(&ring.header.consumer, Some(&whole));
        Ok(observer)
    }

    /// Saves the place in the page: for the consumer of an overwrite ring alone.
    pub fn save(&mut self, ring: Ring<'_>) {
        let read = self.passed.since(self.lapped);
        let book = ConsumerBook { pos: self.cursor, read, lapped: self.lapped };
        self.latch.write(&ring.header.consumer, &book.to_words());
    }

    /// The next record or loss, or `None` if there is none now.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring holds at the cursor what no producer writes, and the cursor was not
    /// lapped.
    pub fn next(&mut self, ring: Ring<'_>) -> Result<Option<Seen<'_>>, Corrupt> {
        // A turn passes a hole, or goes on after a lap that cost no record, or returns. No more
        // holes fit than the ring has words; only a producer that outruns them makes more turns.
        for _ in 0..=2 * ring.data.len() {
            if self.cursor == self.head {
                self.head = ring.head();
                if self.cursor == self.head {
                    return Ok(None);
                }
                if self.head < self.cursor || self.head > crate::POS_MAX {
                    self.head = self.cursor;
                    return Err(Corrupt { pos: self.cursor });
                }
            }
            // Relaxed: F judges it.
            let word = RecordWord::from_raw(ring.word(self.cursor).load(Ordering::Relaxed));
            let size = word.size();
            let len = word
                .payload_len()
                .filter(|_| size <= self.head - self.cursor && size <= self.copy.len() as u64 * 8);
            let mut lost = None;
            if len.is_some() {
                if word.is_data() {
                    let words = (size / 8) as usize - 1;
                    ring.copy_out(self.cursor + u64::from(HEADER_LEN), &mut self.copy[..words]);
                } else if word.kind() == RecordType::LOST {
                    lost = lost_at(ring, self.cursor, size);
                }
            }
            if ring.tail() > self.cursor {
                let lost = self.resync(ring)?;
                if lost.records == 0 {
                    continue;
                }
                return Ok(Some(Seen::Lost(lost)));
            }
            // Not lapped, so the head that was acquired is less than a ring away.
            let Some(len) = len.filter(|_| self.head - self.cursor < ring.data_size()) else {
                return Err(Corrupt { pos: self.cursor });
            };
            let frame = Frame { pos: self.cursor, kind: word.kind(), len, size };
            if word.is_data() {
                self.laps_in_a_row = 0;
                self.cursor += size;
                self.passed.add(size);
                return Ok(Some(Seen::Record(frame, &self.copy[..(size / 8) as usize - 1])));
            }
            if word.kind() == RecordType::LOST {
                let lost = lost.ok_or(Corrupt { pos: self.cursor })?;
                self.cursor += size;
                return Ok(Some(Seen::Lost(lost)));
            }
            self.cursor += size;
        }
        Ok(None)
    }

    /// Lapped: goes on from the oldest valid record, and counts what lies between.
    #[cold]
    fn resync(&mut self, ring: Ring<'_>) -> Result<Lost, Corrupt> {
        self.laps_in_a_row = self.laps_in_a_row.saturating_add(1);
        let mut place = oldest(ring, self.policy)?;
        if self.laps_in_a_row > LAPS_MAX {
            // Where the producer's last book was true is a record boundary too, and most of a ring
            // away from the place where it overwrites.
            let book = crate::totals::newest_book(ring)?;
            if book.pos > place.pos {
                place = Saved { pos: book.pos, before: book.written };
            }
        }
        if place.pos <= self.cursor {
            return Err(Corrupt { pos: self.cursor });
        }
        let lost = place.before.since(self.passed);
        let pos = self.cursor;
        self.cursor = place.pos;
        self.head = self.head.max(place.pos);
        self.passed = place.before;
        self.lapped = self.lapped.plus(lost);
        Ok(Lost { pos, records: lost.records, bytes: lost.bytes, cause: Cause::Lapped })
    }

    /// Where this observer would go on.
    #[must_use]
    pub fn saved(&self) -> Saved {
        Saved { pos: self.cursor, before: self.passed }
    }

    /// Records that were gone before this observer came to them.
    #[must_use]
    pub fn lapped(&self) -> Count {
        self.lapped
    }
}

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
        if head > crate::POS_MAX || !tail.is_multiple_of(8) {
            return Err(Corrupt { pos: tail });
        }
        if let Some(place) = place.filter(|place| place.pos <= head) {
            return Ok(place);
        }
        spin_loop();
    }
    Err(Corrupt { pos: ring.tail() })
}

/// The producer's tail mark: the one at the tail, or one newer, that the tail will soon follow.
fn marked(ring: Ring<'_>, tail: u64) -> Option<Saved> {
    latch::find_where(&ring.header.tail_mark, |words| words[0] == tail)
        .or_else(|| {
            latch::find_where(&ring.header.tail_mark, |words| {
                words[0] > tail && words[0].is_multiple_of(8)
            })
        })
        .map(|whole| Saved {
            pos: whole.words[0],
            before: Count { records: whole.words[1], bytes: whole.words[2] },
        })
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
        let book = crate::totals::newest_book(ring)?;
        let place = Saved { pos: book.pos, before: book.written };
        return Ok((book.pos >= tail).then_some(place));
    }
    let before = crate::totals::count_at(ring, tail)?;
    Ok(before.map(|before| Saved { pos: tail, before }))
}
