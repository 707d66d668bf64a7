//! The observer: reads without leaving a trace, copies each record, and looks afterwards whether
//! the copy was of a record or of what was being written over it.

use crate::book::{ConsumerBook, Count};
use crate::latch::{self, LatchWriter};
use crate::reader::lost_at;
use crate::{Corrupt, Frame, Lost, Ring, sane};
use alloc::vec::Vec;
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{Cause, HEADER_LEN, Policy, RecordType, RecordWord, SIZE_MAX};

/// An observer that was lapped this often without reading a record in between goes on from the
/// producer's last book instead of from the oldest record, which it would never catch.
const LAPS_MAX: u32 = 4;
/// How often an observer tries to find its feet before it reports the ring as damaged.
const TRIES: u32 = 1000;

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
            Start::Latest => latest(ring)?,
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
        observer.latch = LatchWriter::after(Some(&whole));
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
        // The loop ends: every turn passes a hole, of which no more fit than the ring has words,
        // or returns.
        loop {
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
                return self.resync(ring).map(|lost| Some(Seen::Lost(lost)));
            }
            let Some(len) = len else {
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
    }

    /// Lapped: goes on from the oldest valid record, and counts what lies between.
    #[cold]
    fn resync(&mut self, ring: Ring<'_>) -> Result<Lost, Corrupt> {
        self.laps_in_a_row += 1;
        let place = if self.laps_in_a_row > LAPS_MAX {
            // Where the producer's last book was true is a record boundary too, and most of a ring
            // away from the place where it overwrites.
            let book = crate::totals::producer_book(ring).ok_or(Corrupt { pos: self.cursor })?;
            Saved { pos: book.pos, before: book.written }
        } else {
            oldest(ring, self.policy)?
        };
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
    for _ in 0..TRIES {
        let head = ring.head();
        let tail = ring.tail();
        let place = match policy {
            // A producer killed between the mark and the tail leaves one that is newer than the tail.
            Policy::Overwrite => latch::find_where(&ring.header.tail_mark, |w| w[0] == tail)
                .or_else(|| latch::find_where(&ring.header.tail_mark, |w| w[0] > tail))
                .map(|whole| Saved {
                    pos: whole.words[0],
                    before: Count { records: whole.words[1], bytes: whole.words[2] },
                }),
            Policy::Drop => latch::find_where(&ring.header.consumer, |w| {
                ConsumerBook::from_words(w).pos == tail
            })
            .map(|whole| Saved {
                pos: tail,
                before: ConsumerBook::from_words(&whole.words).passed(),
            })
            // A foreign perf reader moves the tail and keeps no book: count from the producer's.
            .or_else(|| Some(Saved { pos: tail, before: crate::totals::count_at(ring, tail)? })),
        };
        // The head may be older than the tail here; a place beyond both is a lie.
        let newest = ring.head();
        match place {
            Some(place) if place.pos <= newest && newest <= crate::POS_MAX => return Ok(place),
            Some(_) | None if !sane(ring, head, tail) && tail > newest => {
                return Err(Corrupt { pos: tail });
            }
            _ => core::hint::spin_loop(),
        }
    }
    Err(Corrupt { pos: ring.tail() })
}

/// The next record to be published, and what stands before it.
fn latest(ring: Ring<'_>) -> Result<Saved, Corrupt> {
    for _ in 0..TRIES {
        let head = ring.head();
        if let Some(before) = crate::totals::count_at(ring, head) {
            fence(Ordering::Acquire); // F: the walk read records; the next look at the tail judges
            return Ok(Saved { pos: head, before });
        }
    }
    Err(Corrupt { pos: ring.head() })
}
