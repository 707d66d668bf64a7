//! A turn: passes some records from the rings to the outputs.

use super::Engine;
use super::outlet::Outlet;
use super::pending::Pending;
use super::ring::{Note, Stage};
use perfring_consumer::{Item, Lost, RingTotals, Types};
use perfring_export::{Event, Loss, LossCause, OutputError, Rec, Shapes, What};
use perfring_set::SourceId;
use std::time::{Duration, Instant};

/// Records of one turn: between two polls of anything else.
const TURN: usize = 2048;

/// The pause between two attempts to pass the held event to an output that is being removed.
const PENDING_PAUSE: Duration = Duration::from_millis(1);
/// The limit of rings that wait until a best-effort output is notified of their end.
const LEAVING_MAX: usize = 1024;
/// Turns between two checks whether a ring is a quarter full of undelivered records.
const PRESSED_TURNS: u64 = 8;

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
        let mut ended = Turn::Stalled;
        if self.try_pending() {
            let steps = (0..TURN).map(|_| self.step()).find(|step| *step != Turn::More);
            ended = steps.unwrap_or(Turn::More);
        }
        if self.pending.is_none() {
            self.checkpoint();
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

    /// Reads and passes on one item.
    #[inline]
    fn step(&mut self) -> Turn {
        let merged = match self.merge.next() {
            Ok(Some(merged)) => merged,
            Ok(None) => return Turn::Empty,
            Err((id, error)) => {
                self.set_aside(id, &error.to_string());
                return Turn::More;
            }
        };
        let source = merged.source;
        let Some(ring) = self.rings.get_mut(&source) else { return Turn::More };
        if ring.turn != self.turn {
            ring.turn = self.turn;
            self.touched.push(source);
        }
        let what = match merged.item {
            Item::Record(record) => {
                ring.shapes.prepare(&record);
                ring.figures.records += 1;
                ring.figures.bytes += record.bytes.len() as u64;
                if merged.late > 0 {
                    ring.figures.late += 1;
                    ring.figures.late_most = ring.figures.late_most.max(merged.late);
                }
                What::Record(Rec::new_late(record, ring.shapes.origin(), merged.late))
            }
            Item::Lost(lost) => {
                ring.figures.lost(&lost);
                let origin = ring.shapes.origin();
                let time = (merged.time > 0 && origin.timed).then_some(merged.time);
                let Lost { pos, records, bytes, cause } = lost;
                let wall = time.and_then(|time| origin.anchors.wall(pos, time));
                What::Lost(Loss { pos, records, bytes, cause: LossCause::Ring(cause), time, wall })
            }
        };
        let mut event = Event { seq: 0, origin: ring.shapes.origin(), what };
        if let What::Record(rec) = &event.what {
            for (at, rule) in self.rules.iter().enumerate() {
                self.met |= u64::from(rule.is_met_by(rec)) << at.min(63);
            }
        }
        let mut done = 0;
        if self.outlets.hand(&mut ring.began, &mut event, &mut done) {
            return Turn::More;
        }
        self.pending = Pending::of(source, event, done);
        Turn::Stalled
    }

    /// Offers the held event, if any, again. Returns whether all outputs are done with it now.
    fn try_pending(&mut self) -> bool {
        let Some(mut pending) = self.pending.take() else { return true };
        let Some(ring) = self.rings.get_mut(&pending.source) else { return true };
        let mut event = pending.event(ring.shapes.origin());
        let mut done = pending.done;
        if self.outlets.hand(&mut ring.began, &mut event, &mut done) {
            return true;
        }
        (pending.seq, pending.done) = (event.seq, done);
        self.pending = Some(pending);
        false
    }

    /// Adds the resume points after all that was read, to release them once it is delivered.
    fn checkpoint(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        let merge = &self.merge;
        let resume_points =
            self.touched.drain(..).filter_map(|id| Some((id, merge.resume_point(id)?)));
        self.checkpoints.add(self.outlets.coming(), resume_points);
    }

    /// Passes on what outputs hold back, and reports losses to them. To be called from time to time
    /// if turns are always full.
    pub fn flush(&mut self) {
        self.anchor();
        self.outlets.flush(&mut self.rings);
    }

    /// Releases records in their rings that every required output has delivered.
    pub(crate) fn release_delivered(&mut self) {
        if self.checkpoints.is_empty() {
            return;
        }
        let undelivered = self.outlets.undelivered();
        for (id, resume_point) in self.checkpoints.delivered(undelivered) {
            let Some(ring) = self.rings.get_mut(&id) else { continue };
            match &mut ring.source {
                Some(source) => source.release(&resume_point),
                None => self.merge.release(id, &resume_point),
            }
            ring.released = Some(resume_point);
        }
        // Records that an output holds for one ring hold those of all rings.
        if self.turn.is_multiple_of(PRESSED_TURNS) && !self.checkpoints.is_empty() {
            let fill = |id| self.merge.source(id).map(|source| source.fill()).unwrap_or_default();
            if self.rings.keys().map(|id| fill(*id)).any(|fill| 4 * fill.held >= fill.size.max(1)) {
                self.outlets.iter_mut().for_each(Outlet::hurry);
            }
        }
    }

    /// Sets a ring aside that cannot be read any further.
    #[cold]
    fn set_aside(&mut self, id: SourceId, why: &str) {
        let Some(ring) = self.rings.get_mut(&id) else { return };
        self.notes.push(Note::SetAside {
            ring: ring.shapes.origin().name.clone(),
            location: ring.location.clone(),
            uuid: ring.uuid(),
            why: why.to_owned(),
        });
        ring.stage = Stage::Ending;
        let uuid = ring.uuid();
        self.count_damaged(Some(uuid));
        self.leave(id);
    }

    /// Ends rings that are removed and read, and releases them once all of their records are
    /// delivered.
    pub(crate) fn end_removed(&mut self) {
        if self.pending.is_some() || self.leaving.is_empty() {
            return;
        }
        // A best-effort output must not keep an unlimited number of rings.
        let crowded = self.leaving.len() > LEAVING_MAX;
        for id in std::mem::take(&mut self.leaving) {
            let Some(ring) = self.rings.get_mut(&id) else { continue };
            if ring.stage == Stage::Reading
                // In this order: records that were written before the producer ended are seen after
                // it.
                && self.merge.source(id).is_none_or(|source| !source.has_producer())
                && self.merge.is_drained(id)
            {
                ring.stage = Stage::Ending;
                if ring.removed
                    && let Some(totals) = ring.shapes.totals()
                {
                    self.outlets.defer_unreported(ring, &totals);
                }
            }
            if ring.stage == Stage::Ending {
                if ring.source.is_none() {
                    // No more records will arrive from it.
                    ring.source = self.merge.remove(id);
                }
                if self.outlets.report_end(ring, crowded).required {
                    ring.stage = Stage::Leaving(self.outlets.coming());
                }
            }
            if let Stage::Leaving(seq) = ring.stage
                && self.outlets.undelivered() >= seq
            {
                self.release_delivered();
                self.drop_ring(id);
            }
            let Some(ring) = self.rings.get_mut(&id) else { continue };
            if ring.stage == Stage::Gone && self.outlets.report_end(ring, crowded).all {
                self.rings.remove(&id);
            } else {
                self.leaving.push(id);
            }
        }
    }

    /// Stops reading this ring, of which all is delivered, so that another process can attach.
    pub(crate) fn detach_delivered(&mut self, id: SourceId) {
        drop(self.merge.remove(id));
    }

    /// Notes that this ring was read to its end and removed, with these totals.
    pub(crate) fn removed(&mut self, id: SourceId, totals: &RingTotals) {
        let Some(ring) = self.rings.get_mut(&id) else { return };
        ring.removed = true;
        if ring.stage == Stage::Reading {
            ring.stage = Stage::Ending;
            self.outlets.defer_unreported(ring, totals);
            self.leave(id);
        }
    }

    /// Releases a ring, with its lock and its memory: all of it is delivered to required outputs.
    fn drop_ring(&mut self, id: SourceId) {
        let Some(ring) = self.rings.get_mut(&id) else { return };
        self.kernel.retain(|kernel| *kernel != id);
        ring.stage = Stage::Gone;
        ring.source = None;
        let origin = ring.shapes.origin().clone();
        let (name, uuid) = (origin.name.clone(), origin.uuid);
        ring.shapes = Shapes::of(origin, Types::default());
        let last = self.by_uuid.get(&uuid) == Some(&id);
        if last {
            self.by_uuid.remove(&uuid);
        }
        let removed = last && ring.removed;
        let stays = last && ring.observed && !removed;
        let (figures, saved) = (ring.figures.clone(), stays.then(|| ring.delivered().saved()));
        self.notes.push(Note::Ended { ring: name, uuid, figures, removed, saved });
    }

    /// Removes an output, after it has delivered what it has.
    ///
    /// An output with required delivery stays as it is if it has no room for a record that is
    /// offered to it. If it could not deliver what it has, it has failed: it gets no more events,
    /// and its undelivered records stay in the rings. The next reader reads them again.
    ///
    /// # Errors
    /// [`OutputError`] if it could not deliver everything until the deadline.
    pub fn remove_output(&mut self, name: &str, deadline: Instant) -> Result<(), OutputError> {
        let Some(at) = self.outlets.find(name) else { return Ok(()) };
        let must = |engine: &Self| engine.outlets.is_required(at);
        let lacks = |engine: &Self| {
            engine.pending.as_ref().is_some_and(|pending| pending.done & (1 << at) == 0)
        };
        // The held event is not for its successor.
        while must(self) && lacks(self) && !self.try_pending() && lacks(self) {
            self.flush();
            self.outlets.undelivered();
            if Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(PENDING_PAUSE);
        }
        if must(self) && lacks(self) {
            return Err(OutputError::new(name, "it has no room for the record that waits for it"));
        }
        self.outlets.remove(at, deadline)
    }

    /// Delivers what outputs have, until the deadline, and releases what they did deliver. Nothing
    /// is read afterwards. Returns what could not be delivered.
    pub fn close(&mut self, deadline: Instant) -> Vec<OutputError> {
        if self.try_pending() {
            self.checkpoint();
        }
        self.flush();
        let errors = self.outlets.close(deadline);
        self.release_delivered();
        errors
    }
}
