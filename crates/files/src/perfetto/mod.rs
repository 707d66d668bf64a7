//! A trace for Perfetto: <https://ui.perfetto.dev> opens it, and its trace processor queries it.

mod annotate;
mod explained;
mod names;
mod proto;
mod signals;
mod tracks;

use names::Names;
use perfring_consumer::WriterId;
use perfring_events::{
    Compression, Event, Explanation, Figures, Loss, Origin, Output, OutputError, Rec, Terms, Took,
    What, delivery::draft::Draft, processes::Processes, signal::Added, timeline::Timeline,
};
use perfring_telemetry::names::START_TIME;
use perfring_types::Class;
use perfring_types::read::Value;
use proto::{
    Clock, ClockSnapshot, DebugAnnotation, TracePacket, TracePacketDefaults, TrackDescriptor,
    TrackEvent,
};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Instant;

/// Perfetto's numbers of clocks.
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
/// All packets are of one sequence.
const SEQUENCE: u32 = 1;
/// Flags of a packet: it resets the interned strings; it needs earlier ones.
const CLEARED: u32 = 1;
const NEEDS: u32 = 2;
/// The limit of tracks that are remembered as described: beyond it each is described once more.
const DESCRIBED: usize = 1 << 18;
/// The wall clock's drift from the timestamps' clock below which no new snapshot is written, ns.
const STEP: u64 = 1_000_000;

/// Options of a [`Perfetto`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfettoOptions {
    /// The file, usually `NAME.pftrace`.
    pub path: PathBuf,
    /// Whether an existing file may be overwritten. Default no.
    #[serde(default)]
    pub overwrite: bool,
    /// How the file is compressed. What has been flushed can be decompressed at any time. Default
    /// not at all.
    #[serde(default)]
    pub compression: Compression,
    /// What it has in common with other outputs.
    #[serde(skip)]
    pub terms: Terms,
}

impl PerfettoOptions {
    /// Creates options with all defaults.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let compression = Compression::None;
        let terms = Terms::default();
        PerfettoOptions { path: path.into(), overwrite: false, compression, terms }
    }
}

/// Writes a Perfetto trace.
///
/// | in the ring | in the trace |
/// |---|---|
/// | the producer | a process. A second process of one pid, as in another container, has a number from 4194304 up |
/// | the ring | a track of the process, with an instant for each record and each log record; the fields are its arguments |
/// | a record of the kernel's, a log record with `thread.id` | an instant on that thread's track |
/// | `span_start`, `span_end` | a slice, on a track of its own among the process's `spans` |
/// | `gauge`, `sum`; a histogram's `count`, `sum`, and `value` | a counter for each series |
/// | an explanation | a slice on the track `why: gap` or `why: loss` of its process, named by the cause |
/// | a loss | an instant `LOST n records: cause` on the ring's track, and a counter of all so far |
///
/// Timestamps are Perfetto's `BOOTTIME`; a snapshot of the clocks converts them to wall-clock
/// times. A record without a timestamp is placed beside the previous one. The file can be read at
/// any time, also after a crash: it has complete packets, and readers ignore a truncated last one.
///
/// ```
/// use perfring_events::Output;
/// use perfring_files::{Perfetto, PerfettoOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.pftrace");
/// let mut trace = Perfetto::open("trace", &PerfettoOptions::new(path))?;
/// // trace.take(&event)? for each event
/// trace.close(std::time::Instant::now())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Perfetto {
    draft: Draft,
    timeline: Timeline,
    added: Added,
    names: Names,
    /// Whether the next packet resets the interned strings.
    begins: bool,
    described: HashSet<u64>,
    processes: Processes,
    /// The tracks of rings and processes that are described, by ring and number.
    rings: HashMap<(u32, u32), (u64, u64)>,
    open: HashSet<u64>,
    /// Lost records so far, by ring.
    lost: HashMap<u32, u64>,
    /// The last snapshot of the clocks: timestamps' clock, wall clock.
    clocks: Option<(u64, u64)>,
    packet: Vec<u8>,
    /// The oldest event that a crash would lose.
    unflushed: Option<u64>,
    figures: Figures,
}

impl Perfetto {
    /// Creates the file.
    ///
    /// # Errors
    /// [`OutputError`], if it exists or cannot be created.
    pub fn open(name: &str, options: &PerfettoOptions) -> Result<Self, OutputError> {
        Ok(Perfetto {
            draft: Draft::in_place(name, &options.path, options.overwrite, &options.terms)?
                .compressed(options.compression)?,
            timeline: Timeline::default(),
            added: Added::default(),
            names: Names::default(),
            begins: true,
            described: HashSet::new(),
            processes: Processes::default(),
            rings: HashMap::new(),
            open: HashSet::new(),
            lost: HashMap::new(),
            clocks: None,
            packet: Vec::new(),
            unflushed: None,
            figures: Figures::default(),
        })
    }

    fn put(&mut self, mut packet: TracePacket) -> Result<(), OutputError> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packet.interned_data = self.names.fresh();
        packet.sequence_flags = Some(NEEDS);
        if std::mem::take(&mut self.begins) {
            packet.sequence_flags = Some(CLEARED | NEEDS);
            let timestamp_clock_id = Some(BOOTTIME);
            packet.trace_packet_defaults = Some(TracePacketDefaults { timestamp_clock_id });
        }
        // A packet of `Trace`, as its field number 1.
        self.packet.clear();
        prost::encoding::message::encode(1, &packet, &mut self.packet);
        self.draft.put(&self.packet)?;
        self.figures.bytes = self.draft.stored;
        Ok(())
    }

    fn event(&mut self, at: u64, event: TrackEvent) -> Result<(), OutputError> {
        let packet = TracePacket { track_event: Some(event), ..TracePacket::default() };
        self.put(TracePacket { timestamp: Some(at), ..packet })
    }

    /// Describes a track, unless that was done.
    fn describe(&mut self, track: TrackDescriptor) -> Result<(), OutputError> {
        if self.described.len() >= DESCRIBED {
            self.described.clear();
        }
        if track.uuid.is_none_or(|uuid| uuid != 0 && self.described.insert(uuid)) {
            self.put(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })?;
        }
        Ok(())
    }

    /// Describes a process and the track of a ring in it, and returns both.
    fn ring(&mut self, origin: &Origin, pid: u32) -> Result<(u64, u64), OutputError> {
        let number = self.processes.number(origin, pid);
        if let Some(known) = self.rings.get(&(origin.id, number)) {
            return Ok(*known);
        }
        let process = tracks::process(number);
        let name = if pid == origin.producer.pid { origin.producer.name.as_str() } else { "" };
        self.describe(tracks::describe_process(number, pid, name))?;
        let ring = tracks::uuid(&[b"ring", &origin.uuid, &number.to_le_bytes()]);
        self.describe(TrackDescriptor {
            description: Some(origin.location.clone()),
            ..tracks::describe(ring, process, &origin.name)
        })?;
        if self.rings.len() >= DESCRIBED {
            self.rings.clear();
        }
        self.rings.insert((origin.id, number), (process, ring));
        Ok((process, ring))
    }

    fn clocks(&mut self, origin: &Origin) -> Result<(), OutputError> {
        let Some(newest) = origin.anchors.all().last() else { return Ok(()) };
        let (clock, wall) = (newest.clock_ns, newest.realtime_ns);
        if let Some((before, its_wall)) = self.clocks {
            let moved = wall.wrapping_sub(clock).wrapping_sub(its_wall.wrapping_sub(before));
            // Perfetto refuses snapshots that go back.
            if moved.min(moved.wrapping_neg()) < STEP || clock <= before || wall <= its_wall {
                return Ok(());
            }
        }
        self.clocks = Some((clock, wall));
        let one = |id, timestamp| Clock { clock_id: Some(id), timestamp: Some(timestamp) };
        let clocks = vec![one(BOOTTIME, clock), one(REALTIME, wall)];
        let snapshot = ClockSnapshot { clocks, primary_trace_clock: Some(BOOTTIME) };
        self.put(TracePacket { clock_snapshot: Some(snapshot), ..TracePacket::default() })
    }

    fn record(&mut self, origin: &Origin, record: &Rec<'_>, at: u64) -> Result<(), OutputError> {
        if self.names.is_full() {
            self.names = Names::default();
            self.begins = true;
        }
        let class = record.kind_of().and_then(|kind| kind.class.known()).unwrap_or_default();
        let (value, added) = (record.value(), self.added.to_record(record));
        // A metrics area has no policy either; its samples name their process as telemetry does.
        let is_kernels = origin.policy.is_none() && class == Class::Plain;
        let (Some(Ok(value)), true) = (value, class != Class::Plain || is_kernels) else {
            let (_, ring) = self.ring(origin, origin.producer.pid)?;
            return self.plain(record, at, ring);
        };
        let value = added.as_ref().unwrap_or(value);
        let number = |name| match value.get(name) {
            Some(Value::U64(number)) => u32::try_from(*number).ok(),
            Some(Value::I64(number)) => u32::try_from(*number).ok(),
            _ => None,
        };
        let pid = number(if is_kernels { "pid" } else { "process.pid" });
        let pid = pid.unwrap_or(origin.producer.pid);
        if class == Class::Resource
            && let Some(Value::U64(start)) = value.get(START_TIME)
        {
            self.processes.started(origin, pid, *start);
        }
        let (process, mut ring) = self.ring(origin, pid)?;
        if let Some(tid) = number(if is_kernels { "tid" } else { "thread.id" })
            && pid != 0
        {
            let tid = self.processes.thread(origin, pid, tid);
            let number = self.processes.number(origin, pid);
            let thread = tracks::describe_thread(number, tid);
            ring = thread.uuid.unwrap_or(ring);
            self.describe(thread)?;
        }
        match class {
            Class::Log => self.log(record, value, at, ring),
            Class::SpanStart | Class::SpanEnd => {
                self.span(class, record, value, at, (process, ring))
            }
            Class::Gauge | Class::Sum | Class::Histogram => {
                if self.counters(class, value, at, process)? {
                    return Ok(());
                }
                self.plain(record, at, ring)
            }
            Class::Resource => {
                if let (Some(Value::Str(name)), true) = (value.get("service.name"), pid != 0) {
                    let number = self.processes.number(origin, pid);
                    let track_descriptor = Some(tracks::describe_process(number, pid, name));
                    self.put(TracePacket { track_descriptor, ..TracePacket::default() })?;
                }
                self.plain(record, at, ring)
            }
            _ => self.plain(record, at, ring),
        }
    }

    /// Returns the fields of a record, and its position.
    fn details(&mut self, record: &Rec<'_>) -> Vec<DebugAnnotation> {
        let names = &mut self.names;
        let mut details = vec![annotate::number(names, "ring.pos", record.pos)];
        if let Some(WriterId { pid, tid }) = record.writer {
            details.push(annotate::number(names, "pid", pid.get().into()));
            details.push(annotate::number(names, "tid", tid.into()));
        }
        if record.late > 0 {
            details.push(annotate::number(names, "late_ns", record.late));
        }
        let bytes = || Value::Bytes(record.bytes.to_vec());
        match record.value() {
            Some(Ok(value)) => {
                let added = self.added.to_record(record);
                let value = added.as_ref().unwrap_or(value);
                details.extend(annotate::annotations(names, "value", value));
            }
            Some(Err(bad)) => {
                details.push(annotate::text(names, "damage", bad.to_string()));
                details.push(annotate::annotation(names, "bytes", &bytes()));
            }
            None => details.push(annotate::annotation(names, "bytes", &bytes())),
        }
        details
    }

    fn plain(&mut self, record: &Rec<'_>, at: u64, track: u64) -> Result<(), OutputError> {
        let name_iid = match record.kind_of() {
            Some(kind) => self.names.event(&kind.name),
            None => self.names.event(&format!("type {}", record.kind)),
        };
        let class = record.kind_of().map_or("plain", |kind| kind.class.name());
        let class = if class == "plain" { "record" } else { class };
        let event = TrackEvent::instant(track, class, self.details(record));
        self.event(at, TrackEvent { name_iid: Some(name_iid), ..event })
    }

    fn loss(&mut self, origin: &Origin, loss: &Loss, at: u64) -> Result<(), OutputError> {
        let (process, ring) = self.ring(origin, origin.producer.pid)?;
        let number = match loss.counted() {
            Some(1) => "1 record".to_owned(),
            Some(records) => format!("{records} records"),
            None => "an unknown number of records".to_owned(),
        };
        let name = format!("LOST {number}: {}", loss.cause.name());
        let mut details = vec![
            annotate::number(&mut self.names, "ring.pos", loss.pos),
            annotate::number(&mut self.names, "bytes", loss.bytes),
            annotate::text(&mut self.names, "cause", loss.cause.name().to_owned()),
        ];
        if let Some(records) = loss.counted() {
            details.insert(1, annotate::number(&mut self.names, "records", records));
        }
        let event = TrackEvent::instant(ring, "lost", details);
        self.event(at, TrackEvent { name: Some(name), ..event })?;
        let lost = self.lost.entry(origin.id).or_default();
        *lost = lost.saturating_add(loss.records);
        let mut event = TrackEvent::counted(i64::try_from(*lost).unwrap_or(i64::MAX));
        let track = tracks::uuid(&[b"lost", &origin.uuid]);
        event.track_uuid = Some(track);
        self.describe(TrackDescriptor {
            counter: Some(tracks::counter("1", false)),
            ..tracks::describe(track, process, &format!("{}: lost records", origin.name))
        })?;
        self.event(at, event)
    }
}

impl Output for Perfetto {
    fn add_resource(&mut self, attributes: &[(String, String)]) {
        self.added = Added::new(attributes);
    }

    fn explain(&mut self, why: &Explanation<'_>) -> Result<bool, OutputError> {
        self.explained(why).map(|()| true)
    }

    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if self.draft.is_busy()? {
            return Ok(Took::Busy);
        }
        self.unflushed.get_or_insert(event.seq);
        let at = self.timeline.time_of(event);
        self.clocks(event.origin)?;
        match &event.what {
            What::Began => {
                self.ring(event.origin, event.origin.producer.pid)?;
            }
            What::Record(record) => {
                self.record(event.origin, record, at)?;
                self.figures.taken += 1;
            }
            What::Lost(loss) => self.loss(event.origin, loss, at)?,
            What::Ended => {
                self.lost.remove(&event.origin.id);
                self.processes.ended(event.origin);
            }
        }
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        if self.draft.flush()? {
            self.unflushed = None;
            self.figures.delivered = self.figures.taken;
        }
        Ok(())
    }

    fn retry(&mut self) -> bool {
        self.draft.retry()
    }

    fn unsettled(&mut self) -> Option<u64> {
        self.unflushed
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        self.draft.finish(deadline)?;
        self.flush()
    }

    fn figures(&self) -> Figures {
        let mut figures = self.figures.clone();
        self.draft.report(&mut figures);
        figures
    }
}
