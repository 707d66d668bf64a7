//! A turn: passes some records from the rings to the outputs.

use super::Engine;
use super::checkpoint::note;
use super::merges::{Class, RingId};
use super::outlet::Outlet;
use super::pending::Pending;
use super::place::reached;
use super::ring::{Note, Stage};
use perfring_consumer::{Item, Lost, ReadError, Types, advanced::Saved};
use perfring_export::{Event, Loss, Origin, OutputError, Rec, Shapes, What};
use perfring_set::SourceError;
use std::time::Instant;

/// Records of one turn: between two polls of anything else.
const TURN: usize = 2048;
/// Those of them that are left to rings without priority.
const OTHERS: usize = TURN / 4;
/// The limit of rings that wait until a best-effort output is notified of their end.
const LEAVING_MAX: usize = 1024;
/// Turns between two checks whether a ring is a quarter full of undelivered records.
const PRESSED_TURNS: u64 = 8;

/// Returns a loss for outputs. `after` is the reader's position after it.
pub(super) fn loss_of(lost: Lost, after: &Saved, time: u64, origin: &Origin) -> Loss {
    Loss::of(lost, after, (time > 0 && origin.timed).then_some(time), origin)
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There may be more.
    More,
    /// There is nothing now.
    Empty,
    /// An output with required delivery has no room: nothing is read.
    Stalled,
}

impl Engine {
    /// Reads and passes on what there is, up to some thousand records, and releases delivered
    /// records.
    pub fn turn(&mut self) -> Turn {
        self.turn += 1;
        if !self.record_rules.is_empty() {
            self.outlets.set_now(self.clock.now_ns());
        }
        let caught_up = self.turn_lanes();
        let mut ended = Turn::Stalled;
        if self.try_pending() && self.may_read() {
            ended = self.read();
        }
        if self.pending.is_none() {
            self.checkpoint();
        }
        if caught_up == Turn::More {
            ended = Turn::More;
        }
        if ended != Turn::More {
            self.flush();
        }
        self.release_delivered();
        if ended != Turn::More {
            self.end_removed();
        }
        ended
    }

    /// Reads and passes on the items of a turn: what rings with priority have comes first, as far as they leave something
    /// for the others.
    fn read(&mut self) -> Turn {
        let mut left = TURN;
        let mut first = Turn::Empty;
        if self.merges.has_any(Class::Priority) {
            first = Turn::More;
            while left > OTHERS && first == Turn::More {
                first = self.step(Class::Priority);
                left -= 1;
            }
        }
        if first == Turn::Stalled {
            return first;
        }
        let steps = (0..left).map(|_| self.step(Class::Other)).find(|step| *step != Turn::More);
        match steps.unwrap_or(Turn::More) {
            Turn::Empty => first,
            ended => ended,
        }
    }

    /// Reads and passes on one item.
    #[inline]
    fn step(&mut self, class: Class) -> Turn {
        let (source, merged) = match self.merges.next(class) {
            Ok(Some(next)) => next,
            Ok(None) => return Turn::Empty,
            Err((id, error)) => {
                self.set_aside(id, &error);
                return Turn::More;
            }
        };
        let Some(ring) = self.rings.get_mut(source) else { return Turn::More };
        if ring.turn != self.turn {
            ring.turn = self.turn;
            self.touched.push(source);
            if self.outlets.behind() != 0 {
                self.outlets.leave_to_lanes(source, ring);
            }
        }
        match &merged.item {
            Item::Record(record) => {
                ring.shapes.prepare(record);
                ring.figures.records += 1;
                ring.figures.bytes += record.bytes.len() as u64;
                if merged.late > 0 {
                    ring.figures.late += 1;
                    ring.figures.late_most = ring.figures.late_most.max(merged.late);
                }
            }
            Item::Lost(lost) => ring.figures.lost(lost),
        }
        let origin = ring.shapes.origin();
        let (mut ends_turn, time) = (false, merged.time);
        let what = match merged.item {
            Item::Record(record) => What::Record(Rec::new_late(record, origin, merged.late)),
            Item::Lost(lost) => {
                let after = self.merges.resume_point(source).unwrap_or_default().saved();
                let loss = loss_of(lost, &after, time, origin);
                ends_turn = loss.at_end;
                What::Lost(loss)
            }
        };
        let mut event = Event { seq: 0, origin, what };
        if let What::Record(rec) = &event.what {
            for (at, rule) in self.snapshots.iter().enumerate() {
                self.met |= u64::from(rule.is_met_by(rec)) << at.min(63);
            }
        }
        let lacking = self.outlets.hand(&mut ring.began, &mut event);
        let was_taken = lacking != self.outlets.level();
        if was_taken {
            note(&mut self.runs, source, event.seq);
        }
        if self.outlets.behind() != 0 && !ring.is_kept() {
            self.outlets.miss(&event);
        }
        let pending = if lacking == 0 { None } else { Pending::of(source, event) };
        let turn = match pending {
            Some(pending) => self.lacked(&pending, lacking, was_taken),
            None => Turn::More,
        };
        if ends_turn && self.pending.is_none() {
            self.checkpoint();
        }
        turn
    }

    /// Offers the held event, if any, again. Returns whether none is held now.
    fn try_pending(&mut self) -> bool {
        let Some((at, pending)) = self.pending.take() else { return true };
        let Some(ring) = self.rings.get_mut(pending.source) else { return true };
        let mut event = pending.event(ring.shapes.origin());
        if self.outlets.hand_to(at, &mut ring.began, &mut event) {
            note(&mut self.runs, pending.source, event.seq);
            if matches!(&event.what, What::Lost(loss) if loss.at_end) {
                self.checkpoint();
            }
            return true;
        }
        if self.outlets.level() != 1 << at {
            // Another one was added.
            self.fall_behind(at, Some(pending), false);
            self.checkpoint();
            return true;
        }
        self.pending = Some((at, pending));
        false
    }

    /// Adds the places after everything that was read, to release them after the delivery. Each loss at the end of a stream
    /// has its own place: it is not among the items after an earlier one.
    pub(super) fn checkpoint(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        let mut ends = Vec::with_capacity(self.touched.len());
        for id in self.touched.drain(..) {
            let (Some(ring), Some(end)) = (self.rings.get_mut(id), self.merges.resume_point(id))
            else {
                continue;
            };
            ends.push((id, ring.read.saved(), end.saved()));
            ring.turn = 0; // it may be read on in this turn
            ring.passed(end);
        }
        let runs = self.runs.as_slice().into(); // one copy, which an iterator would make piece by piece
        self.runs.clear();
        if !self.outlets.pass(&ends, runs) {
            self.moved.extend(ends.iter().map(|(id, ..)| *id)); // nobody holds them
        }
    }

    /// Passes on what outputs hold back, and reports losses to them. To be called from time to time
    /// if turns are always full.
    pub fn flush(&mut self) {
        self.anchor();
        self.outlets.flush(&mut self.rings);
    }

    /// Releases records in their rings that every required output has delivered.
    pub(crate) fn release_delivered(&mut self) {
        let (coming, mut moved) = (self.outlets.coming(), std::mem::take(&mut self.moved));
        self.outlets.holding().for_each(|outlet| outlet.settle(coming, &mut moved));
        for id in moved.drain(..) {
            let Some(ring) = self.rings.get_mut(id) else { continue };
            let slowest = self
                .outlets
                .holding()
                .filter_map(|outlet| outlet.places.get(id))
                .map(|done| reached(&done.saved))
                .min();
            let Some(end) = ring.take_end(slowest.unwrap_or((u64::MAX, u64::MAX))) else {
                continue;
            };
            match &mut ring.source {
                Some(source) => source.release(&end),
                None => self.merges.release(id, &end),
            }
            ring.released = Some(end);
        }
        self.moved = moved;
        if self.turn.is_multiple_of(PRESSED_TURNS) {
            let rings = &self.rings;
            let pressing = self.outlets.required().filter(|outlet| outlet.is_pressing(rings));
            pressing.for_each(Outlet::hurry);
        }
    }

    /// Sets a ring aside that cannot be read any further.
    #[cold]
    fn set_aside(&mut self, id: RingId, error: &SourceError) {
        let Some(ring) = self.rings.get_mut(id) else { return };
        let uuid = ring.uuid();
        let passes =
            matches!(error, SourceError::Read(ReadError::NoSpace | ReadError::OutOfMemory { .. }));
        self.notes.push(Note::SetAside {
            ring: ring.shapes.origin().name.clone(),
            location: ring.location.clone(),
            uuid,
            why: error.to_string(),
            again: passes,
        });
        ring.stage = Stage::Ending;
        if !passes {
            self.count_damaged(Some(uuid));
        }
        self.leave(id);
    }

    /// Ends rings that are removed and read, and releases them once all of their records are
    /// delivered.
    pub(crate) fn end_removed(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        // A best-effort output must not keep an unlimited number of rings.
        let crowded = self.leaving.len() > LEAVING_MAX;
        for id in std::mem::take(&mut self.leaving) {
            // Those that lack something of it must get that first.
            let lacking = self.outlets.lacking(id, &self.rings);
            let Some(ring) = self.rings.get_mut(id) else { continue };
            if self.touched.contains(&id) {
                self.leaving.push(id);
                continue;
            }
            if lacking != 0 && matches!(ring.stage, Stage::Leaving(_)) {
                ring.stage = Stage::Ending; // another output took the place of one that had all
            }
            if ring.stage == Stage::Reading
                // In this order: records that were written before the producer ended are seen after
                // it.
                && (ring.replaced || self.merges.source(id).is_none_or(|source| !source.has_producer()))
                && self.merges.is_drained(id)
            {
                ring.stage = Stage::Ending;
            }
            if ring.stage == Stage::Ending {
                if ring.source.is_none() {
                    // No more records will arrive from it.
                    ring.source = self.merges.remove(id);
                }
                if self.outlets.report_end(ring, lacking, crowded).required {
                    ring.stage = Stage::Leaving(self.outlets.coming());
                }
            }
            if let Stage::Leaving(seq) = ring.stage
                && self.outlets.unsettled() >= seq
            {
                self.release_delivered();
                self.drop_ring(id);
            }
            let Some(ring) = self.rings.get_mut(id) else { continue };
            if ring.stage == Stage::Gone && self.outlets.report_end(ring, lacking, crowded).all {
                self.rings.remove(id);
            } else {
                self.leaving.push(id);
            }
        }
    }

    /// Stops reading this ring, of which all is delivered, so that another process can attach.
    pub(crate) fn detach_delivered(&mut self, id: RingId) {
        drop(self.merges.remove(id));
    }

    /// Notes that this ring was read to its end and removed.
    pub(crate) fn removed(&mut self, id: RingId) {
        if let Some(ring) = self.rings.get_mut(id) {
            ring.removed = true;
        }
        self.detach(id);
    }

    /// Releases a ring, with its lock and its memory: all of it is delivered to required outputs.
    fn drop_ring(&mut self, id: RingId) {
        let Some(ring) = self.rings.get_mut(id) else { return };
        self.kernel.retain(|kernel| *kernel != id);
        self.areas.remove(&id);
        ring.stage = Stage::Gone;
        ring.source = None;
        let origin = ring.shapes.origin().clone();
        let (name, uuid) = (origin.name.clone(), origin.uuid);
        ring.shapes = Shapes::of(origin, Types::default());
        self.outlets.forget(id);
        let last = self.by_uuid.get(&uuid) == Some(&id);
        if last {
            self.by_uuid.remove(&uuid);
            if let Some(area) = self.metrics.remove(&uuid).and_then(|id| self.areas.get(&id)) {
                area.end();
            }
        }
        let removed = last && ring.removed;
        let stays = last && ring.observed && !removed;
        let (figures, saved) = (ring.figures.clone(), stays.then(|| ring.delivered().saved()));
        self.ended.add(&figures);
        self.notes.push(Note::Ended { ring: name, uuid, figures, removed, saved });
    }

    /// Delivers what outputs have, until the deadline, and releases what they did deliver. Nothing
    /// is read afterwards. Returns what could not be delivered.
    pub fn close(&mut self, deadline: Instant) -> Vec<OutputError> {
        if self.try_pending() {
            self.checkpoint();
        }
        self.report_left_out();
        let errors = self.outlets.close(deadline);
        self.release_delivered();
        errors
    }
}
