//! A producer process: races from a common start for the sample's time, and counts.

use super::race::{Race, Shape, Way, Who};
use crate::audit::{Losses, Tally, attempts, first_number};
use crate::bpf;
use crate::contest::perfring::{PATIENCE, error};
use crate::error::{BenchError, Result};
use crate::part::Found;
use crate::payload::{fill, sized};
use crate::stage::{Stage, now_ns};
use perfring_consumer::Cause;
use perfring_producer::{Producer, RecordType, ReserveError, SharedProducer};
use std::time::Duration;

/// Records of a batch.
const BATCH: u64 = 64;
/// Attempts between two readings of the clock.
const BLOCK: u64 = 1024;
const BYTES: RecordType = RecordType::BYTES;

/// Writes a record in place; `$record` derefs to its bytes.
macro_rules! in_place {
    ($record:expr, $number:expr, $n:expr) => {{
        let mut record = $record;
        if let Some(slot) = record.first_chunk_mut::<$n>() {
            fill(slot, $number);
        }
        record.commit();
        Ok(())
    }};
}

/// Publishes in the way of the race; `$batch` publishes one batch from a number on, and returns the
/// next number. Compares the ring's figures with the producer's own.
macro_rules! publish {
    ($lane:ident, $ring:ident, $n:expr, |$number:ident, $tally:ident| $batch:expr) => {{
        let (way, shape) = ($lane.race.way, $lane.race.shape);
        let mut ran = match (way, shape) {
            (Way::Publish, Shape::Lossless) => singly($lane, |number| {
                $ring.publish_timeout(BYTES, &filled::<{ $n }>(number), PATIENCE)
            }),
            (Way::Publish, _) => singly($lane, |number| $ring.publish(&filled::<{ $n }>(number))),
            (Way::Reserve, Shape::Lossless) => singly($lane, |number| {
                in_place!($ring.reserve_timeout(BYTES, $n, PATIENCE)?, number, $n)
            }),
            (Way::Reserve, _) => {
                singly($lane, |number| in_place!($ring.reserve(BYTES, $n)?, number, $n))
            }
            (Way::Batch, _) => laps($lane, |mut $number, $tally| {
                for _ in 0..BLOCK / BATCH {
                    $number = (|| -> Result<u64> { $batch })()?;
                }
                Ok($number)
            }),
        }?;
        let totals = $ring.totals();
        ran.bad += totals.written.records.abs_diff(ran.tally.published)
            + u64::from(Losses::from(totals.refused) != ran.tally.refused);
        Ok::<Ran, BenchError>(ran)
    }};
}

/// The result of a producer, and when it began and ended.
#[derive(Clone, Copy, Debug, Default)]
struct Ran {
    tally: Tally,
    start_ns: u64,
    end_ns: u64,
    /// By how much the ring's figures of this producer, or its numbers, differ from its own count.
    bad: u64,
}

/// Attaches, waits for the start, and publishes for the time of the sample.
pub(super) fn run(race: &Race, producer: usize, stage: &Stage<'_>) -> Result<Found> {
    let lane = Lane { race, producer, stage };
    // All of them have let their rings go when they say how much they have published.
    let Ran { tally, start_ns, end_ns, bad } = sized!(race.payload, N => match race.who {
        Who::Shared => {
            let ring = SharedProducer::attach(&*race.path).map_err(error)?;
            publish!(lane, ring, N, |number, tally| {
                let size = BATCH * ring.layout().record_size(N);
                match ring.reserve_batch(size as usize) {
                    Ok(mut batch) => {
                        while let Ok(record) = batch.push_in_place(BYTES, N) {
                            if let Some(slot) = record.first_chunk_mut::<N>() {
                                fill(slot, number);
                            }
                            number += 1;
                        }
                        tally.published += batch.records();
                        batch.publish();
                    }
                    Err(refusal) => {
                        tally.refuse(refusal)?;
                        number += 1;
                    }
                }
                Ok(number)
            })
        }
        Who::Exclusive => {
            let mut ring = Producer::attach(&*race.path).map_err(error)?;
            // It has no reserved batch: its records are refused one by one.
            publish!(lane, ring, N, |number, tally| {
                let mut batch = ring.batch();
                for _ in 0..BATCH {
                    tally.count(batch.push(&filled::<N>(number)))?;
                    number += 1;
                }
                batch.publish();
                Ok(number)
            })
        }
        Who::Bpf => in_kernel::<N>(lane),
    })?;
    let [full, contended, pending, other] = tally.refused.words();
    stage.counted(producer, [tally.published, full, contended, pending, other]);
    let causes = tally.refused.words();
    Ok(Found { records: tally.published, start_ns, end_ns, bad, causes, ..Found::default() })
}

/// One producer of a race.
#[derive(Clone, Copy)]
struct Lane<'a> {
    race: &'a Race,
    producer: usize,
    stage: &'a Stage<'a>,
}

impl Tally {
    /// Counts an attempt.
    #[inline(always)]
    fn count(&mut self, result: Result<(), ReserveError>) -> Result<()> {
        match result {
            Ok(()) => self.published += 1,
            Err(refusal) => self.refuse(refusal)?,
        }
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, refusal: ReserveError) -> Result<()> {
        let cause = match refusal {
            ReserveError::Full => Cause::Full,
            ReserveError::Contended { .. } => Cause::Contended,
            ReserveError::Pending { .. } => Cause::Pending,
            ReserveError::TooLarge { .. } => Cause::TooLarge,
            other => return Err(error(other)),
        };
        self.refused.count(cause, 1);
        Ok(())
    }
}

/// Runs blocks until the time is over. A block gets the number of its first attempt and returns
/// that of the next.
#[inline(always)]
fn laps(lane: Lane<'_>, mut block: impl FnMut(u64, &mut Tally) -> Result<u64>) -> Result<Ran> {
    let start_ns = lane.stage.ready()?;
    let limit = lane.race.limit;
    let stop_ns = start_ns + Duration::from_secs_f64(limit.seconds).as_nanos() as u64;
    let (mut number, mut ran) = (first_number(lane.producer), Ran { start_ns, ..Ran::default() });
    loop {
        // A copy of its own stays in registers.
        let mut tally = ran.tally;
        number = block(number, &mut tally)?;
        ran.tally = tally;
        ran.end_ns = now_ns()?;
        if ran.end_ns >= stop_ns || attempts(number) >= limit.records {
            ran.bad = attempts(number).abs_diff(tally.attempts());
            return Ok(ran);
        }
    }
}

/// [`laps`] with one attempt at a time.
#[inline(always)]
fn singly(lane: Lane<'_>, mut publish: impl FnMut(u64) -> Result<(), ReserveError>) -> Result<Ran> {
    laps(lane, |first, tally| {
        for number in first..first + BLOCK {
            tally.count(publish(number))?;
        }
        Ok(first + BLOCK)
    })
}

#[inline(always)]
fn filled<const N: usize>(number: u64) -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes, number);
    bytes
}

#[inline(never)]
fn in_kernel<const N: usize>(lane: Lane<'_>) -> Result<Ran> {
    let race = lane.race;
    let map = bpf::Map::open(race.bpf, race.data_size)?;
    let feeder = bpf::Feeder::load(&map, N)?;
    laps(lane, |number, tally| {
        let full = feeder.feed(number)?;
        tally.published += bpf::BLOCK - full;
        tally.refused.count(Cause::Full, full);
        if race.shape == Shape::Alone {
            map.forget();
        }
        Ok(number + bpf::BLOCK)
    })
}
