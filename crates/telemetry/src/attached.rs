//! What a sink publishes by: a producer of a shared ring, or one of rings per CPU.

use perfring_producer::types::{Entry, Schema};
use perfring_producer::{
    CpuProducer, Policy, ProcessClock, RecordType, ReserveError, SharedProducer,
};
use std::sync::Arc;
use std::time::Duration;

/// A producer of the place's ring or rings.
#[derive(Debug)]
pub(crate) enum Attached {
    /// Of a shared ring: this thread's alone.
    Shared(Box<SharedProducer>),
    /// Of rings per CPU: all threads have the same.
    Cpu(Arc<CpuProducer>),
}

impl Attached {
    /// Publishes a record with this timestamp.
    #[inline]
    pub(crate) fn publish_at(
        &self,
        kind: RecordType,
        payload: &[u8],
        now: u64,
        clock: &ProcessClock,
    ) -> Result<(), ReserveError> {
        match self {
            Attached::Shared(producer) => producer.publish_at(kind, payload, now, clock),
            Attached::Cpu(producer) => producer.publish_at(kind, payload, now),
        }
    }

    /// Publishes a record, and waits for an interrupted producer that is in the way.
    pub(crate) fn publish_timeout(
        &self,
        kind: RecordType,
        payload: &[u8],
        limit: Duration,
    ) -> Result<(), ReserveError> {
        match self {
            Attached::Shared(producer) => producer.publish_timeout(kind, payload, limit),
            Attached::Cpu(producer) => producer.publish_timeout(kind, payload, limit),
        }
    }

    pub(crate) fn register(&self, schema: &Schema<'_>) -> Result<(), ReserveError> {
        match self {
            Attached::Shared(producer) => producer.register(schema),
            Attached::Cpu(producer) => producer.register(schema),
        }
    }

    pub(crate) fn register_entry(&self, entry: &Entry<'_>) -> Result<(), ReserveError> {
        match self {
            Attached::Shared(producer) => producer.register_entry(entry),
            Attached::Cpu(producer) => producer.register_entry(entry),
        }
    }

    /// Returns whether what is published reaches no file that has the place's name.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Attached::Shared(producer) => producer.is_removed() || producer.cut_off().is_some(),
            Attached::Cpu(producer) => producer.is_removed() || producer.cut_off().is_some(),
        }
    }

    /// Returns the longest payload.
    pub(crate) fn max_len(&self) -> usize {
        match self {
            Attached::Shared(producer) => producer.max_len(),
            Attached::Cpu(producer) => producer.max_len(),
        }
    }

    /// Returns the bytes of a ring.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Attached::Shared(producer) => producer.layout().data_size,
            Attached::Cpu(producer) => producer.options().size,
        }
    }

    /// Returns whether older records are overwritten.
    pub(crate) fn overwrites(&self) -> bool {
        let policy = match self {
            Attached::Shared(producer) => producer.layout().policy,
            Attached::Cpu(producer) => producer.options().policy,
        };
        policy == Policy::Overwrite
    }

    /// Publishes the resource. Each ring per CPU gets it by itself from then on.
    pub(crate) fn publish_resource(
        &self,
        kind: RecordType,
        record: &[u8],
    ) -> Result<(), ReserveError> {
        match self {
            Attached::Shared(producer) => producer.publish_as(kind, record),
            Attached::Cpu(producer) => {
                producer.set_preface(kind, record.to_vec());
                producer.publish_preface()
            }
        }
    }
}
