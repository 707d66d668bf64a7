//! A turn: some records from the rings to the outputs.

use super::{Engine, Note, Turn};
use crate::outlet::{Offered, Outlet, Seq};
use crate::ring::{Ring, Stage};
use perfring_consumer::{Cause, Count, Item, Lost, Record, Totals, Types};
use perfring_export::{Event, Loss, LossCause, Origin, OutputError, Rec, Shapes, What};
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

/// Turns between two looks whether a ring is a quarter full of what is not delivered.
const PRESSED_TURNS: u64 = 8;

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
        if ended != Turn::More {
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
        if let What::Record(rec) = &event.what {
            for (at, rule) in self.rules.iter().enumerate() {
                self.met |= u64::from(rule.is_met_by(rec)) << at.min(63);
            }
        }
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
    pub(super) fn try_pending(&mut self) -> bool {
        let Some(mut pending) = self.pending.take() else { return true };
        let Some(ring) = self.rings.get_mut(&pending.source) else { return true };
        let origin = ring.shapes.origin();
        let what = match &pending.kept {
            Kept::Record { pos, kind, bytes, time, late } => {
                let record = Record { pos: *pos, kind: *kind, bytes, time: *time };
                What::Record(Rec::new_late(record, origin, *late))
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
        // What an output keeps for the sake of one ring keeps the records of all.
        if self.turn.is_multiple_of(PRESSED_TURNS) && !self.checkpoints.is_empty() {
            let fill = |id| self.merge.source(id).map(|source| source.fill()).unwrap_or_default();
            if self.rings.keys().map(|id| fill(*id)).any(|fill| 4 * fill.held >= fill.size.max(1)) {
                self.outlets.iter_mut().flatten().for_each(Outlet::hurry);
            }
        }
    }

    /// All events before this one are delivered.
    pub(super) fn undelivered(&mut self) -> u64 {
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
        let uuid = ring.uuid();
        self.count_damaged(Some(uuid));
        self.leave(id);
    }

    /// Ends rings that are gone and read, and takes them out once all of theirs is delivered.
    pub(crate) fn see_off(&mut self) {
        if self.pending.is_some() || self.leaving.is_empty() {
            return;
        }
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
                if ring.vanished
                    && let Some(totals) = ring.shapes.totals()
                {
                    owe_untold(&mut self.outlets, ring, &totals);
                }
            }
            if ring.stage == Stage::Ending {
                if ring.source.is_none() {
                    // Nothing comes of it any more.
                    ring.source = self.merge.remove(id);
                }
                if tell_end(&mut self.outlets, &mut self.seq, ring, crowded).required {
                    ring.stage = Stage::Leaving(self.seq.coming());
                }
            }
            if let Stage::Leaving(seq) = ring.stage
                && self.undelivered() >= seq
            {
                self.let_go();
                self.part(id);
            }
            let Some(ring) = self.rings.get_mut(&id) else { continue };
            if ring.stage == Stage::Gone
                && tell_end(&mut self.outlets, &mut self.seq, ring, crowded).all
            {
                self.rings.remove(&id);
            } else {
                self.leaving.push(id);
            }
        }
    }

    /// Reads this ring no more, of which all is delivered, so that somebody else can hold it.
    pub(crate) fn let_loose(&mut self, id: SourceId) {
        drop(self.merge.remove(id));
    }

    /// This ring was read to its end and removed; these were its books.
    pub(crate) fn removed(&mut self, id: SourceId, totals: &Totals) {
        let Some(ring) = self.rings.get_mut(&id) else { return };
        ring.vanished = true;
        if ring.stage == Stage::Reading {
            ring.stage = Stage::Ending;
            owe_untold(&mut self.outlets, ring, totals);
            self.leave(id);
        }
    }

    /// Lets a ring go, with its lock and its memory: all of it is delivered to who must have it.
    fn part(&mut self, id: SourceId) {
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
        let vanished = last && ring.vanished;
        let stays = last && ring.observed && !vanished;
        let (figures, saved) = (ring.figures.clone(), stays.then(|| ring.delivered().saved()));
        self.notes.push(Note::Ended { ring: name, uuid, figures, vanished, saved });
    }

    /// Delivers what outputs have, until the deadline, and lets go what they did deliver. Nothing is
    /// read any more. Says what could not be delivered.
    pub fn close(&mut self, deadline: Instant) -> Vec<OutputError> {
        if self.try_pending() {
            self.checkpoint();
        }
        self.flush();
        // Those that must deliver first: the time is theirs.
        let mut outlets: Vec<_> = self.outlets.iter_mut().flatten().collect();
        outlets.sort_by_key(|outlet| !outlet.is_required());
        let closed = outlets.into_iter().map(|outlet| outlet.close(deadline));
        let errors = closed.filter_map(Result::err).collect();
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

/// What a dead producer refused and never told, nobody tells once its ring is gone: it is owed to
/// all, before the ring's end.
fn owe_untold(outlets: &mut [Option<Outlet>], ring: &mut Ring, totals: &Totals) {
    let untold = totals.producer.refused.since(totals.producer.told);
    for (cause, Count { records, bytes }) in Cause::REFUSED.into_iter().zip(untold.all()) {
        if records == 0 {
            continue;
        }
        let pos = totals.head;
        ring.figures.lost(&Lost { pos, records, bytes, cause });
        let cause = LossCause::Ring(cause);
        let loss = Loss { pos, records, bytes, cause, time: None, wall: None };
        let event = Event { seq: 0, origin: ring.shapes.origin(), what: What::Lost(loss) };
        outlets.iter_mut().flatten().for_each(|outlet| outlet.owe(&event));
    }
}

/// Who was told of something.
struct Knows {
    /// All that must have everything.
    required: bool,
    all: bool,
}

/// Tells all outputs that a ring has ended.
fn tell_end(
    outlets: &mut [Option<Outlet>],
    seq: &mut Seq,
    ring: &mut Ring,
    crowded: bool,
) -> Knows {
    let mut knows = Knows { required: true, all: true };
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
