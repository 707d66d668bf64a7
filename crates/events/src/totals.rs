//! Counts of records and of losses.

use crate::event::{Event, Loss, LossCause, What};
use std::fmt;

/// Counts of records, and of losses by cause.
///
/// ```
/// use perfring_consumer::Cause;
/// use perfring_events::{Loss, LossCause, Totals};
/// let mut totals = Totals::default();
/// let cause = LossCause::Ring(Cause::Full);
/// totals.lose(&Loss::new(0, 3, 48, cause));
/// assert_eq!((totals.lost(), totals.to_string()), (3, "0 records, lost 3: full 3".to_owned()));
/// // The kernel does not count what it overwrites.
/// totals.lose(&Loss::new(0, 0, 320, LossCause::Ring(Cause::Lapped)));
/// assert_eq!(totals.to_string(), "0 records, lost 3 and an unknown number more: full 3, lapped");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Lost records and bytes for each cause that occurred, in the order of their first occurrence.
    pub losses: Vec<(LossCause, u64, u64)>,
    /// Whether other records were lost, too, whose number is unknown.
    pub is_more: bool,
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

    /// Counts a loss. Saturates, whatever a hostile ring reports.
    pub fn lose(&mut self, loss: &Loss) {
        let at = self.losses.iter().position(|(cause, ..)| *cause == loss.cause);
        let at = at.unwrap_or_else(|| {
            self.losses.push((loss.cause, 0, 0));
            self.losses.len() - 1
        });
        let (_, records, bytes) = &mut self.losses[at];
        *records = records.saturating_add(loss.records);
        *bytes = bytes.saturating_add(loss.bytes);
        self.is_more |= loss.is_uncounted();
    }

    /// Returns the number of lost records, of all causes, as far as it is known.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses.iter().fold(0, |sum, (_, records, _)| sum.saturating_add(*records))
    }

    /// Returns whether any records were lost.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.is_more || self.lost() > 0
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = self.records;
        let plural = if records == 1 { "" } else { "s" };
        write!(f, "{records} record{plural}, lost ")?;
        match (self.lost(), self.is_more) {
            (lost, false) => write!(f, "{lost}")?,
            (0, true) => f.write_str("an unknown number")?,
            (lost, true) => write!(f, "{lost} and an unknown number more")?,
        }
        for (nth, (cause, records, _)) in self.losses.iter().enumerate() {
            write!(f, "{} {}", if nth == 0 { ":" } else { "," }, cause.name())?;
            if *records > 0 || !self.is_more {
                write!(f, " {records}")?;
            }
        }
        Ok(())
    }
}
