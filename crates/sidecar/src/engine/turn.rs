//! A turn: some records from the rings to the outputs.

use super::{Engine, Note, Turn};
use crate::outlet::{Offered, Outlet, Seq};
use crate::ring::Stage;
use perfring_consumer::{Item, Record};
use perfring_export::{Event, Loss, LossCause, Origin, OutputError, Rec, What};
use perfring_set::SourceId;
use std::time::Instant;

/// Records of one turn: between two looks at anything else.
const TURN: usize = 2048;

/// An event that an output has no room for: the only one that is held.
#[derive(Debug)]
pub(super) struct Pending {
    source: SourceId,
    kept: Kept,
    /// Its number, or 0 if no output has it yet.
    seq: u64,
    /// The outputs that are done with it, a bit each.
    pub(super) done: u64,
}

/// What is left of an event without its ring.
#[derive(Debug)]
enum Kept {
    Record { pos: u64, kind: u32, bytes: Vec<u8>, time: Option<u64>, late: u64 },
    Lost(Loss),
}

enum Step {
    On,
    Empty,
    Stalled,
}

impl Engine {
    /// Reads and hands on what there is, up to some thousand records, and lets go what is delivered.
    pub fn turn(&mut self) -> Turn {
        self.turn += 1;
        let mut ended = Turn::More;
        if self.try_pending() {
            for _ in 0..TURN {
                match self.step() {
                    Step::On => continue,
                    Step::Empty => ended = Turn::Empty,
                    Step::Stalled => ended = Turn::Stalled,
                }
                break;
            }
        } else {
            ended = Turn::Stalled;
        }
        if self.pending.is_none() {
            self.checkpoint();
        }
        if ended != Turn::More {
            self.flush();
        }
        self.let_go();
        if self.pending.is_none() && !self.leaving.is_empty() && ended != Turn::More {
            self.see_off();
        }
        ended
    }

    #[inline]
    fn step(&mut self) -> Step {
        let merged = match self.merge.next() {
            Ok(Some(merged)) => merged,
            Ok(None) => return Step::Empty,
            Err((id, error)) => {
                self.set_aside(id, &error.to_string());
                return Step::On;
            }
        };
        let source = merged.source;
        let Some(ring) = self.rings.get_mut(&source) else { return Step::On };
        if ring.turn != self.turn {
            ring.turn = self.turn;
            self.touched.push(source);
        }
        let what = match merged.item {
            Item::Record(record) => {
                ring.shapes.prepare(&record);
                ring.figures.records += 1;
                ring.figures.bytes += record.bytes.len() as u64;
                let mut rec = Rec::new(record, ring.shapes.origin());
                if merged.late > 0 {
                    rec.late = merged.late;
                    ring.figures.late += 1;
                    ring.figures.late_most = ring.figures.late_most.max(merged.late);
                }
                for (at, rule) in self.rules.iter().enumerate() {
                    self.met |= u64::from(rule.is_met_by(&rec)) << at.min(63);
                }
                What::Record(rec)
            }
            Item::Lost(lost) => {
                ring.figures.lost(&lost);
                let origin = ring.shapes.origin();
                let time = (merged.time > 0 && origin.timed).then_some(merged.time);
                What::Lost(Loss {
                    pos: lost.pos,
                    records: lost.records,
                    bytes: lost.bytes,
                    cause: LossCause::Ring(lost.cause),
                    time,
                    wall: time.and_then(|time| origin.anchors.wall(lost.pos, time)),
                })
            }
        };
        let mut event = Event { seq: 0, origin: ring.shapes.origin(), what };
        let mut done = 0;
        let (began, seq) = (&mut ring.began, &mut self.seq);
        match hand(&mut self.outlets, self.all, seq, began, &mut event, &mut done) {
            Offered::Done => Step::On,
            Offered::Busy => {
                let kept = match event.what {
                    What::Record(rec) => Kept::Record {
                        pos: rec.pos,
                        kind: rec.kind,
                        bytes: rec.bytes.to_vec(),
                        time: rec.time,
                        late: rec.late,
                    },
                    What::Lost(loss) => Kept::Lost(loss),
                    What::Began | What::Ended => return Step::On,
                };
                self.pending = Some(Pending { source, kept, seq: event.seq, done });
                Step::Stalled
            }
        }
    }

    /// Offers the event that was held, if any, again. Whether everybody has it now.
    fn try_pending(&mut self) -> bool {
        let Some(mut pending) = self.pending.take() else { return true };
        let Some(ring) = self.rings.get_mut(&pending.source) else { return true };
        let origin = ring.shapes.origin();
        let what = match &pending.kept {
            Kept::Record { pos, kind, bytes, time, late } => {
                let record = Record { pos: *pos, kind: *kind, bytes, time: *time };
                let mut rec = Rec::new(record, origin);
                rec.late = *late;
                What::Record(rec)
            }
            Kept::Lost(loss) => What::Lost(*loss),
        };
        let mut event = Event { seq: pending.seq, origin, what };
        let (began, seq, done) = (&mut ring.began, &mut self.seq, &mut pending.done);
        let handed = hand(&mut self.outlets, self.all, seq, began, &mut event, done);
        if handed == Offered::Done {
            return true;
        }
        pending.seq = event.seq;
        self.pending = Some(pending);
        false
    }

    /// Remembers the places after all that was read, to let go once it is delivered.
    fn checkpoint(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        let merge = &self.merge;
        let marks = self.touched.drain(..).filter_map(|id| Some((id, merge.mark(id)?)));
        self.checkpoints.add(self.seq.coming(), marks);
    }

    /// Hands on what outputs hold back, and tells them what they are owed. To be called now and then
    /// where turns are always full.
    pub fn flush(&mut self) {
        self.anchor();
        for (at, outlet) in self.outlets.iter_mut().enumerate() {
            let Some(outlet) = outlet else { continue };
            for id in outlet.owed_rings() {
                let Some(ring) = self.rings.values_mut().find(|ring| ring.id() == id) else {
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

    /// Lets records leave their rings that every output has delivered which must.
    pub(crate) fn let_go(&mut self) {
        if self.checkpoints.is_empty() {
            return;
        }
        let undelivered = self.undelivered();
        for (id, mark) in self.checkpoints.delivered(undelivered) {
            let Some(ring) = self.rings.get_mut(&id) else { continue };
            match &mut ring.source {
                Some(source) => source.release(&mark),
                None => self.merge.release(id, &mark),
            }
            ring.released = Some(mark);
        }
    }

    /// All events before this one are delivered.
    fn undelivered(&mut self) -> u64 {
        let outlets = self.outlets.iter_mut().flatten();
        let oldest = outlets.filter_map(Outlet::undelivered).min();
        oldest.unwrap_or(u64::MAX).min(self.seq.coming())
    }

    /// A ring that cannot be read on.
    #[cold]
    fn set_aside(&mut self, id: SourceId, why: &str) {
        let Some(ring) = self.rings.get_mut(&id) else { return };
        self.notes.push(Note::SetAside {
            ring: ring.shapes.origin().name.clone(),
            home: ring.home.clone(),
            uuid: ring.uuid(),
            why: why.to_owned(),
        });
        ring.stage = Stage::Ending;
        self.leave(id);
    }

    /// Ends rings that are gone and read, and takes them out once all of theirs is delivered.
    fn see_off(&mut self) {
        // What an output need not have must not keep ever more rings.
        let crowded = self.leaving.len() > super::LEAVING_MAX;
        for id in std::mem::take(&mut self.leaving) {
            let Some(ring) = self.rings.get_mut(&id) else { continue };
            if ring.stage == Stage::Reading
                // In this order: what was written before the producer went is seen after it.
                && self.merge.source(id).is_none_or(|source| !source.has_producer())
                && self.merge.is_drained(id)
            {
                ring.stage = Stage::Ending;
            }
            if ring.stage == Stage::Ending {
                if ring.source.is_none() {
                    // Nothing comes of it any more.
                    ring.source = self.merge.remove(id);
                }
                if tell_end(&mut self.outlets, &mut self.seq, ring, crowded) {
                    ring.stage = Stage::Leaving(self.seq.coming());
                }
            }
            let stage = ring.stage;
            match stage {
                Stage::Leaving(seq) if self.undelivered() >= seq => {
                    self.let_go();
                    self.kernel.retain(|kernel| *kernel != id);
                    if let Some(ring) = self.rings.remove(&id) {
                        let (uuid, figures) = (ring.uuid(), ring.figures.clone());
                        if self.by_uuid.get(&uuid) == Some(&id) {
                            self.by_uuid.remove(&uuid);
                        }
                        let ring = ring.shapes.origin().name.clone();
                        self.notes.push(Note::Ended { ring, uuid, figures });
                    }
                }
                _ => self.leaving.push(id),
            }
        }
    }

    /// Delivers what outputs have, until the deadline, and lets go what they did deliver. Nothing is
    /// read any more. Says what could not be delivered.
    pub fn close(&mut self, deadline: Instant) -> Vec<OutputError> {
        if self.try_pending() {
            self.checkpoint();
        }
        self.flush();
        let outlets = self.outlets.iter_mut().flatten();
        let errors = outlets.filter_map(|outlet| outlet.close(deadline).err()).collect();
        self.let_go();
        errors
    }
}

/// Hands an event to all outputs that are not done with it. It gets its number when all of them know
/// its ring.
#[inline]
fn hand(
    outlets: &mut [Option<Outlet>],
    all: u64,
    seq: &mut Seq,
    began: &mut u64,
    event: &mut Event<'_>,
    done: &mut u64,
) -> Offered {
    if event.seq == 0 {
        if *began & all != all && !begin(outlets, seq, began, event.origin) {
            return Offered::Busy;
        }
        for outlet in outlets.iter_mut().flatten().filter(|outlet| outlet.is_owed()) {
            outlet.settle(seq, event.origin);
        }
        event.seq = seq.next();
    }
    let mut handed = Offered::Done;
    for (at, outlet) in outlets.iter_mut().enumerate() {
        let Some(outlet) = outlet else { continue };
        let bit = 1 << at;
        if *done & bit == 0 {
            match outlet.offer(event, *began & bit != 0) {
                Offered::Done => *done |= bit,
                Offered::Busy => handed = Offered::Busy,
            }
        }
    }
    handed
}

/// Tells of a ring all outputs that do not know it. Whether those that must are told.
#[cold]
pub(super) fn begin(
    outlets: &mut [Option<Outlet>],
    seq: &mut Seq,
    began: &mut u64,
    origin: &Origin,
) -> bool {
    let mut told = true;
    for (at, outlet) in outlets.iter_mut().enumerate() {
        let Some(outlet) = outlet else { continue };
        told &= outlet.begin(at, seq, origin, began) || !outlet.is_required();
    }
    told
}

/// Tells all outputs that a ring has ended. Whether all are told.
fn tell_end(
    outlets: &mut [Option<Outlet>],
    seq: &mut Seq,
    ring: &mut crate::ring::Ring,
    crowded: bool,
) -> bool {
    let mut all = true;
    for (at, outlet) in outlets.iter_mut().enumerate() {
        let Some(outlet) = outlet else { continue };
        let (bit, origin) = (1 << at, ring.shapes.origin());
        // Without the bit it knows nothing of the ring, or is told already; but it may be owed.
        let done = if ring.began & bit == 0 {
            !outlet.owes(origin)
                || outlet.begin(at, seq, origin, &mut ring.began) && outlet.end(seq, origin)
        } else {
            outlet.end(seq, origin)
        };
        if done {
            ring.began &= !bit;
        } else if crowded && !outlet.is_required() {
            outlet.forget(origin.id);
            ring.began &= !bit;
        } else {
            all = false;
        }
    }
    all
}
