//! Many producers of one ring, record by record.

use super::exclusive::refusal;
use super::reader::Reader;
use super::ring::{ONE_CONSUMER, PATIENCE, about, can, create, error};
use crate::CompareError;
use crate::contestant::{About, Can, Cannot, Contestant, Sender, Setup};
use perfring_bench::payload::Pool;
use perfring_producer::{Producers, RecordType, ReserveError, SharedProducer};
use std::ops::Range;
use std::path::Path;

/// Many producers: reserve, write in place, commit.
pub struct Shared;

impl Contestant for Shared {
    type Sender = SharedProducer;
    type Receiver = Reader;
    type Held = ();

    fn can() -> Can {
        Can { senders: Ok(()), ..can() }
    }

    fn cannot() -> Cannot {
        ONE_CONSUMER
    }

    fn about(setup: &Setup) -> About {
        let how = "many producers, publish_timeout, or reserve_timeout where a record of more than 512 \
                   bytes has to be made first";
        about("perfring shared", setup, how)
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        create(path, setup, Producers::Many)
    }

    fn sender(path: &Path, _setup: &Setup, _index: usize) -> Result<SharedProducer, CompareError> {
        SharedProducer::attach(path).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Reader, CompareError> {
        Reader::open(path, setup)
    }
}

/// Up to this length a shared producer publishes under its ring's lock.
const SMALL: usize = 512;

/// Writes a record in place.
macro_rules! write {
    ($record:expr, $number:expr, $fill:expr) => {{
        let mut record = $record;
        if let Some(slot) = record.first_chunk_mut() {
            $fill(slot, $number);
        }
        record.commit();
    }};
}

impl Sender for SharedProducer {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        for number in numbers {
            // It also waits for another producer, which an overwrite ring would refuse. A small
            // record is published under the ring's lock, with one locked instruction; a large one
            // is better written in place.
            if N <= SMALL {
                let mut bytes = [0; N];
                fill(&mut bytes, number);
                self.publish_timeout(RecordType::BYTES, &bytes, PATIENCE).map_err(refusal)?;
            } else {
                let record = self.reserve_timeout(RecordType::BYTES, N, PATIENCE);
                write!(record.map_err(refusal)?, number, fill);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn send_from<const N: usize>(
        &mut self,
        mut numbers: Range<u64>,
        pool: &Pool<N>,
    ) -> Result<(), CompareError> {
        let publish = |n| self.publish_timeout(RecordType::BYTES, pool.get(n), PATIENCE);
        numbers.try_for_each(publish).map_err(refusal)
    }

    #[inline(always)]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        match self.reserve(RecordType::BYTES, N) {
            Ok(record) => {
                write!(record, number, fill);
                Ok(true)
            }
            Err(ReserveError::Full) => Ok(false),
            Err(other) => Err(refusal(other)),
        }
    }
}
