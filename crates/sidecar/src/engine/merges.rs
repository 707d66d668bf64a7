//! The merge of the rings with priority, and that of all others.

use perfring_consumer::advanced::ResumePoint;
use perfring_consumer::error::ClockError;
use perfring_set::{Merge, MergeFigures, Merged, Source, SourceError, SourceId};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// Identifies a ring of an engine. Ids are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RingId {
    pub(super) class: Class,
    /// Its source in the merge of its class.
    source: SourceId,
    /// Its ring's slot in the engine's table.
    pub(super) slot: u32,
}

/// Which of the two a ring is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Priority,
    Other,
}

impl Hash for RingId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source.hash(state); // two that differ only in their class have one hash: no more than two
    }
}

impl fmt::Display for RingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// Two merges, of which each has the order of time in itself: what rings with priority have is taken first, however much
/// of the others waits.
pub(super) struct Merges {
    all: [Merge; 2],
    /// For each class: which slot of the engine's table a ring has, by the slot that its source has in the merge.
    slots: [Vec<u32>; 2],
    /// How many rings each has.
    counts: [usize; 2],
}

impl Merges {
    pub(super) fn new(delay: Duration) -> Result<Self, ClockError> {
        Ok(Merges {
            all: [Merge::new(delay)?, Merge::new(delay)?],
            slots: Default::default(),
            counts: [0; 2],
        })
    }

    fn of(&mut self, class: Class) -> &mut Merge {
        let [priority, other] = &mut self.all;
        match class {
            Class::Priority => priority,
            Class::Other => other,
        }
    }

    fn get(&self, class: Class) -> &Merge {
        let [priority, other] = &self.all;
        match class {
            Class::Priority => priority,
            Class::Other => other,
        }
    }

    /// Adds a ring, which gets this slot of the engine's table.
    pub(super) fn add(&mut self, class: Class, source: Box<dyn Source>, slot: u32) -> RingId {
        self.counts[class as usize] += 1;
        let source = self.of(class).add(source);
        let slots = &mut self.slots[class as usize];
        slots.resize(slots.len().max(source.slot() + 1), 0);
        slots[source.slot()] = slot;
        RingId { class, source, slot }
    }

    pub(super) fn remove(&mut self, id: RingId) -> Option<Box<dyn Source>> {
        let removed = self.of(id.class).remove(id.source)?;
        self.counts[id.class as usize] -= 1;
        Some(removed)
    }

    pub(super) fn has_any(&self, class: Class) -> bool {
        self.counts[class as usize] > 0
    }

    /// Takes the next item of this class.
    #[inline]
    pub(super) fn next(
        &mut self,
        class: Class,
    ) -> Result<Option<(RingId, Merged<'_>)>, (RingId, SourceError)> {
        let slots = &self.slots[class as usize];
        let id = |source: SourceId| {
            let slot = slots.get(source.slot()).copied().unwrap_or(u32::MAX);
            RingId { class, source, slot }
        };
        match self.all[class as usize].next() {
            Ok(Some(merged)) => Ok(Some((id(merged.source), merged))),
            Ok(None) => Ok(None),
            Err((source, error)) => Err((id(source), error)),
        }
    }

    /// Sleeps until there may be something, for at most `timeout`. Rings with priority do not wake it while there are
    /// others: they are polled, at least twice in the delay.
    pub(super) fn wait(&mut self, timeout: Duration) {
        let (priority, other) = (self.has_any(Class::Priority), self.has_any(Class::Other));
        let [first, rest] = &mut self.all;
        match (priority, other) {
            (true, false) => first.wait(timeout),
            (true, true) => match first.due().map_or(timeout, |due| due.min(timeout)) {
                Duration::ZERO => true,
                due => rest.wait(due),
            },
            (false, _) => rest.wait(timeout),
        };
    }

    #[inline]
    pub(super) fn resume_point(&self, id: RingId) -> Option<ResumePoint> {
        self.get(id.class).resume_point(id.source)
    }

    pub(super) fn release(&mut self, id: RingId, resume_point: &ResumePoint) {
        self.of(id.class).release(id.source, resume_point);
    }

    pub(super) fn source(&self, id: RingId) -> Option<&dyn Source> {
        self.get(id.class).source(id.source)
    }

    pub(super) fn is_drained(&mut self, id: RingId) -> bool {
        self.of(id.class).is_drained(id.source)
    }

    /// Returns the sums over both.
    pub(super) fn figures(&self) -> MergeFigures {
        let [mut sum, more] = self.all.each_ref().map(Merge::figures);
        sum.late += more.late;
        sum.late_most = sum.late_most.max(more.late_most);
        sum.polls += more.polls;
        sum.hurried += more.hurried;
        sum
    }
}
