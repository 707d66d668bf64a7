//! The consumer's side, for perfring's ring and the kernel's.

use super::race::{Race, Who};
use crate::audit::{Begin, Losses, Seen, Tally};
use crate::bpf;
use crate::contest::perfring::{SPIN, error};
use crate::error::Result;
use crate::part::Found;
use crate::payload::sized;
use crate::stage::{Stage, now_ns};
use crate::waits::Waits;
use perfring_consumer::advanced::Front;
use perfring_consumer::{Consumer, ConsumerOptions, Item, Snapshot, Stat};
use std::path::Path;
use std::thread::yield_now;

/// Empty waits between two that yield the core.
const PATIENT_WAITS: u32 = 4096;

/// Reads and verifies what the producers of this race publish, and settles it with their counts.
pub(super) fn run(race: &Race, stage: &Stage<'_>) -> Result<Found> {
    if race.who == Who::Bpf {
        let map = bpf::Map::open(race.bpf, race.data_size)?;
        let waits = Waits::new(race.reader);
        return follow(race, &mut Kernel { reader: bpf::Reader::new(map), waits }, stage);
    }
    let options = ConsumerOptions { wait: race.reader.into(), ..ConsumerOptions::default() };
    follow(race, &mut Consumer::attach_with(&race.path, &options).map_err(error)?, stage)
}

fn follow(race: &Race, source: &mut impl Source, stage: &Stage<'_>) -> Result<Found> {
    let mut seen = Seen::new(Begin::First);
    let start_ns = stage.ready()?;
    let done = || stage.all_sent(race.producers);
    sized!(race.payload, N => consume::<N>(source, race.shares, &mut seen, done))?;
    let end_ns = now_ns()?;
    let tally = |index| {
        let [published, refused @ ..] = stage.counts_of(index);
        Tally { published, refused: Losses::from(refused) }
    };
    let tallies: Vec<Tally> = (0..race.producers).map(tally).collect();
    source.finish();
    let (wrong, unreported) = if race.who == Who::Bpf {
        // It reports no losses.
        (0, Tally::sum(&tallies).refused)
    } else {
        (totals(&race.path, &seen, &tallies)?, Losses::default())
    };
    seen.settle(&tallies, unreported);
    let bad = seen.bad + wrong;
    Ok(Found { records: seen.records, start_ns, end_ns, bad, ..Found::default() })
}

/// A reading end that reports losses.
trait Source {
    /// Checks every item present, and returns how many they were. Never waits.
    fn drain<const N: usize>(&mut self, seen: &mut Seen) -> Result<u64>;

    /// Waits by its wait strategy until there is something to read, or for some microseconds.
    fn wait(&mut self);

    /// Returns whether there is a loss to read, once the producers have ended and all else was
    /// read.
    fn has_lost(&mut self) -> bool {
        false
    }

    /// Releases everything that was read.
    fn finish(&mut self) {}
}

#[inline(always)]
fn see<const N: usize>(seen: &mut Seen, item: &Item<'_>) {
    match item {
        Item::Record(record) => match record.bytes.try_into() {
            Ok(bytes) => seen.see::<N>(bytes),
            Err(_) => seen.bad += 1,
        },
        Item::Lost(lost) => seen.reported.count(lost.cause, lost.records),
    }
}

impl Source for Consumer {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, seen: &mut Seen) -> Result<u64> {
        let mut count = 0;
        while let Some(item) = self.read().map_err(error)? {
            see::<N>(seen, &item);
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
struct Kernel {
    reader: bpf::Reader,
    waits: Waits,
}

impl Source for Kernel {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, seen: &mut Seen) -> Result<u64> {
        Ok(self.reader.drain::<N>(|bytes| seen.see(bytes)))
    }

    fn wait(&mut self) {
        let reader = &self.reader;
        self.waits.wait(|| reader.is_behind());
    }
}

/// Reads and verifies until the producers have signalled that they are done and nothing is left. A
/// reader that shares its core yields it when it finds nothing.
#[inline(never)]
fn consume<const N: usize>(
    source: &mut impl Source,
    shares: bool,
    seen: &mut Seen,
    done: impl Fn() -> bool,
) -> Result<()> {
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
            if shares || idle.is_multiple_of(PATIENT_WAITS) {
                yield_now();
            }
        }
    }
}

/// Called after the end of a drop ring whose consumer has `seen` everything. Returns by how much
/// the ring's figures differ from that and from the producers'.
fn totals(path: &Path, seen: &Seen, producers: &[Tally]) -> Result<u64> {
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
pub(super) fn post_mortem<const N: usize>(path: &Path, producers: &[Tally]) -> Result<u64> {
    let snapshot = Snapshot::take(path).map_err(error)?;
    let (totals, sum) = (snapshot.totals(), Tally::sum(producers));
    let mut seen = Seen::new(Begin::Oldest);
    for item in &snapshot {
        see::<N>(&mut seen, &item.map_err(error)?);
    }
    seen.settle_rest(producers, totals.present.records);
    let written = totals.producer.written.records;
    Ok(seen.bad
        + written.abs_diff(sum.published)
        + written.abs_diff(totals.overwritten.records + totals.present.records)
        + totals.stranded.records
        + u64::from(Losses::from(totals.producer.refused) != sum.refused))
}
