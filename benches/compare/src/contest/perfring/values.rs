//! Records of many values: the best way to publish small values of one type. A program would have a
//! struct with an array of them, and derive its `Record`; here the bytes of one are used.

use super::exclusive::refusal;
use super::ring::{PATIENCE, about, can, create, error};
use crate::CompareError;
use crate::contestant::{About, Can, Contestant, Receiver, Sender, Setup};
use perfring_consumer::{Consumer, ConsumerOptions, Item};
use perfring_producer::{Producer, Producers, RecordType};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// How long a reader spins before its caller gets control.
const SPIN: Duration = Duration::from_micros(50);

/// Values of a record: 64, or as many as 4 KiB take.
const fn values<const N: usize>() -> usize {
    match 4096 / N {
        0 => 1,
        n if n > 64 => 64,
        n => n,
    }
}

/// One producer, many values a record.
pub struct Values;

impl Contestant for Values {
    type Sender = ValueSender;
    type Receiver = ValueReader;
    type Held = ();

    fn can() -> Can {
        let same = "values in an array are for streams; the record that holds them is `perfring in place`'s";
        Can {
            overwrite: Err(same),
            receivers: Err(same),
            sleeping: Err(same),
            refuses: Err(same),
            ..can()
        }
    }

    fn about(setup: &Setup) -> About {
        about(
            "perfring values",
            setup,
            "one producer, 64 payloads a record, in an array of 4 KiB at most",
        )
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        create(path, setup, Producers::One)
    }

    fn sender(path: &Path, _setup: &Setup, _index: usize) -> Result<ValueSender, CompareError> {
        Producer::attach(path).map(ValueSender).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<ValueReader, CompareError> {
        let options = ConsumerOptions { wait: setup.pace.into(), ..ConsumerOptions::default() };
        Consumer::attach_with(path, &options).map(ValueReader).map_err(error)
    }
}

/// The writing end.
pub struct ValueSender(Producer);

impl Sender for ValueSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        let many = values::<N>();
        let mut first = numbers.start;
        while first < numbers.end {
            let len = many.min((numbers.end - first) as usize) * N;
            let record = self.0.reserve_timeout(RecordType::BYTES, len, PATIENCE);
            let mut record = record.map_err(refusal)?;
            for value in record.as_chunks_mut::<N>().0 {
                fill(value, first);
                first += 1;
            }
            record.commit();
        }
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        _number: u64,
        _fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        Err(CompareError::Cannot("offer one value"))
    }
}

/// The reading end.
pub struct ValueReader(Consumer);

impl Receiver for ValueReader {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        let drained = self.0.drain(|item| {
            if let Item::Record(record) = item {
                let (values, _) = record.bytes.as_chunks::<N>();
                for value in values {
                    visit(value);
                }
                count += values.len() as u64;
            }
        });
        drained.map_err(error)?;
        Ok(count)
    }

    /// For a sender of one value at a time.
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        let Some(Item::Record(record)) = self.0.read().map_err(error)? else { return Ok(false) };
        let Ok(bytes) = record.bytes.try_into() else {
            return Err(CompareError::Cannot("show the values of a record one by one"));
        };
        visit(bytes);
        Ok(true)
    }

    fn wait(&mut self) {
        self.0.spin(SPIN);
    }
}
