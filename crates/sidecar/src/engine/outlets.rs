//! All outputs together.

use super::outlet::{Outlet, next};
use super::ring::{Ring, Rings};
use crate::config::Delivery;
use crate::config::filter::Filter;
use perfring_consumer::{Cause, Count, Lost, RingTotals};
use perfring_export::{Event, Loss, LossCause, Origin, Output, OutputError, What};
use std::time::Instant;

/// As many outputs there can be: a bit each.
const OUTPUTS_MAX: usize = 64;

/// The outputs, each in a place that has a bit, and the numbers of the events that they are given.
#[derive(Default)]
pub(super) struct Outlets {
    places: Vec<Option<Outlet>>,
    /// The outputs that there are, a bit each.
    all: u64,
    /// That of the last event.
    seq: u64,
}

/// Who was told of something.
pub(super) struct Knows {
    /// All that must have everything.
    pub(super) required: bool,
    pub(super) all: bool,
}

impl Outlets {
    /// Returns the new output's bit.
    pub(super) fn add(
        &mut self,
        name: &str,
        delivery: Delivery,
        filter: Filter,
        output: Box<dyn Output>,
    ) -> Result<u64, OutputError> {
        let free = self.places.iter().position(Option::is_none);
        let at = free.unwrap_or(self.places.len());
        if at >= OUTPUTS_MAX {
            let sentence = format!("a sidecar has at most {OUTPUTS_MAX} outputs");
            return Err(OutputError::new(name, sentence));
        }
        if at == self.places.len() {
            self.places.push(None);
        }
        if let Some(place) = self.places.get_mut(at) {
            *place = Some(Outlet::new(name, delivery, filter, output));
        }
        self.all |= 1 << at;
        Ok(1 << at)
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let is_it = |outlet: &Option<Outlet>| outlet.as_ref().is_some_and(|of| of.name == name);
        self.places.iter().position(is_it)
    }

    pub(super) fn is_required(&self, at: usize) -> bool {
        self.places.get(at).and_then(Option::as_ref).is_some_and(Outlet::is_required)
    }

    /// Closes an output and takes it out; one that must have everything and has not delivered it
    /// stays, and gets nothing more.
    pub(super) fn remove(&mut self, at: usize, deadline: Instant) -> Result<(), OutputError> {
        let Some(place) = self.places.get_mut(at) else { return Ok(()) };
        let Some(outlet) = place else { return Ok(()) };
        let closed = outlet.close(deadline);
        if let Err(error) = &closed
            && outlet.is_required()
        {
            outlet.failed = Some(error.clone());
            return closed;
        }
        *place = None;
        self.all &= !(1 << at);
        closed
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Outlet> {
        self.places.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Outlet> {
        self.places.iter_mut().flatten()
    }

    /// The number of the event that comes next.
    pub(super) fn coming(&self) -> u64 {
        self.seq + 1
    }

    /// All events before this one are delivered.
    pub(super) fn undelivered(&mut self) -> u64 {
        let oldest = self.iter_mut().filter_map(Outlet::undelivered).min();
        oldest.unwrap_or(u64::MAX).min(self.coming())
    }

    /// Hands an event to all outputs that are not done with it. It gets its number when all of them
    /// know its ring. Whether all are done with it now.
    #[inline]
    pub(super) fn hand(&mut self, began: &mut u64, event: &mut Event<'_>, done: &mut u64) -> bool {
        if event.seq == 0 {
            if *began & self.all != self.all && !self.begin(began, event.origin) {
                return false;
            }
            for outlet in self.places.iter_mut().flatten().filter(|outlet| outlet.is_owed()) {
                outlet.settle(&mut self.seq, event.origin);
            }
            event.seq = next(&mut self.seq);
        }
        let mut handed = true;
        for (at, outlet) in self.places.iter_mut().enumerate() {
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

    /// Tells of a ring all outputs that do not know it. Whether those that must are told.
    #[cold]
    pub(super) fn begin(&mut self, began: &mut u64, origin: &Origin) -> bool {
        let mut reported = true;
        for (at, outlet) in self.places.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            reported &= outlet.begin(at, &mut self.seq, origin, began) || !outlet.is_required();
        }
        reported
    }

    /// Hands on what outputs hold back, and tells them what they are owed.
    pub(super) fn flush(&mut self, rings: &mut Rings) {
        for (at, outlet) in self.places.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            for id in outlet.owed_rings() {
                let Some(ring) = rings.values_mut().find(|ring| ring.id() == id) else {
                    outlet.forget(id);
                    continue;
                };
                let (origin, seq) = (ring.shapes.origin(), &mut self.seq);
                if !outlet.begin(at, seq, origin, &mut ring.began) || !outlet.settle(seq, origin) {
                    break;
                }
            }
            outlet.flush();
        }
    }

    /// What a dead producer refused and never told, nobody tells once its ring is gone: it is owed to
    /// all, before the ring's end.
    pub(super) fn owe_unreported(&mut self, ring: &mut Ring, totals: &RingTotals) {
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
            self.iter_mut().for_each(|outlet| outlet.owe(&event));
        }
    }

    /// Tells all outputs that a ring has ended.
    pub(super) fn report_end(&mut self, ring: &mut Ring, crowded: bool) -> Knows {
        let mut knows = Knows { required: true, all: true };
        let seq = &mut self.seq;
        for (at, outlet) in self.places.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            let (bit, origin) = (1 << at, ring.shapes.origin());
            // Without the bit it knows nothing of the ring, or is told already; but it may be owed.
            let done = if ring.began & bit == 0 {
                !outlet.owes(origin)
                    || outlet.begin(at, seq, origin, &mut ring.began) && outlet.end(seq, origin)
            } else {
                outlet.end(seq, origin)
            };
            // Who has failed is told nothing any more.
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

    /// Closes all, those that must deliver first: the time is theirs. Says what could not be
    /// delivered.
    pub(super) fn close(&mut self, deadline: Instant) -> Vec<OutputError> {
        let mut outlets: Vec<_> = self.iter_mut().collect();
        outlets.sort_by_key(|outlet| !outlet.is_required());
        let closed = outlets.into_iter().map(|outlet| outlet.close(deadline));
        closed.filter_map(Result::err).collect()
    }
}
