//! The crate crossbeam-queue's `ArrayQueue`, between threads. Records are pushed and popped by
//! value, one by one: it has no other way.

use super::common::Polls;
use super::handed::{self, Held, Whose};
use super::threads::{End, Slot, aligned, of, slots, wait_until};
use super::{About, Can, Contestant, Home, Receiver, Sender, Setup};
use crate::CompareError;
use crossbeam_queue::ArrayQueue;
use perfring_bench::contest::Waits;
use perfring_bench::payload::sized;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A queue of crossbeam's.
pub struct Crossbeam;

type Queue<A, const N: usize> = Arc<ArrayQueue<Slot<A, N>>>;

impl<A: Copy + Send + Sync + 'static, const N: usize> End for Queue<A, N> {
    #[inline(always)]
    fn is_behind(&self) -> bool {
        !self.is_empty()
    }
}

fn make<A: Copy + Send + Sync + 'static, const N: usize>(
    slots: usize,
    senders: usize,
    held: &Held,
) {
    let queue = Queue::<A, N>::new(ArrayQueue::new(slots));
    for index in 0..senders {
        held.lay(Whose::Sender(index), Box::new(Arc::clone(&queue)) as Box<dyn End>);
    }
    held.lay(Whose::Receiver(0), Box::new(queue) as Box<dyn End>);
}

impl Contestant for Crossbeam {
    type Sender = CrossbeamSender;
    type Receiver = CrossbeamReceiver;
    type Held = Held;

    fn can() -> Can {
        Can {
            payload: usize::MAX,
            lossless: Ok(()),
            senders: Ok(()),
            overwrite: Ok(()),
            receivers: Err("each record goes to one receiver"),
            sleeping: Err("an ArrayQueue does not sleep"),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let slots = slots(setup.data_size, setup.payload);
        let push = if setup.overwrite { "force_push" } else { "push" };
        About {
            name: "crossbeam",
            version: "crossbeam-queue 0.3".into(),
            home: Home::Threads,
            settings: format!("ArrayQueue of {slots} slots, {push} and pop by value"),
            waits: Polls::about(setup.pace),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held, CompareError> {
        let held = Held::new(path);
        let slots = slots(setup.data_size, setup.payload);
        sized!(setup.payload, N => {
            aligned!(N, A => make::<A, N>(slots, setup.senders, &held));
            Ok(())
        })?;
        Ok(held)
    }

    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<CrossbeamSender, CompareError> {
        let end = handed::take(path, Whose::Sender(index))?;
        Ok(CrossbeamSender { end, overwrite: setup.overwrite })
    }

    fn receiver(
        path: &Path,
        setup: &Setup,
        index: usize,
    ) -> Result<CrossbeamReceiver, CompareError> {
        let end = handed::take(path, Whose::Receiver(index))?;
        let most = slots(setup.data_size, setup.payload) as u64;
        Ok(CrossbeamReceiver { end, most, waits: Waits::new(setup.pace) })
    }
}

/// The writing end.
pub struct CrossbeamSender {
    end: Box<dyn End>,
    overwrite: bool,
}

impl Sender for CrossbeamSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        aligned!(N, A => {
            let queue = of::<Queue<A, N>>(&mut *self.end)?;
            let mut record = |number| {
                let mut slot = Slot::<A, N>::EMPTY;
                fill(&mut slot.bytes, number);
                slot
            };
            if self.overwrite {
                for number in numbers {
                    queue.force_push(record(number));
                }
            } else {
                for number in numbers {
                    if let Err(mut slot) = queue.push(record(number)) {
                        wait_until(|| queue.push(slot).map_err(|back| slot = back).ok());
                    }
                }
            }
            Ok(())
        })
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        aligned!(N, A => {
            let mut slot = Slot::<A, N>::EMPTY;
            fill(&mut slot.bytes, number);
            Ok(of::<Queue<A, N>>(&mut *self.end)?.push(slot).is_ok())
        })
    }
}

/// The reading end.
pub struct CrossbeamReceiver {
    end: Box<dyn End>,
    /// Records of one `drain`, lest one never end while senders keep up.
    most: u64,
    waits: Waits,
}

impl CrossbeamReceiver {
    #[inline(always)]
    fn show<A: Copy + Send + Sync + 'static, const N: usize>(
        &mut self,
        most: u64,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let queue = of::<Queue<A, N>>(&mut *self.end)?;
        let mut count = 0;
        while count < most
            && let Some(slot) = queue.pop()
        {
            visit(&slot.bytes);
            count += 1;
        }
        Ok(count)
    }
}

impl Receiver for CrossbeamReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<u64, CompareError> {
        let most = self.most;
        aligned!(N, A => self.show::<A, N>(most, visit))
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
