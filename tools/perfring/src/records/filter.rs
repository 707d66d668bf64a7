//! Which events are wanted.

use crate::failure::note;
use crate::owner::count;
use crate::records::select::SelectArgs;
use crate::records::time::{Bound, When};
use crate::records::typed::Seen;
use perfring_consumer::Record;
use perfring_export::{Event, Rec, What};

/// Which events are wanted, by `--type`, `--where` and `--since`. Losses are, always.
pub(crate) struct Filter<'a> {
    select: &'a SelectArgs,
    since: Option<Bound>,
    /// Records of which nobody can tell whether they are since then.
    undated: u64,
    left_out: u64,
}

impl<'a> Filter<'a> {
    pub(crate) fn new(select: &'a SelectArgs, since: Option<Bound>) -> Self {
        Filter { select, since, undated: 0, left_out: 0 }
    }

    /// Whether it is wanted.
    pub(crate) fn takes(&mut self, event: &Event<'_>) -> bool {
        let What::Record(record) = &event.what else { return true };
        if !self.select.is_any() {
            return true;
        }
        let takes = self.takes_record(record);
        self.left_out += u64::from(!takes);
        takes
    }

    fn takes_record(&mut self, rec: &Rec<'_>) -> bool {
        let record = Record { pos: rec.pos, kind: rec.kind, bytes: rec.bytes, time: rec.time };
        let when = rec.time.map(|stamp| When { stamp, wall: rec.wall });
        let seen = Seen { record, when, kind: rec.kind_of(), value: None };
        if !self.select.takes_type(&seen) {
            return false;
        }
        let recent = self.since.map_or(Some(true), |since| since.takes(seen.when));
        self.undated += u64::from(recent.is_none());
        if recent != Some(true) {
            return false;
        }
        !self.select.needs_values() || self.select.takes_values(&seen.read())
    }

    /// Says at the end what was left out for want of a date; and how many records were left out in
    /// all, for a summary.
    pub(crate) fn end(&self) -> u64 {
        if self.undated > 0 {
            let (records, have) =
                (count(self.undated, "record"), if self.undated == 1 { "has" } else { "have" });
            note(&format!("{records} {have} no time that can be told, and were left out"));
        }
        self.left_out
    }
}
