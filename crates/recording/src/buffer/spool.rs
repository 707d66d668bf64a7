//! The files of a buffer: recordings, of which the oldest is read and the newest written.

use super::damages::NoEnd::{OtherBoot, Shorter};
use super::damages::{DAMAGED, Damages, kept};
use super::ends::{Ends, RingEnd, ends_of, extend};
use super::lock::lock;
use super::numbers::Numbers;
use super::place::Place;
use super::progress::{At, Progress};
use crate::open::{Existing, Options};
use crate::{error::ReadError, machine::boot, read::Reader, write::Recording};
use perfring_events::{Event, FileMode, Output, OutputError, Terms, Took};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A file is finished once it has this part of the limit, within these bounds.
const PART: u64 = 16;
const FILE_BYTES: (u64, u64) = (64 << 10, 16 << 20);
const ENDING: &str = "perfrec";
/// How long a problem of the start is shown.
const SHOWN: Duration = Duration::from_secs(10);

/// A finished file.
#[derive(Clone, Copy, Debug)]
struct Segment {
    number: u64,
    bytes: u64,
    is_damaged: bool,
}

/// The files.
pub(super) struct Spool {
    name: String,
    dir: PathBuf,
    _lock: File,
    pub(super) max_bytes: u64,
    numbers: Rc<RefCell<Numbers>>,
    /// Those that are not read yet, oldest first.
    waiting: VecDeque<Segment>,
    writer: Option<(Recording, u64)>,
    /// Bytes of all other files.
    finished: u64,
    reader: Option<(Reader, Segment)>,
    /// Those that were read, and the last event of each that was passed on.
    read: VecDeque<(Segment, u64)>,
    pub(super) progress: Progress,
    /// What was delivered of rings, or in the files, when they were opened.
    had: Ends,
    newest: u64,
    trouble: Option<String>,
    /// A problem of the start, and when that was.
    at_start: Option<(Instant, String)>,
    damages: Damages,
    /// Whether the last process with these files was in another boot of the machine.
    is_other_boot: bool,
}

impl Spool {
    pub(super) fn open(
        name: &str,
        dir: &Path,
        max_bytes: u64,
        numbers: Rc<RefCell<Numbers>>,
    ) -> Result<Self, OutputError> {
        let fails = |what: String| {
            OutputError::new(name, format!("cannot use the buffer {}: {what}", dir.display()))
        };
        let io = |error: io::Error| fails(error.to_string());
        fs::create_dir_all(dir).map_err(io)?;
        let (lock, is_other_boot) = lock(dir).map_err(|error| match error {
            TryLockError::WouldBlock => fails("another process uses it".to_owned()),
            TryLockError::Error(error) => io(error),
        })?;
        let (mut waiting, mut empty, mut finished, mut newest) = (Vec::new(), Vec::new(), 0, 0);
        for entry in dir.read_dir().map_err(io)? {
            let entry = entry.map_err(io)?;
            let path = entry.path();
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            let (Some(number), Some(ending)) = (number, path.extension()) else { continue };
            let bytes = entry.metadata().map_err(io)?.len();
            match ending.to_str() {
                // It was created, and nothing was written to it.
                Some(ENDING) if bytes == 0 => {
                    fs::remove_file(&path).map_err(io)?;
                    empty.push(number);
                }
                Some(ENDING) => waiting.push(Segment { number, bytes, is_damaged: false }),
                Some(DAMAGED) => {}
                _ => continue,
            }
            finished += bytes;
            newest = newest.max(number);
        }
        waiting.sort_by_key(|segment: &Segment| segment.number);
        let mut spool = Spool {
            name: name.to_owned(),
            dir: dir.to_owned(),
            _lock: lock,
            max_bytes,
            numbers,
            waiting: waiting.into(),
            writer: None,
            finished,
            reader: None,
            read: VecDeque::new(),
            progress: Progress::new(name),
            had: Ends::new(),
            newest,
            trouble: None,
            at_start: None,
            damages: Damages::default(),
            is_other_boot,
        };
        empty.into_iter().for_each(|number| spool.has_no_beginning(number));
        spool.resume();
        Ok(spool)
    }

    /// Continues where delivery was when the last process saved that, if it did, of these files; else at the beginning.
    fn resume(&mut self) {
        let mut files: Vec<Segment> = self.waiting.iter().copied().collect();
        let place = Place::read(&self.dir, &self.name).and_then(|place| {
            let is_new = files.is_empty(); // a new buffer has a place before its first file
            let missing = || "its file `place` is missing".to_owned();
            let Some(place) = place else { return is_new.then_some(None).ok_or_else(missing) };
            // Its number is not used again.
            self.newest = self.newest.max(place.file);
            self.skip(&place).map(|()| Some(place))
        });
        let place = place.unwrap_or_else(|why| {
            let sentence = format!(
                "its buffer {} does not say how far it is delivered, and all that it holds is \
                 delivered again: {why}",
                self.dir.display()
            );
            self.at_start = Some((Instant::now(), sentence));
            None
        });
        let (exact, rings) = self.progress.resume(place, self.newest + 1, &self.dir);
        let delivered = rings.clone();
        files.retain(|segment| segment.number >= exact);
        self.had = ends_of(files.iter().map(|it| (self.path(it.number), it.bytes)).rev());
        delivered.into_iter().for_each(|(ring, end)| extend(&mut self.had, ring, end));
    }

    /// Skips what is delivered of the oldest file.
    ///
    /// # Errors
    /// It is another file.
    fn skip(&mut self, place: &Place) -> Result<(), String> {
        // A file is removed before delivery goes on in the next: others are not delivered at all.
        if self.waiting.front().is_none_or(|first| first.number != place.file) || !self.start() {
            return Ok(());
        }
        let opened = self.reader.as_mut().filter(|(_, segment)| segment.number == place.file);
        let Some((reader, _)) = opened else { return Ok(()) };
        if reader.machine().wall_ns != place.began {
            return Err("it is about a file that was replaced".to_owned());
        }
        loop {
            match reader.advance() {
                Ok(true) if reader.events().1 <= place.events => drop(reader.next()),
                Ok(_) => return Ok(()),
                Err(ReadError::Truncated { .. }) => {
                    self.has_no_end(Some(place.events));
                    return Ok(());
                }
                // It is met again.
                Err(error) => {
                    self.waiting.extend(self.reader.take().map(|(_, segment)| segment));
                    self.waiting.rotate_right(1);
                    return Err(error.to_string());
                }
            }
        }
    }

    /// Handles a file of which no event can be read: its writer was killed, or the machine crashed.
    fn has_no_beginning(&mut self, number: u64) {
        if self.is_other_boot {
            self.damages.no_end(number, &self.path(number), OtherBoot);
        }
    }

    /// Handles a file that has no end; `delivered` is how many of its events are, if that is known. A process that was killed
    /// leaves such a file, which lacks nothing: what is not in the file is still in its rings.
    fn has_no_end(&mut self, delivered: Option<u64>) {
        let Some((reader, segment)) = &self.reader else { return };
        let (number, events) = (segment.number, reader.events().0);
        let why = match delivered.filter(|delivered| *delivered > events) {
            Some(delivered) => Some(Shorter { events, delivered }),
            // Where the machine is damaged, its boot is not known: zeros.
            None => (![[0; 16], boot()].contains(&reader.machine().boot)).then_some(OtherBoot),
        };
        if let Some(why) = why {
            self.damages.no_end(number, &self.path(number), why);
        }
    }

    /// Notes that rules leave out records of rings from now on.
    pub(super) fn forget_rings(&mut self) {
        self.progress.forget_rings(&self.dir);
    }

    /// Takes what was delivered of rings, or in the files, when they were opened.
    pub(super) fn take_had(&mut self) -> Ends {
        std::mem::take(&mut self.had)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:08}.{ENDING}"))
    }

    /// Returns how many bytes it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.finished + self.writer.as_ref().map_or(0, |(writer, _)| writer.bytes())
    }

    /// Returns how many of them are not delivered.
    pub(super) fn undelivered(&self) -> u64 {
        let read = self.read.iter().map(|(it, _)| it).chain(self.reader.iter().map(|(_, it)| it));
        self.progress.undelivered(self.bytes(), read.map(|it| it.number))
    }

    pub(super) fn trouble(&self) -> Option<String> {
        let of_writer = self.writer.as_ref().and_then(|(writer, _)| writer.figures().trouble);
        let of_writer = of_writer.map(|trouble| format!("its buffer: {trouble}"));
        let at_start = self.at_start.as_ref().filter(|(since, _)| since.elapsed() < SHOWN);
        let at_start = at_start.map(|(_, sentence)| sentence.clone());
        let trouble = of_writer.or_else(|| self.trouble.clone());
        let said: Vec<String> = self.damages.said().chain(trouble).collect();
        if said.is_empty() { at_start } else { Some(said.join("; ")) }
    }

    pub(super) fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if self.bytes() >= self.max_bytes {
            self.trouble = Some(format!(
                "its buffer has reached max_bytes = {}: what it lacks stays in the rings",
                self.max_bytes
            ));
            return Ok(Took::Busy);
        }
        self.trouble = None;
        if self.writer.is_none() {
            let number = self.newest + 1;
            let (path, existing) = (self.path(number), Existing::Replace);
            let terms = Terms { mode: FileMode::PRIVATE, ..Terms::default() };
            let options = Options { path, existing, terms, ..Options::default() };
            match Recording::open_noted(&self.name, &options) {
                Ok(writer) => (self.writer, self.newest) = (Some((writer, number)), number),
                Err(error) => {
                    self.trouble = Some(format!("its buffer: {}", error.sentence));
                    return Ok(Took::Busy);
                }
            }
        }
        let Some((writer, _)) = &mut self.writer else { return Ok(Took::Busy) };
        let took = writer.take(event)?;
        let full = (self.max_bytes / PART).clamp(FILE_BYTES.0, FILE_BYTES.1);
        if writer.bytes() >= full {
            self.finish(Instant::now());
        }
        Ok(took)
    }

    /// Finishes the file that is written, if there is one. On a full disk it stays.
    fn finish(&mut self, deadline: Instant) {
        let Some((writer, number)) = &mut self.writer else { return };
        if writer.close(deadline).is_err() {
            return;
        }
        let (number, bytes) = (*number, writer.bytes());
        self.finished += bytes;
        match self.reader.as_mut().filter(|(_, read)| read.number == number) {
            Some((_, read)) => read.bytes = bytes,
            None => self.waiting.push_back(Segment { number, bytes, is_damaged: false }),
        }
        self.writer = None;
    }

    pub(super) fn flush(&mut self) -> Result<(), OutputError> {
        self.writer.as_mut().map_or(Ok(()), |(writer, _)| writer.flush())
    }

    /// Ends the pause before the next attempt to write. Returns whether there was one.
    pub(super) fn retry(&mut self) -> bool {
        self.writer.as_mut().is_some_and(|(writer, _)| writer.retry())
    }

    /// Returns the number of the oldest event that is not in a file.
    pub(super) fn unsettled(&mut self) -> Option<u64> {
        self.writer.as_mut()?.0.unsettled()
    }

    /// Opens the oldest file, which may be the one that is written. Returns whether there is one.
    fn start(&mut self) -> bool {
        while let Some(segment) = self.waiting.pop_front() {
            match self.open_reader(segment) {
                Ok(()) => return true,
                // It was created, and hardly anything was written to it.
                Err(ReadError::Truncated { .. }) => {
                    self.has_no_beginning(segment.number);
                    self.remove(segment);
                }
                Err(ReadError::Io(error)) if error.kind() != io::ErrorKind::NotFound => {
                    let path = self.path(segment.number);
                    self.trouble = Some(format!("its buffer: {}: {error}", path.display()));
                    self.waiting.push_front(segment); // it may be readable later
                    return false;
                }
                Err(error) => self.set_aside(segment, &error),
            }
        }
        // Its bytes are counted as those of the writer.
        let number = self.writer.as_ref().filter(|(writer, _)| writer.has_begun());
        let number = number.map(|(_, number)| *number);
        let segment = number.map(|number| Segment { number, bytes: 0, is_damaged: false });
        segment.is_some_and(|segment| self.open_reader(segment).is_ok())
    }

    fn open_reader(&mut self, segment: Segment) -> Result<(), ReadError> {
        let mut reader = Reader::open_noted(&self.path(segment.number))?;
        let numbers = Rc::clone(&self.numbers);
        reader.number_by(move |uuid| numbers.borrow_mut().of(uuid));
        self.reader = Some((reader, segment));
        Ok(())
    }

    /// Returns whether there is an event to be passed on.
    pub(super) fn has_next(&mut self) -> bool {
        loop {
            if let Some((reader, segment)) = &mut self.reader {
                let written = self.writer.as_ref().filter(|(_, number)| *number == segment.number);
                let limit = written.map(|(writer, _)| writer.bytes());
                reader.limit(limit.unwrap_or(u64::MAX));
                let (found, is_over) = (reader.advance(), reader.is_over());
                let news = reader.take_damage();
                segment.is_damaged |= news.is_some();
                let segment = *segment;
                if let Some((what, is_unknown)) = news {
                    let path = self.path(segment.number);
                    self.damages.read(segment.number, &path, &what, is_unknown);
                }
                match found {
                    Ok(true) => return true,
                    Ok(false) if limit.is_some() && !is_over => return false,
                    Ok(false) => {}
                    Err(ReadError::Truncated { .. }) => self.has_no_end(None),
                    Err(error) => {
                        if limit.is_some() {
                            self.finish(Instant::now());
                        }
                        self.set_aside(segment, &error);
                        self.reader = None;
                        continue;
                    }
                }
                // Nothing more of the file that is written can be read.
                if limit.is_some() {
                    self.finish(Instant::now());
                    if self.writer.is_some() {
                        return false;
                    }
                }
                let Some((_, segment)) = self.reader.take() else { return false };
                self.read.push_back((segment, self.progress.last()));
            }
            if !self.start() {
                return false;
            }
        }
    }

    /// Returns the next event, to be passed on.
    pub(super) fn next(&mut self) -> Option<Event<'_>> {
        if !self.has_next() {
            return None;
        }
        self.reader.as_mut()?.0.next().ok().flatten()
    }

    /// The next call of [`Spool::next`] returns the same event again.
    pub(super) fn repeat(&mut self) {
        if let Some((reader, _)) = &mut self.reader {
            reader.repeat();
        }
    }

    /// Notes that the last event was passed on: `number` is that of the last one that the output
    /// has.
    pub(super) fn passed(&mut self, number: u64, end: Option<RingEnd>) {
        if let Some((reader, segment)) = &self.reader {
            let (file, began) = (segment.number, reader.machine().wall_ns);
            let (events, block) = (reader.events().0, reader.block_at());
            self.progress.passed(number, At { file, began, events, block }, end);
        }
    }

    /// Removes the files of which all is settled, if everything before this event is.
    pub(super) fn settled(&mut self, unsettled: u64) {
        self.progress.settled(unsettled);
        let mut removed = false;
        while let Some((segment, last)) = self.read.front().copied()
            && last < unsettled
        {
            self.read.pop_front();
            self.remove(segment);
            removed = true;
        }
        if removed {
            self.progress.save_now(&self.dir); // no file says any more what was in it
        }
    }

    /// Saves how far all is delivered, from time to time.
    pub(super) fn save(&mut self) {
        self.progress.save(&self.dir);
    }

    /// Removes a file of which all is settled, or keeps it under another name if it is damaged: not
    /// before, so that the next process finds what this one found.
    fn remove(&mut self, segment: Segment) {
        let path = self.path(segment.number);
        if segment.is_damaged {
            let _ = fs::rename(&path, kept(&path)); // otherwise it comes twice
            return;
        }
        self.finished = self.finished.saturating_sub(segment.bytes);
        let _ = fs::remove_file(path); // otherwise it comes twice
    }

    /// Keeps a file of which nothing can be read under another name.
    fn set_aside(&mut self, segment: Segment, error: &ReadError) {
        let path = self.path(segment.number);
        let kept = kept(&path);
        let kept = fs::rename(&path, &kept).map_or(path, |()| kept);
        self.damages.set_aside(segment.number, error, &kept);
    }

    /// Finishes the file that is written, for the next process.
    pub(super) fn close(&mut self, deadline: Instant) {
        self.finish(deadline);
        self.progress.save_on_disk(&self.dir);
    }
}
