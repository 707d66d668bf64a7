//! An output with its delivery guarantee, its filter and rules, and the losses still to be reported to it.

use super::lane::Lane;
use super::mark::Mark;
use super::merges::RingId;
use super::places::Places;
use super::record_rules::{RecordRules, RuleStatus};
use super::refused::pass;
use super::reporting::Reporting;
use super::rings::Rings;
use super::untold::{Ahead, Unreported, is_refused};
use crate::config::Delivery;
use crate::config::filter::Filter;
use crate::config::record_rule::RecordRule;
use perfring_consumer::{
    Cause,
    stat::{Count, Refused},
};
use perfring_export::{Event, Figures, Loss, LossCause, Origin, Output, OutputError, Took, What};
use std::collections::BTreeMap;
use std::time::Instant;

/// Returns the number of the next event.
pub(crate) fn next(seq: &mut u64) -> u64 {
    *seq += 1;
    *seq
}

/// An output that the engine feeds.
pub(crate) struct Outlet {
    pub(crate) name: String,
    pub(crate) delivery: Delivery,
    pub(crate) filter: Filter,
    /// What it is not given of the records that it selects.
    pub(super) rules: RecordRules,
    /// The losses by these rules that are to be reported to it, or were and are not delivered.
    reporting: Reporting,
    output: Box<dyn Output>,
    /// Events that it was not given, reported as a loss before the next event that it takes: by
    /// ring.
    unreported: BTreeMap<u32, Unreported>,
    /// The error after which it gets no more events.
    pub(crate) failed: Option<OutputError>,
    /// How much it has delivered of each ring, if its delivery is required.
    pub(super) places: Places,
    /// How it gets what it lacks, while it has fallen behind.
    pub(super) lane: Option<Box<Lane>>,
    /// Up to where it was given rings already, by their numbers: its lane may go beyond the others.
    ahead: BTreeMap<u32, Ahead>,
    /// Its oldest unsettled event when it could not be closed: later ones stay in their rings.
    pinned: Option<u64>,
    closed: bool,
    /// What it lacked at the last look.
    pub(super) mark: Option<Mark>,
    pub(crate) dropped: Dropped,
}

/// Records that an output was not given because it was busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Records.
    pub records: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
}

/// The status of an output.
#[derive(Debug)]
pub struct OutputStatus<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its delivery guarantee.
    pub delivery: Delivery,
    /// Its figures.
    pub figures: Figures,
    /// Records that it was not given because it was busy.
    pub dropped: Dropped,
    /// The error after which it gets no more events.
    pub failed: Option<&'a OutputError>,
    /// Whether it has fallen behind the others, and reads what it lacks from the rings.
    pub is_behind: bool,
    /// The rules for it, in their order.
    pub rules: Vec<RuleStatus>,
}

impl Outlet {
    pub(crate) fn new(
        name: &str,
        delivery: Delivery,
        filter: Filter,
        output: Box<dyn Output>,
    ) -> Self {
        Outlet {
            name: name.to_owned(),
            delivery,
            filter,
            rules: RecordRules::default(),
            reporting: Reporting::default(),
            output,
            unreported: BTreeMap::new(),
            failed: None,
            places: Places::default(),
            lane: None,
            ahead: BTreeMap::new(),
            pinned: None,
            closed: false,
            mark: None,
            dropped: Dropped::default(),
        }
    }

    pub(crate) fn is_required(&self) -> bool {
        self.delivery == Delivery::Required
    }

    /// Offers an event; `knows` says whether the output knows its ring. Returns whether the output
    /// is done with it: it took it, does not select it, or was busy and does not promise delivery.
    #[inline]
    pub(crate) fn offer(&mut self, event: &Event<'_>, knows: bool) -> bool {
        if !self.ahead.is_empty() {
            return self.offer_rest(event, knows);
        }
        self.offer_new(event, knows)
    }

    #[inline(always)]
    fn offer_new(&mut self, event: &Event<'_>, knows: bool) -> bool {
        if let What::Record(record) = &event.what
            && !self.filter.takes(record)
        {
            return true;
        }
        if let What::Record(record) = &event.what
            && !self.rules.is_empty()
            && self.rules.leaves_out(event, record)
        {
            return true;
        }
        // A loss to be reported for the ring comes first.
        let free = knows && (self.unreported.is_empty() || !self.has_unreported(event.origin));
        if free && self.take(event) == Took::Yes {
            return true;
        }
        self.not_taken(event)
    }

    /// Notes that it was given everything of a ring before this position, and these losses.
    pub(super) fn set_ahead(&mut self, origin: &Origin, ahead: Ahead) {
        let before = self.ahead.get(&origin.id).map_or(Refused::default(), |before| before.told);
        let told = ahead.told.plus(before);
        self.ahead.insert(origin.id, Ahead { told, ..ahead });
    }

    /// Offers an event of a ring that it was given some of already: only what is beyond that.
    #[cold]
    fn offer_rest(&mut self, event: &Event<'_>, knows: bool) -> bool {
        let Some(ahead) = self.ahead.get_mut(&event.origin.id) else {
            return self.offer_new(event, knows);
        };
        let rest = match &event.what {
            What::Record(record) if record.pos < ahead.pos => {
                ahead.pass(1, record.ring_bytes());
                return true;
            }
            // What was overtaken begins there, and may end beyond.
            What::Lost(loss)
                if loss.pos < ahead.pos && loss.cause == LossCause::Ring(Cause::Lapped) =>
            {
                let records = loss.records.saturating_sub(ahead.count.records);
                let bytes = loss.bytes.saturating_sub(ahead.count.bytes);
                if records == 0 {
                    ahead.pass(loss.records, loss.bytes);
                    return true;
                }
                Loss { pos: ahead.pos, records, bytes, ..*loss }
            }
            What::Lost(loss) if is_refused(loss) => return self.offer_untold(event, loss, knows),
            What::Lost(loss) if loss.pos < ahead.pos => return true,
            _ => {
                if ahead.told == Refused::default() {
                    self.ahead.remove(&event.origin.id);
                }
                return self.offer_new(event, knows);
            }
        };
        let Event { seq, origin, .. } = *event;
        let done = self.offer_new(&Event { seq, origin, what: What::Lost(rest) }, knows);
        if done && let Some(ahead) = self.ahead.get_mut(&origin.id) {
            *ahead = Ahead { told: ahead.told, ..Ahead::default() };
        }
        done
    }

    /// Offers a loss of a ring that it was told some of already: only the rest.
    fn offer_untold(&mut self, event: &Event<'_>, loss: &Loss, knows: bool) -> bool {
        let Event { seq, origin, .. } = *event;
        let told = self.ahead.get(&origin.id).map_or(Refused::default(), |ahead| ahead.told);
        let (rest, told) = match loss.cause {
            LossCause::Ring(cause) => {
                pass(told, cause, Count { records: loss.records, bytes: loss.bytes })
            }
            _ => return self.offer_new(event, knows),
        };
        let done = rest.is_none_or(|Count { records, bytes }| {
            let what = What::Lost(Loss { records, bytes, ..*loss });
            self.offer_new(&Event { seq, origin, what }, knows)
        });
        if done && let Some(ahead) = self.ahead.get_mut(&origin.id) {
            ahead.told = told;
        }
        done
    }

    #[cold]
    fn not_taken(&mut self, event: &Event<'_>) -> bool {
        if self.is_required() {
            return false; // also if it has failed: then nothing leaves its ring
        }
        self.defer_loss(event);
        true
    }

    #[inline]
    fn take(&mut self, event: &Event<'_>) -> Took {
        if self.failed.is_some() || self.closed {
            return Took::Busy;
        }
        match self.output.take(event) {
            Ok(took) => took,
            Err(error) => {
                self.failed = Some(error);
                Took::Busy
            }
        }
    }

    /// Announces a ring, if bit `at` says that the output does not know it. Returns whether it does
    /// now.
    pub(crate) fn begin(
        &mut self,
        at: usize,
        seq: &mut u64,
        origin: &Origin,
        began: &mut u64,
    ) -> bool {
        if *began & (1 << at) == 0 {
            if self.take(&Event { seq: next(seq), origin, what: What::Began }) == Took::Busy {
                return false;
            }
            *began |= 1 << at;
        }
        true
    }

    /// Reports that a ring has ended, after all losses of it. Returns whether that was taken.
    pub(crate) fn end(&mut self, seq: &mut u64, origin: &Origin) -> bool {
        self.report_left_out_of(origin.id);
        self.report_losses(seq, origin)
            && self.take(&Event { seq: next(seq), origin, what: What::Ended }) == Took::Yes
    }

    /// Adds an event to the losses that are reported before the ring's next event.
    pub(crate) fn defer_loss(&mut self, event: &Event<'_>) {
        let unreported = self.unreported.entry(event.origin.id).or_default();
        match &event.what {
            What::Record(record) => {
                let bytes = record.ring_bytes();
                self.dropped.records += 1;
                self.dropped.bytes += bytes;
                let cause = LossCause::Busy;
                let none = Loss::new(0, 0, 0, cause);
                let busy = unreported.busy.get_or_insert(none);
                busy.records += 1;
                busy.bytes += bytes;
                // The position after the last of them. No loss that a ring reports has an odd
                // position, so the keys differ.
                busy.pos = record.pos + 1;
                (busy.time, busy.wall) = (record.time, record.wall);
            }
            What::Lost(loss) => {
                unreported.add(loss);
            }
            What::Began | What::Ended => {}
        }
    }

    /// Returns whether a loss must be reported before anything else.
    #[inline]
    pub(crate) fn has_any_unreported(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// Returns whether a loss of this ring must be reported.
    pub(crate) fn has_unreported(&self, origin: &Origin) -> bool {
        self.unreported.contains_key(&origin.id)
    }

    /// Forgets a ring: losses that cannot be reported any more are only in the figures.
    pub(crate) fn forget(&mut self, id: u32) {
        self.rules.take_of(id).for_each(drop);
        self.unreported.remove(&id);
    }

    /// Returns the rings with losses to be reported.
    pub(crate) fn unreported_rings(&self) -> Vec<u32> {
        self.unreported.keys().copied().collect()
    }

    /// Reports the losses of a ring. Returns whether none is left.
    pub(crate) fn report_losses(&mut self, seq: &mut u64, origin: &Origin) -> bool {
        let Some(mut unreported) = self.unreported.remove(&origin.id) else { return true };
        while let Some(loss) = unreported.others.last().copied().or(unreported.busy) {
            let event = Event { seq: next(seq), origin, what: What::Lost(loss) };
            if self.take(&event) == Took::Busy {
                self.unreported.insert(origin.id, unreported);
                return false;
            }
            if unreported.others.pop().is_none() {
                unreported.busy = None;
            }
        }
        if self.unreported.is_empty() {
            self.reporting.reported(*seq);
        }
        true
    }

    /// Sets the rules, of which some are for this output.
    pub(super) fn set_rules(&mut self, rules: &[RecordRule]) {
        // These are by the numbers of the rules.
        self.rules.hurry();
        self.report_left_out();
        self.rules.set(rules.iter().filter(|rule| rule.is_for(&self.name)));
        if !self.rules.is_empty() {
            self.output.leaves_out();
        }
    }

    /// Adds what rules left out to the losses to be reported, if that is due.
    pub(super) fn report_left_out(&mut self) {
        let since = self.rules.since();
        for (ring, loss) in self.rules.take_due() {
            self.unreported.entry(ring).or_default().add(&loss);
            self.reporting.begin(since);
        }
    }

    /// Adds what rules left out of a ring that ends.
    fn report_left_out_of(&mut self, ring: u32) {
        let since = self.rules.since();
        for loss in self.rules.take_of(ring) {
            self.unreported.entry(ring).or_default().add(&loss);
            self.reporting.begin(since);
        }
    }

    /// Passes on what the output holds back to collect more.
    pub(crate) fn flush(&mut self) {
        if self.failed.is_none()
            && !self.closed
            && let Err(error) = self.output.flush()
        {
            self.failed = Some(error);
        }
    }

    /// Tells the output which producers of rings are alive.
    pub(super) fn producers(&mut self, all: &mut dyn Iterator<Item = (&Origin, Vec<u32>)>) {
        if self.failed.is_none() && !self.closed {
            self.output.producers(all);
        }
    }

    /// Tells the output that some ring is filling up with undelivered records.
    pub(crate) fn hurry(&mut self) {
        self.rules.hurry();
        if self.failed.is_none() && !self.closed {
            self.output.hurry();
        }
    }

    /// Ends the pause before the output's next attempt. Returns whether there was one.
    pub(super) fn retry(&mut self) -> bool {
        self.failed.is_none() && !self.closed && self.output.retry()
    }

    /// Moves its places on to what it has delivered; `coming` is the number of the next event.
    pub(super) fn settle(&mut self, coming: u64, moved: &mut Vec<RingId>) {
        if !self.places.is_settled() {
            let unsettled = self.unsettled().unwrap_or(coming);
            self.places.settle(unsettled, moved);
        }
    }

    /// Returns whether it holds a quarter of some ring that it was given.
    pub(super) fn is_pressing(&self, rings: &Rings) -> bool {
        !self.places.is_settled()
            && self.places.all().any(|(id, done)| {
                rings.get(id).is_some_and(|ring| {
                    let held = ring.read.pos().saturating_sub(done.saved.pos);
                    4 * held >= ring.shapes.origin().data_size.max(1)
                })
            })
    }

    /// Returns the oldest event that this output must deliver before any later one leaves its ring.
    pub(crate) fn unsettled(&mut self) -> Option<u64> {
        if !self.is_required() {
            return None;
        }
        let output = self.output.unsettled();
        let left_out = [self.rules.since(), self.reporting.unsettled(output)];
        [output, self.pinned].into_iter().chain(left_out).flatten().min()
    }

    pub(crate) fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        let before = self.output.unsettled();
        self.closed = true;
        let closed = match self.failed.take() {
            Some(error) => Err(error),
            None => self.output.close(deadline),
        };
        if closed.is_err() {
            // It may deliver any of them from now on. Without a report it may lack any.
            let left = self.output.unsettled().or(before);
            self.pinned = [self.pinned, left].into_iter().flatten().min();
        }
        closed
    }

    pub(crate) fn status(&self) -> OutputStatus<'_> {
        OutputStatus {
            name: &self.name,
            delivery: self.delivery,
            figures: self.output.figures(),
            dropped: self.dropped,
            failed: self.failed.as_ref(),
            is_behind: self.lane.is_some(),
            rules: self.rules.status().collect(),
        }
    }
}
