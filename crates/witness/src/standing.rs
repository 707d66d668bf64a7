//! What already held when the evidence of a snapshot begins: a ring of its own, whose records have that time.

use crate::error::WitnessError;
use crate::named_ring::NamedRing;
use perfring_consumer::Snapshot;
use perfring_producer::{Options, ProcessClock, SharedProducer};
use perfring_types::PodRecord;
use perfring_why::witness::schemas;

/// Such a ring.
#[derive(Debug)]
pub(crate) struct Standing {
    ring: NamedRing,
    producer: SharedProducer,
    clock: ProcessClock,
}

impl Standing {
    pub(crate) fn new() -> Result<Self, WitnessError> {
        let ring = NamedRing::new()?;
        let options = Options { producers: Options::many().producers, ..NamedRing::options() };
        let producer = SharedProducer::create(ring.location(), &options)?;
        for schema in schemas() {
            producer.register(&schema)?;
        }
        Ok(Standing { ring, producer, clock: ProcessClock::find()? })
    }

    /// Adds a record of a time that is not before that of the last one.
    pub(crate) fn say<T: PodRecord>(&self, time: u64, record: &T) {
        let bytes = bytemuck::bytes_of(record);
        // The ring takes any of them: it overwrites its oldest ones.
        let _ = self.producer.publish_at(T::SCHEMA.id, bytes, time, &self.clock);
    }

    pub(crate) fn end(self) -> Result<Snapshot, WitnessError> {
        Ok(Snapshot::take(self.ring.location())?)
    }
}
