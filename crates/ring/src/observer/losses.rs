//! The losses that an observer returns beside the records.

use crate::lost::Lost;
use crate::observer::copy::CopyReader;
use crate::told::{CounterWatch, Told};
use crate::view::Shared;

impl CopyReader {
    /// Makes [`CopyReader::next_in`] also return losses that no marker reports. `slots` is the number of slots that count
    /// them. Without this call, an observer loads no counters.
    #[must_use]
    pub fn with_losses(mut self, at: Shared<'_>, slots: usize) -> Self {
        self.told = Told::at(at, self.policy, self.cursor, self.past);
        self.watch = Some(CounterWatch::new(slots));
        self
    }

    /// Returns what the producers have lost and no marker in the stream reports, as
    /// [`Reader::lost`](crate::Reader::lost) does. `None` if there is something else to read.
    pub fn lost(&mut self, at: Shared<'_>, all: bool) -> Option<Lost> {
        if !self.must_poll() || self.pending.is_some() {
            return None;
        }
        let watch = self.watch.as_mut()?;
        if watch.is_due(at, all, self.passed.records) {
            return watch.tell(at, self.cursor, &mut self.told, all);
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
