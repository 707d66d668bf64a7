//! Archives made by rkyv itself, read with nothing but the type table.

use perfring_types::read::{Type, Value};
use perfring_types::{Encoding, Field, Kind, Label, Schema, Shape};
use rkyv::{Archive, Archived, Serialize, rancor::Error};
use serde_json::{Value as Json, json};
use std::mem::offset_of;

const FORMAT: &str = "rkyv 0.8 little aligned 32";

#[derive(Archive, Serialize)]
struct Point {
    x: f64,
    y: f32,
}

#[derive(Archive, Serialize)]
struct Everything {
    small: u8,
    name: String,
    long: String,
    empty: String,
    list: Vec<u32>,
    none: Vec<u64>,
    points: Vec<Point>,
    names: Vec<String>,
    nested: Vec<Vec<u16>>,
    some: Option<u64>,
    nothing: Option<u64>,
    word: Option<String>,
    place: Option<Point>,
    point: Point,
    three: [i16; 3],
    pair: [Point; 2],
    large: u128,
    negative: i128,
    char: char,
    flag: bool,
    state: u8,
    nan: f64,
}

const fn kind(kind: Kind, size: u32) -> Shape<'static> {
    Shape::plain(kind, size)
}

const U8: Shape<'static> = kind(Kind::U8, 1);
const U16: Shape<'static> = kind(Kind::U16, 2);
const I16: Shape<'static> = kind(Kind::I16, 2);
const U32: Shape<'static> = kind(Kind::U32, 4);
const U64: Shape<'static> = kind(Kind::U64, 8);
const STRING: Shape<'static> = kind(Kind::String, 8);
const POINT: Shape<'static> = Shape::structure(
    size_of::<ArchivedPoint>() as u32,
    &[
        Field {
            unit: "m",
            ..Field::new("x", offset_of!(ArchivedPoint, x) as u32, kind(Kind::F64, 8))
        },
        Field::new("y", offset_of!(ArchivedPoint, y) as u32, kind(Kind::F32, 4)),
    ],
);

const fn vec(of: &'static Shape<'static>) -> Shape<'static> {
    Shape { of: Some(of), ..kind(Kind::Vec, 8) }
}

/// The value of an `ArchivedOption` (`repr(u8)`) stands at the value's own alignment.
const fn option<T: Archive>(of: &'static Shape<'static>) -> Shape<'static> {
    let size = size_of::<Archived<Option<T>>>() as u32;
    Shape { of: Some(of), at: align_of::<Archived<T>>() as u32, ..kind(Kind::Option, size) }
}

const STATES: &[Label<'static>] =
    &[Label { value: 0, name: "idle" }, Label { value: 2, name: "busy" }];

macro_rules! fields {
    ($($name:ident: $shape:expr),* $(,)?) => {
        &[$(Field::new(stringify!($name), offset_of!(ArchivedEverything, $name) as u32, $shape)),*]
    };
}

const SCHEMA: Schema<'static> = Schema {
    format: FORMAT,
    ..Schema::new("test.Everything", Encoding::Rkyv).with_fields(
        size_of::<ArchivedEverything>() as u32,
        fields! {
            small: U8, name: STRING, long: STRING, empty: STRING, list: vec(&U32), none: vec(&U64),
            points: vec(&POINT), names: vec(&STRING), nested: vec(const { &vec(&U16) }),
            some: option::<u64>(&U64), nothing: option::<u64>(&U64),
            word: option::<String>(&STRING), place: option::<Point>(&POINT), point: POINT,
            three: Shape::array(&I16, 3), pair: Shape::array(&POINT, 2),
            large: kind(Kind::U128, 16), negative: kind(Kind::I128, 16), char: kind(Kind::Char, 4),
            flag: kind(Kind::Bool, 1),
            state: Shape { of: Some(&U8), labels: STATES, ..kind(Kind::Enum, 1) },
            nan: kind(Kind::F64, 8),
        },
    )
};

fn everything(long: usize) -> Everything {
    let point = |x| Point { x, y: 0.1 };
    Everything {
        small: 200,
        name: "acht…".to_owned(), // 7 bytes: inline
        long: "ä".repeat(long),
        empty: String::new(),
        list: vec![1, u32::MAX],
        none: vec![],
        points: vec![point(1.5), point(-2.0)],
        names: vec!["eightby8".to_owned(), "nine byte".to_owned()],
        nested: vec![vec![1, 2], vec![], vec![65535]],
        some: Some(u64::MAX),
        nothing: None,
        word: Some("a word that does not stand inline".to_owned()),
        place: Some(point(1e-300)),
        point: point(0.0),
        three: [-1, 0, i16::MAX],
        pair: [point(3.0), point(4.0)],
        large: u128::MAX,
        negative: i128::MIN,
        char: '𝄞',
        flag: true,
        state: 2,
        nan: f64::NAN,
    }
}

fn read(schema: &Schema<'_>) -> Type {
    Type::parse(schema.id, &schema.to_json()).unwrap()
}

#[test]
fn rkyvs_own_archives_are_read_by_name() {
    let kind = read(&SCHEMA);
    // Lengths around those at which the string's two tag bits are between other bits.
    for long in [4, 5, 31, 32, 33, 63, 64, 127, 128, 129, 5000] {
        let record = everything(long);
        let bytes = rkyv::to_bytes::<Error>(&record).unwrap();
        let value = kind.decode(&bytes).unwrap();
        let point = |x: f64| json!({ "x": x, "y": 0.1 });
        let expected = json!({
            "small": 200,
            "name": "acht…",
            "long": record.long,
            "empty": "",
            "list": [1, u32::MAX],
            "none": [],
            "points": [point(1.5), point(-2.0)],
            "names": ["eightby8", "nine byte"],
            "nested": [[1, 2], [], [65535]],
            "some": u64::MAX,
            "nothing": null,
            "word": "a word that does not stand inline",
            "place": point(1e-300),
            "point": point(0.0),
            "three": [-1, 0, 32767],
            "pair": [point(3.0), point(4.0)],
            "large": u128::MAX.to_string(),
            "negative": i128::MIN.to_string(),
            "char": "𝄞",
            "flag": true,
            "state": "busy",
            "nan": "NaN",
        });
        let json = serde_json::to_string(&value).unwrap();
        assert_eq!(serde_json::from_str::<Json>(&json).unwrap(), expected, "{long}");
    }
}

#[test]
fn units_of_structs_within_lists_and_options_are_shown() {
    let kind = read(&SCHEMA);
    let value = kind.decode(&rkyv::to_bytes::<Error>(&everything(9)).unwrap()).unwrap();
    let text = kind.render_text(&value);
    for part in [
        " points=[{x=1.5 m y=0.1} {x=-2.0 m y=0.1}] ",
        " place={x=1e-300 m y=0.1} ",
        " pair=[{x=3.0 m y=0.1} {x=4.0 m y=0.1}] ",
        " nothing=null word=\"a word that does not stand inline\" ",
        " nested=[[1 2] [] [65535]] ",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn an_archive_of_an_unknown_format_is_refused_with_a_message() {
    for format in [
        "",
        "rkyv 0.7 little aligned 32",
        "rkyv 0.8 little aligned 128",
        "rkyv 0.8",
        "rkyv  0.8 little aligned 32 ",
    ] {
        let kind = read(&Schema { format, ..SCHEMA });
        let error = kind.decode(&[0; 1000]).unwrap_err().to_string();
        assert!(error.contains(&format!("{format:?}")), "{error}");
        assert!(error.contains("update perfring"), "{error}");
        assert_eq!(kind.fields.len(), SCHEMA.fields.len()); // its fields can still be listed
    }
}

/// One field in an archive made by hand, its root at the end.
fn one(shape: Shape<'static>, archive: &[u8]) -> Result<Value, String> {
    let fields: &[_] = &[Field::new("f", 0, shape)];
    let schema = Schema { format: FORMAT, ..Schema::new("t.T", Encoding::Rkyv) };
    let schema = schema.with_fields(shape.size, fields);
    let value = read(&schema).decode(archive).map_err(|error| error.to_string())?;
    Ok(value.get("f").unwrap().clone())
}

fn pair(first: u32, second: u32) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}

#[test]
fn pointers_beyond_either_end_of_the_record_are_refused() {
    let good = [b"abcdefgh".to_vec(), pair(-8i32 as u32, 8)].concat();
    let letters = Value::List(b"abcdefgh".iter().map(|byte| Value::U64((*byte).into())).collect());
    assert_eq!(one(vec(&U8), &good), Ok(letters));
    for (offset, len) in
        [(-9i32, 8), (-8, 17), (1, 8), (i32::MIN, 1), (i32::MAX, 1), (-8, u32::MAX)]
    {
        let bad = [b"abcdefgh".to_vec(), pair(offset as u32, len)].concat();
        let error = one(vec(&U8), &bad).unwrap_err();
        assert!(error.contains("it points to"), "{error}");
    }
    // A string of 9 bytes: 0b10 in the highest bits of the lowest byte.
    let text = |offset: i32| [b"ninebytes".to_vec(), pair(0x89, offset as u32)].concat();
    assert_eq!(one(STRING, &text(-9)), Ok(Value::Str("ninebytes".to_owned())));
    assert!(one(STRING, &text(-10)).is_err());
    assert!(one(STRING, &text(0)).unwrap_err().contains("and the record has 17"));
    // The root does not fit.
    let error = one(STRING, &[0; 7]).unwrap_err();
    assert_eq!(error, "the record is not a valid \"t.T\": it has 7 bytes, and its root needs 8");
}

#[test]
fn an_empty_vector_may_point_anywhere() {
    assert_eq!(one(vec(&U8), &pair(1, 0)), Ok(Value::List(vec![])));
}

#[test]
fn invalid_values_are_refused_with_their_path() {
    let option = Shape { of: Some(&U8), at: 1, ..kind(Kind::Option, 2) };
    assert!(
        one(option, &[2, 0]).unwrap_err().ends_with("field \"f\": 2 is not the tag of an option")
    );
    assert!(one(STRING, &[0xfe; 8]).unwrap_err().contains("not UTF-8"));
    let chars = vec(const { &kind(Kind::Char, 4) });
    let archive = [pair('a' as u32, 0xd800), pair(-8i32 as u32, 2)].concat();
    assert!(
        one(chars, &archive).unwrap_err().ends_with("field \"f.1\": 0xd800 is not a character")
    );
}

#[test]
fn vectors_that_share_their_elements_recursively_are_an_error_and_use_bounded_memory() {
    // Each of 2,000 vectors at the front points to all of them, four levels deep: 2,000 ^ 4 values.
    const DEEP: Shape<'static> = vec(const { &vec(const { &vec(const { &vec(&U64) }) }) });
    let mut archive = Vec::new();
    for at in 0..2000u32 {
        archive.extend(pair((-8 * at as i32) as u32, 2000));
    }
    archive.extend(pair(-16000i32 as u32, 2000));
    let error = one(DEEP, &archive).unwrap_err();
    assert!(error.contains("more values"), "{error}");
    // Strings that share one text.
    let mut archive = vec![b'x'; 30_000];
    for at in 0..4000u32 {
        let len = 30_000u32;
        archive.extend(pair(len & 0x3f | 0x80 | len >> 6 << 8, (-30_000 - 8 * at as i32) as u32));
    }
    archive.extend(pair(-32_000i32 as u32, 4000));
    let error = one(vec(&STRING), &archive).unwrap_err();
    assert!(error.contains("longer ones"), "{error}");
}
