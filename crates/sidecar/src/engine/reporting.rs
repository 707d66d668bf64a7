//! Up to where losses that no ring holds hold back what follows: until the output has delivered them.

use std::collections::VecDeque;

/// The limit of reports that are not delivered: beyond it the newest ones are merged.
const REPORTED_MAX: usize = 64;

/// Losses by rules that are reported to an output. Records that rules left out are released like delivered ones, but not
/// before their loss is delivered: a death between the two would hide it.
#[derive(Debug, Default)]
pub(super) struct Reporting {
    /// The first event that the losses to be reported are of.
    begun: Option<u64>,
    /// The first event of losses that were reported, and the last event that reported them.
    reported: VecDeque<(u64, u64)>,
}

impl Reporting {
    /// Notes that losses since this event are to be reported.
    pub(super) fn begin(&mut self, since: Option<u64>) {
        self.begun = [self.begun, since].into_iter().flatten().min();
    }

    /// Notes that all losses are reported, the last of them by this event.
    pub(super) fn reported(&mut self, last: u64) {
        let Some(first) = self.begun.take() else { return };
        let is_full = self.reported.len() >= REPORTED_MAX;
        match self.reported.back_mut().filter(|_| is_full) {
            Some((_, newest)) => *newest = last,
            None => self.reported.push_back((first, last)),
        }
    }

    /// Returns the first event whose loss is not delivered, if the output has delivered all before `unsettled`.
    pub(super) fn unsettled(&mut self, unsettled: Option<u64>) -> Option<u64> {
        let done = |last: u64| unsettled.is_none_or(|unsettled| unsettled > last);
        while self.reported.front().is_some_and(|(_, last)| done(*last)) {
            self.reported.pop_front();
        }
        // A first event may be before that of an older report: a ring's end is reported at once.
        self.reported.iter().map(|(first, _)| *first).chain(self.begun).min()
    }
}
