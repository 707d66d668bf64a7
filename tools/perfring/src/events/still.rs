//! The present contents of rings, dead or alive, merged by timestamp.

use super::held::{Given, Held};
use super::recorded::Events;
use crate::failure::{Failure, detail, note};
use crate::figures::opened::opened;
use crate::left_out;
use perfring_consumer::advanced::Front;
use perfring_consumer::{
    AttachError, Cause, Item, Location, Lost, Observer, ReadError, Start, stat::Count,
};
use perfring_export::{Event, Shapes};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Everything that rings hold at one moment. Reads as an observer: what a live producer overwrites
/// meanwhile is reported as lost.
///
/// Records without timestamps precede all others of their ring's next timestamp.
pub(crate) struct Still {
    rings: Vec<Ring>,
    /// The next items: each with its timestamp and its ring.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    begun: usize,
    /// The ring whose item was returned last.
    current: Option<usize>,
    /// Rings that have no more items.
    over: VecDeque<usize>,
    held: Held,
    seq: u64,
    damaged: Option<String>,
    /// Rings that turned out to be damaged, with what they have behind the damage.
    behind: VecDeque<(usize, Count)>,
}

struct Ring {
    location: Location,
    observer: Observer,
    shapes: Shapes,
    /// Its positions at the beginning and the end, when it was opened.
    from: u64,
    until: u64,
    /// What was written before its end.
    written: Count,
    /// The timestamp of the last record.
    last: Option<u64>,
    /// What is known to be next.
    front: Front,
}

impl Ring {
    fn open(location: &Location, id: usize) -> Result<Self, Failure> {
        // The types are read after the records, which may use them.
        let observer = match Observer::attach(location, Start::Oldest) {
            Err(error @ AttachError::NotFound { .. }) => {
                let what = "name a recording, rings, or a directory of rings";
                return Err(Failure::NotFound(format!("{error}: {what}")));
            }
            opened => opened?,
        };
        detail(|| opened(location, observer.layout()));
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
        // Invalid totals are reported as damage where they are found.
        let until = stat.totals.map_or(u64::MAX, |totals| totals.head);
        let everything = Count { records: u64::MAX, bytes: u64::MAX };
        let written = stat.totals.map_or(everything, |totals| totals.producer.written);
        let (last, front) = (None, Front::Empty);
        Ok(Ring { location, observer, shapes, from, until, written, last, front })
    }

    /// Returns the time of its next item, if there is one.
    fn next(&mut self) -> Result<Option<u64>, ReadError> {
        if matches!(self.front, Front::Empty | Front::More) {
            self.front = self.observer.advanced().peek()?;
        }
        let at_end = self.observer.saved().pos >= self.until;
        Ok(match self.front {
            // It may be after the last record.
            Front::Lost => Some(self.last.unwrap_or(0)),
            _ if at_end => None,
            // A peek without a result precedes what cannot be read: the end of the ring.
            Front::Empty | Front::More => None,
            Front::Timestamped(timestamp) => Some(timestamp),
            Front::Plain => Some(self.last.unwrap_or(0)),
        })
    }
}

impl Still {
    /// Opens these rings, which are all different.
    pub(crate) fn open(locations: &[Location]) -> Result<Self, Failure> {
        let mut rings: Vec<Ring> = Vec::with_capacity(locations.len());
        for location in locations {
            match Ring::open(location, rings.len()) {
                // The others are shown, and the command ends with an error.
                Err(Failure::Shortage(_)) if !rings.is_empty() => {
                    left_out::unopened(&location.path())
                }
                opened => {
                    let mut ring = opened?;
                    let names: Vec<&str> =
                        rings.iter().map(|other| &*other.shapes.origin().name).collect();
                    ring.shapes.origin_mut().distinguish(|name| names.contains(&name));
                    rings.push(ring);
                }
            }
        }
        let mut still = Still {
            rings,
            heap: BinaryHeap::new(),
            begun: 0,
            current: None,
            over: VecDeque::new(),
            held: Held::default(),
            seq: 0,
            damaged: None,
            behind: VecDeque::new(),
        };
        (0..still.rings.len()).for_each(|at| still.advance(at));
        Ok(still)
    }

    /// Sorts a ring in by its next item.
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
        let ring = &self.rings[at];
        let rest = ring.written.since(ring.observer.saved().before);
        match ring.until {
            u64::MAX => self.behind.push_back((at, Count::default())), // its counts are damaged, too
            _ if rest.records > 0 => self.behind.push_back((at, rest)),
            _ => {}
        }
        self.over.push_back(at);
    }

    /// Puts the next item into `held`. Returns its ring, unless all are at their end.
    fn choose(&mut self) -> Option<usize> {
        if self.begun < self.rings.len() {
            self.held.what = Given::Began;
            self.begun += 1;
            return Some(self.begun - 1);
        }
        loop {
            if let Some((at, rest)) = self.behind.pop_front() {
                let ring = &self.rings[at];
                let (pos, time) = (ring.observer.saved().pos, ring.last);
                self.held.what = Given::Damaged { pos, rest, time };
                return Some(at);
            }
            let Some(Reverse((_, at))) = self.heap.pop() else {
                self.held.what = Given::Ended;
                return self.over.pop_front();
            };
            let ring = &mut self.rings[at];
            match ring.observer.advanced().take() {
                Ok(Some((item, front))) => {
                    ring.front = front;
                    if let Item::Lost(lost) = item {
                        let Some(lost) = cut(lost, ring.observer.saved().before, ring.written)
                        else {
                            self.advance(at);
                            continue;
                        };
                        self.held.item(&Item::Lost(lost), 0, &mut ring.last);
                    } else {
                        self.held.item(&item, 0, &mut ring.last);
                    }
                    self.held.set_after(|| ring.observer.saved());
                    self.current = Some(at);
                    return Some(at);
                }
                Ok(None) => self.over.push_back(at),
                Err(error) => self.damaged(at, error),
            }
        }
    }
}

/// Returns a loss without the records that were written after the ring was opened: a producer that overtakes the reader
/// may have overwritten some of these, too. `before` is all that was before the position after the loss.
fn cut(lost: Lost, before: Count, written: Count) -> Option<Lost> {
    let beyond = match lost.cause {
        Cause::Lapped => before.since(written),
        _ => Count::default(),
    };
    let Count { records, bytes } = Count { records: lost.records, bytes: lost.bytes }.since(beyond);
    (records > 0).then_some(Lost { records, bytes, ..lost })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_has_only_the_records_that_were_there_when_the_ring_was_opened() {
        let count = |records| Count { records, bytes: 8 * records };
        let lost =
            |cause, records| Lost { pos: 0, records, bytes: 8 * records, cause, at_end: false };
        let lapped = |before| cut(lost(Cause::Lapped, 100), count(before), count(1_000));
        assert_eq!(lapped(900), Some(lost(Cause::Lapped, 100)));
        assert_eq!(lapped(1_020), Some(lost(Cause::Lapped, 80)));
        assert_eq!(lapped(1_100), None);
        let full = lost(Cause::Full, 100);
        assert_eq!(cut(full, count(1_020), count(1_000)), Some(full));
    }
}
