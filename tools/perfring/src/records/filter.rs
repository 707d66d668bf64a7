//! Selects events.

use crate::failure::note;
use crate::records::select::SelectArgs;
use crate::records::time::Bound;
use crate::records::typed::Seen;
use perfring_export::{Event, What};
use perfring_view::owner::count;

/// Selects events by `--type`, `--where` and `--since`. Losses are always selected.
#[derive(Debug)]
pub(crate) struct Filter<'a> {
    select: &'a SelectArgs,
    since: Option<Bound>,
    /// Records whose time cannot be compared with `since`.
    undated: u64,
    left_out: u64,
}

impl<'a> Filter<'a> {
    pub(crate) fn new(select: &'a SelectArgs, since: Option<Bound>) -> Self {
        Filter { select, since, undated: 0, left_out: 0 }
    }

    pub(crate) fn takes(&mut self, event: &Event<'_>) -> bool {
        let What::Record(record) = &event.what else { return true };
        if !self.select.is_any() {
            return true;
        }
        let takes = self.choose(Seen::of(record), false).is_some();
        self.left_out += u64::from(!takes);
        takes
    }

    /// Returns the record if it is selected; decodes it if `read` or a condition requires that.
    pub(crate) fn choose<'s>(&mut self, seen: Seen<'s>, read: bool) -> Option<Seen<'s>> {
        if !self.select.takes_type(&seen) {
            return None;
        }
        let recent = self.since.map_or(Some(true), |since| since.takes(seen.when));
        self.undated += u64::from(recent.is_none());
        if recent != Some(true) {
            return None;
        }
        let seen = if read || self.select.needs_values() { seen.read() } else { seen };
        self.select.takes_values(&seen).then_some(seen)
    }

    /// Reports how many records were left out because their time is unknown.
    pub(crate) fn report_undated(&self, what: &str) {
        if self.undated > 0 {
            let (records, have) =
                (count(self.undated, "record"), if self.undated == 1 { "has" } else { "have" });
            note(&format!("{records} {have} {what}, and were left out"));
        }
    }

    /// Reports how many records were left out because their time is unknown; returns how many were
    /// left out in all, for a summary.
    pub(crate) fn end(&self) -> u64 {
        self.report_undated("no known time");
        self.left_out
    }
}
