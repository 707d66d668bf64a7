//! Readers and writers of an exclusive ring whose words change under them: consumer, observer,
//! snapshot, totals, producer.

use crate::heap::{self, corrupt, found, reading, seen};
use perfring_abi::{Policy, RecordType};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    Anchors, CopyReader, End, Fences, Front, Next, Reader, ResumePoint, RingCopy, RingTotals,
    Saved, Start, Wake, WakeAt, Writer, full_fence, newest_timestamp,
};
use perfring_testkit::choices::{Choices, Input};

/// The readers and writers that are attached.
#[derive(Default)]
struct Sides {
    writer: Option<Writer>,
    reader: Option<Reader>,
    observer: Option<CopyReader>,
    resume_points: Vec<ResumePoint>,
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let heap = heap::ring(&mut input, false);
    let mut sides = Sides::default();
    // Starts with valid records.
    sides.attach_writer(&heap);
    for _ in 0..input.u8() % 64 {
        sides.write(&heap, &mut input);
    }
    while !input.is_empty() {
        sides.step(&heap, &mut input);
    }
    sides.end(&heap);
}

impl Sides {
    fn step(&mut self, heap: &HeapRing, input: &mut Input<'_>) {
        match input.u8() % 16 {
            0..5 => corrupt(heap, input),
            5 => self.attach_writer(heap),
            6 | 7 => self.write(heap, input),
            8 => {
                let layout = heap.layout();
                self.reader = Reader::attach(heap.ring(), Fences::Full).ok().map(|reader| {
                    let reader = reader.with_lead(layout.lead()).with_hands(input.u8() % 2 == 1);
                    let reader = match layout.aux_size {
                        0 => reader,
                        size => reader.with_aux(heap.ring(), size),
                    };
                    let reader = reader.with_losses(heap.shared(), layout.loss_slots());
                    check_reader(&reader, heap);
                    reader
                });
                self.resume_points.clear();
            }
            9 | 10 => self.read(heap, input),
            11 => {
                let saved =
                    Saved { pos: input.number(0, heap.layout().data_size), ..Saved::default() };
                let start = input.one(&[Start::Oldest, Start::Latest, Start::At(saved)]);
                let observer = match input.u8() % 3 {
                    0 => CopyReader::resume(heap.ring()),
                    _ => CopyReader::new(heap.ring(), heap.layout().policy, start),
                };
                let layout = heap.layout();
                self.observer = observer.ok().map(|o| {
                    let o = o.with_lead(layout.lead()).with_aux(layout.aux_size);
                    o.with_losses(heap.shared(), layout.loss_slots())
                });
            }
            12 | 13 => self.observe(heap, input),
            14 => snapshot(heap, input),
            _ => sleep(heap, input),
        }
    }

    fn attach_writer(&mut self, heap: &HeapRing) {
        self.writer = Writer::attach(heap.ring(), heap.layout(), Fences::Full).ok();
    }

    fn write(&mut self, heap: &HeapRing, input: &mut Input<'_>) {
        let ring = heap.ring();
        let Some(writer) = &mut self.writer else { return };
        let what = input.u8();
        let len = usize::from(input.u8()) >> (what >> 4 & 3);
        match what % 8 {
            0..3 => match writer.reserve(ring, RecordType::BYTES, len, input.u16().into()) {
                Ok(reserved) => {
                    heap::fill(heap, &reserved, |bytes| writer.fill(ring, &reserved, bytes));
                    let _ =
                        writer.end(ring, reserved, len / (usize::from(what >> 6) + 1), End::Hold);
                }
                Err(refusal) => {
                    let _ = writer.tail_for(ring, len);
                    let _ = writer.refuse(ring, refusal, len);
                }
            },
            3 => {
                if let Ok(reserved) = writer.reserve(ring, RecordType::BYTES, len, 0) {
                    writer.discard(ring, reserved);
                }
            }
            4 => {
                writer.begin_batch(ring);
                for _ in 0..4 {
                    if let Ok(reserved) =
                        writer.reserve_as::<false>(ring, RecordType::BYTES, len, Some(0))
                    {
                        heap::fill(heap, &reserved, |bytes| writer.fill(ring, &reserved, bytes));
                        let _ = writer.end(ring, reserved, len, End::Hold);
                    }
                }
                let _ = writer.publish(ring, Wake::Auto);
            }
            5 => {
                let _ = writer.detach(ring);
                self.writer = None;
                return;
            }
            6 => {
                let reading = reading(input);
                if heap.layout().time {
                    writer.begin_time(ring, &reading);
                    writer.keep_time(ring, &reading);
                }
            }
            _ => writer.begin_batch(ring),
        }
        if what & 128 == 0 {
            let _ = writer.publish(ring, Wake::Auto);
            assert_eq!(writer.pos(), ring.head());
        }
        let _ = (writer.totals(), writer.overwritten(ring));
    }

    fn read(&mut self, heap: &HeapRing, input: &mut Input<'_>) {
        let (ring, size) = (heap.ring(), heap.layout().data_size);
        let Some(reader) = &mut self.reader else { return };
        let what = input.u8();
        match what % 12 {
            0 | 1 => {
                if let Ok((Some(next), _)) = reader.next(ring) {
                    found(&next, heap);
                }
            }
            2 => {
                let next = match reader.is_plain() {
                    true => reader.next_known::<true>(ring),
                    false => reader.next_known::<false>(ring),
                };
                if let Some(frame) = next {
                    heap::fits(&frame, size);
                }
            }
            3 => {
                let before = reader.cursor();
                if let Some((frame, count)) = reader.next_run(ring, 1 + u64::from(what >> 4)) {
                    heap::fits(&frame, size);
                    // They are contiguous, and no longer than the ring: a mapping shows them so.
                    assert_eq!(reader.cursor(), frame.pos + count * frame.size);
                    assert!(reader.cursor() - before < size);
                }
            }
            4 => {
                let visit = |frame: &perfring_ring::Frame| heap::fits(frame, size);
                let _ = if reader.is_plain() {
                    reader.visit_known::<true>(ring, visit)
                } else {
                    reader.visit_known::<false>(ring, visit)
                };
            }
            5 => {
                let _ = (reader.poll_ahead(ring), reader.known());
            }
            6 => {
                let _ = reader.release(ring);
            }
            7 => reader.hold(),
            8 => {
                if let Ok((Front::Timestamped(_), _)) = reader.peek_held(ring) {
                    assert!(heap.layout().time);
                }
                self.resume_points.push(reader.resume_point());
            }
            9 => {
                if let Some(resume_point) =
                    self.resume_points.get(input.of(self.resume_points.len()))
                {
                    let _ = reader.release_to(ring, resume_point);
                }
            }
            10 => {
                let to = input.number(reader.cursor(), size);
                let _ = reader.pass_to(ring, to);
            }
            _ => {
                let cursor = input.number(reader.cursor(), size);
                if let Ok(Some((next, after))) = reader.peek(ring, cursor) {
                    // Where no record begins, anything may be found.
                    if cursor.is_multiple_of(8) {
                        found(&next, heap);
                    }
                    assert!(after > cursor);
                    if what & 16 == 0 {
                        reader.pass(after, perfring_ring::Count::default());
                    }
                }
            }
        }
        check_reader(reader, heap);
    }

    fn observe(&mut self, heap: &HeapRing, input: &mut Input<'_>) {
        let ring = heap.ring();
        let Some(observer) = &mut self.observer else { return };
        match input.u8() % 6 {
            0 | 1 => {
                let before = observer.saved().pos;
                if let Ok(Some(next)) = observer.next_in(ring.into(), heap.aux()) {
                    seen(&next, heap);
                    let at_end = matches!(next, Next::Lost(lost) if lost.at_end);
                    assert!(observer.saved().pos > before || at_end, "no progress");
                }
            }
            2 => {
                let _ = (observer.peek(ring.into()), observer.resume_point(), observer.must_poll());
            }
            3 => {
                if let Ok(Some((next, _))) = observer.take(ring.into(), heap.aux()) {
                    seen(&next, heap);
                }
            }
            4 => observer.save(ring),
            _ => {
                let resume_point = observer.resume_point();
                observer.save_resume_point(ring, &resume_point);
                let _ = (resume_point.saved(), observer.lapped());
            }
        }
    }

    /// Reads the rest with each reader. The rest must be finite.
    fn end(&mut self, heap: &HeapRing) {
        let (ring, size) = (heap.ring(), heap.layout().data_size);
        // Each record takes at least a word of the ring, and may be there before and after a poll.
        let most = 4 * size + 64;
        for at in 0.. {
            assert!(at < most, "an endless stream");
            let Some(reader) = &mut self.reader else { break };
            let Ok((Some(next), _)) = reader.next(ring) else { break };
            found(&next, heap);
        }
        for at in 0.. {
            assert!(at < most, "an endless stream");
            let Some(observer) = &mut self.observer else { break };
            let Ok(Some(next)) = observer.next_in(ring.into(), heap.aux()) else { break };
            seen(&next, heap);
        }
        if let Some(mut writer) = self.writer.take() {
            let _ = writer.detach(ring);
        }
    }
}

fn check_reader(reader: &Reader, heap: &HeapRing) {
    assert!(reader.cursor().is_multiple_of(8));
    assert!(reader.known() < heap.layout().data_size);
    let _ = reader.passed();
}

fn snapshot(heap: &HeapRing, input: &mut Input<'_>) {
    let (ring, layout) = (heap.ring(), heap.layout());
    let policy = if input.u8().is_multiple_of(4) { Policy::Overwrite } else { layout.policy };
    let _ = RingTotals::read(ring, policy).map(|totals| totals.unreported());
    let _ = newest_timestamp(ring);
    let anchors = Anchors::read(ring);
    assert!(anchors.all().len() <= 16);
    let _ = anchors.wall(input.number(0, layout.data_size), input.u64());
    if let Ok(snapshot) = RingCopy::take(ring, policy) {
        all_of(snapshot.with_lead(layout.lead()), heap);
    }
}

pub(crate) fn all_of(snapshot: RingCopy, heap: &HeapRing) {
    assert!(snapshot.end() - snapshot.start() < heap.layout().data_size);
    let snapshot = match heap.aux() {
        [] => snapshot,
        aux => match snapshot.with_aux(heap.ring(), aux) {
            Ok(snapshot) => snapshot,
            Err(_) => return,
        },
    };
    let mut cursor = snapshot.start();
    while let Ok(Some((next, after))) = snapshot.step(cursor) {
        if let Next::Record((frame, words)) = &next {
            heap::copied(frame, words, heap);
        }
        assert!(after > cursor && after <= snapshot.end());
        cursor = after;
    }
    for odd in [0, 4, u64::MAX, snapshot.end(), snapshot.end().wrapping_sub(4)] {
        let _ = snapshot.step(odd);
    }
}

fn sleep(heap: &HeapRing, input: &mut Input<'_>) {
    let ring = heap.ring();
    let (cursor, passed) = (input.number(ring.head(), heap.layout().data_size), input.u64());
    let at = match input.u8() % 3 {
        0 => WakeAt::Record,
        1 => WakeAt::Records(input.u64()),
        _ => WakeAt::Bytes(input.u64()),
    };
    let _ = ring.prepare_sleep(cursor, passed, at, full_fence);
    let _ = ring.prepare_space_sleep(input.number(0, heap.layout().data_size), full_fence);
    ring.end_sleep();
    let _ = ring.force_wake();
}
