//! State of each ring.

use super::made::Made;
use perfring_events::{Origin, signal::Reported};
use perfring_types::Class;
use perfring_types::read::{Named, TypeTable};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Ring {
    /// Without its types.
    pub(super) origin: Origin,
    /// The position of the oldest record that is in a point and not sent.
    pub(super) first: Option<u64>,
    /// Items that wait for a resource, in the order in which they arrived.
    pub(super) waiting: VecDeque<Waiting>,
    /// Processes whose resource did not arrive in time.
    pub(super) gave_up: HashSet<u64>,
    /// The latest time seen, ns since 1970.
    pub(super) last: u64,
    types: usize,
    has_resources: bool,
}

/// An item that waits for the resource of its process.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) made: Made,
    /// When to stop waiting.
    pub(super) otherwise: Arc<Reported>,
    pub(super) since: Instant,
    pub(super) bytes: usize,
}

impl Ring {
    pub(super) fn new(origin: &Origin) -> Self {
        Ring {
            origin: Origin { types: TypeTable::default(), ..origin.clone() },
            first: None,
            waiting: VecDeque::new(),
            gave_up: HashSet::new(),
            last: 0,
            types: usize::MAX,
            has_resources: false,
        }
    }

    /// Notes that a record of the ring was read.
    pub(super) fn see(&mut self, origin: &Origin, wall: u64) {
        self.last = self.last.max(wall);
        if self.types != origin.types.len() {
            self.types = origin.types.len();
            let resource = Named::Known(Class::Resource);
            self.has_resources = origin.types.iter().any(|kind| kind.class == resource);
        }
        if self.origin.producer != origin.producer {
            self.origin.producer = origin.producer.clone();
        }
        if self.gave_up.len() > 4096 {
            self.gave_up.clear();
        }
    }

    /// Returns whether items of this process wait for its resource: not in a ring without any
    /// resources.
    pub(super) fn waits_for(&self, pid: Option<u64>) -> bool {
        self.has_resources && pid.is_some_and(|pid| !self.gave_up.contains(&pid))
    }

    /// Removes items that no longer wait.
    pub(super) fn release(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let (out, stay) = self.waiting.drain(..).partition(which);
        self.waiting = stay;
        Vec::from_iter::<VecDeque<Waiting>>(out)
    }
}
