//! Whoever can write the file can lie in it: no content of the header or of the data area makes
//! any side panic, loop, or report anything but damage.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{
    Evict, Hole, Policy, RecordType, RecordWord, TAIL_MARK, Tell, consumer_book, producer_book,
};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    Corrupt, Count, Fences, Found, Group, Observer, Peers, Reader, Ring, Seen, SharedWriter,
    SlotFigures, Snapshot, Start, Totals, Wake, WakeAt, Who, Writer, full_fence, recover,
};
use std::cell::Cell;
use std::time::Instant;

const SIZE: u64 = 256;

#[derive(Clone)]
struct Shape {
    /// None: an exclusive ring.
    slots: u32,
    policy: Policy,
    evict: Evict,
    tell: Tell,
    header: Vec<u64>,
    data: Vec<u64>,
}

fn word(heap: &HeapRing, at: usize) -> &AtomicU64 {
    let header = live(heap);
    if at < header.len() { header[at] } else { &heap.data()[at - header.len()] }
}

/// The 64-bit words of the header that change while a ring is in use.
fn live(heap: &HeapRing) -> Vec<&AtomicU64> {
    let header = heap.header();
    let mut words = vec![&header.data_head, &header.data_tail];
    words.extend(header.tail_mark.copies.iter().flatten());
    words.extend(header.producer.copies.iter().flatten());
    words.extend(header.consumer.copies.iter().flatten());
    words.extend([&header.wait.wake_pos, &header.wait.wake_records, &header.space.wake_pos]);
    words.extend(&header.consumer_holder.name);
    // In an exclusive ring it is zero, and readers look.
    words.push(&header.shared.producer_pos);
    let at = heap.shared();
    if !at.slots().is_empty() {
        let line = &header.shared;
        words.extend([&line.lock, &line.ledger_written, &line.ledger_stale, &line.ledger_more]);
        words.extend(&line.ledger);
        words.extend([&line.stuck_pos, &line.stuck_since_ns]);
    }
    for slot in at.slots() {
        words.push(&slot.holder.epoch);
        words.extend(slot.written.copies.iter().flatten());
        words.extend(slot.losses.copies.iter().flatten());
        words.extend(&slot.base);
    }
    words
}

impl Shape {
    fn of(heap: &HeapRing) -> Self {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Shape {
            slots: heap.shared().slots().len() as u32,
            policy: heap.layout().policy,
            evict: heap.layout().evict,
            tell: heap.layout().tell,
            header: live(heap).into_iter().map(load).collect(),
            data: heap.data().iter().map(load).collect(),
        }
    }

    fn restore(&self, heap: &HeapRing) {
        for (to, from) in live(heap).into_iter().zip(&self.header) {
            to.store(*from, Ordering::Relaxed);
        }
        for (to, from) in heap.data().iter().zip(&self.data) {
            to.store(*from, Ordering::Relaxed);
        }
        for armed in [&heap.header().wait.armed, &heap.header().space.armed] {
            armed.store(1, Ordering::Relaxed);
        }
    }

    fn heap(&self) -> HeapRing {
        let heap = HeapRing::new(SIZE, self.policy).unwrap().evict(self.evict).tell(self.tell);
        if self.slots == 0 { heap } else { heap.many(self.slots) }
    }
}

/// Honest rings: fresh, half full, full, wrapped; with holes and losses, released and not.
fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for policy in [Policy::Drop, Policy::Overwrite] {
        for (evict, tell) in [(Evict::Exact, Tell::InStream), (Evict::Half, Tell::CountersOnly)] {
            let heap = HeapRing::new(SIZE, policy).unwrap().evict(evict).tell(tell);
            let ring = heap.ring();
            shapes.push(Shape::of(&heap));
            let mut writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
            let mut reader = Reader::attach(ring, Fences::Full).unwrap();
            for round in 0..40_usize {
                let len = [0, 9, 24, 40, 3, 300, 100][round % 7];
                match writer.try_reserve(ring, RecordType::BYTES, len, |_| 0) {
                    Ok(reserved) if round % 5 == 3 => writer.discard(ring, reserved),
                    Ok(reserved) => {
                        writer.fill(ring, &reserved, &vec![round as u8; len]);
                        let len = reserved.len();
                        writer.commit(ring, reserved, len);
                    }
                    Err(refusal) => {
                        let _ = writer.refuse(ring, refusal, len);
                    }
                }
                let _ = writer.publish(ring, Wake::Auto);
                if policy == Policy::Drop && round % 3 == 2 {
                    for _ in 0..3 {
                        let _ = reader.next(ring).unwrap();
                    }
                    let _ = reader.release(ring);
                }
                if policy == Policy::Overwrite && round == 20 {
                    let mut keeper = Observer::resume(ring).unwrap();
                    let _ = keeper.next(ring).unwrap();
                    keeper.save(ring);
                }
                if [4, 13, 27].contains(&round) {
                    shapes.push(Shape::of(&heap));
                }
            }
            shapes.push(Shape::of(&heap));
        }
    }
    shapes
}

/// There are more shapes than this; each gets one of so many parts of the lies.
const PART: usize = if cfg!(miri) { 90 } else { 3 };

/// Outcomes, for the last line.
#[derive(Debug, Default)]
struct Tally {
    lies: u64,
    corrupt: u64,
    records: u64,
    losses: u64,
    steps: u64,
}

/// More than this from a ring of 32 words is a loop.
const STEPS: u64 = 20_000;

impl Tally {
    /// Counts what a call returned; says whether to go on.
    fn goes_on<T>(&mut self, steps: &mut u64, result: Result<Option<T>, Corrupt>) -> Option<T> {
        self.steps += 1;
        *steps += 1;
        assert!(*steps < STEPS, "an endless stream");
        match result {
            Ok(found) => found,
            Err(Corrupt { .. }) => {
                self.corrupt += 1;
                None
            }
        }
    }

    fn read(&mut self, ring: Ring<'_>) {
        let Ok(mut reader) = Reader::attach(ring, Fences::Full) else {
            self.corrupt += 1;
            return;
        };
        let mut steps = 0;
        if let Ok(head) = reader.refresh(ring) {
            let (mut cursor, mut count) = (reader.cursor(), Count::default());
            while let Some((found, after)) = {
                let peeked = reader.peek(ring, cursor);
                self.goes_on(&mut steps, peeked)
            } {
                assert!(after > cursor && after <= head);
                self.found(found);
                count.records += 1;
                cursor = after;
            }
            for odd in [cursor, cursor.wrapping_add(4), u64::MAX, 0] {
                let _ = reader.peek(ring, odd);
                reader.pass(odd, count);
            }
        }
        let _ = ring.prepare_sleep(reader.cursor(), u64::MAX, WakeAt::Records(9), full_fence);
        let _ = ring.prepare_sleep(reader.cursor(), 1, WakeAt::Bytes(64), full_fence);
        let _ = reader.release(ring);
        let Ok(mut reader) = Reader::attach(ring, Fences::Full) else { return };
        loop {
            if let Some(frame) = reader.next_record(ring) {
                assert!(frame.size < SIZE);
                continue;
            }
            let next = reader.next(ring).map(|(found, _)| found);
            let Some(found) = self.goes_on(&mut steps, next) else { break };
            self.found(found);
        }
        let _ = reader.next(ring);
        let _ = reader.next(ring);
        let _ = reader.release(ring);
    }

    fn found(&mut self, found: Found) {
        match found {
            Found::Record(frame) => {
                assert!(frame.size < SIZE && frame.len as u64 + 8 <= frame.size);
                self.records += 1;
            }
            Found::Large(..) => panic!("without an AUX area"),
            Found::Lost(_) => self.losses += 1,
        }
    }

    fn observe(&mut self, ring: Ring<'_>, observer: Result<Observer, Corrupt>) {
        let Ok(mut observer) = observer else {
            self.corrupt += 1;
            return;
        };
        let mut steps = 0;
        loop {
            let before = observer.saved().pos;
            let Some(seen) = self.goes_on(&mut steps, observer.next(ring)) else { break };
            match seen {
                Seen::Record(frame, words) => {
                    assert!(frame.size <= SIZE && words.len() as u64 == frame.size / 8 - 1);
                    self.records += 1;
                }
                Seen::Lost(_) => self.losses += 1,
            }
            assert!(observer.saved().pos > before, "no progress");
        }
        let _ = (observer.next(ring).is_ok(), observer.lapped());
    }

    fn write(&mut self, heap: &HeapRing) {
        let ring = heap.ring();
        let Ok(mut writer) = Writer::attach(ring, heap.layout(), Fences::Full) else {
            self.corrupt += 1;
            return;
        };
        self.write_on(&mut writer, ring);
        let _ = writer.detach(ring);
    }

    fn write_on(&mut self, writer: &mut Writer, ring: Ring<'_>) {
        for round in 0..12_usize {
            let len = [0, 17, 64, 240, 300][round % 5];
            match writer.try_reserve(ring, RecordType::BYTES, len, |_| 0) {
                Ok(reserved) if round % 4 == 1 => writer.discard(ring, reserved),
                Ok(reserved) => {
                    writer.fill(ring, &reserved, &vec![7; len]);
                    let len = reserved.len();
                    writer.commit(ring, reserved, len);
                }
                Err(refusal) => {
                    let _ = writer.tail_for(ring, len);
                    let _ = writer.refuse(ring, refusal, len);
                }
            }
            let _ = writer.publish(ring, Wake::Auto);
            assert!(writer.pos() == ring.head());
        }
        let _ = (writer.book(), writer.overwritten(ring));
    }

    fn snapshot(&mut self, ring: Ring<'_>, policy: Policy) {
        let _ = Totals::read(ring, policy).map(|totals| totals.untold());
        self.taken(Snapshot::take(ring, policy));
    }

    fn taken(&mut self, snapshot: Result<Snapshot, Corrupt>) {
        match snapshot {
            Ok(snapshot) => {
                let (mut cursor, mut steps) = (snapshot.start(), 0);
                while let Some((found, words, after)) =
                    self.goes_on(&mut steps, snapshot.step(cursor))
                {
                    assert!(after > cursor && words.len() < SIZE as usize / 8);
                    cursor = after;
                    if let Found::Record(frame) = found {
                        assert!(frame.len <= words.len() * 8);
                    }
                }
                for odd in [0, 4, u64::MAX, snapshot.end(), snapshot.end().wrapping_sub(4)] {
                    let _ = snapshot.step(odd);
                }
            }
            Err(Corrupt { .. }) => self.corrupt += 1,
        }
    }

    /// Every side attaches to the lie.
    fn meet(&mut self, heap: &HeapRing) {
        self.lies += 1;
        let ring = heap.ring();
        let policy = heap.layout().policy;
        let _ = Who::read(&heap.header().consumer_holder);
        self.snapshot(ring, policy);
        for policy in
            [policy, if policy == Policy::Drop { Policy::Overwrite } else { Policy::Drop }]
        {
            for start in [Start::Oldest, Start::Latest, Start::At(Default::default())] {
                self.observe(ring, Observer::new(ring, policy, start));
            }
        }
        self.observe(ring, Observer::resume(ring));
        if let Ok(mut keeper) = Observer::resume(ring) {
            let _ = keeper.next(ring).is_ok();
            keeper.save(ring);
        }
    }
}

fn nasty(old: u64) -> impl Iterator<Item = u64> {
    let record = |misc, size| RecordWord::pack(4096, misc, size).raw();
    let fixed = [
        0,
        1,
        7,
        8,
        16,
        SIZE - 8,
        SIZE,
        SIZE + 8,
        1 << 32,
        1 << 61,
        (1 << 62) - 8,
        1 << 62,
        (1 << 62) + 8,
        1 << 63,
        u64::MAX,
        u64::MAX - 7,
        u64::MAX - 15,
        record(0, 0),
        record(7, 8),
        record(0, 12),
        record(7, 16),
        record(0, SIZE as u16),
        record(0, u16::MAX),
        record(0, 65_528),
        RecordWord::nop(8, Hole::Discarded).raw(),
        RecordWord::nop(0, Hole::Discarded).raw(),
        RecordWord::pack(RecordType::LOST, 0, 16).raw(),
        RecordWord::pack(RecordType::LOST, 0, 24).raw(),
        RecordWord::lost().raw(),
    ];
    let near = [8, 1, SIZE, 1 << 40].into_iter();
    let near = near.flat_map(move |by: u64| [old.wrapping_add(by), old.wrapping_sub(by)]);
    fixed.into_iter().chain(near).chain((0..64).map(move |bit| old ^ 1 << bit))
}

/// Every side on a ring that lies from the beginning.
fn all_sides(tally: &mut Tally, shape: &Shape, heap: &HeapRing, lie: impl Fn()) {
    let again = || {
        shape.restore(heap);
        lie();
    };
    again();
    tally.meet(heap);
    again();
    tally.write(heap);
    tally.meet(heap);
    again();
    tally.read(heap.ring());
    tally.write(heap);
}

#[test]
fn no_word_of_a_ring_can_make_anybody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    for (turn, shape) in shapes().into_iter().enumerate() {
        let heap = shape.heap();
        let words = shape.header.len() + shape.data.len();
        for at in 0..words {
            shape.restore(&heap);
            let old = word(&heap, at).load(Ordering::Relaxed);
            // Every value in every word, spread over the shapes.
            for lie in nasty(old).skip((turn + at) % PART).step_by(PART) {
                all_sides(&mut tally, &shape, &heap, || {
                    word(&heap, at).store(lie, Ordering::Relaxed);
                });
            }
        }
    }
    println!("one word: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}

/// xorshift64*: the tests need no better.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[test]
fn no_random_bytes_can_make_anybody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    let shapes = shapes();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let rounds = if cfg!(miri) { 20 } else { 8_000 };
    for round in 0..rounds {
        let shape = &shapes[round % shapes.len()];
        let heap = shape.heap();
        let words = shape.header.len() + shape.data.len();
        // A few words, or all; values that pass the first checks, or any.
        let few = (dice.roll() % 6 + 2) as usize;
        let lies: Vec<_> = (0..if round % 7 == 0 { words } else { few })
            .map(|index| {
                let at = if round % 7 == 0 { index } else { dice.roll() as usize % words };
                let roll = dice.roll();
                let value = match roll % 4 {
                    0 => dice.roll(),
                    1 => (dice.roll() % (2 * SIZE)) & !7,
                    _ => nasty(dice.roll()).nth(roll as usize / 4 % 40).unwrap(),
                };
                (at, value)
            })
            .collect();
        all_sides(&mut tally, shape, &heap, || {
            for &(at, value) in &lies {
                word(&heap, at).store(value, Ordering::Relaxed);
            }
        });
    }
    println!("random: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}

/// A stream of holes alone, and positions as far apart as they can lie: the longest ways there are.
#[test]
fn a_ring_of_holes_keeps_nobody_for_ever() {
    let mut tally = Tally::default();
    for (head, tail) in [(1 << 62, 0), (1 << 62, (1 << 62) - SIZE + 8), (SIZE, 0), (1 << 40, 8)] {
        for policy in [Policy::Drop, Policy::Overwrite] {
            let heap = HeapRing::new(SIZE, policy).unwrap();
            let lie = || {
                for word in heap.data() {
                    word.store(RecordWord::nop(8, Hole::Discarded).raw(), Ordering::Relaxed);
                }
                heap.header().data_head.store(head, Ordering::Relaxed);
                heap.header().data_tail.store(tail, Ordering::Relaxed);
            };
            let shape = Shape::of(&heap);
            all_sides(&mut tally, &shape, &heap, lie);
        }
    }
    println!("holes: {tally:?}");
}

/// Between the last look of a consumer and its sleep anybody may move the head: whoever counts the
/// records up to there must come to an end.
#[test]
fn a_head_out_of_reach_keeps_no_sleeper_for_ever() {
    for record in [RecordWord::pack(4096, 0, 16), RecordWord::lost()] {
        let heap = HeapRing::new(SIZE, Policy::Drop).unwrap();
        for word in heap.data() {
            word.store(record.raw(), Ordering::Relaxed);
        }
        for head in [SIZE, 1 << 40, (1 << 62) - 8, u64::MAX - 7] {
            heap.header().data_head.store(head, Ordering::Relaxed);
            let at = WakeAt::Records(u64::MAX);
            // It does not sleep, as its next look is to say what is wrong.
            assert_eq!(heap.ring().prepare_sleep(8, 0, at, full_fence), None);
        }
    }
}

/// An honest ring in all but that it has come unbelievably far: every position is moved by as many
/// rings, to where sums would overflow.
#[test]
fn positions_at_the_end_of_the_world_make_nobody_panic_or_loop() {
    let mut tally = Tally::default();
    let (last, believed) = (u64::MAX - (SIZE - 1), 1 << 62);
    let mut refused = 0;
    for shape in shapes() {
        let heap = shape.heap();
        let head = shape.header[0];
        for end in [believed - SIZE, believed, believed + SIZE, 1 << 63, last - SIZE, last] {
            for by in [end, end.wrapping_sub(head / SIZE * SIZE)] {
                let header = heap.header();
                let moved = || {
                    let by = |word: &AtomicU64| {
                        word.store(
                            word.load(Ordering::Relaxed).wrapping_add(by),
                            Ordering::Relaxed,
                        );
                    };
                    by(&header.data_head);
                    by(&header.data_tail);
                    for copy in &header.tail_mark.copies {
                        by(&copy[0]);
                        by(&copy[TAIL_MARK - 1]);
                    }
                    for copy in &header.producer.copies {
                        by(&copy[producer_book::POS]);
                    }
                    for copy in &header.consumer.copies {
                        by(&copy[consumer_book::POS]);
                    }
                };
                all_sides(&mut tally, &shape, &heap, moved);
                shape.restore(&heap);
                moved();
                let ring = heap.ring();
                let writer = Writer::attach(ring, heap.layout(), Fences::Full);
                let believable = ring.head() <= believed && ring.tail() <= ring.head();
                assert_eq!(writer.is_ok(), believable, "head {}", ring.head());
                refused += u64::from(!believable);
            }
        }
    }
    println!("far: {tally:?}, {refused} refused");
    assert!(refused > 0 && tally.records > 0);
}

/// The header changes while its readers and its writer are at work: each keeps to what it checked.
#[test]
fn a_word_that_changes_under_way_makes_nobody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    for shape in shapes() {
        let heap = shape.heap();
        let ring = heap.ring();
        let words = shape.header.len() + shape.data.len();
        for at in 0..words {
            for lie in nasty(0).take(if cfg!(miri) { 1 } else { 40 }) {
                shape.restore(&heap);
                let mut writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
                let reader = Reader::attach(ring, Fences::Full);
                let mut observers: Vec<_> = [Start::Oldest, Start::Latest]
                    .into_iter()
                    .map(|start| Observer::new(ring, shape.policy, start).unwrap())
                    .collect();
                word(&heap, at).store(lie, Ordering::Relaxed);
                tally.lies += 1;
                if let Ok(mut reader) = reader {
                    for _ in 0..3 {
                        let next = reader.next(ring);
                        tally.corrupt += u64::from(next.is_err());
                    }
                    let _ = reader.release(ring);
                }
                tally.write_on(&mut writer, ring);
                for observer in observers.drain(..) {
                    tally.observe(ring, Ok(observer));
                }
                tally.snapshot(ring, shape.policy);
            }
        }
    }
    println!("under way: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}

/// The system as the algorithm of shared rings sees it: who lives is made up, and whoever asks
/// without end is found out.
struct MadeUp {
    alive: fn(u32) -> bool,
    asked: Cell<u64>,
}

impl MadeUp {
    const ALL: [fn(u32) -> bool; 3] = [|_| false, |_| true, |slot| slot == 0];

    fn new(alive: fn(u32) -> bool) -> Self {
        MadeUp { alive, asked: Cell::new(0) }
    }

    fn count(&self) {
        self.asked.set(self.asked.get() + 1);
        assert!(self.asked.get() < 100 * STEPS, "it asks without end");
    }
}

impl Peers for MadeUp {
    fn is_alive(&self, slot: u32) -> bool {
        self.count();
        // As the kernel's answer is: a slot that there is none of is nobody's to rob.
        slot > MEMBERS || (self.alive)(slot)
    }

    fn relax(&self, _round: u32) {
        self.count();
    }

    fn now_ns(&self) -> u64 {
        1_700_000_000_000_000_000
    }
}

/// Slots of the shared rings.
const MEMBERS: u32 = 2;

fn join(heap: &HeapRing, index: u32, peers: &MadeUp) -> Option<SharedWriter> {
    let (at, who) = (heap.shared(), Who::default());
    SharedWriter::attach(at, heap.layout(), Fences::Full, index, &who, peers).ok()
}

/// Honest shared rings: fresh, in use, wrapped; with open reservations, holes and losses, and with
/// the lock taken.
fn shared_shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (policy, evict, tell) in [
        (Policy::Drop, Evict::Exact, Tell::InStream),
        (Policy::Overwrite, Evict::Exact, Tell::InStream),
        (Policy::Overwrite, Evict::Half, Tell::CountersOnly),
    ] {
        let heap = HeapRing::new(SIZE, policy).unwrap().evict(evict).tell(tell).many(MEMBERS);
        let (at, ring) = (heap.shared(), heap.ring());
        shapes.push(Shape::of(&heap));
        let peers = MadeUp::new(|_| true);
        let mut writers = [0, 1].map(|index| join(&heap, index, &peers).unwrap());
        let mut reader = Reader::attach(ring, Fences::Full).unwrap();
        let mut open = None;
        for round in 0..30_usize {
            let (writer, len) = (&mut writers[round % 2], [0, 9, 24, 40, 3, 300][round % 6]);
            let reserved = if round % 3 == 0 {
                writer.publish(at, &peers, RecordType::BYTES, len, Wake::Auto, |_| {}).map(|_| None)
            } else {
                writer.try_reserve(at, &peers, RecordType::BYTES, len, 0).map(Some)
            };
            match reserved {
                Ok(None) => {}
                Ok(Some(reserved)) if round % 5 == 3 => {
                    let _ = writer.discard(at, &peers, reserved);
                }
                Ok(Some(reserved)) => open = open.or(Some((round % 2, reserved))),
                Err(refusal) => {
                    let _ = writer.refuse(at, refusal, len);
                }
            }
            if round % 4 == 3
                && let Some((owner, reserved)) = open.take()
            {
                let len = reserved.len();
                let _ = writers[owner].commit(at, &peers, reserved, len / 2, Wake::Auto);
            }
            if policy == Policy::Drop && round % 3 == 2 {
                for _ in 0..3 {
                    let _ = reader.next(ring).unwrap();
                }
                let _ = reader.release(ring);
            }
            if [5, 14].contains(&round) {
                shapes.push(Shape::of(&heap));
            }
        }
        let epoch = at.slots()[1].holder.epoch.load(Ordering::Relaxed);
        heap.header().shared.lock.store(2 | epoch << 16, Ordering::Relaxed);
        shapes.push(Shape::of(&heap));
    }
    shapes
}

impl Tally {
    /// Whoever looks at a shared ring.
    fn look(&mut self, heap: &HeapRing, is_alive: fn(u32) -> bool) {
        let (at, policy) = (heap.shared(), heap.layout().policy);
        let is_dead = |slot| !is_alive(slot);
        let _ = Totals::of(at, policy, is_dead).map(|totals| totals.untold());
        self.taken(Snapshot::of(at, policy, is_dead));
        assert!(SlotFigures::all(at).len() <= MEMBERS as usize);
        let _ = (at.held_up(), at.locked_by());
    }

    /// What a producer of a shared ring does.
    fn join_in(&mut self, writer: &mut SharedWriter, heap: &HeapRing, peers: &MadeUp) {
        let at = heap.shared();
        let mut open = Vec::new();
        for round in 0..10_usize {
            let len = [0, 17, 64, 240, 300][round % 5];
            let refused = match round % 4 {
                0 => writer
                    .publish(at, peers, RecordType::BYTES, len, Wake::Auto, |reserved| {
                        assert!(reserved.len() < SIZE as usize);
                        assert!(reserved.payload_pos().is_multiple_of(8));
                    })
                    .err(),
                1 => match writer.try_reserve_group(at, peers, len as u64, 0) {
                    Ok(mut group) => {
                        self.fill(writer, heap, &mut group);
                        let _ = writer.commit_group(at, peers, group, Wake::Force);
                        None
                    }
                    Err(refusal) => Some(refusal),
                },
                _ => match writer.try_reserve(at, peers, RecordType::BYTES, len, 0) {
                    Ok(reserved) => {
                        // A mapping writes whole words there.
                        assert!(reserved.payload_pos().is_multiple_of(8));
                        writer.fill(at, &reserved, &vec![7; len]);
                        open.push(reserved);
                        None
                    }
                    Err(refusal) => Some(refusal),
                },
            };
            if let Some(refusal) = refused {
                let _ = (writer.tail_for(at, len), writer.refuse(at, refusal, len));
                self.corrupt += 1;
            }
            if round % 4 == 3 {
                for (index, reserved) in open.drain(..).enumerate() {
                    let len = reserved.len() / (index + 1);
                    let _ = if index == 1 {
                        writer.discard(at, peers, reserved)
                    } else {
                        writer.commit(at, peers, reserved, len, Wake::Auto)
                    };
                }
            }
        }
        let _ = at.ring().prepare_space_sleep(writer.tail_for(at, 40), full_fence);
        let _ = (writer.written(), writer.refused(), writer.discarded());
    }

    fn fill(&mut self, writer: &SharedWriter, heap: &HeapRing, group: &mut Group) {
        while let Some(reserved) = writer.next_in_group(heap.shared(), group, RecordType::BYTES, 9)
        {
            writer.fill(heap.shared(), &reserved, b"in groups");
            self.records += 1;
        }
    }

    /// Every side of a shared ring on a lie that was there before it.
    fn shared_sides(&mut self, shape: &Shape, heap: &HeapRing, turn: usize, lie: impl Fn()) {
        self.lies += 1;
        let alive = MadeUp::ALL[turn % MadeUp::ALL.len()];
        let again = || {
            shape.restore(heap);
            lie();
        };
        again();
        self.look(heap, alive);
        self.observe(heap.ring(), Observer::new(heap.ring(), shape.policy, Start::Oldest));

        let peers = MadeUp::new(alive);
        if let Some(mut writer) = join(heap, turn as u32 % MEMBERS, &peers) {
            self.join_in(&mut writer, heap, &peers);
            let _ = writer.detach(heap.shared(), &peers);
        } else {
            self.corrupt += 1;
        }
        self.look(heap, alive);

        again();
        let peers = MadeUp::new(alive);
        let _ = recover(heap.shared(), 99, &peers).is_ok();
        self.look(heap, alive);
        self.read(heap.ring());
    }
}

/// Words of open reservations.
fn busy(old: u64) -> impl Iterator<Item = u64> {
    let busy = |size, slot| RecordWord::busy(size, slot).raw();
    nasty(old).chain([
        busy(0, 0),
        busy(0, 1),
        busy(8, 0),
        busy(8, 1),
        busy(12, 1),
        busy(16, 2),
        busy(SIZE - 8, 0),
        busy(SIZE, 1),
        busy(65_528, 1),
        busy(16, 8191),
        busy(65_535, 8191),
        RecordWord::nop(16, Hole::Rest).raw(),
        RecordWord::nop(16, Hole::Reclaimed).raw(),
        RecordWord::pack(RecordType::NOP, u16::MAX, 16).raw(),
        // Lock words.
        1 | 1 << 16,
        2 | 1 << 16,
        3 | 7 << 16,
        0xffff,
        1 << 16,
    ])
}

/// Whether a word is a position, or the lock.
fn is_key(heap: &HeapRing, at: usize) -> bool {
    let header = heap.header();
    let keys =
        [&header.data_head, &header.data_tail, &header.shared.producer_pos, &header.shared.lock];
    keys.into_iter().any(|key| core::ptr::eq(key, word(heap, at)))
}

#[test]
fn no_word_of_a_shared_ring_can_make_anybody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    let part = if cfg!(miri) { 90 } else { 4 };
    for (turn, shape) in shared_shapes().into_iter().enumerate() {
        let heap = shape.heap();
        for at in 0..shape.header.len() + shape.data.len() {
            shape.restore(&heap);
            let old = word(&heap, at).load(Ordering::Relaxed);
            // All that there are for what everybody looks at first, and for all else some.
            let part = if is_key(&heap, at) { 1 } else { part };
            let lies = busy(old).enumerate().skip((turn + at) % part).step_by(part);
            for (index, lie) in lies {
                tally.shared_sides(&shape, &heap, turn + at + index / part, || {
                    word(&heap, at).store(lie, Ordering::Relaxed);
                });
            }
        }
    }
    println!("shared, one word: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}

#[test]
fn no_random_words_of_a_shared_ring_can_make_anybody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    let shapes = shared_shapes();
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    for round in 0..if cfg!(miri) { 20 } else { 20_000 } {
        let shape = &shapes[round % shapes.len()];
        let heap = shape.heap();
        let words = shape.header.len() + shape.data.len();
        let data = shape.header.len();
        let lies: Vec<_> = (0..dice.roll() % 6 + 2)
            .map(|_| {
                let roll = dice.roll();
                // Rather what all look at: positions, the lock and the words of records.
                let at = match roll % 3 {
                    0 => dice.roll() as usize % 2,
                    1 => data + dice.roll() as usize % shape.data.len(),
                    _ => dice.roll() as usize % words,
                };
                let value = match dice.roll() % 4 {
                    0 => dice.roll(),
                    1 => (dice.roll() % (2 * SIZE)) & !7,
                    2 => RecordWord::busy(dice.roll() % 8 * 8, dice.roll() as u32 % 4).raw(),
                    _ => busy(dice.roll()).nth(dice.roll() as usize % 100).unwrap(),
                };
                (at, value)
            })
            .collect();
        tally.shared_sides(shape, &heap, round, || {
            for &(at, value) in &lies {
                word(&heap, at).store(value, Ordering::Relaxed);
            }
        });
    }
    println!("shared, random: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0 && tally.losses > 0);
}

/// An honest shared ring in all but that it has come unbelievably far.
#[test]
fn positions_of_a_shared_ring_at_the_end_of_the_world_make_nobody_panic_or_loop() {
    let mut tally = Tally::default();
    let last = u64::MAX - (SIZE - 1);
    for (turn, shape) in shared_shapes().into_iter().enumerate() {
        let heap = shape.heap();
        let by = [1 << 62, (1 << 62) - SIZE, (1 << 62) + SIZE, 1 << 63, last - SIZE, last];
        for (index, by) in by.into_iter().enumerate() {
            // With the end of the last reservation, and with it alone.
            for together in [true, false] {
                let header = heap.header();
                tally.shared_sides(&shape, &heap, turn + index, || {
                    let add = |word: &AtomicU64| {
                        let old = word.load(Ordering::Relaxed);
                        word.store(old.wrapping_add(by), Ordering::Relaxed);
                    };
                    add(&header.shared.producer_pos);
                    if together {
                        add(&header.data_head);
                        add(&header.data_tail);
                        for copy in &header.tail_mark.copies {
                            add(&copy[0]);
                            add(&copy[TAIL_MARK - 1]);
                        }
                        for copy in &header.producer.copies {
                            add(&copy[producer_book::POS]);
                        }
                    }
                });
            }
        }
        // The last words there are, with records of any size at their place.
        for size in [8, 16, 240, 65_528] {
            for head in [u64::MAX - 7, u64::MAX - 15, u64::MAX - 255] {
                for end in [u64::MAX, u64::MAX - 1, u64::MAX - 7] {
                    tally.shared_sides(&shape, &heap, turn, || {
                        for word in heap.data() {
                            let lie = RecordWord::pack(4096, 0, size).raw();
                            word.store(lie, Ordering::Relaxed);
                        }
                        heap.header().data_head.store(head, Ordering::Relaxed);
                        heap.header().shared.producer_pos.store(end, Ordering::Relaxed);
                    });
                }
            }
        }
    }
    println!("shared, far: {tally:?}");
}

/// The ring changes while its producers are at work.
#[test]
fn a_word_of_a_shared_ring_that_changes_under_way_makes_nobody_panic_or_loop() {
    let (started, mut tally) = (Instant::now(), Tally::default());
    for (turn, shape) in shared_shapes().into_iter().enumerate() {
        let heap = shape.heap();
        for at in 0..shape.header.len() + shape.data.len() {
            shape.restore(&heap);
            let old = word(&heap, at).load(Ordering::Relaxed);
            let part = if is_key(&heap, at) { 1 } else { 5 };
            for (index, lie) in busy(old).enumerate().skip((turn + at) % part).step_by(part) {
                shape.restore(&heap);
                // With a lock that is free, or nobody gets in.
                heap.header().shared.lock.store(0, Ordering::Relaxed);
                let peers = MadeUp::new(MadeUp::ALL[(turn + index) % 3]);
                let mut writers = [0, 1].map(|index| join(&heap, index, &peers).unwrap());
                for writer in &mut writers {
                    // Each knows where it is before the lie comes.
                    let at = heap.shared();
                    let _ = writer
                        .publish(at, &peers, RecordType::BYTES, 40, Wake::Auto, |_| {})
                        .is_ok();
                }
                word(&heap, at).store(lie, Ordering::Relaxed);
                tally.lies += 1;
                for writer in &mut writers {
                    tally.join_in(writer, &heap, &peers);
                    let _ = writer.detach(heap.shared(), &peers);
                }
                tally.look(&heap, peers.alive);
            }
        }
        // Where a producer has a reservation open it gets no other, wherever positions go.
        for lie in (0..4 * SIZE).step_by(4) {
            shape.restore(&heap);
            let (at, header) = (heap.shared(), heap.header());
            header.shared.lock.store(0, Ordering::Relaxed);
            let peers = MadeUp::new(|_| true);
            let Some(mut writer) = join(&heap, 0, &peers) else { continue };
            let Ok(first) = writer.try_reserve(at, &peers, RecordType::BYTES, 24, 0) else {
                continue;
            };
            header.shared.producer_pos.store(lie, Ordering::Relaxed);
            if let Ok(second) = writer.try_reserve(at, &peers, RecordType::BYTES, 24, 0) {
                let apart = second.payload_pos().wrapping_sub(first.payload_pos()) % SIZE;
                assert!(apart.is_multiple_of(8) && (32..=SIZE - 32).contains(&apart), "{lie}");
                let _ = writer.commit(at, &peers, second, 24, Wake::Auto);
            }
            let _ = writer.commit(at, &peers, first, 20, Wake::Auto);
        }
        // All positions go back, and fit each other.
        for end in [0, 8, 64, 128] {
            shape.restore(&heap);
            heap.header().shared.lock.store(0, Ordering::Relaxed);
            let peers = MadeUp::new(|_| true);
            let Some(mut writer) = join(&heap, 0, &peers) else { continue };
            tally.join_in(&mut writer, &heap, &peers);
            let header = heap.header();
            for position in [&header.data_tail, &header.data_head, &header.shared.producer_pos] {
                position.store(end, Ordering::Relaxed);
            }
            tally.join_in(&mut writer, &heap, &peers);
        }
    }
    println!("shared, under way: {tally:?} in {:?}", started.elapsed());
    assert!(tally.corrupt > 0 && tally.records > 0);
}

/// A request for more than any ring takes is refused, however large.
#[test]
fn a_group_of_any_size_is_refused_if_it_is_too_large() {
    let heap = HeapRing::new(SIZE, Policy::Drop).unwrap().many(MEMBERS);
    let peers = MadeUp::new(|_| true);
    let mut writer = join(&heap, 0, &peers).unwrap();
    for bytes in [SIZE, SIZE + 1, 65_528, 1 << 32, 1 << 63, u64::MAX - 8, u64::MAX - 7, u64::MAX] {
        let refused = writer.try_reserve_group(heap.shared(), &peers, bytes, 0).map(|_| ());
        assert!(matches!(refused, Err(perfring_ring::Refusal::TooLarge { .. })), "{bytes}");
    }
    for len in [SIZE as usize, 65_520, usize::MAX - 16, usize::MAX] {
        let refused =
            writer.try_reserve(heap.shared(), &peers, RecordType::BYTES, len, 0).map(|_| ());
        assert!(matches!(refused, Err(perfring_ring::Refusal::TooLarge { .. })), "{len}");
    }
}
