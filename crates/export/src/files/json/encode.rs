//! Encodes an event as a line.

use crate::model::event::{Event, Loss, Origin, Rec, What};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use perfring_consumer::Writer;
use perfring_types::Encoding;
use perfring_types::read::{Type, Value};
use serde::Serialize;

/// Appends the event as a JSON object, without a line end. Returns `false` for a ring's beginning
/// or end, which has no line.
///
/// ```
/// use perfring_consumer::{Consumer, Item};
/// use perfring_export::{Event, Rec, Shapes, What, json};
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shop");
/// # let mut producer = Producer::create(&path, &Options::default())?;
/// producer.publish(b"an order")?;
/// let shapes = Shapes::open(&path, 0)?;
/// let mut consumer = Consumer::attach(&path)?;
/// let Some(Item::Record(record)) = consumer.read()? else { panic!() };
/// let record = What::Record(Rec::new(record, shapes.origin()));
/// let mut line = Vec::new();
/// assert!(json::encode(&Event { seq: 1, origin: shapes.origin(), what: record }, &mut line));
/// assert!(String::from_utf8(line)?.ends_with(r#""len":8,"text":"an order"}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode(event: &Event<'_>, out: &mut Vec<u8>) -> bool {
    let wall = match &event.what {
        What::Record(record) => record.wall,
        What::Lost(loss) => loss.wall,
        What::Began | What::Ended => return false,
    };
    out.push(b'{');
    if let Some(wall) = wall {
        time(out, wall);
    }
    ring(out, event.origin);
    match &event.what {
        What::Record(record) => body(out, record),
        What::Lost(loss) => lost(out, loss),
        What::Began | What::Ended => {}
    }
    out.push(b'}');
    true
}

/// Appends a member whose value consists of numbers and text, which JSON can always hold.
fn member<T: Serialize + ?Sized>(out: &mut Vec<u8>, name: &[u8], value: &T) {
    out.extend_from_slice(name);
    // Writing to memory cannot fail, and all keys of a value are text.
    let _ = serde_json::to_writer(out, value);
}

fn ring(out: &mut Vec<u8>, origin: &Origin) {
    member(out, b"\"ring\":", &*origin.name);
    out.extend_from_slice(b",\"uuid\":\"");
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = uuid::Uuid::from_bytes(origin.uuid).hyphenated().encode_lower(&mut text);
    out.extend_from_slice(text.as_bytes());
    member(out, b"\",\"epoch\":", &origin.epoch);
}

fn body(out: &mut Vec<u8>, record: &Rec<'_>) {
    member(out, b",\"pos\":", &record.pos);
    member(out, b",\"type\":", &record.kind);
    if let Some(kind) = record.kind_of() {
        member(out, b",\"type_name\":", &*kind.name);
    }
    member(out, b",\"len\":", &record.bytes.len());
    if let Some(time) = record.time {
        member(out, b",\"time_ns\":", &time);
    }
    if let Some(wall) = record.wall {
        member(out, b",\"time_unix_ns\":", &wall);
    }
    if let Some(Writer { pid, tid }) = record.writer {
        member(out, b",\"pid\":", &pid);
        member(out, b",\"tid\":", &tid);
    }
    if record.late > 0 {
        member(out, b",\"late_ns\":", &record.late);
    }
    let read = record.kind_of().filter(|kind| !is_payload(kind)).and_then(|_| record.value());
    match read {
        Some(Ok(fields @ Value::Struct(_))) => member(out, b",\"fields\":", fields),
        Some(Ok(value)) => member(out, b",\"value\":", value),
        Some(Err(bad)) => {
            payload(out, record.bytes);
            member(out, b",\"bad\":", &bad.to_string());
        }
        None => payload(out, record.bytes),
    }
}

/// Returns whether the raw payload is all there is to show.
fn is_payload(kind: &Type) -> bool {
    matches!(kind.encoding.known(), None | Some(Encoding::Bytes | Encoding::Utf8))
}

fn payload(out: &mut Vec<u8>, bytes: &[u8]) {
    if let Ok(text) = str::from_utf8(bytes) {
        member(out, b",\"text\":", text);
    } else {
        out.extend_from_slice(b",\"base64\":\"");
        out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
        out.push(b'"');
    }
}

fn lost(out: &mut Vec<u8>, loss: &Loss) {
    member(out, b",\"lost\":{\"pos\":", &loss.pos);
    member(out, b",\"records\":", &loss.records);
    member(out, b",\"bytes\":", &loss.bytes);
    member(out, b",\"cause\":", loss.cause.name());
    if let Some(sum) = &loss.sum {
        member(out, b",\"sum\":", sum);
    }
    if loss.at_end {
        member(out, b",\"at_end\":", &true);
    }
    out.push(b'}');
}

/// Formats ns since 1970 in UTC, in the format of RFC 3339, to the ns.
///
/// ```
/// use perfring_export::json::utc;
/// assert_eq!(utc(1_782_907_200_000_000_001), "2026-07-01T12:00:00.000000001Z");
/// ```
#[must_use]
pub fn utc(ns: u64) -> String {
    let mut out = Vec::new();
    date(&mut out, ns);
    String::from_utf8(out).unwrap_or_default() // it is ASCII
}

fn time(out: &mut Vec<u8>, wall: u64) {
    out.extend_from_slice(b"\"time\":\"");
    date(out, wall);
    out.extend_from_slice(b"\",");
}

fn date(out: &mut Vec<u8>, ns: u64) {
    let (seconds, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    digits::<4>(out, year);
    out.push(b'-');
    digits::<2>(out, month);
    out.push(b'-');
    digits::<2>(out, day);
    out.push(b'T');
    digits::<2>(out, second / 3600);
    out.push(b':');
    digits::<2>(out, second / 60 % 60);
    out.push(b':');
    digits::<2>(out, second % 60);
    out.push(b'.');
    digits::<9>(out, ns);
    out.push(b'Z');
}

fn digits<const N: usize>(out: &mut Vec<u8>, mut number: u64) {
    let mut text = [b'0'; N];
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&text);
}

/// Returns year, month and day of a day since 1970. Years begin in March, so that the leap day is
/// last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153; // from March
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let mut days = 0;
        // Every day within 64 bits of ns, checked against the calendar's rules.
        for year in 1970..=2553u64 {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            for (month, len) in
                (1..).zip([31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
            {
                for day in 1..=len {
                    assert_eq!(civil(days), (year, month, day));
                    days += 1;
                }
            }
        }
        assert_eq!(utc(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(utc(1_782_907_199_999_999_999), "2026-07-01T11:59:59.999999999Z");
        assert_eq!(utc(u64::MAX), "2554-07-21T23:34:33.709551615Z");
    }
}
