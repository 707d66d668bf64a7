//! How many records are shown: all, the first, or the last.

use super::json::Missing;
use std::collections::VecDeque;

/// How many of the selected records are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Records {
    All,
    /// The command ends after so many.
    First(u64),
    /// So many of those that are there at the start, and all that follow.
    Last(usize),
}

impl Records {
    /// Returns how many are shown before the end.
    pub(crate) fn most(self) -> u64 {
        if let Records::First(records) = self { records } else { u64::MAX }
    }
}

/// The last records that were read, with the losses between them.
#[derive(Debug, Default)]
pub(super) struct Last {
    pub(super) most: usize,
    pub(super) records: usize,
    pub(super) held: VecDeque<Held>,
}

/// What is written once it is known to be among the last.
#[derive(Debug)]
pub(super) enum Held {
    Record(Vec<u8>),
    Lost { ring: Option<String>, name: Option<String>, lost: Missing },
}
