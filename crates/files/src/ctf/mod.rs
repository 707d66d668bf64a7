//! A trace in the Common Trace Format, version 1.8 or 2, for `babeltrace2` and Trace Compass.

mod field;
mod fragments;
mod metadata;
mod options;

pub use options::{CtfOptions, Version as CtfVersion};

use metadata::{LOST, Metadata, OTHER, Shown};
use perfring_events::{
    Event, Figures, FileMode, Loss, Origin, Output, OutputError, Rec, Took, What,
    delivery::{
        draft::{directory, waits},
        tries::Tries,
    },
    mangle::identifier,
    replace,
    timeline::Timeline,
};
use perfring_types::read::Value;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A packet is written once it has this many bytes; one record may make it longer.
const PACKET: usize = 64 << 10;
/// The limit of bytes in the unwritten packets of all rings together.
const WAITING: usize = 16 << 20;
const MAGIC: u32 = 0xc1fc_1fc1;
/// Bytes of a packet up to its length, which is in bits.
const PACKET_HEAD: usize = 56;

/// Writes a trace of CTF 1.8, or of CTF 2 by [`CtfOptions::version`]. Only the file `metadata` differs.
///
/// | in the ring | in the trace |
/// |---|---|
/// | the ring | a stream, in a file `ring-…`; each event's context has its name and the record's position |
/// | a type | an event of its name. Of a tagged type there is one for each set of fields that occurs |
/// | a field `took` in `ns` | a field `took_ns`. Any other character than a letter, digit or underscore becomes an underscore |
/// | numbers, enumerations, structs, lists | the same; an option is an option in CTF 2, and a sequence of none or one in CTF 1.8 |
/// | 128-bit numbers, characters, and lists of a tagged record that do not hold only numbers | text |
/// | a zero in a text | `␀`, as a zero ends a text in CTF |
/// | JSON | one text `json` |
/// | a loss | the packets' count of discarded events, and an event `perfring.lost` with the cause. 0 records are an unknown number |
///
/// Timestamps are of the clock `boottime`, whose offset converts them to wall-clock times. A record
/// without a timestamp, or with one in the future, gets the time of the previous one; within a ring
/// time never goes back, even if the machine was rebooted. All that is flushed can be read at any
/// time. A packet that did not fit is removed again. A packet that `kill -9` or a crash of the
/// machine truncated stays, and readers refuse it: [`Ctf::mend`] removes it, which a sidecar does
/// when it starts again.
///
/// ```
/// use perfring_files::{Ctf, CtfOptions};
/// use perfring_events::Output;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("trace");
/// let mut trace = Ctf::open("ctf", &CtfOptions::new(&path))?;
/// // trace.take(&event)? for each event
/// trace.close(std::time::Instant::now())?; // now: babeltrace2 trace/
/// # assert!(path.join("metadata").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ctf {
    name: String,
    path: PathBuf,
    timeline: Timeline,
    version: CtfVersion,
    metadata: Metadata,
    streams: HashMap<u32, Stream>,
    /// Bytes in all streams' packets.
    waiting: usize,
    packet: Vec<u8>,
    tries: Tries,
    mode: FileMode,
    unflushed: Option<u64>,
    figures: Figures,
}

/// A ring's file, and the packet that is being filled.
#[derive(Debug, Default)]
struct Stream {
    path: PathBuf,
    instance: u32,
    events: Vec<u8>,
    begin: u64,
    end: u64,
    discarded: u64,
    /// The discarded count of the last packet.
    reported: u64,
    packets: u64,
}

impl Ctf {
    /// Ends each stream of a trace after its last complete packet: for one whose writer was killed.
    /// A directory that holds none is left as it is.
    ///
    /// # Errors
    /// The system's.
    pub fn mend(path: &Path) -> io::Result<()> {
        for entry in path.read_dir()? {
            let entry = entry?;
            let is_stream =
                entry.file_name().to_str().is_some_and(|name| name.starts_with("ring-"));
            if is_stream && entry.file_type()?.is_file() {
                let file = OpenOptions::new().read(true).write(true).open(entry.path())?;
                let (len, whole) = (file.metadata()?.len(), whole_packets(&file)?);
                if whole.is_some_and(|whole| whole < len) {
                    file.set_len(whole.unwrap_or(len))?;
                }
            }
        }
        Ok(())
    }

    /// Creates the directory.
    ///
    /// # Errors
    /// [`OutputError`], if it exists and is not empty, or cannot be created.
    pub fn open(name: &str, options: &CtfOptions) -> Result<Self, OutputError> {
        let path = options.path.clone();
        let ours = |name: &str| name.starts_with("metadata") || name.starts_with("ring-");
        directory(name, &path, options.overwrite, options.terms.mode, ours)?;
        let metadata = Metadata::new().map_err(|error| {
            let why = "the system has no random bytes: allow getrandom(2), or provide /dev/urandom";
            OutputError::new(name, format!("cannot create the trace's id: {why} ({error})"))
        })?;
        let mut this = Ctf {
            name: name.into(),
            path,
            timeline: Timeline::default(),
            version: options.version,
            metadata,
            streams: HashMap::new(),
            waiting: 0,
            packet: Vec::new(),
            tries: Tries::new(&options.terms),
            mode: options.terms.mode,
            unflushed: None,
            figures: Figures::default(),
        };
        let described = this.describe();
        this.tried(described);
        Ok(this)
    }

    /// Writes the metadata if it changed: the file is complete at any time.
    fn describe(&mut self) -> io::Result<()> {
        if self.metadata.is_news {
            replace(
                &self.path.join("metadata"),
                self.metadata.text(self.version).as_bytes(),
                self.mode,
            )?;
            self.metadata.is_news = false;
        }
        Ok(())
    }

    /// Notes what came of an attempt to write, which is repeated if it failed.
    fn tried(&mut self, written: io::Result<()>) -> bool {
        match &written {
            Ok(()) => {
                if self.tries.end() {
                    self.figures.trouble = None;
                }
            }
            Err(error) => {
                self.figures.retries += 1;
                self.figures.trouble = Some(waits(&self.path.display().to_string(), error));
                self.tries.failed();
            }
        }
        written.is_ok()
    }

    /// Writes all packets, unless it is too early to try that again. Returns whether they are
    /// written.
    fn write_due(&mut self) -> bool {
        self.tries.is_due() && {
            let written = self.write_all().and_then(|()| self.describe());
            self.tried(written)
        }
    }

    fn stream(&mut self, origin: &Origin) -> &mut Stream {
        let (metadata, path) = (&mut self.metadata, &self.path);
        self.streams.entry(origin.id).or_insert_with(|| {
            let instance = metadata.ring(&origin.name);
            let file: String = identifier(&origin.name).chars().take(64).collect();
            let path = path.join(format!("ring-{instance}-{file}"));
            Stream { path, instance, ..Stream::default() }
        })
    }

    /// Adds an event to its ring's packet.
    fn put(
        &mut self,
        origin: &Origin,
        at: u64,
        pos: u64,
        class: u32,
        payload: impl FnOnce(&Metadata, &mut Vec<u8>),
    ) {
        self.stream(origin);
        let Some(stream) = self.streams.get_mut(&origin.id) else { return };
        let at = at.max(stream.end);
        if stream.events.is_empty() {
            stream.begin = at;
        }
        stream.end = at;
        let before = stream.events.len();
        stream.events.extend(class.to_le_bytes());
        stream.events.extend(at.to_le_bytes());
        stream.events.extend(stream.instance.to_le_bytes());
        stream.events.extend(pos.to_le_bytes());
        payload(&self.metadata, &mut stream.events);
        let now = stream.events.len();
        self.waiting += now - before;
        if !self.tries.is_due() {
            return;
        }
        if now >= PACKET {
            let written = self.write(origin.id);
            self.tried(written);
        } else if self.waiting >= WAITING {
            self.write_due();
        }
    }

    fn write_all(&mut self) -> io::Result<()> {
        let all: Vec<u32> = self.streams.keys().copied().collect();
        all.into_iter().try_for_each(|id| self.write(id))
    }

    /// Writes a ring's packet, if it is not empty.
    fn write(&mut self, id: u32) -> io::Result<()> {
        self.describe()?; // before the first event that needs it
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        if stream.events.is_empty() && stream.reported == stream.discarded {
            return Ok(());
        }
        if stream.events.is_empty() {
            stream.begin = stream.end;
        }
        let out = &mut self.packet;
        out.clear();
        out.extend(MAGIC.to_le_bytes());
        out.extend(self.metadata.trace.as_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(u64::from(stream.instance).to_le_bytes());
        let bits = 8 * (out.len() + 6 * 8 + stream.events.len()) as u64;
        let (begin, end) = (stream.begin, stream.end);
        for word in [begin, end, bits, bits, stream.discarded, stream.packets] {
            out.extend(word.to_le_bytes());
        }
        out.extend(&stream.events);
        append(&stream.path, out, self.mode)?;
        self.figures.bytes += out.len() as u64;
        self.waiting -= stream.events.len();
        stream.events.clear();
        stream.events.shrink_to(2 * PACKET);
        self.packet.shrink_to(2 * PACKET);
        stream.reported = stream.discarded;
        stream.packets += 1;
        Ok(())
    }

    fn record(&mut self, origin: &Origin, record: &Rec<'_>, at: u64) {
        let (kind, value) = (record.kind_of(), record.value());
        let shown = match value {
            Some(Ok(value)) => Shown::Value(value),
            Some(Err(_)) => Shown::Damage,
            None => Shown::Untyped,
        };
        let class = self.metadata.of(origin.id, record.kind, kind, shown);
        self.put(origin, at, record.pos, class, |metadata, out| {
            if class == OTHER {
                field::text(kind.map_or("", |kind| &kind.name), out);
                let bytes = || Value::Bytes(record.bytes.to_vec());
                let value = value.and_then(|value| value.as_ref().ok()).cloned();
                field::write(&field::Field::Json, &value.unwrap_or_else(bytes), out);
                return;
            }
            match value {
                Some(Ok(value)) => field::write_all(metadata.class(class), value, out),
                Some(Err(bad)) => {
                    field::text(&bad.to_string(), out);
                    field::bytes(record.bytes, out);
                }
                None => field::bytes(record.bytes, out),
            }
        });
    }

    /// Fails if the packet before the loss cannot be written.
    fn loss(&mut self, origin: &Origin, loss: &Loss, at: u64) -> io::Result<()> {
        self.stream(origin);
        // The packet before the loss ends without it, so that readers see where the loss is.
        // Readers compute a loss from the increase of the discarded count since the previous
        // packet, so there must be one.
        if let Some(stream) = self.streams.get_mut(&origin.id)
            && stream.packets == 0
        {
            stream.end = stream.end.max(at);
            stream.reported = u64::MAX; // no count: the loss is reported in any case
        }
        self.write(origin.id)?;
        if let Some(stream) = self.streams.get_mut(&origin.id) {
            stream.discarded = stream.discarded.saturating_add(loss.records);
        }
        self.put(origin, at, loss.pos, LOST, |_, out| {
            out.extend(loss.records.to_le_bytes());
            out.extend(loss.bytes.to_le_bytes());
            field::text(loss.cause.name(), out);
        });
        Ok(())
    }
}

fn append(path: &Path, bytes: &[u8], mode: FileMode) -> io::Result<()> {
    let file = mode.open(OpenOptions::new().create(true).append(true), path)?;
    whole(&file, |mut file| file.write_all(bytes))
}

/// Returns where the last complete packet ends; `None` if it is no stream of this format.
fn whole_packets(file: &File) -> io::Result<Option<u64>> {
    let len = file.metadata()?.len();
    let mut at = 0;
    let mut head = [0; PACKET_HEAD];
    while at + PACKET_HEAD as u64 <= len {
        file.read_exact_at(&mut head, at)?;
        if !head.starts_with(&MAGIC.to_le_bytes()) {
            return Ok(None);
        }
        let bits = head.last_chunk().map_or(0, |bits| u64::from_le_bytes(*bits));
        let end = at.saturating_add(bits / 8);
        if bits < 8 * PACKET_HEAD as u64 || end > len {
            break;
        }
        at = end;
    }
    Ok(Some(at))
}

/// Appends all or nothing: readers refuse a stream that ends within a packet.
fn whole(file: &File, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let before = file.metadata()?.len();
    let written = write(file);
    if written.is_err() {
        file.set_len(before)?;
    }
    written
}

impl Output for Ctf {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if (self.tries.is_failing() || self.waiting >= WAITING) && !self.write_due() {
            return Ok(Took::Busy);
        }
        let before = self.unflushed;
        self.unflushed.get_or_insert(event.seq);
        let (origin, at) = (event.origin, self.timeline.time_of(event));
        if let Some(newest) = origin.anchors.all().last() {
            self.metadata.set_offset(newest.realtime_ns.saturating_sub(newest.clock_ns));
        }
        match &event.what {
            What::Began => {
                self.stream(origin);
            }
            What::Record(record) => {
                self.record(origin, record, at);
                self.figures.taken += 1;
            }
            What::Lost(loss) => {
                let written = self.loss(origin, loss, at);
                if !self.tried(written) {
                    self.unflushed = before;
                    return Ok(Took::Busy);
                }
            }
            What::Ended => {
                let written = self.write(origin.id);
                if !self.tried(written) {
                    self.unflushed = before;
                    return Ok(Took::Busy);
                }
                self.streams.remove(&origin.id);
                self.metadata.forget(origin.id);
            }
        }
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        if self.write_due() {
            self.unflushed = None;
            self.figures.delivered = self.figures.taken;
        }
        Ok(())
    }

    fn retry(&mut self) -> bool {
        self.tries.retry()
    }

    fn unsettled(&mut self) -> Option<u64> {
        self.unflushed
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        let whole = Tries::until(deadline, || {
            self.tries.retry();
            self.flush().map(|()| !self.tries.is_failing())
        })?;
        let why = self.figures.trouble.clone().unwrap_or_default();
        let error = format!("it could not write before the deadline: {why}");
        if whole { Ok(()) } else { Err(OutputError::new(&*self.name, error)) }
    }

    fn figures(&self) -> Figures {
        self.figures.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test")]
    fn a_packet_that_is_written_in_part_is_removed() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"whole").unwrap();
        let full = whole(&file, |mut file| {
            file.write_all(b"pa")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.metadata().unwrap().len(), 5);
        whole(&file, |mut file| file.write_all(b"more")).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 9);
    }
}
