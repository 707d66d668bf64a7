//! Fixed slots, many producers, which overwrite.

use super::attach::{VERSION, attach, waits};
use super::reader::{SlotReceiver, batch};
use crate::CompareError;
use crate::contest::slots::{Erased, slots};
use crate::contestant::{About, Can, Contestant, Location, Sender, Setup, failed};
use perfring_bench::payload::Pool;
use perfring_bench::{BenchError, payload::sized};
use ringfire::MpmcProducer;
use std::ops::Range;
use std::path::Path;

/// `MpmcProducer` and `RingConsumer`.
pub struct Many;

const NAME: &str = "ringfire many";

impl Contestant for Many {
    type Sender = ManySender;
    type Receiver = SlotReceiver;
    /// The first producer, which creates the file and removes it.
    type Held = Box<dyn std::any::Any>;

    fn can() -> Can {
        Can {
            payload: 1 << 30,
            lossless: Err("its ring for many producers always overwrites"),
            senders: Ok(()),
            overwrite: Ok(()),
            receivers: Ok(()),
            sleeping: Ok(()),
            refuses: Err("its ring for many producers always overwrites"),
        }
    }

    fn about(setup: &Setup) -> About {
        let (count, many) = (slots(setup.data_size, setup.payload), batch(setup.payload));
        let settings = format!(
            "{count} slots of 8 + {} bytes, push per record, recv_batch of up to {many}",
            setup.payload
        );
        let (version, waits) = (VERSION.to_owned(), waits(setup));
        About { name: NAME, version, location: Location::Processes, settings, waits }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Self::Held, CompareError> {
        if !setup.overwrite {
            return Err(failed(NAME)("it always overwrites"));
        }
        sized!(setup.payload, N => Ok::<_, BenchError>({
            let count = slots(setup.data_size, N);
            MpmcProducer::<[u8; N]>::create(path, count)
                .map(|producer| Box::new(producer) as Self::Held)
                .map_err(failed(NAME))
        }))?
    }

    fn sender(path: &Path, setup: &Setup, _: usize) -> Result<ManySender, CompareError> {
        let end = sized!(setup.payload, N => Ok::<_, BenchError>(
            attach(NAME, path, |path| MpmcProducer::<[u8; N]>::attach(path))
                .map(|ring| Erased::new(Writer { ring, record: [0; N] }))
        ))??;
        Ok(ManySender { end })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<SlotReceiver, CompareError> {
        SlotReceiver::new(NAME, path, setup)
    }
}

struct Writer<const N: usize> {
    ring: MpmcProducer<[u8; N]>,
    record: [u8; N],
}

/// Its writing end.
pub struct ManySender {
    end: Erased,
}

impl Sender for ManySender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        let end = self.end.get::<Writer<N>>()?;
        for number in numbers {
            fill(&mut end.record, number);
            end.ring.push(&end.record);
        }
        Ok(())
    }

    #[inline(always)]
    fn send_from<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        pool: &Pool<N>,
    ) -> Result<(), CompareError> {
        let end = self.end.get::<Writer<N>>()?;
        for number in numbers {
            end.ring.push(pool.get(number));
        }
        Ok(())
    }

    #[inline(always)]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        self.send(number..number + 1, fill)?;
        Ok(true)
    }
}
