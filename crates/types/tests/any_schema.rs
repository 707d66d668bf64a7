//! Any schema and any values survive writing, the type table, reading, decoding, and JSON
//! unchanged.

use perfring_testkit::rng::Rng;
use perfring_testrig::any::{
    self, Layout, Member, Model, What, constant, fields, float, hex, leak, signed, unsigned,
};
use perfring_types::read::{TypeTable, Value};
use perfring_types::tagged::TaggedWriter;
use perfring_types::{Encoding, Field, Schema, Shape};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// Decodes a payload with nothing but the table's entry.
fn read(schema: &Schema<'_>, payload: &[u8]) -> (Value, Json) {
    let table = TypeTable::from_words(&schema.to_entry());
    assert!(table.damage().is_empty(), "{}\n{}", table.damage()[0], schema.to_json());
    let kind = table.get(schema.id).unwrap();
    // The text of a type goes through the reader as well. (Compared as JSON: there is more than one
    // way to write a carriage return.)
    let text: Json = serde_json::from_str(&schema.to_json()).unwrap();
    assert_eq!(serde_json::from_str::<Json>(&kind.to_json()).unwrap(), text);
    let value = kind.decode(payload).unwrap_or_else(|error| panic!("{error}\n{}", kind.to_json()));
    assert!(!kind.render_text(&value).contains(['\n', '\u{1b}', '\u{202e}']));
    let json = serde_json::to_string(&value).unwrap();
    (value, serde_json::from_str(&json).unwrap())
}

fn check(members: &[Member], seed: u64, layout: Layout, encoding: Encoding, format: &str) {
    let mut rng = Rng::new(seed);
    let mut payload = Vec::new();
    let (root, expected) = any::write(members, &mut rng, layout, &mut payload);
    let size = root.bytes.len() as u32;
    assert_eq!(size as usize, Model::Struct(members.to_vec()).size(layout));
    root.place(layout, &mut payload);
    let schema = Schema { format, ..Schema::new("any \"Type\"", encoding) }
        .with_fields(size, fields(members, layout))
        .with_hashed_id();
    assert_eq!(read(&schema, &payload).1, expected, "{}", schema.to_json());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pod(members in any::schemas::members(any::schemas::model(false), 0..6), seed: u64) {
        check(&members, seed, Layout::NATIVE, Encoding::Pod, "");
    }

    #[test]
    fn archives_of_every_format(
        members in any::schemas::members(any::schemas::model(true), 0..6),
        seed: u64,
        big: bool,
        width in prop::sample::select(vec![2usize, 4, 8]),
    ) {
        let order = if big { "big" } else { "little" };
        let format = format!("rkyv 0.8 {order} unaligned {}", 8 * width);
        check(&members, seed, Layout { big, width }, Encoding::Rkyv, &format);
    }

    #[test]
    fn tagged(
        members in prop::collection::vec((any::schemas::text(), prop::option::of(any::schemas::any_constant())), 0..8),
        seed: u64,
        count in 0usize..20,
    ) {
        check_tagged(&members, seed, count);
    }
}

/// One value: its tag, its bytes, its JSON.
fn any_value(rng: &mut Rng) -> (u8, Vec<u8>, Json) {
    let number = rng.wide();
    match rng.below(11) {
        0 => (0, vec![], Json::Null),
        1 => (1, vec![number as u8 & 1], json!(number & 1 == 1)),
        2 => (2, (number as i64).to_ne_bytes().to_vec(), json!(number as i64)),
        3 => (3, (number as u64).to_ne_bytes().to_vec(), json!(number as u64)),
        4 => {
            let value = rng.float();
            (4, value.to_ne_bytes().to_vec(), float(value))
        }
        5 => {
            let text = rng.text(300) + ["", "\0"][rng.index(2)];
            (5, text.clone().into_bytes(), json!(text))
        }
        6 => {
            let bytes: Vec<u8> = (0..rng.below(20)).map(|_| rng.any() as u8).collect();
            (6, bytes.clone(), hex(&bytes))
        }
        7 => (7, (number as i128).to_ne_bytes().to_vec(), signed(number as i128)),
        8 => (8, number.to_ne_bytes().to_vec(), unsigned(number)),
        9 => {
            let values: Vec<f64> = (0..rng.below(5)).map(|_| rng.float()).collect();
            let json = values.iter().copied().map(float).collect();
            (9, values.into_iter().flat_map(f64::to_ne_bytes).collect(), Json::Array(json))
        }
        _ => {
            let values: Vec<u64> = (0..rng.below(5)).map(|_| rng.any()).collect();
            (10, values.iter().copied().flat_map(u64::to_ne_bytes).collect(), json!(values))
        }
    }
}

/// Writes the same value through the library's writer.
fn through_writer(out: &mut Vec<u8>, key: perfring_types::tagged::Key<'_>, tag: u8, bytes: &[u8]) {
    fn words<T>(bytes: &[u8], from: fn([u8; 8]) -> T) -> Vec<T> {
        bytes.chunks(8).map(|chunk| from(chunk.try_into().unwrap())).collect()
    }
    let mut writer = TaggedWriter::new(out);
    match tag {
        0 => writer.none(key),
        1 => writer.bool(key, bytes[0] == 1),
        2 => writer.i64(key, i64::from_ne_bytes(bytes.try_into().unwrap())),
        3 => writer.u64(key, u64::from_ne_bytes(bytes.try_into().unwrap())),
        4 => writer.f64(key, f64::from_ne_bytes(bytes.try_into().unwrap())),
        5 if bytes.len().is_multiple_of(2) => writer.text(key, str::from_utf8(bytes).unwrap()),
        5 => writer.display(key, str::from_utf8(bytes).unwrap()),
        6 => writer.bytes(key, bytes),
        7 => writer.i128(key, i128::from_ne_bytes(bytes.try_into().unwrap())),
        8 => writer.u128(key, u128::from_ne_bytes(bytes.try_into().unwrap())),
        9 => writer.f64s(key, &words(bytes, f64::from_ne_bytes)),
        _ => writer.u64s(key, &words(bytes, u64::from_ne_bytes)),
    }
    assert!(!writer.is_truncated());
}

fn check_tagged(
    members: &[(String, Option<perfring_types::Constant<'static>>)],
    seed: u64,
    count: usize,
) {
    let mut rng = Rng::new(seed);
    let list: Vec<_> = members
        .iter()
        .map(|(name, value)| match value {
            Some(value) => Field::constant(leak(name), *value),
            None => Field::new(leak(name), 0, Shape::ANY),
        })
        .collect();
    let schema = Schema::new("any.Event", Encoding::Tagged).with_fields(0, &list).with_hashed_id();

    // The values under each name, in the order of the names.
    let mut come: Vec<(String, Vec<Json>)> = Vec::new();
    for (name, _) in members {
        if !come.iter().any(|(known, _)| known == name) {
            come.push((name.clone(), Vec::new()));
        }
    }
    let mut add = |name: &str, json: Json| match come.iter_mut().find(|(known, _)| known == name) {
        Some((_, values)) => values.push(json),
        None => come.push((name.to_owned(), vec![json])),
    };
    for (name, value) in members {
        if let Some(value) = value {
            add(name, constant(*value));
        }
    }
    let (mut payload, mut written) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (tag, bytes, json) = any_value(&mut rng);
        let named = members.is_empty() || rng.below(3) == 0;
        let (field, name) = match named {
            true => (0xffff, rng.text(255)),
            false => (rng.index(members.len()) as u16, String::new()),
        };
        payload.extend(field.to_ne_bytes());
        payload.extend([tag, name.len() as u8]);
        payload.extend((bytes.len() as u32).to_ne_bytes());
        payload.extend(name.bytes());
        payload.extend(&bytes);
        payload.resize(payload.len().next_multiple_of(8), 0);
        use perfring_types::tagged::Key;
        let key = if named { Key::Name(&name) } else { Key::Field(field) };
        through_writer(&mut written, key, tag, &bytes);
        add(if named { &name } else { &members[field as usize].0 }, json);
    }
    assert_eq!(written, payload);

    come.retain(|(_, values)| !values.is_empty());
    let (value, json) = read(&schema, &payload);
    let table = TypeTable::from_words(&schema.to_entry());
    let kind = table.get(schema.id).unwrap();
    let paths = come.iter().flat_map(|(name, _)| [name.clone(), format!("{name}.0")]);
    for path in paths.chain(["missing".to_owned()]) {
        if let Some(found) = kind.decode_one(&payload, &path) {
            assert_eq!(
                format!("{:?}", found.as_ref()),
                format!("{:?}", value.get(&path)),
                "{path:?}"
            );
        }
        // Of a damaged record nothing is found, as nothing is decoded.
        if let Some(cut) = payload.len().checked_sub(1)
            && let Some(found) = kind.decode_one(&payload[..cut], &path)
        {
            assert_eq!((found, kind.decode(&payload[..cut]).is_err()), (None, true), "{path:?}");
        }
    }
    let Value::Struct(fields) = value else { panic!("{value:?}") };
    let names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, come.iter().map(|(name, _)| &**name).collect::<Vec<_>>());
    let expected = come.into_iter().map(|(name, mut values)| match values.len() {
        1 => (name, values.remove(0)),
        _ => (name, Json::Array(values)),
    });
    assert_eq!(json, Json::Object(expected.collect()));
}

#[test]
fn the_text_of_a_schema_comes_back_byte_for_byte() {
    let member = |name: &str, what| Member {
        name: name.to_owned(),
        gap: 3,
        what,
        unit: "{request}".to_owned(),
        help: "what \"it\" is\n\tin two lines \u{1}".to_owned(),
    };
    let labels = vec![(7, "seven".to_owned()), (-1, "minus".to_owned())];
    let integer = Box::new(Model::Integer { bytes: 8, signed: false });
    let inner = vec![member("x", What::Stands(Model::Array(integer.clone(), 3)))];
    let members = [
        member("text", What::Stands(Model::Text(5))),
        member("always", What::Constant(perfring_types::Constant::F64(0.1))),
        member("state", What::Stands(Model::Enum { bytes: 2, signed: true, labels })),
        member("inner", What::Stands(Model::Struct(inner))),
        member("list", What::Stands(Model::Vec(Box::new(Model::String)))),
        member("maybe", What::Stands(Model::Option(integer, 7))),
    ];
    let size = Model::Struct(members.to_vec()).size(Layout::NATIVE) as u32;
    let schema = Schema {
        version: 3,
        class: perfring_types::Class::Log,
        format: "rkyv 0.8 little aligned 32",
        help: "all kinds",
        ..Schema::new("some.Thing", Encoding::Rkyv)
            .with_fields(size, fields(&members, Layout::NATIVE))
    };
    let kind = perfring_types::read::Type::parse(schema.id, &schema.to_json()).unwrap();
    assert_eq!(kind.to_json(), schema.to_json());
}
