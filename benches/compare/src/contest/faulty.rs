//! Contestants with faults, one each, for testing the harness. Only tests ask for them.

use crate::contest::limits::Slots;
use perfring_bench::Result;
use perfring_bench::contestant::{About, Can, Contestant, Fill, Receiver, Sender, Setup, Visit};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// No fault.
pub const NOTHING: u8 = 0;
/// The writing end never opens.
pub const HANGS: u8 = 1;
/// The writing process ends in the middle.
pub const DIES: u8 = 2;
/// A byte is changed in transit.
pub const DAMAGES: u8 = 3;
/// A record is skipped.
pub const LOSES: u8 = 4;
/// A record is skipped, and no loss is reported.
pub const LIES: u8 = 5;

/// How long one that hangs is waited for. It is never sound.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// The record that the fault affects.
const VICTIM: u64 = 700;

type Inner = Slots;

/// A bare loop with this fault.
pub struct Faulty<const FAULT: u8>;

impl<const FAULT: u8> Contestant for Faulty<FAULT> {
    type Sender = FaultySender<FAULT>;
    type Receiver = FaultyReceiver<FAULT>;
    type Held = ();

    fn can() -> Can {
        // Losses are no fault where it may overwrite; a wrong report of them is.
        Can { overwrite: Ok(()), ..Inner::can() }
    }

    fn patience(run: Duration) -> Duration {
        if FAULT == HANGS { PATIENCE.min(run) } else { run }
    }

    fn about(setup: &Setup) -> About {
        Inner::about(setup)
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        Inner::create(path, setup)
    }

    fn sender(path: &Path, setup: &Setup, index: usize) -> Result<Self::Sender> {
        if FAULT == HANGS {
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        Inner::sender(path, setup, index).map(FaultySender)
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<Self::Receiver> {
        Inner::receiver(path, setup, index).map(FaultyReceiver)
    }
}

/// Its writing end.
pub struct FaultySender<const FAULT: u8>(<Inner as Contestant>::Sender);

impl<const FAULT: u8> Sender for FaultySender<FAULT> {
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        if FAULT == DIES && numbers.contains(&VICTIM) {
            eprintln!("the sender's last words");
            std::process::abort();
        }
        for number in numbers {
            if matches!(FAULT, LOSES | LIES) && number == VICTIM {
                continue;
            }
            self.0.send::<N>(number..number + 1, |slot, number| {
                fill(slot, number);
                if FAULT == DAMAGES && number == VICTIM {
                    slot[N / 2] ^= 1;
                }
            })?;
        }
        Ok(())
    }

    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        self.0.offer(number, fill)
    }
}

/// Its reading end.
pub struct FaultyReceiver<const FAULT: u8>(<Inner as Contestant>::Receiver);

impl<const FAULT: u8> Receiver for FaultyReceiver<FAULT> {
    fn drain<const N: usize>(&mut self, visit: impl Visit<N>) -> Result<u64> {
        self.0.drain(visit)
    }

    fn next<const N: usize>(&mut self, visit: impl Visit<N>) -> Result<bool> {
        self.0.next(visit)
    }

    fn wait(&mut self) {
        self.0.wait();
    }

    fn reported_lost(&mut self) -> Option<u64> {
        (FAULT == LIES).then_some(0)
    }
}
