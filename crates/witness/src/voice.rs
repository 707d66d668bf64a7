//! The writer of a ring of records of a witness.

use crate::error::WitnessError;
use crate::named_ring::NamedRing;
use perfring_producer::{Options, ProcessClock, SharedProducer};
use perfring_types::PodRecord;
use perfring_why::witness::schemas;

/// Publishes records into a ring that takes any of them: the ring overwrites its oldest ones.
#[derive(Debug)]
pub(crate) struct Voice {
    producer: SharedProducer,
    clock: ProcessClock,
}

impl Voice {
    /// Creates a ring, and its writer. The ring loses its name when the [`NamedRing`] is dropped.
    pub(crate) fn new() -> Result<(Self, NamedRing), WitnessError> {
        let ring = NamedRing::new()?;
        let options = Options { producers: Options::many().producers, ..NamedRing::options() };
        let producer = SharedProducer::create(ring.location(), &options)?;
        for schema in schemas() {
            producer.register(&schema)?;
        }
        Ok((Voice { producer, clock: ProcessClock::find()? }, ring))
    }

    /// Publishes a record.
    pub(crate) fn say<T: PodRecord>(&self, record: &T) {
        let _ = self.producer.publish_pod(record);
    }

    /// Publishes a record of a time that is not before that of the last one.
    pub(crate) fn say_at<T: PodRecord>(&self, time: u64, record: &T) {
        let bytes = bytemuck::bytes_of(record);
        let _ = self.producer.publish_at(T::SCHEMA.id, bytes, time, &self.clock);
    }

    /// Returns how many bytes were published.
    pub(crate) fn published(&self) -> u64 {
        self.producer.totals().written.bytes
    }
}
