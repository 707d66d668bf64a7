//! The reading end of a ring.

use super::ring::error;
use crate::CompareError;
use crate::contestant::{Receiver, Setup};
use perfring_bench::WaitStrategy;
use perfring_consumer::{Consumer, ConsumerOptions, Item, Observer, ObserverOptions};
use std::path::Path;
use std::time::Duration;

/// How long a reader spins before its caller gets control.
const SPIN: Duration = Duration::from_micros(50);
/// The same where several readers share a core: what the one waits for may be that another gets it.
const SPIN_BESIDE: Duration = Duration::ZERO;

/// The reader for the mode, and the losses that were reported to it.
pub struct Reader {
    end: End,
    spin: Duration,
    reported: u64,
    /// Whether what the ring counts as refused is lost.
    counts: bool,
}

enum End {
    /// For a lossless ring: reads in place.
    Consumer(Consumer),
    /// For an overwrite ring: copies, and slows no producer.
    Observer(Observer),
}

impl Reader {
    /// Attaches.
    pub(super) fn open(path: &Path, setup: &Setup) -> Result<Self, CompareError> {
        Self::open_paced(path, setup, Some(setup.pace))
    }

    /// Attaches, and chooses how to wait, or does not.
    pub(super) fn open_paced(
        path: &Path,
        setup: &Setup,
        pace: Option<WaitStrategy>,
    ) -> Result<Self, CompareError> {
        let wait = pace.map_or_else(Default::default, Into::into);
        let end = if setup.overwrite {
            let options = ObserverOptions { wait, ..ObserverOptions::default() };
            End::Observer(Observer::attach_with(path, &options).map_err(error)?)
        } else {
            let options = ConsumerOptions { wait, ..ConsumerOptions::default() };
            End::Consumer(Consumer::attach_with(path, &options).map_err(error)?)
        };
        Ok(Reader { end, spin: SPIN, reported: 0, counts: true })
    }

    /// Reads as a consumer that has attached by its name.
    pub(super) fn of(consumer: Consumer, setup: &Setup) -> Self {
        let spin = if setup.receivers > 1 { SPIN_BESIDE } else { SPIN };
        Reader { end: End::Consumer(consumer), spin, reported: 0, counts: true }
    }

    /// Says whether what the ring counts as refused is lost.
    pub(super) fn counting(self, counts: bool) -> Self {
        Reader { counts, ..self }
    }
}

impl Receiver for Reader {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let (mut count, reported) = (0, &mut self.reported);
        // A record of a wrong length shows as missing.
        let each = |item: Item<'_>| match item {
            Item::Record(record) => {
                if let Ok(bytes) = record.bytes.try_into() {
                    visit(bytes);
                    count += 1;
                }
            }
            Item::Lost(lost) => *reported += lost.records,
        };
        match &mut self.end {
            End::Consumer(consumer) => consumer.drain(each),
            End::Observer(observer) => observer.drain(each),
        }
        .map_err(error)?;
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        let item = match &mut self.end {
            End::Consumer(consumer) => consumer.read(),
            End::Observer(observer) => observer.read(),
        };
        match item.map_err(error)? {
            Some(Item::Record(record)) => {
                let Ok(bytes) = record.bytes.try_into() else { return Ok(false) };
                visit(bytes);
                Ok(true)
            }
            Some(Item::Lost(lost)) => {
                self.reported += lost.records;
                Ok(false)
            }
            None => Ok(false),
        }
    }

    #[inline]
    fn wait(&mut self) {
        match &mut self.end {
            End::Consumer(consumer) => consumer.spin(self.spin),
            End::Observer(observer) => observer.wait(self.spin),
        };
    }

    fn sleep(&mut self, timeout: Duration) -> Result<(), CompareError> {
        match &mut self.end {
            End::Consumer(consumer) => consumer.sleep(timeout),
            End::Observer(observer) => {
                observer.wait(timeout);
            }
        }
        Ok(())
    }

    fn reported_lost(&mut self) -> Option<u64> {
        self.counts.then_some(self.reported)
    }
}
