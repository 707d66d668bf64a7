//! The metrics area under loom: a writer takes a block and dies at each of its stores; a dead one's block is taken over; a
//! histogram is measured and sampled.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p perfring-ring --test ring loom_metrics::
//! ```
#![cfg(loom)]

use crate::loom_model::model;
use loom::sync::Arc;
use loom::thread;
use perfring_abi::RecordType;
use perfring_abi::atomic::{AtomicU64, death};
use perfring_ring::{
    BlockOwner, Buckets, MetricKind, MetricValue, MetricsArea, MetricsWriter, NewBlock, add,
    measure,
};
use std::sync::atomic::{AtomicU64 as Plain, Ordering::Relaxed};

const FIRST: BlockOwner = BlockOwner { slot: 1, epoch: 1, pid: 11 };
const SECOND: BlockOwner = BlockOwner { slot: 2, epoch: 5, pid: 22 };

fn words(lines: usize) -> Arc<Vec<AtomicU64>> {
    Arc::new((0..8 * lines).map(|_| AtomicU64::new(0)).collect())
}

fn counter(owner: BlockOwner) -> NewBlock<'static> {
    let id = RecordType::new(5000).unwrap();
    NewBlock { id, kind: MetricKind::CounterU64, stripes: 1, owner, start: 9, payload: &[] }
}

/// Stores of a takeover: the count of those, no owner, the values, pid, time, refused ones, the owner.
const TAKE_OVER: u64 = 2 + 8 + 3 + 1;
/// Stores of a registration: the block's words, six of its first line, and the count.
const STORES: u64 = 16 + 6 + 1;

#[test]
fn a_reader_sees_a_block_whole_or_not_at_all_wherever_its_writer_dies() {
    let seen = std::sync::Arc::new([const { Plain::new(0) }; 2]);
    for stores in [0, 1, 15, 16, 17, 21, 22, STORES] {
        let seen = std::sync::Arc::clone(&seen);
        model("", 2, move |_| {
            let words = words(3);
            let writer = thread::spawn({
                let words = Arc::clone(&words);
                move || {
                    let take = || MetricsWriter::new(&words).take(counter(FIRST), |_| false);
                    assert_eq!(death::after(stores, take).is_some(), stores == STORES);
                }
            });
            let reader = thread::spawn({
                let (words, seen) = (Arc::clone(&words), std::sync::Arc::clone(&seen));
                move || {
                    let found: Vec<_> =
                        MetricsArea::new(&words).blocks().map(Result::unwrap).collect();
                    for block in &found {
                        assert_eq!(block.sample(), Some((FIRST, 9, MetricValue::U64(0))));
                    }
                    seen[found.len()].fetch_add(1, Relaxed);
                }
            });
            reader.join().unwrap();
            writer.join().unwrap();
            // The next one finds the room of what was not finished.
            let next = MetricsWriter::new(&words).take(counter(SECOND), |_| true);
            assert_eq!(next.unwrap().word, 8);
            let block = MetricsArea::new(&words).blocks().next().unwrap().unwrap();
            assert_eq!(block.owner(), Some(SECOND));
        });
    }
    assert!(seen.iter().all(|times| times.load(Relaxed) > 0));
}

#[test]
fn a_block_that_is_taken_over_has_one_owner_or_none() {
    let seen = std::sync::Arc::new([const { Plain::new(0) }; 3]);
    for stores in 0..=TAKE_OVER {
        let seen = std::sync::Arc::clone(&seen);
        model("", 2, move |_| {
            let words = words(3);
            let place = MetricsWriter::new(&words).take(counter(FIRST), |_| false).unwrap();
            let block = &words[place.word..place.word + place.words];
            add(block, 0, 7);
            let taker = thread::spawn({
                let words = Arc::clone(&words);
                move || {
                    let take = || {
                        MetricsWriter::new(&words)
                            .take(NewBlock { start: 10, ..counter(SECOND) }, |_| true)
                    };
                    assert_eq!(death::after(stores, take).is_some(), stores == TAKE_OVER);
                }
            });
            let reader = thread::spawn({
                let (words, seen) = (Arc::clone(&words), std::sync::Arc::clone(&seen));
                move || {
                    let block = MetricsArea::new(&words).blocks().next().unwrap().unwrap();
                    // What one has measured is never taken for the other's.
                    let found = match block.sample() {
                        Some((FIRST, 9, MetricValue::U64(7))) => 0,
                        Some((SECOND, 10, MetricValue::U64(0))) => 1,
                        None => 2,
                        other => panic!("{other:?}"),
                    };
                    seen[found].fetch_add(1, Relaxed);
                }
            });
            reader.join().unwrap();
            taker.join().unwrap();
        });
    }
    assert!(seen.iter().all(|times| times.load(Relaxed) > 0));
}

#[test]
fn a_measurement_that_is_counted_is_in_the_sum() {
    let seen = std::sync::Arc::new([const { Plain::new(0) }; 3]);
    let in_model = std::sync::Arc::clone(&seen);
    model("", 2, move |_| {
        let buckets = Buckets::new(0, 0, 2).unwrap();
        let words = words(4);
        let new = NewBlock { kind: MetricKind::Histogram(buckets), ..counter(FIRST) };
        let place = MetricsWriter::new(&words).take(new, |_| false).unwrap();
        let measuring = [2.0, 4.0].map(|value| {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                measure(&words[place.word..place.word + place.words], buckets, 0, value);
            })
        });
        let block = MetricsArea::new(&words).blocks().next().unwrap().unwrap();
        let sample = || match block.sample() {
            Some((_, _, MetricValue::Histogram { counts, sum, range, .. })) => (counts, sum, range),
            other => panic!("{other:?}"),
        };
        let (counts, sum, range) = sample();
        let counted = 2.0 * counts[0] as f64 + 4.0 * counts[1] as f64;
        assert!(sum >= counted, "{counts:?} {sum}");
        let (least, greatest) = range.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
        assert!(counts[0] == 0 || least <= 2.0, "{counts:?} {range:?}");
        assert!(counts[1] == 0 || greatest >= 4.0, "{counts:?} {range:?}");
        in_model[counts.iter().sum::<u64>() as usize].fetch_add(1, Relaxed);
        measuring.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sample(), (vec![1, 1], 6.0, Some((2.0, 4.0))));
    });
    assert!(seen.iter().all(|times| times.load(Relaxed) > 0));
}
