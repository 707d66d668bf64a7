//! A `perf.data` file, for `perf script`, `perf report` and other readers.

mod format;
mod tracing;

use format::{End, RAW_MAX, Timestamp};
use perfring_events::{
    Event, Figures, Loss, Origin, Output, OutputError, Rec, Terms, Took, What,
    delivery::draft::Draft, processes::Processes, timeline::Timeline,
};
use perfring_telemetry::names;
use perfring_types::Class;
use perfring_types::read::Value;
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;
use tracing::{Raw, Tracepoints};

/// The limit of bytes of records that perf holds back to sort them.
const ROUND: u64 = 1 << 20;
/// The pid of an unknown process. Not 0, which perf calls `swapper`.
const UNKNOWN_PID: u32 = u32::MAX;
/// The limit of processes whose names are remembered as written.
const REPORTED: usize = 1 << 16;

/// Options of a [`PerfData`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfDataOptions {
    /// The file, usually `perf.data`. It exists, and its content is delivered, once the output is
    /// closed.
    pub path: PathBuf,
    /// Whether an existing file may be overwritten. Default no.
    #[serde(default)]
    pub overwrite: bool,
    /// What it has in common with other outputs.
    #[serde(skip)]
    pub terms: Terms,
}

impl PerfDataOptions {
    /// Creates options with all defaults.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        PerfDataOptions { path: path.into(), overwrite: false, terms: Terms::default() }
    }
}

/// Writes a `perf.data` file.
///
/// | in the ring | for perf |
/// |---|---|
/// | a type `shop.Request` | a tracepoint `shop:Request` |
/// | a record | a sample: time, process, and as its trace the fields as text. Tools that use fields find `pos`, `ring`, `text`, `payload` (the bytes, truncated if a sample cannot hold them), `payload_len`, and the integer fields of plain structs and archives |
/// | a producer, a resource's `service.name` | `PERF_RECORD_COMM`: the first 15 bytes |
/// | a second process of one pid, as in another container | a process with a number from 4194304 up |
/// | a loss | `PERF_RECORD_LOST`, and a sample of `perfring:lost` with its cause |
///
/// A record without a timestamp gets the time of the previous one.
///
/// The file gets its name when it is closed, and cannot be read before: a crash or `kill -9` loses
/// all. So nothing counts as delivered before, and an output that promises delivery holds all
/// records in the rings until then, as far as they have room. For more than a ring holds, use
/// best-effort delivery (`best_effort`), or make a recording and `perfring export` it.
///
/// ```
/// use perfring_events::Output;
/// use perfring_files::{PerfData, PerfDataOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("perf.data");
/// let mut file = PerfData::open("perf", &PerfDataOptions::new(&path))?;
/// // file.take(&event)? for each event
/// file.close(std::time::Instant::now())?; // now: perf script -i perf.data
/// # assert!(path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PerfData {
    draft: Draft,
    timeline: Timeline,
    tracepoints: Tracepoints,
    /// The tracepoint of losses.
    lost: u16,
    processes: Processes,
    /// Names of processes and threads as the file has them, by their numbers.
    reported: HashMap<u32, String>,
    clocks: Option<(u64, u64)>,
    /// Where the next round starts, in written bytes.
    round: u64,
    record: Vec<u8>,
    raw: Vec<u8>,
    text: String,
    /// The oldest event: nothing is readable before the end.
    oldest: Option<u64>,
    /// The header, once all else is put into the file.
    ending: Option<Vec<u8>>,
    is_closed: bool,
    figures: Figures,
}

impl PerfData {
    /// Creates the file, beside its final name until it is closed.
    ///
    /// # Errors
    /// [`OutputError`], if it exists or cannot be created.
    pub fn open(name: &str, options: &PerfDataOptions) -> Result<Self, OutputError> {
        let mut draft = Draft::beside(name, &options.path, options.overwrite, &options.terms)?;
        draft.put(&[0; format::HEADER as usize])?;
        let mut tracepoints = Tracepoints::default();
        let lost = tracepoints.of("perfring.lost", None);
        Ok(PerfData {
            draft,
            timeline: Timeline::default(),
            tracepoints,
            lost,
            processes: Processes::default(),
            reported: HashMap::new(),
            clocks: None,
            round: ROUND,
            record: Vec::new(),
            raw: Vec::new(),
            text: String::new(),
            oldest: None,
            ending: None,
            is_closed: false,
            figures: Figures::default(),
        })
    }

    /// Writes the encoded record.
    fn put(&mut self) -> Result<(), OutputError> {
        if self.draft.written >= self.round {
            self.round = self.draft.written + ROUND;
            format::finished_round(&mut self.record);
        }
        self.draft.put(&self.record)?;
        self.record.clear();
        self.figures.bytes = self.draft.written;
        Ok(())
    }

    /// Writes the name of a process or of one of its threads, unless the file has it.
    fn comm(&mut self, (pid, tid): (u32, u32), name: &str, time: u64) -> Result<(), OutputError> {
        if name.is_empty()
            || pid == UNKNOWN_PID
            || self.reported.get(&tid).is_some_and(|reported| reported == name)
        {
            return Ok(());
        }
        if self.reported.len() >= REPORTED {
            self.reported.clear();
        }
        self.reported.insert(tid, name.to_owned());
        let timestamp = Timestamp { id: self.lost.into(), pid, tid, time };
        format::comm(&mut self.record, timestamp, name);
        self.put()
    }

    fn take_record(
        &mut self,
        origin: &Origin,
        record: &Rec<'_>,
        time: u64,
    ) -> Result<(), OutputError> {
        let value = record.value().and_then(|value| value.as_ref().ok());
        let number = |name| match value.and_then(|value| value.get(name)) {
            Some(Value::U64(number)) => u32::try_from(*number).ok(),
            Some(Value::I64(number)) => Some(*number as u32), // -1 is no process
            _ => None,
        };
        let class = record.kind_of().and_then(|kind| kind.class.known()).unwrap_or_default();
        // A metrics area has no policy either; its samples name their process as telemetry does.
        let is_kernels = origin.policy.is_none() && class == Class::Plain;
        let pid = number(if is_kernels { "pid" } else { "process.pid" });
        let tid = number(if is_kernels { "tid" } else { "thread.id" });
        if class == Class::Resource
            && let (Some(pid), Some(Value::U64(start))) =
                (pid, value.and_then(|value| value.get(names::START_TIME)))
        {
            self.processes.started(origin, pid, *start);
        }
        // What the record itself says, or who wrote it, or whose ring it is.
        let (pid, tid) = match (pid, record.writer) {
            (None, Some(writer)) => (writer.pid.get(), tid.unwrap_or(writer.tid)),
            (pid, _) => {
                let unknown =
                    if origin.producer.pid == 0 { UNKNOWN_PID } else { origin.producer.pid };
                let pid = pid.unwrap_or(unknown);
                (pid, tid.unwrap_or(pid))
            }
        };
        let (pid, tid) = match pid {
            UNKNOWN_PID => (pid, tid),
            pid => (self.processes.number(origin, pid), self.processes.thread(origin, pid, tid)),
        };
        if let Some(Value::Str(service)) = value.and_then(|value| value.get("service.name")) {
            self.comm((pid, pid), service, time)?;
        }
        // perf gives a thread no name of its process.
        if tid != pid
            && let Some(name) = self.reported.get(&pid)
            && self.reported.get(&tid) != Some(name)
        {
            let name = name.clone();
            self.comm((pid, tid), &name, time)?;
        }

        self.text.clear();
        let kind = record.kind_of();
        // Writing to a `String` cannot fail.
        let id = match (kind, record.value()) {
            (Some(kind), Some(Ok(value))) => {
                let _ = write!(self.text, "{}", kind.text(value));
                self.tracepoints.of(&kind.name, Some(kind))
            }
            (Some(kind), other) => {
                if let Some(Err(bad)) = other {
                    let _ = write!(self.text, "{bad}");
                }
                self.tracepoints.of(&kind.name, Some(kind))
            }
            (None, _) => {
                let _ = write!(self.text, "type={}", record.kind);
                self.tracepoints.of("perfring.unknown", None)
            }
        };
        let raw = Raw {
            pid,
            pos: record.pos,
            ring: &origin.name,
            text: &self.text,
            payload: record.bytes,
            value,
        };
        self.tracepoints.raw(id, &raw, RAW_MAX, &mut self.raw);
        format::sample(&mut self.record, Timestamp { id: id.into(), pid, tid, time }, &self.raw);
        self.put()
    }

    fn take_loss(&mut self, origin: &Origin, loss: &Loss, time: u64) -> Result<(), OutputError> {
        let pid = self.producer(origin);
        let timestamp = Timestamp { id: self.lost.into(), pid, tid: pid, time };
        format::lost(&mut self.record, timestamp, loss.records);
        let cause = loss.cause.name();
        let records = loss.counted().map_or("unknown".to_owned(), |records| records.to_string());
        let text = format!("records={records} bytes={} cause={cause:?}", loss.bytes);
        let (ring, pos) = (origin.name.as_str(), loss.pos);
        let raw = Raw { pid, pos, ring, text: &text, payload: &[], value: None };
        self.tracepoints.raw(self.lost, &raw, RAW_MAX, &mut self.raw);
        format::sample(&mut self.record, timestamp, &self.raw);
        self.put()
    }

    fn producer(&mut self, origin: &Origin) -> u32 {
        match origin.producer.pid {
            0 => UNKNOWN_PID,
            pid => self.processes.number(origin, pid),
        }
    }
}

impl Output for PerfData {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if self.ending.is_some() || self.draft.is_busy()? {
            return Ok(Took::Busy);
        }
        self.oldest.get_or_insert(event.seq);
        let (origin, time) = (event.origin, self.timeline.time_of(event));
        if self.clocks.is_none() {
            let newest = origin.anchors.all().last();
            self.clocks = newest.map(|anchor| (anchor.clock_ns, anchor.realtime_ns));
        }
        match &event.what {
            What::Began => {
                let producer = self.producer(origin);
                self.comm((producer, producer), &origin.producer.name, time)?;
            }
            What::Record(record) => {
                // A ring may have begun in an earlier file; a resource may have named it since.
                let producer = self.producer(origin);
                if !self.reported.contains_key(&producer) {
                    self.comm((producer, producer), &origin.producer.name, time)?;
                }
                self.take_record(origin, record, time)?;
                self.figures.taken += 1;
            }
            What::Lost(loss) => self.take_loss(origin, loss, time)?,
            What::Ended => self.processes.ended(origin),
        }
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.draft.flush().map(|_| ())
    }

    fn retry(&mut self) -> bool {
        self.draft.retry()
    }

    fn unsettled(&mut self) -> Option<u64> {
        self.oldest
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        if self.is_closed {
            return Ok(());
        }
        if self.ending.is_none() {
            if self.draft.written == format::HEADER {
                format::finished_round(&mut self.record); // perf refuses a file without a record
                self.put()?;
            }
            let end = End {
                events: self.tracepoints.names(),
                tracing: self.tracepoints.section(),
                clocks: self.clocks,
                data: self.draft.written - format::HEADER,
            };
            let (head, tail) = end.bytes();
            self.draft.put(&tail)?;
            self.ending = Some(head);
        }
        self.draft.flush_until(deadline)?;
        if let Some(head) = &self.ending {
            self.draft.put_at_start(head)?;
        }
        self.draft.finish(deadline)?;
        self.is_closed = true;
        self.oldest = None;
        self.figures.delivered = self.figures.taken;
        self.figures.bytes = self.draft.written;
        Ok(())
    }

    fn figures(&self) -> Figures {
        let mut figures = self.figures.clone();
        self.draft.report(&mut figures);
        figures
    }
}

impl Drop for PerfData {
    /// Finishes a file that was not closed, if possible.
    fn drop(&mut self) {
        if self.oldest.is_some() {
            let _ = self.close(Instant::now());
        }
    }
}
