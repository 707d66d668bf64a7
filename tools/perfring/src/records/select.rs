//! Which records are wanted.

use crate::failure::note;
use crate::records::shapes::Shapes;
use crate::records::time::{self, Since};
use crate::records::typed::Seen;
use perfring_consumer::Location;
use perfring_types::read::Condition;

#[derive(Debug, clap::Args)]
pub(crate) struct SelectArgs {
    /// Only records of this type: its name, as `perfring types` shows it, or its number, decimal or
    /// 0x. Of several, any
    #[arg(long = "type", value_name = "NAME|ID", value_parser = wanted)]
    types: Vec<Wanted>,
    /// Only records with such a field, as severity_number>=13; =, !=, <, <=, >, >= and ~ (contains)
    /// are known. A field of a field has a dot: pos.x. Names of an enumeration have their values'
    /// order, in whatever case; text is compared by its bytes, so severity_text=WARN is not warn,
    /// and >= on it is the alphabet's: for levels there is severity_number. Of several, all
    #[arg(long = "where", value_name = "FIELD=VALUE", value_parser = condition)]
    conditions: Vec<Condition>,
    /// Only records since then: a length of time, like 5s or 2h, counted back from the newest
    /// record by dump, and from now by tail and consume, whenever the wall clock was set; or a UTC
    /// time, like 2026-07-01T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::since)]
    pub(crate) since: Option<Since>,
}

/// What `--type` says.
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
    /// Whether anything is left out at all.
    pub(crate) fn is_any(&self) -> bool {
        !self.types.is_empty() || self.needs_values() || self.since.is_some()
    }

    /// Whether records must be read by their types to be chosen.
    pub(crate) fn needs_values(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Whether a record of this type is wanted.
    pub(crate) fn takes_type(&self, seen: &Seen<'_>) -> bool {
        let id = seen.record.kind;
        let name = seen.kind.map(|kind| &kind.name);
        self.types.is_empty()
            || self.types.iter().any(|wanted| wanted.id == Some(id) || name == Some(&wanted.text))
    }

    /// Whether a record with these values is wanted, once it was read.
    pub(crate) fn takes_values(&self, seen: &Seen<'_>) -> bool {
        let holds = |condition| match (seen.kind, &seen.value) {
            (Some(kind), Some(Ok(value))) => kind.matches(value, condition),
            _ => false,
        };
        self.conditions.iter().all(holds)
    }

    /// Says of names that no type in the ring has, or in any of several.
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
    fn types_are_named_or_numbered() {
        assert_eq!(wanted("0x1388").map(|wanted| wanted.id), Ok(Some(5000)));
        assert_eq!(wanted("5000").map(|wanted| wanted.id), Ok(Some(5000)));
        assert_eq!(wanted("demo.Tick").map(|wanted| wanted.id), Ok(None));
        assert!(wanted("").is_err());
        assert!(condition("a").is_err() && condition("=1").is_err() && condition("a=").is_ok());
    }
}
