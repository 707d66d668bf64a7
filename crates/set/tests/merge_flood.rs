//! A ring that a producer fills without end, with invalid timestamps: the others come out all the
//! same, and in their order.

use perfring_consumer::advanced::{Front, ReaderId, ResumePoint};
use perfring_consumer::{
    Anchors, Cause, Item, Lost, RecordRef, Types,
    stat::{Count, Fill},
};
use perfring_set::{About, Merge, Source, SourceError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const DELAY: u64 = 1_000_000;
const START: u64 = 1000 * DELAY;
/// Items in a ring of the flood.
const SIZE: u64 = 64;

/// The kinds of floods.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Of {
    Records,
    Losses,
    /// Of records that are copied, and overwritten before all of them are.
    Lapping,
}

/// The timestamp of an item at a position.
type Timestamp = fn(u64) -> u64;

/// Always full, and each item has the time that `timestamp` returns.
struct Flood {
    of: Of,
    timestamp: Timestamp,
    known: u64,
    pos: u64,
}

impl Flood {
    fn front(&self) -> Front {
        match self.of {
            _ if self.known == 0 && self.of == Of::Lapping => Front::More,
            _ if self.known == 0 => Front::Empty,
            Of::Losses => Front::Lost,
            Of::Records | Of::Lapping => Front::Timestamped((self.timestamp)(self.pos)),
        }
    }
}

impl Source for Flood {
    fn peek(&mut self) -> Result<Front, SourceError> {
        self.known = SIZE;
        Ok(self.front())
    }

    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
        let (pos, time) = (self.pos, Some((self.timestamp)(self.pos)));
        (self.known, self.pos) = (self.known - 1, pos + 1);
        let item = match self.of {
            Of::Losses => {
                Item::Lost(Lost { pos, records: 1, bytes: 1, cause: Cause::Full, at_end: false })
            }
            Of::Records | Of::Lapping => {
                Item::Record(RecordRef { pos, kind: 64, bytes: &[], time, writer: None })
            }
        };
        Ok(Some((item, self.front())))
    }

    fn resume_point(&self) -> ResumePoint {
        ResumePoint::new(ReaderId::default(), self.pos, Count::default())
    }

    fn fill(&self) -> Fill {
        Fill { unread: SIZE, held: 0, size: SIZE }
    }

    fn release(&mut self, _: &ResumePoint) {}

    fn about(&self) -> About {
        About { uuid: [0; 16], data_size: SIZE, policy: None, timed: true }
    }

    fn anchors(&self) -> Anchors {
        Anchors::default()
    }

    fn types(&self) -> Types {
        Types::default()
    }

    fn has_more_types(&self, _: &Types) -> bool {
        false
    }

    fn has_producer(&self) -> bool {
        true
    }
}

/// Of records whose timestamp is taken when they are published, one every 10 us.
struct Honest {
    clock: Arc<AtomicU64>,
    taken: u64,
    known: u64,
}

impl Honest {
    fn timestamp(n: u64) -> u64 {
        START + 10_000 * n
    }

    fn front(&self) -> Front {
        if self.taken < self.known {
            Front::Timestamped(Self::timestamp(self.taken))
        } else {
            Front::Empty
        }
    }
}

impl Source for Honest {
    fn peek(&mut self) -> Result<Front, SourceError> {
        self.known = (self.clock.load(Ordering::Relaxed) - START) / 10_000;
        Ok(self.front())
    }

    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
        let (pos, time) = (self.taken, Some(Self::timestamp(self.taken)));
        self.taken += 1;
        let item = Item::Record(RecordRef { pos, kind: 64, bytes: &[], time, writer: None });
        Ok(Some((item, self.front())))
    }

    fn resume_point(&self) -> ResumePoint {
        ResumePoint::new(ReaderId::default(), self.taken, Count::default())
    }

    fn fill(&self) -> Fill {
        Fill { unread: self.known - self.taken, held: 0, size: 1 << 20 }
    }

    fn release(&mut self, _: &ResumePoint) {}

    fn about(&self) -> About {
        About { uuid: [1; 16], data_size: 1 << 20, policy: None, timed: true }
    }

    fn anchors(&self) -> Anchors {
        Anchors::default()
    }

    fn types(&self) -> Types {
        Types::default()
    }

    fn has_more_types(&self, _: &Types) -> bool {
        false
    }

    fn has_producer(&self) -> bool {
        true
    }
}

#[test]
fn a_flood_of_invalid_timestamps_delays_no_other_ring() {
    let timestamps: [Timestamp; 3] = [|_| 1, |n| 1 + n, |_| u64::MAX - 1];
    let whats = ["of long ago", "that rise slowly from long ago", "of the far future"];
    for (what, timestamp) in whats.into_iter().zip(timestamps) {
        for of in [Of::Records, Of::Losses, Of::Lapping] {
            let clock = Arc::new(AtomicU64::new(START));
            let by = clock.clone();
            let mut merge =
                Merge::with_clock(Duration::from_nanos(DELAY), move || by.load(Ordering::Relaxed));
            let flood = merge.add(Box::new(Flood { of, timestamp, known: 0, pos: 0 }));
            let honest = Honest { clock: clock.clone(), taken: 0, known: 0 };
            let honest = merge.add(Box::new(honest));
            let (mut next, mut most, mut others) = (0, 0, 0u64);
            for _ in 0..200_000 {
                // What is done with an item takes a microsecond.
                let now = clock.fetch_add(1000, Ordering::Relaxed);
                let Some(merged) = merge.next().unwrap() else { continue };
                if merged.source == flood {
                    others += 1;
                    continue;
                }
                assert_eq!(
                    (merged.source, merged.time),
                    (honest, Honest::timestamp(next)),
                    "{what} {of:?}"
                );
                assert_eq!(merged.late, 0, "{what} {of:?}");
                most = most.max(now - merged.time);
                next += 1;
            }
            println!("{what}, {of:?}: {next} of one, {others} of the flood; {most} ns held back");
            // In 200 ms.
            assert!(next > 19_000, "{what}, {of:?}: {next}");
            assert!(most < 2 * DELAY, "{what}, {of:?}: {most} ns");
            assert!(others > 0, "{what}, {of:?}: a flood is read, too");
        }
    }
}
