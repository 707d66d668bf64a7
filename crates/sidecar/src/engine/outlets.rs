//! All outputs together.

use super::checkpoint::Run;
use super::lane::Lane;
use super::merges::RingId;
use super::outlet::{Outlet, next};
use super::place::reached;
use super::ring::Ring;
use super::rings::Rings;
use crate::config::Delivery;
use crate::config::filter::Filter;
use perfring_consumer::advanced::Saved;
use perfring_export::{Event, Origin, Output, OutputError};
use std::rc::Rc;
use std::time::Instant;

/// The limit of outputs: a bit each.
const OUTPUTS_MAX: usize = 64;

/// The outputs, each in a slot that has a bit, and the numbers of the events that they are given.
#[derive(Default)]
pub(super) struct Outlets {
    slots: Vec<Option<Outlet>>,
    /// The used slots, a bit each.
    all: u64,
    /// Those of them that have fallen behind.
    behind: u64,
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

    /// Takes an output out of its slot.
    pub(super) fn take(&mut self, at: usize) -> Option<Outlet> {
        self.all &= !(1 << at);
        self.behind &= !(1 << at);
        self.slots.get_mut(at)?.take()
    }

    pub(super) fn get(&mut self, at: usize) -> Option<&mut Outlet> {
        self.slots.get_mut(at)?.as_mut()
    }

    /// Returns the outputs that keep up, a bit each.
    pub(super) fn level(&self) -> u64 {
        self.all & !self.behind
    }

    /// Returns the outputs that have fallen behind, a bit each.
    pub(super) fn behind(&self) -> u64 {
        self.behind
    }

    /// Gives an output a lane, or takes it.
    pub(super) fn set_lane(&mut self, at: usize, lane: Option<Box<Lane>>) {
        let behind = lane.is_some();
        if let Some(outlet) = self.get(at) {
            outlet.lane = lane;
            self.behind = self.behind & !(1 << at) | u64::from(behind) << at;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Outlet> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Outlet> {
        self.slots.iter_mut().flatten()
    }

    pub(super) fn numbered(&mut self) -> impl Iterator<Item = (usize, &mut Outlet)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(at, slot)| Some((at, slot.as_mut()?)))
    }

    pub(super) fn name(&self, at: usize) -> Option<&str> {
        self.slots.get(at)?.as_ref().map(|outlet| outlet.name.as_str())
    }

    pub(super) fn required(&mut self) -> impl Iterator<Item = &mut Outlet> {
        self.iter_mut().filter(|outlet| outlet.is_required())
    }

    /// Returns the outputs that hold rings: also a best-effort one while it has a lane. That takes no
    /// longer than to read what it lacks.
    pub(super) fn holding(&mut self) -> impl Iterator<Item = &mut Outlet> {
        self.iter_mut().filter(|outlet| outlet.is_required() || outlet.lane.is_some())
    }

    /// Notes that the outputs that keep up were given rings from one place to another. Returns
    /// whether one of them holds those rings.
    pub(super) fn pass(
        &mut self,
        ends: &[(RingId, Saved, Saved)],
        runs: Rc<[Run<RingId>]>,
    ) -> bool {
        let (coming, level, mut holds) = (self.coming(), self.level(), false);
        for (at, outlet) in self.slots.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            if level & (1 << at) != 0 && outlet.is_required() {
                ends.iter().for_each(|(id, from, _)| outlet.places.hold(*id, (*from).into()));
                let to = ends.iter().map(|(id, _, to)| (*id, (*to).into()));
                // One that was ahead was not given all of these events.
                let ahead = |(id, from, _): &(RingId, Saved, Saved)| {
                    outlet.places.get(*id).is_some_and(|done| reached(&done.saved) > reached(from))
                };
                let runs = if ends.iter().any(ahead) { Rc::default() } else { Rc::clone(&runs) };
                outlet.places.pass(coming, to, runs);
                holds = true;
            }
        }
        holds
    }

    /// Leaves what follows in a ring to the lanes of the outputs that are behind, before anything of
    /// it is read in a turn.
    #[cold]
    pub(super) fn leave_to_lanes(&mut self, id: RingId, ring: &Ring) {
        let from = ring.read.saved();
        for outlet in self.iter_mut() {
            let Some(lane) = &mut outlet.lane else { continue };
            if ring.is_kept() {
                lane.start(id, from.into());
                outlet.places.hold(id, from.into());
            } else {
                outlet.places.forget(id);
            }
        }
    }

    /// Returns the outputs that lack something of a ring, a bit each.
    pub(super) fn lacking(&mut self, id: RingId, rings: &Rings) -> u64 {
        let lacks = |(at, outlet): (usize, &mut Option<Outlet>)| {
            let lane = outlet.as_mut()?.lane.as_mut()?;
            lane.lacks(id, rings.get(id)?).then_some(1 << at)
        };
        self.slots.iter_mut().enumerate().filter_map(lacks).sum()
    }

    /// Forgets a ring that is released.
    pub(super) fn forget(&mut self, id: RingId) {
        for outlet in self.iter_mut() {
            outlet.places.forget(id);
            if let Some(lane) = &mut outlet.lane {
                lane.forget(id);
            }
        }
    }

    /// Returns the number of the next event.
    pub(super) fn coming(&self) -> u64 {
        self.seq + 1
    }

    /// Returns the first unsettled event: all earlier ones are settled.
    pub(super) fn unsettled(&mut self) -> u64 {
        let oldest = self.iter_mut().filter_map(Outlet::unsettled).min();
        oldest.unwrap_or(u64::MAX).min(self.coming())
    }

    /// Passes an event to all outputs that keep up. Returns those that had no room for it, though
    /// their delivery is required: a bit each.
    #[inline]
    pub(super) fn hand(&mut self, began: &mut u64, event: &mut Event<'_>) -> u64 {
        let level = self.level();
        if *began & level != level {
            self.begin(began, event.origin);
        }
        for outlet in self.slots.iter_mut().flatten().filter(|outlet| outlet.has_any_unreported()) {
            outlet.report_losses(&mut self.seq, event.origin);
        }
        event.seq = next(&mut self.seq);
        let mut lacking = 0;
        for (at, outlet) in self.slots.iter_mut().enumerate() {
            let bit = 1 << at;
            let Some(outlet) = outlet.as_mut().filter(|_| level & bit != 0) else { continue };
            if !outlet.offer(event, *began & bit != 0) {
                lacking |= bit;
            }
        }
        lacking
    }

    /// Passes an event to one output, as [`Outlets::hand`] does. Returns whether it is done with it.
    pub(super) fn hand_to(&mut self, at: usize, began: &mut u64, event: &mut Event<'_>) -> bool {
        let seq = &mut self.seq;
        let Some(outlet) = self.slots.get_mut(at).and_then(Option::as_mut) else { return true };
        let is_free =
            outlet.begin(at, seq, event.origin, began) && outlet.report_losses(seq, event.origin);
        if !is_free && outlet.is_required() {
            return false;
        }
        event.seq = next(seq);
        outlet.offer(event, is_free)
    }

    /// Adds an event that cannot be read once more to the losses of all outputs that are behind.
    #[cold]
    pub(super) fn miss(&mut self, event: &Event<'_>) {
        for outlet in self.iter_mut().filter(|outlet| outlet.lane.is_some()) {
            outlet.defer_loss(event);
        }
    }

    /// Announces a ring to all outputs that do not know it, as far as they have room.
    #[cold]
    pub(super) fn begin(&mut self, began: &mut u64, origin: &Origin) {
        for (at, outlet) in self.slots.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            outlet.begin(at, &mut self.seq, origin, began);
        }
    }

    /// Passes on what outputs hold back, and reports losses to them.
    pub(super) fn flush(&mut self, rings: &mut Rings) {
        for (at, outlet) in self.slots.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            outlet.report_left_out();
            if outlet.has_any_unreported() {
                report(at, outlet, &mut self.seq, rings);
            }
            outlet.flush();
        }
    }

    /// Sets the present time, for rules.
    pub(super) fn set_now(&mut self, now: u64) {
        self.iter_mut().for_each(|outlet| outlet.rules.set_now(now));
    }

    /// Reports to all outputs that a ring has ended.
    ///
    /// `lacking` are those that lack some of its records, and get them first.
    pub(super) fn report_end(&mut self, ring: &mut Ring, lacking: u64, crowded: bool) -> Knows {
        let mut knows = Knows { required: lacking == 0, all: lacking == 0 };
        let seq = &mut self.seq;
        for (at, outlet) in self.slots.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            let (bit, origin) = (1 << at, ring.shapes.origin());
            if lacking & bit != 0 {
                continue;
            }
            // Without the bit it does not know the ring, or was notified already; but a loss may be
            // left.
            let done = if ring.began & bit == 0 {
                !outlet.has_unreported(origin) && !outlet.rules.has(origin.id)
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

/// Reports the losses of all rings to an output, as far as it has room.
#[cold]
fn report(at: usize, outlet: &mut Outlet, seq: &mut u64, rings: &mut Rings) {
    for (_, ring) in rings.iter_mut() {
        let origin = ring.shapes.origin();
        if outlet.has_unreported(origin)
            && (!outlet.begin(at, seq, origin, &mut ring.began)
                || !outlet.report_losses(seq, origin))
        {
            return;
        }
    }
    // Those that are left are of rings that are gone.
    outlet.unreported_rings().into_iter().for_each(|id| outlet.forget(id));
}
