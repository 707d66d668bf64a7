//! The trace's metadata, and its text in CTF 1.8's language (TSDL).

use super::field::{self, Field, Member, Members, quoted};
use super::fragments;
use super::options::Version;
use perfring_types::read::{Type, Value};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use uuid::Uuid;

/// The limit of event kinds: any further ones are written as JSON.
const MOST: usize = 1 << 14;

/// A kind of event.
#[derive(Debug)]
pub(super) struct Class {
    name: String,
    pub(super) members: Vec<Member>,
}

/// The content of the metadata.
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) trace: Uuid,
    clock: Uuid,
    /// The offset of the wall clock from the timestamps' clock, ns.
    offset: Option<u64>,
    rings: Vec<String>,
    classes: Vec<Class>,
    /// By ring, type and, if records may differ, the fields' names and kinds.
    known: HashMap<(u32, u32, Vec<u8>), u32>,
    /// By name and fields: the same type in many rings is one.
    by_text: HashMap<(String, String), u32>,
    /// Whether the file lacks something.
    pub(super) is_news: bool,
}

/// The event of a loss.
pub(super) const LOST: u32 = 0;
/// The event of a record beyond the limit: its type and its value as JSON.
pub(super) const OTHER: u32 = 1;

impl Metadata {
    /// Fails where there are no random bytes for its ids.
    pub(super) fn new() -> io::Result<Self> {
        let id = || -> io::Result<Uuid> {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(io::Error::from)?;
            Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
        };
        let mut this = Metadata {
            trace: id()?,
            clock: id()?,
            offset: None,
            rings: Vec::new(),
            classes: Vec::new(),
            known: HashMap::new(),
            by_text: HashMap::new(),
            is_news: true,
        };
        let mut lost = Members::default();
        lost.add("records", "", Field::Unsigned(64));
        lost.add("bytes", "", Field::Unsigned(64));
        lost.add("cause", "", Field::Text);
        this.add("perfring.lost", lost.done());
        let mut other = Members::default();
        other.add("type", "", Field::Text);
        other.add("json", "", Field::Json);
        this.add("perfring.other", other.done());
        Ok(this)
    }

    /// Sets the offset of the wall clock from the timestamps' clock. The first known one is used.
    pub(super) fn set_offset(&mut self, offset: u64) {
        if self.offset.is_none() {
            self.offset = Some(offset);
            self.is_news = true;
        }
    }

    /// Returns the number of a ring, for the events' context.
    pub(super) fn ring(&mut self, name: &str) -> u32 {
        self.rings.push(name.to_owned());
        self.is_news = true;
        self.rings.len() as u32 - 1
    }

    /// Forgets what it knows of a removed ring.
    pub(super) fn forget(&mut self, ring: u32) {
        self.known.retain(|(of, _, _), _| *of != ring);
    }

    pub(super) fn class(&self, id: u32) -> &[Member] {
        self.classes.get(id as usize).map_or(&[], |class| &class.members)
    }

    /// Returns the event of a record of this ring and type; [`OTHER`] if there are too many kinds.
    pub(super) fn of(&mut self, ring: u32, id: u32, kind: Option<&Type>, value: Shown<'_>) -> u32 {
        let mut key = Vec::new();
        let stable = match (kind, &value) {
            (Some(kind), Shown::Value(value)) => {
                let stable = kind
                    .encoding
                    .known()
                    .is_some_and(|encoding| encoding != perfring_types::Encoding::Tagged);
                if !stable {
                    sign(value, &mut key);
                }
                stable
            }
            (_, Shown::Damage) => {
                key.push(1);
                true
            }
            _ => true,
        };
        let key = (ring, id, key);
        if let Some(class) = self.known.get(&key) {
            return *class;
        }
        if self.known.len() >= MOST {
            if stable && self.classes.len() < MOST {
                self.known.clear(); // they can be found again by their text
            } else {
                return OTHER;
            }
        }
        let name = kind.map_or_else(|| format!("type {id}"), |kind| kind.name.clone());
        let members = match (kind, value) {
            (Some(kind), Shown::Value(value)) => {
                field::of_type(kind).unwrap_or_else(|| field::of_values(kind, value))
            }
            (_, shown) => {
                let mut members = Members::default();
                if matches!(shown, Shown::Damage) {
                    members.add("damage", "", Field::Text);
                }
                members.add("payload", "", Field::Bytes);
                members.done()
            }
        };
        let class = self.add(&name, members);
        self.known.insert(key, class);
        class
    }

    fn add(&mut self, name: &str, members: Vec<Member>) -> u32 {
        // Not as they are declared: texts and JSON are both strings there, and are written in two ways.
        let key = (name.to_owned(), format!("{members:?}"));
        if let Some(id) = self.by_text.get(&key) {
            return *id;
        }
        if self.classes.len() >= MOST {
            return OTHER;
        }
        let id = self.classes.len() as u32; // at most `MOST`
        self.by_text.insert(key, id);
        self.classes.push(Class { name: name.to_owned(), members });
        self.is_news = true;
        id
    }

    /// Returns the whole text.
    pub(super) fn text(&self, version: Version) -> String {
        let rings = self.rings.iter().zip(0i64..).map(|(name, at)| (at, name.clone())).collect();
        let mut context = Members::default();
        context.add(
            "ring",
            "",
            if self.rings.is_empty() {
                Field::Unsigned(32)
            } else {
                Field::Labelled(32, false, rings)
            },
        );
        context.add("pos", "", Field::Unsigned(64));
        match version {
            Version::V1_8 => self.tsdl(&context.done()),
            Version::V2 => {
                let offset = self.offset.unwrap_or_default();
                let events = self.classes.iter().map(|class| (&*class.name, &*class.members));
                fragments::text(&self.trace, offset, &context.done(), events)
            }
        }
    }

    fn tsdl(&self, context: &[Member]) -> String {
        let mut out = String::from("/* CTF 1.8 */\n\n");
        for bits in [8, 16, 32, 64] {
            for (sign, name) in [("false", 'u'), ("true", 'i')] {
                let _ = writeln!(
                    out,
                    "typealias integer {{ size = {bits}; align = 8; signed = {sign}; }} := {name}{bits};"
                );
            }
        }
        out.push_str(
            "typealias integer { size = 8; align = 8; signed = false; base = 16; } := x8;\n\
             typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := f32;\n\
             typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := f64;\n\n",
        );
        let _ = write!(
            out,
            "trace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{}\";\n\tbyte_order = le;\n\
             \tpacket.header := struct {{ u32 magic; u8 uuid[16]; u32 stream_id; u64 stream_instance_id; }};\n}};\n\n\
             env {{\n\ttracer_name = \"perfring\";\n\ttracer_version = \"{}\";\n}};\n\n",
            self.trace.hyphenated(),
            env!("CARGO_PKG_VERSION"),
        );
        let _ = write!(
            out,
            "clock {{\n\tname = boottime;\n\tuuid = \"{}\";\n\tdescription = \"CLOCK_BOOTTIME\";\n\
             \tfreq = 1000000000;\n\toffset = {};\n}};\n\n\
             typealias integer {{ size = 64; align = 8; signed = false; map = clock.boottime.value; }} := stamp;\n\n",
            self.clock.hyphenated(),
            self.offset.unwrap_or_default(),
        );
        out.push_str(
            "stream {\n\tid = 0;\n\tevent.header := struct { u32 id; stamp timestamp; };\n\
             \tpacket.context := struct { stamp timestamp_begin; stamp timestamp_end; u64 content_size; \
             u64 packet_size; u64 events_discarded; u64 packet_seq_num; };\n\
             \tevent.context := struct { ",
        );
        field::declare(context, &mut out);
        out.push_str("};\n};\n");
        for (id, class) in self.classes.iter().enumerate() {
            let name = quoted(&class.name);
            let _ = write!(
                out,
                "\nevent {{\n\tname = {name};\n\tid = {id};\n\tstream_id = 0;\n\tfields := struct {{ "
            );
            field::declare(&class.members, &mut out);
            out.push_str("};\n};\n");
        }
        out
    }
}

/// The content of a record.
#[derive(Clone, Copy)]
pub(super) enum Shown<'a> {
    /// Its value by its type.
    Value(&'a Value),
    /// It does not match its type.
    Damage,
    /// It has no type.
    Untyped,
}

/// Appends what distinguishes one set of fields from others.
fn sign(value: &Value, out: &mut Vec<u8>) {
    let Value::Struct(fields) = value else { return };
    for (name, value) in fields {
        out.extend((name.len() as u32).to_le_bytes());
        out.extend(name.as_bytes());
        out.push(match value {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::I64(_) => 2,
            Value::U64(_) => 3,
            Value::F32(_) => 4,
            Value::F64(_) => 5,
            Value::Bytes(_) => 6,
            Value::Label { .. } => 7,
            Value::List(all) if all.iter().all(|one| matches!(one, Value::U64(_))) => 8,
            Value::List(all) if all.iter().all(|one| matches!(one, Value::F64(_))) => 9,
            Value::List(_) | Value::Struct(_) => 10,
            _ => 11,
        });
    }
}
