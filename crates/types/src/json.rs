//! The line of JSON in the type table.

use crate::schema::{Class, Constant, Field, Kind, Schema, Shape};
use alloc::string::String;
use core::fmt::Write as _;

impl Schema<'_> {
    /// Returns the line of JSON for the type table. Empty and zero values are left out.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = ObjectText::new(String::new());
        out.text("name", self.name);
        out.number("version", self.version.into());
        out.text("encoding", self.encoding.name());
        if self.class != Class::Plain {
            out.text("class", self.class.name());
        }
        out.number("size", self.size.into());
        out.text("format", self.format);
        out.text("help", self.help);
        out.fields("fields", self.fields);
        out.end()
    }
}

/// A JSON object under construction.
struct ObjectText {
    out: String,
    first: bool,
}

impl ObjectText {
    fn new(mut out: String) -> Self {
        out.push('{');
        ObjectText { out, first: true }
    }

    fn end(mut self) -> String {
        self.out.push('}');
        self.out
    }

    fn key(&mut self, key: &str) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
        quote(&mut self.out, key);
        self.out.push(':');
    }

    fn text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.key(key);
            quote(&mut self.out, text);
        }
    }

    fn number(&mut self, key: &str, number: i64) {
        if number != 0 {
            self.key(key);
            let _ = write!(self.out, "{number}");
        }
    }

    /// Adds a value that is an object of its own.
    fn object(&mut self, key: &str, fill: impl FnOnce(&mut ObjectText)) {
        self.key(key);
        let mut inner = ObjectText::new(core::mem::take(&mut self.out));
        fill(&mut inner);
        self.out = inner.end();
    }

    /// Adds a value that is a list of objects.
    fn list<T>(&mut self, key: &str, items: &[T], fill: impl Fn(&mut ObjectText, &T)) {
        if items.is_empty() {
            return;
        }
        self.key(key);
        for (at, item) in items.iter().enumerate() {
            self.out.push(if at == 0 { '[' } else { ',' });
            let mut inner = ObjectText::new(core::mem::take(&mut self.out));
            fill(&mut inner, item);
            self.out = inner.end();
        }
        self.out.push(']');
    }

    fn fields(&mut self, key: &str, fields: &[Field<'_>]) {
        self.list(key, fields, |out, field| {
            out.text("name", field.name);
            out.number("at", field.at.into());
            match field.constant {
                Some(constant) => out.constant(constant),
                None => out.shape(&field.shape),
            }
            out.text("unit", field.unit);
            out.text("help", field.help);
        });
    }

    fn constant(&mut self, constant: Constant<'_>) {
        self.key("constant");
        let _ = match constant {
            Constant::Bool(value) => write!(self.out, "{value}"),
            Constant::I64(value) => write!(self.out, "{value}"),
            Constant::U64(value) => write!(self.out, "{value}"),
            Constant::F64(value) if value.is_finite() => write!(self.out, "{value:?}"),
            Constant::F64(_) => write!(self.out, "null"),
            Constant::Str(value) => {
                quote(&mut self.out, value);
                Ok(())
            }
        };
    }

    fn shape(&mut self, shape: &Shape<'_>) {
        self.text("kind", shape.kind.name());
        // The size of other kinds is known.
        if matches!(shape.kind, Kind::Text | Kind::Bytes | Kind::Struct | Kind::Option) {
            self.number("size", shape.size.into());
        }
        self.number("count", shape.count.into());
        self.number("value_at", shape.at.into());
        if let Some(of) = shape.of {
            self.object("of", |out| out.shape(of));
        }
        self.list("labels", shape.labels, |out, label| {
            out.key("value");
            let _ = write!(out.out, "{}", label.value);
            out.text("name", label.name);
        });
        self.fields("fields", shape.fields);
    }
}

/// Writes text as a JSON string (RFC 8259, section 7).
fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
