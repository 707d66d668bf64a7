//! Valid rings on the heap, whose words are then changed, and every side that meets them.
#![cfg(not(loom))]

use perfring_abi::atomic::Ordering;
use perfring_abi::{Evict, Policy, RecordType, Report};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    CopyReader, Corrupt, Count, End, Fences, Next, OwnerInfo, Place, ReadError, Reader, Ring,
    RingCopy, RingTotals, Start, Wake, WakeAt, Writer, full_fence,
};
use perfring_testkit::nasty::{bits, records, values};
use perfring_testkit::words::{Word, others, positions};

/// Bytes of the data area of each of these rings.
pub(crate) const SIZE: u64 = 256;

/// The words of a ring at one moment.
#[derive(Clone)]
pub(crate) struct Shape {
    /// `None`: an exclusive ring.
    slots: u32,
    pub(crate) policy: Policy,
    evict: Evict,
    report: Report,
    /// The positions first, the data area last.
    pub(crate) words: Vec<u64>,
}

/// Everything that any process with the file can change.
fn words(heap: &HeapRing) -> Vec<Word<'_>> {
    let mut words: Vec<_> = positions(heap.header()).into_iter().map(Word::Long).collect();
    words.extend(others(heap.header(), heap.shared().slots()));
    words.extend(heap.data().iter().map(Word::Long));
    words
}

/// Overwrites some words of a ring.
pub(crate) fn corrupt(heap: &HeapRing, invalid: &[(usize, u64)]) {
    let words = words(heap);
    for &(at, value) in invalid {
        words[at].store(value);
    }
}

impl Shape {
    pub(crate) fn of(heap: &HeapRing) -> Self {
        Shape {
            slots: heap.shared().slots().len() as u32,
            policy: heap.layout().policy,
            evict: heap.layout().evict,
            report: heap.layout().report,
            words: words(heap).iter().map(Word::load).collect(),
        }
    }

    pub(crate) fn restore(&self, heap: &HeapRing) {
        for (to, from) in words(heap).into_iter().zip(&self.words) {
            to.store(*from);
        }
        for armed in [&heap.header().wait.armed, &heap.header().space.armed] {
            armed.store(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn heap(&self) -> HeapRing {
        let heap = HeapRing::new(SIZE, self.policy).unwrap().evict(self.evict).report(self.report);
        if self.slots == 0 { heap } else { heap.many(self.slots) }
    }
}

/// Outcomes, for the last line.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) invalid: u64,
    pub(crate) corrupt: u64,
    pub(crate) records: u64,
    pub(crate) losses: u64,
    steps: u64,
}

/// More steps than this on a ring of 32 words are a loop.
pub(crate) const STEPS: u64 = 20_000;

impl Tally {
    /// Counts what a call returned, and returns it; `None` ends the caller's loop.
    fn goes_on<T, E: Into<ReadError>>(
        &mut self,
        steps: &mut u64,
        result: Result<Option<T>, E>,
    ) -> Option<T> {
        self.steps += 1;
        *steps += 1;
        assert!(*steps < STEPS, "an endless stream");
        match result.map_err(Into::into) {
            Ok(found) => found,
            Err(error) => {
                assert!(matches!(error, ReadError::Corrupt { .. }), "{error}");
                self.corrupt += 1;
                None
            }
        }
    }

    pub(crate) fn read(&mut self, ring: Ring<'_>) {
        let Ok(reader) = Reader::attach(ring, Fences::Full) else {
            self.corrupt += 1;
            return;
        };
        let mut reader = reader.with_losses(ring.into(), 0);
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
        self.losses += u64::from(reader.lost(ring.into(), true).is_some());
        let _ = reader.release(ring);
        let Ok(mut reader) = Reader::attach(ring, Fences::Full) else { return };
        loop {
            if let Some(frame) = reader.next_known::<true>(ring) {
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

    pub(crate) fn found(&mut self, found: Next<Place>) {
        match found {
            Next::Record(Place::Ring(frame)) => {
                assert!(frame.size < SIZE && frame.len as u64 + 8 <= frame.size);
                self.records += 1;
            }
            Next::Record(Place::Aux(..)) => panic!("without an AUX area"),
            Next::Lost(_) => self.losses += 1,
        }
    }

    pub(crate) fn observe(&mut self, ring: Ring<'_>, observer: Result<CopyReader, Corrupt>) {
        let Ok(observer) = observer else {
            self.corrupt += 1;
            return;
        };
        let mut observer = observer.with_losses(ring.into(), 0);
        let mut steps = 0;
        loop {
            let before = observer.saved().pos;
            let Some(seen) = self.goes_on(&mut steps, observer.next(ring)) else { break };
            match seen {
                Next::Record((frame, words)) => {
                    assert!(frame.size <= SIZE && words.len() as u64 == frame.size / 8 - 1);
                    self.records += 1;
                }
                Next::Lost(_) => self.losses += 1,
            }
            let at_end = matches!(seen, Next::Lost(lost) if lost.at_end);
            assert!(observer.saved().pos > before || at_end, "no progress");
        }
        let _ = (observer.next(ring).is_ok(), observer.lapped());
    }

    pub(crate) fn write(&mut self, heap: &HeapRing) {
        let ring = heap.ring();
        let Ok(mut writer) = Writer::attach(ring, heap.layout(), Fences::Full) else {
            self.corrupt += 1;
            return;
        };
        self.write_on(&mut writer, ring);
        let _ = writer.detach(ring);
    }

    pub(crate) fn write_on(&mut self, writer: &mut Writer, ring: Ring<'_>) {
        for round in 0..12_usize {
            let len = [0, 17, 64, 240, 300][round % 5];
            match writer.reserve(ring, RecordType::BYTES, len, 0) {
                Ok(reserved) if round % 4 == 1 => writer.discard(ring, reserved),
                Ok(reserved) => {
                    writer.fill(ring, &reserved, &vec![7; len]);
                    let len = reserved.len();
                    let _ = writer.end(ring, reserved, len, End::Hold);
                }
                Err(refusal) => {
                    let _ = writer.tail_for(ring, len);
                    let _ = writer.refuse(ring, refusal, len);
                }
            }
            let _ = writer.publish(ring, Wake::Auto);
            assert!(writer.pos() == ring.head());
        }
        let _ = (writer.totals(), writer.overwritten(ring));
    }

    pub(crate) fn snapshot(&mut self, ring: Ring<'_>, policy: Policy) {
        let _ = RingTotals::read(ring, policy).map(|totals| totals.unreported());
        self.taken(RingCopy::take(ring, policy));
    }

    pub(crate) fn taken(&mut self, snapshot: Result<RingCopy, ReadError>) {
        match snapshot {
            Ok(snapshot) => {
                let (mut cursor, mut steps) = (snapshot.start(), 0);
                while let Some((found, after)) = self.goes_on(&mut steps, snapshot.step(cursor)) {
                    assert!(after > cursor);
                    cursor = after;
                    if let Next::Record((frame, words)) = found {
                        assert!(words.len() < SIZE as usize / 8);
                        assert!(frame.len <= words.len() * 8);
                    }
                }
                for odd in [0, 4, u64::MAX, snapshot.end(), snapshot.end().wrapping_sub(4)] {
                    let _ = snapshot.step(odd);
                }
            }
            Err(error) => {
                assert!(matches!(error, ReadError::Corrupt { .. }), "{error}");
                self.corrupt += 1;
            }
        }
    }

    /// Attaches every side to the corrupt ring.
    pub(crate) fn meet(&mut self, heap: &HeapRing) {
        self.invalid += 1;
        let ring = heap.ring();
        let policy = heap.layout().policy;
        let _ = OwnerInfo::read(&heap.header().consumer_holder);
        self.snapshot(ring, policy);
        for policy in
            [policy, if policy == Policy::Drop { Policy::Overwrite } else { Policy::Drop }]
        {
            for start in [Start::Oldest, Start::Latest, Start::At(Default::default())] {
                self.observe(ring, CopyReader::new(ring, policy, start));
            }
        }
        self.observe(ring, CopyReader::resume(ring));
        if let Ok(mut keeper) = CopyReader::resume(ring) {
            let _ = keeper.next(ring).is_ok();
            keeper.save(ring);
        }
    }
}

/// The values that a word may be replaced by.
pub(crate) fn nasty(old: u64) -> impl Iterator<Item = u64> {
    values(old, 64, SIZE).into_iter().chain(records(SIZE)).chain(bits(old, 64))
}
