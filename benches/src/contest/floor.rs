//! The floor behind the traits. Its loops are in [`crate::raw`]; here is how its reader waits.

use super::ring::{Receiver, Ring, Sender, Setup};
use crate::error::BenchError;
use crate::options::WaitStrategy;
use crate::raw::{FloorReceiver, FloorSender, Mapping};
use std::hint::spin_loop;
use std::ops::Range;
use std::path::Path;

/// The least code that moves the same bytes.
pub struct Floor;

impl Ring for Floor {
    type Sender = FloorSender;
    type Receiver = Paced;

    fn create(path: &Path, setup: &Setup) -> Result<(), BenchError> {
        Mapping::create(path, setup.data_size)
    }

    fn sender(path: &Path, setup: &Setup) -> Result<FloorSender, BenchError> {
        FloorSender::open(path, setup)
    }

    fn receiver(path: &Path, setup: &Setup) -> Result<Paced, BenchError> {
        Ok(Paced { inner: FloorReceiver::open(path, setup)?, waits: Waits::new(setup.reader) })
    }
}

impl Sender for FloorSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), BenchError> {
        FloorSender::send(self, numbers, fill);
        Ok(())
    }
}

/// The floor's reader with its waits.
pub struct Paced {
    inner: FloorReceiver,
    waits: Waits,
}

/// The same three wait strategies, by the same rules, as perfring's.
pub struct Waits {
    wait_strategy: WaitStrategy,
    pauses: u32,
}

/// `PAUSE` instructions of a reader that keeps its distance.
const FAR: u32 = 64;
/// Empty polls after which an adaptive reader comes close again.
const NEAR_AFTER: u32 = 8;
/// Polls after which the caller gets control.
const POLLS: u32 = 64;

impl Receiver for Paced {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<u64, BenchError> {
        Ok(self.inner.drain(visit))
    }

    #[inline]
    fn wait(&mut self) {
        let inner = &self.inner;
        self.waits.wait(|| inner.is_behind());
    }
}

impl Waits {
    /// Waits according to this strategy.
    pub fn new(wait_strategy: WaitStrategy) -> Self {
        Waits { wait_strategy, pauses: 0 }
    }

    /// Waits until `is_behind`, or for some microseconds.
    #[inline]
    pub fn wait(&mut self, is_behind: impl Fn() -> bool) {
        let pauses = match self.wait_strategy {
            WaitStrategy::Latency => 0,
            WaitStrategy::Throughput => FAR,
            WaitStrategy::Adaptive => self.pauses,
        };
        for poll in 0..POLLS {
            for _ in 0..pauses {
                spin_loop();
            }
            if is_behind() {
                // Something arrived at the first polls: the sender is the faster one.
                self.pauses = if poll < NEAR_AFTER { (self.pauses * 2).clamp(1, FAR) } else { 0 };
                return;
            }
            spin_loop();
        }
        self.pauses = 0;
    }
}
