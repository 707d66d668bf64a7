//! Records of any length, one producer, which overwrites.

use super::attach::{Sleeper, VERSION, attach, waits};
use crate::CompareError;
use crate::contest::slots::slots;
use crate::contest::waits::{PATIENCE, Polls};
use crate::contestant::{About, Can, Contestant, Location, Receiver, Sender, Setup, failed};
use ringfire::{BlobConsumer, BlobProducer};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// `BlobProducer` and `BlobConsumer`.
pub struct Blobs;

const NAME: &str = "ringfire blobs";

/// Returns as many descriptors as the arena has room for payloads.
fn descriptors(setup: &Setup) -> u64 {
    slots(setup.data_size, setup.payload.next_multiple_of(64))
}

impl Contestant for Blobs {
    type Sender = BlobSender;
    type Receiver = BlobReceiver;
    type Held = ();

    fn can() -> Can {
        Can {
            payload: 1 << 30,
            lossless: Err("its blobs have no back-pressure: the producer always overwrites"),
            senders: Err("one producer"),
            overwrite: Ok(()),
            receivers: Ok(()),
            sleeping: Ok(()),
            refuses: Err("its blobs always overwrite"),
        }
    }

    fn about(setup: &Setup) -> About {
        let settings = format!(
            "arena of {} bytes, {} descriptors, push_with in place, recv copies",
            setup.data_size,
            descriptors(setup)
        );
        let (version, waits) = (VERSION.to_owned(), waits(setup));
        About { name: NAME, version, location: Location::Processes, settings, waits }
    }

    fn create(_: &Path, setup: &Setup) -> Result<(), CompareError> {
        // The producer creates the file.
        if setup.senders > 1 || !setup.overwrite {
            return Err(failed(NAME)("one producer, which overwrites"));
        }
        Ok(())
    }

    fn sender(path: &Path, setup: &Setup, _: usize) -> Result<BlobSender, CompareError> {
        let arena = usize::try_from(setup.data_size).unwrap_or(usize::MAX);
        let ring = BlobProducer::create(path, descriptors(setup), arena).map_err(failed(NAME))?;
        Ok(BlobSender { ring })
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<BlobReceiver, CompareError> {
        let ring = attach(NAME, path, |path| BlobConsumer::attach(path))?;
        let sleeper = Sleeper::new(path, setup)?;
        let out = vec![0; setup.payload];
        Ok(BlobReceiver { ring, out, polls: Polls::new(setup.pace), sleeper })
    }
}

/// Its writing end.
pub struct BlobSender {
    ring: BlobProducer<()>,
}

impl Sender for BlobSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        for number in numbers {
            self.ring
                .push_with(&(), N, |bytes| {
                    if let Some(slot) = bytes.first_chunk_mut() {
                        fill(slot, number);
                    }
                })
                .map_err(failed(NAME))?;
        }
        Ok(())
    }

    #[inline(always)]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        self.send(number..number + 1, fill)?;
        Ok(true)
    }
}

/// Its reading end. It copies: what a closure sees in place may be overwritten meanwhile.
pub struct BlobReceiver {
    ring: BlobConsumer<()>,
    out: Vec<u8>,
    polls: Polls,
    sleeper: Sleeper,
}

impl Receiver for BlobReceiver {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        while self.next(&mut visit)? {
            count += 1;
        }
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        let found = self.ring.recv(&mut (), &mut self.out).map_err(failed(NAME))?;
        if found.is_none() {
            return Ok(false);
        }
        if let Some(record) = self.out.first_chunk() {
            visit(record);
        }
        self.polls.found();
        Ok(true)
    }

    #[inline]
    fn wait(&mut self) {
        self.polls.wait();
    }

    fn sleep(&mut self, timeout: Duration) -> Result<(), CompareError> {
        self.sleeper.sleep(self.ring.cursor(), timeout.min(PATIENCE))
    }

    fn reported_lost(&mut self) -> Option<u64> {
        Some(self.ring.lapped_count())
    }
}
