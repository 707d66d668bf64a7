//! The places of an output: how much of each ring it has delivered.

use super::checkpoint::{Checkpoints, Run};
use super::merges::RingId;
use super::place::Place;
use super::ring::Quick;
use perfring_export::OutputError;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

/// What an output has delivered of each ring that it was given something of.
#[derive(Debug, Default)]
pub(super) struct Places {
    done: HashMap<RingId, Place, BuildHasherDefault<Quick>>,
    checkpoints: Checkpoints<RingId>,
}

impl Places {
    /// Creates places from which nothing was delivered.
    pub(super) fn of(done: impl Iterator<Item = (RingId, Place)>) -> Self {
        Places { done: done.collect(), checkpoints: Checkpoints::default() }
    }

    /// Begins to hold what follows this place, unless an earlier one is held.
    pub(super) fn hold(&mut self, id: RingId, from: Place) {
        self.done.entry(id).or_insert(from);
    }

    /// Notes that only events with numbers below `before` precede these places. `runs` are the
    /// events since the last of these calls.
    pub(super) fn pass(
        &mut self,
        before: u64,
        ends: impl IntoIterator<Item = (RingId, Place)>,
        runs: Rc<[Run<RingId>]>,
    ) {
        self.checkpoints.add(before, ends, runs);
    }

    /// Moves on, if all events before `unsettled` are settled. Adds the rings that it moved in.
    pub(super) fn settle(&mut self, unsettled: u64, moved: &mut Vec<RingId>) {
        self.checkpoints.settled(unsettled, |id, place| {
            // Others hold nothing of it any more.
            if let Some(done) = self.done.get_mut(&id) {
                *done = place;
                moved.push(id);
            }
        });
    }

    /// Returns its places to the last record, if all events before `unsettled` are settled.
    pub(super) fn exact(mut self, unsettled: u64) -> Self {
        self.settle(unsettled, &mut Vec::new());
        self.checkpoints.partly(unsettled, |id, count| {
            if let Some(done) = self.done.get_mut(&id) {
                done.skip += count;
            }
        });
        Self::of(self.done.into_iter())
    }

    pub(super) fn get(&self, id: RingId) -> Option<Place> {
        self.done.get(&id).copied()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (RingId, Place)> {
        self.done.iter().map(|(id, place)| (*id, *place))
    }

    /// Holds nothing of this ring any more.
    pub(super) fn forget(&mut self, id: RingId) {
        self.done.remove(&id);
    }

    /// Returns whether nothing waits to be settled.
    pub(super) fn is_settled(&self) -> bool {
        self.checkpoints.is_empty()
    }
}

/// What an output that was removed leaves to its successor.
#[derive(Debug, Default)]
pub struct Removed {
    pub(super) places: Box<Places>,
    /// What it could not deliver, which its successor delivers.
    pub error: Option<OutputError>,
}
