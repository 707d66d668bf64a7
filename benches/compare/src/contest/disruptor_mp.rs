//! The crate disruptor-mp, over POSIX shared memory: batches are published and read in place, and
//! every reader gets every record. The producer creates the segments; each reader adds its cursor.

use crate::CompareError;
use crate::contest::slots::{Erased, Slot, aligned, slots};
use crate::contest::waits::{Polls, until, wait_until};
use crate::contestant::{About, Can, Contestant, Location, Receiver, Sender, Setup, failed};
use disruptor_mp::{
    CoordinationMode, SharedConsumer, SharedDisruptorBuilder, SharedMemoryConfig, SharedProducer,
};
use nix::sys::mman::shm_unlink;
use perfring_bench::payload::sized;
use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;

/// A disruptor between processes.
pub struct DisruptorMp;

const NAME: &str = "disruptor-mp";
/// The prefix of readers' names.
const READER: &str = "c";

fn size(setup: &Setup) -> usize {
    slots(setup.data_size, setup.payload) as usize
}

/// Records of one batch.
fn batch(size: usize) -> usize {
    (size / 8).max(1)
}

/// Names its shared memory after the directory of the path, so that it can be removed even if the
/// process was killed.
fn name(path: &Path) -> String {
    let part = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("{}-{}", path.parent().map(part).unwrap_or_default(), part(path))
}

fn builder<E: Copy + Default + 'static>(
    path: &Path,
    setup: &Setup,
    create: bool,
) -> SharedDisruptorBuilder<E> {
    let (name, buffer_size, element_size) = (name(path), size(setup), size_of::<E>());
    SharedDisruptorBuilder::new(SharedMemoryConfig { name, buffer_size, element_size, create })
}

fn producer<E: Copy + Default + 'static>(
    path: &Path,
    setup: &Setup,
) -> Result<Erased, CompareError> {
    let mut producer = builder::<E>(path, setup, true)
        .discover_consumer_with_prefix(setup.receivers, READER)
        .with_coordination(CoordinationMode::Immediate)
        .build_producer(E::default)
        .map_err(failed(NAME))?;
    // It waits only for readers that it knows of.
    until(NAME, "its readers did not come", || {
        let known = (0..setup.receivers)
            .filter(|index| producer.discover_consumer_id(&format!("{READER}_{index}")))
            .count();
        Ok((known == setup.receivers).then_some(()))
    })?;
    Ok(Erased::new(producer))
}

fn consumer<E: Copy + Default + 'static>(
    path: &Path,
    setup: &Setup,
    index: usize,
) -> Result<Erased, CompareError> {
    until(NAME, "no producer came", || {
        let consumer = builder::<E>(path, setup, false)
            .with_consumer_id(&format!("{READER}_{index}"))
            .build_consumer();
        // Not present yet, or not complete.
        Ok(consumer.ok().map(Erased::new))
    })
}

impl Contestant for DisruptorMp {
    type Sender = MpSender;
    type Receiver = MpReceiver;
    type Held = Cursors;

    fn can() -> Can {
        Can {
            payload: usize::MAX,
            lossless: Ok(()),
            senders: Err("disruptor-mp has one producer"),
            overwrite: Err("its producer waits for its slowest reader"),
            receivers: Ok(()),
            sleeping: Err("nothing wakes its readers: they nap and poll again"),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let size = size(setup);
        About {
            name: NAME,
            version: "disruptor-mp 0.1.0-alpha.2".to_owned(),
            location: Location::Processes,
            settings: format!(
                "{size} slots in POSIX shared memory, try_batch_publish of up to {} and \
                 process_available in place",
                batch(size)
            ),
            waits: Polls::about(setup.pace),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Cursors, CompareError> {
        // The producer creates the segments.
        let name = name(path);
        let cursor = |index| format!("{name}_{READER}_{index}_seq");
        Ok(Cursors((0..setup.receivers).map(cursor).collect()))
    }

    fn sender(path: &Path, setup: &Setup, _: usize) -> Result<MpSender, CompareError> {
        let end = sized!(setup.payload, N => {
            Ok(aligned!(N, A => producer::<Slot<A, N>>(path, setup)))
        })??;
        Ok(MpSender { end, batch: batch(size(setup)) })
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<MpReceiver, CompareError> {
        let end = sized!(setup.payload, N => {
            Ok(aligned!(N, A => consumer::<Slot<A, N>>(path, setup, index)))
        })??;
        Ok(MpReceiver { end, polls: Polls::new(setup.pace) })
    }
}

/// Names of the readers' cursors, which nothing else removes.
pub struct Cursors(Vec<String>);

impl Drop for Cursors {
    fn drop(&mut self) {
        for name in &self.0 {
            // A reader that did not attach has created none.
            let _ = shm_unlink(name.as_str());
        }
    }
}

/// The writing end.
pub struct MpSender {
    end: Erased,
    batch: usize,
}

impl Sender for MpSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        aligned!(N, A => {
            let end = self.end.get::<SharedProducer<Slot<A, N>>>()?;
            // It takes a batch from a closure that may be called concurrently.
            let fill = RefCell::new(fill);
            let mut next = numbers.start;
            while next < numbers.end {
                let count = self.batch.min((numbers.end - next) as usize);
                wait_until(|| {
                    end.try_batch_publish(count, |slot, at| {
                        fill.borrow_mut()(&mut slot.bytes, next + at as u64);
                    })
                    .ok()
                });
                next += count as u64;
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
            let end = self.end.get::<SharedProducer<Slot<A, N>>>()?;
            Ok(end.try_publish(|slot| fill(&mut slot.bytes, number)).is_ok())
        })
    }
}

/// The reading end.
pub struct MpReceiver {
    end: Erased,
    polls: Polls,
}

impl Receiver for MpReceiver {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        aligned!(N, A => {
            let end = self.end.get::<SharedConsumer<Slot<A, N>>>()?;
            let count = end.process_available(|slot, _| visit(&slot.bytes));
            if count > 0 {
                self.polls.found();
            }
            Ok(count as u64)
        })
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        aligned!(N, A => {
            let end = self.end.get::<SharedConsumer<Slot<A, N>>>()?;
            let Some(slot) = end.try_consume_next_leased() else { return Ok(false) };
            visit(&slot.bytes);
            self.polls.found();
            Ok(true)
        })
    }

    #[inline]
    fn wait(&mut self) {
        self.polls.wait();
    }
}
