//! Payloads of the AUX area on a heap ring: deaths, and corrupt rings.
#![cfg(not(loom))]

use crate::common::{Reported, attach_at};
use perfring_abi::{Policy, RecordType, RecordWord};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    AuxRange, CopyReader, End, Fences, Front, Next, OwnerInfo, Place, Reader, Refusal, Reserved,
    RingCopy, SharedWriter, Start, Wake, Writer,
};
use perfring_testkit::rng::Rng;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DATA: u64 = 256;
const AUX: u64 = 1024;
const KIND: RecordType = RecordType::new(4711).unwrap();

fn heap(policy: Policy) -> HeapRing {
    HeapRing::new(DATA, policy).unwrap().with_aux(AUX)
}

fn writer(heap: &HeapRing) -> Writer {
    Writer::attach(heap.ring(), heap.layout(), Fences::Full).unwrap()
}

fn reader(heap: &HeapRing) -> Reader {
    let size = heap.layout().aux_size;
    Reader::attach(heap.ring(), Fences::Full).unwrap().with_aux(heap.ring(), size)
}

fn observer(heap: &HeapRing) -> CopyReader {
    let layout = heap.layout();
    CopyReader::new(heap.ring(), layout.policy, Start::Oldest).unwrap().with_aux(layout.aux_size)
}

fn put(heap: &HeapRing, reserved: &Reserved, byte: u8) {
    let payload = vec![byte; reserved.len()];
    match reserved.range() {
        Some(range) => heap.fill_range(range, &payload),
        None => panic!("not so small"),
    }
}

fn publish(heap: &HeapRing, writer: &mut Writer, len: usize, byte: u8) -> Result<(), Refusal> {
    let reserved = writer.reserve(heap.ring(), KIND, len, 0)?;
    put(heap, &reserved, byte);
    let _ = writer.end(heap.ring(), reserved, len, End::Publish(Wake::Auto));
    Ok(())
}

fn bytes_at(heap: &HeapRing, range: AuxRange) -> Vec<u8> {
    let words = (range.at / 8..).take(range.len.div_ceil(8));
    let load = |at: u64| heap.aux()[(at % (AUX / 8)) as usize].load(Ordering::Relaxed);
    let mut bytes: Vec<u8> = words.flat_map(|at| load(at).to_ne_bytes()).collect();
    bytes.truncate(range.len);
    bytes
}

/// Returns what the consumer finds next.
fn read(heap: &HeapRing, reader: &mut Reader) -> Option<(usize, u8)> {
    match reader.next(heap.ring()).unwrap().0 {
        Some(Next::Record(Place::Aux(frame, range))) => {
            assert_eq!((frame.kind, frame.len), (KIND.get(), range.len));
            let bytes = bytes_at(heap, range);
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            Some((range.len, bytes[0]))
        }
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_range_is_refused_until_the_one_before_is_released() {
    let heap = heap(Policy::Drop);
    let (mut writer, mut reader) = (writer(&heap), reader(&heap));
    assert!(matches!(
        writer.reserve(heap.ring(), KIND, 1025, 0),
        Err(Refusal::TooLarge { max: 1024 })
    ));
    for turn in 0..20 {
        publish(&heap, &mut writer, 600, turn).unwrap();
        assert_eq!(publish(&heap, &mut writer, 400, turn), Err(Refusal::Full));
        publish(&heap, &mut writer, 384, turn + 100).unwrap();
        assert_eq!(read(&heap, &mut reader), Some((600, turn)));
        assert_eq!(read(&heap, &mut reader), Some((384, turn + 100)));
        assert_eq!(publish(&heap, &mut writer, 700, 0), Err(Refusal::Full), "not released yet");
        let _ = reader.release(heap.ring());
    }
    assert_eq!(heap.header().aux.head.load(Ordering::Relaxed), 20 * 1024);
    assert_eq!(heap.header().aux.tail.load(Ordering::Relaxed), 20 * 1024);
}

/// A producer is killed after it has stored `data_head`, and before `aux_head`.
#[test]
fn a_range_is_not_given_out_twice_after_a_death() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let heap = heap(policy);
        let mut first = writer(&heap);
        publish(&heap, &mut first, 300, 1).unwrap();
        let head = heap.header().aux.head.load(Ordering::Relaxed);
        publish(&heap, &mut first, 400, 2).unwrap();
        heap.header().aux.head.store(head, Ordering::Relaxed);
        let _ = first; // without a word
        let mut second = writer(&heap);
        publish(&heap, &mut second, 250, 3).unwrap();
        let mut observer = observer(&heap);
        for (len, byte) in [(300, 1), (400, 2), (250, 3)] {
            let Some(Next::Record((frame, words))) =
                observer.next_in(heap.ring().into(), heap.aux()).unwrap()
            else {
                panic!("a record");
            };
            assert_eq!(frame.len, len);
            assert!(words.iter().flat_map(|word| word.to_ne_bytes()).take(len).all(|b| b == byte));
        }
    }
}

#[test]
fn what_the_dead_had_reserved_is_free_again() {
    let heap = heap(Policy::Drop).many(2);
    let (at, liveness) = (heap.shared(), Reported::default());
    let mut a = attach_at(&heap, &liveness, 0);
    let mut reader = reader(&heap);
    for turn in 0..20u8 {
        liveness.dead.borrow_mut().clear();
        let mut b = attach_at(&heap, &liveness, 1);
        let open = b.reserve(at, &liveness, KIND, 1000, 0).unwrap();
        assert!(matches!(a.reserve(at, &liveness, KIND, 300, 0), Err(Refusal::Full)));
        let _ = (b, open);
        liveness.dead.borrow_mut().insert(1);
        // Recovery ends it, as a waiting producer does.
        perfring_ring::recover(at, 1, &liveness).unwrap();
        assert_eq!(read(&heap, &mut reader), None);
        let _ = reader.release(heap.ring());
        let reserved = a.reserve(at, &liveness, KIND, 1024, 0).unwrap();
        put(&heap, &reserved, turn);
        let _ = a.commit(at, &liveness, reserved, 1000, Wake::Auto);
        assert_eq!(read(&heap, &mut reader), Some((1000, turn)));
        let _ = reader.release(heap.ring());
    }
}

/// Reads everything, for a consumer that releases by resume points.
fn take_held(heap: &HeapRing, reader: &mut Reader) {
    let ring = heap.ring();
    while reader.peek_held(ring).unwrap().0 != Front::Empty {
        let _ = reader.next(ring).unwrap();
    }
    let _ = reader.release_to(ring, &reader.resume_point());
    let _ = reader.peek_held(ring).unwrap();
}

#[test]
fn what_a_commit_left_goes_back_to_who_releases_by_marks_too() {
    let heap = heap(Policy::Drop).many(2);
    let (at, liveness) = (heap.shared(), Reported::default());
    let mut a = attach_at(&heap, &liveness, 0);
    let mut reader = reader(&heap);
    reader.hold();
    for turn in 0..20u8 {
        let reserved = a.reserve(at, &liveness, KIND, 1024, 0).unwrap();
        put(&heap, &reserved, turn);
        match turn % 3 {
            0 => drop(a.commit(at, &liveness, reserved, 300, Wake::Auto)),
            1 => drop(a.discard(at, &liveness, reserved)),
            _ => {
                // Something small is open behind it, and read later.
                let small = a.reserve(at, &liveness, KIND, 8, 0).unwrap();
                let _ = a.commit(at, &liveness, reserved, 300, Wake::Auto);
                take_held(&heap, &mut reader);
                a.fill(at, &small, &[1; 8]);
                let _ = a.commit(at, &liveness, small, 8, Wake::Auto);
            }
        }
        take_held(&heap, &mut reader);
    }
}

#[test]
fn what_is_open_or_unread_is_not_given_back_with_what_was_read() {
    let heap = heap(Policy::Drop).many(2);
    let (at, liveness) = (heap.shared(), Reported::default());
    let mut a = attach_at(&heap, &liveness, 0);
    let mut reader = reader(&heap);
    for _ in 0..20 {
        let small = a.reserve(at, &liveness, KIND, 8, 0).unwrap();
        let _ = a.commit(at, &liveness, small, 8, Wake::Auto);
        let open = a.reserve(at, &liveness, KIND, 500, 0).unwrap();
        for _ in 0..2 {
            while reader.next(heap.ring()).unwrap().0.is_some() {}
            let _ = reader.release(heap.ring());
            assert_eq!(a.reserve(at, &liveness, KIND, 1024, 0).err(), Some(Refusal::Full));
        }
        put(&heap, &open, 1);
        let _ = a.commit(at, &liveness, open, 500, Wake::Auto);
        assert_eq!(read(&heap, &mut reader), Some((500, 1)));
        let _ = reader.release(heap.ring());
    }
}

#[test]
fn what_was_given_back_is_free_although_others_publish_all_the_time() {
    let heap = heap(Policy::Drop).many(2);
    let (at, liveness) = (heap.shared(), Reported::default());
    let (mut a, mut b) = (attach_at(&heap, &liveness, 0), attach_at(&heap, &liveness, 1));
    let mut reader = reader(&heap);
    for _ in 0..20 {
        let mut turns = 0u64;
        let reserved = loop {
            match a.reserve(at, &liveness, KIND, 1024, 0) {
                Ok(reserved) => break reserved,
                Err(refusal) => assert_eq!(refusal, Refusal::Full),
            }
            // One small record after the other; the last is never released at once.
            let small = b.reserve(at, &liveness, KIND, 8, 0).unwrap();
            b.fill(at, &small, &[1; 8]);
            let _ = b.commit(at, &liveness, small, 8, Wake::Auto);
            while reader.next(heap.ring()).unwrap().0.is_some() {}
            turns += 1;
            assert!(turns * 16 <= DATA, "not free after a whole lap");
        };
        let _ = a.discard(at, &liveness, reserved);
    }
}

#[test]
fn an_aux_tail_that_nobody_left_is_damage_and_not_a_reason_to_skip_records() {
    for value in [7, 64 * 100, u64::MAX, u64::MAX - 63] {
        let heap = heap(Policy::Drop);
        let mut writer = writer(&heap);
        for _ in 0..3 {
            let reserved = writer.reserve(heap.ring(), KIND, 8, 0).unwrap();
            writer.fill(heap.ring(), &reserved, &[1; 8]);
            let _ = writer.end(heap.ring(), reserved, 8, End::Publish(Wake::Auto));
        }
        publish(&heap, &mut writer, 300, 9).unwrap();
        heap.header().aux.tail.store(value, Ordering::Relaxed);
        let mut reader = reader(&heap);
        assert_eq!(reader.passed().records, 0, "{value}");
        for _ in 0..3 {
            assert!(matches!(reader.next(heap.ring()), Ok((Some(Next::Record(_)), _))), "{value}");
        }
        assert!(reader.next(heap.ring()).is_err(), "{value}");
        assert_eq!(reader.passed().records, 3, "{value}");
    }
}

#[test]
fn no_producer_is_given_its_own_range_again() {
    let heap = heap(Policy::Drop).many(1);
    let (at, liveness) = (heap.shared(), Reported::default());
    let mut a = attach_at(&heap, &liveness, 0);
    let open = a.reserve(at, &liveness, KIND, 300, 0).unwrap();
    heap.header().aux.head.store(0, Ordering::Relaxed);
    let again = a.reserve(at, &liveness, KIND, 300, 0);
    assert!(matches!(again, Err(Refusal::Corrupt { .. })), "{again:?} beside {open:?}");
}

#[test]
fn in_the_smallest_ring_whoever_waits_for_a_range_waits_for_something() {
    // Not even the record of a range fits there.
    let heap = HeapRing::new(32, Policy::Drop).unwrap().with_aux(AUX);
    assert!(writer(&heap).tail_for(heap.ring(), 300) < 1 << 20);
    let heap = HeapRing::new(32, Policy::Drop).unwrap().with_aux(AUX).many(1);
    let (at, liveness) = (heap.shared(), Reported::default());
    assert!(attach_at(&heap, &liveness, 0).tail_for(at, 300) < 1 << 20);
}

#[test]
fn what_is_open_is_not_overwritten_unless_its_owner_is_dead() {
    let heap = heap(Policy::Overwrite).many(2);
    let (at, liveness) = (heap.shared(), Reported::default());
    let (mut a, mut b) = (attach_at(&heap, &liveness, 0), attach_at(&heap, &liveness, 1));
    let open = b.reserve(at, &liveness, KIND, 500, 0).unwrap();
    let reserved = a.reserve(at, &liveness, KIND, 500, 0).unwrap();
    put(&heap, &reserved, 7);
    let _ = a.commit(at, &liveness, reserved, 500, Wake::Auto);
    let pending = a.reserve(at, &liveness, KIND, 300, 0);
    assert!(matches!(pending, Err(Refusal::Pending { slot: 1 })));
    let mine = a.reserve(at, &liveness, KIND, 1024, 0);
    assert!(matches!(mine, Err(Refusal::Pending { slot: 1 })));
    let _ = open;
    liveness.dead.borrow_mut().insert(1);
    let reserved = a.reserve(at, &liveness, KIND, 300, 0).unwrap();
    put(&heap, &reserved, 8);
    let _ = a.commit(at, &liveness, reserved, 300, Wake::Auto);
    let mut observer = observer(&heap);
    for (len, byte) in [(500, 7), (300, 8)] {
        match observer.next_in(heap.ring().into(), heap.aux()).unwrap() {
            Some(Next::Record((frame, words))) => {
                assert_eq!((frame.len, words[0] as u8), (len, byte));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A writer at full speed, and an observer that checks every byte.
#[test]
fn an_observer_never_takes_what_is_written_over_it_for_a_payload() {
    let heap = heap(Policy::Overwrite);
    let done = AtomicBool::new(false);
    let turns = if cfg!(miri) { 60 } else { 200_000u64 };
    // It is attached before the first record.
    let mut observer = observer(&heap);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = writer(&heap);
            for turn in 0..turns {
                publish(&heap, &mut writer, 250 + (turn % 700) as usize, turn as u8).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let (mut whole, mut lost) = (0, 0);
        loop {
            let last = done.load(Ordering::Acquire);
            match observer.next_in(heap.ring().into(), heap.aux()).unwrap() {
                Some(Next::Record((frame, words))) => {
                    let mut bytes = words.iter().flat_map(|word| word.to_ne_bytes());
                    let turn = whole + lost;
                    assert_eq!(frame.len, 250 + (turn % 700) as usize);
                    assert!(bytes.by_ref().take(frame.len).all(|byte| byte == turn as u8));
                    whole += 1;
                }
                Some(Next::Lost(reported)) => lost += reported.records,
                None if last => break,
                None => std::thread::yield_now(),
            }
        }
        assert_eq!((whole + lost, observer.lapped().records), (turns, lost));
    });
}

/// Whatever the words of the ring hold, no side panics, loops, or returns a range out of bounds.
#[test]
fn no_lie_about_ranges_is_believed() {
    let mut rng = Rng::new(1);
    let mut random = || rng.any();
    let invalid = if cfg!(miri) { 60 } else { 60_000 };
    for turn in 0..invalid {
        let policy = if turn % 2 == 0 { Policy::Drop } else { Policy::Overwrite };
        let many = turn % 3 == 0;
        let heap = if many { heap(policy).many(2) } else { heap(policy) };
        let heap = if turn % 5 == 0 { heap.timed() } else { heap };
        let (at, liveness) = (heap.shared(), Reported::default());
        for len in [300, 250, 400] {
            if many {
                let mut writer = attach_at(&heap, &liveness, 0);
                if let Ok(reserved) = writer.reserve(at, &liveness, KIND, len, 5) {
                    let _ = writer.commit(at, &liveness, reserved, len, Wake::Auto);
                }
            } else {
                let _ = publish(&heap, &mut writer(&heap), len, 1);
            }
        }
        let header = heap.header();
        for _ in 0..=random() % 2 {
            let value = match random() % 6 {
                0 => random(),
                1 => random() % 2048,
                2 => (random() % 64) * 64,
                3 => RecordWord::aux().raw(),
                4 => 1 << 62,
                _ => u64::MAX - random() % 100,
            };
            let word: &AtomicU64 = match random() % 8 {
                0 => &header.aux.head,
                1 => &header.aux.tail,
                2 => &header.data_tail,
                3 => &header.data_head,
                _ => &heap.data()[(random() % 18) as usize],
            };
            word.store(value, Ordering::Relaxed);
        }
        meet(&heap);
    }
}

/// Runs every side on the corrupt ring.
fn meet(heap: &HeapRing) {
    let (ring, layout) = (heap.ring(), heap.layout());
    if let Ok(reader) = Reader::attach(ring, Fences::Full) {
        let mut reader = reader.with_aux(ring, AUX).with_lead(layout.lead());
        for _ in 0..100 {
            match reader.next(ring) {
                Ok((Some(Next::Record(Place::Aux(_, range))), _)) => {
                    assert!(range.len as u64 <= AUX)
                }
                Ok((Some(_), _)) => {}
                Ok((None, _)) | Err(_) => break,
            }
            let _ = reader.front(ring);
        }
        let _ = reader.release(ring);
    }
    if let Ok(observer) = CopyReader::new(ring, layout.policy, Start::Oldest) {
        let mut observer = observer.with_aux(AUX).with_lead(layout.lead());
        for _ in 0..100 {
            match observer.next_in(ring.into(), heap.aux()) {
                Ok(Some(Next::Record((frame, words)))) => assert!(frame.len <= words.len() * 8),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
    }
    if let Ok(snapshot) = RingCopy::of(heap.shared(), layout.policy, |_| true)
        && let Ok(snapshot) = snapshot.with_lead(layout.lead()).with_aux(ring, heap.aux())
    {
        let mut cursor = snapshot.start();
        while let Ok(Some((found, after))) = snapshot.step(cursor) {
            if let Next::Record((frame, words)) = found {
                assert!(frame.len <= words.len() * 8);
            }
            cursor = after;
        }
    }
    let (at, liveness) = (heap.shared(), Reported::default());
    if at.slots().is_empty() {
        if let Ok(mut writer) = Writer::attach(ring, layout, Fences::Full) {
            for len in [300, 600, 1024, 300] {
                let _ = writer.tail_for(ring, len);
                match publish(heap, &mut writer, len, 2) {
                    Ok(()) => {}
                    Err(refusal) => drop(writer.refuse(ring, refusal, len)),
                }
            }
        }
    } else if let Ok(mut writer) =
        SharedWriter::attach(at, layout, Fences::Full, 1, &OwnerInfo::default(), &liveness, |_| {
            false
        })
    {
        for len in [300, 600, 1024, 300] {
            let _ = writer.tail_for(at, len);
            match writer.reserve(at, &liveness, KIND, len, 9) {
                Ok(reserved) => {
                    put(heap, &reserved, 3);
                    let _ = writer.commit(at, &liveness, reserved, len, Wake::Auto);
                }
                Err(refusal) => drop(writer.refuse(at, refusal, len)),
            }
        }
    }
}
