//! The parts of a schema. All of them can be made in a `const`.

use perfring_abi::RecordType;

/// Defines an enumeration whose values have names in the type table.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$each])* $variant,)*
        }

        impl $name {
            /// All values.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// Returns the name in the type table.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }
    };
}

words! {
    /// The encoding of a payload.
    #[derive(Default)]
    Encoding {
        /// Opaque bytes.
        #[default]
        Bytes "bytes",
        /// UTF-8 text.
        Utf8 "utf-8",
        /// One JSON text.
        Json "json",
        /// A plain struct: each field at its offset, in the ring's byte order.
        Pod "pod",
        /// An rkyv archive, its root at the end.
        Rkyv "rkyv",
        /// A list of values, each with its field's number and its own type.
        Tagged "tagged",
    }
}

words! {
    /// The class of a record for a sidecar: which of OpenTelemetry's signals it is, if any. The
    /// fields of each class have OpenTelemetry's names; `perfring-telemetry` defines them.
    #[derive(Default)]
    Class {
        /// The application's own.
        #[default]
        Plain "plain",
        /// A log record.
        Log "log",
        /// A span begins.
        SpanStart "span_start",
        /// A span ends.
        SpanEnd "span_end",
        /// A sample of a gauge.
        Gauge "gauge",
        /// A sample of a sum: a counter.
        Sum "sum",
        /// A sample of a histogram.
        Histogram "histogram",
        /// Attributes of a resource, which describe the producer.
        Resource "resource",
    }
}

words! {
    /// The kind of a field.
    Kind {
        /// Unsigned, one byte.
        U8 "u8",
        /// Unsigned, two bytes.
        U16 "u16",
        /// Unsigned, four bytes.
        U32 "u32",
        /// Unsigned, eight bytes.
        U64 "u64",
        /// Unsigned, sixteen bytes.
        U128 "u128",
        /// Signed, one byte.
        I8 "i8",
        /// Signed, two bytes.
        I16 "i16",
        /// Signed, four bytes.
        I32 "i32",
        /// Signed, eight bytes.
        I64 "i64",
        /// Signed, sixteen bytes.
        I128 "i128",
        /// IEEE 754, four bytes.
        F32 "f32",
        /// IEEE 754, eight bytes.
        F64 "f64",
        /// One byte, 0 or 1.
        Bool "bool",
        /// A Unicode scalar value in four bytes.
        Char "char",
        /// UTF-8 in [`Shape::size`] bytes, the rest of them zeros.
        Text "text",
        /// [`Shape::size`] bytes, shown in hexadecimal.
        Bytes "bytes",
        /// [`Shape::count`] times [`Shape::of`].
        Array "array",
        /// [`Shape::fields`], their offsets counted from the struct's own.
        Struct "struct",
        /// An integer like [`Shape::of`] whose values have [`Shape::labels`].
        Enum "enum",
        /// An rkyv `ArchivedString`.
        String "string",
        /// An rkyv `ArchivedVec` of [`Shape::of`].
        Vec "vec",
        /// An rkyv `ArchivedOption`: one byte, 0 or 1, and [`Shape::of`] at offset [`Shape::at`].
        Option "option",
        /// In a tagged record: the value itself gives its type.
        Any "any",
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

/// The shape of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape<'a> {
    /// The kind of value.
    pub kind: Kind,
    /// Size in bytes; 0 for [`Kind::Any`].
    pub size: u32,
    /// [`Kind::Array`]: the number of elements. Otherwise 0.
    pub count: u32,
    /// [`Kind::Option`]: the offset of the value. Otherwise 0.
    pub at: u32,
    /// The shape of an array's, a vector's, an option's or an enumeration's element.
    pub of: Option<&'a Shape<'a>>,
    /// [`Kind::Struct`]: its fields.
    pub fields: &'a [Field<'a>],
    /// [`Kind::Enum`]: the names of its values.
    pub labels: &'a [Label<'a>],
}

impl<'a> Shape<'a> {
    /// Makes a shape of this kind and size, and nothing more.
    #[must_use]
    pub const fn plain(kind: Kind, size: u32) -> Self {
        Shape { kind, size, count: 0, at: 0, of: None, fields: &[], labels: &[] }
    }

    /// Makes an array of `count` times `of`.
    #[must_use]
    pub const fn array(of: &'a Shape<'a>, count: u32) -> Self {
        let size = of.size * count;
        Shape { of: Some(of), count, ..Shape::plain(Kind::Array, size) }
    }

    /// Makes a struct of these fields.
    #[must_use]
    pub const fn structure(size: u32, fields: &'a [Field<'a>]) -> Self {
        Shape { fields, ..Shape::plain(Kind::Struct, size) }
    }

    /// A value that gives its own type.
    pub const ANY: Shape<'static> = Shape::plain(Kind::Any, 0);
}

/// A value that is the same in every record of a type, and is stored only in the table.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Constant<'a> {
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A finite floating-point number.
    F64(f64),
    /// Text.
    Str(&'a str),
}

macro_rules! constant_from {
    ($($type:ty: $variant:ident),*) => {$(
        impl<'a> From<$type> for Constant<'a> {
            fn from(value: $type) -> Self {
                Constant::$variant(value.into())
            }
        }
    )*};
}

constant_from!(bool: Bool, i32: I64, i64: I64, u32: U64, u64: U64, f64: F64, &'a str: Str);

/// One field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a str,
    /// The offset in its struct, in bytes; 0 in a tagged record and for a constant.
    pub at: u32,
    /// The field's shape.
    pub shape: Shape<'a>,
    /// The unit in UCUM notation (`By`, `ms`, `{request}`), or empty.
    pub unit: &'a str,
    /// A description, or empty.
    pub help: &'a str,
    /// The value of a constant, which is in no record.
    pub constant: Option<Constant<'a>>,
}

impl<'a> Field<'a> {
    /// Makes a field without unit and help.
    #[must_use]
    pub const fn new(name: &'a str, at: u32, shape: Shape<'a>) -> Self {
        Field { name, at, shape, unit: "", help: "", constant: None }
    }

    /// Makes a field that is the same in every record.
    #[must_use]
    pub const fn constant(name: &'a str, value: Constant<'a>) -> Self {
        Field { constant: Some(value), ..Field::new(name, 0, Shape::ANY) }
    }
}

/// The description of a record's payload.
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
    /// The type's id in record headers.
    pub id: RecordType,
    /// Its name: by convention `program.Type`.
    pub name: &'a str,
    /// Version of the meaning: incremented when it changes. A change of layout changes the id by
    /// itself.
    pub version: u16,
    /// The encoding of payloads.
    pub encoding: Encoding,
    /// The class of record for a sidecar.
    pub class: Class,
    /// Bytes of a Pod payload, or of an archive's root. Otherwise 0.
    pub size: u32,
    /// Further details of the encoding: for rkyv, its version and format features.
    pub format: &'a str,
    /// A description, or empty.
    pub help: &'a str,
    /// Its fields.
    pub fields: &'a [Field<'a>],
}

impl<'a> Schema<'a> {
    /// Makes a type without fields, with the id of plain bytes, to build upon.
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

    /// Sets the size in bytes and the fields.
    #[must_use]
    pub const fn with_fields(self, size: u32, fields: &'a [Field<'a>]) -> Self {
        Schema { size, fields, ..self }
    }

    /// Sets the id that follows from its name, version, encoding and layout: see
    /// [`Schema::hashed_id`].
    #[must_use]
    pub const fn with_hashed_id(self) -> Self {
        Schema { id: self.hashed_id(), ..self }
    }
}
