//! A timestamped ring for each producer, and one reader that gets all of their records in the order
//! of time: an order that a shared ring has and separate rings have not.

use super::ring::{about, error};
use super::rings::{FromSet, Set, consumers, make, ring, rings_can, waits};
use crate::CompareError;
use crate::contestant::{About, Can, Contestant, Setup, failed};
use crate::workload::Workload;
use perfring_consumer::Item;
use perfring_consumer::advanced::ResumePoint;
use perfring_producer::Producer;
use perfring_set::{Merge, Merged, SourceId};
use std::path::Path;
use std::time::Duration;

/// How long a record may be held back for one with an earlier timestamp.
const DELAY: Duration = Duration::from_millis(1);
/// Empty polls after which the reader checks whether something is left.
const POLLS: u32 = 64;

/// Read in the order of time, by `perfring_set::Merge`.
pub struct InOrder;

impl Contestant for InOrder {
    type Sender = Producer;
    type Receiver = FromSet<Ordered>;
    type Held = ();

    fn can() -> Can {
        rings_can()
    }

    fn about(setup: &Setup) -> About {
        let (rings, delay) = (setup.senders, DELAY.as_millis());
        let how = format!(
            "{rings} rings of one producer each, each record stamped, merged in the order of time, \
             held back for at most {delay} ms"
        );
        About { waits: waits(setup), ..about("perfring rings merged", setup, &how) }
    }

    fn remark(workload: Workload) -> Option<&'static str> {
        const REMARK: &str = "a record is held back until no ring can have an older one, for half of the \
                              delay where the other rings are empty";
        matches!(workload, Workload::Latency | Workload::Cold).then_some(REMARK)
    }

    fn own_channels() -> bool {
        true
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        make(path, setup, true)
    }

    fn sender(path: &Path, _setup: &Setup, index: usize) -> Result<Producer, CompareError> {
        Producer::attach(ring(path, index)).map_err(error)
    }

    fn receiver(
        path: &Path,
        setup: &Setup,
        _index: usize,
    ) -> Result<FromSet<Ordered>, CompareError> {
        let mut merge = Merge::new(DELAY).map_err(error)?;
        let consumers = consumers(path, setup)?.into_iter();
        let sources = consumers.map(|consumer| merge.add(Box::new(consumer))).collect();
        Ok(FromSet::new(Ordered { merge, sources, time: 0, empty: 0 }, setup))
    }
}

/// The rings, merged, and whether they are.
pub struct Ordered {
    merge: Merge,
    sources: Vec<SourceId>,
    /// The time of the newest record so far.
    time: u64,
    /// Empty polls in a row.
    empty: u32,
}

impl Set for Ordered {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<Merged<'_>>, CompareError> {
        let Some(merged) = self.merge.next().map_err(|(_, failure)| error(failure))? else {
            return Ok(None);
        };
        self.empty = 0;
        if matches!(merged.item, Item::Record(_)) {
            if merged.time >= self.time {
                self.time = merged.time;
            } else if merged.late == 0 {
                return Err(disorder());
            }
        }
        Ok(Some(merged))
    }

    fn resume_point(&self, source: SourceId) -> Option<ResumePoint> {
        self.merge.resume_point(source)
    }

    fn release(&mut self, source: SourceId, point: &ResumePoint) {
        self.merge.release(source, point);
    }

    /// The check polls all rings, so it is not made each time.
    fn holds_back(&mut self) -> bool {
        self.empty += 1;
        if self.empty < POLLS {
            return true;
        }
        self.empty = 0;
        let merge = &mut self.merge;
        !self.sources.iter().all(|source| merge.is_drained(*source))
    }

    fn late(&self) -> Option<u64> {
        Some(self.merge.figures().late)
    }
}

#[cold]
fn disorder() -> CompareError {
    failed("perfring")(std::io::Error::other(
        "a record before its time that was not reported as late",
    ))
}
