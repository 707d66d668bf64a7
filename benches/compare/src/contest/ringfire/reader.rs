//! The reading end of fixed slots, for one or many producers.

use super::attach::{Sleeper, attach};
use crate::CompareError;
use crate::contest::slots::Erased;
use crate::contest::waits::{PATIENCE, Polls};
use crate::contestant::{Receiver, Setup};
use perfring_bench::{BenchError, payload::sized};
use ringfire::RingConsumer;
use std::path::Path;
use std::time::Duration;

/// Bytes of a batch: enough records to share a publication, few enough to stay in the first cache.
const BATCH: usize = 4096;

/// Returns how many records a batch has.
pub(super) const fn batch(payload: usize) -> usize {
    let fit = BATCH / payload;
    if fit == 0 {
        1
    } else if fit > 64 {
        64
    } else {
        fit
    }
}

struct Reader<const N: usize> {
    ring: RingConsumer<[u8; N]>,
    batch: Vec<[u8; N]>,
}

/// Its reading end.
pub struct SlotReceiver {
    end: Erased,
    polls: Polls,
    sleeper: Sleeper,
    cursor: u64,
    lapped: u64,
    /// The last poll returned everything present.
    caught_up: bool,
}

impl SlotReceiver {
    pub(super) fn new(
        name: &'static str,
        path: &Path,
        setup: &Setup,
    ) -> Result<Self, CompareError> {
        let end = sized!(setup.payload, N => Ok::<_, BenchError>(
            attach(name, path, |path| RingConsumer::<[u8; N]>::attach(path))
                .map(|ring| Erased::new(Reader { ring, batch: vec![[0; N]; batch(N)] }))
        ))??;
        let sleeper = Sleeper::new(path, setup)?;
        let polls = Polls::new(setup.pace);
        Ok(SlotReceiver { end, polls, sleeper, cursor: 1, lapped: 0, caught_up: false })
    }
}

impl Receiver for SlotReceiver {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        // It polls the very slot that is written next. A reader close behind its sender takes that
        // line away for a few records each time, so it keeps its distance, by its wait strategy.
        if self.caught_up {
            self.polls.wait();
        }
        let end = self.end.get::<Reader<N>>()?;
        let mut total = 0;
        loop {
            let count = end.ring.recv_batch(&mut end.batch);
            for record in &end.batch[..count] {
                visit(record);
            }
            total += count as u64;
            if count < end.batch.len() {
                break;
            }
        }
        self.caught_up = total > 0;
        if self.caught_up {
            self.polls.found();
        }
        (self.cursor, self.lapped) = (end.ring.cursor(), end.ring.lapped_count());
        Ok(total)
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        let end = self.end.get::<Reader<N>>()?;
        let found = end.ring.try_recv();
        (self.cursor, self.lapped) = (end.ring.cursor(), end.ring.lapped_count());
        let Some(record) = found else { return Ok(false) };
        visit(&record);
        self.polls.found();
        Ok(true)
    }

    #[inline]
    fn wait(&mut self) {
        self.polls.wait();
    }

    fn sleep(&mut self, timeout: Duration) -> Result<(), CompareError> {
        // Its own producer side bounds a sleep that would otherwise not end.
        self.sleeper.sleep(self.cursor, timeout.min(PATIENCE))
    }

    fn reported_lost(&mut self) -> Option<u64> {
        Some(self.lapped)
    }
}
