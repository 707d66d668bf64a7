//! The bare loop over perfring's layout, as in `perfring bench`.

use crate::CompareError;
use crate::contest::waits::Polls;
use crate::contestant::{About, Can, Contestant, Location, Receiver, Sender, Setup};
use perfring_bench::contest::{Policy, Setup as BareSetup, Waits};
use perfring_bench::raw::{FloorReceiver, FloorSender, Mapping};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Two positions on one line, a header word before each payload, raw pointers.
pub struct Floor;

fn bare(setup: &Setup) -> BareSetup {
    let policy = if setup.overwrite { Policy::Overwrite } else { Policy::Drop };
    BareSetup { data_size: setup.data_size, policy, payload: setup.payload, reader: setup.pace }
}

impl Contestant for Floor {
    type Sender = FloorSender;
    type Receiver = Paced;
    type Held = ();

    fn can() -> Can {
        // Without a reader nothing can go wrong.
        Can { overwrite: Ok(()), ..can() }
    }

    fn about(setup: &Setup) -> About {
        About {
            name: "floor",
            version: "raw pointers".to_owned(),
            location: Location::Processes,
            settings: format!(
                "{} KiB, perf's layout, head published per record, tail in eighths",
                setup.data_size / 1024
            ),
            waits: Polls::about(setup.pace),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        Ok(Mapping::create(path, setup.data_size)?)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<FloorSender, CompareError> {
        Ok(FloorSender::open(path, &bare(setup))?)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Paced, CompareError> {
        let inner = FloorReceiver::open(path, &bare(setup))?;
        let again = setup.overwrite.then(|| (path.to_owned(), bare(setup)));
        Ok(Paced { inner, again, waits: Waits::new(setup.pace) })
    }
}

impl Sender for FloorSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        FloorSender::send(self, numbers, fill);
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        Ok(FloorSender::offer(self, number, fill))
    }
}

/// The floor's reader with its waits.
pub struct Paced {
    inner: FloorReceiver,
    /// In overwrite mode it knows where the oldest record is only after the sender's end: opened
    /// again at the first poll, which the harness makes then.
    again: Option<(PathBuf, BareSetup)>,
    waits: Waits,
}

impl Receiver for Paced {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<u64, CompareError> {
        if let Some((path, setup)) = self.again.take() {
            self.inner = FloorReceiver::open(&path, &setup)?;
        }
        Ok(self.inner.drain(visit))
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<bool, CompareError> {
        // A reader that answers each record finds one at most.
        Ok(self.inner.drain(visit) > 0)
    }

    #[inline]
    fn wait(&mut self) {
        let inner = &self.inner;
        self.waits.wait(|| inner.is_behind());
    }
}

/// What bare loops can do.
pub(super) fn can() -> Can {
    Can {
        payload: 65_472,
        lossless: Ok(()),
        senders: Err("a bare loop has one sender"),
        overwrite: Err("a bare loop that overwrites has no reader"),
        receivers: Err("a bare loop has one receiver"),
        sleeping: Err("a bare loop never sleeps"),
        refuses: Ok(()),
    }
}
