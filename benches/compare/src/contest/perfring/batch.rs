//! Batches: many records, published at once.

use super::exclusive::refusal;
use super::reader::Reader;
use super::ring::{BATCH, BATCHED_MAX, ONE_CONSUMER, PATIENCE, about, can, create, error};
use crate::CompareError;
use crate::contestant::{About, Can, Cannot, Contestant, Sender, Setup};
use perfring_producer::{Producer, Producers, RecordType, SharedProducer};
use std::ops::Range;
use std::path::Path;

const HOW: &str = "batches of 64 records up to 1 KiB each, larger ones one by one";

/// One producer, 64 records a batch.
pub struct Batched;

impl Contestant for Batched {
    type Sender = Batches;
    type Receiver = Reader;
    type Held = ();

    fn can() -> Can {
        Can { refuses: Err("a batch of one is what `perfring in place` does"), ..can() }
    }

    fn cannot() -> Cannot {
        ONE_CONSUMER
    }

    fn about(setup: &Setup) -> About {
        about("perfring batch", setup, &format!("one producer, {HOW}"))
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        create(path, setup, Producers::One)
    }

    fn sender(path: &Path, _setup: &Setup, _index: usize) -> Result<Batches, CompareError> {
        Producer::attach(path).map(Batches).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Reader, CompareError> {
        Reader::open(path, setup)
    }
}

/// The one producer, in batches.
pub struct Batches(Producer);

impl Sender for Batches {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        if N > BATCHED_MAX {
            return self.0.send(numbers, fill);
        }
        send_batches(&mut self.0, numbers, fill)
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        self.0.offer(number, fill)
    }
}

/// Publishes 64 records at a time. Where the ring is full, a record waits for room by itself.
#[inline(always)]
pub(super) fn send_batches<const N: usize>(
    producer: &mut Producer,
    numbers: Range<u64>,
    mut fill: impl FnMut(&mut [u8; N], u64),
) -> Result<(), CompareError> {
    let mut number = numbers.start;
    while number < numbers.end {
        let end = numbers.end.min(number + BATCH);
        let mut payload = [0; N];
        let mut batch = producer.batch();
        while number < end {
            fill(&mut payload, number);
            if !batch.offer(RecordType::BYTES, &payload).map_err(refusal)? {
                break;
            }
            number += 1;
        }
        batch.publish();
        if number < end {
            producer.publish_timeout(RecordType::BYTES, &payload, PATIENCE).map_err(refusal)?;
            number += 1;
        }
    }
    Ok(())
}

/// Many producers, 64 records a batch.
pub struct SharedBatched;

impl Contestant for SharedBatched {
    type Sender = SharedBatches;
    type Receiver = Reader;
    type Held = ();

    fn can() -> Can {
        Can { senders: Ok(()), ..Batched::can() }
    }

    fn cannot() -> Cannot {
        ONE_CONSUMER
    }

    fn about(setup: &Setup) -> About {
        about("perfring shared batch", setup, &format!("many producers, {HOW}"))
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        create(path, setup, Producers::Many)
    }

    fn sender(path: &Path, _setup: &Setup, _index: usize) -> Result<SharedBatches, CompareError> {
        SharedProducer::attach(path).map(SharedBatches).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Reader, CompareError> {
        Reader::open(path, setup)
    }
}

/// A producer among many, in batches.
pub struct SharedBatches(SharedProducer);

impl Sender for SharedBatches {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        if N > BATCHED_MAX {
            return self.0.send(numbers, fill);
        }
        let size = self.0.layout().record_size(N) as usize;
        // A batch is one reservation: not more than a record may be.
        let most = BATCH.min((self.0.max_len() / size).max(1) as u64);
        let mut number = numbers.start;
        let mut polls = 0u32;
        while number < numbers.end {
            let end = numbers.end.min(number + most);
            let Some(mut batch) =
                self.0.offer_batch((end - number) as usize * size).map_err(refusal)?
            else {
                std::hint::spin_loop();
                polls += 1;
                // The reader may need this core.
                if polls.is_multiple_of(4096) {
                    std::thread::yield_now();
                }
                continue;
            };
            while number < end {
                let slot = batch.push_in_place(RecordType::BYTES, N).ok();
                let Some(slot) = slot.and_then(<[u8]>::first_chunk_mut) else { break };
                fill(slot, number);
                number += 1;
            }
            batch.publish();
        }
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        Sender::offer(&mut self.0, number, fill)
    }
}
