//! Items created from records.

use super::batch::Credit;
use super::samples::Sample;
use perfring_events::signal::Reported;
use std::sync::Arc;
use std::time::Instant;

/// The origin and the time of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) ring: u32,
    pub(super) pos: u64,
    /// Of this one event.
    pub(super) credit: Credit,
    pub(super) now: Instant,
    /// ns since 1970.
    pub(super) wall: u64,
}

/// Where an item is from.
#[derive(Clone, Copy, Debug)]
pub(super) struct From<'a> {
    pub(super) seen: Seen,
    pub(super) pid: Option<u64>,
    pub(super) scope: &'a str,
}

impl From<'_> {
    /// Returns an item that may wait.
    pub(super) fn made(&self, item: Item) -> Made {
        let From { seen: Seen { ring, credit, pos, .. }, pid, scope } = *self;
        Made { ring, pid, reported: None, scope: scope.to_owned(), item, credit, pos }
    }
}

/// An item to be sent.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) ring: u32,
    pub(super) pid: Option<u64>,
    /// Its resource, if known already.
    pub(super) reported: Option<Arc<Reported>>,
    pub(super) scope: String,
    pub(super) item: Item,
    pub(super) credit: Credit,
    pub(super) pos: u64,
}

#[derive(Debug)]
pub(super) enum Item {
    /// A log record, encoded.
    Log(Vec<u8>),
    /// A span, encoded.
    Span(Vec<u8>),
    Sample(Box<Sample>),
    /// There is nothing to send.
    Nothing,
}

impl Item {
    pub(super) fn sample(sample: Sample) -> Self {
        Item::Sample(Box::new(sample))
    }

    /// Returns the approximate memory that it takes while it waits.
    pub(super) fn size(&self) -> usize {
        let size = match self {
            Item::Log(encoded) | Item::Span(encoded) => encoded.len(),
            Item::Sample(sample) => sample.size(),
            Item::Nothing => 0,
        };
        size + 256
    }
}
