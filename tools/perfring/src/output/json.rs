//! One JSON object per line.

use crate::records::time::exact_utc;
use crate::records::typed::Seen;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use perfring_export::json::class_of;
use perfring_types::read::Value;
use serde::Serialize;
use std::io::{self, Write};
use std::num::NonZeroU32;

#[derive(Serialize)]
struct RecordLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<&'a str>,
    pos: u64,
    r#type: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    type_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a str>,
    len: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_unix_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bad: Option<String>,
}

#[derive(Serialize)]
struct LostLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<&'a str>,
    lost: Missing,
}

/// A loss.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Missing {
    pub(super) pos: u64,
    /// `None` if the number is unknown.
    pub(super) records: Option<u64>,
    pub(super) bytes: u64,
    pub(super) cause: &'static str,
    /// Whether its place is unknown.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) at_end: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

pub(super) fn record(out: &mut impl Write, seen: &Seen<'_>) -> io::Result<()> {
    let record = &seen.record;
    let wall = seen.when.and_then(|when| when.wall);
    let kind = seen.kind.filter(|_| seen.value.is_some());
    let mut object = RecordLine {
        ring: seen.ring,
        pos: record.pos,
        r#type: record.kind,
        type_name: kind.map(|kind| &*kind.name),
        class: kind.and_then(class_of),
        len: record.bytes.len(),
        time: wall.map(exact_utc),
        time_ns: seen.when.map(|when| when.timestamp),
        time_unix_ns: wall,
        pid: record.writer.map(|writer| writer.pid),
        tid: record.writer.map(|writer| writer.tid),
        fields: None,
        value: None,
        text: None,
        base64: None,
        bad: seen.bad().map(ToString::to_string),
    };
    match seen.values() {
        Some((_, fields @ Value::Struct(_))) => object.fields = Some(fields),
        Some((_, value)) => object.value = Some(value),
        None => {
            object.text = std::str::from_utf8(record.bytes).ok();
            object.base64 = object.text.is_none().then(|| STANDARD.encode(record.bytes));
        }
    }
    line(out, &object)
}

pub(super) fn lost(out: &mut impl Write, ring: Option<&str>, lost: Missing) -> io::Result<()> {
    line(out, &LostLine { ring, lost })
}

pub(crate) fn line(mut out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")
}
