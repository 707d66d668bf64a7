//! What an observer is told of losses, beside the records that it reads.

use crate::observer::copy::Observer;
use crate::record::Lost;
use crate::view::Shared;

impl Observer {
    /// Sets the number of slots, in which [`Observer::lost`] looks.
    #[must_use]
    pub fn with_slots(mut self, slots: usize) -> Self {
        self.watch.set_slots(slots);
        self
    }

    /// Returns what the producers have lost and no marker in the stream reports, as
    /// [`Reader::lost`](crate::Reader::lost) does. `None` if there is something else to read.
    pub fn lost(&mut self, at: Shared<'_>, all: bool) -> Option<Lost> {
        if !self.must_poll() || self.pending.is_some() {
            return None;
        }
        if self.watch.is_due(at, all, self.passed.records) {
            return self.watch.tell(at, self.cursor, &mut self.told, all);
        }
        None
    }

    /// Returns whether there is such a loss, without taking it: it is returned next.
    pub fn has_lost(&mut self, at: Shared<'_>, all: bool) -> bool {
        let before = self.resume_point();
        if let Some(lost) = self.lost(at, all) {
            self.pending = Some((lost, before));
        }
        self.pending.is_some()
    }
}
