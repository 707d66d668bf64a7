//! Selects the records for an output.

use perfring_export::Rec;
use perfring_types::Class;
use perfring_types::read::{BadCondition, Condition, Type, Value};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// Selects records: those of any of the types, that fulfil all of the conditions and are severe
/// enough. Losses are always passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(
    /// `None`, and one thing to ask for each record, if it demands nothing.
    Option<Box<Demands>>,
);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Demands {
    types: Vec<Wanted>,
    conditions: Vec<Condition>,
    min_severity: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    name: String,
    id: Option<u32>,
}

/// A severity in a configuration: OpenTelemetry's number, or a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) struct Severity(u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Name(String),
}

impl TryFrom<Written> for Severity {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(number) => Severity::parse(&number.to_string()),
            Written::Name(name) => Severity::parse(&name),
        }
    }
}

impl Severity {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let number = match &*text.to_ascii_lowercase() {
            "trace" => Some(1),
            "debug" => Some(5),
            "info" => Some(9),
            "warn" | "warning" => Some(13),
            "error" => Some(17),
            "fatal" => Some(21),
            number => number.parse().ok(),
        };
        number.filter(|number| (1..=24).contains(number)).map(Severity).ok_or_else(|| {
            "a severity is trace, debug, info, warn, error, fatal, or 1 to 24".to_owned()
        })
    }

    pub(super) fn number(self) -> u64 {
        self.0
    }
}

/// A condition in a configuration.
#[derive(Clone, Debug)]
pub(super) struct Where(Condition);

impl<'de> Deserialize<'de> for Where {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(WhereVisitor)
    }
}

/// Parses inside the visitor: an error then has the line of this condition, and not that of the list.
struct WhereVisitor;

impl Visitor<'_> for WhereVisitor {
    type Value = Where;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a condition, like \"severity_number>=17\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Where, E> {
        Condition::parse(text).map(Where).map_err(E::custom)
    }
}

impl Filter {
    /// Creates a filter of types by name or number, conditions as of `perfring tail --where`, and
    /// the least severity of log records.
    pub(super) fn new(
        types: &[String],
        conditions: &[Where],
        min_severity: Option<Severity>,
    ) -> Self {
        let wanted = |name: &String| Wanted {
            name: name.clone(),
            id: match name.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => name.parse().ok(),
            },
        };
        let demands = Demands {
            types: types.iter().map(wanted).collect(),
            conditions: conditions.iter().map(|condition| condition.0.clone()).collect(),
            min_severity: min_severity.map(|severity| severity.0),
        };
        Filter((demands != Demands::default()).then(|| Box::new(demands)))
    }

    /// Returns whether it demands anything of records: without that all are selected.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.0.is_some()
    }

    /// Checks that a record of one of these types could meet each condition.
    pub(crate) fn check(&self, types: &[&Type]) -> Result<(), BadCondition> {
        let conditions = self.0.iter().flat_map(|demands| &demands.conditions);
        conditions.into_iter().try_for_each(|condition| condition.check(types.iter().copied()))
    }

    /// Returns whether this record is selected.
    #[must_use]
    #[inline]
    pub fn takes(&self, record: &Rec<'_>) -> bool {
        self.0.as_ref().is_none_or(|demands| demands.takes(record))
    }
}

impl Demands {
    fn takes(&self, record: &Rec<'_>) -> bool {
        (self.types.is_empty() || self.takes_type(record))
            && self.min_severity.is_none_or(|least| severe(record, least))
            && (self.conditions.is_empty() || self.takes_value(record))
    }

    fn takes_type(&self, record: &Rec<'_>) -> bool {
        let name = record.kind_of().map(|kind| &kind.name);
        self.types.iter().any(|wanted| wanted.id == Some(record.kind) || name == Some(&wanted.name))
    }

    fn takes_value(&self, record: &Rec<'_>) -> bool {
        let Some(kind) = record.kind_of() else { return false };
        self.conditions.iter().all(|condition| {
            let found = record.get(&condition.path);
            found.is_some_and(|found| kind.matches_found(&found, condition))
        })
    }
}

/// Returns whether it is a log record of at least this severity, or no log record.
fn severe(record: &Rec<'_>, least: u64) -> bool {
    if record.kind_of().is_none_or(|kind| kind.class.known() != Some(Class::Log)) {
        return true;
    }
    severity(record).is_some_and(|severity| severity >= least)
}

/// Returns the severity of a record that has one.
pub(crate) fn severity(record: &Rec<'_>) -> Option<u64> {
    match *record.get("severity_number")? {
        Value::U64(number) => Some(number),
        Value::I64(number) | Value::Label { value: number, .. } => u64::try_from(number).ok(),
        _ => None,
    }
}
