//! One producer, one call a record: what a program calls that logs an event here and an event there.

use super::exclusive::{refusal, write};
use super::reader::Reader;
use super::ring::{ONE_CONSUMER, PATIENCE, about, can, create, error};
use crate::CompareError;
use crate::contestant::{About, Can, Cannot, Contestant, Sender, Setup};
use perfring_producer::{Producer, Producers, RecordType, ReserveError};
use std::ops::Range;
use std::path::Path;

/// `publish_timeout` of a payload that exists, or `reserve_timeout`, written in place, and `commit`.
pub struct Calls<const RESERVES: bool>;

/// The writing end.
pub struct Caller<const RESERVES: bool>(Producer);

impl<const RESERVES: bool> Contestant for Calls<RESERVES> {
    type Sender = Caller<RESERVES>;
    type Receiver = Reader;
    type Held = ();

    fn can() -> Can {
        can()
    }

    fn cannot() -> Cannot {
        ONE_CONSUMER
    }

    fn about(setup: &Setup) -> About {
        match RESERVES {
            false => about("perfring publish", setup, "one producer, publish_timeout per record"),
            true => about(
                "perfring reserve",
                setup,
                "one producer, reserve_timeout and commit per record, written in place",
            ),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        create(path, setup, Producers::One)
    }

    fn sender(
        path: &Path,
        _setup: &Setup,
        _index: usize,
    ) -> Result<Caller<RESERVES>, CompareError> {
        Producer::attach(path).map(Caller).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Reader, CompareError> {
        Reader::open(path, setup)
    }
}

impl<const RESERVES: bool> Sender for Caller<RESERVES> {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        let kind = RecordType::BYTES;
        for number in numbers {
            if RESERVES {
                let record = self.0.reserve_timeout(kind, N, PATIENCE).map_err(refusal)?;
                write(record, number, &mut fill);
            } else {
                let mut payload = [0; N];
                fill(&mut payload, number);
                self.0.publish_timeout(kind, &payload, PATIENCE).map_err(refusal)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        let offered = if RESERVES {
            self.0.reserve(RecordType::BYTES, N).map(|record| write(record, number, &mut fill))
        } else {
            let mut payload = [0; N];
            fill(&mut payload, number);
            self.0.publish(&payload)
        };
        match offered {
            Ok(()) => Ok(true),
            Err(ReserveError::Full) => Ok(false),
            Err(other) => Err(refusal(other)),
        }
    }
}
