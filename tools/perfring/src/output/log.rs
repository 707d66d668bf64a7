//! Log records and spans as text for people.

use crate::records::typed::Seen;
use crate::verbosity::{Painted, Style};
use perfring_export::utc_micros;
use perfring_figures::escape::{one_line, word};
use perfring_types::Class;
use perfring_types::read::{Type, Value};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// Digits of an id that are shown: enough to distinguish those of a few minutes.
const ID_DIGITS: usize = 8;
/// Columns of the level, so that the messages are aligned.
const LEVEL: usize = 5;

/// Alternative names of one field: the first that is present counts. The first of each is
/// OpenTelemetry's, as `perfring-telemetry` writes it.
const LEVELS: &[&str] = &["severity_text", "level"];
const TARGETS: &[&str] = &["otel.scope.name", "target"];
const BODIES: &[&str] = &["body", "event_name", "message", "name"];
const NAMES: &[&str] = &["name"];
const IDS: [(&str, &str); 3] =
    [("trace", "trace_id"), ("span", "span_id"), ("parent", "parent_span_id")];

/// Writes the record if it is a log record or a span: level or span event, target, message, other
/// fields, ids, source location. Returns whether it is.
pub(super) fn record(out: &mut impl Write, seen: &Seen<'_>) -> io::Result<bool> {
    let Some((kind, Value::Struct(fields))) = seen.values() else { return Ok(false) };
    let class = kind.class.known();
    let mut rest = Rest { kind, fields: fields.clone() };
    let log = class == Some(Class::Log);
    let level = rest.level();
    let title = match class {
        Some(Class::Log) => level,
        // Without a name: more of a span that has begun.
        Some(Class::SpanStart) if !rest.has("name") => "more".to_owned(),
        Some(Class::SpanStart) => "start".to_owned(),
        Some(Class::SpanEnd) => "end".to_owned(),
        _ => return Ok(false),
    };
    // Present in records only where the ring has no timestamps.
    if let Some(ns) = rest.number("time_unix_nano") {
        write!(out, "{} ", utc_micros(ns))?;
    }
    let target = rest.text(TARGETS);
    let body = rest.text(if log { BODIES } else { NAMES });
    let took = if log { None } else { rest.number("duration_nano") };
    let ids: Vec<String> = IDS.iter().filter_map(|(short, name)| rest.id(short, name)).collect();
    let pid = rest.number("process.pid");
    let source = rest.source();
    write!(out, "{}", Painted(style(&title), format!("{title:<LEVEL$}")))?;
    if let Some(target) = target {
        write!(out, " {}:", word(&target))?;
    }
    if let Some(body) = body {
        write!(out, " {}", one_line(&body))?;
    }
    if let Some(took) = took {
        write!(out, " took {:?}", Duration::from_nanos(took))?;
    }
    if !rest.fields.is_empty() {
        write!(out, "  {}", kind.text(&Value::Struct(rest.fields)))?;
    }
    let pid = pid.map(|pid| format!("pid={pid}"));
    let last: Vec<String> = ids.into_iter().chain(pid).chain(source).collect();
    if !last.is_empty() {
        write!(out, "  {}", last.join(" "))?;
    }
    Ok(true)
}

/// Returns the emphasis of a level.
fn style(level: &str) -> Style {
    let is = |names: &[&str]| names.iter().any(|name| level.eq_ignore_ascii_case(name));
    if is(&["error", "fatal", "critical", "emerg", "alert"]) {
        Style::Bad
    } else if is(&["warn", "warning"]) {
        Style::Warning
    } else if is(&["trace", "debug"]) {
        Style::Dim
    } else {
        Style::Plain
    }
}

/// The fields of a record that are not shown yet.
struct Rest<'a> {
    kind: &'a Type,
    fields: Vec<(Arc<str>, Value)>,
}

impl Rest<'_> {
    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| &**field == name)
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.fields.iter().position(|(field, _)| &**field == name)?;
        Some(self.fields.remove(at).1).filter(|value| *value != Value::Null)
    }

    /// Takes the first of these fields that is present.
    fn text(&mut self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.take(name)).map(|value| match value {
            Value::Str(text) => text,
            other => other.to_string(),
        })
    }

    /// Takes the severity as text: the record's own, or the range of its number.
    fn level(&mut self) -> String {
        let said = self.text(LEVELS).map(|text| word(&text));
        let number = self.number("severity_number");
        let of = |number| match number {
            1..=4 => "TRACE",
            5..=8 => "DEBUG",
            9..=12 => "INFO",
            13..=16 => "WARN",
            17..=20 => "ERROR",
            21..=24 => "FATAL",
            _ => "?",
        };
        said.unwrap_or_else(|| number.map_or("log", of).to_owned())
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        let (_, value) = self.fields.iter().find(|(field, _)| &**field == name)?;
        let number = match value {
            Value::U64(number) => *number,
            Value::I64(number) | Value::Label { value: number, .. } => {
                u64::try_from(*number).ok()?
            }
            _ => return None,
        };
        self.take(name);
        Some(number)
    }

    /// Takes the source location.
    fn source(&mut self) -> Option<String> {
        self.take("code.module.name");
        let file = self.text(&["code.file.path"])?;
        let line = self.number("code.line.number").map_or(String::new(), |line| format!(":{line}"));
        Some(format!("at {}{line}", word(&file)))
    }

    /// Takes an id, its first digits. An id of zeros is none.
    fn id(&mut self, short: &str, name: &str) -> Option<String> {
        // Only if the table calls it so: a name that came with the value belongs to the
        // application.
        self.kind.field(name)?;
        let text = match self.take(name)? {
            Value::U64(value) => format!("{value:016x}"),
            Value::I64(value) => format!("{value:016x}"),
            Value::U128(value) => format!("{value:032x}"),
            Value::Str(text) => text,
            other => other.to_string(),
        };
        let some = text.chars().any(|c| c != '0');
        let digits: String = text.chars().take(ID_DIGITS).collect();
        some.then(|| format!("{short}={}", word(&digits)))
    }
}
