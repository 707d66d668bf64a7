//! Malicious tables and payloads: an error each, never a panic, and a bounded amount of work.

use perfring_abi::RecordType;
use perfring_testkit::rng::Rng;
use perfring_testrig::any::{self, Layout, fields};
use perfring_types::read::{Condition, Type, TypeTable, Value};
use perfring_types::{Encoding, Entry, Schema};
use proptest::prelude::*;

fn id() -> RecordType {
    RecordType::new(5000).unwrap()
}

fn refused(text: &str) -> String {
    match Type::parse(id(), text) {
        Ok(kind) => panic!("accepted: {}", kind.to_json()),
        Err(bad) => bad.to_string(),
    }
}

fn pod(size: u32, fields: &str) -> String {
    format!(r#"{{"name":"t.T","encoding":"pod","size":{size},"fields":[{fields}]}}"#)
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
fn use_all(kind: &Type, payload: &[u8]) {
    let _ = kind.to_json();
    match kind.decode(payload) {
        Ok(value) => {
            assert!(count(&value) <= 1 + (1 << 20) + payload.len());
            let text = kind.render_text(&value);
            assert!(!text.contains(['\u{1b}', '\n']), "{text}");
            assert!(serde_json::to_string(&value).is_ok());
            if let Value::Struct(fields) = &value {
                for (name, _) in fields {
                    assert!(value.get(name).is_some());
                    let condition = Condition::parse(&format!("x{name}<=7"));
                    let _ = condition.map(|condition| kind.matches(&value, &condition));
                }
            }
        }
        Err(bad) => assert!(!bad.to_string().contains('\u{1b}')),
    }
}

#[test]
fn invalid_type_texts_are_refused_with_a_message() {
    for (text, says) in [
        ("", "it is not JSON"),
        ("[]", "expected a JSON object"),
        ("{} {}", "it is not JSON"),
        (r#"{"name":7}"#, "name is not text"),
        (r#"{"size":-1}"#, "size is not an unsigned integer of 32 bits"),
        (r#"{"size":4294967296}"#, "size is not an unsigned integer"),
        (r#"{"fields":{}}"#, "fields is not a list"),
        (r#"{"fields":[7]}"#, "expected a JSON object"),
        (r#"{"fields":[{"name":"a"}]}"#, r#"field "a": it has no kind"#),
        (&pod(4, r#"{"name":"a","at":1,"kind":"u32"}"#), "4 bytes at 1 reach beyond the 4"),
        (&pod(4, r#"{"name":"a","at":4294967295,"kind":"u32"}"#), "4 bytes at 4294967295"),
        (&pod(2, r#"{"name":"a","kind":"u8"},{"name":"a","at":1,"kind":"u8"}"#), "two fields are"),
        (&pod(8, r#"{"name":"a","kind":"string"}"#), "string is possible only in an rkyv archive"),
        (&pod(8, r#"{"name":"a","kind":"any"}"#), "any is possible only in a tagged record"),
        (&pod(8, r#"{"name":"a","kind":"array","count":2}"#), "its element type is missing"),
        (
            &pod(8, r#"{"name":"a","kind":"array","count":4294967295,"of":{"kind":"u16"}}"#),
            "4294967295 times 2 bytes is too large",
        ),
        (
            &pod(8, r#"{"name":"a","kind":"array","count":4294967295,"of":{"kind":"bytes"}}"#),
            "4294967296 values, and 1048576 is the limit",
        ),
        (
            &pod(
                8,
                r#"{"name":"a","kind":"struct","size":8,"fields":[{"name":"b","at":1,"kind":"u64"}]}"#,
            ),
            r#"field "a": field "b": 8 bytes at 1"#,
        ),
        (&pod(8, r#"{"name":"a","kind":"enum","of":{"kind":"f32"}}"#), "an enum of f32 instead"),
        (
            &pod(8, r#"{"name":"a","kind":"enum","of":{"kind":"u8"},"labels":[{"value":0.5}]}"#),
            "a label's value is not an integer",
        ),
        (
            r#"{"encoding":"rkyv","format":"rkyv 0.8 little aligned 32","size":8,"fields":
               [{"name":"a","kind":"option","size":8,"value_at":5,"of":{"kind":"u32"}}]}"#,
            "4 bytes at 5 reach beyond the 8",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(says), "{error}");
        assert!(
            error.starts_with("the type table's text of type 0x1388 cannot be used"),
            "{error}"
        );
    }
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| {
        let (open, close) = (r#"{"kind":"array","count":1,"of":"#.repeat(depth), "}".repeat(depth));
        pod(
            1,
            &format!(
                r#"{{"name":"a",{}"#,
                format!("{open}{{\"kind\":\"u8\"}}{close}").strip_prefix('{').unwrap()
            ),
        )
    };
    let kind = Type::parse(id(), &nested(31)).unwrap();
    assert_eq!(
        kind.decode(&[7]).unwrap().to_string(),
        format!("a={}7{}", "[".repeat(31), "]".repeat(31))
    );
    assert!(refused(&nested(32)).contains("nested deeper than 32 levels"));
    assert!(refused(&nested(1000)).contains("recursion limit"));
    assert!(refused(&"[".repeat(1 << 20)).contains("recursion limit"));
}

#[test]
fn a_small_text_does_not_make_many_values() {
    // Each level holds the one below it 1,000 times, and none has a byte.
    let mut of = r#"{"kind":"bytes"}"#.to_owned();
    for _ in 0..3 {
        of = format!(r#"{{"kind":"array","count":1000,"of":{of}}}"#);
    }
    let field = format!(r#"{{"name":"a",{}"#, of.strip_prefix('{').unwrap());
    assert!(refused(&pod(0, &field)).contains("is the limit"));
    // Each of them is within the limit, and all together are not.
    let fields = |count: usize, shape: &str| {
        let fields = (0..count).map(|at| format!(r#"{{"name":"f{at}",{shape}}}"#));
        fields.collect::<Vec<_>>().join(",")
    };
    let shape = r#""kind":"array","count":1000000,"of":{"kind":"bytes"}"#;
    let kind = Type::parse(id(), &pod(0, &fields(5, shape))).unwrap();
    assert!(kind.decode(&[]).unwrap_err().to_string().contains("more values"));
    // The same bytes over and over.
    let kind =
        Type::parse(id(), &pod(60_000, &fields(1000, r#""kind":"bytes","size":60000"#))).unwrap();
    assert!(kind.decode(&[1; 60_000]).unwrap_err().to_string().contains("longer ones"));
    // A long name, and a long constant, for each of many structs.
    let long = "n".repeat(100_000);
    for inner in [
        format!(r#"{{"name":"{long}","kind":"bytes"}}"#),
        format!(r#"{{"name":"c","constant":"{long}"}}"#),
    ] {
        let field = format!(
            r#"{{"name":"a","kind":"array","count":100000,"of":{{"kind":"struct","fields":[{inner}]}}}}"#
        );
        let kind = Type::parse(id(), &pod(0, &field)).unwrap();
        assert!(kind.decode(&[]).unwrap_err().to_string().contains("longer ones"));
    }
}

#[test]
fn constants_of_a_tagged_type_have_a_limit_as_well() {
    let tagged = |fields: &[String]| {
        let fields = fields.join(",");
        Type::parse(id(), &format!(r#"{{"name":"t.T","encoding":"tagged","fields":[{fields}]}}"#))
            .unwrap()
    };
    let constant = |name: &str, value: &str| format!(r#"{{"name":"{name}","constant":{value}}}"#);
    let many = format!("[{}0]", "0,".repeat(600_000));
    assert_eq!(count(&tagged(&[constant("a", &many)]).decode(&[]).unwrap()), 600_003);
    let long = format!("{:?}", "x".repeat(9 << 20));
    for value in [many, long] {
        let kind = tagged(&[constant("a", &value), constant("b", &value)]);
        let error = kind.decode(&[]).unwrap_err().to_string();
        assert!(error.contains("longer ones"), "{error}");
    }
    // A long name for each of many small values.
    let name = "n".repeat(1 << 20);
    let label = format!(r#""kind":"enum","of":{{"kind":"any"}},"labels":[{{"name":"{name}"}}]"#);
    let kind = tagged(&[format!(r#"{{"name":"a",{label}}}"#)]);
    let mut payload = Vec::new();
    let mut writer = perfring_types::tagged::TaggedWriter::new(&mut payload);
    (0..17).for_each(|_| writer.u64(0u16, 0));
    assert!(kind.decode(&payload).unwrap_err().to_string().contains("longer ones"));
}

#[test]
fn a_bad_type_keeps_the_others_readable_and_damage_keeps_what_precedes_it() {
    let entry = |id: u32, text: &str| {
        Entry { id: RecordType::new(id).unwrap(), layout: 0, text }.to_words()
    };
    let words = [
        entry(5000, r#"{"name":"one"}"#),
        entry(5001, "no JSON"),
        entry(5002, r#"{"name":"two"}"#),
        entry(5002, r#"{"name":"later"}"#),
        entry(5003, r#"{"name":"two"}"#),
        vec![u64::MAX; 3],
        entry(5004, r#"{"name":"never"}"#),
    ]
    .concat();
    let table = TypeTable::from_words(&words);
    let names: Vec<_> = table.iter().map(|kind| (kind.id.get(), &*kind.name)).collect();
    assert_eq!(names, [(5000, "one"), (5002, "two"), (5003, "two")]);
    assert_eq!(table.get(id()).unwrap().name, "one");
    assert_eq!(table.get(RecordType::new(5001).unwrap()), None);
    assert_eq!(table.by_name("two").count(), 2);
    let damage: Vec<_> = table.damage().iter().map(ToString::to_string).collect();
    assert_eq!(damage.len(), 2);
    assert!(damage[0].contains("type 0x1389"), "{}", damage[0]);
    assert!(damage[1].starts_with("the type table is damaged"), "{}", damage[1]);
}

#[test]
fn parts_of_a_later_version_are_skipped_or_shown_as_bytes() {
    let text = pod(
        16,
        r#"{"name":"a","kind":"u8"},{"name":"b","at":1,"kind":"f16","size":2,"new":[{}]},
           {"name":"c","at":3,"kind":"moon"},
           {"name":"d","at":4,"kind":"array","count":2,"of":{"kind":"f16","size":2}},
           {"name":"e","at":8,"kind":"array","count":2,"of":{"kind":"moon"}},
           {"name":"g","at":8,"kind":"enum","of":{"kind":"u24","size":3}},
           {"name":"h","at":15,"kind":"i8"}"#,
    );
    let text = text.replace(r#""name":"t.T""#, r#""name":"t.T","class":"profile","why":{"a":[1]}"#);
    let kind = Type::parse(id(), &text).unwrap();
    let payload: Vec<u8> = (1..17).collect();
    let value = kind.decode(&payload).unwrap();
    assert_eq!(kind.render_text(&value), "a=1 b=0203 d=[0506 0708] g=090a0b h=16");
    assert_eq!(kind.class.name(), "profile");
    assert_eq!(kind.class.known(), None);
    let kind = Type::parse(id(), r#"{"name":"t.T","encoding":"cbor"}"#).unwrap();
    assert_eq!(kind.encoding.name(), "cbor");
    assert_eq!(kind.decode(&[1, 2]).unwrap(), Value::Bytes(vec![1, 2]));
}

#[test]
fn an_empty_text_is_one_that_is_left_out() {
    let text = r#"{"name":"t.T","encoding":"","class":""}"#;
    let kind = Type::parse(id(), text).unwrap();
    assert_eq!((kind.encoding.name(), kind.class.name()), ("bytes", "plain"));
    let written = kind.to_json();
    assert_eq!(Type::parse(id(), &written).unwrap().to_json(), written);
}

#[test]
fn a_tagged_value_of_no_field_is_refused() {
    let kind = Type::parse(id(), r#"{"name":"t.T","encoding":"tagged"}"#).unwrap();
    let mut payload = Vec::new();
    perfring_types::tagged::TaggedWriter::new(&mut payload).u64(3, 1);
    let error = kind.decode(&payload).unwrap_err().to_string();
    assert_eq!(
        error,
        "the record is not a valid \"t.T\": a value belongs to field 3, and the type has 0"
    );
}

proptest! {
    #[test]
    fn a_type_whose_text_is_changed_is_refused_or_can_be_used(
        members in any::schemas::members(any::schemas::model(true), 0..5),
        seed: u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..14), 1..4),
        encoding in prop::sample::select(vec![Encoding::Pod, Encoding::Rkyv, Encoding::Tagged]),
    ) {
        const PARTS: [&str; 14] = [
            "0", "9", "-", "\"", ",", "{", "]", "99999999", "\"kind\":\"vec\",", "\"size\":0,",
            "\"count\":1000000,", "\"kind\":\"option\",", "\"value_at\":3,", "\u{1b}",
        ];
        let mut payload = Vec::new();
        let (root, _) = any::write(&members, &mut Rng::new(seed), Layout::NATIVE, &mut payload);
        let size = root.bytes.len() as u32;
        root.place(Layout::NATIVE, &mut payload);
        let schema = Schema { format: "rkyv 0.8 little aligned 32", ..Schema::new("t.T", encoding) };
        let mut text = schema.with_fields(size, fields(&members, Layout::NATIVE)).to_json();
        for (at, part) in changes {
            let at = (0..=at.index(text.len())).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let end = at + text[at..].chars().next().map_or(0, char::len_utf8);
            text.replace_range(at..end, PARTS[part]);
        }
        if let Ok(kind) = Type::parse(id(), &text) {
            use_all(&kind, &payload);
            use_all(&kind, &[]);
        }
    }

    #[test]
    fn a_payload_that_is_changed_is_refused_or_read(
        members in any::schemas::members(any::schemas::model(true), 1..6),
        seed: u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        end: prop::sample::Index,
        big: bool,
        width in prop::sample::select(vec![2usize, 4, 8]),
    ) {
        let layout = Layout { big, width };
        let mut payload = Vec::new();
        let (root, _) = any::write(&members, &mut Rng::new(seed), layout, &mut payload);
        let size = root.bytes.len() as u32;
        root.place(layout, &mut payload);
        let order = if big { "big" } else { "little" };
        let format = format!("rkyv 0.8 {order} aligned {}", 8 * width);
        let schema = Schema { format: &format, ..Schema::new("t.T", Encoding::Rkyv) };
        let schema = schema.with_fields(size, fields(&members, layout));
        let kind = Type::parse(id(), &schema.to_json()).unwrap();
        for (at, byte) in changes {
            if !payload.is_empty() {
                let at = at.index(payload.len());
                payload[at] = byte;
                use_all(&kind, &payload);
                use_all(&kind, &payload[end.index(payload.len())..]);
            }
        }
    }

    #[test]
    fn any_words_are_a_table(
        words in prop::collection::vec(prop_oneof![0u64..100, any::<u64>()], 0..40)
    ) {
        let table = TypeTable::from_words(&words);
        prop_assert!(table.len() + table.damage().len() <= words.len());
    }

    #[test]
    fn any_bytes_are_a_payload(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        for encoding in Encoding::ALL {
            let schema = Schema::new("t.T", encoding);
            use_all(&Type::parse(id(), &schema.to_json()).unwrap(), &bytes);
        }
    }
}
