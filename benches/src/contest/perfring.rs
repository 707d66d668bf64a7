//! perfring, through its public API.

use super::ring::{Contestant, Policy, Receiver, Ring, Sender, Setup, failed};
use crate::error::BenchError;
use perfring_consumer::{Consumer, ConsumerOptions, Item, Observer, ObserverOptions};
use perfring_producer::{Evict, Options, Producer, RecordType, ReserveError};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// This project's rings.
pub struct Perfring;

/// How long a sender waits for room: longer than any live reader takes.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long a reader spins before its caller gets control.
const SPIN: Duration = Duration::from_micros(50);

pub(super) fn error(source: impl std::error::Error + Send + Sync + 'static) -> BenchError {
    failed(Contestant::Perfring)(Box::new(source))
}

impl Ring for Perfring {
    type Sender = Producer;
    type Receiver = Reader;

    fn create(path: &Path, setup: &Setup) -> Result<(), BenchError> {
        let (policy, evict) = match setup.policy {
            Policy::Drop => (perfring_producer::Policy::Drop, Evict::Exact),
            Policy::Overwrite => (perfring_producer::Policy::Overwrite, Evict::Exact),
            Policy::OverwriteHalf => (perfring_producer::Policy::Overwrite, Evict::Half),
        };
        let options = Options { size: setup.data_size, policy, evict, ..Options::default() };
        perfring_producer::files::create(path, &options).map_err(error)
    }

    fn sender(path: &Path, _setup: &Setup) -> Result<Producer, BenchError> {
        Producer::attach(path).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup) -> Result<Reader, BenchError> {
        let wait = setup.reader.into();
        if setup.policy == Policy::Drop {
            let options = ConsumerOptions { wait, ..ConsumerOptions::default() };
            Consumer::attach_with(path, &options).map(Reader::Consumer).map_err(error)
        } else {
            let options = ObserverOptions { wait, ..ObserverOptions::default() };
            Observer::attach_with(path, &options).map(Reader::Observer).map_err(error)
        }
    }
}

impl Sender for Producer {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), BenchError> {
        for number in numbers {
            let mut record =
                self.reserve_timeout(RecordType::BYTES, N, PATIENCE).map_err(refusal)?;
            if let Some(slot) = record.first_chunk_mut() {
                fill(slot, number);
            }
            record.commit();
        }
        Ok(())
    }
}

#[cold]
pub(super) fn refusal(refused: ReserveError) -> BenchError {
    error(refused)
}

/// The reader for the policy.
pub enum Reader {
    /// For a drop ring: reads in place.
    Consumer(Consumer),
    /// For an overwrite ring: copies, and slows no producer.
    Observer(Observer),
}

/// Passes the records among a reader's items to `visit`. A loss shows as a gap in the numbers, and
/// a record of a wrong length as a missing record.
macro_rules! drain {
    ($reader:expr, $visit:expr) => {{
        let mut count = 0;
        while let Some(item) = $reader.read().map_err(error)? {
            if let Item::Record(record) = item
                && let Ok(bytes) = record.bytes.try_into()
            {
                $visit(bytes);
                count += 1;
            }
        }
        Ok(count)
    }};
}

impl Receiver for Reader {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, BenchError> {
        match self {
            Reader::Consumer(consumer) => {
                let mut count = 0;
                let drained = consumer.drain(|item| {
                    if let Item::Record(record) = item
                        && let Ok(bytes) = record.bytes.try_into()
                    {
                        visit(bytes);
                        count += 1;
                    }
                });
                drained.map_err(error)?;
                Ok(count)
            }
            Reader::Observer(observer) => drain!(observer, visit),
        }
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, BenchError> {
        let item = match self {
            Reader::Consumer(consumer) => consumer.read(),
            Reader::Observer(observer) => observer.read(),
        };
        let Some(Item::Record(record)) = item.map_err(error)? else { return Ok(false) };
        let Ok(bytes) = record.bytes.try_into() else { return Ok(false) };
        visit(bytes);
        Ok(true)
    }

    #[inline]
    fn wait(&mut self) {
        match self {
            Reader::Consumer(consumer) => consumer.spin(SPIN),
            Reader::Observer(observer) => observer.wait(SPIN),
        };
    }
}
