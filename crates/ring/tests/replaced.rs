//! Two exclusive producers of one ring, which the lock has not kept apart: the first one notices.
#![cfg(not(loom))]

use perfring_abi::{Evict, Policy, RecordType};
use perfring_ring::heap::HeapRing;
use perfring_ring::{End, Fences, Refusal, Wake, Writer};
use std::sync::atomic::Ordering;

const SIZE: u64 = 4096;
const LEN: usize = 56;
const KIND: RecordType = RecordType::new(4711).unwrap();

fn attach(heap: &HeapRing) -> Writer {
    Writer::attach(heap.ring(), heap.layout(), Fences::Full).unwrap()
}

fn publish(heap: &HeapRing, writer: &mut Writer, len: usize) -> Result<(), Refusal> {
    let reserved = writer.reserve(heap.ring(), KIND, len, 0)?;
    writer.fill(heap.ring(), &reserved, &vec![7; len]);
    let _ = writer.end(heap.ring(), reserved, len, End::Publish(Wake::Auto));
    // A consumer that keeps up.
    let header = heap.ring().header();
    if heap.layout().policy == Policy::Drop {
        header.data_tail.store(writer.pos(), Ordering::Release);
    }
    Ok(())
}

/// All that a producer writes of the page.
fn page(heap: &HeapRing) -> Vec<u64> {
    let header = heap.ring().header();
    let words = header.producer.copies.iter().flatten();
    let own = [&header.data_head, &header.data_tail];
    words.chain(own).map(|word| word.load(Ordering::Relaxed)).collect()
}

#[test]
fn a_producer_beside_which_another_attaches_stops_within_an_interval_and_the_other_goes_on() {
    for (policy, evict) in [
        (Policy::Drop, Evict::Exact),
        (Policy::Overwrite, Evict::Exact),
        (Policy::Overwrite, Evict::Half),
    ] {
        let heap = HeapRing::new(SIZE, policy).unwrap().evict(evict);
        let mut first = attach(&heap);
        for _ in 0..100 {
            publish(&heap, &mut first, LEN).unwrap();
        }
        let mut second = attach(&heap);
        // Totals are due after a quarter of the ring: with them it looks at its words.
        let mut taken = 0;
        let refusal = loop {
            match publish(&heap, &mut first, LEN) {
                Ok(()) => taken += 1,
                Err(refusal) => break refusal,
            }
            assert!(
                taken <= SIZE / 4 / 64 + 1,
                "{policy:?}, {evict:?}: {taken} records beside another"
            );
        };
        assert_eq!(refusal, Refusal::Replaced, "{policy:?}, {evict:?}");
        // From then on it changes nothing, whatever is asked of it.
        let before = page(&heap);
        assert!(!first.refuse(heap.ring(), refusal, LEN).is_due());
        assert!(!first.refuse(heap.ring(), Refusal::TooLarge { max: 8 }, 1 << 20).is_due());
        for len in [0, 8, LEN, 1000] {
            assert_eq!(
                publish(&heap, &mut first, len).unwrap_err(),
                Refusal::Replaced,
                "{len} bytes"
            );
        }
        assert!(!first.detach(heap.ring()).is_due());
        assert_eq!(page(&heap), before, "{policy:?}, {evict:?}");
        // The newer one has the ring for itself.
        for _ in 0..1000 {
            publish(&heap, &mut second, LEN).unwrap();
        }
        println!("{policy:?}, {evict:?}: noticed after {taken} records");
    }
}

#[test]
fn a_producer_whose_predecessor_died_while_it_wrote_its_totals_is_the_only_one() {
    let heap = HeapRing::new(SIZE, Policy::Drop).unwrap();
    let mut first = attach(&heap);
    publish(&heap, &mut first, LEN).unwrap();
    let mut torn = [0; 2];
    for nth in 0..4 {
        // The first store of the next totals, which go to the older copy, and no other.
        let copies = &heap.ring().header().producer.copies;
        let [one, other] = [0, 1].map(|copy| copies[copy][0].load(Ordering::Relaxed));
        let next = usize::from(other < one);
        copies[next][0].store(one.max(other) + 1, Ordering::Relaxed);
        torn[next] += 1;
        let mut second = attach(&heap);
        // Each time a number of totals with another parity.
        for _ in 0..1000 + 20 * nth {
            publish(&heap, &mut second, LEN).unwrap();
        }
        let _ = second.refuse(heap.ring(), Refusal::Full, LEN);
    }
    assert!(torn.iter().all(|times| *times > 0), "torn: {torn:?}");
}

#[test]
fn a_page_that_was_lost_is_not_taken_for_another_producer() {
    let heap = HeapRing::new(SIZE, Policy::Drop).unwrap();
    let mut writer = attach(&heap);
    for _ in 0..100 {
        publish(&heap, &mut writer, LEN).unwrap();
        // Zeros, as in private memory that takes the place of a truncated file.
        let words = heap.ring().header().producer.copies.iter().flatten();
        words.for_each(|word| word.store(0, Ordering::Relaxed));
    }
}
