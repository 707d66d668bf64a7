//! The options that select records.

use crate::failure::note;
use crate::records::shapes::Shapes;
use crate::records::time::{self, Since};
use crate::records::typed::Seen;
use perfring_consumer::Location;
use perfring_types::read::{BadCondition, Condition, Type};

#[derive(Debug, clap::Args)]
pub(crate) struct SelectArgs {
    /// Only records of this type: its name, as `perfring types` shows it, or its number, decimal or
    /// 0x. May be repeated: any of them
    #[arg(long = "type", value_name = "NAME|ID", value_parser = wanted)]
    types: Vec<Wanted>,
    /// Only records with such a field, as severity_number>=13; operators are =, !=, <, <=, >, >=
    /// and ~ (contains). A nested field has a dot: pos.x. Names of an enumeration are ordered by
    /// their values and match in any case; text is compared by its bytes, so severity_text=WARN
    /// does not match warn, and >= is alphabetical: use severity_number for levels. May be
    /// repeated: all of them
    #[arg(long = "where", value_name = "FIELD=VALUE", value_parser = condition)]
    conditions: Vec<Condition>,
    /// Only records since then: a length of time, like 5s or 2h, counted back from the newest
    /// record by dump, and from now by tail and consume, even if the wall clock was set; or a UTC
    /// time, like 2026-07-01T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::since)]
    pub(crate) since: Option<Since>,
}

/// A type that `--type` names.
#[derive(Clone, Debug)]
struct Wanted {
    text: String,
    id: Option<u32>,
}

fn wanted(text: &str) -> Result<Wanted, String> {
    let id = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    match text {
        "" => Err("write a type's name or number".to_owned()),
        text => Ok(Wanted { text: text.to_owned(), id }),
    }
}

fn condition(text: &str) -> Result<Condition, String> {
    Condition::parse(text).map_err(|error| error.to_string())
}

impl SelectArgs {
    /// Returns whether all records are selected.
    pub(crate) fn is_any(&self) -> bool {
        !self.types.is_empty() || self.needs_values() || self.since.is_some()
    }

    /// Returns whether records must be decoded to be selected.
    pub(crate) fn needs_values(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Returns whether a record of this type is selected.
    pub(crate) fn takes_type(&self, id: u32, kind: Option<&Type>) -> bool {
        let name = kind.map(|kind| &kind.name);
        self.types.is_empty()
            || self.types.iter().any(|wanted| wanted.id == Some(id) || name == Some(&wanted.text))
    }

    /// Returns whether a decoded record with these values is selected.
    pub(crate) fn takes_values(&self, seen: &Seen<'_>) -> bool {
        let holds = |condition| match (seen.kind, &seen.value) {
            (Some(kind), Some(Ok(value))) => kind.matches(value, condition),
            _ => false,
        };
        self.conditions.iter().all(holds)
    }

    /// Checks that records of these types can meet each condition.
    pub(crate) fn check(&self, types: &[&Type]) -> Result<(), BadCondition> {
        let types = || types.iter().copied();
        self.conditions.iter().try_for_each(|condition| condition.check(types()))
    }

    /// Reports names that no type of the ring has, or of any of several rings.
    pub(crate) fn report_unknown(&self, location: Option<&Location>, shapes: &[Shapes]) {
        for wanted in self.types.iter().filter(|wanted| wanted.id.is_none()) {
            let text = &wanted.text;
            if shapes.iter().all(|shapes| shapes.table().by_name(text).next().is_none()) {
                note(&match location {
                    Some(location) => {
                        format!(
                            "no type is called {text:?}; `perfring types {location}` shows them"
                        )
                    }
                    None => format!("no type of the kernel's records is called {text:?}"),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names_or_numbers() {
        assert_eq!(wanted("0x1388").map(|wanted| wanted.id), Ok(Some(5000)));
        assert_eq!(wanted("5000").map(|wanted| wanted.id), Ok(Some(5000)));
        assert_eq!(wanted("demo.Tick").map(|wanted| wanted.id), Ok(None));
        assert!(wanted("").is_err());
        assert!(condition("a").is_err() && condition("=1").is_err() && condition("a=").is_ok());
    }
}
