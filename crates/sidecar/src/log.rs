//! The sidecar's messages, and how they are written.
//!
//! A message goes to the caller of [`Sidecar::run`](crate::Sidecar::run) as a value, so a program that has
//! a sidecar in it can do with it what it likes; [`Log`] writes it as the command does. This is no
//! subscriber of `tracing`: that is one for a whole process, and has neither this form nor limits.

use perfring_export::later;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::time::{Duration, Instant, SystemTime};

/// How many messages that differ in numbers only, of one output, are written in [`INTERVAL`].
const SAME: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(60);
/// The limit of different messages that are remembered; beyond it all are forgotten.
const REMEMBERED: usize = 1024;

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The sidecar ends because of it.
    Error,
    /// Something is wrong, and the sidecar goes on.
    Warn,
    /// What an operator wants to know.
    Info,
    /// What rings come and go.
    Debug,
}

impl Level {
    /// Returns its name in a line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// How much it matters.
    pub level: Level,
    /// The output that it is about.
    pub output: Option<&'a str>,
    /// A sentence.
    pub text: &'a str,
    /// It comes at intervals, so it is written however often that is.
    pub is_periodic: bool,
}

impl fmt::Display for Message<'_> {
    /// Writes the output, if it is about one, and the sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.output {
            Some(output) => write!(f, "{output}: {}", self.text),
            None => f.write_str(self.text),
        }
    }
}

/// Takes messages.
pub(crate) struct Say<'a>(pub(crate) &'a mut dyn FnMut(&Message<'_>));

impl Say<'_> {
    fn say(&mut self, level: Level, output: Option<&str>, text: &str) {
        (self.0)(&Message { level, output, text, is_periodic: false });
    }

    pub(crate) fn warn(&mut self, text: &str) {
        self.say(Level::Warn, None, text);
    }

    pub(crate) fn info(&mut self, text: &str) {
        self.say(Level::Info, None, text);
    }

    pub(crate) fn debug(&mut self, text: &str) {
        self.say(Level::Debug, None, text);
    }

    /// Says something of an output.
    pub(crate) fn of(&mut self, output: &str, level: Level, text: &str) {
        self.say(level, Some(output), text);
    }

    /// Says the figures.
    pub(crate) fn figures(&mut self, level: Level, text: &str) {
        (self.0)(&Message { level, output: None, text, is_periodic: true });
    }
}

/// The form of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// `time=2026-07-01T12:00:00.123Z level=warn output=otlp msg="no route to host"`.
    #[default]
    Text,
    /// The same members as an object of JSON.
    Json,
}

/// Formats messages as lines, and holds back what repeats itself.
///
/// Of messages of one output that differ in numbers only, ten a minute are written. How many were held
/// back is said once the minute is over, with the next message, or at the end.
///
/// ```
/// use perfring_sidecar::{Level, Log, LogFormat, Message};
/// let mut log = Log::new(LogFormat::Text, Level::Info);
/// let text = "no route to host";
/// let message = Message { level: Level::Warn, output: Some("otlp"), text, is_periodic: false };
/// let mut out = String::new();
/// (0..17).for_each(|_| log.write(&message, |line| out += line));
/// assert!(out.starts_with("time=2") && out.ends_with("level=warn output=otlp msg=\"no route to host\"\n"));
/// assert_eq!(out.lines().count(), 10);
/// log.finish(|line| out += line);
/// assert!(out.ends_with("msg=\"no route to host (7 more like this were held back)\"\n"));
/// ```
#[derive(Debug)]
pub struct Log {
    format: LogFormat,
    /// What matters less is left out.
    least: Level,
    said: HashMap<Key, Said>,
    /// When the oldest of them is forgotten.
    next: Option<Instant>,
}

/// A message without its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    output: Option<String>,
    text: String,
}

#[derive(Debug)]
struct Said {
    since: Instant,
    count: u32,
    held: u64,
    level: Level,
    /// The last one that was held back.
    last: String,
}

impl Log {
    /// Creates a log of what matters at least so much.
    #[must_use]
    pub fn new(format: LogFormat, least: Level) -> Self {
        Log { format, least, said: HashMap::new(), next: None }
    }

    /// Passes a message to `write` as a line, unless it is held back or matters less.
    pub fn write(&mut self, message: &Message<'_>, mut write: impl FnMut(&str)) {
        self.write_at(message, Instant::now(), &mut write);
    }

    /// Reports what was held back.
    pub fn finish(&mut self, mut write: impl FnMut(&str)) {
        self.forget(|_| true, &mut write);
    }

    fn write_at(&mut self, message: &Message<'_>, now: Instant, write: &mut dyn FnMut(&str)) {
        if message.level > self.least {
            return;
        }
        if self.next.is_some_and(|next| now >= next) {
            self.forget(|said| now.duration_since(said.since) >= INTERVAL, write);
            self.next = self.said.values().map(|said| later(said.since, INTERVAL)).min();
        }
        if message.is_periodic || self.is_due(message, now) {
            write(&self.line(message.level, message.output, message.text));
        }
    }

    /// Counts a message. Returns whether it is written.
    fn is_due(&mut self, message: &Message<'_>, now: Instant) -> bool {
        if self.said.len() >= REMEMBERED {
            self.said.clear();
        }
        let key = Key {
            output: message.output.map(str::to_owned),
            text: message
                .text
                .split(|c: char| c.is_ascii_digit())
                .filter(|it| !it.is_empty())
                .collect(),
        };
        let said = self.said.entry(key).or_insert(Said {
            since: now,
            count: 0,
            held: 0,
            level: message.level,
            last: String::new(),
        });
        self.next.get_or_insert(later(now, INTERVAL));
        if said.count < SAME {
            said.count += 1;
            return true;
        }
        said.held += 1;
        said.last.clear();
        said.last.push_str(message.text);
        false
    }

    /// Forgets some messages, and reports those that were held back.
    fn forget(&mut self, which: impl Fn(&Said) -> bool, write: &mut dyn FnMut(&str)) {
        let mut held = Vec::new();
        self.said.retain(|key, said| {
            let goes = which(said);
            if goes && said.held > 0 {
                held.push((
                    key.output.clone(),
                    said.level,
                    format!("{} ({} more like this were held back)", said.last, said.held),
                ));
            }
            !goes
        });
        held.sort();
        for (output, level, text) in held {
            write(&self.line(level, output.as_deref(), &text));
        }
    }

    fn line(&self, level: Level, output: Option<&str>, text: &str) -> String {
        let time = humantime::format_rfc3339_millis(SystemTime::now());
        let level = level.name();
        let mut line = String::new();
        match self.format {
            LogFormat::Text => {
                let _ = write!(line, "time={time} level={level}");
                if let Some(output) = output {
                    let _ = write!(line, " output={}", quoted(output));
                }
                let _ = write!(line, " msg={}", quoted(text));
            }
            LogFormat::Json => {
                let mut object = json!({ "time": time.to_string(), "level": level, "msg": text });
                if let Some(output) = output {
                    object["output"] = output.into();
                }
                line = object.to_string();
            }
        }
        line.push('\n');
        line
    }
}

/// Quotes a value of `key=value`, unless it is a word.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '=' | '\\');
    match !value.is_empty() && value.chars().all(is_plain) {
        true => value.to_owned(),
        // As JSON does it: no line of a log has a control character in it.
        false => serde_json::Value::from(value).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_itself_is_held_back_by_output_and_counted() {
        let mut log = Log::new(LogFormat::Json, Level::Info);
        let began = Instant::now();
        let mut lines: Vec<String> = Vec::new();
        let mut say = |output, text: &str, level, seconds| {
            let message = Message { level, output, text, is_periodic: text.contains("rings") };
            let now = began + Duration::from_secs(seconds);
            log.write_at(&message, now, &mut |line| lines.push(line.to_owned()));
        };
        for n in 0..100 {
            say(Some("a"), &format!("{n} items were refused"), Level::Warn, n / 2);
            say(Some("b"), &format!("{n} items were refused"), Level::Warn, n / 2);
            say(None, &format!("{n} rings"), Level::Info, n / 2);
            say(None, "a ring is read", Level::Debug, n / 2);
        }
        say(Some("a"), "recovered", Level::Info, 61);
        let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
        assert_eq!(count(" items were refused\""), 20, "ten of each");
        assert_eq!(count(" rings"), 100);
        assert_eq!(count("99 items were refused (90 more like this were held back)"), 2);
        assert_eq!(lines.len(), 20 + 100 + 2 + 1, "{lines:#?}");
        assert!(
            lines[122].contains("\"msg\":\"recovered\"") && lines[122].contains("\"output\":\"a\"")
        );
    }

    #[test]
    fn lines_have_no_line_ends_in_them() {
        assert_eq!(quoted("plain-word"), "plain-word");
        assert_eq!(quoted("two\nlines \"quoted\" = x"), "\"two\\nlines \\\"quoted\\\" = x\"");
        assert_eq!(quoted(""), "\"\"");
    }
}
