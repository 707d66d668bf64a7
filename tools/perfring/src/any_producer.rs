//! The producer of a command that publishes, for both kinds of ring.

use crate::failure::{Failure, note};
use crate::stop::{POLL, Stop};
use perfring_abi::Lead;
use perfring_abi::record_size;
use perfring_consumer::{AttachError, Location, ReadError};
use perfring_producer::{
    CpuProducer, Producer, RecordType, ReserveError, SharedProducer,
    stat::{Count, Refused},
};
use perfring_types::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The producer of an exclusive or of a shared ring, or of a directory with a ring per CPU.
pub(crate) enum AnyProducer {
    One(Box<Producer>),
    Many(Box<SharedProducer>),
    Cpu(Box<OfCpus>),
}

/// A producer of rings per CPU, and what it has done: the rings count for all processes together.
pub(crate) struct OfCpus {
    producer: CpuProducer,
    written: Count,
    refused: Refused,
}

impl OfCpus {
    fn count(&mut self, len: usize, result: Result<(), ReserveError>) -> Result<(), ReserveError> {
        let options = self.producer.options();
        let bytes = record_size(len + Lead::of(options.time, options.sample_id).len());
        let refused = &mut self.refused;
        let counted = match result {
            Ok(()) => &mut self.written,
            Err(ReserveError::TooLarge { .. }) => &mut refused.too_large,
            Err(ReserveError::Contended { .. }) => &mut refused.contended,
            Err(ReserveError::Pending { .. }) => &mut refused.pending,
            Err(ReserveError::Full) => &mut refused.full,
            // The producer counts what had no ring; the others end the command.
            Err(_) => return result,
        };
        *counted = counted.plus(Count { records: 1, bytes });
        result
    }
}

impl AnyProducer {
    /// Attaches to a ring, or to the rings per CPU of a directory.
    pub(crate) fn attach_any(location: &Location, name: &str) -> Result<Self, Failure> {
        let Location::File(dir) = location else { return Ok(Self::attach(location, name)?) };
        if !dir.is_dir() {
            return Ok(Self::attach(location, name)?);
        }
        let producer = CpuProducer::attach_as(dir, name)?;
        let (written, refused) = Default::default();
        Ok(AnyProducer::Cpu(Box::new(OfCpus { producer, written, refused })))
    }

    pub(crate) fn attach(location: &Location, name: &str) -> Result<Self, AttachError> {
        match Producer::attach_as(location, name) {
            Err(AttachError::Kind { .. }) => SharedProducer::attach_as(location, name)
                .map(|many| AnyProducer::Many(Box::new(many))),
            one => one.map(|one| AnyProducer::One(Box::new(one))),
        }
    }

    /// Returns why what is published does not reach the ring's file, or reaches a file that no reader can open.
    pub(crate) fn cut_off(&self) -> Option<ReadError> {
        let (cut_off, is_removed) = match self {
            AnyProducer::One(producer) => (producer.cut_off(), producer.is_removed()),
            AnyProducer::Many(producer) => (producer.cut_off(), producer.is_removed()),
            AnyProducer::Cpu(of) => (of.producer.cut_off(), of.producer.is_removed()),
        };
        cut_off.or(is_removed.then_some(ReadError::Removed))
    }

    pub(crate) fn max_len(&self) -> usize {
        match self {
            AnyProducer::One(producer) => producer.max_len(),
            AnyProducer::Many(producer) => producer.max_len(),
            AnyProducer::Cpu(of) => of.producer.max_len(),
        }
    }

    pub(crate) fn register(&mut self, entry: &Entry<'_>) -> Result<(), ReserveError> {
        match self {
            AnyProducer::One(producer) => producer.register_entry(entry),
            AnyProducer::Many(producer) => producer.register_entry(entry),
            AnyProducer::Cpu(of) => of.producer.register_entry(entry),
        }
    }

    pub(crate) fn has_time(&self) -> bool {
        match self {
            AnyProducer::One(producer) => producer.layout().time,
            AnyProducer::Many(producer) => producer.layout().time,
            AnyProducer::Cpu(of) => of.producer.options().time,
        }
    }

    /// Returns what was written and refused since the ring was created, by earlier producers as
    /// well.
    pub(crate) fn counts(&self) -> Counts {
        let totals = match self {
            AnyProducer::One(producer) => producer.totals(),
            AnyProducer::Many(producer) => producer.totals(),
            AnyProducer::Cpu(of) => {
                let without_ring = of.producer.lost_without_ring();
                return Counts { written: of.written, refused: of.refused, without_ring };
            }
        };
        Counts { written: totals.written, refused: totals.refused, without_ring: 0 }
    }

    pub(crate) fn publish(&mut self, kind: RecordType, line: Line<'_>) -> Result<(), ReserveError> {
        match (self, line) {
            (AnyProducer::One(producer), Line::Whole(bytes)) => producer.publish_as(kind, bytes),
            (AnyProducer::Many(producer), Line::Whole(bytes)) => producer.publish_as(kind, bytes),
            (AnyProducer::One(producer), Line::TooLong(len)) => {
                producer.reserve(kind, len).map(drop)
            }
            (AnyProducer::Many(producer), Line::TooLong(len)) => {
                producer.reserve(kind, len).map(drop)
            }
            (AnyProducer::Cpu(of), Line::Whole(bytes)) => {
                let result = of.producer.publish_as(kind, bytes);
                of.count(bytes.len(), result)
            }
            (AnyProducer::Cpu(of), Line::TooLong(len)) => {
                let result = of.producer.reserve(kind, len).map(drop);
                of.count(len, result)
            }
        }
    }

    pub(crate) fn publish_timeout(
        &mut self,
        kind: RecordType,
        line: Line<'_>,
        wait: Duration,
    ) -> Result<(), ReserveError> {
        match (self, line) {
            (AnyProducer::One(producer), Line::Whole(bytes)) => {
                producer.publish_timeout(kind, bytes, wait)
            }
            (AnyProducer::Many(producer), Line::Whole(bytes)) => {
                producer.publish_timeout(kind, bytes, wait)
            }
            (AnyProducer::Cpu(of), Line::Whole(bytes)) => {
                let result = of.producer.publish_timeout(kind, bytes, wait);
                of.count(bytes.len(), result)
            }
            (producer, too_long) => producer.publish(kind, too_long),
        }
    }
}

/// A line that is offered to the ring.
#[derive(Clone, Copy)]
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    /// A line that exceeds the ring's limit: its length, to be refused and counted.
    TooLong(usize),
}

/// Ends the process if it is asked to stop while the producer waits for space, as nothing
/// interrupts that wait. The ring tolerates a producer that ends at any instruction.
pub(crate) struct Watch {
    published: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
}

impl Watch {
    /// Longer than an orderly end takes.
    const GRACE: Duration = Duration::from_millis(300);

    pub(crate) fn start(stop: &Stop) -> Self {
        let watch = Watch { published: Arc::default(), lost: Arc::default() };
        let (stop, published, lost) =
            (stop.clone(), Arc::clone(&watch.published), Arc::clone(&watch.lost));
        std::thread::spawn(move || {
            while stop.signal().is_none() {
                std::thread::sleep(POLL);
            }
            std::thread::sleep(Self::GRACE);
            note(&format!(
                "published {} records, lost {}; stopped while waiting for space",
                published.load(Ordering::Relaxed), // Relaxed: only printed
                lost.load(Ordering::Relaxed)
            ));
            std::process::exit(128 + stop.signal().unwrap_or_default());
        });
        watch
    }

    pub(crate) fn count(&self, published: bool) {
        let counter = if published { &self.published } else { &self.lost };
        counter.fetch_add(1, Ordering::Relaxed); // Relaxed: as above
    }
}

/// What a producer has published and lost so far.
pub(crate) struct Counts {
    written: Count,
    refused: Refused,
    /// Records of a CPU that has no ring.
    without_ring: u64,
}

/// How many lines were published and refused.
pub(crate) struct Report {
    published: u64,
    refused: Refused,
    without_ring: u64,
}

impl Report {
    pub(crate) fn between(before: &Counts, after: &Counts) -> Self {
        Report {
            published: after.written.since(before.written).records,
            refused: after.refused.since(before.refused),
            without_ring: after.without_ring.saturating_sub(before.without_ring),
        }
    }

    pub(crate) fn lost(&self) -> u64 {
        self.refused.total().records.saturating_add(self.without_ring)
    }

    pub(crate) fn sentence(&self, location: &Location, shared: bool) -> String {
        let Report { published, refused, without_ring } = self;
        let lost = self.lost();
        let mut said = format!("published {published} records, lost {lost}");
        if lost == 0 {
            return said;
        }
        let (full, too_large) = (refused.full.records, refused.too_large.records);
        said += &format!(": full {full}, too_large {too_large}");
        let (contended, pending) = (refused.contended.records, refused.pending.records);
        if shared {
            said += &format!(", contended {contended}, pending {pending}");
        }
        if *without_ring > 0 {
            said += &format!(
                ", without_ring {without_ring}: this process's CPU has no ring in {location}, and none could be made"
            );
        }
        if contended + pending > 0 {
            said += &format!("; `perfring stat {location}` shows what holds the ring up");
        }
        said
    }
}
