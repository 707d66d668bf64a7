//! One producer, one call a record: what a program calls that logs an event here and an event there.

use super::exclusive::refusal;
use super::reader::Reader;
use super::ring::{ONE_CONSUMER, about, can, create, error};
use crate::CompareError;
use crate::contestant::{About, Can, Cannot, Contestant, Sender, Setup};
use perfring_bench::contest::calls::Call;
use perfring_bench::payload::Pool;
use perfring_producer::{Producer, Producers, ReserveError};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;

/// A payload that exists, by this call. With `DEFAULT`, to a reader that has not chosen how to wait,
/// for latencies.
pub struct Calls<C, const DEFAULT: bool = false>(PhantomData<fn() -> C>);

/// The writing end.
pub struct Caller<C>(Producer, PhantomData<fn() -> C>);

impl<C: Call, const DEFAULT: bool> Contestant for Calls<C, DEFAULT> {
    type Sender = Caller<C>;
    type Receiver = Reader;
    type Held = ();

    fn can() -> Can {
        match C::REFUSES {
            true => can(),
            false => Can { refuses: Err("it waits, for no time at all like `publish`"), ..can() },
        }
    }

    fn cannot() -> Cannot {
        match DEFAULT {
            false => ONE_CONSUMER,
            true => Cannot { but_latency: Err("elsewhere all readers are so"), ..ONE_CONSUMER },
        }
    }

    fn about(setup: &Setup) -> About {
        let settings = if C::REFUSES && !setup.overwrite {
            "one producer, one call a record; what it refuses goes by publish_timeout, and counts \
             as refused"
        } else {
            "one producer, one call a record"
        };
        let about = about(C::NAME, setup, settings);
        match DEFAULT {
            false => about,
            true => {
                About { name: "perfring default reader", waits: "nothing chosen".into(), ..about }
            }
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        create(path, setup, Producers::One)
    }

    fn sender(path: &Path, _setup: &Setup, _index: usize) -> Result<Caller<C>, CompareError> {
        Producer::attach(path).map(|producer| Caller(producer, PhantomData)).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Reader, CompareError> {
        let pace = (!DEFAULT).then_some(setup.pace);
        Ok(Reader::open_paced(path, setup, pace)?.counting(!C::REFUSES || setup.overwrite))
    }
}

impl<C: Call> Sender for Caller<C> {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        for number in numbers {
            let mut payload = [0; N];
            fill(&mut payload, number);
            C::send(&mut self.0, &payload).map_err(refusal)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn send_from<const N: usize>(
        &mut self,
        mut numbers: Range<u64>,
        pool: &Pool<N>,
    ) -> Result<(), CompareError> {
        numbers.try_for_each(|number| C::send(&mut self.0, pool.get(number))).map_err(refusal)
    }

    #[inline(always)]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        let mut payload = [0; N];
        fill(&mut payload, number);
        match C::publish(&mut self.0, &payload) {
            Ok(()) => Ok(true),
            Err(ReserveError::Full) => Ok(false),
            Err(other) => Err(refusal(other)),
        }
    }
}
