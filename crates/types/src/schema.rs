//! What a schema is made of. All of it can be made in a `const`.

use perfring_abi::RecordType;

/// How a payload is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Bytes of which nothing more is known.
    #[default]
    Bytes,
    /// UTF-8 text.
    Utf8,
    /// One JSON text.
    Json,
    /// A plain struct: each field at its offset, in the ring's byte order.
    Pod,
    /// An rkyv archive, its root at the end.
    Rkyv,
    /// A list of values, each with its field's number and its own type.
    Tagged,
}

impl Encoding {
    /// All of them.
    pub const ALL: [Encoding; 6] = [
        Encoding::Bytes,
        Encoding::Utf8,
        Encoding::Json,
        Encoding::Pod,
        Encoding::Rkyv,
        Encoding::Tagged,
    ];

    /// Its name in the type table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Bytes => "bytes",
            Encoding::Utf8 => "utf-8",
            Encoding::Json => "json",
            Encoding::Pod => "pod",
            Encoding::Rkyv => "rkyv",
            Encoding::Tagged => "tagged",
        }
    }
}

/// What a record is to a sidecar: which of OpenTelemetry's signals, if any. The fields that go with
/// each have OpenTelemetry's names; `perfring-telemetry` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The application's own.
    #[default]
    Plain,
    /// A log record.
    Log,
    /// A span begins.
    SpanStart,
    /// A span ends.
    SpanEnd,
    /// A sample of a gauge.
    Gauge,
    /// A sample of a sum: a counter.
    Sum,
    /// A sample of a histogram.
    Histogram,
    /// What the producer is: attributes of a resource.
    Resource,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 8] = [
        Class::Plain,
        Class::Log,
        Class::SpanStart,
        Class::SpanEnd,
        Class::Gauge,
        Class::Sum,
        Class::Histogram,
        Class::Resource,
    ];

    /// Its name in the type table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Class::Plain => "plain",
            Class::Log => "log",
            Class::SpanStart => "span_start",
            Class::SpanEnd => "span_end",
            Class::Gauge => "gauge",
            Class::Sum => "sum",
            Class::Histogram => "histogram",
            Class::Resource => "resource",
        }
    }
}

/// What stands in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Unsigned, one byte.
    U8,
    /// Unsigned, two bytes.
    U16,
    /// Unsigned, four bytes.
    U32,
    /// Unsigned, eight bytes.
    U64,
    /// Unsigned, sixteen bytes.
    U128,
    /// Signed, one byte.
    I8,
    /// Signed, two bytes.
    I16,
    /// Signed, four bytes.
    I32,
    /// Signed, eight bytes.
    I64,
    /// Signed, sixteen bytes.
    I128,
    /// IEEE 754, four bytes.
    F32,
    /// IEEE 754, eight bytes.
    F64,
    /// One byte, 0 or 1.
    Bool,
    /// A Unicode scalar value in four bytes.
    Char,
    /// UTF-8 in [`Shape::size`] bytes, the rest of them zeros.
    Text,
    /// [`Shape::size`] bytes, shown in hexadecimal.
    Bytes,
    /// [`Shape::count`] times [`Shape::of`].
    Array,
    /// [`Shape::fields`], their offsets counted from the struct's own.
    Struct,
    /// An integer as [`Shape::of`] whose values have [`Shape::labels`].
    Enum,
    /// An rkyv `ArchivedString`.
    String,
    /// An rkyv `ArchivedVec` of [`Shape::of`].
    Vec,
    /// An rkyv `ArchivedOption`: one byte, 0 or 1, and [`Shape::of`] at offset [`Shape::at`].
    Option,
    /// In a tagged record: of the type that the value itself says.
    Any,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 23] = [
        Kind::U8,
        Kind::U16,
        Kind::U32,
        Kind::U64,
        Kind::U128,
        Kind::I8,
        Kind::I16,
        Kind::I32,
        Kind::I64,
        Kind::I128,
        Kind::F32,
        Kind::F64,
        Kind::Bool,
        Kind::Char,
        Kind::Text,
        Kind::Bytes,
        Kind::Array,
        Kind::Struct,
        Kind::Enum,
        Kind::String,
        Kind::Vec,
        Kind::Option,
        Kind::Any,
    ];

    /// Its name in the type table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::U8 => "u8",
            Kind::U16 => "u16",
            Kind::U32 => "u32",
            Kind::U64 => "u64",
            Kind::U128 => "u128",
            Kind::I8 => "i8",
            Kind::I16 => "i16",
            Kind::I32 => "i32",
            Kind::I64 => "i64",
            Kind::I128 => "i128",
            Kind::F32 => "f32",
            Kind::F64 => "f64",
            Kind::Bool => "bool",
            Kind::Char => "char",
            Kind::Text => "text",
            Kind::Bytes => "bytes",
            Kind::Array => "array",
            Kind::Struct => "struct",
            Kind::Enum => "enum",
            Kind::String => "string",
            Kind::Vec => "vec",
            Kind::Option => "option",
            Kind::Any => "any",
        }
    }
}

/// A value of an enumeration and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label<'a> {
    /// The value.
    pub value: i64,
    /// Its name.
    pub name: &'a str,
}

/// What stands in a field, in full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape<'a> {
    /// What it is.
    pub kind: Kind,
    /// Bytes that it takes where it stands; 0 for [`Kind::Any`].
    pub size: u32,
    /// [`Kind::Array`]: how many. Otherwise 0.
    pub count: u32,
    /// [`Kind::Option`]: where the value stands. Otherwise 0.
    pub at: u32,
    /// What an array, a vector, an option or an enumeration is of.
    pub of: Option<&'a Shape<'a>>,
    /// [`Kind::Struct`]: its fields.
    pub fields: &'a [Field<'a>],
    /// [`Kind::Enum`]: the names of its values.
    pub labels: &'a [Label<'a>],
}

impl<'a> Shape<'a> {
    /// A shape of this kind and size, and nothing more.
    #[must_use]
    pub const fn plain(kind: Kind, size: u32) -> Self {
        Shape { kind, size, count: 0, at: 0, of: None, fields: &[], labels: &[] }
    }

    /// `count` times `of`.
    #[must_use]
    pub const fn array(of: &'a Shape<'a>, count: u32) -> Self {
        let size = of.size * count;
        Shape { of: Some(of), count, ..Shape::plain(Kind::Array, size) }
    }

    /// A struct of these fields.
    #[must_use]
    pub const fn structure(size: u32, fields: &'a [Field<'a>]) -> Self {
        Shape { fields, ..Shape::plain(Kind::Struct, size) }
    }

    /// Of the type that the value itself says.
    pub const ANY: Shape<'static> = Shape::plain(Kind::Any, 0);
}

/// A value that is the same in every record of a type, and so stands in the table alone.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Constant<'a> {
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A finite number.
    F64(f64),
    /// Text.
    Str(&'a str),
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it stands in its struct, in bytes; 0 in a tagged record and for a constant.
    pub at: u32,
    /// What stands there.
    pub shape: Shape<'a>,
    /// Its unit as UCUM has it (`By`, `ms`, `{request}`), or nothing.
    pub unit: &'a str,
    /// What it means, or nothing.
    pub help: &'a str,
    /// What it always is, if it stands in no record.
    pub constant: Option<Constant<'a>>,
}

impl<'a> Field<'a> {
    /// A field without unit and help.
    #[must_use]
    pub const fn new(name: &'a str, at: u32, shape: Shape<'a>) -> Self {
        Field { name, at, shape, unit: "", help: "", constant: None }
    }

    /// A field that is the same in every record.
    #[must_use]
    pub const fn constant(name: &'a str, value: Constant<'a>) -> Self {
        Field { constant: Some(value), ..Field::new(name, 0, Shape::ANY) }
    }
}

/// What a record's payload is.
///
/// ```
/// use perfring_types::{Encoding, Field, Kind, Schema, Shape};
/// const TEMPERATURE: Schema<'static> = Schema::new("demo.Temperature", Encoding::Pod)
///     .with_fields(8, &[Field { unit: "Cel", ..Field::new("value", 0, Shape::plain(Kind::F64, 8)) }])
///     .with_hashed_id();
/// assert!(TEMPERATURE.to_json().contains(r#""name":"demo.Temperature""#));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schema<'a> {
    /// The type's number in record headers.
    pub id: RecordType,
    /// Its name: by custom `program.Type`.
    pub name: &'a str,
    /// Counts up when the meaning changes; a change of layout changes the id by itself.
    pub version: u16,
    /// How a payload is to be read.
    pub encoding: Encoding,
    /// What it is to a sidecar.
    pub class: Class,
    /// Bytes: of a Pod payload, or of an archive's root. Otherwise 0.
    pub size: u32,
    /// What else a reader must know of the encoding: of rkyv, its version and format features.
    pub format: &'a str,
    /// What it means, or nothing.
    pub help: &'a str,
    /// Its fields.
    pub fields: &'a [Field<'a>],
}

impl<'a> Schema<'a> {
    /// A type without fields and with the id of plain bytes: to go on with.
    #[must_use]
    pub const fn new(name: &'a str, encoding: Encoding) -> Self {
        Schema {
            id: RecordType::BYTES,
            name,
            version: 1,
            encoding,
            class: Class::Plain,
            size: 0,
            format: "",
            help: "",
            fields: &[],
        }
    }

    /// With these fields in so many bytes.
    #[must_use]
    pub const fn with_fields(self, size: u32, fields: &'a [Field<'a>]) -> Self {
        Schema { size, fields, ..self }
    }

    /// With the id that follows from its name, version, encoding and layout: see
    /// [`Schema::hashed_id`].
    #[must_use]
    pub const fn with_hashed_id(self) -> Self {
        Schema { id: self.hashed_id(), ..self }
    }
}
