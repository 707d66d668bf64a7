//! The output: lines to stdout or to files.

use super::encode::Integers;
use super::file::{File, Options};
use perfring_events::{
    Compression, Event, Figures, Output, OutputError, Stream, Took, What, check_file,
    delivery::{checks::of_output, draft::waits, tries::Tries},
    signal::Added,
};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Stdout};
use std::time::{Duration, Instant};

/// Bytes written at once.
const CHUNK: usize = 256 << 10;
/// Bytes held while they cannot be written. The last line may exceed it.
const FULL: usize = 4 << 20;
/// Bytes that are delivered as one piece; a line may exceed it.
const PIECE: usize = 16 << 10;
/// The pause between attempts to write at the end.
const PAUSE: Duration = Duration::from_millis(50);

/// JSON lines to stdout or to files, see the [module](super).
///
/// ```
/// use perfring_events::{Event, Output, Rec, Shapes, What};
/// use perfring_files::json;
/// # use perfring_consumer::{Consumer, Item};
/// # use perfring_producer::{Options, Producer};
/// # use std::time::Instant;
/// # let dir = tempfile::tempdir()?;
/// # let (ring, path) = (dir.path().join("shop"), dir.path().join("shop.jsonl"));
/// # Producer::create(&ring, &Options::default())?.publish(b"an order")?;
/// # let shapes = Shapes::open(&ring, 0)?;
/// # let mut consumer = Consumer::attach(&ring)?;
/// # let Some(Item::Record(record)) = consumer.read()? else { panic!() };
/// # let record = Rec::new(record, shapes.origin());
/// let options = json::Options { path: path.clone(), ..json::Options::default() };
/// let mut lines = json::JsonLines::open("lines", &options)?;
/// lines.take(&Event { seq: 1, origin: shapes.origin(), what: What::Record(record) })?;
/// assert_eq!(lines.unsettled(), Some(1));
/// lines.flush()?;
/// assert_eq!(lines.unsettled(), None);
/// assert!(std::fs::read_to_string(path)?.ends_with("\"an order\"}\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonLines {
    lines: Lines,
    integers: Integers,
    added: Added,
}

/// Lines on their way to stdout or to files, whatever is in them: [`JsonLines`] and OTLP's JSON are written so.
///
/// ```
/// use perfring_files::json::{Lines, Options};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers");
/// let mut lines = Lines::open("numbers", &Options { path: path.clone(), ..Options::default() })?;
/// lines.put(7, 1, |line| {
///     line.extend_from_slice(b"one");
///     true
/// })?;
/// assert_eq!(lines.unsettled(), Some(7));
/// lines.flush()?;
/// assert_eq!((lines.unsettled(), lines.figures().delivered), (None, 1));
/// assert_eq!(std::fs::read_to_string(path)?, "one\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Lines {
    name: String,
    to: To,
    /// Lines that are not all written.
    held: Vec<u8>,
    /// Bytes of them that are written.
    written: usize,
    /// The events of these lines, in pieces.
    pieces: VecDeque<Piece>,
    tries: Tries,
    figures: Figures,
}

#[derive(Debug)]
enum To {
    Pipe(Stream<Stdout>),
    File(Box<File>),
}

/// Lines that are delivered together.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The number of the oldest event.
    seq: u64,
    records: u64,
    /// Where they end in the held lines.
    start: usize,
    end: usize,
}

impl JsonLines {
    /// Checks where lines are written.
    ///
    /// # Errors
    /// What [`JsonLines::open`] would refuse, but for another process that writes to it.
    pub fn check(name: &str, options: &Options) -> Result<(), OutputError> {
        Lines::check(name, options)
    }

    /// Opens the file or stdout, as [`Lines::open`] does.
    ///
    /// # Errors
    /// [`OutputError`] if the file cannot be written to, or another process writes to it.
    pub fn open(name: &str, options: &Options) -> Result<Self, OutputError> {
        let (lines, integers) = (Lines::open(name, options)?, options.integers);
        Ok(JsonLines { lines, integers, added: Added::default() })
    }
}

impl Lines {
    /// Checks where lines are written.
    ///
    /// # Errors
    /// What [`Lines::open`] would refuse, but for another process that writes to it.
    pub fn check(name: &str, options: &Options) -> Result<(), OutputError> {
        of_output(name, options.rotation().check())?;
        match options.path.as_os_str() == "-" {
            true => Ok(()),
            false => of_output(name, check_file(&options.path)),
        }
    }

    /// Opens the file, which is created if it does not exist, or stdout. Lines of another process
    /// in the file stay, except an incomplete last one: its record was not delivered.
    ///
    /// # Errors
    /// [`OutputError`] if the file cannot be written to, or another process writes to it.
    pub fn open(name: &str, options: &Options) -> Result<Self, OutputError> {
        of_output(name, options.rotation().check())?;
        let to = if options.path.as_os_str() == "-" {
            if options.compression != Compression::None {
                return Err(OutputError::new(name, "compression is for files: name one in path"));
            }
            To::Pipe(Stream::stdout())
        } else {
            let file = File::open(name, options).map_err(|what| OutputError::new(name, what))?;
            To::File(Box::new(file))
        };
        Ok(Lines {
            name: name.to_owned(),
            to,
            held: Vec::with_capacity(CHUNK + (64 << 10)),
            written: 0,
            pieces: VecDeque::new(),
            tries: Tries::new(&options.terms),
            figures: Figures::default(),
        })
    }

    /// Writes what is held, as far as that is possible now.
    fn write(&mut self) -> Result<(), OutputError> {
        if self.pieces.is_empty() || !self.tries.is_due() {
            return Ok(());
        }
        let before = self.written;
        let written = match &mut self.to {
            To::Pipe(pipe) => pipe.write_some(&self.held, &mut self.written),
            To::File(file) => file.write(&self.held, &mut self.written),
        };
        self.figures.bytes += (self.written - before) as u64;
        // With sync, lines are delivered only after the last of the writes.
        let safe = match (&written, &self.to) {
            (Ok(true), _) | (_, To::Pipe(_)) => self.written,
            (_, To::File(file)) if !file.options.sync => self.written,
            _ => 0,
        };
        while let Some(piece) = self.pieces.front().filter(|piece| piece.end <= safe) {
            self.figures.delivered += piece.records;
            self.pieces.pop_front();
        }
        if self.pieces.is_empty() {
            self.held.clear();
            // Release the memory of a long outage.
            self.held.shrink_to(2 * CHUNK);
            self.written = 0;
        } else if safe >= CHUNK {
            self.held.drain(..safe);
            self.written -= safe;
            for piece in &mut self.pieces {
                piece.start = piece.start.saturating_sub(safe);
                piece.end -= safe;
            }
        }
        match written {
            Ok(_) => {
                // Not all was written: a pipe whose reader is slow, which is no problem.
                self.figures.trouble = None;
                self.tries.end();
                Ok(())
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &io::Error) -> Result<(), OutputError> {
        if error.kind() == ErrorKind::BrokenPipe {
            let sentence = "the reader of its lines is gone".to_owned();
            return Err(OutputError { output: self.name.clone(), sentence, closed_pipe: true });
        }
        let place = match &self.to {
            To::Pipe(_) => "stdout".to_owned(),
            To::File(file) => file.options.path.display().to_string(),
        };
        self.figures.retries += 1;
        self.figures.trouble = Some(waits(&place, error));
        self.tries.failed();
        Ok(())
    }

    /// Returns whether so much is held that no further line is taken for now, after an attempt to write.
    ///
    /// # Errors
    /// The reader of stdout is gone.
    #[inline]
    pub fn is_full(&mut self) -> Result<bool, OutputError> {
        if self.held.len() >= FULL {
            self.write()?;
        }
        Ok(self.held.len() >= FULL)
    }

    /// Appends a line with so many records, of which the oldest event has this number, and its end; none if `line` says so.
    ///
    /// # Errors
    /// The reader of stdout is gone.
    #[inline]
    pub fn put(
        &mut self,
        seq: u64,
        records: u64,
        line: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> Result<(), OutputError> {
        let start = self.held.len();
        if !line(&mut self.held) {
            return Ok(());
        }
        self.held.push(b'\n');
        let end = self.held.len();
        self.figures.taken += records;
        match self.pieces.back_mut().filter(|piece| piece.end - piece.start < PIECE) {
            Some(piece) => {
                piece.seq = piece.seq.min(seq);
                piece.records += records;
                piece.end = end;
            }
            None => self.pieces.push_back(Piece { seq, records, start, end }),
        }
        if self.held.len() >= CHUNK {
            self.write()?;
        }
        Ok(())
    }

    /// Writes what is held, and finishes a file that is old.
    ///
    /// # Errors
    /// The reader of stdout is gone.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        self.write()?;
        if !self.pieces.is_empty() {
            return Ok(());
        }
        let kept = match &mut self.to {
            To::File(file) => file.rotate_if_old(),
            To::Pipe(pipe) if pipe.is_closed() => Err(ErrorKind::BrokenPipe.into()),
            To::Pipe(_) => Ok(()),
        };
        kept.or_else(|error| self.failed(&error))
    }

    /// Ends the pause before the next attempt. Returns whether there was one.
    pub fn retry(&mut self) -> bool {
        self.tries.retry()
    }

    /// Returns the number of the oldest event whose line is not written.
    #[must_use]
    pub fn unsettled(&self) -> Option<u64> {
        self.pieces.iter().map(|piece| piece.seq).min()
    }

    /// Writes all that is held, within this time.
    ///
    /// # Errors
    /// How many records could not be written, and why.
    pub fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        loop {
            self.tries.retry();
            self.write()?;
            if self.pieces.is_empty() {
                match &mut self.to {
                    To::File(file) => match file.finish() {
                        Ok(()) => return Ok(()),
                        Err(error) => self.failed(&error)?,
                    },
                    To::Pipe(_) => return Ok(()),
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match &self.to {
                To::Pipe(pipe) if self.figures.trouble.is_none() => pipe.wait(left),
                _ => std::thread::sleep(PAUSE.min(left)),
            }
        }
        // What is not reported as delivered is delivered by another one: not twice.
        if let (To::File(file), Some(first)) = (&mut self.to, self.pieces.front())
            && file.take_back(self.written.saturating_sub(first.start) as u64).is_ok()
        {
            self.written = self.written.min(first.start);
        }
        let why = self.figures.trouble.clone().unwrap_or_else(|| "its reader is slow".to_owned());
        let records: u64 = self.pieces.iter().map(|piece| piece.records).sum();
        let what = format!("{records} records could not be written before the deadline: {why}");
        Err(OutputError::new(&*self.name, what))
    }

    /// Returns what became of the records.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut figures = self.figures.clone();
        if let To::File(file) = &self.to {
            figures.removed = file.removed.clone();
        }
        figures
    }
}

impl Output for JsonLines {
    fn add_resource(&mut self, attributes: &[(String, String)]) {
        self.added = Added::new(attributes);
    }

    #[inline]
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if self.lines.is_full()? {
            return Ok(Took::Busy);
        }
        let (integers, added) = (self.integers, &self.added);
        let records = u64::from(matches!(event.what, What::Record(_)));
        self.lines.put(event.seq, records, |line| super::encode(event, integers, added, line))?;
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.lines.flush()
    }

    fn retry(&mut self) -> bool {
        self.lines.retry()
    }

    fn unsettled(&mut self) -> Option<u64> {
        self.lines.unsettled()
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        self.lines.close(deadline)
    }

    fn figures(&self) -> Figures {
        self.lines.figures()
    }
}
