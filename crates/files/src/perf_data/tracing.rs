//! Record types as tracepoints, so that perf shows records by their fields.

use perfring_events::mangle::{identifier, truncated};
use perfring_types::read::{Type, TypeField, Value};
use perfring_types::{Encoding, Kind};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// The offset of the first own field of a record in the raw data.
const OWN: usize = 32;
/// The limit of own fields of a record that are described, so that its text has room.
const MOST_OWN: usize = 1024;
/// The fields of all tracepoints.
const OURS: [&str; 9] = [
    "common_type",
    "common_flags",
    "common_preempt_count",
    "common_pid",
    "pos",
    "ring",
    "text",
    "payload",
    "payload_len",
];
/// The limit of tracepoints: their numbers have 16 bits.
const MOST: usize = 60_000;

/// The header of the kernel's trace pages. There are none here, but it is required.
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
";

/// One tracepoint.
#[derive(Debug)]
pub(super) struct Tracepoint {
    system: String,
    name: String,
    /// The record's own integer fields, and their names here.
    own: Vec<(Integer, String)>,
}

/// A field at a fixed offset that is an integer of up to eight bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Integer {
    name: String,
    is_signed: bool,
}

/// All tracepoints of a file. Their numbers start at 1.
#[derive(Debug, Default)]
pub(super) struct Tracepoints {
    all: Vec<Tracepoint>,
    /// By system, name and fields, so that identical types are one.
    known: HashMap<(String, Vec<Integer>), u16>,
    /// Full names that are taken.
    names: HashSet<String>,
}

impl Tracepoints {
    /// Returns the tracepoint of a type, or of the losses and of records without a type.
    pub(super) fn of(&mut self, name: &str, kind: Option<&Type>) -> u16 {
        let own = kind.map(integers).unwrap_or_default();
        if let Some(id) = self.known.get(&(name.to_owned(), own.clone())) {
            return *id;
        }
        if self.all.len() >= MOST {
            return 1;
        }
        let (system, short) = name.rsplit_once('.').unwrap_or(("perfring", name));
        let (system, name_here) = (identifier(system), identifier(short));
        let mut short = name_here.clone();
        let mut count = 1;
        while !self.names.insert(format!("{system}:{short}")) {
            count += 1;
            short = format!("{name_here}_{count}");
        }
        let mut taken: Vec<String> = OURS.map(str::to_owned).into();
        let mut named = Vec::new();
        for field in &own {
            let mut name = identifier(&field.name);
            while taken.contains(&name) {
                name.push('_');
            }
            taken.push(name.clone());
            named.push((field.clone(), name));
        }
        self.all.push(Tracepoint { system, name: short, own: named });
        let id = self.all.len() as u16; // at most `MOST`
        self.known.insert((name.to_owned(), own), id);
        id
    }

    /// Returns numbers and full names.
    pub(super) fn names(&self) -> Vec<(u16, String)> {
        let named =
            |(at, it): (usize, &Tracepoint)| (at as u16 + 1, format!("{}:{}", it.system, it.name));
        self.all.iter().enumerate().map(named).collect()
    }

    /// Encodes the raw data of a record, as the tracepoint's format describes it.
    pub(super) fn raw(&self, id: u16, raw: &Raw<'_>, most: usize, out: &mut Vec<u8>) {
        let own = self.all.get(usize::from(id) - 1).map_or(&[][..], |it| &it.own);
        out.clear();
        out.extend(id.to_ne_bytes());
        out.extend([0, 0]); // flags, preempt count
        out.extend(raw.pid.to_ne_bytes());
        out.extend(raw.pos.to_ne_bytes());
        // The strings, then the payload. What does not fit is truncated: first the text, then the
        // payload.
        let mut at = OWN + 8 * own.len();
        let ring = truncated(raw.ring, 255);
        let left = most.saturating_sub(at + ring.len() + 2);
        let text =
            truncated(raw.text, left.saturating_sub(raw.payload.len()).clamp(1 << 10, 16 << 10));
        let payload = &raw.payload[..raw.payload.len().min(left.saturating_sub(text.len()))];
        let mut dynamic = Vec::new();
        for (bytes, zero) in [(ring.as_bytes(), 1), (text.as_bytes(), 1), (payload, 0)] {
            let len = bytes.len() + zero;
            out.extend(((len as u32) << 16 | at as u32).to_ne_bytes());
            dynamic.extend(bytes);
            dynamic.resize(dynamic.len() + zero, 0);
            at += len;
        }
        out.extend((raw.payload.len() as u32).to_ne_bytes());
        for (field, _) in own {
            let number = match raw.value.and_then(|value| value.get(&field.name)) {
                Some(Value::U64(number)) => *number,
                Some(Value::I64(number) | Value::Label { value: number, .. }) => *number as u64,
                Some(Value::Bool(is)) => u64::from(*is),
                _ => 0,
            };
            out.extend(number.to_ne_bytes());
        }
        out.extend(dynamic);
    }

    /// Returns the section of the file that describes them, in the format of `trace-cmd` and perf.
    pub(super) fn section(&self) -> Vec<u8> {
        let mut out = vec![23, 8, 68];
        out.extend(b"tracing0.6\0");
        out.push(u8::from(cfg!(target_endian = "big")));
        out.push(8); // bytes of a long
        out.extend(4096u32.to_ne_bytes());
        out.extend(b"header_page\0");
        out.extend((HEADER_PAGE.len() as u64).to_ne_bytes());
        out.extend(HEADER_PAGE.as_bytes());
        out.extend(b"header_event\0");
        out.extend(0u64.to_ne_bytes());
        out.extend(0u32.to_ne_bytes()); // ftrace's own events
        out.extend((self.all.len() as u32).to_ne_bytes()); // systems: one for each, they may repeat
        for (at, tracepoint) in self.all.iter().enumerate() {
            out.extend(tracepoint.system.as_bytes());
            out.push(0);
            out.extend(1u32.to_ne_bytes());
            let format = tracepoint.format(at + 1);
            out.extend((format.len() as u64).to_ne_bytes());
            out.extend(format.as_bytes());
        }
        out.extend(0u32.to_ne_bytes()); // kallsyms
        out.extend(0u32.to_ne_bytes()); // printk formats
        out.extend(0u64.to_ne_bytes()); // command lines
        out
    }
}

/// The content of a record's sample.
pub(super) struct Raw<'a> {
    pub(super) pid: u32,
    pub(super) pos: u64,
    pub(super) ring: &'a str,
    pub(super) text: &'a str,
    pub(super) payload: &'a [u8],
    pub(super) value: Option<&'a Value>,
}

impl Tracepoint {
    fn format(&self, id: usize) -> String {
        let mut out = format!("name: {}\nID: {id}\nformat:\n", self.name);
        let mut field = |what: &str, at: usize, size: usize, signed: u8| {
            let before = if at == 8 { "\n" } else { "" }; // after those of all tracepoints
            let place = format!("offset:{at};\tsize:{size};\tsigned:{signed};");
            let _ = writeln!(out, "{before}\tfield:{what};\t{place}");
        };
        field("unsigned short common_type", 0, 2, 0);
        field("unsigned char common_flags", 2, 1, 0);
        field("unsigned char common_preempt_count", 3, 1, 0);
        field("int common_pid", 4, 4, 1);
        field("unsigned long long pos", 8, 8, 0);
        field("__data_loc char[] ring", 16, 4, 0);
        field("__data_loc char[] text", 20, 4, 0);
        field("__data_loc u8[] payload", 24, 4, 0);
        field("unsigned int payload_len", 28, 4, 0);
        for (at, (own, name)) in self.own.iter().enumerate() {
            let kind = if own.is_signed { "long long" } else { "unsigned long long" };
            field(&format!("{kind} {name}"), OWN + 8 * at, 8, own.is_signed.into());
        }
        out.push_str("\nprint fmt: \"%s\", __get_str(text)\n");
        out
    }
}

fn integers(kind: &Type) -> Vec<Integer> {
    if !matches!(kind.encoding.known(), Some(Encoding::Pod | Encoding::Rkyv)) {
        return Vec::new();
    }
    let integer = |field: &TypeField| {
        let is_signed = match field.shape.kind.known()? {
            Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Bool => false,
            Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 | Kind::Enum => true,
            _ => return None,
        };
        Some(Integer { name: field.name.to_string(), is_signed })
    };
    kind.fields.iter().filter_map(integer).take(MOST_OWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfring_consumer::RecordType;
    use perfring_types::Entries;
    use perfring_types::read::TypeTable;

    #[test]
    fn tracepoints_and_their_fields_are_distinct() {
        let mut all = Tracepoints::default();
        // The second `a.b` would be called as the third type is.
        for name in ["a.b", "a_b", "x.a-b", "x.a_b_2", "x.a+b", "x.a b"] {
            all.of(name, None);
        }
        let names: Vec<String> = all.names().into_iter().map(|(_, name)| name).collect();
        let expected = ["a:b", "perfring:a_b", "x:a_b", "x:a_b_2", "x:a_b_3", "x:a_b_4"];
        assert_eq!(names, expected);

        let fields = r#"[{"name":"pid","kind":"u32","offset":0},{"name":"common_pid","kind":"u32","offset":4}]"#;
        let text = format!(r#"{{"name":"t","encoding":"pod","size":8,"fields":{fields}}}"#);
        let id = RecordType::new(5000).unwrap();
        let words = perfring_types::Entry { id, layout: 0, text: &text }.to_words();
        let table = TypeTable::from_entries(Entries::new(&words));
        let id = all.of("t", table.get(id));
        let format = all.all[usize::from(id) - 1].format(1);
        assert!(format.contains("unsigned long long pid;"), "{format}");
        assert_eq!(format.matches(" common_pid;").count(), 1, "{format}");
        assert!(format.contains("unsigned long long common_pid_;"), "{format}");
    }
}
