//! The consumer's side, for a ring of ours and the kernel's.

use super::audit::{Begin, Losses, Seen, Tally};
use crate::bpf;
use crate::contest::floor::Waits;
use crate::contest::ring::{Contestant, failed};
use crate::error::BenchError;
use crate::options::WaitStrategy;
use perfring_consumer::{Consumer, Item, Snapshot, Stat};
use std::path::Path;
use std::thread::yield_now;
use std::time::Duration;

/// How long a reader spins before its caller looks elsewhere.
const SPIN: Duration = Duration::from_micros(50);
/// Empty waits between two checks whether the producers are still there.
const PATIENT_WAITS: u32 = 4096;

fn error(source: impl std::error::Error + Send + Sync + 'static) -> BenchError {
    failed(Contestant::Perfring)(Box::new(source))
}

/// A reading end that knows of losses.
pub(crate) trait Source {
    /// Shows every item that is there, and returns how many they were. Never waits.
    fn drain<const N: usize>(&mut self, seen: &mut Seen) -> Result<u64, BenchError>;

    /// Waits by its pace until there is something to read, or for some microseconds.
    fn wait(&mut self);

    /// Hands back everything that was read.
    fn finish(&mut self) {}
}

/// A consumer of ours with this pace.
pub(crate) fn consumer(path: &Path, wait_strategy: WaitStrategy) -> Result<Consumer, BenchError> {
    let mut consumer = Consumer::attach(path).map_err(error)?;
    consumer.set_wait_strategy(wait_strategy.into());
    Ok(consumer)
}

impl Source for Consumer {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, seen: &mut Seen) -> Result<u64, BenchError> {
        let mut count = 0;
        while let Some(item) = self.read().map_err(error)? {
            match item {
                Item::Record(record) => match record.bytes.try_into() {
                    Ok(bytes) => seen.see::<N>(bytes),
                    Err(_) => seen.bad += 1,
                },
                Item::Lost(lost) => seen.reported.count(lost.cause, lost.records),
            }
            count += 1;
        }
        Ok(count)
    }

    fn wait(&mut self) {
        self.spin(SPIN);
    }

    fn finish(&mut self) {
        self.release();
    }
}

/// The kernel's ring, read with the waits of the floor.
pub(crate) struct Kernel {
    pub(crate) reader: bpf::Reader,
    pub(crate) waits: Waits,
}

impl Source for Kernel {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, seen: &mut Seen) -> Result<u64, BenchError> {
        Ok(self.reader.drain::<N>(|bytes| seen.see(bytes)))
    }

    fn wait(&mut self) {
        let reader = &self.reader;
        self.waits.wait(|| reader.is_behind());
    }
}

/// Whether a reader has its core to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Core {
    Own,
    /// It gives the core up when it finds nothing.
    Shared,
}

/// Reads and verifies until the producers have said that they are done and nothing is left.
#[inline(never)]
pub(crate) fn consume<const N: usize>(
    source: &mut impl Source,
    core: Core,
    seen: &mut Seen,
    done: impl Fn() -> bool,
    mut alive: impl FnMut() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut idle = 0u32;
    loop {
        // Read before draining: what was published before the word is then seen.
        let last = done();
        if source.drain::<N>(seen)? > 0 {
            idle = 0;
        } else if last {
            return Ok(());
        } else {
            source.wait();
            idle += 1;
            if core == Core::Shared || idle.is_multiple_of(PATIENT_WAITS) {
                yield_now();
            }
            if idle.is_multiple_of(PATIENT_WAITS) {
                alive()?;
            }
        }
    }
}

/// After the end of a drop ring whose consumer has `seen` everything: by how much the ring's
/// figures differ from that and from the producers', and what could not be told any more.
pub(crate) fn totals(
    path: &Path,
    seen: &Seen,
    producers: &[Tally],
) -> Result<(u64, Losses), BenchError> {
    let stat = Stat::read(path).map_err(error)?;
    let Some(totals) = stat.totals else { return Ok((1, Losses::default())) };
    let sum = Tally::sum(producers);
    let refused = Losses::from(totals.producer.refused);
    let bad = totals.producer.written.records.abs_diff(sum.published)
        + totals.consumer.read.records.abs_diff(seen.records)
        + totals.present.records
        + totals.stranded.records
        + u64::from(refused != sum.refused);
    Ok((bad, refused - Losses::from(totals.producer.reported)))
}

/// What is left of an overwrite ring after its producers' end: verified, and counted against what
/// they say. Returns what is wrong.
pub(crate) fn post_mortem<const N: usize>(
    path: &Path,
    producers: &[Tally],
) -> Result<u64, BenchError> {
    let snapshot = Snapshot::take(path).map_err(error)?;
    let (totals, sum) = (snapshot.totals(), Tally::sum(producers));
    let mut seen = Seen::new(Begin::Oldest);
    for item in &snapshot {
        match item.map_err(error)? {
            Item::Record(record) => match record.bytes.try_into() {
                Ok(bytes) => seen.see::<N>(bytes),
                Err(_) => seen.bad += 1,
            },
            Item::Lost(lost) => seen.reported.count(lost.cause, lost.records),
        }
    }
    seen.settle_rest(producers, totals.present.records);
    let written = totals.producer.written.records;
    Ok(seen.bad
        + written.abs_diff(sum.published)
        + written.abs_diff(totals.overwritten.records + totals.present.records)
        + totals.stranded.records
        + u64::from(Losses::from(totals.producer.refused) != sum.refused))
}
