//! Records as the page has them.

use super::clock::Clock;
use super::headline::{Headline, Level, ordered};
use super::sample::Metric;
use perfring_events::{Loss, Rec};
use perfring_figures::escape::{escaped, one_line};
use perfring_types::Encoding;
use perfring_types::read::Value;
use serde::Serialize;

/// Characters of a record that are shown in its line.
const LINE: usize = 400;
/// Bytes of a record that are shown.
const BYTES: usize = 4096;

#[derive(Debug, Serialize)]
pub(super) struct RecordJson {
    pub(super) seq: u64,
    pub(super) ring: u32,
    pub(super) name: String,
    pub(super) pos: u64,
    /// Its time, as the page has it.
    pub(super) t: Option<i64>,
    pub(super) r#type: String,
    pub(super) len: usize,
    /// A log's severity, and what a record of telemetry is about: a log's message, the name of a span or a metric.
    level: Option<Level>,
    message: Option<String>,
    /// The other values of such a record, or all there is of another one.
    pub(super) text: String,
    pub(super) bad: Option<String>,
    pub(super) pid: Option<u32>,
    /// Records that were lost here, instead of one.
    pub(super) lost: Option<u64>,
}

/// A record with all of its bytes.
#[derive(Serialize)]
pub(super) struct Whole {
    #[serde(flatten)]
    pub(super) record: RecordJson,
    /// Its time: ns of the ring's clock, and UTC.
    time_ns: Option<String>,
    utc: Option<String>,
    tid: Option<u32>,
    /// Its trace, if it names one.
    trace: Option<String>,
    /// Its metric, if it is a sample.
    metric: Option<Metric>,
    fields: Vec<(String, String)>,
    hex: String,
    /// Bytes that are not in `hex`.
    more: usize,
}

impl RecordJson {
    pub(super) fn of(seq: u64, ring: u32, name: &str, record: &Rec<'_>, clock: &Clock) -> Self {
        let (headline, bad) = match Headline::of(record) {
            Some(headline) => (headline, None),
            None => {
                let (text, bad) = text(record);
                (Headline { text, ..Headline::default() }, bad)
            }
        };
        let Headline { level, message, text } = headline;
        RecordJson {
            seq,
            ring,
            name: name.to_owned(),
            pos: record.pos,
            t: record.wall.map(|wall| clock.of_wall(wall)),
            r#type: record
                .kind_of()
                .map_or_else(|| record.kind.to_string(), |kind| kind.name.clone()),
            len: record.bytes.len(),
            level,
            message: message.map(shortened),
            text: shortened(text),
            bad,
            pid: record.writer.map(|writer| writer.pid.get()),
            lost: None,
        }
    }

    pub(super) fn of_loss(seq: u64, ring: u32, name: &str, loss: &Loss, clock: &Clock) -> Self {
        RecordJson {
            seq,
            ring,
            name: name.to_owned(),
            pos: loss.pos,
            t: loss.wall.map(|wall| clock.of_wall(wall)),
            r#type: "lost".to_owned(),
            len: 0,
            level: None,
            message: None,
            text: loss.cause.name().to_owned(),
            bad: None,
            pid: None,
            lost: Some(loss.records),
        }
    }
}

impl Whole {
    pub(super) fn of(seq: u64, ring: u32, name: &str, record: &Rec<'_>, clock: &Clock) -> Self {
        let fields = match (record.kind_of(), record.value()) {
            (Some(kind), Some(Ok(Value::Struct(fields)))) => ordered(kind, fields)
                .into_iter()
                .map(|(name, value)| (one_line(name), shortened(value.to_string())))
                .collect(),
            _ => Vec::new(),
        };
        let trace = match record.value() {
            Some(Ok(value)) => match value.get("trace_id") {
                Some(Value::Bytes(id)) if id.len() == 16 => Some(hex(id)),
                _ => None,
            },
            _ => None,
        };
        let shown = &record.bytes[..record.bytes.len().min(BYTES)];
        Whole {
            record: RecordJson::of(seq, ring, name, record, clock),
            time_ns: record.time.map(|time| time.to_string()),
            utc: record.wall.map(|ns| perfring_events::utc(ns).to_string()),
            tid: record.writer.map(|writer| writer.tid),
            trace,
            metric: Metric::of(record),
            fields,
            hex: hex(shown),
            more: record.bytes.len() - shown.len(),
        }
    }
}

/// Writes bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a record's values or its text in one line, and why it has none.
fn text(record: &Rec<'_>) -> (String, Option<String>) {
    let typed = record.kind_of().filter(|kind| {
        !matches!(kind.encoding.known(), None | Some(Encoding::Bytes | Encoding::Utf8))
    });
    match (typed, typed.and_then(|_| record.value())) {
        (Some(kind), Some(Ok(value))) => (kind.render_text(value), None),
        (_, Some(Err(bad))) => {
            (escaped(&record.bytes[..record.bytes.len().min(LINE)]), Some(bad.to_string()))
        }
        _ => (escaped(&record.bytes[..record.bytes.len().min(2 * LINE)]), None),
    }
}

fn shortened(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(LINE) {
        text.truncate(at);
        text.push('…');
    }
    text
}
