//! Selects events.

use crate::failure::{Failure, note};
use crate::records::select::SelectArgs;
use crate::records::shapes::Shapes;
use crate::records::time::Bound;
use crate::records::typed::Seen;
use perfring_export::{Event, What};
use perfring_figures::owner::count;
use perfring_types::read::Type;

/// Selects events by `--type`, `--where` and `--since`. Losses are always selected.
#[derive(Debug)]
pub(crate) struct Filter<'a> {
    select: &'a SelectArgs,
    since: Option<Bound>,
    /// Records whose time cannot be compared with `since`.
    undated: u64,
    left_out: u64,
    has_selected: bool,
    /// The types of the records that were left out, while none was selected.
    of_left_out: Vec<Type>,
    /// How many types the conditions were last compared with, and whether it was reported that no record can meet them.
    compared: usize,
    is_reported: bool,
}

/// How many of these types are kept, at most.
const TYPES: usize = 64;

impl<'a> Filter<'a> {
    pub(crate) fn new(select: &'a SelectArgs, since: Option<Bound>) -> Self {
        Filter {
            select,
            since,
            undated: 0,
            left_out: 0,
            has_selected: false,
            of_left_out: Vec::new(),
            compared: 0,
            is_reported: false,
        }
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
        if !self.select.takes_type(seen.record.kind, seen.kind) {
            return None;
        }
        let recent = self.since.map_or(Some(true), |since| since.takes(seen.when));
        self.undated += u64::from(recent.is_none());
        if recent != Some(true) {
            return None;
        }
        let seen = if read || self.select.needs_values() { seen.read() } else { seen };
        let takes = self.select.takes_values(&seen);
        if !takes
            && !self.has_selected
            && let Some(kind) = seen.kind
            && self.of_left_out.len() < TYPES
            && !self.of_left_out.iter().any(|known| known.id == kind.id)
        {
            self.of_left_out.push(kind.clone());
        }
        self.has_selected |= takes;
        takes.then_some(seen)
    }

    /// Reports once, while more records are waited for, that no record of the rings' types and of those so far can be
    /// selected. To be called often: compares when there are more types.
    pub(crate) fn report_unmet(&mut self, rings: &[Shapes]) {
        if self.has_selected || self.is_reported || !self.select.needs_values() {
            return;
        }
        let known: usize = rings.iter().map(|shapes| shapes.table().len()).sum();
        let known = known.saturating_add(self.of_left_out.len());
        if std::mem::replace(&mut self.compared, known) == known || known > TYPES {
            return;
        }
        let types = rings.iter().flat_map(|shapes| shapes.table().iter());
        let types = types.filter(|kind| self.select.takes_type(kind.id.get(), Some(kind)));
        let types: Vec<&Type> = types.chain(&self.of_left_out).collect();
        if let Err(wrong) = self.select.check(&types) {
            self.is_reported = true;
            note(&format!("--where: {wrong}; waiting for records of other types"));
        }
    }

    /// Checks that a record could have been selected.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.has_selected || self.of_left_out.len() >= TYPES {
            return Ok(());
        }
        match self.select.check(&self.of_left_out.iter().collect::<Vec<_>>()) {
            Err(wrong) if wrong.is_unknown_field() => {
                if !self.is_reported {
                    note(&format!("--where: {wrong}"));
                }
                Ok(())
            }
            Err(wrong) => Err(Failure::Usage(format!("--where: {wrong}"))),
            Ok(()) => Ok(()),
        }
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
