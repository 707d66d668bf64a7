//! Schemas as C source, for `perfring_schema.h`.

use perfring_testkit::rng::Rng;
use perfring_types::{Class, Constant, Encoding, Field, Kind, Label, Schema, Shape};
use std::fmt::Write as _;

/// Written declarations of C, each with its own name.
#[derive(Debug, Default)]
struct Source {
    text: String,
    names: usize,
}

/// Schemas as a C array `schemas`, with the declarations before it that it needs.
#[must_use]
pub fn to_c(schemas: &[Schema<'_>]) -> String {
    let mut source = Source::default();
    let rows: Vec<_> = schemas.iter().map(|schema| source.schema(schema)).collect();
    source.text
        + &format!("static const struct perfring_schema schemas[] = {{\n{}}};\n", rows.concat())
}

/// A C string literal; NULL for an empty one, which must be the same.
fn literal(text: &str) -> String {
    if text.is_empty() {
        return "NULL".into();
    }
    let mut out = String::from("\"");
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b' ' {
            out.push(byte.into());
        } else {
            write!(out, "\\{byte:03o}").expect("a String");
        }
    }
    out + "\""
}

impl Source {
    /// Declares an array or a single value and returns its name.
    fn declare(&mut self, of: &str, array: bool, value: &str) -> String {
        self.names += 1;
        let name = format!("d{}", self.names);
        let brackets = if array { "[]" } else { "" };
        writeln!(self.text, "static const struct perfring_{of} {name}{brackets} = {value};")
            .expect("a String");
        name
    }

    fn schema(&mut self, schema: &Schema<'_>) -> String {
        let (fields, count) = self.fields(schema.fields);
        // The id of 0 is the hashed one, and no class the plain one.
        let id = if schema.id == schema.hashed_id() { 0 } else { schema.id.get() };
        let signal = if schema.class == Class::Plain { "" } else { schema.class.name() };
        format!(
            "\t{{ {id}u, {}, {}, {}, {}, {}u, {}, {}, {fields}, {count} }},\n",
            literal(schema.name),
            schema.version,
            literal(schema.encoding.name()),
            literal(signal),
            schema.size,
            literal(schema.format),
            literal(schema.help),
        )
    }

    fn fields(&mut self, fields: &[Field<'_>]) -> (String, usize) {
        if fields.is_empty() {
            return ("NULL".into(), 0);
        }
        let rows: Vec<_> = fields.iter().map(|field| self.field(field)).collect();
        (self.declare("field", true, &format!("{{ {} }}", rows.join(", "))), fields.len())
    }

    fn field(&mut self, field: &Field<'_>) -> String {
        let constant = field.constant.map_or("NULL".into(), |constant| {
            let value = match constant {
                Constant::Bool(value) => format!("PERFRING_BOOL({})", u8::from(value)),
                // There is no literal of the least number.
                Constant::I64(value) => format!("PERFRING_I64((int64_t){}u)", value as u64),
                Constant::U64(value) => format!("PERFRING_U64({value}u)"),
                Constant::F64(value) if value.is_nan() => {
                    "PERFRING_F64(__builtin_nan(\"\"))".into()
                }
                Constant::F64(value) if value.is_infinite() => {
                    let sign = if value < 0.0 { "-" } else { "" };
                    format!("PERFRING_F64({sign}__builtin_inf())")
                }
                Constant::F64(value) => format!("PERFRING_F64({value:e})"),
                Constant::Str(value) => format!("PERFRING_TEXT({})", literal(value)),
                other => unreachable!("{other:?}"),
            };
            format!("&{}", self.declare("constant", false, &value))
        });
        let shape = self.shape(&field.shape);
        let (name, unit, help) = (literal(field.name), literal(field.unit), literal(field.help));
        format!("{{ {name}, {}u, {shape}, {unit}, {help}, {constant} }}", field.at)
    }

    fn shape(&mut self, shape: &Shape<'_>) -> String {
        let of = shape.of.map_or("NULL".into(), |of| {
            let of = self.shape(of);
            format!("&{}", self.declare("shape", false, &of))
        });
        let (fields, field_count) = self.fields(shape.fields);
        let labels: Vec<_> = shape
            .labels
            .iter()
            .map(|label| format!("{{ (int64_t){}u, {} }}", label.value as u64, literal(label.name)))
            .collect();
        let labels = if labels.is_empty() {
            "NULL".into()
        } else {
            self.declare("label", true, &format!("{{ {} }}", labels.join(", ")))
        };
        // C computes these sizes by itself.
        let size = match shape.kind {
            Kind::Array | Kind::Enum => 0,
            kind if kind.name().starts_with(['u', 'i', 'f', 'c']) => 0,
            _ => shape.size,
        };
        format!(
            "{{ \"{}\", {size}u, {}u, {}u, {of}, {fields}, {field_count}, {labels}, {} }}",
            shape.kind.name(),
            shape.count,
            shape.at,
            shape.labels.len(),
        )
    }
}

/// A schema of any kinds of fields, with odd texts. It lives as long as the program.
pub fn any_schema(rng: &mut Rng) -> Schema<'static> {
    let encoding = Encoding::ALL[rng.index(Encoding::ALL.len())];
    let class = Class::ALL[rng.index(Class::ALL.len())];
    let schema = Schema {
        class,
        version: rng.below(4) as u16,
        format: text(rng, 20),
        help: text(rng, 40),
        ..Schema::new(text(rng, 20), encoding)
    };
    schema.with_fields(rng.below(1 << 16) as u32, any_fields(rng, 3)).with_hashed_id()
}

/// A schema whose constants are the edges of how a float is written.
#[must_use]
pub fn odd_floats() -> Schema<'static> {
    let fields = ODD.map(|value| Field::constant("float", Constant::F64(value)));
    Schema::new("c.Floats", Encoding::Tagged)
        .with_fields(0, Box::leak(Box::new(fields)))
        .with_hashed_id()
}

/// No text in C holds a zero.
fn text(rng: &mut Rng, max: usize) -> &'static str {
    let text = match rng.below(4) {
        0 => String::new(),
        1 => "a \"quoted\\ \t\n\r\u{1}\u{7f} text … of ∆".into(),
        _ => rng.text(max).replace('\0', "0"),
    };
    text.leak()
}

fn any_fields(rng: &mut Rng, depth: u32) -> &'static [Field<'static>] {
    let fields: Vec<_> = (0..rng.below(4))
        .map(|_| {
            let mut field =
                Field::new(text(rng, 12), rng.below(3) as u32 * 8, any_shape(rng, depth));
            if rng.below(4) == 0 {
                field = Field::constant(field.name, any_constant(rng));
            }
            Field { unit: text(rng, 5), help: text(rng, 20), ..field }
        })
        .collect();
    fields.leak()
}

/// At the edges of how a float is written.
const ODD: [f64; 12] =
    [0.0, -0.0, f64::NAN, f64::INFINITY, f64::MAX, 5e-324, 1e-4, 9.9e-5, 1.5e-5, 9e-6, 1e15, 1e16];

fn any_constant(rng: &mut Rng) -> Constant<'static> {
    match rng.below(5) {
        0 => Constant::Bool(rng.below(2) == 1),
        1 => Constant::I64(rng.wide() as i64),
        2 => Constant::U64(rng.wide() as u64),
        3 => Constant::F64(match rng.below(3) {
            // NaNs with other bits have no expression in C.
            0 => ODD[rng.index(ODD.len())],
            1 => rng.below(2_000_000) as f64 / [1.0, 8.0, 1e3, 1e10][rng.index(4)],
            _ => Some(rng.float()).filter(|value| !value.is_nan()).unwrap_or(0.1),
        }),
        _ => Constant::Str(text(rng, 20)),
    }
}

fn any_shape(rng: &mut Rng, depth: u32) -> Shape<'static> {
    let kinds = if depth == 0 { Kind::ALL.len() - 9 } else { Kind::ALL.len() };
    let kind = Kind::ALL[rng.index(kinds)];
    let fixed = |size| Shape::plain(kind, size);
    let count = rng.below(4) as u32;
    let mut inner =
        || -> &'static Shape<'static> { Box::leak(Box::new(any_shape(rng, depth - 1))) };
    match kind {
        Kind::U8 | Kind::I8 | Kind::Bool => fixed(1),
        Kind::U16 | Kind::I16 => fixed(2),
        Kind::U32 | Kind::I32 | Kind::F32 | Kind::Char => fixed(4),
        Kind::U64 | Kind::I64 | Kind::F64 => fixed(8),
        Kind::U128 | Kind::I128 => fixed(16),
        Kind::Array => Shape::array(inner(), count),
        Kind::Vec => Shape { of: Some(inner()), ..fixed(8) },
        Kind::Option => Shape { of: Some(inner()), at: 8, ..fixed(24) },
        Kind::Struct => Shape::structure(rng.below(100) as u32, any_fields(rng, depth - 1)),
        Kind::Enum => any_enum(rng),
        Kind::String => fixed(8),
        Kind::Any => fixed(0),
        _ => fixed(rng.below(30) as u32),
    }
}

fn any_enum(rng: &mut Rng) -> Shape<'static> {
    const OF: Shape<'static> = Shape::plain(Kind::I16, 2);
    let labels: Vec<_> =
        (0..rng.below(4)).map(|_| Label { value: rng.wide() as i64, name: text(rng, 9) }).collect();
    Shape { of: Some(&OF), labels: labels.leak(), ..Shape::plain(Kind::Enum, 2) }
}
