//! The ring beside a plain list: the two are compared after every operation.

use super::case::*;
use super::told::{self, Batch};
use perfring_abi::atomic::Ordering;
use perfring_abi::{Cause, Evict, LOST_SIZE, Lead, Policy, RecordType, Report, record_size};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    ConsumerTotals, CopyReader, Count, End, Fences, FrameWords, Lost, Next, Place, Reader, Refusal,
    Refused, Reserved, RingCopy, RingTotals, Saved, Start, Wake, Writer,
};
use std::collections::BTreeMap;

pub(crate) struct Watcher {
    pub(crate) real: CopyReader,
    pub(crate) cursor: u64,
    pub(crate) head: u64,
    pub(crate) laps_in_a_row: u32,
    pub(crate) start_before: Count,
    pub(crate) read: Count,
    pub(crate) lapped: Count,
    /// The end of what it has copied.
    pub(crate) upto: u64,
    pub(crate) told: Refused,
    pub(crate) batch: Batch,
    /// It was never lapped: what each marker tells it is known.
    pub(crate) exact: bool,
}

pub(crate) struct Model<'a> {
    pub(crate) heap: &'a HeapRing,
    pub(crate) tally: &'a Tally,
    pub(crate) case: &'a Case,
    pub(crate) size: u64,
    pub(crate) writer: Option<Writer>,
    pub(crate) reader: Option<Reader>,
    /// Everything ever committed, the unpublished records last.
    pub(crate) items: BTreeMap<u64, Item>,
    pub(crate) pos: u64,
    pub(crate) head: u64,
    pub(crate) tail: u64,
    pub(crate) full: Count,
    pub(crate) too_large: Count,
    pub(crate) attempts: u64,
    pub(crate) given_up: u64,
    pub(crate) next_id: u64,
    /// The greatest timestamp in the ring, and of all reservations so far.
    pub(crate) newest: u64,
    pub(crate) highest: u64,
    /// The consumer of a drop ring: its cursor, and the head that it knows.
    pub(crate) cursor: u64,
    pub(crate) known: u64,
    /// What it was told of refused records; that consumer, or that of an overwrite ring.
    pub(crate) told: Refused,
    /// What it has found and is told next.
    pub(crate) pending: Option<(Lost, Refused, Batch)>,
    pub(crate) batch: Batch,
    /// Whether it was told something since it attached, and has not released.
    pub(crate) news: bool,
    pub(crate) watchers: BTreeMap<u8, Watcher>,
    pub(crate) saved: Option<Saved>,
    /// The consumer of an overwrite ring, which saves its position in the page.
    pub(crate) keeper: Option<(CopyReader, ConsumerTotals)>,
}

impl<'a> Model<'a> {
    pub(crate) fn new(heap: &'a HeapRing, case: &'a Case, tally: &'a Tally) -> Self {
        let mut model = Model {
            heap,
            tally,
            case,
            size: case.size,
            writer: None,
            reader: None,
            items: BTreeMap::new(),
            pos: 0,
            head: 0,
            tail: 0,
            full: Count::default(),
            too_large: Count::default(),
            attempts: 0,
            given_up: 0,
            next_id: 1,
            newest: 0,
            highest: 0,
            cursor: 0,
            known: 0,
            told: Refused::default(),
            pending: None,
            batch: None,
            news: false,
            watchers: BTreeMap::new(),
            saved: None,
            keeper: None,
        };
        model.attach_writer();
        model.attach_reader();
        model
    }

    pub(crate) fn attach_writer(&mut self) {
        // What was not published leaves no trace.
        self.items.split_off(&self.head);
        self.pos = self.head;
        let timestamps = self.items.values().filter_map(|item| match item.kind {
            Kind::Data(_, _, timestamp) => timestamp,
            _ => None,
        });
        self.newest = timestamps.max().unwrap_or(0);
        let writer = Writer::attach(self.heap.ring(), self.heap.layout(), Fences::Full).unwrap();
        assert_eq!(writer.pos(), self.head);
        self.writer = Some(writer);
    }

    pub(crate) fn attach_reader(&mut self) {
        if self.case.policy == Policy::Drop {
            let reader = Reader::attach(self.heap.ring(), Fences::Full).unwrap().with_hands(true);
            let reader = reader.with_lead(Lead::of(self.case.time, false));
            let reader = reader.with_losses(self.heap.ring().into(), 0);
            (self.cursor, self.known) = (self.tail, self.tail);
            assert_eq!(reader.cursor(), self.cursor);
            self.reader = Some(reader);
            self.told = told::most(self.saved_told(), self.marked(self.tail));
            (self.pending, self.batch, self.news) = (None, None, false);
        } else {
            let observer = CopyReader::resume(self.heap.ring())
                .unwrap()
                .with_lead(Lead::of(self.case.time, false))
                .with_losses(self.heap.ring().into(), 0);
            let totals = self.keeper.take().map_or(ConsumerTotals::default(), |(_, totals)| totals);
            assert_eq!(observer.saved().pos, totals.pos);
            assert_eq!(observer.lapped(), totals.lapped);
            self.told = observer.saved().told;
            let (saved, marked) = (self.saved_told(), self.marked(totals.pos.max(self.tail)));
            assert!(self.told == saved || self.told == told::most(saved, marked));
            self.keeper = Some((observer, totals));
        }
    }

    /// Data records in a range of positions.
    pub(crate) fn data(&self, from: u64, to: u64) -> Count {
        let mut count = Count::default();
        for item in self.items.range(from..to.max(from)).map(|(_, item)| item) {
            if matches!(item.kind, Kind::Data(..)) {
                count.records += 1;
                count.bytes += item.size;
            }
        }
        count
    }

    pub(crate) fn holes(&self, to: u64) -> Count {
        let mut count = Count::default();
        for item in self.items.range(..to).map(|(_, item)| item) {
            if item.kind == Kind::Hole {
                count.records += 1;
                count.bytes += item.size;
            }
        }
        count
    }

    pub(crate) fn reported(&self, cause: Cause, to: u64) -> (Count, u64) {
        let (mut count, mut markers) = (Count::default(), 0);
        for item in self.items.range(..to).map(|(_, item)| item) {
            if let Kind::Lost(lost) = item.kind
                && lost.cause == cause
            {
                count.records += lost.records;
                count.bytes += lost.bytes;
                markers += 1;
            }
        }
        (count, markers)
    }

    /// What the producers have counted.
    pub(crate) fn counted(&self) -> Refused {
        Refused { full: self.full, too_large: self.too_large, ..Refused::default() }
    }

    /// What the markers before a position report.
    pub(crate) fn marked(&self, to: u64) -> Refused {
        let [full, too_large] =
            [Cause::Full, Cause::TooLarge].map(|cause| self.reported(cause, to).0);
        Refused { full, too_large, ..Refused::default() }
    }

    /// What the page has of what the consumer was told: its two copies are whole.
    pub(crate) fn saved_told(&self) -> Refused {
        let copies = self.heap.header().consumer_told.copies.each_ref();
        let words = copies.map(|copy| copy.each_ref().map(|word| word.load(Ordering::Relaxed)));
        let newest = words.into_iter().max_by_key(|words| words[0]).unwrap();
        let count = |at: usize| Count { records: newest[at], bytes: newest[at + 1] };
        Refused { full: count(1), too_large: count(3), contended: count(5), pending: count(7) }
    }

    pub(crate) fn is_boundary(&self, pos: u64) -> bool {
        pos == self.pos || self.items.contains_key(&pos)
    }

    pub(crate) fn push(&mut self, size: u64, kind: Kind) {
        self.items.insert(self.pos, Item { pos: self.pos, size, kind });
        self.pos += size;
    }

    pub(crate) fn unreported(&self) -> Vec<Lost> {
        let mut unreported = Vec::new();
        if self.case.report == Report::InStream {
            for (cause, all) in [(Cause::Full, self.full), (Cause::TooLarge, self.too_large)] {
                let reported = self.reported(cause, self.pos).0;
                let left = all.since(reported);
                if left != Count::default() {
                    let (records, bytes) = (left.records, left.bytes);
                    unreported.push(Lost { pos: 0, records, bytes, cause, at_end: false });
                }
            }
        }
        unreported
    }

    /// Checks the tail after room was made for a reservation that ends at `end`.
    pub(crate) fn made_room(&mut self, end: u64) {
        let mut exact = self.tail;
        while end - exact > self.size - 1 {
            exact += self.items[&exact].size;
        }
        let tail = self.heap.ring().tail();
        if self.case.evict == Evict::Exact || exact == self.tail {
            assert_eq!(tail, exact, "as few as possible are evicted");
        } else {
            assert!(tail >= exact && self.is_boundary(tail) && tail <= self.pos);
            let small = self.items.range(self.tail..).all(|(_, item)| item.size <= self.size / 8);
            if small {
                assert!(end - tail >= self.size * 3 / 8, "three eighths stay");
            }
        }
        self.tail = tail;
    }

    /// Makes a reservation, and checks it against the model.
    pub(crate) fn reserve(&mut self, len: usize) -> Result<Reserved, Refusal> {
        let id = self.next_id;
        // A clock that goes back from time to time.
        let now = 16 * id + (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58);
        let (ring, kind) = (self.heap.ring(), kind_of(id));
        let writer = self.writer.as_mut().unwrap();
        let got = match self.case.time && !id.is_multiple_of(5) {
            true => writer.reserve(ring, kind, len, now),
            false => writer.reserve(ring, kind, len, 0),
        };
        let size = self.size_of(len);
        let max = self.size as usize - 16 - self.timestamp_len();
        if len > max {
            assert_eq!(got.as_ref().unwrap_err(), &Refusal::TooLarge { max });
            return got;
        }
        // A reservation on the slow path publishes what a batch holds back.
        self.adopt_head();
        let mut markers = self.unreported();
        if markers.len() as u64 * u64::from(LOST_SIZE) + size >= self.size {
            markers.clear();
        }
        let end = self.pos + markers.len() as u64 * u64::from(LOST_SIZE) + size;
        if self.case.policy == Policy::Drop {
            if end - self.tail > self.size - 1 {
                assert_eq!(got.as_ref().unwrap_err(), &Refusal::Full);
                return got;
            }
        } else {
            self.made_room(end);
        }
        for mut lost in markers {
            lost.pos = self.pos;
            tick(&self.tally.markers, 1);
            self.push(LOST_SIZE.into(), Kind::Lost(lost));
        }
        assert_eq!(got.as_ref().unwrap().pos(), self.pos);
        assert_eq!(got.as_ref().unwrap().payload_pos(), self.pos + 8 + self.timestamp_len() as u64);
        if self.case.time {
            let timestamp = self.timestamp_at(self.pos);
            let now = if id.is_multiple_of(5) { 0 } else { now };
            assert!(timestamp >= now.max(self.newest), "a timestamp less than an earlier one");
            assert!(timestamp <= now.max(self.highest), "a timestamp of no clock");
            tick(&self.tally.clock_back, u64::from(timestamp > now));
            tick(&self.tally.timestamps, 1);
            self.highest = self.highest.max(timestamp);
        }
        assert_eq!(got.as_ref().unwrap().len(), len);
        got
    }

    pub(crate) fn timestamp_len(&self) -> usize {
        if self.case.time { 8 } else { 0 }
    }

    pub(crate) fn size_of(&self, len: usize) -> u64 {
        record_size(len.saturating_add(self.timestamp_len()))
    }

    pub(crate) fn timestamp_at(&self, pos: u64) -> u64 {
        self.ring_words(pos + 8, 1)[0]
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal, len: usize) {
        let _ = self.writer.as_mut().unwrap().refuse(self.heap.ring(), refusal, len);
        let size = self.size_of(len);
        let (cause, tally) = match refusal {
            Refusal::Full => (&mut self.full, &self.tally.full),
            Refusal::TooLarge { .. } => (&mut self.too_large, &self.tally.too_large),
            other => panic!("an honest, exclusive ring: {other:?}"),
        };
        cause.records += 1;
        cause.bytes += size;
        tick(tally, 1);
        self.head = self.pos;
    }

    pub(crate) fn commit(&mut self, reserved: Reserved, committed: usize) {
        let (ring, id) = (self.heap.ring(), self.next_id);
        let bytes = payload(id, reserved.len());
        let timestamp = self.case.time.then(|| self.timestamp_at(reserved.pos()));
        self.newest = self.newest.max(timestamp.unwrap_or(0));
        let writer = self.writer.as_mut().unwrap();
        writer.fill(ring, &reserved, &bytes);
        if committed == reserved.len() {
            let len = reserved.len();
            let _ = writer.end(ring, reserved, len, End::Hold);
        } else {
            let _ = writer.end(ring, reserved, committed, End::Hold);
        }
        let kind = Kind::Data(kind_of(id), bytes[..committed].to_vec(), timestamp);
        self.push(self.size_of(committed), kind);
        self.next_id += 1;
        tick(&self.tally.written, 1);
    }

    /// Reserves and commits, and counts a refusal.
    pub(crate) fn write(&mut self, len: usize, committed: usize) {
        self.attempts += 1;
        match self.reserve(len) {
            Ok(reserved) => self.commit(reserved, committed),
            Err(refusal) => self.refuse(refusal, len),
        }
    }

    pub(crate) fn publish(&mut self) {
        let _ = self.writer.as_mut().unwrap().publish(self.heap.ring(), Wake::Auto);
        self.head = self.pos;
    }

    pub(crate) fn adopt_head(&mut self) {
        let head = self.heap.ring().head();
        assert!(head == self.head || head == self.pos, "published in part: {head}");
        self.head = head;
    }

    pub(crate) fn adopt_tail(&mut self, up_to: u64) {
        let tail = self.heap.ring().tail();
        assert!((self.tail..=up_to).contains(&tail) && self.is_boundary(tail));
        self.tail = tail;
    }

    pub(crate) fn words_hold(words: &[u64], item: &Item) {
        let Kind::Data(_, bytes, time) = &item.kind else { panic!("no record at {}", item.pos) };
        assert_eq!(words.len() as u64, item.size / 8 - 1 - u64::from(time.is_some()));
        let got: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(&got[..bytes.len()], &bytes[..], "a torn record at {}", item.pos);
    }

    pub(crate) fn ring_words(&self, pos: u64, count: u64) -> Vec<u64> {
        let data = self.heap.data();
        (0..count)
            .map(|at| data[(pos / 8 + at) as usize % data.len()].load(Ordering::Relaxed))
            .collect()
    }

    pub(crate) fn found_is(&self, found: Next<Place>, at: u64) {
        let item = &self.items[&at];
        match found {
            Next::Record(Place::Ring(frame)) => {
                let Kind::Data(kind, bytes, time) = &item.kind else { panic!("no record at {at}") };
                let expected = (at, kind.get(), bytes.len(), item.size, *time);
                assert_eq!((frame.pos, frame.kind, frame.len, frame.size, frame.time), expected);
                let from = frame.payload_pos();
                Self::words_hold(&self.ring_words(from, (at + item.size - from) / 8), item);
            }
            Next::Lost(lost) => panic!("{lost:?} for {item:?}"),
            Next::Record(Place::Aux(..)) => panic!("without an AUX area"),
        }
    }

    /// The first thing in a range that is not a hole.
    pub(crate) fn first(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        self.items
            .range(from..to.max(from))
            .map(|(_, item)| item)
            .find(|item| item.kind != Kind::Hole)
            .map(|item| (item.pos, item.pos + item.size))
    }

    pub(crate) fn next(&mut self) {
        if self.case.policy == Policy::Overwrite {
            return self.keep();
        }
        let (found, _) = self.reader.as_mut().unwrap().next(self.heap.ring()).unwrap();
        if let Some((lost, after, batch)) = self.pending.take() {
            assert_eq!(found, Some(Next::Lost(lost)));
            (self.told, self.batch, self.news) = (after, batch, true);
            return;
        }
        let (mut before, mut polled) = (self.cursor, false);
        loop {
            let Some((at, after)) = self.first(self.cursor, self.known) else {
                // It polls when nothing more is known, also after holes.
                self.cursor = self.known;
                before = self.cursor;
                if std::mem::replace(&mut polled, true) {
                    assert_eq!(found, None);
                    break;
                }
                self.known = self.head;
                continue;
            };
            self.cursor = after;
            if let Kind::Lost(marker) = self.items[&at].kind {
                let marked = self.marked(after);
                let Some(lost) = told::at_marker(&marked, &mut self.told, marker) else {
                    // And after a marker that tells nothing.
                    tick(&self.tally.passed_markers, 1);
                    before = after;
                    if !std::mem::replace(&mut polled, true) {
                        self.known = self.head;
                    }
                    continue;
                };
                assert_eq!(found, Some(Next::Lost(lost)));
                tick(&self.tally.told_at_marker, lost.records);
                break;
            }
            self.found_is(found.unwrap(), at);
            tick(&self.tally.read, 1);
            break;
        }
        self.adopt_tail(before);
    }

    /// What no marker reports.
    pub(crate) fn lost(&mut self, all: bool, take: bool) {
        if self.reader.is_none() {
            return;
        }
        let nothing_known = self.cursor == self.known;
        if self.pending.is_none() && nothing_known {
            let (mut told, mut batch, counted) = (self.told, self.batch, self.counted());
            let lost = told::in_a_batch(&mut batch, all, &counted, &mut told, self.cursor);
            self.pending = lost.map(|lost| (lost, told, batch));
            self.batch = if lost.is_none() { batch } else { self.batch };
            tick(&self.tally.told_at_end, lost.map_or(0, |lost| lost.records));
        }
        let reader = self.reader.as_mut().unwrap();
        if !take {
            let has_lost = reader.has_lost(self.heap.ring().into(), all);
            assert_eq!(has_lost, self.pending.is_some());
            return;
        }
        let lost = reader.lost(self.heap.ring().into(), all);
        let pending = self.pending.take();
        assert_eq!(lost, pending.map(|(lost, ..)| lost));
        if let Some((_, told, batch)) = pending {
            (self.told, self.batch, self.news) = (told, batch, true);
        }
    }

    pub(crate) fn next_record(&mut self) {
        let Some(reader) = &mut self.reader else { return self.next() };
        let frame = match self.case.time {
            true => {
                assert_eq!(reader.next_known::<true>(self.heap.ring()), None);
                reader.next_known::<false>(self.heap.ring())
            }
            false => reader.next_known::<true>(self.heap.ring()),
        };
        if let Some(frame) = frame {
            if self.cursor == self.known {
                self.known = self.head; // it polled
            }
            let (at, after) = self.first(self.cursor, self.known).unwrap();
            assert_eq!(at, self.cursor);
            self.found_is(Next::Record(Place::Ring(frame)), at);
            self.cursor = after;
            tick(&self.tally.read, 1);
        } else {
            self.next();
        }
    }

    /// The consumer of an overwrite ring reads on and saves its position.
    pub(crate) fn keep(&mut self) {
        let (mut observer, mut totals) = self.keeper.take().unwrap();
        let from = observer.saved().pos;
        match observer.next(self.heap.ring()).unwrap() {
            Some(Next::Record((frame, words))) => {
                Self::words_hold(words, &self.items[&frame.pos]);
                totals.read.records += 1;
                totals.read.bytes += frame.size;
                tick(&self.tally.read, 1);
            }
            Some(Next::Lost(lost)) if lost.cause == Cause::Lapped => {
                assert!(lost.pos >= from, "holes that it had copied may come first");
                totals.lapped.records += lost.records;
                totals.lapped.bytes += lost.bytes;
            }
            Some(Next::Lost(Lost { pos, records, bytes, cause, at_end })) => {
                assert_eq!(at_end, pos == self.head);
                told::add(&mut self.told, cause, Count { records, bytes });
                self.batch = Some((pos, self.counted()));
            }
            // Unless it was told something here, and then nothing once.
            None if self.batch.take().is_some_and(|(end, _)| end == from) => {}
            None => assert_eq!(self.told, self.counted(), "everything is told at the end"),
        }
        assert_eq!(observer.saved().told, self.told);
        assert_eq!(self.told.since(self.counted()), Refused::default(), "no more than counted");
        observer.save(self.heap.ring());
        assert_eq!(self.saved_told(), self.told);
        totals.pos = observer.saved().pos;
        assert_eq!(totals.read.plus(totals.lapped), self.data(0, totals.pos));
        self.keeper = Some((observer, totals));
    }

    pub(crate) fn watch(&mut self, who: u8, start: Start0) {
        let start = match (start, self.saved) {
            (Start0::Oldest, _) => Start::Oldest,
            (Start0::Latest, _) => Start::Latest,
            (Start0::Saved, Some(saved)) => Start::At(saved),
            (Start0::Saved, None) => return,
        };
        let real = CopyReader::new(self.heap.ring(), self.case.policy, start).unwrap();
        let real = real.with_lead(Lead::of(self.case.time, false));
        let real = real.with_losses(self.heap.ring().into(), 0);
        let cursor = match start {
            Start::Oldest => self.tail,
            Start::Latest => self.head,
            Start::At(saved) => saved.pos,
        };
        let saved = match start {
            Start::At(saved) => saved.told,
            Start::Oldest | Start::Latest => Refused::default(),
        };
        let told = match cursor >= self.tail {
            _ if matches!(start, Start::Latest) => self.counted(),
            true if saved != Refused::default() => saved,
            true => self.marked(cursor),
            false => real.saved().told, // its markers may be gone
        };
        assert_eq!(real.saved(), Saved { pos: cursor, before: self.data(0, cursor), told });
        let watcher = Watcher {
            real,
            cursor,
            head: cursor,
            laps_in_a_row: 0,
            start_before: self.data(0, cursor),
            read: Count::default(),
            lapped: Count::default(),
            upto: cursor,
            told,
            batch: None,
            exact: cursor >= self.tail,
        };
        self.watchers.insert(who, watcher);
    }

    pub(crate) fn observe(&mut self, who: u8) {
        let Some(mut watcher) = self.watchers.remove(&who) else { return };
        let w = &mut watcher;
        let from = w.cursor;
        let seen = w.real.next(self.heap.ring()).unwrap();
        // What it should have seen.
        loop {
            if w.cursor == w.upto {
                // It copies again, and checks the tail once for everything that it copied.
                if w.cursor == w.head {
                    w.head = self.head;
                    if w.cursor == w.head {
                        let counted = self.counted();
                        let lost =
                            told::in_a_batch(&mut w.batch, false, &counted, &mut w.told, w.cursor);
                        assert_eq!(seen, lost.map(Next::Lost));
                        tick(&self.tally.told_at_end, lost.map_or(0, |lost| lost.records));
                        break;
                    }
                }
                let chunk = self.heap.ring().data_size().min(65_528);
                let copied_to = w.cursor + (w.head - w.cursor).min(chunk);
                if self.tail > w.cursor {
                    w.laps_in_a_row += 1;
                    w.exact = false;
                    // From the tail, or finally from the newest totals brought up to the head.
                    let oldest = if w.laps_in_a_row > 4 { self.head } else { self.tail };
                    let lost = self.data(w.cursor, oldest);
                    let at = w.cursor;
                    w.cursor = oldest;
                    w.head = w.head.max(oldest);
                    w.upto = copied_to.max(oldest);
                    w.lapped = w.lapped.plus(lost);
                    if lost.records == 0 {
                        continue;
                    }
                    Self::lapped_is(seen, at, lost);
                    break;
                }
                w.upto = copied_to;
            }
            let item = &self.items[&w.cursor];
            if item.size > w.upto - w.cursor {
                w.upto = w.cursor; // truncated by the end of the copy
                continue;
            }
            w.cursor += item.size;
            match (&item.kind, seen) {
                (Kind::Hole, _) => continue,
                (Kind::Data(kind, bytes, time), Some(Next::Record((frame, words)))) => {
                    let expected = (item.pos, kind.get(), bytes.len(), item.size, *time);
                    let got = (frame.pos, frame.kind, frame.len, frame.size, frame.time);
                    assert_eq!(got, expected);
                    Self::words_hold(words, item);
                    w.laps_in_a_row = 0;
                    w.read.records += 1;
                    w.read.bytes += item.size;
                    tick(&self.tally.seen, 1);
                }
                (Kind::Lost(marker), seen) if w.exact => {
                    let marked = self.marked(w.cursor);
                    let Some(lost) = told::at_marker(&marked, &mut w.told, *marker) else {
                        tick(&self.tally.passed_markers, 1);
                        continue;
                    };
                    assert_eq!(seen, Some(Next::Lost(lost)));
                    tick(&self.tally.told_at_marker, lost.records);
                }
                (Kind::Lost(marker), Some(Next::Lost(lost))) if lost.pos == marker.pos => {
                    // Or more, where one before it was passed unseen and saved.
                    assert_eq!(lost.cause, marker.cause);
                    let Lost { records, bytes, cause, .. } = lost;
                    told::add(&mut w.told, cause, Count { records, bytes });
                }
                (Kind::Lost(_), _) => continue,
                (kind, seen) => panic!("{seen:?} where the model has {kind:?}, from {from}"),
            }
            break;
        }
        let before = self.data(0, w.cursor);
        assert_eq!(w.real.saved(), Saved { pos: w.cursor, before, told: w.told });
        assert_eq!(w.told.since(self.counted()), Refused::default(), "no more than counted");
        assert_eq!(w.real.lapped(), w.lapped);
        assert_eq!(w.read.plus(w.lapped), before.since(w.start_before), "read + lapped = written");
        self.saved = Some(w.real.saved());
        self.watchers.insert(who, watcher);
    }

    pub(crate) fn lapped_is(seen: Option<Next<FrameWords<'_>>>, pos: u64, lost: Count) {
        // Laps over holes only are not reported and are added to the next.
        let Some(Next::Lost(reported)) = seen else { panic!("{seen:?} after a lap of {lost:?}") };
        let expected = Lost {
            pos,
            records: lost.records,
            bytes: lost.bytes,
            cause: Cause::Lapped,
            at_end: false,
        };
        assert_eq!(reported, expected);
    }

    pub(crate) fn snapshot(&self) {
        let snapshot = RingCopy::take(self.heap.ring(), self.case.policy).unwrap();
        let snapshot = snapshot.with_lead(Lead::of(self.case.time, false));
        assert_eq!((snapshot.start(), snapshot.end()), (self.tail, self.head));
        let mut cursor = snapshot.start();
        for item in self.items.range(self.tail..self.head).map(|(_, item)| item) {
            if item.kind == Kind::Hole {
                continue;
            }
            let (found, after) = snapshot.step(cursor).unwrap().unwrap();
            match (&item.kind, found) {
                (Kind::Lost(marker), found) => assert_eq!(found, Next::Lost(*marker)),
                (_, Next::Record((frame, words))) => {
                    self.found_is(Next::Record(Place::Ring(frame)), item.pos);
                    Self::words_hold(words, item);
                }
                (_, Next::Lost(lost)) => panic!("{lost:?} for {item:?}"),
            }
            assert_eq!(after, item.pos + item.size);
            cursor = after;
        }
        assert_eq!(snapshot.step(cursor), Ok(None));
        let (counted, mut told) = (self.counted(), self.marked(self.head));
        for lost in snapshot.unmarked() {
            assert_eq!(Some(lost), told::at_end(&counted, &mut told, self.head));
        }
        assert_eq!(told, counted);
    }

    pub(crate) fn kill_reader_before_tail(&mut self) {
        let Some(reader) = &mut self.reader else { return self.attach_reader() };
        let old = self.tail;
        let _ = reader.release(self.heap.ring());
        self.heap.header().data_tail.store(old, Ordering::Relaxed);
        self.attach_reader();
        tick(&self.tally.kills, 1);
    }

    /// Death after the tail mark and before the tail, with nothing written yet.
    pub(crate) fn kill_writer_before_tail(&mut self, len: usize) {
        let quiet =
            self.unreported().is_empty() && len <= self.size as usize - 16 - self.timestamp_len();
        // And without a timestamp over the oldest record.
        let quiet = quiet && self.pos + 8 + self.timestamp_len() as u64 - self.tail <= self.size;
        if self.case.policy == Policy::Overwrite && quiet {
            let old = self.tail;
            let writer = self.writer.as_mut().unwrap();
            let _ = writer.reserve(self.heap.ring(), RecordType::BYTES, len, 0).unwrap();
            self.heap.header().data_tail.store(old, Ordering::Relaxed);
            self.adopt_head();
            let totals = RingTotals::read(self.heap.ring(), self.case.policy).unwrap();
            assert_eq!((totals.tail, totals.overwritten), (old, self.data(0, old)));
        }
        self.kill_writer();
    }

    pub(crate) fn kill_writer(&mut self) {
        self.writer = None;
        self.attach_writer();
        tick(&self.tally.kills, 1);
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Publish(len) => {
                self.write(len, len);
                self.publish();
            }
            Op::Try(len) => {
                self.attempts += 1;
                match self.reserve(len) {
                    Ok(reserved) => {
                        self.commit(reserved, len);
                        self.publish();
                    }
                    Err(_) => self.given_up += 1,
                }
            }
            Op::CommitLen(len, committed) => {
                self.write(len, committed);
                self.publish();
            }
            Op::Discard(len) => {
                if let Ok(reserved) = self.reserve(len) {
                    let writer = self.writer.as_mut().unwrap();
                    writer.discard(self.heap.ring(), reserved);
                    self.push(self.size_of(len), Kind::Hole);
                    self.publish();
                }
            }
            Op::Forget(len) => {
                let _ = self.reserve(len);
            }
            Op::Batch(ref lens) => {
                for &len in lens {
                    self.write(len, len);
                }
                self.publish();
            }
            Op::Hold(len) => self.write(len, len),
            Op::PublishHeld => self.publish(),
            Op::WriterDetach => self.detach_writer(),
            Op::WriterKill => self.kill_writer(),
            Op::WriterKillBeforeTail(len) => self.kill_writer_before_tail(len),
            Op::Next(times) => (0..times).for_each(|_| self.next()),
            Op::NextRecord(times) => (0..times).for_each(|_| self.next_record()),
            Op::Release => {
                if let Some(reader) = &mut self.reader {
                    let _ = reader.release(self.heap.ring());
                    let released = self.news || self.tail != self.cursor;
                    (self.tail, self.news) = (self.cursor, false);
                    // The markers before the tail say the rest.
                    let ahead = self.told != self.marked(self.tail);
                    assert!(!(released && ahead) || self.saved_told() == self.told);
                }
            }
            Op::Lost(all) => self.lost(all, true),
            Op::HasLost => self.lost(true, false),
            Op::PeekPassRelease(times) => self.peek_and_pass(times),
            Op::Refresh => {
                if let Some(reader) = &mut self.reader {
                    assert_eq!(reader.refresh(self.heap.ring()), Ok(self.head));
                    self.known = self.head;
                }
            }
            Op::ReaderReattach => self.attach_reader(),
            Op::ReaderKillBeforeTail => self.kill_reader_before_tail(),
            Op::ForeignReader(times) => self.foreign_reader(times),
            Op::Watch(who, start) => self.watch(who, start),
            Op::Observe(who, times) => (0..times).for_each(|_| self.observe(who)),
            Op::Snapshot => self.snapshot(),
        }
        tick(&self.tally.ops, 1);
    }

    pub(crate) fn detach_writer(&mut self) {
        let _ = self.writer.as_mut().unwrap().detach(self.heap.ring());
        self.head = self.pos;
        let markers = self.unreported();
        let end = self.pos + markers.len() as u64 * u64::from(LOST_SIZE);
        let fits = markers.len() as u64 * u64::from(LOST_SIZE) < self.size;
        let room = self.case.policy == Policy::Overwrite || end - self.tail < self.size;
        if !markers.is_empty() && fits && room {
            if self.case.policy == Policy::Overwrite {
                self.made_room(end);
            }
            for mut lost in markers {
                lost.pos = self.pos;
                tick(&self.tally.markers, 1);
                self.push(LOST_SIZE.into(), Kind::Lost(lost));
            }
            self.head = self.pos;
        }
        self.attach_writer();
    }

    pub(crate) fn peek_and_pass(&mut self, times: u8) {
        let Some(reader) = &mut self.reader else { return };
        assert_eq!(reader.refresh(self.heap.ring()), Ok(self.head));
        self.known = self.head;
        self.reader.as_mut().unwrap().forget_lost();
        self.pending = None;
        let mut real_told = self.reader.as_ref().unwrap().told();
        let (mut cursor, mut count) = (self.cursor, Count::default());
        for _ in 0..times {
            let peeked = self.reader.as_ref().unwrap().peek(self.heap.ring(), cursor).unwrap();
            let model = self.first(cursor, self.known);
            let (Some((found, after)), Some((at, end))) = (peeked, model) else {
                assert_eq!((peeked, model), (None, None));
                break;
            };
            match found {
                Next::Lost(marker) => {
                    assert_eq!(self.items[&at].kind, Kind::Lost(marker));
                    let lost = told::at_marker(&self.marked(end), &mut self.told, marker);
                    assert_eq!(real_told.pass(marker), lost);
                }
                found => self.found_is(found, at),
            }
            assert_eq!(after, end);
            if let Next::Record(Place::Ring(frame)) = found {
                count.records += 1;
                count.bytes += frame.size;
            }
            cursor = after;
        }
        let reader = self.reader.as_mut().unwrap();
        reader.pass(cursor, count);
        reader.set_told(real_told);
        let _ = reader.release(self.heap.ring());
        self.news = false;
        tick(&self.tally.read, count.records);
        (self.cursor, self.tail) = (cursor, cursor);
    }

    /// A perf reader, which keeps no totals, moves the tail between two of our consumers.
    pub(crate) fn foreign_reader(&mut self, times: u8) {
        if self.reader.is_none() {
            return;
        }
        for _ in 0..times {
            if self.tail < self.head {
                self.tail += self.items[&self.tail].size;
            }
        }
        self.heap.header().data_tail.store(self.tail, Ordering::Relaxed);
        self.check();
        self.attach_reader();
    }

    pub(crate) fn check(&self) {
        let ring = self.heap.ring();
        assert_eq!((ring.head(), ring.tail()), (self.head, self.tail));
        assert!(self.tail <= self.head && self.head <= self.pos, "tail <= head <= pos");
        assert!(self.pos - self.tail < self.size, "never quite full");

        let written = self.data(0, self.pos);
        let writer = self.writer.as_ref().unwrap();
        assert_eq!(writer.pos(), self.pos);
        let totals = writer.totals();
        assert_eq!((totals.pos, totals.written), (self.pos, written));
        assert_eq!(totals.discarded, self.holes(self.pos));
        assert_eq!((totals.refused.full, totals.refused.too_large), (self.full, self.too_large));

        let totals = RingTotals::read(ring, self.case.policy).unwrap();
        assert_eq!((totals.head, totals.tail), (self.head, self.tail));
        let producer = totals.producer;
        assert_eq!((producer.pos, producer.written), (self.head, self.data(0, self.head)));
        assert_eq!(producer.discarded, self.holes(self.head));
        assert_eq!(
            (producer.refused.full, producer.refused.too_large),
            (self.full, self.too_large)
        );
        let (reported_full, full_markers) = self.reported(Cause::Full, self.head);
        let (reported_too_large, too_large_markers) = self.reported(Cause::TooLarge, self.head);
        assert_eq!(
            (producer.reported.full, producer.reported.too_large),
            (reported_full, reported_too_large)
        );
        assert_eq!(producer.lost_markers, full_markers + too_large_markers);
        assert_eq!(totals.present, self.data(self.tail, self.head));
        assert_eq!(self.told.since(self.counted()), Refused::default(), "no more than counted");
        let passed = self.data(0, self.tail);
        match self.case.policy {
            Policy::Drop => {
                assert_eq!(totals.consumer.read, passed, "written = read + present");
                assert_eq!(totals.overwritten, Count::default());
                let reader = self.reader.as_ref().unwrap();
                assert_eq!(reader.cursor(), self.cursor);
                assert_eq!(reader.passed(), self.data(0, self.cursor));
            }
            Policy::Overwrite => {
                assert_eq!(totals.overwritten, passed, "written = overwritten + present");
                assert_eq!(writer.overwritten(ring), passed);
                assert_eq!(totals.consumer, self.keeper.as_ref().unwrap().1);
            }
        }
    }
}
