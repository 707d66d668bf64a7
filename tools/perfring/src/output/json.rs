//! One JSON object per line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use perfring_consumer::{Lost, Record};
use serde::Serialize;
use std::io::{self, Write};

#[derive(Serialize)]
struct RecordLine<'a> {
    pos: u64,
    r#type: u32,
    len: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

#[derive(Serialize)]
struct LostLine {
    lost: LostBody,
}

#[derive(Serialize)]
struct LostBody {
    pos: u64,
    records: u64,
    bytes: u64,
    cause: &'static str,
}

pub(super) fn record(out: &mut impl Write, record: &Record<'_>) -> io::Result<()> {
    let text = std::str::from_utf8(record.bytes).ok();
    let base64 = text.is_none().then(|| STANDARD.encode(record.bytes));
    let len = record.bytes.len();
    line(out, &RecordLine { pos: record.pos, r#type: record.kind, len, text, base64 })
}

pub(super) fn lost(out: &mut impl Write, lost: &Lost) -> io::Result<()> {
    let cause = lost.cause.name();
    let lost = LostBody { pos: lost.pos, records: lost.records, bytes: lost.bytes, cause };
    line(out, &LostLine { lost })
}

fn line(mut out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")
}
