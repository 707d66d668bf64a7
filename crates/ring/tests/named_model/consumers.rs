//! The named consumers and observers of the model.

use super::world::{Kind, World, assert_holds, tick};
use crate::model::told;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Cause, Policy};
use perfring_ring::{
    ConsumerTotals, CopyReader, Count, Fences, Lost, Next, OwnerInfo, Reader, Refused, Ring, Saved,
    Start, System, drop_dead, slowest_seats,
};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// The seats without a lock, as the kernel would tell. Producers are alive.
#[derive(Clone)]
pub(crate) struct Dead(Arc<AtomicU32>);

impl Dead {
    pub(crate) fn all(seats: u32) -> Self {
        Dead(Arc::new(AtomicU32::new((1 << seats) - 1)))
    }

    pub(crate) fn is_dead(&self, seat: u32) -> bool {
        self.0.load(Ordering::Relaxed) & (1 << seat) != 0
    }

    fn set(&self, seat: u32, dead: bool) {
        let others = self.0.load(Ordering::Relaxed) & !(1 << seat);
        self.0.store(others | u32::from(dead) << seat, Ordering::Relaxed);
    }
}

impl System for Dead {
    fn is_alive(&self, _slot: u32) -> bool {
        true
    }

    fn relax(&self, _round: u32) {}

    fn drop_dead(&self, ring: Ring<'_>) -> bool {
        slowest_seats(ring).any(|seat| self.is_dead(seat))
            && drop_dead(ring, |seat| self.is_dead(seat))
    }

    fn now_ns(&self) -> u64 {
        1
    }
}

/// What is known of a seat.
#[derive(Default)]
pub(crate) struct Seat {
    /// Its consumer, while it is alive.
    pub(crate) real: Option<Reader>,
    pub(crate) tail: u64,
    pub(crate) waited_for: bool,
    had_an_owner: bool,
    /// True at the tail, or at the last one before it where somebody died as it joined.
    totals: ConsumerTotals,
    /// Of one that died between the totals and the tail.
    ahead: Option<ConsumerTotals>,
    /// Of the consumer that is alive: the next record, and the head that it knows.
    cursor: u64,
    known: u64,
    missed: Option<Lost>,
    /// What it was told of missed records, and of refused ones.
    lapped: Count,
    told: Refused,
    batch: Option<(u64, Refused)>,
    /// Whether it was told something that takes no place in the stream, and has not released.
    news: bool,
}

pub(crate) struct Watcher {
    real: CopyReader,
    from: Count,
    read: Count,
}

impl World<'_> {
    fn seat(&mut self, seat: u32) -> &mut Seat {
        &mut self.seats[seat as usize]
    }

    fn word(&self, seat: u32) -> &perfring_abi::atomic::AtomicU64 {
        &self.heap.header().named_tails[seat as usize % 4][seat as usize / 4]
    }

    /// What a consumer of this seat has read and missed where it has come to.
    fn totals_at(&self, seat: u32, pos: u64) -> ConsumerTotals {
        let lapped = self.seats[seat as usize].lapped;
        ConsumerTotals { pos, read: self.data(0, pos).since(lapped), lapped }
    }

    /// What the seat has of what its consumer was told of refused records.
    fn saved_told(&self, seat: u32) -> Refused {
        let copies = self.heap.seats()[seat as usize].told.copies.each_ref();
        let words = copies.map(|copy| copy.each_ref().map(|word| word.load(Ordering::Relaxed)));
        let newest = words.into_iter().max_by_key(|words| words[0]).unwrap();
        let count = |at: usize| Count { records: newest[at], bytes: newest[at + 1] };
        Refused { full: count(1), too_large: count(3), contended: count(5), pending: count(7) }
    }

    pub(crate) fn open(&mut self, seat: u32, renamed: bool) {
        if self.seat(seat).real.is_some() {
            return;
        }
        let ring = self.heap.ring();
        let mut place = self.heap.seat(seat).unwrap();
        if renamed {
            place.clear(ring);
            *self.seat(seat) = Seat::default();
        }
        place.sign(&OwnerInfo::default());
        let pos = self.seat(seat).tail.max(self.tail);
        let last = self.seat(seat).ahead.filter(|ahead| ahead.pos <= pos);
        let last = last.filter(|_| self.seat(seat).totals.pos != pos);
        let last = last.unwrap_or(self.seat(seat).totals);
        let now = self.data(last.pos, pos);
        let Count { records, bytes } = now;
        let missed = (now != Count::default()).then_some(Lost {
            pos,
            records,
            bytes,
            cause: Cause::Lapped,
            at_end: false,
        });
        let reader = Reader::join(ring, place, Fences::Full).unwrap();
        let reader = reader.with_losses(self.heap.shared(), self.heap.layout().loss_slots());
        assert_eq!(reader.cursor(), pos, "where it released, or where the tail is");
        let told = told::most(self.saved_told(seat), self.marked(pos));
        // The seat stays as it was until the first release, and what counted as it joined is kept by that.
        let ahead = self.seat(seat).ahead.filter(|ahead| *ahead != last);
        let totals = last;
        *self.seat(seat) = Seat {
            real: Some(reader),
            tail: pos,
            waited_for: true,
            had_an_owner: true,
            totals,
            ahead,
            cursor: pos,
            known: pos,
            missed,
            lapped: last.lapped,
            told,
            batch: None,
            news: false,
        };
        self.dead.set(seat, false);
    }

    pub(crate) fn read(&mut self, number: u32) {
        let (ring, tail) = (self.heap.ring(), self.seats[number as usize].tail);
        let head = self.head;
        let seat = self.seat(number);
        let Some(reader) = &mut seat.real else { return };
        let found = reader.next(ring).unwrap().0;
        if let Some(missed) = seat.missed.take() {
            assert_eq!(found, Some(Next::Lost(missed)), "what it has missed comes first");
            let Lost { records, bytes, .. } = missed;
            (seat.lapped, seat.news) = (seat.lapped.plus(Count { records, bytes }), true);
            tick(&self.tally.missed, missed.records);
            return;
        }
        let (mut cursor, mut known) = (seat.cursor, seat.known);
        let (mut told, mut before, mut polled) = (seat.told, cursor, false);
        loop {
            let Some((at, after)) = self.first(cursor, known) else {
                // It polls when nothing more is known, also after holes.
                cursor = known;
                before = cursor;
                if std::mem::replace(&mut polled, true) {
                    assert_eq!(found, None);
                    break;
                }
                known = head;
                continue;
            };
            cursor = after;
            if let Kind::Lost(marker) = self.items[&at].kind {
                if let Some(lost) = told::at_marker(&self.marked(after), &mut told, marker) {
                    assert_eq!(found, Some(Next::Lost(lost)));
                    break;
                }
                // And after a marker that tells nothing.
                before = after;
                if !std::mem::replace(&mut polled, true) {
                    known = head;
                }
                continue;
            }
            self.assert_is(&found.unwrap(), at);
            tick(&self.tally.read, u64::from(matches!(found, Some(Next::Record(_)))));
            break;
        }
        let seat = self.seat(number);
        (seat.cursor, seat.known, seat.told) = (cursor, known, told);
        // It releases by itself, and never what it has returned just now.
        let to = self.word(number).load(Ordering::Relaxed) & !1;
        assert!((tail..=before).contains(&to) && self.is_boundary(to), "{tail} {to} {before}");
        if to != tail {
            self.released(number, to);
        }
        if found.is_none() {
            self.lost(number);
        }
    }

    /// At the end of the stream it is told what no marker reports: all that was counted is told then.
    fn lost(&mut self, number: u32) {
        let (at, counted) = (self.heap.shared(), self.refused);
        let seat = self.seat(number);
        let Some(reader) = &mut seat.real else { return };
        // With `all`, what is counted now.
        let lost = reader.lost(at, true);
        let (told, cursor) = (&mut seat.told, seat.cursor);
        let expected = told::in_a_batch(&mut seat.batch, true, &counted, told, cursor);
        assert_eq!(lost, expected);
        seat.news |= lost.is_some();
        if lost.is_none() {
            assert_eq!(seat.told, counted);
        }
    }

    fn released(&mut self, seat: u32, to: u64) {
        let totals = self.totals_at(seat, to);
        let seat = self.seat(seat);
        (seat.totals, seat.ahead, seat.tail, seat.news) = (totals, None, to, false);
    }

    pub(crate) fn release(&mut self, seat: u32) {
        let ring = self.heap.ring();
        let Seat { real: Some(reader), cursor, tail, news, told, .. } = self.seat(seat) else {
            return;
        };
        let (to, told) = (*cursor, *told);
        let releases = *news || to != *tail;
        let _ = reader.release(ring);
        if releases {
            self.released(seat, to);
            // The markers before the tail say the rest.
            assert!(told == self.marked(to) || told == self.saved_told(seat));
        }
    }

    pub(crate) fn close(&mut self, seat: u32) {
        self.release(seat);
        let ring = self.heap.ring();
        if let Some(mut reader) = self.seat(seat).real.take() {
            let _ = reader.leave(ring);
            self.seat(seat).waited_for = false;
            self.dead.set(seat, true);
        }
    }

    pub(crate) fn die(&mut self, seat: u32) {
        if self.seat(seat).real.take().is_some() {
            self.dead.set(seat, true);
            tick(&self.tally.deaths, 1);
        }
    }

    pub(crate) fn die_before_tail(&mut self, seat: u32) {
        let (ring, word) = (self.heap.ring(), self.word(seat).load(Ordering::Relaxed));
        let Seat { real: Some(reader), cursor, tail, news, .. } = self.seat(seat) else { return };
        let (to, from, news) = (*cursor, *tail, *news);
        let _ = reader.release(ring);
        self.word(seat).store(word, Ordering::Relaxed);
        if to != from {
            let totals = self.totals_at(seat, to);
            self.seat(seat).ahead = Some(totals);
        } else if news {
            self.released(seat, to);
        }
        self.die(seat);
    }

    pub(crate) fn die_joining(&mut self, seat: u32, late: bool) {
        let tail = self.tail;
        let at = self.seat(seat);
        if at.real.is_some() {
            return;
        }
        // A late one has looked where the tail is, and stores that when it is elsewhere.
        at.tail = if late { at.tail } else { at.tail.max(tail) };
        at.waited_for = true;
        let word = at.tail | 1;
        self.word(seat).store(word, Ordering::Relaxed);
        tick(&self.tally.deaths, 1);
    }

    pub(crate) fn check_seats(&self) {
        let figures = perfring_ring::consumer_seats(self.heap.ring(), self.heap.seats(), None);
        let mut figures = figures.into_iter();
        for (number, seat) in (0..).zip(&self.seats) {
            let word = self.word(number).load(Ordering::Relaxed);
            assert_eq!((word & !1, word & 1 != 0), (seat.tail, seat.waited_for), "seat {number}");
            if seat.real.is_some() {
                assert!(seat.waited_for && self.tail <= seat.tail && seat.tail <= seat.cursor);
            }
            if !seat.had_an_owner {
                continue;
            }
            let found = figures.next().unwrap();
            assert_eq!(found.number, number);
            let found = found.figures;
            assert_eq!(found.waited_for, seat.waited_for);
            let at_tail = seat.totals.pos == seat.tail;
            let expected = seat.ahead.filter(|_| !at_tail).unwrap_or(seat.totals);
            assert_eq!(found.totals, expected, "seat {number}");
            let passed = found.totals.read.plus(found.totals.lapped);
            assert_eq!(passed, self.data(0, found.totals.pos), "written = read + lapped + unread");
        }
        assert_eq!(figures.next(), None);
    }

    pub(crate) fn watch(&mut self, who: u8, start: Start) {
        let real = CopyReader::new(self.heap.ring(), Policy::Drop, start).unwrap();
        let real = real.with_losses(self.heap.shared(), self.heap.layout().loss_slots());
        let pos = if matches!(start, Start::Latest) { self.head } else { self.tail };
        let from = self.data(0, pos);
        let Saved { pos: at, before, .. } = real.saved();
        assert_eq!((at, before), (pos, from));
        self.watchers.insert(who, Watcher { real, from, read: Count::default() });
    }

    pub(crate) fn observe(&mut self, who: u8) {
        let Some(mut watcher) = self.watchers.remove(&who) else { return };
        let from = watcher.real.saved().pos;
        let seen = match watcher.real.next(self.heap.ring()).unwrap() {
            Some(Next::Record((frame, words))) => {
                assert_holds(words, &self.items[&frame.pos]);
                Some(Ok(frame))
            }
            Some(Next::Lost(lost)) => Some(Err(lost)),
            None => None,
        };
        let Saved { pos, before, .. } = watcher.real.saved();
        match seen {
            Some(Ok(frame)) => {
                let size = self.items[&frame.pos].size;
                assert_eq!((frame.size, pos), (size, frame.pos + size));
                assert_eq!(self.data(from, frame.pos), Count::default(), "in order");
                let one = Count { records: 1, bytes: frame.size };
                watcher.read = watcher.read.plus(one);
                tick(&self.tally.observed, 1);
            }
            Some(Err(lost)) if lost.cause == Cause::Lapped => {
                let Count { records, bytes } = self.data(from, pos);
                assert_eq!((lost.records, lost.bytes), (records, bytes));
                tick(&self.tally.lapped, records);
            }
            Some(Err(_)) => assert_eq!(self.data(from, pos), Count::default()),
            None => assert_eq!(pos, self.head),
        }
        assert_eq!(before, self.data(0, pos));
        let all = watcher.read.plus(watcher.real.lapped());
        assert_eq!(all, before.since(watcher.from), "read + lapped = written");
        self.watchers.insert(who, watcher);
    }
}
