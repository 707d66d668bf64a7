//! Outputs that fall behind, and catch up: a required output that has no room holds up no other.

use super::Engine;
use super::checkpoint::{Run, count, note};
use super::lane::{Lane, Taken};
use super::merges::{Class, RingId};
use super::pending::Pending;
use super::place::Place;
use super::places::Removed;
use super::turn::{Turn, loss_of};
use super::untold::Ahead;
use crate::config::Delivery;
use crate::config::filter::Filter;
use perfring_consumer::{Item, stat::Refused};
use perfring_export::{Event, Output, OutputError, Rec, What};
use std::time::Instant;

/// Records of one turn of a lane: more than those of the others, to catch up with them.
const TURN: usize = 4096;
/// Those of them that are left to rings without priority.
const OTHERS: usize = TURN / 4;

impl Engine {
    /// Some required outputs have no room for an event. If others go on, they fall behind; the last
    /// one holds it.
    #[cold]
    pub(super) fn lacked(&mut self, pending: &Pending, mut lacking: u64, was_taken: bool) -> Turn {
        if !was_taken {
            let at = lacking.trailing_zeros() as usize;
            lacking &= !(1 << at);
            self.pending = Some((at, pending.clone()));
        }
        while lacking != 0 {
            let at = lacking.trailing_zeros() as usize;
            lacking &= lacking - 1;
            self.fall_behind(at, Some(pending.clone()), was_taken);
        }
        if self.pending.is_some() { Turn::Stalled } else { Turn::More }
    }

    /// Gives an output a lane of its own, from here on. `pending` is the event that it lacks, and
    /// `was_taken` says whether another output has it.
    pub(super) fn fall_behind(&mut self, at: usize, pending: Option<Pending>, was_taken: bool) {
        let mut lane = Lane::default();
        let coming = self.outlets.coming();
        let Some(outlet) = self.outlets.get(at) else { return };
        let lacked = pending.as_ref().map(|pending| pending.source);
        let mut ends = Vec::new();
        for id in &self.touched {
            let (Some(ring), Some(end)) = (self.rings.get(*id), self.merges.resume_point(*id))
            else {
                continue;
            };
            if !ring.is_kept() {
                outlet.places.forget(*id);
                continue;
            }
            let (from, end) = (Place::from(ring.read.saved()), Place::from(end.saved()));
            outlet.places.hold(*id, from);
            lane.start(*id, end);
            if Some(*id) == lacked {
                // It has what precedes that event.
                let given = count(&self.runs, *id).saturating_sub(was_taken.into());
                let before = Place { skip: given, ..from };
                ends.push((*id, before));
                lane.hold(*id, before);
            } else {
                ends.push((*id, end));
            }
        }
        outlet.places.pass(coming, ends, self.runs.as_slice().into());
        lane.pending = pending;
        self.outlets.set_lane(at, Some(Box::new(lane)));
    }

    /// Returns whether there is somebody to read for.
    pub(super) fn may_read(&self) -> bool {
        self.outlets.level() != 0 || self.outlets.behind() == 0
    }

    /// Lets all outputs that are behind catch up, as far as they have room.
    pub(super) fn turn_lanes(&mut self) -> Turn {
        let mut behind = self.outlets.behind();
        let mut all = Turn::Stalled;
        while behind != 0 {
            let at = behind.trailing_zeros() as usize;
            behind &= behind - 1;
            let Some(mut lane) = self.outlets.get(at).and_then(|outlet| outlet.lane.take()) else {
                continue;
            };
            let turned = self.turn_lane(at, &mut lane);
            let level = turned == Turn::Empty && lane.is_done(&self.rings);
            if level && let Some((other, pending)) = self.pending.take() {
                // It must not wait for the one that holds an event.
                self.fall_behind(other, Some(pending), false);
                self.checkpoint();
            }
            if level && self.touched.is_empty() && lane.is_done(&self.rings) {
                self.catch_up(at, &lane);
                continue;
            }
            if turned == Turn::More || level {
                all = Turn::More;
            }
            self.outlets.set_lane(at, Some(lane));
        }
        all
    }

    /// The output of this lane has all that the others have.
    fn catch_up(&mut self, at: usize, lane: &Lane) {
        self.outlets.set_lane(at, None);
        let Some(outlet) = self.outlets.get(at) else { return };
        for (id, Place { saved: to, .. }) in lane.places() {
            let Some(ring) = self.rings.get(id) else { continue };
            let from = ring.read.saved();
            let (count, told) = (to.before.since(from.before), to.told.since(from.told));
            if to.pos > from.pos || told != Refused::default() {
                outlet.set_ahead(ring.shapes.origin(), Ahead { pos: to.pos, count, told });
            }
        }
        if !outlet.is_required() {
            // It holds nothing any more.
            let places = std::mem::take(&mut outlet.places);
            self.moved.extend(places.all().map(|(id, _)| id));
        }
    }

    /// Passes some records to the output of this lane.
    fn turn_lane(&mut self, at: usize, lane: &mut Lane) -> Turn {
        let mut runs = Vec::new();
        if let Some(pending) = lane.pending.take()
            && let Some(ring) = self.rings.get_mut(pending.source)
        {
            let mut event = pending.event(ring.shapes.origin());
            if !self.outlets.hand_to(at, &mut ring.began, &mut event) {
                lane.pending = Some(pending);
                return Turn::Stalled;
            }
            note(&mut runs, pending.source, event.seq);
        }
        let turned = match lane.open(&self.rings) {
            Ok(true) => self.read_lane(at, lane, &mut runs),
            Ok(false) => Turn::More,
            Err(_) => Turn::Stalled, // out of memory: tried again
        };
        let ends = lane.take_ends(|id| count(&runs, id));
        let coming = self.outlets.coming();
        if let Some(outlet) = self.outlets.get(at) {
            outlet.places.pass(coming, ends, runs.into());
        }
        turned
    }

    fn read_lane(&mut self, at: usize, lane: &mut Lane, runs: &mut Vec<Run<RingId>>) -> Turn {
        for left in (1..=TURN).rev() {
            let first = if left > OTHERS { Class::Priority } else { Class::Other };
            let Taken { id, item, time, late, was_given } = match lane.next(first) {
                Ok(Some(next)) => next,
                Ok(None) => return Turn::Empty,
                Err(id) => {
                    // The engine finds the same, and sets the ring aside.
                    lane.forget(id);
                    continue;
                }
            };
            let Some(ring) = self.rings.get_mut(id).filter(|_| !was_given) else { continue };
            if let Item::Record(record) = &item {
                ring.shapes.prepare(record);
            }
            let origin = ring.shapes.origin();
            let mut is_item = true;
            let what = match item {
                Item::Record(record) => What::Record(Rec::new_late(record, origin, late)),
                Item::Lost(lost) => {
                    let after = lane.saved(id);
                    let loss = loss_of(lost, &after, time, origin);
                    is_item = !loss.at_end;
                    What::Lost(loss)
                }
            };
            let mut event = Event { seq: 0, origin, what };
            if !self.outlets.hand_to(at, &mut ring.began, &mut event) {
                let pending = Pending::of(id, event);
                lane.pending = pending;
                return Turn::Stalled;
            }
            if is_item {
                note(runs, id, event.seq);
            }
        }
        Turn::More
    }

    /// Returns whether all outputs have what was read, or are given it without more ado.
    pub(crate) fn is_level(&self) -> bool {
        self.outlets.behind() == 0 && self.pending.is_none()
    }

    /// Adds an output in place of one that was removed: it gets what that did not deliver.
    ///
    /// # Errors
    /// [`OutputError`]: there are too many.
    pub fn add_successor(
        &mut self,
        name: &str,
        delivery: Delivery,
        filter: Filter,
        output: Box<dyn Output>,
        of: Removed,
    ) -> Result<(), OutputError> {
        self.add_output(name, delivery, filter, output)?;
        let Some(at) = self.outlets.find(name) else { return Ok(()) };
        // Also a best-effort output is given what its predecessor lacks, or a report of it.
        if let Some(outlet) = self.outlets.get(at) {
            let mut lane = Lane::default();
            of.places.all().for_each(|(id, place)| lane.start(id, place));
            outlet.places = *of.places;
            self.outlets.set_lane(at, Some(Box::new(lane)));
        }
        Ok(())
    }

    /// Removes an output, after it has delivered what it has, as far as it can until the deadline.
    /// `None` if there is none of this name. What it did not deliver stays in the rings while what
    /// this returns is kept for [`Engine::add_successor`], and no turn was done.
    pub fn remove_output(&mut self, name: &str, deadline: Instant) -> Option<Removed> {
        let at = self.outlets.find(name)?;
        let pending = self.pending.take_if(|(of, _)| *of == at).map(|(_, pending)| pending);
        let was_level = self.outlets.level() & (1 << at) != 0;
        if was_level {
            self.fall_behind(at, pending, false);
        }
        if self.pending.is_none() {
            self.checkpoint();
        }
        self.report_left_out();
        let mut outlet = self.outlets.take(at)?;
        let error = outlet.close(deadline).err();
        let unsettled = outlet.unsettled().unwrap_or(self.outlets.coming());
        let places = outlet.places.exact(unsettled);
        self.moved.extend(places.all().map(|(id, _)| id));
        Some(Removed { places: Box::new(places), error })
    }
}
