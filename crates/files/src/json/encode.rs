//! Encodes an event as a line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use perfring_consumer::WriterId;
use perfring_events::{Event, Loss, Origin, Rec, What, signal::Added, utc};
use perfring_types::read::{Type, Value};
use perfring_types::{Class, Encoding};
use serde::{Deserialize, Serialize};
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::io::{self, Write as _};

/// How integers are written that a reader with 64-bit floating-point numbers rounds: jq, JavaScript and others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Integers {
    /// As numbers, like all others.
    #[default]
    Number,
    /// As text, if they are beyond 2^53 - 1 or below its negative: `"9007199254740993"`.
    Text,
}

/// Appends the event as a JSON object, without a line end. Resources get the attributes of `added`. Returns `false` for a
/// ring's beginning or end, which has no line.
///
/// ```
/// use perfring_consumer::{Consumer, Item};
/// use perfring_files::json::{self, Integers};
/// use perfring_events::signal::Added;
/// use perfring_events::{Event, Rec, Shapes, What};
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
/// let event = Event { seq: 1, origin: shapes.origin(), what: record };
/// assert!(json::encode(&event, Integers::Number, &Added::default(), &mut line));
/// assert!(String::from_utf8(line)?.ends_with(r#""len":8,"text":"an order"}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn encode(event: &Event<'_>, integers: Integers, added: &Added, out: &mut Vec<u8>) -> bool {
    let wall = match &event.what {
        What::Record(record) => record.wall,
        What::Lost(loss) => loss.wall,
        What::Began | What::Ended => return false,
    };
    out.push(b'{');
    if let Some(wall) = wall {
        time(out, wall);
    }
    let mut line = Line { out, integers };
    line.ring(event.origin);
    match &event.what {
        What::Record(record) => line.body(record, added),
        What::Lost(loss) => line.lost(loss),
        What::Began | What::Ended => {}
    }
    line.out.push(b'}');
    true
}

/// The largest integer that such a reader keeps apart from the next one: 2^53 - 1.
const EXACT: u64 = (1 << 53) - 1;

/// Formats integers beyond [`EXACT`] as text.
struct Texts;

impl Formatter for Texts {
    fn write_i64<W: ?Sized + io::Write>(&mut self, out: &mut W, value: i64) -> io::Result<()> {
        match value.unsigned_abs() > EXACT {
            true => write!(out, "\"{value}\""),
            false => CompactFormatter.write_i64(out, value),
        }
    }

    fn write_u64<W: ?Sized + io::Write>(&mut self, out: &mut W, value: u64) -> io::Result<()> {
        match value > EXACT {
            true => write!(out, "\"{value}\""),
            false => CompactFormatter.write_u64(out, value),
        }
    }
}

/// A line that is being written.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    integers: Integers,
}

impl Line<'_> {
    /// Appends a member whose value consists of numbers and text, which JSON can always hold.
    fn member<T: Serialize + ?Sized>(&mut self, name: &[u8], value: &T) {
        self.out.extend_from_slice(name);
        // Writing to memory cannot fail, and all keys of a value are text.
        let _ = match self.integers {
            Integers::Number => serde_json::to_writer(&mut *self.out, value),
            Integers::Text => {
                value.serialize(&mut Serializer::with_formatter(&mut *self.out, Texts))
            }
        };
    }

    fn ring(&mut self, origin: &Origin) {
        self.member(b"\"ring\":", &*origin.name);
        self.out.extend_from_slice(b",\"uuid\":\"");
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        let text = uuid::Uuid::from_bytes(origin.uuid).hyphenated().encode_lower(&mut text);
        self.out.extend_from_slice(text.as_bytes());
        self.member(b"\",\"epoch\":", &origin.epoch);
    }

    fn body(&mut self, record: &Rec<'_>, added: &Added) {
        self.member(b",\"pos\":", &record.pos);
        self.member(b",\"type\":", &record.kind);
        if let Some(kind) = record.kind_of() {
            self.member(b",\"type_name\":", &*kind.name);
            if let Some(class) = class_of(kind) {
                self.member(b",\"class\":", class);
            }
        }
        self.member(b",\"len\":", &record.bytes.len());
        if let Some(time) = record.time {
            self.member(b",\"time_ns\":", &time);
        }
        if let Some(wall) = record.wall {
            self.member(b",\"time_unix_ns\":", &wall);
        }
        if let Some(WriterId { pid, tid }) = record.writer {
            self.member(b",\"pid\":", &pid);
            self.member(b",\"tid\":", &tid);
        }
        if record.late > 0 {
            self.member(b",\"late_ns\":", &record.late);
        }
        let read = record.kind_of().filter(|kind| !is_payload(kind)).and_then(|_| record.value());
        match read {
            Some(Ok(fields @ Value::Struct(_))) => {
                let added = added.to_record(record);
                self.member(b",\"fields\":", added.as_ref().unwrap_or(fields));
            }
            Some(Ok(value)) => self.member(b",\"value\":", value),
            Some(Err(bad)) => {
                self.payload(record.bytes);
                self.member(b",\"bad\":", &bad.to_string());
            }
            None => self.payload(record.bytes),
        }
    }

    fn payload(&mut self, bytes: &[u8]) {
        if let Ok(text) = str::from_utf8(bytes) {
            self.member(b",\"text\":", text);
        } else {
            self.out.extend_from_slice(b",\"base64\":\"");
            self.out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            self.out.push(b'"');
        }
    }

    fn lost(&mut self, loss: &Loss) {
        self.member(b",\"lost\":{\"pos\":", &loss.pos);
        self.member(b",\"records\":", &loss.counted());
        self.member(b",\"bytes\":", &loss.bytes);
        self.member(b",\"cause\":", loss.cause.name());
        if let Some(sum) = &loss.sum {
            self.member(b",\"sum\":", sum);
        }
        if loss.at_end {
            self.member(b",\"at_end\":", &true);
        }
        self.out.push(b'}');
    }
}

/// Returns the name of a type's class; `None` if the type is the program's own, which has no class.
#[must_use]
pub fn class_of(kind: &Type) -> Option<&str> {
    Some(kind.class.name()).filter(|_| kind.class.known() != Some(Class::Plain))
}

/// Returns whether the raw payload is all there is to show.
fn is_payload(kind: &Type) -> bool {
    matches!(kind.encoding.known(), None | Some(Encoding::Bytes | Encoding::Utf8))
}

fn time(out: &mut Vec<u8>, wall: u64) {
    out.extend_from_slice(b"\"time\":\"");
    let _ = write!(out, "{}", utc(wall)); // a `Vec` takes all
    out.extend_from_slice(b"\",");
}
