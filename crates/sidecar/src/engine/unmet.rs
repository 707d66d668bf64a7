//! Conditions that no record which is read can meet: a field is misspelled.

use super::Engine;
use crate::config::filter::Filter;
use perfring_types::read::Type;
use std::collections::BTreeMap;

/// The limit of types that are compared.
const TYPES: usize = 256;

impl Engine {
    /// Returns the outputs and rules that have selected no record, and why no record of the known types can be selected.
    pub(crate) fn unmet(&self) -> Vec<(String, String)> {
        let mut asked: Vec<(String, &Filter)> = Vec::new();
        for outlet in self.outlets.iter() {
            let of_rules =
                outlet.rules.status().map(|rule| rule.kept.saturating_add(rule.left_out));
            let selected = outlet.status().figures.taken > 0
                || outlet.dropped.records > 0
                || of_rules.sum::<u64>() > 0;
            if !selected && outlet.filter.is_any() {
                asked.push((format!("the output {:?}", outlet.name), &outlet.filter));
            }
            for rule in outlet.rules.unmatched() {
                asked.push((format!("the rule {:?}", rule.name.as_str()), &rule.filter));
            }
        }
        if asked.is_empty() {
            return Vec::new();
        }
        let mut types: BTreeMap<&str, &Type> = BTreeMap::new();
        for (_, ring) in self.rings.iter().filter(|(_, ring)| ring.figures.records > 0) {
            types.extend(ring.shapes.origin().types.iter().map(|kind| (&*kind.name, kind)));
        }
        if types.len() > TYPES {
            return Vec::new();
        }
        let types: Vec<&Type> = types.into_values().collect();
        let wrong = |(whose, filter): (String, &Filter)| {
            filter.check(&types).err().map(|why| (whose, why.to_string()))
        };
        asked.into_iter().filter_map(wrong).collect()
    }
}
