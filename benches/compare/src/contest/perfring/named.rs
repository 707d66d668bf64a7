//! Named consumers, each of which gets every record: the sender waits for the slowest.

use super::batch::send_batches;
use super::reader::Reader;
use super::ring::{BATCHED_MAX, about, can, error, options};
use crate::CompareError;
use crate::contestant::{About, Can, Contestant, Sender, Setup};
use perfring_consumer::Consumer;
use perfring_producer::{Evict, Options, Producer, Producers};
use std::ops::Range;
use std::path::Path;

/// One producer: record by record, or with `BATCHED` 64 records at once.
pub struct Named<const BATCHED: bool>;

const LOSES: &str = "named consumers are waited for: what may be lost goes to observers";

impl<const BATCHED: bool> Contestant for Named<BATCHED> {
    type Sender = NamedSender<BATCHED>;
    type Receiver = Reader;
    type Held = ();

    fn can() -> Can {
        Can {
            overwrite: Err(LOSES),
            refuses: Err("as `perfring in place` does"),
            sleeping: Err("as `perfring in place` does"),
            ..can()
        }
    }

    fn about(setup: &Setup) -> About {
        let (name, how) = match BATCHED {
            true => ("perfring named batch", "batches of 64 up to 1 KiB each"),
            false => ("perfring named", "each record written in place and published at once"),
        };
        about(name, setup, &format!("{} named consumers, one producer, {how}", setup.receivers))
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        let consumers = setup.receivers as u32;
        let options = Options { consumers, ..options(setup, Producers::One, Evict::Exact) };
        perfring_producer::files::create(path, &options).map_err(error)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<Self::Sender, CompareError> {
        let producer = Producer::attach(path).map_err(error)?;
        // It waits only for those that have come.
        crate::contest::waits::until("perfring", "its consumers did not come", || {
            let stat = perfring_consumer::Stat::read(path).map_err(error)?;
            let come = stat.consumers.iter().filter(|consumer| consumer.figures.waited_for).count();
            Ok((come == setup.receivers).then_some(()))
        })?;
        Ok(NamedSender(producer))
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<Reader, CompareError> {
        let consumer = Consumer::attach_as(path, &index.to_string()).map_err(error)?;
        Ok(Reader::of(consumer, setup))
    }
}

/// The writing end.
pub struct NamedSender<const BATCHED: bool>(Producer);

impl<const BATCHED: bool> Sender for NamedSender<BATCHED> {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        match BATCHED && N <= BATCHED_MAX {
            true => send_batches(&mut self.0, numbers, fill),
            false => self.0.send(numbers, fill),
        }
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        self.0.offer(number, fill)
    }
}
