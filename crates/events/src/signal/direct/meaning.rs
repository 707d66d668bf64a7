//! The fields of a log record with a reserved name.

use super::found::Direct;
use perfring_telemetry::names;
use perfring_types::Class;
use perfring_types::tagged::{CUT, Data};

/// A reserved name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    Time,
    Pid,
    Scope,
    Cut,
    Number,
    Text,
    Body,
    Trace,
    Span,
    Event,
    Observed,
}

impl Meaning {
    pub(super) fn of(class: Class, name: &str) -> Option<Self> {
        Some(match (class, name) {
            (_, names::TRACE_ID) => Meaning::Trace,
            (_, names::SPAN_ID) => Meaning::Span,
            (Class::Log, names::TIME) => Meaning::Time,
            (Class::Log, names::PID) => Meaning::Pid,
            (Class::Log, names::SCOPE) => Meaning::Scope,
            (Class::Log, CUT) => Meaning::Cut,
            (Class::Log, names::SEVERITY_NUMBER) => Meaning::Number,
            (Class::Log, names::SEVERITY_TEXT) => Meaning::Text,
            (Class::Log, names::BODY) => Meaning::Body,
            (Class::Log, names::EVENT_NAME) => Meaning::Event,
            (Class::Log, names::OBSERVED_TIME) => Meaning::Observed,
            _ => return None,
        })
    }
}

/// What is read of a record.
#[derive(Default)]
pub(super) struct Reading<'a> {
    pub(super) found: Direct<'a>,
    /// The meanings that were found, a bit each.
    seen: u16,
}

impl<'a> Reading<'a> {
    /// Takes a value with a meaning; `None` if it is invalid or the second one.
    #[inline]
    pub(super) fn take(&mut self, meaning: Meaning, value: Data<'a>) -> Option<()> {
        let bit = 1 << meaning as u16;
        if self.seen & bit != 0 {
            return None;
        }
        self.seen |= bit;
        let found = &mut self.found;
        match meaning {
            Meaning::Time => found.time = Some(unsigned(value)?),
            Meaning::Pid => found.pid = Some(unsigned(value)?),
            Meaning::Observed => found.observed = Some(unsigned(value)?),
            Meaning::Scope => found.scope = text(value)?,
            Meaning::Text => found.severity_text = text(value)?,
            Meaning::Event => found.event_name = text(value)?,
            Meaning::Body => found.body = Some(value),
            Meaning::Trace => found.trace_id = Some(id(value)?),
            Meaning::Span => found.span_id = Some(id(value)?),
            Meaning::Number => {
                let number = u8::try_from(unsigned(value)?).ok()?;
                found.severity_number = Some(number).filter(|number| (1..=24).contains(number))?;
            }
            Meaning::Cut => {
                found.truncated = match value {
                    Data::U64s(counts) => counts.iter().fold(0, u64::saturating_add),
                    value => unsigned(value)?,
                };
            }
        }
        Some(())
    }
}

fn unsigned(value: Data<'_>) -> Option<u64> {
    match value {
        Data::U64(value) => Some(value),
        Data::I64(value) => u64::try_from(value).ok(),
        _ => None,
    }
}

fn text(value: Data<'_>) -> Option<&str> {
    match value {
        Data::Text(text) => Some(text),
        _ => None,
    }
}

fn id<const N: usize>(value: Data<'_>) -> Option<[u8; N]> {
    match value {
        Data::Bytes(bytes) => bytes.try_into().ok().filter(|id| *id != [0; N]),
        _ => None,
    }
}
