//! Formats a type as text for people.

use crate::columns::paragraph;
use perfring_export::json::class_of;
use perfring_figures::escape::{one_line, word};
use perfring_types::read::{Type, TypeField, TypeShape, Value};
use perfring_types::{Encoding, Kind};
use std::io::{self, Write};

/// The widest columns for names and kinds, in characters and as part of a line.
const NAME_MAX: usize = 28;
const KIND_MAX: usize = 20;
/// On narrower lines nothing is aligned to columns.
const COLUMNS_MIN: usize = 48;
/// The indent of a field's unit, help and labels if they do not fit beside it.
const BELOW: usize = 4;

/// Writes a type; with the names of the rings that have it, if it is not all.
pub(super) fn write(
    out: &mut impl Write,
    kind: &Type,
    rings: Option<&[String]>,
    width: Option<usize>,
) -> io::Result<()> {
    writeln!(out, "{}", word(&kind.name))?;
    let mut line = |name: &str, text: &str| {
        writeln!(out, "{}", paragraph(&format!("  {name:<10} "), &one_text(text), width))
    };
    if let Some(rings) = rings {
        line("rings", &rings.join(", "))?;
    }
    line("type", &number(kind.id.get()))?;
    line("version", &kind.version.to_string())?;
    line("encoding", &encoding(kind))?;
    if let Some(class) = class_of(kind) {
        line("class", class)?;
    }
    if !kind.help.is_empty() {
        line("help", &kind.help)?;
    }
    let mut rows = Vec::new();
    let tagged = kind.encoding.known() == Some(Encoding::Tagged);
    collect(&mut rows, &kind.fields, 0, tagged);
    fields(out, &rows, width)
}

/// Formats a type's number: small numbers are chosen; those with the highest bit set are a hash.
fn number(id: u32) -> String {
    if id >> 31 == 0 { format!("{id} ({id:#x})") } else { format!("{id:#010x} ({id})") }
}

/// Joins the lines of a text, as doc comments have several.
fn one_text(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    one_line(&words.join(" "))
}

fn encoding(kind: &Type) -> String {
    let name = match &*kind.format {
        "" => kind.encoding.name().to_owned(),
        format => format!("{} ({format})", kind.encoding.name()),
    };
    let root = if kind.encoding.known() == Some(Encoding::Rkyv) { "root of " } else { "" };
    match kind.size {
        0 => name,
        size => format!("{name}, {root}{size} bytes"),
    }
}

struct Row<'a> {
    depth: usize,
    at: String,
    name: String,
    kind: String,
    field: &'a TypeField,
}

fn collect<'a>(rows: &mut Vec<Row<'a>>, fields: &'a [TypeField], depth: usize, tagged: bool) {
    for (nth, field) in fields.iter().enumerate() {
        let at = match &field.constant {
            Some(_) => String::new(),
            None if tagged => format!("#{nth}"),
            None => field.at.to_string(),
        };
        let kind = match &field.constant {
            Some(value) => format!("= {}", constant(value)),
            None => shape(&field.shape),
        };
        rows.push(Row { depth, at, name: word(&field.name), kind, field });
        collect(rows, inner(&field.shape).map_or(&[], |shape| &shape.fields), depth + 1, false);
    }
}

fn constant(value: &Value) -> String {
    match value {
        Value::Str(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// Returns the struct that a shape is, or contains.
fn inner(shape: &TypeShape) -> Option<&TypeShape> {
    match &shape.of {
        _ if shape.kind.known() == Some(Kind::Struct) => Some(shape),
        Some(of) => inner(of),
        None => None,
    }
}

fn shape(is: &TypeShape) -> String {
    let of = || is.of.as_ref().map_or_else(|| "?".to_owned(), |of| shape(of));
    match is.kind.known() {
        Some(Kind::Array) => format!("[{}; {}]", of(), is.count),
        Some(Kind::Vec) => format!("vec of {}", of()),
        Some(Kind::Option) => format!("option of {}", of()),
        Some(Kind::Enum) => format!("enum of {}", of()),
        Some(Kind::Text | Kind::Bytes) => format!("{}[{}]", is.kind.name(), is.size),
        Some(_) => is.kind.name().to_owned(),
        None if is.size == 0 => word(is.kind.name()),
        None => format!("{}[{}]", word(is.kind.name()), is.size),
    }
}

/// Returns the labels of the enumeration that a shape is, or contains.
fn labels(shape: &TypeShape) -> Vec<String> {
    let own = shape.labels.iter().map(|label| format!("{}={}", label.value, word(&label.name)));
    let own: Vec<String> = own.collect();
    match &shape.of {
        Some(of) if own.is_empty() && shape.fields.is_empty() => labels(of),
        _ => own,
    }
}

/// Formats a field's unit, help and labels.
fn remarks(field: &TypeField) -> String {
    let mut parts = Vec::new();
    if !field.unit.is_empty() {
        parts.push(format!("[{}]", word(&field.unit)));
    }
    if !field.help.is_empty() {
        parts.push(one_text(&field.help));
    }
    let labels = labels(&field.shape);
    if !labels.is_empty() {
        parts.push(labels.join(" "));
    }
    parts.join(" ")
}

fn fields(out: &mut impl Write, rows: &[Row<'_>], width: Option<usize>) -> io::Result<()> {
    let len = |text: &str| text.chars().count();
    let widest = |of: &dyn Fn(&Row<'_>) -> usize, max| {
        rows.iter().map(of).filter(|len| *len <= max).max().unwrap_or(0)
    };
    let wide = width.is_none_or(|width| width >= COLUMNS_MIN);
    let at = widest(&|row| len(&row.at), 8);
    let name = widest(&|row| 2 * row.depth + len(&row.name), if wide { NAME_MAX } else { 0 });
    let kind = widest(&|row| len(&row.kind), if wide { KIND_MAX } else { 0 });
    for row in rows {
        let indent = 2 * row.depth;
        let title = format!("  {:>at$}  {:indent$}{}", row.at, "", row.name);
        let gap = " ".repeat((at + 4 + name).saturating_sub(len(&title)));
        let title = format!("{title}{gap}  {}", row.kind);
        let gap = " ".repeat((at + 4 + name + 2 + kind).saturating_sub(len(&title)));
        let remarks = remarks(row.field);
        if remarks.is_empty() {
            writeln!(out, "{}", title.trim_end())?;
            continue;
        }
        let beside = format!("{title}{gap}  ");
        // Beside it only if half of the line is left for it.
        if width.is_none_or(|width| len(&beside) <= width / 2) {
            writeln!(out, "{}", paragraph(&beside, &remarks, width))?;
        } else {
            let below = " ".repeat(at + 4 + indent + BELOW);
            writeln!(out, "{}\n{}", title.trim_end(), paragraph(&below, &remarks, width))?;
        }
    }
    Ok(())
}
