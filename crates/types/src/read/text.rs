//! Values as a line of text.

use super::types::{Type, TypeField, TypeShape};
use super::value::{Value, hex, not_finite};
use std::fmt;

/// A value as one line of text: `Display`.
///
/// `name=value unit` for each field, `{x=1 y=2}` for structs in it, `[1 2 3]` for lists. Text,
/// names and units stand without quotes, or as Rust's `{:?}` writes them if they are empty or hold
/// spaces, quotes, control characters or others that a terminal would not show as they are. A
/// unit of `1` is left out.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    fields: Option<Fields<'a>>,
    value: &'a Value,
}

impl Type {
    /// This type's `value` as one line of text, with units.
    #[must_use]
    pub fn text<'a>(&'a self, value: &'a Value) -> Text<'a> {
        Text { fields: Some(Fields::Type(self)), value }
    }

    /// The same as a `String`.
    #[must_use]
    pub fn render_text(&self, value: &Value) -> String {
        self.text(value).to_string()
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::Struct(values) => members(f, self.fields, values),
            other => one(f, None, other),
        }
    }
}

/// As [`Text`], without units.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Text { fields: None, value: self }.fmt(f)
    }
}

/// Where the units are.
#[derive(Clone, Copy, Debug)]
enum Fields<'a> {
    /// Of a whole record, whose values need not all be there.
    Type(&'a Type),
    /// Of a struct, whose values are in the fields' order.
    Struct(&'a [TypeField]),
}

fn members(
    f: &mut fmt::Formatter<'_>,
    mut fields: Option<Fields<'_>>,
    values: &[(std::sync::Arc<str>, Value)],
) -> fmt::Result {
    for (at, (name, value)) in values.iter().enumerate() {
        if at > 0 {
            f.write_str(" ")?;
        }
        let field = match &mut fields {
            None => None,
            Some(Fields::Type(kind)) => kind.field(name),
            Some(Fields::Struct(left)) => {
                // Those that cannot be shown are passed over.
                let found = left.iter().position(|field| field.name == *name);
                let field = found.and_then(|at| left.get(at));
                *left = found.and_then(|at| left.get(at + 1..)).unwrap_or_default();
                field
            }
        };
        word(f, name)?;
        f.write_str("=")?;
        one(f, field.map(|field| &field.shape), value)?;
        if let Some(field) = field
            && !matches!(&*field.unit, "" | "1")
        {
            f.write_str(" ")?;
            word(f, &field.unit)?;
        }
    }
    Ok(())
}

fn one(f: &mut fmt::Formatter<'_>, shape: Option<&TypeShape>, value: &Value) -> fmt::Result {
    let of = shape.and_then(|shape| shape.of.as_deref());
    match value {
        Value::List(values) => {
            f.write_str("[")?;
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    f.write_str(" ")?;
                }
                one(f, of, value)?;
            }
            f.write_str("]")
        }
        Value::Struct(values) => {
            // What an option holds has the option's place.
            let inner = shape.map(|shape| of.unwrap_or(shape));
            f.write_str("{")?;
            members(f, inner.map(|shape| Fields::Struct(&shape.fields)), values)?;
            f.write_str("}")
        }
        scalar => plain(f, scalar),
    }
}

fn plain(f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(value) => write!(f, "{value}"),
        Value::I64(value) => write!(f, "{value}"),
        Value::U64(value) => write!(f, "{value}"),
        Value::I128(value) => write!(f, "{value}"),
        Value::U128(value) => write!(f, "{value}"),
        Value::F32(value) => match not_finite((*value).into()) {
            Some(name) => f.write_str(name),
            None => write!(f, "{value:?}"),
        },
        Value::F64(value) => match not_finite(*value) {
            Some(name) => f.write_str(name),
            None => write!(f, "{value:?}"),
        },
        Value::Char(value) => word(f, value.encode_utf8(&mut [0; 4])),
        Value::Str(value) => word(f, value),
        Value::Bytes(value) => f.write_str(&hex(value)),
        Value::Label { name: Some(name), .. } => word(f, name),
        Value::Label { value, name: None } => write!(f, "{value}"),
        Value::List(_) | Value::Struct(_) => Ok(()), // not plain
    }
}

/// Text in quotes only if it needs them.
fn word(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let quotes = |c: char| c.is_whitespace() || (c != '\'' && c.escape_debug().len() > 1);
    if text.is_empty() || text.contains(quotes) { write!(f, "{text:?}") } else { f.write_str(text) }
}
