//! A trace for Perfetto: <https://ui.perfetto.dev> opens it, and its trace processor queries it.

mod annotate;
mod names;
mod proto;
mod tracks;

use crate::draft::Draft;
use crate::timeline::Timeline;
use crate::{Event, Figures, Loss, Origin, Output, OutputError, Rec, Took, What};
use names::Names;
use perfring_types::Class;
use perfring_types::read::Value;
use proto::{
    Clock, ClockSnapshot, DebugAnnotation, EventType, TracePacket, TracePacketDefaults,
    TrackDescriptor, TrackEvent,
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
/// Flags of a packet: it begins the interned strings anew; it needs those before it.
const CLEARED: u32 = 1;
const NEEDS: u32 = 2;
/// So many spans may be open: of one more, only the end is told.
const OPEN: usize = 1 << 20;
/// So many tracks are remembered as described: then each is described once more.
const DESCRIBED: usize = 1 << 18;
/// A wall clock that moved less than this against the stamps' is not told again, ns.
const STEP: u64 = 1_000_000;

/// What a [`Perfetto`] writes where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfettoOptions {
    /// The file, by custom `NAME.pftrace`.
    pub path: PathBuf,
    /// Whether a file that is there already may be written over. Default no.
    #[serde(default)]
    pub overwrite: bool,
}

/// Writes a Perfetto trace.
///
/// | in the ring | in the trace |
/// |---|---|
/// | the producer | a process |
/// | the ring | a track of the process, with an instant for each record and each log record; the fields are its arguments |
/// | a record of the kernel's, a log record with `thread.id` | an instant on that thread's track |
/// | `span_start`, `span_end` | a slice, on a track of its own among the process's `spans` |
/// | `gauge`, `sum`; a histogram's `count`, `sum`, and `value` | a counter for each series |
/// | a loss | an instant `LOST n records: cause` on the ring's track, and a counter of all so far |
///
/// Stamps are Perfetto's `BOOTTIME`; a snapshot of the clocks tells wall-clock times. A record without
/// a stamp stands beside the one before it. The file can be read at any time, also after a crash: it
/// has whole packets, and readers leave out a last one that is cut.
///
/// ```
/// use perfring_export::{Output, Perfetto, PerfettoOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop.pftrace");
/// let mut trace = Perfetto::open("trace", &PerfettoOptions { path, overwrite: false })?;
/// // trace.take(&event)? for each
/// trace.close(std::time::Instant::now())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Perfetto {
    draft: Draft,
    timeline: Timeline,
    names: Names,
    /// Whether the next packet begins the interned strings.
    begins: bool,
    described: HashSet<u64>,
    open: HashSet<u64>,
    /// Lost records so far, by ring.
    lost: HashMap<u32, u64>,
    /// What the trace says of the clocks: stamps', wall.
    clocks: Option<(u64, u64)>,
    packet: Vec<u8>,
    /// The oldest event that a crash would lose.
    unflushed: Option<u64>,
    figures: Figures,
}

impl Perfetto {
    /// Makes the file.
    ///
    /// # Errors
    /// [`OutputError`], if it is there already or cannot be made.
    pub fn open(name: &str, options: &PerfettoOptions) -> Result<Self, OutputError> {
        Ok(Perfetto {
            draft: Draft::in_place(name, &options.path, options.overwrite)?,
            timeline: Timeline::default(),
            names: Names::default(),
            begins: true,
            described: HashSet::new(),
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
        self.figures.bytes = self.draft.written();
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

    /// Describes a process and the track of a ring in it, and returns the two.
    fn ring(&mut self, origin: &Origin, pid: u32) -> Result<(u64, u64), OutputError> {
        let process = tracks::process(pid);
        let name = if pid == origin.producer.pid { origin.producer.name.as_str() } else { "" };
        self.describe(tracks::describe_process(pid, name))?;
        let ring = tracks::uuid(&[b"ring", &origin.uuid, &pid.to_le_bytes()]);
        self.describe(TrackDescriptor {
            description: Some(origin.home.clone()),
            ..tracks::describe(ring, process, &origin.name)
        })?;
        Ok((process, ring))
    }

    fn clocks(&mut self, origin: &Origin) -> Result<(), OutputError> {
        let Some(newest) = origin.anchors.all().last() else { return Ok(()) };
        let (clock, wall) = (newest.clock_ns, newest.realtime_ns);
        if let Some((before, its_wall)) = self.clocks {
            let moved = wall.wrapping_sub(clock).wrapping_sub(its_wall.wrapping_sub(before));
            // Snapshots that go back are refused by Perfetto.
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
        let value = record.value();
        let is_kernels = origin.policy.is_none();
        let (Some(Ok(value)), true) = (value, class != Class::Plain || is_kernels) else {
            let (_, ring) = self.ring(origin, origin.producer.pid)?;
            return self.plain(record, at, ring);
        };
        let number = |name| match value.get(name) {
            Some(Value::U64(number)) => u32::try_from(*number).ok(),
            Some(Value::I64(number)) => u32::try_from(*number).ok(),
            _ => None,
        };
        let pid = number(if is_kernels { "pid" } else { "process.pid" });
        let pid = pid.unwrap_or(origin.producer.pid);
        let (process, mut ring) = self.ring(origin, pid)?;
        if let Some(tid) = number(if is_kernels { "tid" } else { "thread.id" })
            && pid != 0
        {
            let thread = tracks::describe_thread(pid, tid);
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
                    let track_descriptor = Some(tracks::describe_process(pid, name));
                    self.put(TracePacket { track_descriptor, ..TracePacket::default() })?;
                }
                self.plain(record, at, ring)
            }
            _ => self.plain(record, at, ring),
        }
    }

    /// The fields of a record, and where it stands.
    fn details(&mut self, record: &Rec<'_>) -> Vec<DebugAnnotation> {
        let names = &mut self.names;
        let mut details = vec![annotate::number(names, "ring.pos", record.pos)];
        if record.late > 0 {
            details.push(annotate::number(names, "late_ns", record.late));
        }
        let bytes = || Value::Bytes(record.bytes.to_vec());
        match record.value() {
            Some(Ok(value)) => details.extend(annotate::annotations(names, "value", value)),
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
        let event = TrackEvent {
            r#type: Some(EventType::Instant as i32),
            name_iid: Some(name_iid),
            track_uuid: Some(track),
            categories: vec![if class == "plain" { "record" } else { class }.to_owned()],
            debug_annotations: self.details(record),
            ..TrackEvent::default()
        };
        self.event(at, event)
    }

    fn log(
        &mut self,
        record: &Rec<'_>,
        value: &Value,
        at: u64,
        track: u64,
    ) -> Result<(), OutputError> {
        let name = ["event_name", "body"].into_iter().find_map(|name| match value.get(name)? {
            Value::Null => None,
            Value::Str(text) if text.is_empty() => None,
            Value::Str(text) => Some(text.clone()),
            other => Some(other.to_string()),
        });
        let mut categories = vec!["log".to_owned()];
        if let Some(Value::Str(severity)) = value.get("severity_text") {
            categories.push(severity.clone());
        }
        let event = TrackEvent {
            r#type: Some(EventType::Instant as i32),
            name: Some(name.unwrap_or_else(|| "log".to_owned())),
            track_uuid: Some(track),
            categories,
            debug_annotations: self.details(record),
            ..TrackEvent::default()
        };
        self.event(at, event)
    }

    fn span(
        &mut self,
        class: Class,
        record: &Rec<'_>,
        value: &Value,
        at: u64,
        (process, ring): (u64, u64),
    ) -> Result<(), OutputError> {
        let id = |name| match value.get(name) {
            Some(Value::Bytes(id)) => id.as_slice(),
            _ => &[],
        };
        let track = tracks::uuid(&[b"span", id("trace_id"), id("span_id")]);
        let name = match value.get("name") {
            Some(Value::Str(name)) => Some(name.as_str()),
            _ => None,
        };
        let event = TrackEvent { track_uuid: Some(track), ..TrackEvent::default() };
        let mut begin = TrackEvent {
            r#type: Some(EventType::SliceBegin as i32),
            categories: vec!["span".to_owned()],
            ..event.clone()
        };
        let details = self.details(record);
        if class == Class::SpanStart {
            let is_open = self.open.contains(&track);
            let begins = name.filter(|_| !is_open && self.open.len() < OPEN);
            let Some(name) = begins else {
                // More of a span; or one too many, of which the end will tell the most.
                let instant = TrackEvent {
                    r#type: Some(EventType::Instant as i32),
                    name: Some(name.map_or("more", |_| "span_start").to_owned()),
                    track_uuid: Some(if is_open { track } else { ring }),
                    categories: vec!["span".to_owned()],
                    debug_annotations: details,
                    ..TrackEvent::default()
                };
                return self.event(at, instant);
            };
            self.open.insert(track);
            self.put_track(track, process)?;
            begin.name_iid = Some(self.names.event(name));
            begin.debug_annotations = details;
            return self.event(at, begin);
        }
        let mut end = TrackEvent { r#type: Some(EventType::SliceEnd as i32), ..event };
        end.debug_annotations = details;
        if !self.open.remove(&track) {
            // Its start was lost, or there were too many.
            self.put_track(track, process)?;
            let took = match value.get("duration_nano") {
                Some(Value::U64(took)) => *took,
                _ => 0,
            };
            begin.name_iid = Some(self.names.event(name.unwrap_or("span")));
            self.event(at.saturating_sub(took), begin)?;
        }
        self.event(at, end)
    }

    fn put_track(&mut self, track: u64, process: u64) -> Result<(), OutputError> {
        let track_descriptor = Some(tracks::describe(track, process, "spans"));
        self.put(TracePacket { track_descriptor, ..TracePacket::default() })
    }

    /// Whether there is a number in it.
    fn counters(
        &mut self,
        class: Class,
        value: &Value,
        at: u64,
        process: u64,
    ) -> Result<bool, OutputError> {
        let Some(Value::Str(name)) = value.get("name") else { return Ok(false) };
        let unit = match value.get("unit") {
            Some(Value::Str(unit)) => unit.as_str(),
            _ => "",
        };
        let series = series(value);
        let is_delta = class == Class::Sum
            && matches!(value.get("aggregation_temporality"), Some(Value::U64(1)));
        let mut any = false;
        for (field, suffix) in [("value", ""), ("count", ".count"), ("sum", ".sum")] {
            if field != "value" && class != Class::Histogram {
                continue;
            }
            let unit = if field == "count" { "1" } else { unit };
            let mut event = match value.get(field) {
                Some(Value::I64(number)) => counted(*number),
                Some(Value::U64(number)) => match i64::try_from(*number) {
                    Ok(number) => counted(number),
                    Err(_) => measured(*number as f64),
                },
                Some(Value::F64(number)) if number.is_finite() => measured(*number),
                _ => continue,
            };
            any = true;
            let name = format!("{name}{suffix}{series}");
            let track = tracks::uuid(&[b"counter", &process.to_le_bytes(), name.as_bytes()]);
            event.track_uuid = Some(track);
            self.describe(TrackDescriptor {
                counter: Some(tracks::counter(unit, is_delta)),
                ..tracks::describe(track, process, &name)
            })?;
            self.event(at, event)?;
        }
        Ok(any)
    }

    fn loss(&mut self, origin: &Origin, loss: &Loss, at: u64) -> Result<(), OutputError> {
        let (process, ring) = self.ring(origin, origin.producer.pid)?;
        let plural = if loss.records == 1 { "record" } else { "records" };
        let name = format!("LOST {} {plural}: {}", loss.records, loss.cause.name());
        let details = vec![
            annotate::number(&mut self.names, "ring.pos", loss.pos),
            annotate::number(&mut self.names, "records", loss.records),
            annotate::number(&mut self.names, "bytes", loss.bytes),
            annotate::text(&mut self.names, "cause", loss.cause.name().to_owned()),
        ];
        let event = TrackEvent {
            r#type: Some(EventType::Instant as i32),
            name: Some(name),
            track_uuid: Some(ring),
            categories: vec!["lost".to_owned()],
            debug_annotations: details,
            ..TrackEvent::default()
        };
        self.event(at, event)?;
        let lost = self.lost.entry(origin.id).or_default();
        *lost = lost.saturating_add(loss.records);
        let mut event = counted(i64::try_from(*lost).unwrap_or(i64::MAX));
        let track = tracks::uuid(&[b"lost", &origin.uuid]);
        event.track_uuid = Some(track);
        self.describe(TrackDescriptor {
            counter: Some(tracks::counter("1", false)),
            ..tracks::describe(track, process, &format!("{}: lost records", origin.name))
        })?;
        self.event(at, event)
    }
}

fn counted(number: i64) -> TrackEvent {
    let r#type = Some(EventType::Counter as i32);
    TrackEvent { r#type, counter_value: Some(number), ..TrackEvent::default() }
}

fn measured(number: f64) -> TrackEvent {
    let r#type = Some(EventType::Counter as i32);
    TrackEvent { r#type, double_counter_value: Some(number), ..TrackEvent::default() }
}

/// What tells a series from others of its instrument: its attributes, sorted, or nothing.
fn series(value: &Value) -> String {
    const NOT: [&str; 17] = [
        "time_unix_nano",
        "process.pid",
        "name",
        "unit",
        "description",
        "value",
        "is_monotonic",
        "aggregation_temporality",
        "start_time_unix_nano",
        "otel.scope.name",
        "count",
        "sum",
        "min",
        "max",
        "explicit_bounds",
        "bucket_counts",
        "…",
    ];
    let Value::Struct(fields) = value else { return String::new() };
    let own = fields.iter().filter(|(name, _)| !NOT.contains(&&**name));
    let mut own: Vec<_> = own.map(|(name, value)| format!("{name}={value}")).collect();
    own.sort_unstable();
    if own.is_empty() { String::new() } else { format!("{{{}}}", own.join(",")) }
}

impl Output for Perfetto {
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        self.unflushed.get_or_insert(event.seq);
        let at = self.timeline.place(event);
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
            }
        }
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.draft.flush()?;
        self.unflushed = None;
        self.figures.delivered = self.figures.taken;
        Ok(())
    }

    fn undelivered(&mut self) -> Option<u64> {
        self.unflushed
    }

    fn close(&mut self, _deadline: Instant) -> Result<(), OutputError> {
        self.flush()?;
        self.draft.finish()
    }

    fn figures(&self) -> Figures {
        self.figures.clone()
    }
}
