//! Values as a line of text.

use super::types::{Type, TypeField, TypeShape};
use super::value::{Value, hex, not_finite};
use std::fmt::{self, Display as _};

/// Writes a value as one line of text (`Display`).
///
/// `name=value unit` for each field, `{x=1 y=2}` for nested structs, `[1 2 3]` for lists. Text,
/// names and units have no quotes, or are written like Rust's `{:?}` if they are empty or contain
/// spaces, quotes, control characters or others that a terminal does not show as they are. A unit
/// of `1` is left out.
#[derive(Clone, Copy, Debug)]
pub struct TextLine<'a> {
    fields: Option<Fields<'a>>,
    value: &'a Value,
}

impl Type {
    /// Returns this type's `value` as one line of text, with units.
    #[must_use]
    pub fn text<'a>(&'a self, value: &'a Value) -> TextLine<'a> {
        TextLine { fields: Some(Fields::Type(self)), value }
    }

    /// Returns this type's `value` as a `String` of one line, with units.
    #[must_use]
    pub fn render_text(&self, value: &Value) -> String {
        self.text(value).to_string()
    }
}

impl fmt::Display for TextLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::Struct(values) => members(f, self.fields, values),
            other => one(f, None, other),
        }
    }
}

/// Writes a value as one line of text like [`TextLine`], without units.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TextLine { fields: None, value: self }.fmt(f)
    }
}

/// The source of the units.
#[derive(Clone, Copy, Debug)]
enum Fields<'a> {
    /// A whole record, in which values may be missing.
    Type(&'a Type),
    /// A struct, whose values are in the fields' order.
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
                // Fields that cannot be shown are skipped.
                let found = left.iter().position(|field| field.name == *name);
                let field = found.and_then(|at| left.get(at));
                *left = found.and_then(|at| left.get(at + 1..)).unwrap_or_default();
                field
            }
        };
        word(name).fmt(f)?;
        f.write_str("=")?;
        one(f, field.map(|field| &field.shape), value)?;
        if let Some(field) = field
            && !matches!(&*field.unit, "" | "1")
        {
            f.write_str(" ")?;
            word(&field.unit).fmt(f)?;
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
            // The value in an option is shown in its place.
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
        Value::Char(value) => word(value.encode_utf8(&mut [0; 4])).fmt(f),
        Value::Str(value) => word(value).fmt(f),
        Value::Bytes(value) => f.write_str(&hex(value)),
        Value::Label { name: Some(name), .. } => word(name).fmt(f),
        Value::Label { value, name: None } => write!(f, "{value}"),
        Value::List(_) | Value::Struct(_) => Ok(()), // not plain
    }
}

/// Returns a name or a text for a line: as it is, or like Rust's `{:?}` if it is empty or contains
/// spaces, quotes or characters that [`disturbs`] selects.
///
/// ```
/// use perfring_types::read::word;
/// assert_eq!(word("demo.Tick").to_string(), "demo.Tick");
/// assert_eq!(word("two words").to_string(), "\"two words\"");
/// ```
#[must_use]
pub fn word(text: &str) -> Word<'_> {
    Word(text)
}

/// A text for a line, see [`word`].
#[derive(Clone, Copy, Debug)]
pub struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let odd =
            |c: char| c.is_whitespace() || disturbs(c) || (c != '\'' && c.escape_debug().len() > 1);
        if !self.0.is_empty() && !self.0.contains(odd) {
            return f.write_str(self.0);
        }
        // `{:?}` leaves some of them as they are.
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '\'' => f.write_str("'")?,
                c if disturbs(c) && !c.is_control() => write!(f, "{}", c.escape_unicode())?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        f.write_str("\"")
    }
}

/// Returns whether a terminal would interpret the character, break the line, not show it, or show
/// what follows in another order.
#[must_use]
pub fn disturbs(c: char) -> bool {
    // Not U+200C and U+200D, which Persian and joined emoji need.
    c.is_control() && c != '\t'
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}
