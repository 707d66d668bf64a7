//! One producer, record by record, written in place.

use super::reader::Reader;
use super::ring::{ONE_CONSUMER, PATIENCE, about, can, create, error, options};
use crate::CompareError;
use crate::contestant::{About, Can, Cannot, Contestant, Sender, Setup};
use perfring_producer::{Evict, Producer, Producers, RecordType, Reservation, ReserveError};
use std::ops::Range;
use std::path::Path;

/// Each record is written in place and published at once.
pub struct Exclusive;

impl Contestant for Exclusive {
    type Sender = Producer;
    type Receiver = Reader;
    type Held = ();

    fn can() -> Can {
        can()
    }

    fn cannot() -> Cannot {
        ONE_CONSUMER
    }

    fn about(setup: &Setup) -> About {
        about(
            "perfring in place",
            setup,
            "one producer, each record written in place and published at once",
        )
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        create(path, setup, Producers::One)
    }

    fn sender(path: &Path, _setup: &Setup, _index: usize) -> Result<Producer, CompareError> {
        Producer::attach(path).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Reader, CompareError> {
        Reader::open(path, setup)
    }
}

/// The same, except that a full overwrite ring evicts its older half at once.
pub struct Half;

impl Contestant for Half {
    type Sender = Producer;
    type Receiver = Reader;
    type Held = ();

    fn can() -> Can {
        let same = "evicts by halves: without overwriting it is `perfring in place`";
        Can { lossless: Err(same), receivers: Err(same), refuses: Err(same), ..can() }
    }

    fn cannot() -> Cannot {
        ONE_CONSUMER
    }

    fn about(setup: &Setup) -> About {
        about("perfring half", setup, "one producer, in place, evicts by halves")
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        perfring_producer::files::create(path, &options(setup, Producers::One, Evict::Half))
            .map_err(error)
    }

    fn sender(path: &Path, _setup: &Setup, _index: usize) -> Result<Producer, CompareError> {
        Producer::attach(path).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Reader, CompareError> {
        Reader::open(path, setup)
    }
}

impl Sender for Producer {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        mut numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        numbers.try_for_each(|number| {
            let record = self.reserve_timeout(RecordType::BYTES, N, PATIENCE).map_err(refusal)?;
            write(record, number, &mut fill);
            Ok(())
        })
    }

    #[inline(always)]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        match self.reserve(RecordType::BYTES, N) {
            Ok(record) => {
                write(record, number, &mut fill);
                Ok(true)
            }
            Err(ReserveError::Full) => Ok(false),
            Err(other) => Err(refusal(other)),
        }
    }
}

#[inline(always)]
pub(super) fn write<const N: usize>(
    mut record: Reservation<'_, Producer>,
    number: u64,
    fill: &mut impl FnMut(&mut [u8; N], u64),
) {
    if let Some(slot) = record.first_chunk_mut() {
        fill(slot, number);
    }
    record.commit();
}

#[cold]
pub(super) fn refusal(refused: ReserveError) -> CompareError {
    error(refused)
}
