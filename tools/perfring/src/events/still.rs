//! Rings as they are now, dead or alive: everything that they hold, merged by its stamps.

use super::held::{Given, Held};
use super::recorded::Events;
use crate::failure::{Failure, note};
use perfring_consumer::advanced::Front;
use perfring_consumer::{AttachError, Location, Observer, ReadError, Start};
use perfring_export::{Event, Shapes};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Everything that rings hold at one moment. Reads as an observer: what a live producer overwrites
/// meanwhile is told as lost.
///
/// Records without stamps come before all others of their ring's next stamp.
pub(crate) struct Still {
    rings: Vec<Ring>,
    /// What is next: its stamp, and of which ring.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    begun: usize,
    /// Whose item was given out last.
    current: Option<usize>,
    /// Those that have nothing more.
    over: VecDeque<usize>,
    held: Held,
    seq: u64,
    damaged: Option<String>,
}

struct Ring {
    location: Location,
    observer: Observer,
    shapes: Shapes,
    /// Where it began and ended when it was opened.
    from: u64,
    until: u64,
    /// The stamp of the last record.
    last: Option<u64>,
    /// What is known to be next.
    front: Front,
}

impl Ring {
    fn open(location: &Location, id: usize) -> Result<Self, Failure> {
        // The types after the records, which may be of them.
        let observer = match Observer::open(location, Start::Oldest) {
            Err(AttachError::NotFound { location }) => {
                let what = "does not exist: name a recording, rings, or a directory of rings";
                return Err(Failure::NotFound(format!("{location} {what}")));
            }
            opened => opened?,
        };
        let stat = observer.stat()?;
        let mut shapes = Shapes::open(location, id as u32)?;
        if !shapes.is_of(observer.layout()) {
            let owner = stat.producer.owner.clone();
            let origin = perfring_export::Origin::of(
                id as u32,
                location,
                observer.layout(),
                stat.epoch(),
                owner,
            );
            shapes = Shapes::of(origin, observer.types());
        }
        let (from, location) = (observer.saved().pos, location.clone());
        // Books that make no sense are found damaged where they are.
        let until = stat.totals.map_or(u64::MAX, |totals| totals.head);
        let (last, front) = (None, Front::Empty);
        Ok(Ring { location, observer, shapes, from, until, last, front })
    }

    /// When its next item comes, if there is one.
    fn next(&mut self) -> Result<Option<u64>, ReadError> {
        if matches!(self.front, Front::Empty | Front::More) {
            self.front = self.observer.advanced().peek()?;
        }
        let at_end = self.observer.saved().pos >= self.until;
        Ok(match self.front {
            _ if at_end => None,
            // A look that does not tell stands before what nobody can read: the end of it.
            Front::Empty | Front::More => None,
            Front::Timestamped(timestamp) => Some(timestamp),
            Front::Plain | Front::Lost => Some(self.last.unwrap_or(0)),
        })
    }
}

impl Still {
    pub(crate) fn open(locations: &[Location]) -> Result<Self, Failure> {
        let rings: Result<Vec<Ring>, Failure> =
            locations.iter().enumerate().map(|(id, location)| Ring::open(location, id)).collect();
        let mut still = Still {
            rings: rings?,
            heap: BinaryHeap::new(),
            begun: 0,
            current: None,
            over: VecDeque::new(),
            held: Held::default(),
            seq: 0,
            damaged: None,
        };
        (0..still.rings.len()).for_each(|at| still.advance(at));
        Ok(still)
    }

    /// Finds a ring's place among the others.
    fn advance(&mut self, at: usize) {
        match self.rings[at].next() {
            Ok(Some(time)) => self.heap.push(Reverse((time, at))),
            Ok(None) => self.over.push_back(at),
            Err(error) => self.damaged(at, error),
        }
    }

    fn damaged(&mut self, at: usize, error: ReadError) {
        let sentence = format!("{}: {error}; everything before it stands", self.rings[at].location);
        if let Some(before) = self.damaged.replace(sentence) {
            note(&before);
        }
        self.over.push_back(at);
    }

    /// Puts into `held` what is next; of which ring, unless all is over.
    fn choose(&mut self) -> Option<usize> {
        if self.begun < self.rings.len() {
            self.held.what = Given::Began;
            self.begun += 1;
            return Some(self.begun - 1);
        }
        loop {
            let Some(Reverse((_, at))) = self.heap.pop() else {
                self.held.what = Given::Ended;
                return self.over.pop_front();
            };
            let ring = &mut self.rings[at];
            match ring.observer.advanced().take() {
                Ok(Some((item, front))) => {
                    ring.front = front;
                    self.held.item(&item, 0, &mut ring.last);
                    self.current = Some(at);
                    return Some(at);
                }
                Ok(None) => self.over.push_back(at),
                Err(error) => self.damaged(at, error),
            }
        }
    }
}

impl Events for Still {
    fn next(&mut self) -> Result<Option<Event<'_>>, Failure> {
        if let Some(at) = self.current.take() {
            self.advance(at);
        }
        let Some(at) = self.choose() else {
            return self
                .damaged
                .take()
                .map_or(Ok(None), |sentence| Err(Failure::Damaged(sentence)));
        };
        if let Some(record) = self.held.record() {
            self.rings[at].shapes.prepare(&record);
        }
        self.seq += 1;
        Ok(Some(self.held.event(self.seq - 1, self.rings[at].shapes.origin())))
    }

    fn progress(&self) -> (u64, u64) {
        self.rings.iter().fold((0, 0), |(read, all), ring| {
            let until = ring.until.min(ring.from.saturating_add(ring.observer.layout().data_size));
            let at = ring.observer.saved().pos.clamp(ring.from, until.max(ring.from));
            (read + (at - ring.from), all + until.saturating_sub(ring.from))
        })
    }
}
