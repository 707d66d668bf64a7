//! Writes a recording.

use super::block::{BLOCK_HEAD, BLOCK_MAX, BlockHead, put_packed};
use super::counts::Noted;
use super::frame::{self, FRAME_MAX};
use super::head::{HEAD, head};
use super::machine::Machine;
use super::open::{Opened, Options, Refused, open};
use super::target::Target;
use perfring_consumer::{Anchors, Cause, advanced::Saved};
use perfring_events::{
    Event, Figures, Loss, LossCause, Origin, Output, OutputError, Took, Totals, What, WriteError,
    delivery::{compress::BlockPacker, draft::waits, tries::Tries},
    timeline::wall_now,
};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Seek, SeekFrom, Write};
use std::time::Instant;

/// The limit of bytes that a record takes besides its payload.
const RECORD_MOST: usize = 64;

/// A recording that is being written: one file with the records of many rings.
///
/// A record is delivered once it is in the file, where only a crash of the machine can lose it;
/// [`Output::close`] also waits for the disk.
pub struct Recording {
    name: String,
    out: Target,
    block_bytes: usize,
    /// Room for a header, and the frames of the block that is being filled.
    block: Vec<u8>,
    packer: Option<BlockPacker>,
    /// The block compressed: alone, and as it is written.
    packed: (Vec<u8>, Vec<u8>),
    /// Records in it.
    in_block: u32,
    /// The number of the oldest event in it.
    oldest: Option<u64>,
    /// The beginning of a new file, until it is written.
    head: Vec<u8>,
    /// The offset of the block.
    at: u64,
    /// Records in the file.
    written: u64,
    known: HashMap<u32, Known>,
    /// What it notes of rings in each block, if it is a file of a buffer.
    noted: Option<Noted>,
    totals: Totals,
    figures: Figures,
    tries: Tries,
    state: State,
}

/// What the recording has of a ring.
#[derive(Debug, Default)]
struct Known {
    /// The epoch of its producer.
    epoch: u64,
    types: usize,
    anchors: Anchors,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    Closed,
    /// Why nothing more can be written.
    Failed(String),
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Recording");
        shown.field("name", &self.name).field("at", &self.at).field("totals", &self.totals);
        shown.finish_non_exhaustive()
    }
}

impl Recording {
    /// Creates the file, or opens an existing one to append, according to the options.
    ///
    /// # Errors
    /// [`OutputError`], if the file cannot be opened or written.
    pub fn open(name: &str, options: &Options) -> Result<Self, OutputError> {
        Self::open_as(name, options, None)
    }

    /// Creates a file that notes in each block what it has of rings.
    pub(crate) fn open_noted(name: &str, options: &Options) -> Result<Self, OutputError> {
        Self::open_as(name, options, Some(Noted::default()))
    }

    fn open_as(name: &str, options: &Options, noted: Option<Noted>) -> Result<Self, OutputError> {
        let shown = options.path.display();
        let fails = |what: String| OutputError::new(name, format!("{shown} {what}"));
        // A build that cannot compress makes no file.
        let packer = BlockPacker::new(name, options.compression)?;
        let opened = open(options).map_err(|Refused(what)| fails(what))?;
        let (target, at, written, truncated, packer) = match opened {
            Opened::New(file) => (Target::File(file), None, 0, 0, packer),
            Opened::Other(file) => (Target::Device(file), None, 0, 0, packer),
            Opened::Old { file, at, written, truncated, compressed } => {
                // Of one that is compressed, any block may be uncompressed.
                let packer = packer.filter(|_| compressed);
                (Target::File(file), Some(at), written, truncated, packer)
            }
        };
        let mut recording = Recording { noted, ..Self::of(name, target, options, packer) };
        if truncated > 0 {
            recording.figures.trouble = Some(format!(
                "{shown}: its last {truncated} bytes were an incomplete block, and were removed"
            ));
        }
        recording.begin(at, written)?;
        Ok(recording)
    }

    /// Writes the recording to `out`.
    ///
    /// # Errors
    /// [`OutputError`], if it cannot be written.
    pub fn to(name: &str, out: impl Write + 'static) -> Result<Self, OutputError> {
        let stream = Target::Stream(Box::new(out));
        let mut recording = Self::of(name, stream, &Options::default(), None);
        recording.begin(None, 0)?;
        Ok(recording)
    }

    fn of(name: &str, out: Target, options: &Options, packer: Option<BlockPacker>) -> Self {
        let block_bytes = options.block_bytes.clamp(1, 1 << 20) as usize;
        Recording {
            name: name.to_owned(),
            out,
            block_bytes,
            block: vec![0; BLOCK_HEAD],
            packer,
            packed: Default::default(),
            in_block: 0,
            oldest: None,
            head: Vec::new(),
            at: 0,
            written: 0,
            known: HashMap::new(),
            noted: None,
            totals: Totals::default(),
            figures: Figures::default(),
            tries: Tries::new(&options.terms),
            state: State::Open,
        }
    }

    /// Writes the head of a new file, and the machine.
    fn begin(&mut self, at: Option<u64>, written: u64) -> Result<(), OutputError> {
        if at.is_none() {
            self.head = head(self.packer.is_some()).to_vec();
        }
        (self.at, self.written) = (at.unwrap_or(HEAD as u64), written);
        let machine = Machine::here();
        frame::put_start(&mut self.block, &machine);
        self.noted.iter_mut().for_each(|noted| noted.began = machine.wall_ns);
        self.write_block(false).map(|_| ()) // from now on the file is recognised as a recording
    }

    /// Returns the totals recorded so far.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns whether it can be read.
    pub(crate) fn has_begun(&self) -> bool {
        self.head.is_empty() && self.at > HEAD as u64
    }

    /// Returns how many bytes the recording has.
    pub(crate) fn bytes(&self) -> u64 {
        self.at
    }

    fn check(&self) -> Result<(), OutputError> {
        match &self.state {
            State::Open => Ok(()),
            State::Closed => Err(OutputError::new(&*self.name, "it is closed already")),
            State::Failed(sentence) => Err(OutputError::new(&*self.name, sentence)),
        }
    }

    /// Writes what is not in the recording yet about the ring.
    fn report(&mut self, origin: &Origin, begins: bool) -> Result<(), OutputError> {
        let id = origin.id;
        let repeats = self.noted.as_mut().is_some_and(|noted| noted.repeats(id));
        let epoch = origin.producer.epoch;
        if begins || repeats || self.known.get(&id).is_none_or(|known| known.epoch != epoch) {
            frame::put_origin(&mut self.block, origin);
            self.noted.iter_mut().for_each(|noted| noted.origin(id, origin.uuid, repeats));
            self.known.insert(id, Known { epoch, ..Known::default() });
        }
        let Some(known) = self.known.get_mut(&id) else { return Ok(()) };
        if known.anchors.all() != origin.anchors.all() {
            known.anchors = origin.anchors;
            frame::put_anchors(&mut self.block, id, &origin.anchors);
        }
        let from = known.types;
        if from < origin.types.len() {
            for entry in origin.types.entries().skip(from) {
                if self.block.len() > BLOCK_MAX / 2 {
                    break; // the disk is full: the rest comes with the next event
                }
                if let Some(known) = self.known.get_mut(&id) {
                    known.types += 1;
                }
                if entry.text.len() + RECORD_MOST < FRAME_MAX {
                    frame::put_type(&mut self.block, id, &entry);
                    self.noted.iter_mut().for_each(|noted| noted.type_of(id, repeats));
                    self.write_if_full()?;
                } else {
                    let kind = entry.id.get();
                    self.figures.trouble =
                        Some(format!("type {kind} of {} is too long to record", origin.name));
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, event: &Event<'_>) {
        self.noted.iter_mut().for_each(|noted| noted.event(event));
    }

    fn is_full(&self) -> bool {
        self.block.len() - BLOCK_HEAD >= self.block_bytes
    }

    fn write_if_full(&mut self) -> Result<(), OutputError> {
        // A block has its limit, also while it waits.
        if self.is_full() && self.block.len() < BLOCK_MAX / 2 {
            self.write_block(false)?;
        }
        Ok(())
    }

    /// Writes the block, unless it is too early to try that again. Returns whether it is written.
    fn write_block(&mut self, is_last: bool) -> Result<bool, OutputError> {
        if !self.tries.is_due() {
            return Ok(false);
        }
        let is_packed = self.pack();
        let block = match &mut self.noted {
            _ if is_packed => &mut self.packed.1,
            Some(noted) => noted.enclose(&self.block, self.at),
            None => &mut self.block,
        };
        let frames = &block[BLOCK_HEAD..];
        debug_assert!(frames.len() <= BLOCK_MAX);
        let head = BlockHead {
            len: frames.len() as u32,
            at: self.at,
            before: self.written,
            records: self.in_block,
            is_last,
            is_packed,
            crc: crc32fast::hash(frames),
        };
        block[..BLOCK_HEAD].copy_from_slice(&head.to_bytes());
        let len = block.len() as u64;
        let written = self.out.write_all(&self.head).and_then(|()| self.out.write_all(block));
        if let Err(error) = written.and_then(|()| self.out.flush()) {
            return self.failed(&error);
        }
        if self.tries.end() {
            self.figures.trouble = None;
        }
        self.noted.iter_mut().for_each(Noted::written);
        self.figures.bytes += self.head.len() as u64;
        self.head.clear();
        self.at += len;
        self.written = head.until();
        self.figures.bytes += len;
        self.figures.delivered += u64::from(self.in_block);
        self.block.truncate(BLOCK_HEAD);
        (self.in_block, self.oldest) = (0, None);
        Ok(true)
    }

    /// Compresses the block. Returns whether that makes it shorter.
    fn pack(&mut self) -> bool {
        let Some(packer) = &mut self.packer else { return false };
        let (packed, block) = &mut self.packed;
        let frames = &self.block[BLOCK_HEAD..];
        // What cannot be compressed is as good as it is.
        if packer.pack(frames, packed).is_err() {
            return false;
        }
        put_packed(frames, packed, block);
        block.len() < self.block.len()
    }

    /// Removes half-written bytes, so that the file ends with a block. In a file, the block is
    /// written later; elsewhere nothing more can be written.
    fn failed(&mut self, error: &io::Error) -> Result<bool, OutputError> {
        if let Target::File(file) = &mut self.out {
            let end = self.at - self.head.len() as u64;
            if file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end))).is_ok() {
                self.figures.retries += 1;
                self.figures.trouble = Some(waits("the recording", error));
                self.tries.failed();
                return Ok(false);
            }
        }
        let sentence = format!("cannot write: {}", WriteError(error));
        let closed_pipe = self.out.is_closed_pipe(error);
        self.state = State::Failed(sentence.clone());
        self.figures.trouble = Some(sentence.clone());
        Err(OutputError { closed_pipe, ..OutputError::new(&*self.name, sentence) })
    }
}

impl Output for Recording {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        self.check()?;
        if (self.is_full() || self.tries.is_failing()) && !self.write_block(false)? {
            return Ok(Took::Busy);
        }
        let id = event.origin.id;
        self.report(event.origin, matches!(event.what, What::Began))?;
        match &event.what {
            What::Began => frame::put_turn(&mut self.block, frame::BEGAN, id),
            What::Record(record) if record.bytes.len() + RECORD_MOST > FRAME_MAX => {
                self.figures.refused += 1;
                self.figures.trouble = Some(format!(
                    "a record of {} bytes at {} of {} is not in the recording: the limit is {}",
                    record.bytes.len(),
                    record.pos,
                    event.origin.name,
                    FRAME_MAX - RECORD_MOST
                ));
                // The recording contains the loss as well.
                let bytes = record.bytes.len() as u64;
                let cause = LossCause::Ring(Cause::TooLarge);
                let (pos, time) = (record.pos, record.time);
                let loss = Loss { time, ..Loss::new(pos, 1, bytes, cause) };
                frame::put_loss(&mut self.block, id, &loss);
                self.note(&Event { what: What::Lost(loss), ..*event });
                self.totals.lose(&loss);
                self.oldest = self.oldest.or(Some(event.seq));
                self.write_if_full()?;
                return Ok(Took::Yes);
            }
            What::Record(record) => {
                frame::put_record(&mut self.block, id, record);
                self.in_block += 1;
                self.figures.taken += 1;
            }
            What::Lost(loss) => frame::put_loss(&mut self.block, id, loss),
            What::Ended => {
                frame::put_turn(&mut self.block, frame::ENDED, id);
                self.known.remove(&id);
            }
        }
        self.note(event);
        self.totals.add(event);
        self.oldest = self.oldest.or(Some(event.seq));
        self.write_if_full()?;
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.check()?;
        if self.block.len() > BLOCK_HEAD {
            self.write_block(false)?;
        }
        Ok(())
    }

    fn read_to(&mut self, ring: &Origin, at: &Saved) -> Result<(), OutputError> {
        self.check()?;
        if self.tries.is_failing() {
            return Ok(());
        }
        self.report(ring, false)?;
        frame::put_read_to(&mut self.block, ring.id, at);
        self.write_if_full()
    }

    fn retry(&mut self) -> bool {
        self.tries.retry()
    }

    fn unsettled(&mut self) -> Option<u64> {
        self.oldest
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        match self.state {
            State::Closed => return Ok(()),
            _ => self.check()?,
        }
        let open = self.block.len();
        frame::put_end(&mut self.block, &self.totals, wall_now());
        self.noted.iter_mut().for_each(Noted::list_all);
        let written = Tries::until(deadline, || {
            self.tries.retry();
            self.write_block(true)
        })?;
        let synced = match &self.out {
            Target::File(file) if written => file.sync_data(),
            _ => Ok(()),
        };
        if let Err(error) = synced {
            return Err(OutputError::new(
                &*self.name,
                format!("cannot write to the disk: {}", WriteError(&error)),
            ));
        }
        if !written {
            self.block.truncate(open);
            let why = self.figures.trouble.clone().unwrap_or_default();
            let what = format!("{} records could not be written: {why}", self.in_block);
            return Err(OutputError::new(&*self.name, what));
        }
        self.state = State::Closed;
        Ok(())
    }

    fn figures(&self) -> Figures {
        self.figures.clone()
    }
}
