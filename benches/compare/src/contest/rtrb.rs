//! The crate rtrb, between threads: chunks of slots are written and read in place.

use crate::contest::handed::{self, Held, Whose};
use crate::contest::slots::{Slot, aligned};
use perfring_bench::contestant::{
    About, Can, Contestant, Fill, Location, Receiver, Sender, Setup, Visit,
};
use perfring_bench::payload::sized;
use perfring_bench::waits::Room;
use perfring_bench::waits::Waits;
use perfring_bench::{BenchError, Result};
use rtrb::{Consumer, Producer, RingBuffer};
use std::any::Any;
use std::ops::Range;
use std::path::Path;

/// An rtrb queue.
pub struct Rtrb;

/// Returns the slots that are written before the reader sees them: as many as a sender is asked
/// for, but no more than a part of the queue.
fn chunk(capacity: usize) -> usize {
    (capacity / 8).max(1)
}

/// An end, whatever the length of its slots.
trait End: Any + Send {
    /// Returns whether there is something to read, for a reading end.
    fn is_behind(&self) -> bool;
}

/// Returns the end as one with slots of a known length.
#[inline(always)]
fn of<T: Any>(end: &mut dyn End) -> Result<&mut T> {
    let end: &mut dyn Any = end;
    end.downcast_mut().ok_or(BenchError::Cannot("take records of another length"))
}

/// Returns the slots of a queue of so many bytes.
fn slots(data_size: u64, payload: usize) -> usize {
    usize::try_from(data_size).unwrap_or(usize::MAX).checked_div(payload).unwrap_or(0).max(2)
}

impl<A: Copy + Send + 'static, const N: usize> End for Producer<Slot<A, N>> {
    fn is_behind(&self) -> bool {
        false
    }
}

impl<A: Copy + Send + 'static, const N: usize> End for Consumer<Slot<A, N>> {
    #[inline(always)]
    fn is_behind(&self) -> bool {
        !self.is_empty()
    }
}

/// Creates a queue whose slots have all been written once.
fn make<A: Copy + Send + 'static, const N: usize>(capacity: usize, held: &Held) {
    let (mut producer, mut consumer) = RingBuffer::<Slot<A, N>>::new(capacity);
    while producer.push(Slot::EMPTY).is_ok() {}
    while consumer.pop().is_ok() {}
    held.lay(Whose::Sender(0), Box::new(producer) as Box<dyn End>);
    held.lay(Whose::Receiver(0), Box::new(consumer) as Box<dyn End>);
}

impl Contestant for Rtrb {
    type Sender = RtrbSender;
    type Receiver = RtrbReceiver;
    type Held = Held;

    fn can() -> Can {
        Can {
            payload: usize::MAX,
            lossless: Ok(()),
            senders: Err("rtrb has one producer"),
            overwrite: Err("rtrb overwrites nothing"),
            receivers: Err("rtrb has one consumer"),
            sleeping: Err("rtrb does not sleep"),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let slots = slots(setup.data_size, setup.payload);
        About {
            name: "rtrb",
            version: "rtrb 0.4".into(),
            location: Location::Threads,
            settings: format!(
                "{slots} slots, chunks written and read in place, up to {} a chunk",
                chunk(slots)
            ),
            waits: setup.pace.polls(),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held> {
        let held = Held::new(path);
        let slots = slots(setup.data_size, setup.payload);
        sized!(setup.payload, N => {
            aligned!(N, A => make::<A, N>(slots, &held));
            Ok(())
        })?;
        Ok(held)
    }

    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<RtrbSender> {
        let chunk = chunk(slots(setup.data_size, setup.payload));
        Ok(RtrbSender { end: handed::take(path, Whose::Sender(index))?, chunk })
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<RtrbReceiver> {
        let end = handed::take(path, Whose::Receiver(index))?;
        Ok(RtrbReceiver { end, waits: Waits::new(setup.pace) })
    }
}

/// The writing end.
pub struct RtrbSender {
    end: Box<dyn End>,
    chunk: usize,
}

impl RtrbSender {
    #[inline(always)]
    fn send_as<A: Copy + Send + 'static, const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl Fill<N>,
    ) -> Result<()> {
        let producer = of::<Producer<Slot<A, N>>>(&mut *self.end)?;
        let (mut next, mut room) = (numbers.start, Room::default());
        while next < numbers.end {
            let most = self.chunk.min(usize::try_from(numbers.end - next).unwrap_or(usize::MAX));
            // The cached progress of the reader first: a poll costs a transfer.
            let mut free = producer.cached_slots();
            while free == 0 {
                free = producer.slots();
                if free == 0 {
                    room.wait();
                }
            }
            let count = free.min(most);
            let Ok(mut chunk) = producer.write_chunk_uninit(count) else { continue };
            let (first, second) = chunk.as_mut_slices();
            for (slot, number) in first.iter_mut().chain(second).zip(next..) {
                // SAFETY: `make` has written every slot, and a plain record is not taken out of it
                // when it is read.
                fill(unsafe { &mut slot.assume_init_mut().bytes }, number);
            }
            // SAFETY: as above, all of them hold a record.
            unsafe { chunk.commit_all() };
            next += count as u64;
        }
        Ok(())
    }
}

impl Sender for RtrbSender {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, fill: impl Fill<N>) -> Result<()> {
        aligned!(N, A => self.send_as::<A, N>(numbers, fill))
    }

    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        let full = aligned!(N, A => of::<Producer<Slot<A, N>>>(&mut *self.end)?.is_full());
        if !full {
            self.send::<N>(number..number + 1, fill)?;
        }
        Ok(!full)
    }
}

/// The reading end.
pub struct RtrbReceiver {
    end: Box<dyn End>,
    waits: Waits,
}

impl RtrbReceiver {
    #[inline(always)]
    fn show<A: Copy + Send + 'static, const N: usize>(
        &mut self,
        most: usize,
        mut visit: impl Visit<N>,
    ) -> Result<u64> {
        let consumer = of::<Consumer<Slot<A, N>>>(&mut *self.end)?;
        let count = consumer.slots().min(most);
        let Ok(chunk) = consumer.read_chunk(count) else { return Ok(0) };
        let (first, second) = chunk.as_slices();
        for slot in first.iter().chain(second) {
            visit(&slot.bytes);
        }
        chunk.commit_all();
        Ok(count as u64)
    }
}

impl Receiver for RtrbReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, visit: impl Visit<N>) -> Result<u64> {
        aligned!(N, A => self.show::<A, N>(usize::MAX, visit))
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, visit: impl Visit<N>) -> Result<bool> {
        aligned!(N, A => self.show::<A, N>(1, visit)).map(|count| count > 0)
    }

    #[inline]
    fn wait(&mut self) {
        let end = &*self.end;
        self.waits.wait(|| end.is_behind());
    }
}
