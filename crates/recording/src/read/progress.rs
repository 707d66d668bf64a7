//! What is known of a recording, as far as it has been read.

use super::Reader;
use crate::machine::Machine;
use perfring_consumer::advanced::Saved;
use perfring_events::Totals;
use std::collections::HashMap;
use std::io::Read;

impl<R: Read> Reader<R> {
    /// Returns the machine that recorded; of a recording that was appended to, the last one so far.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the totals read so far.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns how many of its bytes are read.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the position up to which each ring was read, by the ring's id. A recording whose recorder was killed has
    /// none of these.
    #[must_use]
    pub fn read_to(&self) -> &HashMap<[u8; 16], Saved> {
        self.rings.read_to()
    }
}
