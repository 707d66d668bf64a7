//! Converts events to messages.

use super::options::{Headers, Options, Payload};
use super::subject::Template;
use async_nats::Subject;
use async_nats::header::{HeaderMap, HeaderName};
use bytes::Bytes;
use perfring_consumer::RecordType;
use perfring_events::{Event, Origin, Rec, What, signal::Added};
use perfring_files::json::{self, Integers};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

const ID: HeaderName = HeaderName::from_static("Nats-Msg-Id");
const POS: HeaderName = HeaderName::from_static("Perfring-Pos");
const TIME: HeaderName = HeaderName::from_static("Perfring-Time");
const CAUSE: HeaderName = HeaderName::from_static("Perfring-Cause");

/// The memory charged for an entry besides its payload: the entry, its headers and its slot in the
/// client's own queue.
const BESIDE: u64 = 512;

/// Heads of one ring are kept for this many types.
const MAX_KINDS: usize = 1024;

/// One message, from when it is taken until the server has acknowledged it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) head: Arc<Head>,
    pub(super) payload: Bytes,
    of: Of,
    pub(super) state: State,
    /// When it was first sent, if it may be stored by now and no answer has arrived.
    pub(super) sent: Option<Instant>,
    /// It may be stored, and the connection that it was sent on is lost.
    pub(super) doubtful: bool,
    /// If it is stored, it follows this message of the stream.
    pub(super) after: u64,
}

/// The content of a message.
#[derive(Debug)]
enum Of {
    /// A record, or a loss with its cause.
    Event { pos: u64, time: Option<u64>, cause: Option<&'static str>, sum: Option<u64> },
    /// A batch of OTLP.
    Batch { id: String, items: u64, records: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// To be sent.
    Waiting,
    /// Sent, no answer yet.
    Sent,
    /// Acknowledged, or refused for good.
    Done,
}

/// The shared part of the messages of one ring and one type.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) subject: Subject,
    pub(super) uuid: String,
    headers: HeaderMap,
    all: bool,
}

impl Entry {
    fn new(head: Arc<Head>, payload: Bytes, of: Of) -> Self {
        let state = State::Waiting;
        Entry { head, payload, of, state, sent: None, doubtful: false, after: 0 }
    }

    /// Creates a message of a batch.
    pub(super) fn batch(
        head: Arc<Head>,
        id: String,
        items: u64,
        records: u64,
        payload: Bytes,
    ) -> Self {
        Entry::new(head, payload, Of::Batch { id, items, records })
    }

    /// Returns the number of records that it delivers.
    pub(super) fn records(&self) -> u64 {
        match self.of {
            Of::Event { cause, .. } => u64::from(cause.is_none()),
            Of::Batch { records, .. } => records,
        }
    }

    /// Returns the number of log records, spans and points in it: one for an event.
    pub(super) fn items(&self) -> u64 {
        match self.of {
            Of::Event { .. } => 1,
            Of::Batch { items, .. } => items,
        }
    }

    /// Returns the bytes of memory charged for it.
    pub(super) fn cost(&self) -> u64 {
        self.payload.len() as u64 + BESIDE
    }

    /// Returns the id by which the server recognises a duplicate: of an event its
    /// [`Key`](perfring_events::Key) as text.
    pub(super) fn id(&self) -> String {
        let (pos, cause, sum) = match &self.of {
            Of::Event { pos, cause, sum, .. } => (*pos, *cause, *sum),
            Of::Batch { id, .. } => return id.clone(),
        };
        // 32 digits, and mostly less than 16 for the position: one allocation.
        let mut id = String::with_capacity(56);
        id.push_str(&self.head.uuid);
        id.push('-');
        decimal(&mut id, pos);
        if let Some(cause) = cause {
            id.push_str("-lost-");
            id.extend(cause.chars().map(|c| if c == ' ' { '-' } else { c }));
        }
        if let Some(sum) = sum {
            id.push('-');
            decimal(&mut id, sum);
        }
        id
    }

    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = self.head.headers.clone();
        headers.insert(ID, self.id());
        if self.head.all
            && let Of::Event { pos, time, cause, .. } = self.of
        {
            headers.insert(POS, number(pos));
            if let Some(time) = time {
                headers.insert(TIME, number(time));
            }
            if let Some(cause) = cause {
                headers.insert(CAUSE, cause);
            }
        }
        headers
    }
}

fn number(number: u64) -> String {
    let mut text = String::with_capacity(20);
    decimal(&mut text, number);
    text
}

/// Appends a number like `write!`, but faster: it is called several times for each message.
pub(super) fn decimal(to: &mut String, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    to.extend(digits[at..].iter().map(|digit| *digit as char));
}

/// Creates messages from events.
#[derive(Debug)]
pub(super) struct Encoder {
    template: Template,
    payload: Payload,
    integers: Integers,
    pub(super) added: Added,
    headers: Headers,
    /// The length of the last text, so that a payload is allocated once.
    text: Vec<u8>,
    /// By the origin's number, while it is read.
    rings: HashMap<u32, HashMap<Kind, Arc<Head>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Record(u32),
    Lost,
}

impl Encoder {
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        Ok(Encoder {
            template: Template::parse(&options.subject)?,
            payload: options.payload,
            integers: options.integers,
            added: Added::default(),
            headers: options.headers.unwrap_or(match options.payload {
                Payload::Auto | Payload::Json | Payload::Otlp => Headers::Id,
                Payload::Raw => Headers::All,
            }),
            text: Vec::new(),
            rings: HashMap::new(),
        })
    }

    /// Returns the message; `None` if the event has none.
    pub(super) fn encode(&mut self, event: &Event<'_>) -> Option<Entry> {
        let (kind, pos, time, cause, sum) = match &event.what {
            What::Record(record) => {
                (Kind::Record(record.kind), record.pos, record.wall, None, None)
            }
            What::Lost(loss) => {
                (Kind::Lost, loss.pos, loss.wall, Some(loss.cause.name()), loss.sum)
            }
            What::Began => return None,
            What::Ended => {
                self.rings.remove(&event.origin.id);
                return None;
            }
        };
        let payload = match (&event.what, self.payload) {
            (What::Record(record), Payload::Raw) => Bytes::copy_from_slice(record.bytes),
            _ => {
                self.text.clear();
                json::encode(event, self.integers, &self.added, &mut self.text);
                Bytes::copy_from_slice(&self.text)
            }
        };
        let head = self.head(event, kind);
        Some(Entry::new(head, payload, Of::Event { pos, time, cause, sum }))
    }

    fn head(&mut self, event: &Event<'_>, kind: Kind) -> Arc<Head> {
        let kinds = self.rings.entry(event.origin.id).or_default();
        if let Some(head) = kinds.get(&kind) {
            return Arc::clone(head);
        }
        let record = if let What::Record(record) = &event.what { Some(record) } else { None };
        let head = Arc::new(Head::new(&self.template, self.headers, event.origin, record));
        // A type may get its name later, so only heads of named types are kept. This also prevents
        // a ring from filling our memory with type numbers.
        let named = record.is_none_or(|record| {
            record.kind_of().is_some() || record.kind == RecordType::BYTES.get()
        });
        if named && kinds.len() < MAX_KINDS {
            kinds.insert(kind, Arc::clone(&head));
        }
        head
    }
}

impl Head {
    /// Creates the head of batches, which have no header but the id.
    pub(super) fn of_batches(subject: Subject) -> Head {
        Head { subject, uuid: String::new(), headers: HeaderMap::new(), all: false }
    }

    fn new(template: &Template, which: Headers, origin: &Origin, record: Option<&Rec<'_>>) -> Head {
        let kind = match record {
            None => "lost",
            Some(record) => match record.kind_of() {
                Some(kind) => &kind.name,
                None if record.kind == RecordType::BYTES.get() => "bytes",
                None => "unnamed",
            },
        };
        let mut headers = HeaderMap::new();
        if which == Headers::All {
            headers.insert("Perfring-Ring", plain(&origin.name));
            headers.insert("Perfring-Uuid", origin.uuid_text());
            headers.insert("Perfring-Epoch", number(origin.epoch));
            headers.insert("Perfring-Type", plain(kind));
            if let Some(record) = record {
                headers.insert("Perfring-Kind", number(u64::from(record.kind)));
            }
        }
        let uuid = uuid::Uuid::from_bytes(origin.uuid).simple().to_string();
        let subject = template.fill(&origin.name, kind, &uuid);
        Head { subject: subject.into(), uuid, headers, all: which == Headers::All }
    }
}

/// Replaces control characters in a header's value: names come from files that others write, and a
/// line end would end the header.
fn plain(text: &str) -> String {
    text.chars().take(256).map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '_' }).collect()
}
