//! Type tables, and payloads read with them: plain structs, archives, tagged values, JSON.

use perfring_consumer::RecordType;
use perfring_testkit::choices::{Choices, Input};
use perfring_types::read::{Condition, Type, TypeTable, Value};
use perfring_types::tagged::{Data, TaggedWriter, Values};
use perfring_types::{Entries, Entry, Record, access, check_format};

/// An archive with a pointer of each kind.
#[derive(rkyv::Archive, rkyv::Serialize, Record)]
#[record(rkyv)]
struct Archived {
    number: u64,
    text: String,
    list: Vec<u32>,
    names: Vec<String>,
    maybe: Option<u64>,
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.u8() % 6 {
        0 => table(&words(input.rest())),
        1 => {
            // Valid entries of invalid texts, with a word changed.
            let (mut all, change) = (Vec::new(), input.u16());
            while !input.is_empty() {
                let id = 4096 + u32::from(input.u8() % 4);
                let text = input.text(4096);
                if let Some(id) = RecordType::new(id) {
                    all.extend(Entry { id, layout: 0, text: &text }.to_words());
                }
            }
            if let Some(word) = all.get_mut(usize::from(change >> 4)).filter(|_| change & 15 < 8) {
                *word ^= 1 << (change & 63);
            }
            table(&all);
        }
        2 | 3 => {
            let text = input.text(16 << 10);
            if let Some(kind) = parse(&text) {
                same_again(&kind);
                payload_of(&kind, input.rest());
            }
        }
        4 => {
            archive(input.rest());
        }
        _ => tagged(&mut input),
    }
}

pub(crate) fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect()
}

pub(crate) fn parse(text: &str) -> Option<Type> {
    match Type::parse(RecordType::BYTES, text) {
        Ok(kind) => Some(kind),
        Err(bad) => {
            assert!(!bad.to_string().contains('\u{1b}'), "{bad}");
            None
        }
    }
}

fn table(words: &[u64]) {
    let table = TypeTable::from_words(words);
    for damage in table.damage() {
        assert!(!damage.to_string().is_empty());
    }
    // Valid entries are written again, and are valid again.
    let handed: Vec<u64> = table.entries().flat_map(|entry| entry.to_words()).collect();
    let again = TypeTable::from_words(&handed);
    assert_eq!((again.len(), again.damage().len()), (table.len(), 0));
    for entry in Entries::new(words).map_while(Result::ok) {
        let _ = (entry.name(), check_format(entry.format()).is_ok());
    }
    for kind in table.iter() {
        payload_of(kind, bytemuck::cast_slice(words));
    }
}

/// Checks that a type survives writing and parsing.
fn same_again(kind: &Type) {
    let text = kind.to_json();
    let again = Type::parse(kind.id, &text);
    let again = again.unwrap_or_else(|bad| panic!("{bad}: {text}"));
    assert_eq!(again.to_json(), text);
}

/// Returns how many values there are in all.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::List(values) => values.iter().map(count).sum(),
        Value::Struct(fields) => fields.iter().map(|(_, value)| count(value)).sum(),
        _ => 0,
    }
}

/// Does everything that a reader does with a type and a payload.
pub(crate) fn payload_of(kind: &Type, payload: &[u8]) {
    match kind.decode(payload) {
        Ok(value) => {
            assert!(count(&value) <= 1 + (1 << 20) + payload.len());
            let text = kind.render_text(&value);
            assert!(!text.contains(['\u{1b}', '\n']), "{text}");
            let json = serde_json::to_string(&value).expect("JSON holds every value");
            let read: Result<serde_json::Value, _> = serde_json::from_str(&json);
            // The JSON parser gives up on nesting before ours does.
            assert!(read.is_ok() || json.contains("[[[[") || json.contains("{{"), "{json}");
            if let Value::Struct(fields) = &value {
                for (name, _) in fields.iter().take(64) {
                    assert!(value.get(name).is_some());
                    let condition = Condition::parse(&format!("x{name}<=7"));
                    let _ = condition.map(|condition| kind.matches(&value, &condition));
                }
            }
        }
        Err(bad) => assert!(!bad.to_string().contains('\u{1b}'), "{bad}"),
    }
}

fn archive(bytes: &[u8]) {
    // Aligned to 8, like a payload in a ring.
    let mut aligned = words(bytes);
    aligned.push(0);
    let bytes = &bytemuck::cast_slice::<u64, u8>(&aligned)[..bytes.len()];
    let found = access::<Archived>(bytes);
    if let Ok(found) = &found {
        let sum =
            found.list.iter().fold(0_u64, |sum, word| sum.wrapping_add(word.to_native().into()));
        let names: usize = found.names.iter().map(|name| name.len()).sum();
        let _ = (sum, names, found.text.len(), found.number, found.maybe.as_ref().is_some());
    }
    // It can be read with its type alone as well.
    let kind = parse(&Archived::SCHEMA.to_json()).expect("our own type");
    let by_type = kind.decode(bytes);
    if let Ok(found) = found {
        let value = by_type.expect("what rkyv reads, we read");
        assert_eq!(value.get("text"), Some(&Value::Str(found.text.to_string())));
        assert_eq!(value.get("number"), Some(&Value::U64(found.number.to_native())));
    }
    payload_of(&kind, bytes);
}

/// Appends values as the input says; returns their number.
pub(crate) fn write_tagged(input: &mut Input<'_>, names: &[&str], writer: &mut TaggedWriter<'_>) {
    for _ in 0..input.u8() % 24 {
        let what = input.u8();
        macro_rules! put {
            ($kind:ident, $value:expr) => {
                if what & 128 == 0 {
                    writer.$kind(u16::from(what >> 4), $value)
                } else if what & 64 == 0 && !names.is_empty() {
                    writer.$kind(input.one(names), $value)
                } else {
                    let name = input.text(300);
                    writer.$kind(&*name, $value)
                }
            };
        }
        let word = input.number(0, 4096);
        match what % 11 {
            0 => put!(u64, word),
            1 => put!(i64, word as i64),
            2 => put!(f64, f64::from_bits(word)),
            3 => put!(bool, word & 1 == 1),
            4 | 5 => {
                let text = input.text(2048);
                put!(text, &text);
            }
            6 => {
                let bytes = input.bytes(64);
                put!(bytes, bytes);
            }
            7 => put!(u128, u128::from(word) << 64 | u128::from(word)),
            8 => put!(i128, -i128::from(word) << 32),
            9 => {
                let list: Vec<f64> =
                    input.bytes(128).chunks(8).map(|part| f64::from(part[0]) - 3.0).collect();
                put!(f64s, &list);
            }
            _ => {
                let list: Vec<u64> = input.bytes(64).iter().map(|byte| u64::from(*byte)).collect();
                put!(u64s, &list);
            }
        }
    }
}

fn tagged(input: &mut Input<'_>) {
    // The output of our writer can be read, and keeps to its limit.
    let limit = usize::from(input.u16());
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload).with_limit(limit);
    write_tagged(input, &["name", "value", "…", ""], &mut writer);
    let (written, cut) = (writer.written(), writer.is_truncated());
    assert!(written <= limit && written == payload.len());
    let mut reported = false;
    for value in Values::new(&payload) {
        let value = value.expect("what our own writer wrote");
        reported |= value.name == perfring_types::tagged::CUT && matches!(value.data, Data::U64(_));
    }
    assert!(!cut || reported || limit < 24, "truncated, and not reported");
    // Anything else is read or refused.
    for value in Values::new(input.rest()) {
        let Ok(value) = value else { break };
        if let Data::F64s(list) = value.data {
            let _: f64 = list.iter().sum();
        }
    }
}
