//! Any schema and any values of it, written by a writer that shares nothing with the library: it
//! follows `proto/ABI.md` alone. Besides the bytes it makes the expected JSON.

pub mod schemas;

use perfring_testkit::rng::Rng;

use perfring_types::{Constant, Field, Kind, Label, Shape};
use serde_json::{Value as Json, json};

pub fn float(value: f64) -> Json {
    match value {
        value if value.is_nan() => json!("NaN"),
        value if value == f64::INFINITY => json!("Infinity"),
        value if value == f64::NEG_INFINITY => json!("-Infinity"),
        value => json!(value),
    }
}

pub fn unsigned(value: u128) -> Json {
    u64::try_from(value).map_or_else(|_| json!(value.to_string()), |value| json!(value))
}

pub fn signed(value: i128) -> Json {
    match (u64::try_from(value), i64::try_from(value)) {
        (Ok(value), _) => json!(value),
        (_, Ok(value)) => json!(value),
        _ => json!(value.to_string()),
    }
}

pub fn hex(bytes: &[u8]) -> Json {
    json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// The contents of a field.
#[derive(Clone, Debug)]
pub enum Model {
    Integer { bytes: usize, signed: bool },
    F32,
    F64,
    Bool,
    Char,
    Text(usize),
    Bytes(usize),
    Enum { bytes: usize, signed: bool, labels: Vec<(i64, String)> },
    Array(Box<Model>, usize),
    Struct(Vec<Member>),
    String,
    Vec(Box<Model>),
    Option(Box<Model>, usize),
}

#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    /// Padding before it.
    pub gap: usize,
    pub what: What,
    pub unit: String,
    pub help: String,
}

#[derive(Clone, Debug)]
pub enum What {
    Stands(Model),
    Constant(Constant<'static>),
}

pub fn leak(text: &str) -> &'static str {
    text.to_owned().leak()
}

/// Byte order, and bytes of a pointer.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub big: bool,
    pub width: usize,
}

impl Layout {
    pub const NATIVE: Layout = Layout { big: cfg!(target_endian = "big"), width: 4 };

    /// Returns the low `bytes` of a number.
    fn bytes(self, number: u128, bytes: usize) -> Vec<u8> {
        let mut low = number.to_le_bytes()[..bytes].to_vec();
        if self.big {
            low.reverse();
        }
        low
    }
}

/// Bytes for some position, and their pointers to preceding bytes.
#[derive(Default)]
pub struct Inline {
    pub bytes: Vec<u8>,
    /// The offset of the pointer, the offset that it is relative to, and its target.
    pointers: Vec<(usize, usize, usize)>,
}

impl Inline {
    fn of(bytes: Vec<u8>) -> Self {
        Inline { bytes, pointers: Vec::new() }
    }

    fn append(&mut self, other: Inline) {
        let at = self.bytes.len();
        self.bytes.extend(other.bytes);
        let moved = other.pointers.into_iter().map(|(place, from, to)| (place + at, from + at, to));
        self.pointers.extend(moved);
    }

    /// Appends it to the archive.
    pub fn place(mut self, layout: Layout, archive: &mut Vec<u8>) -> usize {
        let at = archive.len();
        for (place, from, to) in self.pointers {
            let offset = to as i128 - (at + from) as i128;
            let bytes = layout.bytes(offset as u128, layout.width);
            self.bytes[place..place + layout.width].copy_from_slice(&bytes);
        }
        archive.extend(self.bytes);
        at
    }
}

fn integer_kind(bytes: usize, signed: bool) -> Kind {
    let kinds = match signed {
        false => [Kind::U8, Kind::U16, Kind::U32, Kind::U64, Kind::U128],
        true => [Kind::I8, Kind::I16, Kind::I32, Kind::I64, Kind::I128],
    };
    kinds[bytes.trailing_zeros() as usize]
}

fn integer(bytes: usize, is_signed: bool, number: u128) -> (Json, Option<i64>) {
    let shift = 128 - 8 * bytes;
    if is_signed {
        let number = (number << shift) as i128 >> shift;
        (signed(number), i64::try_from(number).ok())
    } else {
        let number = number << shift >> shift;
        (unsigned(number), i64::try_from(number).ok())
    }
}

impl Model {
    pub fn size(&self, layout: Layout) -> usize {
        match self {
            Model::Integer { bytes, .. } | Model::Enum { bytes, .. } => *bytes,
            Model::F32 | Model::Char => 4,
            Model::F64 => 8,
            Model::Bool => 1,
            Model::Text(size) | Model::Bytes(size) => *size,
            Model::Array(of, count) => of.size(layout) * count,
            Model::Struct(members) => members
                .iter()
                .map(|member| match &member.what {
                    What::Stands(model) => member.gap + model.size(layout),
                    What::Constant(_) => 0,
                })
                .sum(),
            Model::String | Model::Vec(_) => 2 * layout.width,
            Model::Option(of, gap) => 1 + gap + of.size(layout),
        }
    }

    pub fn shape(&self, layout: Layout) -> Shape<'static> {
        let size = self.size(layout) as u32;
        let of =
            |model: &Model| -> &'static Shape<'static> { Box::leak(Box::new(model.shape(layout))) };
        match self {
            Model::Integer { bytes, signed } => Shape::plain(integer_kind(*bytes, *signed), size),
            Model::F32 => Shape::plain(Kind::F32, size),
            Model::F64 => Shape::plain(Kind::F64, size),
            Model::Bool => Shape::plain(Kind::Bool, size),
            Model::Char => Shape::plain(Kind::Char, size),
            Model::Text(_) => Shape::plain(Kind::Text, size),
            Model::Bytes(_) => Shape::plain(Kind::Bytes, size),
            Model::Enum { bytes, signed, labels } => {
                let integer = Model::Integer { bytes: *bytes, signed: *signed };
                let labels =
                    labels.iter().map(|(value, name)| Label { value: *value, name: leak(name) });
                let labels: Vec<_> = labels.collect();
                Shape {
                    of: Some(of(&integer)),
                    labels: labels.leak(),
                    ..Shape::plain(Kind::Enum, size)
                }
            }
            Model::Array(model, count) => Shape::array(of(model), *count as u32),
            Model::Struct(members) => Shape::structure(size, fields(members, layout)),
            Model::String => Shape::plain(Kind::String, size),
            Model::Vec(model) => Shape { of: Some(of(model)), ..Shape::plain(Kind::Vec, size) },
            Model::Option(model, gap) => {
                let at = 1 + *gap as u32;
                Shape { of: Some(of(model)), at, ..Shape::plain(Kind::Option, size) }
            }
        }
    }

    /// Writes any value of it: returns its bytes and its JSON, and writes the targets of its pointers into
    /// the archive.
    pub fn write(&self, rng: &mut Rng, layout: Layout, archive: &mut Vec<u8>) -> (Inline, Json) {
        let (bytes, json) = match self {
            Model::Integer { bytes, signed } => {
                let number = rng.wide();
                (layout.bytes(number, *bytes), integer(*bytes, *signed, number).0)
            }
            Model::Enum { bytes, signed, labels } => {
                let number = match rng.index(labels.len() + 1) {
                    0 => rng.wide(),
                    at => labels[at - 1].0 as i128 as u128,
                };
                let (json, value) = integer(*bytes, *signed, number);
                let label = labels.iter().find(|label| Some(label.0) == value);
                let json = label.map_or(json, |(_, name)| json!(name));
                (layout.bytes(number, *bytes), json)
            }
            Model::F32 => {
                let value = rng.float() as f32;
                let shown = if value.is_finite() {
                    // A shortest text that is this f32: for 3198149.25 there are two, ending in 2
                    // and in 3, so the text comes from JSON and not from `Display`.
                    serde_json::to_string(&value).unwrap().parse().unwrap()
                } else {
                    f64::from(value)
                };
                (layout.bytes(value.to_bits().into(), 4), float(shown))
            }
            Model::F64 => {
                let value = rng.float();
                (layout.bytes(value.to_bits().into(), 8), float(value))
            }
            Model::Bool => {
                let value = rng.below(2) == 1;
                (vec![value as u8], json!(value))
            }
            Model::Char => {
                let value = char::from_u32(rng.below(0x11_0000) as u32).unwrap_or('"');
                (layout.bytes(u32::from(value).into(), 4), json!(value))
            }
            Model::Text(size) => {
                let text = rng.text(*size);
                let mut bytes = text.clone().into_bytes();
                bytes.resize(*size, 0);
                (bytes, json!(text))
            }
            Model::Bytes(size) => {
                let bytes: Vec<u8> = (0..*size).map(|_| rng.any() as u8).collect();
                let json = hex(&bytes);
                (bytes, json)
            }
            Model::Array(of, count) => {
                let (inline, values) = many(of, *count, rng, layout, archive);
                return (inline, json!(values));
            }
            Model::Struct(members) => return write(members, rng, layout, archive),
            Model::String => return string(rng.text(300), layout, archive),
            Model::Vec(of) => {
                let count = rng.index(5);
                let (elements, values) = many(of, count, rng, layout, archive);
                let to = elements.place(layout, archive);
                let mut inline = Inline::of(vec![0; layout.width]);
                inline.bytes.extend(layout.bytes(count as u128, layout.width));
                inline.pointers.push((0, 0, to));
                return (inline, json!(values));
            }
            Model::Option(of, gap) => {
                let mut inline = Inline::of(vec![rng.below(2) as u8]);
                inline.bytes.extend((0..*gap).map(|_| rng.any() as u8));
                if inline.bytes[0] == 0 {
                    inline.bytes.extend((0..of.size(layout)).map(|_| rng.any() as u8));
                    return (inline, Json::Null);
                }
                let (value, json) = of.write(rng, layout, archive);
                inline.append(value);
                return (inline, json);
            }
        };
        (Inline::of(bytes), json)
    }
}

fn many(
    of: &Model,
    count: usize,
    rng: &mut Rng,
    layout: Layout,
    archive: &mut Vec<u8>,
) -> (Inline, Vec<Json>) {
    let (mut inline, mut values) = (Inline::default(), Vec::new());
    for _ in 0..count {
        let (one, json) = of.write(rng, layout, archive);
        inline.append(one);
        values.push(json);
    }
    (inline, values)
}

fn string(text: String, layout: Layout, archive: &mut Vec<u8>) -> (Inline, Json) {
    let width = layout.width;
    let json = json!(text);
    if text.len() <= 2 * width {
        let mut bytes = text.into_bytes();
        bytes.resize(2 * width, 0xff);
        return (Inline::of(bytes), json);
    }
    let len = text.len() as u128;
    let bits =
        if layout.big { len | 1 << (8 * width - 1) } else { len & 0x3f | 0x80 | len >> 6 << 8 };
    let to = Inline::of(text.into_bytes()).place(layout, archive);
    let mut inline = Inline::of(layout.bytes(bits, width));
    inline.bytes.extend(vec![0; width]);
    inline.pointers.push((width, 0, to));
    (inline, json)
}

/// Returns the fields of a struct, each after its gap.
pub fn fields(members: &[Member], layout: Layout) -> &'static [Field<'static>] {
    let mut at = 0;
    let mut fields = Vec::new();
    for member in members {
        let (unit, help) = (leak(&member.unit), leak(&member.help));
        let name = leak(&member.name);
        let field = match &member.what {
            What::Constant(value) => Field::constant(name, *value),
            What::Stands(model) => {
                let field = Field::new(name, at + member.gap as u32, model.shape(layout));
                at = field.at + field.shape.size;
                field
            }
        };
        fields.push(Field { unit, help, ..field });
    }
    fields.leak()
}

pub fn constant(value: Constant<'_>) -> Json {
    match value {
        Constant::Bool(value) => json!(value),
        Constant::I64(value) => json!(value),
        Constant::U64(value) => json!(value),
        Constant::F64(value) if value.is_finite() => json!(value),
        Constant::F64(_) => Json::Null,
        Constant::Str(value) => json!(value),
        _ => unreachable!(),
    }
}

pub fn write(
    members: &[Member],
    rng: &mut Rng,
    layout: Layout,
    archive: &mut Vec<u8>,
) -> (Inline, Json) {
    let (mut inline, mut object) = (Inline::default(), serde_json::Map::new());
    for member in members {
        let json = match &member.what {
            What::Constant(value) => constant(*value),
            What::Stands(model) => {
                inline.bytes.extend((0..member.gap).map(|_| rng.any() as u8));
                let (one, json) = model.write(rng, layout, archive);
                inline.append(one);
                json
            }
        };
        object.insert(member.name.clone(), json);
    }
    (inline, Json::Object(object))
}
