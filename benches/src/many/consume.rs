//! The consumer's side, for perfring's ring and the kernel's.

use super::audit::{Begin, Losses, Seen, Tally};
use crate::bpf;
use crate::contest::floor::Waits;
use crate::contest::ring::{Contestant, failed};
use crate::error::BenchError;
use crate::options::WaitStrategy;
use perfring_consumer::advanced::Front;
use perfring_consumer::{Consumer, ConsumerOptions, Item, Snapshot, Stat};
use std::path::Path;
use std::thread::yield_now;
use std::time::Duration;

/// How long a reader spins before its caller gets control.
const SPIN: Duration = Duration::from_micros(50);
/// Empty waits between two checks whether the producers are alive.
const PATIENT_WAITS: u32 = 4096;

fn error(source: impl std::error::Error + Send + Sync + 'static) -> BenchError {
    failed(Contestant::Perfring)(Box::new(source))
}

/// A reading end that reports losses.
pub(crate) trait Source {
    /// Checks every item present, and returns how many they were. Never waits.
    fn drain<const N: usize>(&mut self, seen: &mut Seen) -> Result<u64, BenchError>;

    /// Waits by its wait strategy until there is something to read, or for some microseconds.
    fn wait(&mut self);

    /// Returns whether there is a loss to read, once the producers have ended and all else was read.
    fn has_lost(&mut self) -> bool {
        false
    }

    /// Releases everything that was read.
    fn finish(&mut self) {}
}

/// Attaches a perfring consumer with this wait strategy.
pub(crate) fn consumer(path: &Path, wait_strategy: WaitStrategy) -> Result<Consumer, BenchError> {
    let options = ConsumerOptions { wait: wait_strategy.into(), ..ConsumerOptions::default() };
    Consumer::attach_with(path, &options).map_err(error)
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

    fn has_lost(&mut self) -> bool {
        matches!(self.advanced().peek(), Ok(Front::Lost))
    }

    fn finish(&mut self) {
        self.release();
    }
}

/// The kernel's ring, read with the floor's waits.
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

/// Whether a reader has a core of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Core {
    Own,
    /// It yields the core when it finds nothing.
    Shared,
}

/// Reads and verifies until the producers have signalled that they are done and nothing is left.
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
        // Read before draining: what was published before the signal is then seen.
        let last = done();
        if source.drain::<N>(seen)? > 0 {
            idle = 0;
        } else if last && !source.has_lost() {
            return Ok(());
        } else if !last {
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

/// Called after the end of a drop ring whose consumer has `seen` everything. Returns by how much
/// the ring's figures differ from that and from the producers'.
pub(crate) fn totals(path: &Path, seen: &Seen, producers: &[Tally]) -> Result<u64, BenchError> {
    let stat = Stat::read(path).map_err(error)?;
    let Some(totals) = stat.totals else { return Ok(1) };
    let sum = Tally::sum(producers);
    let refused = Losses::from(totals.producer.refused);
    Ok(totals.producer.written.records.abs_diff(sum.published)
        + totals.consumer.read.records.abs_diff(seen.records)
        + totals.present.records
        + totals.stranded.records
        + u64::from(refused != sum.refused))
}

/// Verifies what is left of an overwrite ring after its producers' end, and compares it with their
/// counts. Returns the number of errors.
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
