//! All outputs together.

use super::outlet::{Outlet, next};
use super::ring::{Ring, Rings};
use crate::config::Delivery;
use crate::config::filter::Filter;
use perfring_consumer::{Cause, Count, Lost, RingTotals};
use perfring_export::{Event, Loss, LossCause, Origin, Output, OutputError, What};
use std::time::Instant;

/// The limit of outputs: a bit each.
const OUTPUTS_MAX: usize = 64;

/// The outputs, each in a slot that has a bit, and the numbers of the events that they are given.
#[derive(Default)]
pub(super) struct Outlets {
    slots: Vec<Option<Outlet>>,
    /// The used slots, a bit each.
    all: u64,
    /// The number of the last event.
    seq: u64,
}

/// Which outputs were notified of something.
pub(super) struct Knows {
    /// All outputs with required delivery.
    pub(super) required: bool,
    pub(super) all: bool,
}

impl Outlets {
    /// Adds an output. Returns its bit.
    pub(super) fn add(
        &mut self,
        name: &str,
        delivery: Delivery,
        filter: Filter,
        output: Box<dyn Output>,
    ) -> Result<u64, OutputError> {
        let free = self.slots.iter().position(Option::is_none);
        let at = free.unwrap_or(self.slots.len());
        if at >= OUTPUTS_MAX {
            let sentence = format!("a sidecar has at most {OUTPUTS_MAX} outputs");
            return Err(OutputError::new(name, sentence));
        }
        if at == self.slots.len() {
            self.slots.push(None);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(Outlet::new(name, delivery, filter, output));
        }
        self.all |= 1 << at;
        Ok(1 << at)
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let is_it = |outlet: &Option<Outlet>| outlet.as_ref().is_some_and(|of| of.name == name);
        self.slots.iter().position(is_it)
    }

    pub(super) fn is_required(&self, at: usize) -> bool {
        self.slots.get(at).and_then(Option::as_ref).is_some_and(Outlet::is_required)
    }

    /// Closes an output and removes it; one with required delivery that has not delivered
    /// everything stays, and gets no more events.
    pub(super) fn remove(&mut self, at: usize, deadline: Instant) -> Result<(), OutputError> {
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        let Some(outlet) = slot else { return Ok(()) };
        let closed = outlet.close(deadline);
        if let Err(error) = &closed
            && outlet.is_required()
        {
            outlet.failed = Some(error.clone());
            return closed;
        }
        *slot = None;
        self.all &= !(1 << at);
        closed
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Outlet> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Outlet> {
        self.slots.iter_mut().flatten()
    }

    /// Returns the number of the next event.
    pub(super) fn coming(&self) -> u64 {
        self.seq + 1
    }

    /// Returns the first undelivered event: all earlier ones are delivered.
    pub(super) fn undelivered(&mut self) -> u64 {
        let oldest = self.iter_mut().filter_map(Outlet::undelivered).min();
        oldest.unwrap_or(u64::MAX).min(self.coming())
    }

    /// Passes an event to all outputs that are not done with it. It gets its number when all of
    /// them know its ring. Returns whether all are done with it now.
    #[inline]
    pub(super) fn hand(&mut self, began: &mut u64, event: &mut Event<'_>, done: &mut u64) -> bool {
        if event.seq == 0 {
            if *began & self.all != self.all && !self.begin(began, event.origin) {
                return false;
            }
            for outlet in
                self.slots.iter_mut().flatten().filter(|outlet| outlet.has_any_unreported())
            {
                outlet.report_losses(&mut self.seq, event.origin);
            }
            event.seq = next(&mut self.seq);
        }
        let mut handed = true;
        for (at, outlet) in self.slots.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            let bit = 1 << at;
            if *done & bit != 0 || outlet.offer(event, *began & bit != 0) {
                *done |= bit;
            } else {
                handed = false;
            }
        }
        handed
    }

    /// Announces a ring to all outputs that do not know it. Returns whether those with required
    /// delivery do now.
    #[cold]
    pub(super) fn begin(&mut self, began: &mut u64, origin: &Origin) -> bool {
        let mut reported = true;
        for (at, outlet) in self.slots.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            reported &= outlet.begin(at, &mut self.seq, origin, began) || !outlet.is_required();
        }
        reported
    }

    /// Passes on what outputs hold back, and reports losses to them.
    pub(super) fn flush(&mut self, rings: &mut Rings) {
        for (at, outlet) in self.slots.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            for id in outlet.unreported_rings() {
                let Some(ring) = rings.values_mut().find(|ring| ring.id() == id) else {
                    outlet.forget(id);
                    continue;
                };
                let (origin, seq) = (ring.shapes.origin(), &mut self.seq);
                if !outlet.begin(at, seq, origin, &mut ring.began)
                    || !outlet.report_losses(seq, origin)
                {
                    break;
                }
            }
            outlet.flush();
        }
    }

    /// Adds what a dead producer refused and never reported to the losses of all outputs, before
    /// the ring's end: nothing else reports it once the ring is removed.
    pub(super) fn defer_unreported(&mut self, ring: &mut Ring, totals: &RingTotals) {
        let unreported = totals.producer.refused.since(totals.producer.reported);
        for (cause, Count { records, bytes }) in Cause::REFUSED.into_iter().zip(unreported.all()) {
            if records == 0 {
                continue;
            }
            let pos = totals.head;
            ring.figures.lost(&Lost { pos, records, bytes, cause });
            let cause = LossCause::Ring(cause);
            let loss = Loss { pos, records, bytes, cause, time: None, wall: None };
            let event = Event { seq: 0, origin: ring.shapes.origin(), what: What::Lost(loss) };
            self.iter_mut().for_each(|outlet| outlet.defer_loss(&event));
        }
    }

    /// Reports to all outputs that a ring has ended.
    pub(super) fn report_end(&mut self, ring: &mut Ring, crowded: bool) -> Knows {
        let mut knows = Knows { required: true, all: true };
        let seq = &mut self.seq;
        for (at, outlet) in self.slots.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            let (bit, origin) = (1 << at, ring.shapes.origin());
            // Without the bit it does not know the ring, or was notified already; but a loss may be
            // left.
            let done = if ring.began & bit == 0 {
                !outlet.has_unreported(origin)
                    || outlet.begin(at, seq, origin, &mut ring.began) && outlet.end(seq, origin)
            } else {
                outlet.end(seq, origin)
            };
            // A failed output gets no more notifications.
            let gives_up = !outlet.is_required() && (crowded || outlet.failed.is_some());
            if done {
                ring.began &= !bit;
            } else if gives_up {
                outlet.forget(origin.id);
                ring.began &= !bit;
            } else {
                knows.all = false;
                knows.required &= !outlet.is_required();
            }
        }
        knows
    }

    /// Closes all outputs, those with required delivery first, as they need the time. Returns what
    /// could not be delivered.
    pub(super) fn close(&mut self, deadline: Instant) -> Vec<OutputError> {
        let mut outlets: Vec<_> = self.iter_mut().collect();
        outlets.sort_by_key(|outlet| !outlet.is_required());
        let closed = outlets.into_iter().map(|outlet| outlet.close(deadline));
        closed.filter_map(Result::err).collect()
    }
}
