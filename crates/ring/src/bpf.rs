//! The reader of the kernel's BPF ring-buffer maps, as `kernel/bpf/ringbuf.c` writes them.
//!
//! A map in normal mode has one consumer, which moves `consumer_pos`. Any number of observers read what it has not
//! released. In overwrite mode (Linux 6.19) all readers are observers: the kernel moves `overwrite_pos` over the oldest
//! records before it writes over them. An observer copies a record, and then checks that position again.
//!
//! The kernel stores `overwrite_pos` without a barrier before it writes over the records. A processor that makes stores
//! visible in their order (x86-64) shows an observer each torn copy. On other processors, a record can be overwritten
//! while it is copied and `overwrite_pos` still looks old: the map does not let an observer know.

use crate::view::{POS_MAX, copy_words};
use alloc::vec::Vec;
use core::fmt;
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{BpfConsumerPage, BpfProducerPage, BpfWord, HEADER_LEN};

/// The loads and stores of a reader. [`BpfView`] loads from and stores to a mapping. A test implements them with steps of a
/// producer in between.
pub trait BpfPages {
    /// Returns the bytes of the data area: a power of two.
    fn data_size(&self) -> u64;
    /// Loads `producer_pos`. Headers before it, and `overwrite_pos`, are no older when they are loaded afterwards.
    fn producer_pos(&self) -> u64;
    /// Loads `consumer_pos`, after everything that was loaded before.
    fn consumer_pos(&self) -> u64;
    /// Loads `overwrite_pos`, after everything that was loaded before.
    fn overwrite_pos(&self) -> u64;
    /// Loads the header at a position. The payload of a submitted record is no older when it is loaded afterwards.
    fn header(&self, pos: u64) -> BpfWord;
    /// Copies words from a position on, at most a ring of them.
    fn copy_out(&self, pos: u64, to: &mut [u64]);
    /// Stores `consumer_pos`, after everything that was loaded before.
    fn set_consumer_pos(&self, pos: u64);
}

/// A mapped map: its two pages of positions and its data area.
#[derive(Clone, Copy, Debug)]
pub struct BpfView<'a> {
    consumer: &'a BpfConsumerPage,
    producer: &'a BpfProducerPage,
    data: &'a [AtomicU64],
}

impl<'a> BpfView<'a> {
    /// Creates a view. The length of the data area in words must be a power of two, which the caller has checked: any
    /// other length gives wrong positions, though never an access out of bounds.
    #[must_use]
    #[inline]
    pub fn new(
        consumer: &'a BpfConsumerPage,
        producer: &'a BpfProducerPage,
        data: &'a [AtomicU64],
    ) -> Self {
        debug_assert!(data.len().is_power_of_two());
        BpfView { consumer, producer, data }
    }
}

impl BpfPages for BpfView<'_> {
    #[inline]
    fn data_size(&self) -> u64 {
        self.data.len() as u64 * 8
    }

    #[inline]
    fn producer_pos(&self) -> u64 {
        let pos = self.producer.producer_pos.load(Ordering::Relaxed);
        fence(Ordering::Acquire); // B, pairs with A; a fence, because the page is mapped read-only
        pos
    }

    #[inline]
    fn consumer_pos(&self) -> u64 {
        fence(Ordering::Acquire); // F, pairs with E: the kernel writes only after it has loaded this position
        self.consumer.consumer_pos.load(Ordering::Relaxed)
    }

    #[inline]
    fn overwrite_pos(&self) -> u64 {
        fence(Ordering::Acquire); // F, pairs with E, as far as the kernel orders its stores
        self.producer.overwrite_pos.load(Ordering::Relaxed)
    }

    #[inline]
    fn header(&self, pos: u64) -> BpfWord {
        let at = (pos >> 3) as usize & (self.data.len() - 1);
        let word = self.data[at].load(Ordering::Relaxed);
        fence(Ordering::Acquire); // N; a fence, because the page is mapped read-only
        BpfWord::from_raw(word)
    }

    #[inline]
    fn copy_out(&self, pos: u64, to: &mut [u64]) {
        copy_words(self.data, pos, to);
    }

    #[inline]
    fn set_consumer_pos(&self, pos: u64) {
        self.consumer.consumer_pos.store(pos, Ordering::Release); // C, pairs with D
    }
}

/// How a map is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfRole {
    /// As its one consumer.
    Consumer,
    /// Beside its consumer, which may release records before they are read here.
    Observer,
    /// In overwrite mode, in which the kernel may overwrite records before they are read here.
    OverwriteObserver,
}

/// A record of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfFrame {
    /// The position of its header.
    pub pos: u64,
    /// The bytes of its payload.
    pub len: usize,
    /// The position after it.
    pub end: u64,
}

/// The finding of a reader at its cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfStep {
    /// Nothing that was reserved before the last poll.
    Empty,
    /// A reservation that is open. Nothing after it can be read before it ends.
    Open,
    /// These bytes of the ring went by unread. The map does not have their number of records.
    Lost {
        /// The position of the first of them.
        pos: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// A record, which was copied.
    Record(BpfFrame),
}

/// The reason why a map cannot be read further. Everything that was read before is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BpfFault {
    /// No kernel and no consumer leaves such positions.
    Positions {
        /// The producers' position.
        producer: u64,
        /// The position of the consumer, or of the oldest record.
        oldest: u64,
        /// Bytes of the data area.
        size: u64,
    },
    /// A record is longer than what was reserved.
    Record {
        /// The position of its header.
        pos: u64,
        /// The length of its payload in its header.
        len: u32,
    },
    /// Another process moves `consumer_pos`.
    OtherConsumer {
        /// The position that this consumer left there.
        ours: u64,
        /// The position that is there.
        found: u64,
    },
}

impl fmt::Display for BpfFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BpfFault::Positions { producer, oldest, size } => write!(
                f,
                "the positions of this BPF map are those of no ring: records begin at {oldest} and end at {producer}, \
                 and it has {size} bytes. A process has written the consumer's page: create the map again"
            ),
            BpfFault::Record { pos, len } => write!(
                f,
                "the BPF map has a record of {len} bytes at position {pos}, where less was reserved: nothing after it \
                 can be read; create the map again"
            ),
            BpfFault::OtherConsumer { ours, found } => write!(
                f,
                "another process consumes this BPF map: the consumer's position was left at {ours}, and is {found} now. \
                 A map has one consumer: end the other one, or observe"
            ),
        }
    }
}

impl core::error::Error for BpfFault {}

/// The private state of a reader of a map.
#[derive(Debug)]
pub struct BpfReader {
    role: BpfRole,
    /// `producer_pos` at the last poll, or the limit below it.
    head: u64,
    /// The position of the next record.
    cursor: u64,
    /// The value of `consumer_pos` that a consumer stored.
    released: u64,
    /// Records and bytes that were given back without content.
    discarded: (u64, u64),
    /// Nothing is read from here on.
    limit: u64,
}

impl BpfReader {
    /// Starts at the oldest record: a consumer where the last one stopped.
    ///
    /// # Errors
    /// [`BpfFault`].
    pub fn attach(pages: &impl BpfPages, role: BpfRole) -> Result<Self, BpfFault> {
        let mut reader =
            BpfReader { role, head: 0, cursor: 0, released: 0, discarded: (0, 0), limit: u64::MAX };
        // The oldest position is loaded before the newest. If the oldest moves in between, an observer notices as always.
        reader.released = reader.oldest(pages);
        (reader.cursor, reader.head) = (reader.released, reader.released);
        reader.poll(pages)?;
        Ok(reader)
    }

    /// Loads up to where records may be gone, after everything that was loaded before.
    fn oldest(&self, pages: &impl BpfPages) -> u64 {
        match self.role {
            BpfRole::Consumer | BpfRole::Observer => pages.consumer_pos(),
            BpfRole::OverwriteObserver => pages.overwrite_pos(),
        }
    }

    /// Polls `producer_pos`.
    ///
    /// # Errors
    /// [`BpfFault`].
    pub fn poll(&mut self, pages: &impl BpfPages) -> Result<(), BpfFault> {
        if self.role == BpfRole::Consumer {
            let (ours, found) = (self.released, pages.consumer_pos());
            if ours != found {
                return Err(BpfFault::OtherConsumer { ours, found });
            }
        }
        let (head, size) = (pages.producer_pos(), pages.data_size());
        // The oldest position is loaded after the newest, so that less than a ring lies between them: no loop is longer.
        let oldest = match self.role {
            BpfRole::Consumer => self.released,
            _ => self.oldest(pages).max(self.cursor),
        };
        let fits = head >= self.cursor.min(self.limit) && head.saturating_sub(oldest) < size;
        if !fits || head > POS_MAX || !(head | self.cursor).is_multiple_of(8) {
            return Err(BpfFault::Positions { producer: head, oldest, size });
        }
        self.head = head.min(self.limit);
        Ok(())
    }

    /// Limits reading to the present reservations. A second call changes nothing.
    pub fn limit(&mut self, pages: &impl BpfPages) {
        self.limit = self.limit.min(pages.producer_pos().max(self.cursor));
        self.head = self.head.min(self.limit);
    }

    /// Returns the next record or gap before the last poll's end, and passes over it. The payload of a record replaces the
    /// content of `body`; its last word may be padded.
    ///
    /// # Errors
    /// [`BpfFault`]; again at every call.
    pub fn next(
        &mut self,
        pages: &impl BpfPages,
        body: &mut Vec<u64>,
    ) -> Result<BpfStep, BpfFault> {
        while self.cursor < self.head {
            let pos = self.cursor;
            let word = pages.header(pos);
            // A reservation ends where another begins, and is no longer than a ring.
            let fits = word.size() <= (self.head - pos).min(pages.data_size());
            let is_record = fits && !word.is_busy() && !word.is_discarded();
            if is_record {
                body.clear();
                body.resize((word.len() as usize).div_ceil(8), 0);
                pages.copy_out(pos + u64::from(HEADER_LEN), body);
            }
            // The loaded words may be a part of a younger record.
            if let Some(bytes) = self.passed(pages)? {
                return Ok(BpfStep::Lost { pos, bytes });
            }
            if word.is_busy() {
                return Ok(BpfStep::Open);
            }
            if !fits {
                return Err(BpfFault::Record { pos, len: word.len() });
            }
            self.cursor = pos + word.size();
            if is_record {
                let len = word.len() as usize;
                return Ok(BpfStep::Record(BpfFrame { pos, len, end: self.cursor }));
            }
            self.discarded.0 += 1;
            self.discarded.1 += word.size();
        }
        // Records beyond the last poll may be gone already.
        match self.passed(pages)? {
            Some(bytes) => Ok(BpfStep::Lost { pos: self.cursor - bytes, bytes }),
            None => Ok(BpfStep::Empty),
        }
    }

    /// Moves an observer's cursor to the oldest record, if the record at the cursor is gone. Returns the distance.
    fn passed(&mut self, pages: &impl BpfPages) -> Result<Option<u64>, BpfFault> {
        if self.role == BpfRole::Consumer {
            return Ok(None);
        }
        let (oldest, cursor) = (self.oldest(pages), self.cursor);
        if oldest <= cursor {
            return Ok(None);
        }
        let (producer, size) = (pages.producer_pos(), pages.data_size());
        if oldest > producer || !oldest.is_multiple_of(8) {
            return Err(BpfFault::Positions { producer, oldest, size });
        }
        let to = oldest.min(self.limit);
        self.cursor = to.max(cursor);
        Ok((to > cursor).then(|| to - cursor))
    }

    /// Releases everything before `pos`, as a consumer. A position that was not passed, or is released already, is ignored.
    /// If another process has moved the position, it stays there, and the next poll reports the move.
    pub fn release(&mut self, pages: &impl BpfPages, pos: u64) {
        let is_passed = pos > self.released && pos <= self.cursor && pos.is_multiple_of(8);
        if self.role == BpfRole::Consumer && is_passed && pages.consumer_pos() == self.released {
            self.released = pos;
            pages.set_consumer_pos(pos);
        }
    }

    /// Returns the role.
    #[must_use]
    pub fn role(&self) -> BpfRole {
        self.role
    }

    /// Returns the position of the next record.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Returns the position up to which space was released. For an observer, this is the position where it began.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Returns the end of the reservations at the last poll.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns whether nothing is left before the [limit](BpfReader::limit).
    #[must_use]
    pub fn is_at_limit(&self) -> bool {
        self.cursor >= self.limit
    }

    /// Returns the records that were discarded, and their bytes with the headers. They are skipped.
    #[must_use]
    pub fn discarded(&self) -> (u64, u64) {
        self.discarded
    }
}
