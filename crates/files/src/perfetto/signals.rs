//! OpenTelemetry's signals in a Perfetto trace: logs, spans, metrics.

use super::proto::{EventType, TracePacket, TrackDescriptor, TrackEvent};
use super::{Perfetto, tracks};
use perfring_events::{OutputError, Rec};
use perfring_telemetry::names;
use perfring_types::Class;
use perfring_types::read::Value;

/// The limit of open spans: beyond it, only a span's end is written.
const OPEN: usize = 1 << 20;

impl Perfetto {
    pub(super) fn log(
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
        let mut event = TrackEvent::instant(track, "log", self.details(record));
        if let Some(Value::Str(severity)) = value.get("severity_text") {
            event.categories.push(severity.clone());
        }
        event.name = Some(name.unwrap_or_else(|| "log".to_owned()));
        self.event(at, event)
    }

    pub(super) fn span(
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
                // An extension of a span; or a span beyond the limit, whose end has most of its
                // fields.
                let track = if is_open { track } else { ring };
                let name = Some(name.map_or("more", |_| "span_start").to_owned());
                let instant = TrackEvent::instant(track, "span", details);
                return self.event(at, TrackEvent { name, ..instant });
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
            // Its start was lost, or beyond the limit.
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

    /// Writes the counters of a sample. Returns whether it has a number.
    pub(super) fn counters(
        &mut self,
        class: Class,
        value: &Value,
        at: u64,
        process: u64,
    ) -> Result<bool, OutputError> {
        let Some(Value::Str(instrument)) = value.get("name") else { return Ok(false) };
        let unit = match value.get("unit") {
            Some(Value::Str(unit)) => unit.as_str(),
            _ => "",
        };
        let series = series(value);
        let shown = match series.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", series.join(",")),
        };
        let is_delta = class == Class::Sum
            && matches!(value.get("aggregation_temporality"), Some(Value::U64(1)));
        let mut any = false;
        for (field, suffix) in [("value", ""), ("count", ".count"), ("sum", ".sum")] {
            if field != "value" && class != Class::Histogram {
                continue;
            }
            let unit = if field == "count" { "1" } else { unit };
            let mut event = match value.get(field) {
                Some(Value::I64(number)) => TrackEvent::counted(*number),
                Some(Value::U64(number)) => match i64::try_from(*number) {
                    Ok(number) => TrackEvent::counted(number),
                    Err(_) => TrackEvent::measured(*number as f64),
                },
                Some(Value::F64(number)) if number.is_finite() => TrackEvent::measured(*number),
                _ => continue,
            };
            any = true;
            let name = format!("{instrument}{suffix}{shown}");
            // Not by the name that is shown: other instruments may have the same.
            let process_bytes = process.to_le_bytes();
            let of = [instrument, field, class.name(), unit].map(str::as_bytes);
            let parts = [&b"counter"[..], &process_bytes].into_iter().chain(of);
            let parts: Vec<&[u8]> = parts.chain(series.iter().map(String::as_bytes)).collect();
            let track = tracks::uuid(&parts);
            event.track_uuid = Some(track);
            self.describe(TrackDescriptor {
                counter: Some(tracks::counter(unit, is_delta)),
                ..tracks::describe(track, process, &name)
            })?;
            self.event(at, event)?;
        }
        Ok(any)
    }
}

/// Returns what distinguishes a series from others of its instrument: its attributes, sorted.
fn series(value: &Value) -> Vec<String> {
    // The fields of all classes of metrics.
    let reserved = names::reserved(Class::Histogram);
    let is_own = |name: &str| name != names::IS_MONOTONIC && !reserved.contains(&name);
    let Value::Struct(fields) = value else { return Vec::new() };
    let own = fields.iter().filter(|(name, _)| is_own(name));
    let mut own: Vec<_> = own.map(|(name, value)| format!("{name}={value}")).collect();
    own.sort_unstable();
    own
}
