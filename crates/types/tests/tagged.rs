//! Tagged payloads: valid within every limit, and any bytes are read without a panic.

use perfring_abi::RecordType;
use perfring_types::read::{Type, Value};
use perfring_types::tagged::{CUT, Data, Key, TaggedValue, TaggedWriter, Values};
use proptest::prelude::*;

fn read(payload: &[u8]) -> Vec<TaggedValue<'_>> {
    Values::new(payload).collect::<Result<_, _>>().unwrap_or_else(|damage| panic!("{damage}"))
}

#[derive(Clone, Debug)]
enum Any {
    None,
    Word(u64),
    Large(u128),
    Text(String),
    Format(Vec<String>),
    Bytes(Vec<u8>),
    List(Vec<u64>),
}

fn any_value() -> impl Strategy<Value = Any> {
    prop_oneof![
        Just(Any::None),
        any::<u64>().prop_map(Any::Word),
        any::<u128>().prop_map(Any::Large),
        "\\PC{0,60}".prop_map(Any::Text),
        prop::collection::vec("\\PC{0,20}", 0..5).prop_map(Any::Format),
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Any::Bytes),
        prop::collection::vec(any::<u64>(), 0..12).prop_map(Any::List),
    ]
}

/// Writes text in separate pieces.
struct Pieces<'a>(&'a [String]);

impl std::fmt::Display for Pieces<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for piece in self.0 {
            let _ = f.write_str(piece); // goes on after an error, as careless implementations do
        }
        Ok(())
    }
}

fn write(writer: &mut TaggedWriter<'_>, key: Key<'_>, value: &Any) {
    match value {
        Any::None => writer.none(key),
        Any::Word(value) => writer.u64(key, *value),
        Any::Large(value) => writer.u128(key, *value),
        Any::Text(value) => writer.text(key, value),
        Any::Format(value) => writer.display(key, Pieces(value)),
        Any::Bytes(value) => writer.bytes(key, value),
        Any::List(value) => writer.u64s(key, value),
    }
}

/// Returns whether what was read equals what was written, or a truncated part of it.
fn same(read: Data<'_>, written: &Any) -> Option<bool> {
    let begins = |whole: &str, text: &str| match text.strip_suffix(CUT) {
        _ if text == whole => Some(true),
        Some(begin) => whole.starts_with(begin).then_some(false),
        None => None,
    };
    match (read, written) {
        (Data::None, Any::None) => Some(true),
        (Data::U64(read), Any::Word(value)) => (read == *value).then_some(true),
        (Data::U128(read), Any::Large(value)) => (read == *value).then_some(true),
        (Data::Text(read), Any::Text(value)) => begins(value, read),
        (Data::Text(read), Any::Format(value)) => begins(&value.concat(), read),
        (Data::Bytes(read), Any::Bytes(value)) => {
            value.starts_with(read).then_some(read.len() == value.len())
        }
        (Data::U64s(read), Any::List(value)) => {
            let read: Vec<u64> = read.iter().collect();
            value.starts_with(&read).then_some(read.len() == value.len())
        }
        _ => None,
    }
}

proptest! {
    #[test]
    fn within_any_limit_whole_values_are_equal_and_truncated_ones_counted(
        values in prop::collection::vec((prop::option::of("\\PC{0,12}"), any_value()), 0..12),
        limit in 0usize..600,
        before in 0usize..20,
    ) {
        let mut out = vec![0xaa; before];
        let mut writer = TaggedWriter::new(&mut out).with_limit(limit);
        for (at, (name, value)) in values.iter().enumerate() {
            let key = name.as_deref().map_or(Key::Field(at as u16), Key::Name);
            write(&mut writer, key, value);
        }
        let (truncated, written) = (writer.is_truncated(), writer.written());
        prop_assert_eq!(written, out.len() - before);
        prop_assert!(written <= limit && written % 8 == 0, "{} of {}", written, limit);
        let (mut read, mut reported) = (read(&out[before..]).into_iter().peekable(), 0);
        let mut short = 0;
        for (at, (name, value)) in values.iter().enumerate() {
            // In order: each is present, truncated, or left out.
            if let Some(count) = read.next_if(|value| value.name == CUT) {
                reported = match count.data { Data::U64(count) => count, other => panic!("{other:?}") };
            }
            let mine = |read: &TaggedValue<'_>| match name {
                None => read.field == Some(at as u16),
                Some(name) => read.field.is_none() && read.name == name.as_str()
                    && same(read.data, value).is_some(),
            };
            match read.next_if(mine) {
                Some(read) => {
                    let whole = same(read.data, value);
                    prop_assert!(whole.is_some(), "{:?} of {:?}", read, value);
                    short += u64::from(whole == Some(false));
                }
                None => short += 1,
            }
        }
        if let Some(count) = read.next() {
            prop_assert_eq!(count.name, CUT);
            reported = match count.data { Data::U64(count) => count, other => panic!("{other:?}") };
        }
        prop_assert!(read.next().is_none());
        prop_assert_eq!(truncated, short > 0);
        // The count is missing only where there is no room for it.
        prop_assert_eq!(reported, if limit < 24 { 0 } else { short });
    }

    #[test]
    fn any_bytes_are_read_to_their_end_or_to_the_first_damage(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        small in any::<bool>(),
    ) {
        // Half of the time with small numbers, so that headers fit now and then.
        let bytes: Vec<u8> = bytes.iter().map(|byte| if small { byte % 12 } else { *byte }).collect();
        let all: Vec<_> = Values::new(&bytes).collect();
        prop_assert!(all.len() <= bytes.len() / 8 + 1);
        let bad = all.iter().position(Result::is_err);
        prop_assert!(bad.is_none_or(|bad| bad + 1 == all.len()));
    }

    #[test]
    fn a_truncated_or_changed_payload_is_read_without_a_panic(
        values in prop::collection::vec(any_value(), 1..6),
        at: prop::sample::Index,
        byte: u8,
        end: prop::sample::Index,
    ) {
        let mut out = Vec::new();
        let mut writer = TaggedWriter::new(&mut out);
        for value in &values {
            write(&mut writer, Key::Name("n"), value);
        }
        let truncated = end.index(out.len());
        let good = Values::new(&out).count();
        prop_assert!(Values::new(&out[..truncated]).filter(Result::is_ok).count() < good);
        let at = at.index(out.len());
        out[at] = byte;
        prop_assert!(Values::new(&out).count() <= out.len() / 8 + 1);
    }
}

#[test]
fn a_vec_with_capacity_stays_where_it_is() {
    let mut out = Vec::with_capacity(1024);
    let place = out.as_ptr();
    let mut writer = TaggedWriter::new(&mut out);
    writer.text(0u16, "text");
    writer.debug("debug", (1, Some("x"), [0.5; 3]));
    writer.f64s(1, &[1.0; 20]);
    writer.bytes("b", &[7; 33]);
    writer.i128(2, -1);
    assert!(writer.written() > 300);
    assert_eq!(out.as_ptr(), place);
}

#[test]
fn a_value_whose_formatting_panics_leaves_nothing_behind() {
    struct Panics;
    impl std::fmt::Display for Panics {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("half of ")?;
            panic!("on purpose")
        }
    }
    let mut out = Vec::new();
    TaggedWriter::new(&mut out).u64(0u16, 1);
    let mut writer = TaggedWriter::new(&mut out);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        writer.display("half", Panics);
    }));
    assert!(caught.is_err());
    writer.u64("after", 2);
    let values = read(&out);
    assert_eq!(values.len(), 2);
    assert_eq!(values[1].name, "after");
}

#[test]
fn a_name_is_truncated_at_255_bytes_between_two_characters() {
    let mut out = Vec::new();
    TaggedWriter::new(&mut out).bool(&*"é".repeat(200), true);
    assert_eq!(read(&out)[0].name, "é".repeat(127));
}

#[test]
fn text_that_is_not_utf_8_and_tags_of_a_later_version_are_bytes() {
    let mut payload = vec![0, 0, 5, 0];
    payload.extend(2u32.to_ne_bytes());
    payload.extend([0xff, b'a', 0, 0, 0, 0, 0, 0]);
    payload.extend([0, 0, 99, 0]);
    payload.extend(1u32.to_ne_bytes());
    payload.extend([7, 0, 0, 0, 0, 0, 0, 0]);
    let values = read(&payload);
    assert_eq!(values[0].data, Data::Bytes(&[0xff, b'a']));
    assert_eq!(values[1].data, Data::Bytes(&[7]));
}

proptest! {
    /// Against a plain list: values of one name come together, fields in the type's order, and then other names as they came.
    /// There are more names than are searched one after the other.
    #[test]
    fn values_of_one_name_come_together_whether_by_number_or_by_name(
        fields in prop::collection::vec(0_u8..40, 0..24),
        values in prop::collection::vec((any::<bool>(), 0_u8..60), 0..80),
    ) {
        let named = |name: u8| format!("n{name}");
        let list: Vec<String> =
            fields.iter().map(|name| format!(r#"{{"name":"n{name}","kind":"any"}}"#)).collect();
        let text = format!(r#"{{"name":"T","encoding":"tagged","fields":[{}]}}"#, list.join(","));
        let of = Type::parse(RecordType::new(5000).unwrap(), &text).unwrap();
        let mut payload = Vec::new();
        let mut writer = TaggedWriter::new(&mut payload);
        let mut model: Vec<(String, Vec<Value>)> =
            fields.iter().map(|name| (named(*name), Vec::new())).collect();
        for (number, (by_number, name)) in values.into_iter().enumerate() {
            let value = number as u64;
            let name = match fields.get(usize::from(name)) {
                Some(field) if by_number => {
                    writer.u64(u16::from(name), value);
                    named(*field)
                }
                _ => {
                    writer.u64(&*named(name), value);
                    named(name)
                }
            };
            match model.iter_mut().find(|(its, _)| *its == name) {
                Some((_, values)) => values.push(Value::U64(value)),
                None => model.push((name, vec![Value::U64(value)])),
            }
        }
        let expected: Vec<(String, Value)> = model
            .into_iter()
            .filter_map(|(name, mut values)| match values.len() {
                0 => None,
                1 => Some((name, values.remove(0))),
                _ => Some((name, Value::List(values))),
            })
            .collect();
        let Value::Struct(read) = of.decode(&payload).unwrap() else { panic!("no struct") };
        let read: Vec<(String, Value)> =
            read.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        prop_assert_eq!(read, expected);
    }
}
