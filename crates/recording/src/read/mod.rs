//! Reads a recording.

mod advance;
mod progress;

use super::block::{BLOCK_HEAD, BlockHead, fill, packed, survey};
use super::counts::Counts;
use super::error::{Bad, Missing, NO_FRAME, ReadError};
use super::frame::{self, Frame};
use super::head::{COMPRESSED, HEAD, MAGIC};
use super::machine::Machine;
use super::over::Over;
use super::rings::Rings;
use perfring_consumer::RecordRef;
use perfring_events::{
    Event, Loss, Rec, Totals, What, delivery::compress::Unpacker, event::ring_bytes,
};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

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
    rings: Rings,
    /// A ring whose last event was returned.
    ended: Option<u32>,
    /// Goes on over damage, if it is a file of a buffer.
    over: Option<Box<Over>>,
    /// Whether it does so with the next block.
    resumed: bool,
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

/// What a frame contributes to the returned events.
#[derive(Clone, Copy, Debug)]
enum Given {
    Began,
    Record { from: usize },
    Lost(Loss),
    Ended,
}

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
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut reader = Self::of(input);
        reader.begin()?;
        Ok(reader)
    }

    fn of(input: R) -> Self {
        Reader {
            input,
            machine: Machine::default(),
            block: Vec::new(),
            head: BlockHead::default(),
            unpacker: Unpacker::default(),
            unpacked: Vec::new(),
            next: 0,
            at: HEAD as u64,
            rings: Rings::default(),
            ended: None,
            over: None,
            resumed: false,
            last: None,
            again: false,
            limit: u64::MAX,
            seq: 0,
            totals: Totals::default(),
            part: Totals::default(),
            is_over: false,
        }
    }

    /// Reads the head and the first frame.
    fn begin(&mut self) -> Result<(), ReadError> {
        let mut head = [0; HEAD];
        let len = fill(&mut self.input, &mut head)?;
        if !MAGIC.starts_with(&head[..len.min(MAGIC.len())]) || len == 0 {
            return Err(ReadError::Other);
        }
        if len < HEAD {
            let (read, bytes) = (0, len as u64);
            return Err(ReadError::Truncated { read, bytes, missing: Missing::Unknown });
        }
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|nth| head[at + nth]));
        if number(12) > COMPRESSED {
            // This program and those before it write both numbers alike.
            let is_damaged = self.over.is_some() && number(8) != number(12);
            let other = ReadError::Version { version: number(8) };
            return Err(if is_damaged { ReadError::Other } else { other });
        }
        self.next_block()?;
        let first = Frame::first(&self.block).filter(|first| first.what == frame::START);
        match first.map(|first| first.body.start()) {
            Some(Some((_, false))) => Err(ReadError::Order),
            Some(Some(_)) => self.next_frame().map(drop),
            _ => Err(self.damaged(Bad("the frame that names its writer is missing"))),
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
            self.rings.forget(id);
        }
        let (id, given) = loop {
            if let Some(last) = again {
                break last;
            }
            if let Some((id, loss)) = self.over.as_mut().and_then(|over| over.take_owed()) {
                break (id, loss.map_or(Given::Ended, Given::Lost));
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
                self.over.iter_mut().for_each(|over| over.returned());
                break found;
            }
        };
        self.last = Some((id, given));
        // `next_frame` found it.
        let Some(origin) = self.rings.get(id) else { return Ok(None) };
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
                    RecordRef { pos: 0, kind: 0, bytes: &[], time: None, writer: None },
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
        self.rings.number_by(number);
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
        if std::mem::take(&mut self.resumed) {
            self.totals.records = head.before;
        }
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
                if frame.what == frame::COUNTS && self.next == block.len() {
                    self.check(&frame);
                }
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
                self.rings.clear();
                self.part = Totals::default();
                return Ok(None);
            }
            frame::ORIGIN => {
                let id = self.rings.origin(frame)?;
                self.over.iter_mut().for_each(|over| over.claim(id));
                return Ok(None);
            }
            frame::END => {
                let is_more = self.part.is_more; // the frame does not say it
                let totals = Totals { is_more, ..body.end().ok_or(NO_FRAME)? };
                if totals != self.part && !self.goes_on() {
                    return Err(Bad("its totals do not match its records"));
                }
                return Ok(None);
            }
            frame::TYPE..=frame::ENDED | frame::READ_TO => {}
            _ => return Ok(None), // from a later version, and not needed
        }
        let id = body.word().ok_or(NO_FRAME)?;
        // What the damage took lacks it: that is counted at the end of the block.
        if self.goes_on() && !self.rings.is_whole(id) || self.rings.learn(id, frame)? {
            return Ok(None);
        }
        Ok(match frame.what {
            frame::RECORD => {
                let record = body.record(|flag| frame.has(flag));
                let record = record.ok_or(NO_FRAME)?.0;
                let bytes = record.bytes.len() as u64;
                if let Some(over) = &mut self.over {
                    let has = (record.time.is_some(), record.writer.is_some());
                    over.of(id).record(record.pos, ring_bytes(has.0, has.1, record.bytes));
                }
                for totals in [&mut self.totals, &mut self.part] {
                    totals.records += 1;
                    totals.bytes += bytes;
                }
                Some((id, Given::Record { from }))
            }
            frame::LOSS => {
                let loss = body.loss(|flag| frame.has(flag));
                let loss = loss.ok_or(NO_FRAME)?;
                self.totals.lose(&loss);
                self.part.lose(&loss);
                self.over.iter_mut().for_each(|over| over.of(id).lose(&loss));
                Some((id, Given::Lost(loss)))
            }
            frame::BEGAN => Some((id, Given::Began)),
            _ => Some((id, Given::Ended)),
        })
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
        if self.over.is_some() {
            return found(at, bad, records);
        }
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
        if self.over.is_some() {
            self.at = self.head.at;
            return found(end - left, bad, records);
        }
        match survey(&mut self.input, end, head, records) {
            Ok((bytes, missing)) => {
                let (at, bytes) = (end - left, bytes + left);
                ReadError::Damaged { at, what: bad.0, read: records, bytes, missing }
            }
            Err(error) => error.into(),
        }
    }

    fn goes_on(&self) -> bool {
        self.over.as_ref().is_some_and(|over| over.damage.is_some())
    }

    /// Compares what was read with what the file has up to the end of a block.
    fn check(&mut self, frame: &Frame<'_>) {
        if let (Some(over), Some(counts)) = (&mut self.over, Counts::parse(frame.body)) {
            over.check(&counts, &mut self.rings);
        }
    }
}

/// Returns the error of a damage behind which it may go on.
fn found(at: u64, bad: Bad, read: u64) -> ReadError {
    ReadError::Damaged { at, what: bad.0, read, bytes: 0, missing: Missing::Unknown }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}
