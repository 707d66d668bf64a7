//! The types and wall-clock times that a source's records need for display.

use crate::source::Source;
use perfring_consumer::{Anchors, Types};
use perfring_types::Entries;
use perfring_types::read::TypeTable;
use std::sync::Arc;

/// A private copy of a ring's type table and clock anchors. Held beside the source, so that it can be
/// used while a record of the source is borrowed.
#[derive(Debug)]
pub(crate) struct Described {
    copied: Types,
    /// Words of the table that are parsed. They never change, so no entry is parsed twice.
    parsed: usize,
    /// A bad entry ends the table for good.
    ended: bool,
    table: Arc<TypeTable>,
    anchors: Anchors,
}

impl Described {
    pub(crate) fn new(source: &dyn Source) -> Self {
        let mut described = Described {
            copied: Types::default(),
            parsed: 0,
            ended: false,
            table: Arc::default(),
            anchors: Anchors::default(),
        };
        described.renew(source);
        described
    }

    /// Copies changed types and anchors. Call it after a poll: a producer registers a type, and writes an
    /// anchor, before it publishes the records that need them, so the copy covers every record that the poll found.
    pub(crate) fn renew(&mut self, source: &dyn Source) {
        self.anchors = source.anchors();
        if self.ended || !source.has_more_types(&self.copied) {
            return;
        }
        self.copied = source.types();
        let Some(words) = self.copied.words().get(self.parsed..) else { return };
        let (before, ended) = (8 * self.parsed as u64, &mut self.ended);
        let entries = Entries::new(words).map(|entry| {
            entry.map_err(|mut bad| {
                bad.at += before;
                *ended = true;
                bad
            })
        });
        Arc::make_mut(&mut self.table).extend(entries);
        self.parsed = self.copied.words().len();
    }

    pub(crate) fn types(&self) -> &Arc<TypeTable> {
        &self.table
    }

    pub(crate) fn anchors(&self) -> &Anchors {
        &self.anchors
    }
}
