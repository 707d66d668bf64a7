//! Fixed slots, one producer.

use super::attach::{VERSION, waits};
use super::reader::{SlotReceiver, batch};
use crate::CompareError;
use crate::contest::slots::{Erased, slots};
use crate::contest::waits::{Room, until};
use crate::contestant::{About, Can, Contestant, Location, Sender, Setup, failed};
use perfring_bench::payload::Pool;
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
        let gate = if setup.overwrite {
            ""
        } else {
            ", a registry for its readers alone, which a sender without room polls at until an eighth \
             is free"
        };
        let settings = format!(
            "{count} slots of 8 + {} bytes, {mode}, push_batch and recv_batch of up to {many}{gate}",
            setup.payload
        );
        let (version, waits) = (VERSION.to_owned(), waits(setup));
        About { name: NAME, version, location: Location::Processes, settings, waits }
    }

    fn create(_: &Path, setup: &Setup) -> Result<(), CompareError> {
        // The producer creates the file.
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
    let mut builder = RingProducerBuilder::new(slots(setup.data_size, N)).flow_control(flow);
    if !setup.overwrite {
        // It walks over all slots of its registry at each poll: no more than there are readers.
        builder = builder.max_readers(setup.receivers);
    }
    let ring: RingProducer<[u8; N]> = builder.build(path).map_err(failed(NAME))?;
    if !setup.overwrite {
        // It waits only for readers that it knows of.
        until(NAME, "its readers did not come", || {
            let known = ring.registry().map_or(0, |registry| registry.active_readers(0).len());
            Ok((known >= setup.receivers).then_some(()))
        })?;
    }
    let gate = (!setup.overwrite).then(|| Gate { limit: 0, room: Room::default() });
    Ok(Erased::new(Writer { ring, batch: vec![[0; N]; batch(N)], gate }))
}

struct Writer<const N: usize> {
    ring: RingProducer<[u8; N]>,
    batch: Vec<[u8; N]>,
    /// For a lossless ring.
    gate: Option<Gate>,
}

impl<const N: usize> Writer<N> {
    /// Pushes this record, or the first of the batch, when there is room.
    #[inline(always)]
    fn push(&mut self, record: Option<&[u8; N]>) {
        if let Some(gate) = &mut self.gate {
            gate.pass(&self.ring, 1);
        }
        self.ring.push(record.unwrap_or(&self.batch[0]));
    }
}

/// Up to where there is known to be room. The library's own gate continues as soon as one record
/// fits, and polls its readers again for each batch that one of them has read, so a sender of a
/// full ring takes their line each time. This one waits for more.
struct Gate {
    limit: u64,
    room: Room,
}

/// The part of a ring that has to be free before a sender that found it full continues.
const PART: u64 = 8;

impl Gate {
    /// Waits until so many fit.
    #[inline(always)]
    fn pass<const N: usize>(&mut self, ring: &RingProducer<[u8; N]>, count: u64) {
        if ring.next_sequence() + count > self.limit {
            self.poll(ring, count);
        }
    }

    #[cold]
    #[inline(never)]
    fn poll<const N: usize>(&mut self, ring: &RingProducer<[u8; N]>, count: u64) {
        let wanted = count.max(ring.capacity() / PART);
        loop {
            let read = ring.registry().and_then(|registry| registry.min_cursor());
            // Without a reader there is nothing to wait for.
            self.limit = read.map_or(u64::MAX, |read| read + ring.capacity());
            if self.limit - ring.next_sequence() >= wanted {
                return;
            }
            self.room.wait();
        }
    }
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
                end.push(None);
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
            if let Some(gate) = &mut end.gate {
                gate.pass(&end.ring, count as u64);
            }
            end.ring.push_batch(&end.batch[..count]);
        }
        Ok(())
    }

    #[inline(always)]
    fn send_from<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        pool: &Pool<N>,
    ) -> Result<(), CompareError> {
        if batch(N) > 1 {
            return self.send(numbers, |slot, number| *slot = *pool.get(number));
        }
        let end = self.end.get::<Writer<N>>()?;
        numbers.for_each(|number| end.push(Some(pool.get(number))));
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
        if end.gate.is_some() {
            return Ok(end.ring.try_push(&end.batch[0]).is_ok());
        }
        end.ring.push(&end.batch[0]);
        Ok(true)
    }
}
