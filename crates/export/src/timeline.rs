//! Where events stand in time.

use crate::{Event, What};

/// Gives each event a place on the stamps' clock: that of its stamp, or else the newest before it,
/// as events come in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    newest: u64,
}

impl Timeline {
    /// The event's place, ns of `CLOCK_BOOTTIME`; 0 before the first stamp.
    pub(crate) fn place(&mut self, event: &Event<'_>) -> u64 {
        let stamp = match &event.what {
            What::Record(record) => record.time,
            What::Lost(loss) => loss.time,
            What::Began | What::Ended => None,
        };
        match stamp {
            Some(stamp) => {
                self.newest = self.newest.max(stamp);
                stamp
            }
            None => self.newest,
        }
    }
}
