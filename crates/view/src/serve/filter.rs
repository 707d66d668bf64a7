//! What selects records: conditions of the command's `--where`, joined by `&&`, and a type.

use perfring_events::Rec;
use perfring_types::read::{Condition, TypeTable};
use serde::Serialize;

/// Conditions of a filter, at most: each is tried on every record that is kept.
const CONDITIONS: usize = 32;

/// The filter of a page.
#[derive(Debug, Default)]
pub(super) struct Filter {
    conditions: Vec<(Part, Condition)>,
    /// The type's name, or its number.
    kind: Option<String>,
}

/// Where in the text a condition is, in UTF-16 units as the page counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Part {
    at: usize,
    len: usize,
}

/// What is wrong with a part of the text.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Wrong {
    #[serde(flatten)]
    part: Part,
    why: String,
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

impl Filter {
    pub(super) fn parse(text: &str, kind: &str) -> Result<Self, Wrong> {
        let mut conditions = Vec::new();
        let mut at = 0;
        for piece in text.split("&&") {
            let trimmed = piece.trim();
            let before = units(&piece[..piece.len() - piece.trim_start().len()]);
            let part = Part { at: at + before, len: units(trimmed) };
            at += units(piece) + 2;
            if trimmed.is_empty() && text.trim().is_empty() {
                continue;
            }
            match Condition::parse(trimmed) {
                Ok(_) if conditions.len() == CONDITIONS => {
                    let why = format!("a filter has at most {CONDITIONS} conditions");
                    return Err(Wrong { part, why });
                }
                Ok(condition) => conditions.push((part, condition)),
                Err(error) => return Err(Wrong { part, why: error.to_string() }),
            }
        }
        let kind = Some(kind.trim()).filter(|kind| !kind.is_empty()).map(str::to_owned);
        Ok(Filter { conditions, kind })
    }

    pub(super) fn takes(&self, record: &Rec<'_>) -> bool {
        let kind = record.kind_of();
        let is_kind = self.kind.as_ref().is_none_or(|wanted| {
            kind.is_some_and(|kind| kind.name == *wanted) || record.kind.to_string() == *wanted
        });
        if !is_kind || self.conditions.is_empty() {
            return is_kind;
        }
        match (kind, record.value()) {
            (Some(kind), Some(Ok(value))) => {
                self.conditions.iter().all(|(_, condition)| kind.matches(value, condition))
            }
            _ => false,
        }
    }

    /// Returns which conditions no record of these rings' types can meet.
    pub(super) fn unknown<'a>(&self, tables: impl Iterator<Item = &'a TypeTable>) -> Vec<Wrong> {
        let types: Vec<_> = tables.flat_map(TypeTable::iter).collect();
        let wrong = |(part, condition): &(Part, Condition)| {
            let error = condition.check(types.iter().copied()).err()?;
            let len = if error.is_unknown_field() { units(&condition.path) } else { part.len };
            Some(Wrong { part: Part { len, ..*part }, why: error.to_string() })
        };
        self.conditions.iter().filter_map(wrong).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_where_it_is() {
        let wrong =
            |text: &str| Filter::parse(text, "").err().map(|wrong| (wrong.part.at, wrong.part.len));
        assert_eq!(wrong(""), None);
        assert_eq!(wrong("  "), None);
        assert_eq!(wrong("a=1 && b>=2"), None);
        assert_eq!(wrong("a=1 &&  b "), Some((8, 1)));
        assert_eq!(wrong("ä=𝄞&&b"), Some((6, 1)), "in UTF-16 units");
        assert_eq!(wrong("a=1 &&"), Some((6, 0)));
        assert_eq!(wrong("=1"), Some((0, 2)));
        // Conditions that cannot hold, and no operators.
        assert_eq!(wrong("a=1 && severity_number >> 3"), Some((7, 20)));
        assert_eq!(wrong("severity_number>=foo"), Some((0, 20)));
        assert_eq!(wrong(&["a=1"; CONDITIONS].join("&&")), None);
        assert_eq!(wrong(&["a=1"; CONDITIONS + 1].join("&&")), Some((5 * CONDITIONS, 3)));
    }
}
