//! Reads a recording.

use super::block::{BLOCK_HEAD, BlockHead, fill, packed, survey};
use super::error::{Missing, ReadError};
use super::frame::{self, Frame};
use super::head::{COMPRESSED, HEAD, MAGIC};
use super::machine::Machine;
use crate::delivery::compress::Unpacker;
use crate::model::event::{Event, Loss, Origin, Rec, Totals, What};
use perfring_consumer::Record;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The limit of rings at a time, which bounds the reader's memory.
const ORIGINS_MAX: usize = 1 << 16;
/// The limit of bytes of all known type table entries at a time.
const TYPES_MAX: usize = 256 << 20;

/// Reads a recording, from its first event to its last, in bounded memory.
///
/// It trusts nothing that it reads. A truncated or damaged recording is read up to that point, and
/// then returns an error that says how much is missing.
#[derive(Debug)]
pub struct Reader<R = File> {
    input: R,
    machine: Machine,
    /// The frames of one block.
    block: Vec<u8>,
    head: BlockHead,
    unpacker: Unpacker,
    /// Room for the next compressed block.
    unpacked: Vec<u8>,
    /// The offset of the next frame in it.
    next: usize,
    /// The offset of the next block in the file.
    at: u64,
    /// Origins of the file, by their number there.
    origins: HashMap<u32, Known>,
    /// An origin whose last event was returned.
    ended: Option<u32>,
    types_bytes: usize,
    origins_seen: u32,
    /// Numbers rings by their ids, instead of by their order.
    numbers: Option<Numbers>,
    /// What was returned last, to be returned again.
    last: Option<(u32, Given)>,
    again: bool,
    /// Where the last complete block ends that may be read.
    limit: u64,
    seq: u64,
    totals: Totals,
    /// Totals since the last start.
    part: Totals,
    is_over: bool,
}

/// Returns the number of the ring with this id.
struct Numbers(Box<Number>);

type Number = dyn FnMut(&[u8; 16]) -> u32;

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numbers")
    }
}

#[derive(Debug)]
struct Known {
    origin: Origin,
    types_bytes: usize,
}

/// What a frame contributes to the returned events.
#[derive(Clone, Copy, Debug)]
enum Given {
    Began,
    Record { from: usize },
    Lost(Loss),
    Ended,
}

/// Why a block, or a frame, is invalid.
struct Bad(&'static str);

const NO_FRAME: Bad = Bad("a frame is invalid");

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// [`ReadError`]: if it is not a recording, or nothing of it can be read.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::new(File::open(path)?)
    }
}

impl<R: Read> Reader<R> {
    /// Reads a stream, from its first byte on.
    ///
    /// # Errors
    /// [`ReadError`]: if it is not a recording, or nothing of it can be read.
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let mut head = [0; HEAD];
        let len = fill(&mut input, &mut head)?;
        if !MAGIC.starts_with(&head[..len.min(MAGIC.len())]) || len == 0 {
            return Err(ReadError::Other);
        }
        if len < HEAD {
            let (read, bytes) = (0, len as u64);
            return Err(ReadError::Truncated { read, bytes, missing: Missing::Unknown });
        }
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|nth| head[at + nth]));
        if number(12) > COMPRESSED {
            return Err(ReadError::Version { version: number(8) });
        }
        let mut reader = Reader {
            input,
            machine: Machine::default(),
            block: Vec::new(),
            head: BlockHead::default(),
            unpacker: Unpacker::default(),
            unpacked: Vec::new(),
            next: 0,
            at: HEAD as u64,
            origins: HashMap::new(),
            ended: None,
            types_bytes: 0,
            origins_seen: 0,
            numbers: None,
            last: None,
            again: false,
            limit: u64::MAX,
            seq: 0,
            totals: Totals::default(),
            part: Totals::default(),
            is_over: false,
        };
        reader.next_block()?;
        let first = Frame::first(&reader.block).filter(|first| first.what == frame::START);
        match first.map(|first| first.body.start()) {
            Some(Some((_, false))) => Err(ReadError::Order),
            Some(Some(_)) => reader.next_frame().map(|_| reader),
            _ => Err(reader.damaged(Bad("the frame that names its writer is missing"))),
        }
    }

    /// Returns the next event, or `None` after the last one.
    ///
    /// # Errors
    /// [`ReadError`], once: everything before it is intact, and nothing follows.
    #[allow(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, ReadError> {
        let again = std::mem::take(&mut self.again).then_some(self.last).flatten();
        if let Some(id) = self.ended.take_if(|_| again.is_none()) {
            self.forget(id);
        }
        let (id, given) = loop {
            if let Some(last) = again {
                break last;
            }
            if self.is_over {
                return Ok(None);
            }
            if self.next == self.block.len() {
                if self.at >= self.limit {
                    return Ok(None);
                }
                self.next_block()?;
            } else if let Some(found) = self.next_frame()? {
                break found;
            }
        };
        self.last = Some((id, given));
        // `next_frame` found it.
        let Some(Known { origin, .. }) = self.origins.get(&id) else { return Ok(None) };
        let what = match given {
            Given::Began => What::Began,
            Given::Lost(loss) => What::Lost(loss),
            Given::Ended => {
                self.ended = Some(id);
                What::Ended
            }
            Given::Record { from } => {
                // `next_frame` validated it.
                let frame = Frame::first(&self.block[from..]);
                let record = frame.and_then(|frame| {
                    let mut body = frame.body;
                    body.word()?;
                    body.record(|flag| frame.has(flag))
                });
                let (record, late) = record.unwrap_or((
                    Record { pos: 0, kind: 0, bytes: &[], time: None, writer: None },
                    0,
                ));
                let mut record = Rec::new(record, origin);
                record.late = late;
                What::Record(record)
            }
        };
        let seq = self.seq;
        self.seq += 1;
        Ok(Some(Event { seq, origin, what }))
    }

    /// The next call of [`Reader::next`] returns the same event again.
    pub(crate) fn repeat(&mut self) {
        self.again = true;
    }

    /// Reads no further than to this offset, where a block ends, of a file that still grows.
    pub(crate) fn limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Numbers rings from now on as this function says, by their ids.
    pub(crate) fn number_by(&mut self, number: impl FnMut(&[u8; 16]) -> u32 + 'static) {
        self.numbers = Some(Numbers(Box::new(number)));
    }

    /// Returns the machine that recorded; of a recording that was appended to, the last one so far.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the totals read so far.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns how many of its bytes are read.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.at
    }

    fn forget(&mut self, id: u32) {
        if let Some(known) = self.origins.remove(&id) {
            self.types_bytes -= known.types_bytes;
        }
    }

    /// Reads the next block, or finds the end.
    fn next_block(&mut self) -> Result<(), ReadError> {
        let mut bytes = [0; BLOCK_HEAD];
        let len = fill(&mut self.input, &mut bytes).inspect_err(|_| self.is_over = true)?;
        if len == 0 && self.head.is_last {
            self.is_over = true;
            return Ok(());
        }
        if len < BLOCK_HEAD {
            return Err(self.truncated(len, None));
        }
        let Some(head) = BlockHead::parse(&bytes, self.at) else {
            return Err(self.beyond(Bad("a block is missing here"), &bytes, None));
        };
        if head.before != self.totals.records {
            return Err(self.beyond(Bad("a block before it is missing"), &bytes, Some(head)));
        }
        self.block.resize(head.len as usize, 0);
        let read = fill(&mut self.input, &mut self.block).inspect_err(|_| self.is_over = true)?;
        if read < self.block.len() {
            return Err(self.truncated(BLOCK_HEAD + read, Some(head)));
        }
        if crc32fast::hash(&self.block) != head.crc {
            let frames = std::mem::take(&mut self.block);
            let bytes = [&bytes[..], &frames].concat();
            return Err(self.beyond(Bad("a block was changed"), &bytes, Some(head)));
        }
        if head.is_packed {
            let (block, unpacker) = (packed(&self.block), &mut self.unpacker);
            let whole = block.map(|(len, packed)| unpacker.unpack(packed, len, &mut self.unpacked));
            match whole {
                Some(Some(true)) => std::mem::swap(&mut self.block, &mut self.unpacked),
                Some(None) => {
                    self.is_over = true;
                    return Err(ReadError::Compressed);
                }
                _ => {
                    let frames = std::mem::take(&mut self.block);
                    let bytes = [&bytes[..], &frames].concat();
                    let bad = Bad("a block cannot be decompressed");
                    return Err(self.beyond(bad, &bytes, Some(head)));
                }
            }
        }
        (self.head, self.next) = (head, 0);
        self.at += BLOCK_HEAD as u64 + u64::from(head.len);
        Ok(())
    }

    fn next_frame(&mut self) -> Result<Option<(u32, Given)>, ReadError> {
        let from = self.next;
        match self.frame() {
            Ok(given) => Ok(given),
            Err(bad) => {
                self.next = from;
                Err(self.damaged(bad))
            }
        }
    }

    /// Reads a frame, and remembers what later frames need.
    fn frame(&mut self) -> Result<Option<(u32, Given)>, Bad> {
        let block = std::mem::take(&mut self.block);
        let from = self.next;
        let given = match block.get(from..).and_then(Frame::first) {
            Some(frame) => {
                self.next += frame.size;
                self.learn(&frame, from)
            }
            None => Err(NO_FRAME),
        };
        self.block = block;
        given
    }

    fn learn(&mut self, frame: &Frame<'_>, from: usize) -> Result<Option<(u32, Given)>, Bad> {
        let mut body = frame.body;
        match frame.what {
            frame::START => {
                let (machine, ours) = body.start().ok_or(NO_FRAME)?;
                if !ours {
                    return Err(Bad("it is from a machine of the other byte order"));
                }
                self.machine = machine;
                // It was appended to: rings have new numbers.
                self.origins.clear();
                (self.types_bytes, self.part) = (0, Totals::default());
                return Ok(None);
            }
            frame::ORIGIN => return self.origin(frame).map(|()| None),
            frame::END => {
                let totals = body.end().ok_or(NO_FRAME)?;
                if totals != self.part {
                    return Err(Bad("its totals do not match its records"));
                }
                return Ok(None);
            }
            frame::TYPE..=frame::ENDED => {}
            _ => return Ok(None), // from a later version, and not needed
        }
        let id = body.word().ok_or(NO_FRAME)?;
        let known = self.origins.get_mut(&id).ok_or(Bad("a record of an unknown ring"))?;
        Ok(match frame.what {
            frame::TYPE => {
                let entry = body.entry().ok_or(NO_FRAME)?;
                let bytes = body.0.len();
                (known.types_bytes, self.types_bytes) =
                    (known.types_bytes + bytes, self.types_bytes + bytes);
                if self.types_bytes > TYPES_MAX {
                    return Err(Bad("its rings have more types than this program can read"));
                }
                known.origin.types.extend([Ok(entry)]);
                None
            }
            frame::ANCHORS => {
                known.origin.anchors = body.anchors().ok_or(NO_FRAME)?;
                None
            }
            frame::RECORD => {
                let record = body.record(|flag| frame.has(flag));
                let bytes = record.ok_or(NO_FRAME)?.0.bytes.len() as u64;
                for totals in [&mut self.totals, &mut self.part] {
                    totals.records += 1;
                    totals.bytes += bytes;
                }
                Some((id, Given::Record { from }))
            }
            frame::LOSS => {
                let loss = body.loss(frame.has(frame::TIMED), frame.has(frame::MORE));
                let loss = loss.ok_or(NO_FRAME)?;
                self.totals.lose(&loss);
                self.part.lose(&loss);
                Some((id, Given::Lost(loss)))
            }
            frame::BEGAN => Some((id, Given::Began)),
            _ => Some((id, Given::Ended)),
        })
    }

    fn origin(&mut self, frame: &Frame<'_>) -> Result<(), Bad> {
        let origin = frame.body.origin(frame.has(frame::TIMED)).ok_or(NO_FRAME)?;
        let id = origin.id;
        self.forget(id);
        if self.origins.len() >= ORIGINS_MAX {
            return Err(Bad("it has more rings at a time than this program can read"));
        }
        let number = match &mut self.numbers {
            Some(Numbers(number)) => number(&origin.uuid),
            None => self.origins_seen,
        };
        let origin = Origin { id: number, ..origin };
        self.origins_seen = self.origins_seen.wrapping_add(1);
        self.origins.insert(id, Known { origin, types_bytes: 0 });
        Ok(())
    }

    /// Returns the error of a recording that ends here, after `bytes` of a block.
    fn truncated(&mut self, bytes: usize, head: Option<BlockHead>) -> ReadError {
        self.is_over = true;
        let (read, bytes) = (self.totals.records, bytes as u64);
        let missing = head.map_or(Missing::Unknown, |head| Missing::AtLeast(head.records.into()));
        ReadError::Truncated { read, bytes, missing }
    }

    /// Returns the error of a block that cannot be read; `read` are bytes of it.
    fn beyond(&mut self, bad: Bad, read: &[u8], head: Option<BlockHead>) -> ReadError {
        self.is_over = true;
        let (at, records) = (self.at, self.totals.records);
        match survey(&mut read.chain(&mut self.input), at, head, records) {
            Ok((bytes, missing)) => {
                ReadError::Damaged { at, what: bad.0, read: records, bytes, missing }
            }
            Err(error) => error.into(),
        }
    }

    /// Returns the error of an invalid frame in an unchanged block.
    fn damaged(&mut self, bad: Bad) -> ReadError {
        self.is_over = true;
        let (end, records) = (self.at, self.totals.records);
        let left = match self.head.is_packed {
            true => u64::from(self.head.len), // where in it has no offset in the file
            false => (self.block.len() - self.next) as u64,
        };
        let head = Some(self.head);
        match survey(&mut self.input, end, head, records) {
            Ok((bytes, missing)) => {
                let (at, bytes) = (end - left, bytes + left);
                ReadError::Damaged { at, what: bad.0, read: records, bytes, missing }
            }
            Err(error) => error.into(),
        }
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}
