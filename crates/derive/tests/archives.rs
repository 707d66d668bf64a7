//! rkyv archives: their schemas match the archived bytes.

use perfring_types::read::{Type, Value};
use perfring_types::{
    ArchiveError, Borrowed, Encoding, Kind, RKYV_FORMAT, Record, Shape, access, archive_into,
};
use rkyv::rancor::{Fallible, Source};
use rkyv::util::Align;
use rkyv::{Archive, Place, Serialize};
use std::mem::MaybeUninit;

/// A line of a log.
#[derive(Archive, Serialize, Record)]
#[record(rkyv, name = "demo.Line", version = 3, class = "log")]
struct Line {
    /// What happened.
    message: String,
    #[record(unit = "ms")]
    took: f64,
    level: Level,
    code: Option<u32>,
    tags: Vec<Tag>,
    #[record(text)]
    host: [u8; 4],
    #[record(hex)]
    trace: [u8; 16],
    #[record(opaque)]
    pair: (u8, u32),
    flag: bool,
    letter: char,
    _left_out: u8,
}

#[derive(Archive, Serialize, Record)]
#[record(rkyv)]
struct Tag {
    key: String,
    value: i64,
}

#[derive(Clone, Copy, Archive, Serialize, Record)]
#[record(rkyv)]
enum Level {
    Info = 9,
    #[record(name = "WARN")]
    Warn = 13,
}

fn line() -> Line {
    Line {
        message: "something of more than eight bytes".to_owned(),
        took: 1.5,
        level: Level::Warn,
        code: Some(0x0102_0304),
        tags: vec![
            Tag { key: "short".to_owned(), value: -1 },
            Tag { key: "a longer key".to_owned(), value: 2 },
        ],
        host: *b"here",
        trace: [0xab; 16],
        pair: (1, 2),
        flag: true,
        letter: 'ß',
        _left_out: 0,
    }
}

type Buffer = Align<[u8; 512]>;

fn archived<T>(value: &T) -> (Buffer, usize)
where
    T: perfring_types::RkyvRecord,
{
    let mut buffer = Align([0xee; 512]);
    let len = archive_into(value, &mut *buffer, &mut [MaybeUninit::uninit(); 256]).unwrap();
    (buffer, len)
}

#[test]
fn a_schema_says_what_the_archive_is() {
    let schema = Line::SCHEMA;
    assert_eq!((schema.name, schema.version), ("demo.Line", 3));
    assert_eq!((schema.encoding, schema.format), (Encoding::Rkyv, RKYV_FORMAT));
    assert_eq!(schema.help, "A line of a log.");
    assert_eq!(schema.size as usize, size_of::<ArchivedLine>());
    let reported: Vec<_> = schema
        .fields
        .iter()
        .map(|field| (field.name, field.shape.kind, field.shape.size))
        .collect();
    assert_eq!(
        reported,
        [
            ("message", Kind::String, 8),
            ("took", Kind::F64, 8),
            ("level", Kind::Enum, 1),
            ("code", Kind::Option, 8),
            ("tags", Kind::Vec, 8),
            ("host", Kind::Text, 4),
            ("trace", Kind::Bytes, 16),
            ("pair", Kind::Bytes, 8),
            ("flag", Kind::Bool, 1),
            ("letter", Kind::Char, 4),
        ]
    );
    let tag = schema.fields[4].shape.of.unwrap();
    assert_eq!((tag.kind, tag.size as usize), (Kind::Struct, size_of::<ArchivedTag>()));
    assert_eq!(tag.fields[1].name, "value");
    let labels: Vec<_> = schema.fields[2].shape.labels.iter().map(|l| (l.value, l.name)).collect();
    assert_eq!(labels, [(9, "Info"), (13, "WARN")]);
    assert_eq!((schema.fields[0].help, schema.fields[1].unit), ("What happened.", "ms"));
}

/// Like `perfring dump`: uses the table's line of JSON, the payload, and nothing else.
#[test]
fn the_table_alone_is_enough_to_read_every_field() {
    let (buffer, len) = archived(&line());
    let kind = Type::parse(Line::SCHEMA.id, &Line::SCHEMA.to_json()).unwrap();
    let value = kind.decode(&buffer[..len]).unwrap();
    let text = |path: &str| value.get(path).map(ToString::to_string).unwrap_or_default();
    assert_eq!(value.get("message"), Some(&Value::Str(line().message)));
    assert_eq!(value.get("took"), Some(&Value::F64(1.5)));
    assert_eq!(value.get("level"), Some(&Value::Label { value: 13, name: Some("WARN".into()) }));
    assert_eq!(value.get("code"), Some(&Value::U64(0x0102_0304)));
    assert_eq!(value.get("tags.1.key"), Some(&Value::Str("a longer key".to_owned())));
    assert_eq!((text("tags.0.key"), text("tags.0.value")), ("short".to_owned(), "-1".to_owned()));
    assert_eq!(value.get("host"), Some(&Value::Str("here".to_owned())));
    assert_eq!(value.get("trace"), Some(&Value::Bytes(vec![0xab; 16])));
    assert_eq!(value.get("flag"), Some(&Value::Bool(true)));
    assert_eq!(value.get("letter"), Some(&Value::Char('ß')));
    assert!(matches!(value.get("pair"), Some(Value::Bytes(bytes)) if bytes.len() == 8));
    assert_eq!(value.get("_left_out"), None);

    let (buffer, len) = archived(&Line { code: None, tags: vec![], ..line() });
    let value = kind.decode(&buffer[..len]).unwrap();
    assert_eq!(value.get("code"), Some(&Value::Null));
    assert_eq!(value.get("tags"), Some(&Value::List(vec![])));
}

/// Follows the contract's text on strings, vectors and options without the library's reader.
#[test]
fn an_archive_can_be_read_by_its_schema_alone() {
    let (buffer, len) = archived(&line());
    let bytes = &buffer[..len];
    let root = len - Line::SCHEMA.size as usize;
    let place = |at: usize, fields: &[perfring_types::Field<'static>], name: &str| {
        let field = fields.iter().find(|field| field.name == name).unwrap();
        (at + field.at as usize, field.shape)
    };
    let field = |name: &str| place(root, Line::SCHEMA.fields, name);
    let slice = |(at, shape): (usize, Shape<'static>)| &bytes[at..at + shape.size as usize];

    assert_eq!(text(bytes, field("message").0), line().message);
    assert_eq!(slice(field("took")), 1.5f64.to_le_bytes());
    assert_eq!(slice(field("level")), [13]);
    let (at, code) = field("code");
    assert_eq!(bytes[at], 1);
    assert_eq!(word(bytes, at + code.at as usize), 0x0102_0304);
    let (at, tags) = field("tags");
    let (first, count) =
        (at.wrapping_add_signed(word(bytes, at) as i32 as isize), word(bytes, at + 4));
    let tag = tags.of.unwrap();
    let read: Vec<_> = (0..count as usize)
        .map(|index| {
            let at = first + index * tag.size as usize;
            let value = slice(place(at, tag.fields, "value"));
            (
                text(bytes, place(at, tag.fields, "key").0),
                i64::from_le_bytes(value.try_into().unwrap()),
            )
        })
        .collect();
    assert_eq!(read, [("short".to_owned(), -1), ("a longer key".to_owned(), 2)]);
    assert_eq!(slice(field("host")), b"here");
    assert_eq!(slice(field("trace")), [0xab; 16]);
    assert_eq!(slice(field("flag")), [1]);
    assert_eq!(word(bytes, field("letter").0), 'ß' as u32);
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn text(bytes: &[u8], at: usize) -> String {
    let inline = &bytes[at..at + 8];
    let text = if inline[0] & 0xc0 == 0x80 {
        let len = word(bytes, at);
        let len = (len & 0x3f) | (len >> 8 << 6);
        let from = at.wrapping_add_signed(word(bytes, at + 4) as i32 as isize);
        &bytes[from..from + len as usize]
    } else {
        &inline[..inline.iter().position(|byte| *byte == 0xff).unwrap_or(8)]
    };
    String::from_utf8(text.to_vec()).unwrap()
}

/// The offset of an option's value, compared with rkyv's own archives.
#[test]
fn an_options_value_is_at_its_shapes_offset() {
    fn check<T>(value: T, same: impl Fn(&[u8]) -> bool)
    where
        T: Archive<Archived: perfring_types::Shaped>,
        Option<T>: Archive<Archived = rkyv::option::ArchivedOption<T::Archived>>
            + for<'b, 's> Serialize<
                rkyv::api::low::LowSerializer<
                    perfring_types::ArchiveBuffer<'b>,
                    rkyv::ser::allocator::SubAllocator<'s>,
                    ArchiveError,
                >,
            >,
    {
        use perfring_types::Shaped as _;
        let shape = rkyv::option::ArchivedOption::<T::Archived>::SHAPE;
        let mut buffer: Buffer = Align([0xee; 512]);
        let len = archive_into(&Some(value), &mut *buffer, &mut []).unwrap();
        let root = &buffer[len - shape.size as usize..len];
        assert_eq!(root[0], 1);
        assert!(same(&root[shape.at as usize..]), "{shape:?} {root:?}");
    }
    check(7u8, |bytes| bytes[0] == 7);
    check(0x0102u16, |bytes| bytes[..2] == 0x0102u16.to_le_bytes());
    check(0x0102_0304u32, |bytes| bytes[..4] == 0x0102_0304u32.to_le_bytes());
    check(-2i64, |bytes| bytes[..8] == (-2i64).to_le_bytes());
    check(1.5f64, |bytes| bytes[..8] == 1.5f64.to_le_bytes());
    check("short".to_owned(), |bytes| &bytes[..5] == b"short");
    check(true, |bytes| bytes[0] == 1);
    check([1u8, 2, 3], |bytes| bytes[..3] == [1, 2, 3]);
    check(Some(9u32), |bytes| bytes[0] == 1 && bytes[4..8] == 9u32.to_le_bytes());
}

#[test]
fn borrowed_values_are_archived_like_owned_ones() {
    #[derive(Archive, Serialize, Record)]
    #[record(rkyv, name = "demo.L")]
    struct Own {
        message: String,
        values: Vec<u16>,
    }
    #[derive(Archive, Serialize, Record)]
    #[record(rkyv, name = "demo.L")]
    struct Lent<'a, 'b> {
        #[rkyv(with = Borrowed)]
        message: &'a str,
        #[rkyv(with = Borrowed)]
        values: &'b [u16],
    }
    for message in ["", "inline", "not at all inline"] {
        let (own, own_len) = archived(&Own { message: message.to_owned(), values: vec![1, 2, 3] });
        let (lent, lent_len) = archived(&Lent { message, values: &[1, 2, 3] });
        assert_eq!(own[..own_len], lent[..lent_len]);
    }
    assert_eq!(Own::SCHEMA, Lent::SCHEMA);
}

#[test]
fn an_enums_number_is_the_archives() {
    for (level, number) in [(Level::Info, 9), (Level::Warn, 13)] {
        let (buffer, len) = archived(&Line { level, ..line() });
        let field = Line::SCHEMA.fields.iter().find(|field| field.name == "level").unwrap();
        assert_eq!(buffer[len - Line::SCHEMA.size as usize + field.at as usize], number);
    }
}

#[test]
fn an_archive_has_its_exact_length_and_needs_no_more() {
    let (whole, len) = archived(&line());
    assert!(whole[len..].iter().all(|byte| *byte == 0xee), "nothing is written after it");
    let scratch = &mut [MaybeUninit::uninit(); 256];
    for short in 0..len {
        let mut buffer: Buffer = Align([0; 512]);
        let refused = archive_into(&line(), &mut buffer[..short], scratch);
        assert_eq!(refused, Err(ArchiveError::BufferTooSmall), "{short} of {len}");
    }
    let mut buffer: Buffer = Align([0; 512]);
    assert_eq!(archive_into(&line(), &mut buffer[..len], scratch), Ok(len));
    let read = access::<Line>(&buffer[..len]).unwrap();
    assert_eq!((&*read.message, read.took.to_native()), (&*line().message, 1.5));
}

#[test]
fn the_error_names_the_space_that_was_too_small() {
    let mut buffer: Buffer = Align([0; 512]);
    let refused = archive_into(&line(), &mut *buffer, &mut []);
    assert_eq!(refused, Err(ArchiveError::ScratchTooSmall));
    let refused = archive_into(&Stubborn, &mut *buffer, &mut []);
    assert_eq!(refused, Err(ArchiveError::Refused));
}

/// A value that cannot be archived.
struct Stubborn;

impl Archive for Stubborn {
    type Archived = ();
    type Resolver = ();
    fn resolve(&self, (): (), _: Place<()>) {}
}

impl<S: Fallible<Error: Source> + ?Sized> Serialize<S> for Stubborn {
    fn serialize(&self, _: &mut S) -> Result<(), S::Error> {
        Err(S::Error::new(std::fmt::Error))
    }
}

#[test]
fn invalid_archives_are_refused_without_a_panic() {
    let (buffer, len) = archived(&line());
    assert!(access::<Line>(&buffer[..len]).is_ok());
    assert_eq!(access::<Line>(&[]).err(), Some(ArchiveError::Invalid));
    for short in 0..len {
        // An end that is not an archive's: of another alignment, or with other bytes in the root's
        // place.
        let _ = access::<Line>(&buffer[..short]);
    }
    assert!(access::<Line>(&buffer[..len - 1]).is_err());
    let mut elsewhere: Buffer = Align([0; 512]);
    elsewhere[1..=len].copy_from_slice(&buffer[..len]);
    assert_eq!(access::<Line>(&elsewhere[1..=len]).err(), Some(ArchiveError::Invalid));

    let mut refused = 0;
    for at in 0..len {
        for bit in 0..8 {
            let mut damaged: Buffer = Align(*buffer);
            damaged[at] ^= 1 << bit;
            match access::<Line>(&damaged[..len]) {
                Ok(read) => drop((read.message.to_string(), read.tags.len())),
                Err(error) => {
                    assert_eq!(error, ArchiveError::Invalid);
                    refused += 1;
                }
            }
        }
    }
    println!("{refused} of {} damaged archives refused", len * 8);
    assert!(refused > 100);
}

/// The format is that of the build; this is the one of rkyv's default features.
#[test]
fn the_format_is_that_of_the_types() {
    assert_eq!(RKYV_FORMAT, "rkyv 0.8 little aligned 32");
    assert_eq!(size_of::<rkyv::primitive::ArchivedUsize>(), 4);
}
