//! Fixed slots, one producer.

use super::super::common::{Erased, failed, slots, until};
use super::super::{About, Can, Contestant, Home, Sender, Setup};
use super::reader::{SlotReceiver, batch};
use super::{VERSION, waits};
use crate::CompareError;
use perfring_bench::{BenchError, payload::sized};
use ringfire::{FlowControl, RingProducer, RingProducerBuilder};
use std::ops::Range;
use std::path::Path;

/// `RingProducer` and `RingConsumer`.
pub struct Slots;

const NAME: &str = "ringfire";

impl Contestant for Slots {
    type Sender = SlotSender;
    type Receiver = SlotReceiver;
    type Held = ();

    fn can() -> Can {
        Can {
            payload: 1 << 30,
            lossless: Ok(()),
            senders: Err("one producer: its ring for many is listed beside it"),
            overwrite: Ok(()),
            receivers: Ok(()),
            sleeping: Ok(()),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let mode = if setup.overwrite { "LossyLatestWins" } else { "LosslessBackpressure" };
        let (count, many) = (slots(setup.data_size, setup.payload), batch(setup.payload));
        let settings = format!(
            "{count} slots of 8 + {} bytes, {mode}, push_batch and recv_batch of up to {many}",
            setup.payload
        );
        let (version, waits) = (VERSION.to_owned(), waits(setup));
        About { name: NAME, version, home: Home::Processes, settings, waits }
    }

    fn create(_: &Path, setup: &Setup) -> Result<(), CompareError> {
        // The producer makes the file.
        if setup.senders > 1 {
            return Err(failed(NAME)("one producer"));
        }
        Ok(())
    }

    fn sender(path: &Path, setup: &Setup, _: usize) -> Result<SlotSender, CompareError> {
        let end = sized!(setup.payload, N => Ok::<_, BenchError>(make::<N>(path, setup)))??;
        Ok(SlotSender { end })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<SlotReceiver, CompareError> {
        SlotReceiver::new(NAME, path, setup)
    }
}

fn make<const N: usize>(path: &Path, setup: &Setup) -> Result<Erased, CompareError> {
    let flow = if setup.overwrite {
        FlowControl::LossyLatestWins
    } else {
        FlowControl::LosslessBackpressure
    };
    let ring: RingProducer<[u8; N]> = RingProducerBuilder::new(slots(setup.data_size, N))
        .flow_control(flow)
        .build(path)
        .map_err(failed(NAME))?;
    if !setup.overwrite {
        // It waits only for readers that it knows of.
        until(NAME, "its readers did not come", || {
            let known = ring.registry().map_or(0, |registry| registry.active_readers(0).len());
            Ok((known >= setup.receivers).then_some(()))
        })?;
    }
    let lossless = !setup.overwrite;
    Ok(Erased::new(Writer { ring, batch: vec![[0; N]; batch(N)], lossless }))
}

struct Writer<const N: usize> {
    ring: RingProducer<[u8; N]>,
    batch: Vec<[u8; N]>,
    lossless: bool,
}

/// Its writing end.
pub struct SlotSender {
    end: Erased,
}

impl Sender for SlotSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        let end = self.end.get::<Writer<N>>()?;
        if batch(N) == 1 || numbers.end - numbers.start == 1 {
            for number in numbers {
                fill(&mut end.batch[0], number);
                end.ring.push(&end.batch[0]);
            }
            return Ok(());
        }
        let mut number = numbers.start;
        while number < numbers.end {
            let count = (numbers.end - number).min(batch(N) as u64) as usize;
            for slot in &mut end.batch[..count] {
                fill(slot, number);
                number += 1;
            }
            end.ring.push_batch(&end.batch[..count]);
        }
        Ok(())
    }

    #[inline(always)]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        let end = self.end.get::<Writer<N>>()?;
        fill(&mut end.batch[0], number);
        if end.lossless {
            return Ok(end.ring.try_push(&end.batch[0]).is_ok());
        }
        end.ring.push(&end.batch[0]);
        Ok(true)
    }
}
