//! Interned strings: written once and referred to by number.

use super::proto::{InternedData, InternedString};
use std::collections::HashMap;

/// The limit of strings: beyond it the table is reset, in the trace as well.
const KEPT: usize = 16 << 10;

/// The strings that have numbers in the trace.
#[derive(Debug, Default)]
pub(super) struct Names {
    events: HashMap<String, u64>,
    annotations: HashMap<String, u64>,
    /// Numbers that the trace does not have yet.
    fresh: InternedData,
}

impl Names {
    /// Returns whether to reset the table, between two packets.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() + self.annotations.len() > KEPT
    }

    /// Returns the number of an event's name.
    pub(super) fn event(&mut self, name: &str) -> u64 {
        number(&mut self.events, &mut self.fresh.event_names, name)
    }

    /// Returns the number of an annotation's name.
    pub(super) fn annotation(&mut self, name: &str) -> u64 {
        number(&mut self.annotations, &mut self.fresh.debug_annotation_names, name)
    }

    /// Takes the new strings, which the next packet must contain.
    pub(super) fn fresh(&mut self) -> Option<InternedData> {
        let fresh = std::mem::take(&mut self.fresh);
        (fresh != InternedData::default()).then_some(fresh)
    }
}

fn number(known: &mut HashMap<String, u64>, fresh: &mut Vec<InternedString>, name: &str) -> u64 {
    if let Some(number) = known.get(name) {
        return *number;
    }
    let number = known.len() as u64 + 1;
    known.insert(name.to_owned(), number);
    fresh.push(InternedString { iid: Some(number), name: Some(name.to_owned()) });
    number
}
