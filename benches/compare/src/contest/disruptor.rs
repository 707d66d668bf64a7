//! The crate disruptor, between threads: batches are published and polled in place. Every poller
//! gets every record.

use super::common::Polls;
use super::handed::{self, Held, Whose};
use super::threads::{End, Slot, aligned, of, slots, wait_until};
use super::{About, Can, Contestant, Home, Receiver, Sender, Setup};
use crate::CompareError;
use disruptor::{
    BusySpin, EventPoller, MultiConsumerBarrier, MultiProducer, MultiProducerBarrier, Polling,
    Producer, SingleConsumerBarrier, SingleProducer, SingleProducerBarrier, build_multi_producer,
    build_single_producer,
};
use perfring_bench::contest::Waits;
use perfring_bench::payload::sized;
use std::ops::Range;
use std::path::Path;

/// A disruptor of one producer, or, if `MANY`, of as many as there are senders.
pub struct DisruptorOf<const MANY: bool>;
/// A disruptor of one producer.
pub type Disruptor = DisruptorOf<false>;
/// A disruptor of many producers.
pub type DisruptorMany = DisruptorOf<true>;

type One<A, const N: usize, C> = SingleProducer<Slot<A, N>, C>;
type Many<A, const N: usize, C> = MultiProducer<Slot<A, N>, C>;
type Poller<A, const N: usize, B> = EventPoller<Slot<A, N>, B>;

/// It wants a power of two, and with many producers at least 64.
fn size(many: bool, setup: &Setup) -> usize {
    let slots = slots(setup.data_size, setup.payload).max(if many { 64 } else { 2 });
    1 << slots.ilog2()
}

/// Records of one batch.
fn batch(size: usize) -> usize {
    (size / 8).max(1)
}

impl<A: Copy + Send + Sync + 'static, const N: usize, C: Send + 'static> End for One<A, N, C> {
    fn is_behind(&self) -> bool {
        false
    }
}

impl<A: Copy + Send + Sync + 'static, const N: usize, C: Send + Sync + 'static> End
    for Many<A, N, C>
{
    fn is_behind(&self) -> bool {
        false
    }
}

macro_rules! poller {
    ($barrier:ty) => {
        impl<A: Copy + Send + Sync + 'static, const N: usize> End for Poller<A, N, $barrier> {
            #[inline(always)]
            fn is_behind(&self) -> bool {
                self.has_available()
            }
        }
    };
}
poller!(SingleProducerBarrier);
poller!(MultiProducerBarrier);

/// Adds a poller for each receiver to a builder, whose type changes with the first and the second,
/// and calls a body with the producer.
macro_rules! build {
    ($builder:expr, $receivers:expr, $held:expr, $producer:ident => $body:expr) => {{
        let (poller, builder) = $builder.new_event_poller();
        $held.lay(Whose::Receiver(0), Box::new(poller) as Box<dyn End>);
        if $receivers < 2 {
            let $producer = builder.build();
            $body
        } else {
            let (poller, mut builder) = builder.new_event_poller();
            $held.lay(Whose::Receiver(1), Box::new(poller) as Box<dyn End>);
            for index in 2..$receivers {
                let (poller, more) = builder.new_event_poller();
                builder = more;
                $held.lay(Whose::Receiver(index), Box::new(poller) as Box<dyn End>);
            }
            let $producer = builder.build();
            $body
        }
    }};
}

fn make<A: Copy + Send + Sync + 'static, const N: usize>(many: bool, setup: &Setup, held: &Held) {
    let (size, empty) = (size(many, setup), || Slot::<A, N>::EMPTY);
    if many {
        let builder = build_multi_producer(size, empty, BusySpin);
        build!(builder, setup.receivers, held, producer => {
            for index in 0..setup.senders {
                held.lay(Whose::Sender(index), Box::new(producer.clone()) as Box<dyn End>);
            }
        });
    } else {
        let builder = build_single_producer(size, empty, BusySpin);
        build!(builder, setup.receivers, held, producer => {
            held.lay(Whose::Sender(0), Box::new(producer) as Box<dyn End>);
        });
    }
}

impl<const MANY: bool> Contestant for DisruptorOf<MANY> {
    type Sender = DisruptorSender<MANY>;
    type Receiver = DisruptorReceiver<MANY>;
    type Held = Held;

    fn can() -> Can {
        Can {
            payload: usize::MAX,
            lossless: Ok(()),
            senders: if MANY { Ok(()) } else { Err("this one has one producer") },
            overwrite: Err("a disruptor overwrites nothing"),
            receivers: Ok(()),
            sleeping: Err("a disruptor's pollers do not sleep"),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let size = size(MANY, setup);
        About {
            name: if MANY { "disruptor_many" } else { "disruptor" },
            version: "disruptor 4.4".into(),
            home: Home::Threads,
            settings: format!(
                "{size} slots, try_batch_publish of up to {}, EventPoller::poll, both in place",
                batch(size)
            ),
            waits: Polls::about(setup.pace),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held, CompareError> {
        let held = Held::new(path);
        sized!(setup.payload, N => {
            aligned!(N, A => make::<A, N>(MANY, setup, &held));
            Ok(())
        })?;
        Ok(held)
    }

    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<Self::Sender, CompareError> {
        let end = handed::take(path, Whose::Sender(index))?;
        Ok(DisruptorSender { end, batch: batch(size(MANY, setup)), fan_out: setup.receivers > 1 })
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<Self::Receiver, CompareError> {
        let end = handed::take(path, Whose::Receiver(index))?;
        Ok(DisruptorReceiver { end, waits: Waits::new(setup.pace) })
    }
}

/// The writing end.
pub struct DisruptorSender<const MANY: bool> {
    end: Box<dyn End>,
    batch: usize,
    /// Whether there are several readers, whose progress is another type then.
    fan_out: bool,
}

/// Calls a body with the producer, whatever its type.
macro_rules! with_producer {
    ($self:ident, $many:ident, $a:ident, $n:ident, $producer:ident => $body:expr) => {
        match ($many, $self.fan_out) {
            (false, false) => {
                let $producer = of::<One<$a, $n, SingleConsumerBarrier>>(&mut *$self.end)?;
                $body
            }
            (false, true) => {
                let $producer = of::<One<$a, $n, MultiConsumerBarrier>>(&mut *$self.end)?;
                $body
            }
            (true, false) => {
                let $producer = of::<Many<$a, $n, SingleConsumerBarrier>>(&mut *$self.end)?;
                $body
            }
            (true, true) => {
                let $producer = of::<Many<$a, $n, MultiConsumerBarrier>>(&mut *$self.end)?;
                $body
            }
        }
    };
}

#[inline(always)]
fn publish<A: 'static, const N: usize>(
    producer: &mut impl Producer<Slot<A, N>>,
    numbers: Range<u64>,
    batch: usize,
    mut fill: impl FnMut(&mut [u8; N], u64),
) {
    let mut next = numbers.start;
    while next < numbers.end {
        let count = batch.min(usize::try_from(numbers.end - next).unwrap_or(usize::MAX));
        wait_until(|| {
            let published = producer.try_batch_publish(count, |slots| {
                for (slot, number) in slots.zip(next..) {
                    fill(&mut slot.bytes, number);
                }
            });
            published.ok()
        });
        next += count as u64;
    }
}

impl<const MANY: bool> Sender for DisruptorSender<MANY> {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        let batch = self.batch;
        aligned!(N, A => {
            with_producer!(self, MANY, A, N, producer => publish(producer, numbers, batch, fill));
        });
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        aligned!(N, A => with_producer!(self, MANY, A, N, producer => {
            Ok(producer.try_publish(|slot| fill(&mut slot.bytes, number)).is_ok())
        }))
    }
}

/// The reading end.
pub struct DisruptorReceiver<const MANY: bool> {
    end: Box<dyn End>,
    waits: Waits,
}

/// Shows what a poller has, at most so many, and returns how many they were.
macro_rules! show {
    ($self:ident, $barrier:ty, $a:ident, $n:ident, $most:expr, $visit:ident) => {
        match of::<Poller<$a, $n, $barrier>>(&mut *$self.end)?.take($most) {
            Ok(mut events) => {
                let count = (&mut events).len() as u64;
                for slot in &mut events {
                    $visit(&slot.bytes);
                }
                Ok(count)
            }
            Err(Polling::NoEvents | Polling::Shutdown) => Ok(0),
        }
    };
}

impl<const MANY: bool> DisruptorReceiver<MANY> {
    #[inline(always)]
    fn show<A: Copy + Send + Sync + 'static, const N: usize>(
        &mut self,
        most: u64,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        if MANY {
            show!(self, MultiProducerBarrier, A, N, most, visit)
        } else {
            show!(self, SingleProducerBarrier, A, N, most, visit)
        }
    }
}

impl<const MANY: bool> Receiver for DisruptorReceiver<MANY> {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<u64, CompareError> {
        aligned!(N, A => self.show::<A, N>(u64::MAX, visit))
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<bool, CompareError> {
        aligned!(N, A => self.show::<A, N>(1, visit)).map(|count| count > 0)
    }

    #[inline]
    fn wait(&mut self) {
        let end = &*self.end;
        self.waits.wait(|| end.is_behind());
    }
}
