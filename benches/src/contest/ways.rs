//! The ways to use one ring.

use crate::contest::calls::{Caller, Calls, PublishTimeout};
use crate::contest::perfring::{PATIENCE, Reader, SPIN, Way, can, error, options, refusal, taken};
use crate::contestant::{Can, Fill, Receiver, Sender, Setup, Visit};
use crate::error::{BenchError, Result};
use crate::payload::Pool;
use crate::waits::{Room, until};
use perfring_consumer::{Consumer, ConsumerOptions, Item, Trust, stat::Stat};
use perfring_producer::{
    Evict, Options, Producer, Producers, RecordType, Reservation, SharedProducer,
};
use std::ops::Range;
use std::path::Path;

/// Records of a batch.
const BATCH: u64 = 64;
/// With payloads larger than this, a batch saves nothing.
const BATCHED_MAX: usize = 1024;
/// Up to this length a shared producer publishes under its ring's lock.
const LOCKED_MAX: usize = 512;

const HOW: &str = "batches of 64 records up to 1 KiB each, larger ones one by one";
const BATCH_OF_ONE: Result<(), &str> = Err("a batch of one is what `perfring in place` does");

/// One producer, 64 records a batch.
pub struct Batched;

impl Way for Batched {
    type Sender = Batches;
    type Receiver = Reader;

    fn how(_: &Setup) -> String {
        format!("one producer, {HOW}")
    }

    fn can() -> Can {
        Can { refuses: BATCH_OF_ONE, ..can() }
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<Batches> {
        Producer::attach(path).map(Batches).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader> {
        Reader::open(path, setup)
    }
}

/// The one producer, in batches.
pub struct Batches(Producer);

impl Sender for Batches {
    /// Publishes 64 records at a time. Where the ring is full, a record waits for room by itself.
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        let producer = &mut self.0;
        if N > BATCHED_MAX {
            return producer.send(numbers, fill);
        }
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
            drop(batch);
            if number < end {
                producer.publish_timeout(RecordType::BYTES, &payload, PATIENCE).map_err(refusal)?;
                number += 1;
            }
        }
        Ok(())
    }

    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        self.0.offer(number, fill)
    }
}

/// `publish_timeout`, to a consumer that copies each record before it looks at it, because it trusts
/// no process that may write the ring.
pub struct Copied;

impl Way for Copied {
    type Sender = Caller<PublishTimeout>;
    type Receiver = Reader;

    fn how(_: &Setup) -> String {
        "one producer, one call a record, Trust::Nobody".to_owned()
    }

    fn can() -> Can {
        let same = Err("as `perfring publish_timeout` does");
        Can { overwrite: same, receivers: same, sleeping: same, refuses: same, ..can() }
    }

    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<Self::Sender> {
        <Calls<PublishTimeout> as Way>::sender(path, setup, index)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader> {
        let (wait, trust) = (setup.pace.into(), Trust::Nobody);
        let options = ConsumerOptions { wait, trust, ..ConsumerOptions::default() };
        Ok(Reader::of(Consumer::attach_with(path, &options).map_err(error)?, setup))
    }
}

/// Many producers, record by record.
pub struct Shared;

impl Way for Shared {
    type Sender = OneOfMany;
    type Receiver = Reader;
    const PRODUCERS: Producers = Producers::Many;

    fn how(_: &Setup) -> String {
        "many producers, publish_timeout, or reserve_timeout where a record of more than 512 bytes \
         has to be made first"
            .to_owned()
    }

    fn can() -> Can {
        Can { senders: Ok(()), ..can() }
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<OneOfMany> {
        SharedProducer::attach(path).map(OneOfMany).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader> {
        Reader::open(path, setup)
    }
}

/// A producer among many.
pub struct OneOfMany(SharedProducer);

#[inline(always)]
fn write<const N: usize>(
    mut record: Reservation<'_, SharedProducer>,
    number: u64,
    fill: &mut impl Fill<N>,
) {
    if let Some(slot) = record.first_chunk_mut() {
        fill(slot, number);
    }
    record.commit();
}

impl Sender for OneOfMany {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        for number in numbers {
            // It also waits for another producer, which an overwrite ring would refuse. A small
            // record is published under the ring's lock, with one locked instruction; a large one
            // is better written in place.
            if N <= LOCKED_MAX {
                let mut bytes = [0; N];
                fill(&mut bytes, number);
                self.0.publish_timeout(RecordType::BYTES, &bytes, PATIENCE).map_err(refusal)?;
            } else {
                let record = self.0.reserve_timeout(RecordType::BYTES, N, PATIENCE);
                write(record.map_err(refusal)?, number, &mut fill);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn send_from<const N: usize>(&mut self, mut numbers: Range<u64>, pool: &Pool<N>) -> Result<()> {
        let publish = |n| self.0.publish_timeout(RecordType::BYTES, pool.get(n), PATIENCE);
        numbers.try_for_each(publish).map_err(refusal)
    }

    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
        let reserved = self.0.reserve(RecordType::BYTES, N);
        taken(reserved.map(|record| write(record, number, &mut fill)))
    }
}

/// Many producers, 64 records a batch.
pub struct SharedBatched;

impl Way for SharedBatched {
    type Sender = SharedBatches;
    type Receiver = Reader;
    const PRODUCERS: Producers = Producers::Many;

    fn how(_: &Setup) -> String {
        format!("many producers, {HOW}")
    }

    fn can() -> Can {
        Can { senders: Ok(()), refuses: BATCH_OF_ONE, ..can() }
    }

    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<SharedBatches> {
        Shared::sender(path, setup, index).map(SharedBatches)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Reader> {
        Reader::open(path, setup)
    }
}

/// A producer among many, in batches.
pub struct SharedBatches(OneOfMany);

impl Sender for SharedBatches {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        if N > BATCHED_MAX {
            return self.0.send(numbers, fill);
        }
        let producer = &self.0.0;
        let size = producer.layout().record_size(N) as usize;
        // A batch is one reservation: not more than a record may be.
        let most = BATCH.min((producer.max_len() / size).max(1) as u64);
        let (mut number, mut room) = (numbers.start, Room::default());
        while number < numbers.end {
            let end = numbers.end.min(number + most);
            let bytes = (end - number) as usize * size;
            let Some(mut batch) = producer.offer_batch(bytes).map_err(refusal)? else {
                room.wait();
                continue;
            };
            while number < end {
                let slot = batch.push_in_place(RecordType::BYTES, N).ok();
                let Some(slot) = slot.and_then(<[u8]>::first_chunk_mut) else { break };
                fill(slot, number);
                number += 1;
            }
            drop(batch);
        }
        Ok(())
    }

    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        self.0.offer(number, fill)
    }
}

/// Named consumers, each of which gets every record: the one producer waits for the slowest. It
/// writes record by record, or with `BATCHED` 64 records at once.
pub struct Named<const BATCHED: bool>;

impl<const BATCHED: bool> Way for Named<BATCHED> {
    type Sender = NamedSender<BATCHED>;
    type Receiver = Reader;

    fn how(setup: &Setup) -> String {
        let how = if BATCHED { HOW } else { "each record written in place and published at once" };
        format!("{} named consumers, one producer, {how}", setup.receivers)
    }

    fn can() -> Can {
        Can {
            overwrite: Err("named consumers are waited for: what may be lost goes to observers"),
            refuses: Err("as `perfring in place` does"),
            sleeping: Err("as `perfring in place` does"),
            wait_for_many: Ok(()),
            ..can()
        }
    }

    fn options(setup: &Setup) -> Options {
        let consumers = setup.receivers as u32;
        Options { consumers, ..options(setup, Producers::One, Evict::Exact) }
    }

    fn sender(path: &Path, setup: &Setup, _: usize) -> Result<Self::Sender> {
        let producer = Producer::attach(path).map_err(error)?;
        // It waits only for those that have come.
        until("perfring", "its consumers did not come", || {
            let stat = Stat::read(path).map_err(error)?;
            let come = stat.consumers.iter().filter(|consumer| consumer.figures.waited_for).count();
            Ok((come == setup.receivers).then_some(()))
        })?;
        Ok(NamedSender(Batches(producer)))
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<Reader> {
        let consumer = Consumer::attach_as(path, &index.to_string()).map_err(error)?;
        Ok(Reader::of(consumer, setup))
    }
}

/// The writing end of [`Named`].
pub struct NamedSender<const BATCHED: bool>(Batches);

impl<const BATCHED: bool> Sender for NamedSender<BATCHED> {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, fill: impl Fill<N>) -> Result<()> {
        if BATCHED { self.0.send(numbers, fill) } else { self.0.0.send(numbers, fill) }
    }

    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        self.0.offer(number, fill)
    }
}

/// One producer, many values a record: the best way to publish small values of one type. A program
/// would have a struct with an array of them, and derive its `Record`; here the bytes of one are
/// used.
pub struct Values;

/// Values of a record: 64, or as many as 4 KiB take.
const fn values<const N: usize>() -> usize {
    match 4096 / N {
        0 => 1,
        n if n > 64 => 64,
        n => n,
    }
}

impl Way for Values {
    type Sender = ValueSender;
    type Receiver = ValueReader;

    fn how(_: &Setup) -> String {
        "one producer, 64 payloads a record, in an array of 4 KiB at most".to_owned()
    }

    fn can() -> Can {
        let same = Err("values in an array are for streams; their record is `perfring in place`'s");
        Can { overwrite: same, receivers: same, sleeping: same, refuses: same, ..can() }
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<ValueSender> {
        Producer::attach(path).map(ValueSender).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<ValueReader> {
        let options = ConsumerOptions { wait: setup.pace.into(), ..ConsumerOptions::default() };
        Consumer::attach_with(path, &options).map(ValueReader).map_err(error)
    }
}

/// The writing end of [`Values`].
pub struct ValueSender(Producer);

impl Sender for ValueSender {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
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

    fn offer<const N: usize>(&mut self, _number: u64, _fill: impl Fill<N>) -> Result<bool> {
        Err(BenchError::Cannot("offer one value"))
    }
}

/// The reading end of [`Values`].
pub struct ValueReader(Consumer);

impl Receiver for ValueReader {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
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
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        let Some(Item::Record(record)) = self.0.read().map_err(error)? else { return Ok(false) };
        let Ok(bytes) = record.bytes.try_into() else {
            return Err(BenchError::Cannot("show the values of a record one by one"));
        };
        visit(bytes);
        Ok(true)
    }

    fn wait(&mut self) {
        self.0.spin(SPIN);
    }
}
