//! The floor behind the traits. Its loops are in [`crate::raw`].

use crate::contestant::{About, Can, Contestant, Fill, Location, Receiver, Sender, Setup, Visit};
use crate::error::Result;
use crate::raw::{FloorReceiver, FloorSender, Mapping};
use crate::waits::Waits;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Two positions on one line, a header word before each payload, raw pointers: the least code that
/// moves the same bytes in perfring's layout.
pub struct Floor;

/// Returns what bare loops can do.
pub fn bare_loop() -> Can {
    Can {
        senders: Err("a bare loop has one sender"),
        overwrite: Err("a bare loop that overwrites has no reader"),
        receivers: Err("a bare loop has one receiver"),
        sleeping: Err("a bare loop never sleeps"),
        ..Can::all(65_472)
    }
}

impl Contestant for Floor {
    type Sender = FloorSender;
    type Receiver = Paced;
    type Held = ();

    fn can() -> Can {
        // Without a reader nothing can go wrong.
        Can { overwrite: Ok(()), ..bare_loop() }
    }

    fn about(setup: &Setup) -> About {
        About {
            version: "raw pointers".to_owned(),
            location: Location::Processes,
            settings: format!(
                "{} KiB, perf's layout, head published per record, tail in eighths",
                setup.data_size / 1024
            ),
            waits: setup.pace.polls(),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        Mapping::create(path, setup.data_size)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<FloorSender> {
        FloorSender::open(path, setup)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Paced> {
        let inner = FloorReceiver::open(path, setup)?;
        let again = setup.overwrite.then(|| (path.to_owned(), setup.clone()));
        Ok(Paced { inner, again, waits: Waits::new(setup.pace) })
    }
}

impl Sender for FloorSender {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, fill: impl Fill<N>) -> Result<()> {
        FloorSender::send(self, numbers, fill);
        Ok(())
    }

    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        Ok(FloorSender::offer(self, number, fill))
    }
}

/// The floor's reader with its waits.
pub struct Paced {
    inner: FloorReceiver,
    /// In overwrite mode it knows where the oldest record is only after the sender's end: opened
    /// again at the first poll, which the harness makes then.
    again: Option<(PathBuf, Setup)>,
    waits: Waits,
}

impl Receiver for Paced {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, visit: impl Visit<N>) -> Result<u64> {
        if let Some((path, setup)) = self.again.take() {
            self.inner = FloorReceiver::open(&path, &setup)?;
        }
        Ok(self.inner.drain(visit))
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, visit: impl Visit<N>) -> Result<bool> {
        // A reader that answers each record finds one at most.
        Ok(self.inner.drain(visit) > 0)
    }

    #[inline]
    fn wait(&mut self) {
        let inner = &self.inner;
        self.waits.wait(|| inner.is_behind());
    }
}
