//! The lane of an output that has fallen behind: it reads what the output lacks from the rings once
//! more.

use super::merges::{Class, RingId};
use super::pending::Pending;
use super::place::Place;
use super::refused::{pass, refused};
use super::ring::{Quick, Ring};
use super::rings::Rings;
use perfring_consumer::advanced::Front;
use perfring_consumer::{
    AttachError, Cause, Item, Lost, Observer,
    advanced::Saved,
    stat::{Count, Refused},
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;

/// Rings that are opened in one turn: mapping one takes some microseconds.
const OPENS: usize = 64;

/// What an output reads itself, from its own places to those of the outputs that keep up: in the
/// order of time. The others have had these records, so none comes later, and nothing is held back.
///
/// Records that a required output lacks stay in a drop ring, as its tail waits for the output. In an
/// overwrite ring they may be overwritten, which its reader reports.
#[derive(Default)]
pub(super) struct Lane {
    /// The event that the output had no room for.
    pub(super) pending: Option<Pending>,
    rings: HashMap<RingId, Reader, BuildHasherDefault<Quick>>,
    /// Rings that have something, by its time: of each class.
    next: [BinaryHeap<Reverse<(u64, RingId)>>; 2],
    /// The ring that the last item was taken from.
    current: Option<RingId>,
    /// The greatest time so far: of each class.
    newest: [u64; 2],
    /// Rings of which something was passed on since the last checkpoint.
    touched: Vec<RingId>,
}

/// A ring that is read once more.
struct Reader {
    from: Place,
    /// The place at the last checkpoint.
    passed: Place,
    observer: Option<Observer>,
    /// Where the outputs that keep up are.
    until: Saved,
    /// Losses that were passed on, and that the observer comes to later.
    ahead: Refused,
    /// The time of the last record.
    last: u64,
    /// Whether it is among those that have something.
    waits: bool,
    is_touched: bool,
}

/// An item of a ring.
pub(super) struct Taken<'a> {
    pub(super) id: RingId,
    pub(super) item: Item<'a>,
    pub(super) time: u64,
    /// How much it is late for the order of time.
    pub(super) late: u64,
    /// The output was given it before.
    pub(super) was_given: bool,
}

impl Lane {
    /// Sets where this ring is read from, unless it is set.
    pub(super) fn start(&mut self, id: RingId, from: Place) {
        self.rings.entry(id).or_insert(Reader {
            from,
            passed: from,
            observer: None,
            until: Saved::default(),
            ahead: Refused::default(),
            last: 0,
            waits: false,
            is_touched: false,
        });
    }

    /// Forgets a ring.
    pub(super) fn forget(&mut self, id: RingId) {
        self.rings.remove(&id);
    }

    /// Sets the place of the ring of the held event, before that.
    pub(super) fn hold(&mut self, id: RingId, before: Place) {
        self.touch(id);
        if let Some(reader) = self.rings.get_mut(&id) {
            reader.passed = before;
        }
    }

    /// Notes that something of a ring is passed on. Its place is one of the next ends.
    pub(super) fn touch(&mut self, id: RingId) {
        if let Some(reader) = self.rings.get_mut(&id)
            && !std::mem::replace(&mut reader.is_touched, true)
        {
            self.touched.push(id);
        }
    }

    /// Returns the places in the rings of which something was passed on since the last call. `given`
    /// counts what of a ring was passed on since then: where an event is held, the place is before it.
    pub(super) fn take_ends(&mut self, given: impl Fn(RingId) -> u64) -> Vec<(RingId, Place)> {
        let Lane { touched, rings, pending, .. } = self;
        let held = pending.as_ref().map(|pending| pending.source);
        let mut ends = Vec::with_capacity(touched.len());
        for id in touched.drain(..) {
            let Some(reader) = rings.get_mut(&id) else { continue };
            reader.is_touched = held == Some(id);
            let passed = reader.passed;
            reader.passed = match held == Some(id) {
                true => Place { skip: passed.skip + given(id), ..passed },
                false => reader.place(),
            };
            ends.push((id, reader.passed));
        }
        touched.extend(held.filter(|id| rings.contains_key(id)));
        ends
    }

    pub(super) fn places(&self) -> impl Iterator<Item = (RingId, Place)> {
        self.rings.iter().map(|(id, reader)| (*id, reader.place()))
    }

    /// Opens rings of which something is to be read, and allows to read them up to where the engine
    /// is. Returns whether all are open.
    pub(super) fn open(&mut self, rings: &Rings) -> Result<bool, AttachError> {
        self.put_back();
        let mut left = OPENS;
        for (id, reader) in &mut self.rings {
            let Some(ring) = rings.get(*id) else { continue };
            reader.until = ring.read.saved();
            if reader.observer.is_none() && reader.from.saved.pos < reader.until.pos {
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                reader.observer = ring.shapes.reader(reader.from.saved)?;
            }
            if !reader.waits
                && let Some(time) = reader.peek()
            {
                reader.waits = true;
                self.next[id.class as usize].push(Reverse((time, *id)));
            }
        }
        Ok(true)
    }

    /// Returns the current ring to those that have something, if it has.
    fn put_back(&mut self) {
        if let Some(id) = self.current.take()
            && let Some(reader) = self.rings.get_mut(&id)
        {
            match reader.peek() {
                Some(time) => self.next[id.class as usize].push(Reverse((time, id))),
                None => reader.waits = false,
            }
        }
    }

    /// Takes the next item, of this class if that has one; `None` if there is none. The error is a ring that cannot be read
    /// on.
    pub(super) fn next(&mut self, first: Class) -> Result<Option<Taken<'_>>, RingId> {
        self.put_back();
        let [priority, other] = &mut self.next;
        let (one, two) = match first {
            Class::Priority => (priority, other),
            Class::Other => (other, priority),
        };
        let next = one.pop().or_else(|| two.pop());
        let Some(Reverse((time, id))) = next else { return Ok(None) };
        self.current = Some(id);
        self.touch(id);
        // It may be forgotten meanwhile, and another one has nothing after all.
        let Some(reader) = self.rings.get_mut(&id) else { return Err(id) };
        reader.last = time;
        let newest = &mut self.newest[id.class as usize];
        let late = newest.saturating_sub(time);
        *newest = time.max(*newest);
        if let Some(lost) = reader.owed() {
            return Ok(Some(Taken { id, item: Item::Lost(lost), time, late, was_given: false }));
        }
        let taken = reader.observer.as_mut().map(|observer| observer.advanced().take());
        let Some(Ok(Some((mut item, _)))) = taken else { return Err(id) };
        // Losses at the end do not count as items.
        let mut skip = 1;
        if let Item::Lost(lost) = &mut item {
            if lost.cause == Cause::Lapped {
                reader.from.skip = 0; // what was to be skipped is gone
            }
            skip = u64::from(lost.pos < reader.until.pos);
            let Lost { records, bytes, cause, .. } = *lost;
            let (rest, ahead) = pass(reader.ahead, cause, Count { records, bytes });
            reader.ahead = ahead;
            let Some(rest) = rest else {
                return Ok(Some(Taken { id, item, time, late, was_given: true }));
            };
            (lost.records, lost.bytes) = (rest.records, rest.bytes);
        }
        let skip = reader.from.skip.min(skip);
        reader.from.skip -= skip;
        Ok(Some(Taken { id, item, time, late, was_given: skip > 0 }))
    }

    /// Returns the place in a ring after what was taken.
    pub(super) fn saved(&self, id: RingId) -> Saved {
        self.rings.get(&id).map_or(Saved::default(), |reader| reader.place().saved)
    }

    /// Returns whether something of this ring is still to be passed on.
    pub(super) fn lacks(&mut self, id: RingId, ring: &Ring) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.source == id)
            || self.rings.get_mut(&id).is_some_and(|reader| reader.lacks(ring))
    }

    /// Returns whether nothing is left to be read.
    pub(super) fn is_done(&mut self, rings: &Rings) -> bool {
        let mut readers = self.rings.iter_mut();
        self.pending.is_none()
            && readers.all(|(id, reader)| rings.get(*id).is_none_or(|ring| !reader.lacks(ring)))
    }
}

impl Reader {
    fn place(&self) -> Place {
        let read = self.observer.as_ref().map_or(self.from.saved, Observer::saved);
        let saved = Saved { told: read.told.plus(self.ahead), ..read };
        Place { saved, ..self.from }
    }

    /// Returns what the outputs that keep up were told at the end of the stream, if this reader is there.
    fn owes(&self) -> Refused {
        let Saved { pos, told, .. } = self.place().saved;
        if pos < self.until.pos { Refused::default() } else { self.until.told.since(told) }
    }

    /// Takes the next loss of these.
    fn owed(&mut self) -> Option<Lost> {
        let owes = self.owes().by_cause();
        let (cause, count) = owes.into_iter().find(|(_, count)| count.records > 0)?;
        self.ahead = self.ahead.plus(refused(cause, count));
        let (Count { records, bytes }, pos) = (count, self.place().saved.pos);
        Some(Lost { pos, records, bytes, cause, at_end: true })
    }

    /// Returns the time of what is next, of what the engine has read.
    fn peek(&mut self) -> Option<u64> {
        if self.place().saved.pos >= self.until.pos {
            return (self.owes().total().records > 0).then_some(self.last);
        }
        match self.observer.as_mut()?.advanced().peek() {
            Ok(Front::Empty) => None,
            Ok(Front::Timestamped(time)) => Some(time),
            // An error is found by taking it.
            Ok(Front::Plain | Front::Lost | Front::More) | Err(_) => Some(self.last),
        }
    }

    fn lacks(&mut self, ring: &Ring) -> bool {
        self.until = ring.read.saved();
        let must_open = self.observer.is_none() && self.from.saved.pos < self.until.pos;
        // There may be only holes left.
        must_open || self.peek().is_some()
    }
}
