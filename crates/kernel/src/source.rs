//! The kernel's rings as sources of a merge.

use crate::bpf_ring::BpfRing;
use crate::clock::anchors_now;
use crate::records::SCHEMAS;
use crate::ring::KernelRing;
use crate::snapshot::KernelSnapshot;
use perfring_consumer::advanced::{Front, ResumePoint};
use perfring_consumer::{Anchors, Item, Types, stat::Fill};
use perfring_ring::BpfFault;
use perfring_set::{About, Source, SourceError};

/// The methods that all three have.
macro_rules! common {
    ($source:ident, $types:expr) => {
        fn resume_point(&self) -> ResumePoint {
            $source::resume_point(self)
        }

        fn about(&self) -> About {
            About { uuid: self.uuid(), data_size: self.data_size(), policy: None, timed: true }
        }

        fn anchors(&self) -> Anchors {
            anchors_now().unwrap_or_default()
        }

        fn types(&self) -> Types {
            $types
        }

        fn has_more_types(&self, _: &Types) -> bool {
            false
        }
    };
}

/// Losses are [`Item::Lost`]; the types are those in [`types`](crate::types).
///
/// ```
/// use perfring_kernel::{Options, Target, open};
/// use perfring_set::Merge;
/// use std::time::Duration;
/// let mut merge = Merge::new(Duration::from_millis(20))?;
/// // merge.add(Box::new(Consumer::attach("/dev/shm/ticks")?));
/// match open(&Options::of(Target::Process(std::process::id()))) {
///     Ok(rings) => rings.into_iter().for_each(|ring| drop(merge.add(Box::new(ring)))),
///     Err(error) => eprintln!("without the kernel's records: {error}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Source for KernelRing {
    common!(KernelRing, Types::of_schemas(&SCHEMAS));

    fn peek(&mut self) -> Result<Front, SourceError> {
        Ok(KernelRing::peek(self)?)
    }

    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
        Ok(KernelRing::take(self)?)
    }

    fn release(&mut self, resume_point: &ResumePoint) {
        self.release_to(resume_point);
    }

    fn fill(&self) -> Fill {
        KernelRing::fill(self)
    }

    fn has_producer(&self) -> bool {
        // Until its last loss is reported: the ring's end is checked at intervals only.
        !self.is_reported()
    }
}

/// A snapshot ends with the newest record; the types are those in [`types`](crate::types).
impl Source for KernelSnapshot {
    common!(KernelSnapshot, Types::of_schemas(&SCHEMAS));

    /// The loss at the beginning has the time of the oldest record: a merge returns the loss where the snapshot begins.
    fn peek(&mut self) -> Result<Front, SourceError> {
        let front = KernelSnapshot::peek(self)?;
        Ok(self.begins_at().map_or(front, Front::Timestamped))
    }

    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
        Ok(KernelSnapshot::take(self)?)
    }

    fn release(&mut self, _: &ResumePoint) {}

    /// A snapshot does not fill up: nothing is returned early because of it.
    fn fill(&self) -> Fill {
        Fill { size: self.data_size(), ..Fill::default() }
    }

    fn has_producer(&self) -> bool {
        false
    }
}

/// Losses are [`Item::Lost`], of records whose number is not known; there are no types: records are bytes.
impl Source for BpfRing {
    common!(BpfRing, Types::default());

    fn peek(&mut self) -> Result<Front, SourceError> {
        BpfRing::peek(self).map_err(fault)
    }

    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
        BpfRing::take(self).map_err(fault)
    }

    fn release(&mut self, resume_point: &ResumePoint) {
        self.release_to(resume_point);
    }

    fn fill(&self) -> Fill {
        BpfRing::fill(self)
    }

    fn has_producer(&self) -> bool {
        !self.is_over()
    }
}

fn fault(fault: BpfFault) -> SourceError {
    SourceError::Other(fault.to_string().into())
}
