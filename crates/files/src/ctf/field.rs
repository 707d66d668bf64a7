//! Fields of events: their CTF declarations, and the encoding of values.

use perfring_events::mangle::identifier;
use perfring_types::read::{Named, Type, TypeField, TypeShape, Value};
use perfring_types::{Encoding, Kind};
use std::fmt::Write as _;

/// The type of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    /// An integer of this many bits.
    Unsigned(u8),
    Signed(u8),
    Float,
    Double,
    /// UTF-8, ended by a zero; so a zero in the text is written as the picture of one.
    Text,
    /// A sequence of bytes, shown in hexadecimal.
    Bytes,
    /// An integer whose values have names: bits, sign, labels.
    Labelled(u8, bool, Vec<(i64, String)>),
    /// An array of this length.
    Array(Box<Field>, u32),
    /// A sequence of any length.
    Sequence(Box<Field>),
    /// An optional value: a sequence of at most one.
    Optional(Box<Field>),
    Struct(Vec<Member>),
    /// No value at all.
    Nothing,
    /// Any other value, as JSON.
    Json,
    /// All of a record's value, as JSON: the only field.
    Whole,
}

/// A named field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    /// An identifier. Readers remove the first underscore, so any name becomes an identifier.
    name: String,
    pub(super) field: Field,
}

impl Member {
    /// Creates the only member of a structure around an element.
    pub(super) fn element(field: Field) -> Self {
        Member { name: "_v".to_owned(), field }
    }

    /// Returns the name as readers of CTF 1.8 show it.
    pub(super) fn bare(&self) -> &str {
        self.name.strip_prefix('_').unwrap_or(&self.name)
    }
}

/// Makes field names that are unique in their struct.
#[derive(Default)]
pub(super) struct Members {
    all: Vec<Member>,
}

impl Members {
    pub(super) fn add(&mut self, name: &str, unit: &str, field: Field) {
        let mut name = format!("_{}", identifier(name));
        if !matches!(unit, "" | "1") {
            let _ = write!(name, "_{}", identifier(unit.trim_matches(['{', '}'])));
        }
        // Readers differ in how many underscores they remove.
        let bare = |name: &str| name.trim_start_matches('_').to_owned();
        let mut own = bare(&name);
        // A sequence's length has a name as well.
        while self.all.iter().map(|one| bare(&one.name)).any(|other| {
            other == own
                || other.strip_suffix("_len") == Some(&own)
                || own.strip_suffix("_len") == Some(&other)
        }) {
            name.push('x');
            own = bare(&name);
        }
        self.all.push(Member { name, field });
    }

    pub(super) fn done(self) -> Vec<Member> {
        self.all
    }
}

/// Returns the fields of this type's records, if all have the same.
pub(super) fn of_type(kind: &Type) -> Option<Vec<Member>> {
    matches!(kind.encoding.known(), Some(Encoding::Pod | Encoding::Rkyv))
        .then(|| of_fields(&kind.fields))
}

fn of_fields(fields: &[TypeField]) -> Vec<Member> {
    let mut members = Members::default();
    for field in fields {
        let what = match &field.constant {
            Some(constant) => of_value(constant, None),
            // Decoding leaves these out.
            None if field.shape.size == 0 && field.shape.kind.known().is_none() => continue,
            None => of_shape(&field.shape),
        };
        members.add(&field.name, &field.unit, what);
    }
    members.done()
}

fn of_shape(shape: &TypeShape) -> Field {
    let Named::Known(kind) = &shape.kind else { return Field::Bytes };
    let of = || shape.of.as_deref().map_or(Field::Json, of_shape);
    match kind {
        Kind::U8 | Kind::Bool => Field::Unsigned(8),
        Kind::U16 => Field::Unsigned(16),
        Kind::U32 => Field::Unsigned(32),
        Kind::U64 => Field::Unsigned(64),
        Kind::I8 => Field::Signed(8),
        Kind::I16 => Field::Signed(16),
        Kind::I32 => Field::Signed(32),
        Kind::I64 => Field::Signed(64),
        Kind::F32 => Field::Float,
        Kind::F64 => Field::Double,
        Kind::Bytes => Field::Bytes,
        Kind::Char | Kind::Text | Kind::String | Kind::U128 | Kind::I128 => Field::Text,
        Kind::Array => Field::Array(Box::new(of()), shape.count),
        Kind::Vec => Field::Sequence(Box::new(of())),
        Kind::Option => Field::Optional(Box::new(of())),
        Kind::Struct => Field::Struct(of_fields(&shape.fields)),
        Kind::Enum => labelled(of(), shape),
        _ => Field::Json,
    }
}

fn labelled(of: Field, shape: &TypeShape) -> Field {
    let labels =
        || shape.labels.iter().map(|label| (label.value, label.name.to_string())).collect();
    match of {
        other if shape.labels.is_empty() => other,
        Field::Unsigned(bits) => Field::Labelled(bits, false, labels()),
        Field::Signed(bits) => Field::Labelled(bits, true, labels()),
        other => other,
    }
}

/// Returns the fields of one record of a type whose records differ.
pub(super) fn of_values(kind: &Type, value: &Value) -> Vec<Member> {
    let mut members = Members::default();
    match value {
        Value::Struct(fields) if kind.encoding.known() == Some(Encoding::Tagged) => {
            for (name, value) in fields {
                let field = kind.field(name);
                let unit = field.map_or("", |field| field.unit.as_str());
                members.add(name, unit, of_value(value, field.map(|field| &field.shape)));
            }
        }
        Value::Str(_) => members.add("text", "", Field::Text),
        Value::Bytes(_) => members.add("payload", "", Field::Bytes),
        _ => members.add("json", "", Field::Whole),
    }
    members.done()
}

fn of_value(value: &Value, shape: Option<&TypeShape>) -> Field {
    match value {
        Value::Null => Field::Nothing,
        Value::Bool(_) => Field::Unsigned(8),
        Value::U64(_) => Field::Unsigned(64),
        Value::I64(_) => Field::Signed(64),
        Value::F32(_) => Field::Float,
        Value::F64(_) => Field::Double,
        Value::Char(_) | Value::Str(_) | Value::I128(_) | Value::U128(_) => Field::Text,
        Value::Bytes(_) => Field::Bytes,
        Value::Label { .. } => {
            shape.map_or(Field::Signed(64), |shape| labelled(Field::Signed(64), shape))
        }
        Value::List(all) if all.iter().all(|one| matches!(one, Value::U64(_))) => {
            Field::Sequence(Box::new(Field::Unsigned(64)))
        }
        Value::List(all) if all.iter().all(|one| matches!(one, Value::F64(_))) => {
            Field::Sequence(Box::new(Field::Double))
        }
        _ => Field::Json,
    }
}

/// Declares the members in TSDL.
pub(super) fn declare(members: &[Member], out: &mut String) {
    for member in members {
        field(&member.field, &member.name, out);
    }
}

fn field(what: &Field, name: &str, out: &mut String) {
    // Writing to a `String` cannot fail.
    let _ = match what {
        Field::Bytes => write!(out, "u32 {name}_len; x8 {name}[{name}_len]; "),
        Field::Array(of, count) => {
            base(of, out);
            write!(out, " {name}[{count}]; ")
        }
        Field::Sequence(of) | Field::Optional(of) => {
            let _ = write!(out, "u32 {name}_len; ");
            base(of, out);
            write!(out, " {name}[{name}_len]; ")
        }
        plain => {
            base(plain, out);
            write!(out, " {name}; ")
        }
    };
}

/// Declares a type that precedes a name; a type with a length of its own is put into a struct.
fn base(what: &Field, out: &mut String) {
    let _ = match what {
        Field::Unsigned(bits) => write!(out, "u{bits}"),
        Field::Signed(bits) => write!(out, "i{bits}"),
        Field::Float => write!(out, "f32"),
        Field::Double => write!(out, "f64"),
        Field::Text | Field::Json | Field::Whole => write!(out, "string"),
        Field::Labelled(bits, is_signed, labels) => {
            let _ = write!(out, "enum : {}{bits} {{ ", if *is_signed { "i" } else { "u" });
            for (at, (value, label)) in labels.iter().enumerate() {
                let comma = if at > 0 { ", " } else { "" };
                let _ = write!(out, "{comma}{} = {value}", quoted(label));
            }
            write!(out, " }}")
        }
        Field::Struct(members) => {
            out.push_str("struct { ");
            declare(members, out);
            write!(out, "}}")
        }
        Field::Nothing => write!(out, "struct {{ }}"),
        Field::Bytes | Field::Array(..) | Field::Sequence(_) | Field::Optional(_) => {
            out.push_str("struct { ");
            field(what, "_v", out);
            write!(out, "}}")
        }
    };
}

/// Formats a string literal of TSDL.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Encodes a record with these fields.
pub(super) fn write_all(members: &[Member], value: &Value, out: &mut Vec<u8>) {
    match (members, value) {
        ([one], value) if !matches!(value, Value::Struct(_)) => write(&one.field, value, out),
        ([one], value) if one.field == Field::Whole => write(&one.field, value, out),
        (members, value) => write_members(members, value, out),
    }
}

fn write_members(members: &[Member], value: &Value, out: &mut Vec<u8>) {
    let fields = match value {
        Value::Struct(fields) => fields.as_slice(),
        _ => &[],
    };
    for (at, member) in members.iter().enumerate() {
        let value = fields.get(at).map_or(&Value::Null, |(_, value)| value);
        write(&member.field, value, out);
    }
}

pub(super) fn write(what: &Field, value: &Value, out: &mut Vec<u8>) {
    match what {
        Field::Unsigned(bits) | Field::Signed(bits) | Field::Labelled(bits, ..) => {
            let bytes = integer(value).to_le_bytes();
            out.extend(&bytes[..usize::from(*bits) / 8]);
        }
        Field::Float => match value {
            Value::F32(value) => out.extend(value.to_le_bytes()),
            _ => out.extend([0; 4]),
        },
        Field::Double => match value {
            Value::F64(value) => out.extend(value.to_le_bytes()),
            _ => out.extend([0; 8]),
        },
        Field::Text => match value {
            Value::Str(value) => text(value, out),
            Value::Char(value) => text(value.encode_utf8(&mut [0; 4]), out),
            other => text(&other.to_string(), out),
        },
        Field::Json | Field::Whole => text(&serde_json::to_string(value).unwrap_or_default(), out),
        Field::Bytes => match value {
            Value::Bytes(value) => bytes(value, out),
            _ => bytes(&[], out),
        },
        Field::Array(of, count) => {
            let values = list(value);
            for at in 0..*count as usize {
                write(of, values.get(at).unwrap_or(&Value::Null), out);
            }
        }
        Field::Sequence(of) => {
            let values = list(value);
            out.extend((values.len() as u32).to_le_bytes());
            values.iter().for_each(|value| write(of, value, out));
        }
        Field::Optional(of) => match value {
            Value::Null => out.extend(0u32.to_le_bytes()),
            value => {
                out.extend(1u32.to_le_bytes());
                write(of, value, out);
            }
        },
        Field::Struct(members) => write_members(members, value, out),
        Field::Nothing => {}
    }
}

fn list(value: &Value) -> &[Value] {
    match value {
        Value::List(values) => values,
        _ => &[],
    }
}

fn integer(value: &Value) -> u64 {
    match value {
        Value::U64(value) => *value,
        Value::I64(value) | Value::Label { value, .. } => *value as u64, // its low bytes are written
        Value::Bool(value) => u64::from(*value),
        _ => 0,
    }
}

pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    if text.contains('\0') {
        out.extend(text.replace('\0', "\u{2400}").as_bytes());
    } else {
        out.extend(text.as_bytes());
    }
    out.push(0);
}

pub(super) fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}
