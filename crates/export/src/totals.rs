//! What went by.

use crate::event::{Event, LossCause, What};
use std::fmt;

/// How much went by: records, and what was lost, by cause.
///
/// ```
/// use perfring_consumer::Cause;
/// use perfring_export::{Loss, LossCause, Totals};
/// let mut totals = Totals::default();
/// let cause = LossCause::Ring(Cause::Full);
/// totals.lose(&Loss { pos: 0, records: 3, bytes: 48, cause, time: None, wall: None });
/// assert_eq!((totals.lost(), totals.to_string()), (3, "0 records, lost 3: full 3".to_owned()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Records and bytes that were lost, of each cause that there was, in the order in which the
    /// causes came.
    pub losses: Vec<(LossCause, u64, u64)>,
}

impl Totals {
    /// Counts an event.
    pub fn add(&mut self, event: &Event<'_>) {
        match &event.what {
            What::Record(record) => {
                self.records += 1;
                self.bytes = self.bytes.saturating_add(record.bytes.len() as u64);
            }
            What::Lost(loss) => self.lose(loss),
            What::Began | What::Ended => {}
        }
    }

    /// Counts a loss. What a hostile ring says never makes it overflow.
    pub fn lose(&mut self, loss: &crate::event::Loss) {
        let at = self.losses.iter().position(|(cause, ..)| *cause == loss.cause);
        let at = at.unwrap_or_else(|| {
            self.losses.push((loss.cause, 0, 0));
            self.losses.len() - 1
        });
        let (_, records, bytes) = &mut self.losses[at];
        *records = records.saturating_add(loss.records);
        *bytes = bytes.saturating_add(loss.bytes);
    }

    /// Records that were lost, of all causes.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses.iter().fold(0, |sum, (_, records, _)| sum.saturating_add(*records))
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (records, lost) = (self.records, self.lost());
        let plural = if records == 1 { "" } else { "s" };
        write!(f, "{records} record{plural}, lost {lost}")?;
        for (nth, (cause, records, _)) in self.losses.iter().enumerate() {
            write!(f, "{} {} {records}", if nth == 0 { ":" } else { "," }, cause.name())?;
        }
        Ok(())
    }
}
