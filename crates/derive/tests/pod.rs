//! The schemas of plain records.

use bytemuck::{Pod, Zeroable};
use perfring_types::read::{Type, Value};
use perfring_types::{
    Class, Encoding, Enum, Field, Kind, Label, PodRecord, Record, Schema, Shape, Shaped, Text,
};

/// What a market said,
/// at some time.
///
/// More of it.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, Record)]
#[record(name = "market.Tick", version = 2, class = "gauge")]
struct Tick {
    /// When.
    #[record(unit = "ns")]
    time: u64,
    #[record(text)]
    symbol: [u8; 8],
    /// Not this.
    #[record(hex, help = "of the order")]
    digest: [u8; 4],
    side: Enum<Side>,
    _pad: [u8; 3],
    levels: [Level; 2],
    #[record(skip)]
    secret: u64,
    #[record(text)]
    names: [[u8; 4]; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable, Record)]
struct Level {
    price: f64,
    #[record(name = "volume", unit = "{share}")]
    size: u32,
    r#type: i32,
}

#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
enum Side {
    #[default]
    Buy = 1,
    #[record(name = "sell it")]
    Sell,
}

#[test]
fn a_schema_says_what_the_struct_is() {
    const PRICE: Field<'static> = Field::new("price", 0, Shape::plain(Kind::F64, 8));
    const VOLUME: Field<'static> =
        Field { unit: "{share}", ..Field::new("volume", 8, Shape::plain(Kind::U32, 4)) };
    const TYPE: Field<'static> = Field::new("type", 12, Shape::plain(Kind::I32, 4));
    const LEVEL: Shape<'static> = Shape::structure(16, &[PRICE, VOLUME, TYPE]);
    const SIDE: Shape<'static> = Shape {
        of: Some(&Shape::plain(Kind::U8, 1)),
        labels: &[Label { value: 1, name: "Buy" }, Label { value: 2, name: "sell it" }],
        ..Shape::plain(Kind::Enum, 1)
    };
    const NAME: Shape<'static> = Shape::plain(Kind::Text, 4);
    let fields = [
        Field { unit: "ns", help: "When.", ..Field::new("time", 0, Shape::plain(Kind::U64, 8)) },
        Field::new("symbol", 8, Shape::plain(Kind::Text, 8)),
        Field { help: "of the order", ..Field::new("digest", 16, Shape::plain(Kind::Bytes, 4)) },
        Field::new("side", 20, SIDE),
        Field::new("levels", 24, Shape::array(&LEVEL, 2)),
        Field::new("names", 64, Shape::array(&NAME, 2)),
    ];
    let expected = Schema {
        version: 2,
        class: Class::Gauge,
        help: "What a market said, at some time.",
        ..Schema::new("market.Tick", Encoding::Pod)
    }
    .with_fields(72, &fields)
    .with_hashed_id();
    assert_eq!(Tick::SCHEMA, expected);
    assert_eq!(Level::SHAPE, LEVEL);
}

#[test]
fn without_a_name_a_type_is_called_after_its_package() {
    assert_eq!(Level::SCHEMA.name, "perfring-derive.Level");
    assert_eq!((Level::SCHEMA.version, Level::SCHEMA.class), (1, Class::Plain));
}

/// Ids are stored in files: the hash must never change.
#[test]
fn an_id_never_changes() {
    assert_eq!(here::Sample::SCHEMA.id.get(), ID_OF_SAMPLE);
}

const ID_OF_SAMPLE: u32 = 3_106_451_765;

macro_rules! sample {
    ($module:ident, #[$record:meta], $($(#[$attribute:meta])* $field:ident: $type:ty),*) => {
        mod $module {
            use super::*;

            #[repr(C)]
            #[derive(Clone, Copy, Pod, Zeroable, Record)]
            #[$record]
            pub(super) struct Sample { $($(#[$attribute])* pub(super) $field: $type),* }
        }
    };
}

sample!(here, #[record(name = "s")], a: u32, b: u32);
sample!(there, #[record(name = "s")], a: u32, b: u32);
sample!(reported, #[record(name = "s", help = "x")], #[record(unit = "ns")] a: u32, /** B. */ b: u32);
sample!(named, #[record(name = "t")], a: u32, b: u32);
sample!(newer, #[record(name = "s", version = 2)], a: u32, b: u32);
sample!(swapped, #[record(name = "s")], b: u32, a: u32);
sample!(signed, #[record(name = "s")], a: i32, b: u32);
sample!(longer, #[record(name = "s")], a: u32, b: u32, c: u32);
sample!(text, #[record(name = "s")], a: u32, #[record(text)] b: [u8; 4]);
sample!(hex, #[record(name = "s")], a: u32, #[record(hex)] b: [u8; 4]);
sample!(given, #[record(name = "s", id = 4000 + super::ONE)], a: u32);
const ONE: u32 = 1;

#[test]
fn an_id_follows_from_name_version_and_layout_and_nothing_else() {
    let id = here::Sample::SCHEMA.id;
    assert_eq!(there::Sample::SCHEMA.id, id);
    assert_eq!(reported::Sample::SCHEMA.id, id);
    assert_ne!(reported::Sample::SCHEMA, here::Sample::SCHEMA);
    let others = [
        named::Sample::SCHEMA.id,
        newer::Sample::SCHEMA.id,
        swapped::Sample::SCHEMA.id,
        signed::Sample::SCHEMA.id,
        longer::Sample::SCHEMA.id,
        text::Sample::SCHEMA.id,
        hex::Sample::SCHEMA.id,
    ];
    for (at, other) in others.iter().enumerate() {
        assert_ne!(*other, id, "{at}");
        assert!(!others[..at].contains(other), "{at}");
    }
}

#[test]
fn an_id_can_be_given() {
    assert_eq!(given::Sample::SCHEMA.id.get(), 4001);
}

#[test]
fn tuple_and_unit_structs_are_records_and_named_padding_is_in_the_schema() {
    #[repr(transparent)]
    #[derive(Clone, Copy, Pod, Zeroable, Record)]
    struct Celsius(#[record(unit = "Cel")] f64);

    #[repr(C)]
    #[derive(Clone, Copy, Pod, Zeroable, Record)]
    struct Odd {
        #[record(name = "_told")]
        _a: u8,
        _b: u8,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Pod, Zeroable, Record)]
    struct Started;

    let [field] = Celsius::SCHEMA.fields else { panic!("{:?}", Celsius::SCHEMA) };
    assert_eq!((field.name, field.unit, field.at), ("0", "Cel", 0));
    let [reported] = Odd::SCHEMA.fields else { panic!("{:?}", Odd::SCHEMA) };
    assert_eq!(reported.name, "_told");
    assert_eq!((Started::SCHEMA.size, Started::SCHEMA.fields), (0, &[][..]));
}

/// A record's attributes are enough to read its bytes.
#[test]
fn offsets_are_those_of_the_bytes() {
    fn plain<T: PodRecord>(value: &T) -> &[u8] {
        bytemuck::bytes_of(value)
    }
    let tick = Tick {
        time: 7,
        symbol: *b"ACME\0\0\0\0",
        digest: [1, 2, 3, 4],
        side: Side::Sell.into(),
        levels: [Level { price: 1.5, size: 3, r#type: -1 }; 2],
        names: [*b"one\0", *b"two\0"],
        ..Tick::zeroed()
    };
    let bytes = plain(&tick);
    let at = |name: &str| {
        let field = Tick::SCHEMA.fields.iter().find(|field| field.name == name).unwrap();
        &bytes[field.at as usize..][..field.shape.size as usize]
    };
    assert_eq!(at("time"), 7u64.to_ne_bytes());
    assert_eq!(at("symbol"), b"ACME\0\0\0\0");
    assert_eq!(at("digest"), [1, 2, 3, 4]);
    assert_eq!(at("side"), [2]);
    assert_eq!(at("levels"), bytemuck::bytes_of(&tick.levels));
    assert_eq!(at("names"), b"one\0two\0");
    assert_eq!(Tick::SCHEMA.size as usize, bytes.len());

    // So the table's line of JSON is enough as well.
    let kind = Type::parse(Tick::SCHEMA.id, &Tick::SCHEMA.to_json()).unwrap();
    let value = kind.decode(bytes).unwrap();
    assert_eq!(value.get("symbol"), Some(&Value::Str("ACME".to_owned())));
    assert_eq!(value.get("digest"), Some(&Value::Bytes(vec![1, 2, 3, 4])));
    assert_eq!(value.get("side"), Some(&Value::Label { value: 2, name: Some("sell it".into()) }));
    assert_eq!(value.get("levels.1.volume"), Some(&Value::U64(3)));
    assert_eq!(value.get("levels.1.type"), Some(&Value::I64(-1)));
    assert_eq!(value.get("names.1"), Some(&Value::Str("two".to_owned())));
}

/// A field that is a `Text` can replace bytes with `#[record(text)]`, and the other way round.
#[test]
fn a_text_is_described_as_bytes_that_are_text_are() {
    #[repr(C)]
    #[derive(Clone, Copy, Pod, Zeroable, Record)]
    #[record(name = "test.Named")]
    struct Bytes {
        #[record(text)]
        name: [u8; 6],
        #[record(text)]
        parts: [[u8; 2]; 3],
    }
    #[repr(C)]
    #[derive(Clone, Copy, Pod, Zeroable, Record)]
    #[record(name = "test.Named")]
    struct Texts {
        name: Text<6>,
        parts: [Text<2>; 3],
    }
    assert_eq!(Texts::SCHEMA, Bytes::SCHEMA);
    let parts = ["a", "", "\u{e9}"].map(|part| part.try_into().unwrap());
    let texts = Texts { name: "n\0m".try_into().unwrap(), parts };
    assert_eq!(bytemuck::bytes_of(&texts), b"n\0m\0\0\0a\0\0\0\xc3\xa9");
    assert_eq!(texts.name.as_str(), Ok("n\0m"));
}

#[test]
fn a_text_is_cut_between_characters_and_checked_when_read() {
    let text = "a\u{e9}\u{1f600}b";
    let cut = [
        Text::<0>::cut(text).to_string(),
        Text::<1>::cut(text).to_string(),
        Text::<2>::cut(text).to_string(),
        Text::<3>::cut(text).to_string(),
        Text::<6>::cut(text).to_string(),
        Text::<7>::cut(text).to_string(),
        Text::<9>::cut(text).to_string(),
    ];
    assert_eq!(cut, ["", "a", "a", "a\u{e9}", "a\u{e9}", "a\u{e9}\u{1f600}", text]);
    let error = Text::<7>::try_from(text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the text has 8 bytes, and its field holds 7: use `Text::cut` to keep the beginning"
    );
    assert_eq!(Text::<8>::try_from(text).unwrap().as_str(), Ok(text));
    let foreign: &Text<4> = bytemuck::from_bytes(b"\xffab\0");
    assert!(foreign.as_str().is_err());
    assert_eq!(
        (foreign.as_bytes(), format!("{foreign} {foreign:?}")),
        (&b"\xffab"[..], "\u{fffd}ab \"\u{fffd}ab\"".to_owned())
    );
    assert_eq!(Text::<4>::default().as_str(), Ok(""));
}
