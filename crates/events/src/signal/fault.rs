//! Why a record does not match its class.

use perfring_types::Class;
use perfring_types::read::Value;
use std::fmt;

/// Why a record does not match its class, or cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The class of its type.
    pub class: Class,
    /// The cause, one of [`Fault::CAUSES`]: a word for counters.
    pub cause: &'static str,
    /// The same as a sentence, in lower case.
    pub sentence: String,
}

/// A cause, and its sentence.
pub(super) type Wrong = (&'static str, &'static str);

pub(super) const NO_FIELDS: Wrong = (NO_CONTENT, "it has no fields");
pub(super) const NO_TRACE: Wrong = ("no_id", "a span without a trace_id of 16 bytes");
pub(super) const NO_SPAN: Wrong = ("no_id", "a span without a span_id of 8 bytes");
pub(super) const NO_NAME: Wrong = ("no_name", "a sample without the name of its instrument");
pub(super) const NO_NUMBER: Wrong = ("no_number", "a gauge without a number");
pub(super) const NO_SUM: Wrong = ("no_number", "a sum without a number");
pub(super) const NO_MEASUREMENT: Wrong = ("no_number", "a histogram without a number or counts");
pub(super) const NO_FINITE_SUM: Wrong = ("not_finite", "a sum that is infinite or not a number");
pub(super) const NO_FINITE_MEASUREMENT: Wrong =
    ("not_finite", "a histogram whose measurement is infinite or not a number");
pub(super) const NO_FINITE_TOTAL: Wrong =
    ("not_finite", "a histogram whose sum, min or max is infinite or not a number");
pub(super) const NO_TEMPORALITY: Wrong =
    ("no_temporality", "a sum or a histogram that does not say what it counts from");
pub(super) const NEGATIVE: Wrong = ("negative", "a sum that only grows, and is negative");
pub(super) const NO_COUNT: Wrong =
    ("negative", "a histogram whose counts are not whole numbers from 0 on");
pub(super) const BOUNDS: Wrong =
    ("bounds", "a histogram whose bounds are not finite numbers that rise");
pub(super) const SCALE: Wrong =
    ("bounds", "a histogram whose scale is not from -10 to 20, or whose offset is no index");
pub(super) const BUCKETS: Wrong =
    ("buckets", "a histogram whose buckets are not one more than their bounds");
pub(super) const COUNTS: Wrong = ("counts", "a histogram whose count is not that of its buckets");

const NO_CONTENT: &str = "undecodable";

impl Fault {
    /// All causes.
    pub const CAUSES: [&'static str; 10] = [
        NO_CONTENT,
        NO_TRACE.0,
        NO_NAME.0,
        NO_NUMBER.0,
        NO_FINITE_SUM.0,
        NO_TEMPORALITY.0,
        NEGATIVE.0,
        BOUNDS.0,
        BUCKETS.0,
        COUNTS.0,
    ];

    pub(super) fn of(class: Class, (cause, sentence): Wrong) -> Self {
        Fault { class, cause, sentence: sentence.to_owned() }
    }

    /// A record that cannot be decoded.
    pub(super) fn undecodable(class: Class, sentence: String) -> Self {
        Fault { class, cause: NO_CONTENT, sentence }
    }

    /// Returns whether the record should have been a sample of a metric.
    #[must_use]
    pub fn is_of_metric(&self) -> bool {
        matches!(self.class, Class::Gauge | Class::Sum | Class::Histogram)
    }

    /// Returns a message that names the instrument, if the record's attributes have its name, or else the record's type.
    pub fn message(&self, attributes: &[(&str, &Value)], kind: &str) -> String {
        let name = attributes.iter().find_map(|(name, value)| match value {
            Value::Str(text) if *name == perfring_telemetry::names::NAME => Some(text.as_str()),
            _ => None,
        });
        format!("{}: {}", name.unwrap_or(kind), self.sentence)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
