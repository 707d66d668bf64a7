//! A producer process: races from a common start for the sample's time, and counts.

use super::audit::{Losses, Tally, attempts, first_number};
use super::race::{Race, Shape, Way, Who};
use crate::bpf;
use crate::contest::ring::{Contestant, failed};
use crate::error::BenchError;
use crate::payload::{fill, sized};
use perfring_consumer::Cause;
use perfring_producer::{Producer, RecordType, ReserveError, SharedProducer};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Records of a batch.
const BATCH: u64 = 64;
/// Attempts between two readings of the clock.
const BLOCK: u64 = 1024;
/// How long a producer waits for room: longer than any live reader takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns nanoseconds of a clock that all processes share.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The result of a producer, and when it ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ran {
    pub(crate) tally: Tally,
    pub(crate) end_ns: u64,
    /// By how much the ring's figures of this producer, or its numbers, differ from its own count.
    pub(crate) bad: u64,
}

impl Ran {
    /// Returns the words for the shared page.
    pub(crate) fn words(&self) -> [u64; 7] {
        let [full, contended, pending, other] = self.tally.refused.words();
        [self.tally.published, self.end_ns, self.bad, full, contended, pending, other]
    }
}

impl From<[u64; 7]> for Ran {
    fn from([published, end_ns, bad, full, contended, pending, other]: [u64; 7]) -> Self {
        let refused = Losses::from([full, contended, pending, other]);
        Ran { tally: Tally { published, refused }, end_ns, bad }
    }
}

/// Attaches, calls `begin`, which returns when the race starts, and runs.
pub(crate) fn run(
    race: &Race,
    begin: impl FnOnce() -> Result<u64, BenchError>,
) -> Result<Ran, BenchError> {
    sized!(race.payload, N => match race.who {
        Who::Shared => shared::<N>(race, begin),
        Who::Exclusive => exclusive::<N>(race, begin),
        Who::Bpf => in_kernel::<N>(race, begin),
    })
}

fn error(source: impl std::error::Error + Send + Sync + 'static) -> BenchError {
    failed(Contestant::Perfring)(Box::new(source))
}

impl Tally {
    /// Counts an attempt.
    #[inline(always)]
    fn count(&mut self, result: Result<(), ReserveError>) -> Result<(), BenchError> {
        match result {
            Ok(()) => self.published += 1,
            Err(refusal) => self.refuse(refusal)?,
        }
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, refusal: ReserveError) -> Result<(), BenchError> {
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
fn laps(
    race: &Race,
    start_ns: u64,
    mut block: impl FnMut(u64, &mut Tally) -> Result<u64, BenchError>,
) -> Result<Ran, BenchError> {
    let stop_ns = start_ns + Duration::from_secs_f64(race.limit.seconds).as_nanos() as u64;
    while now_ns() < start_ns {
        // Another producer may need this core to get to the start.
        std::thread::yield_now();
    }
    let (mut number, mut ran) = (first_number(race.producer), Ran::default());
    loop {
        // A copy of its own stays in registers.
        let mut tally = ran.tally;
        number = block(number, &mut tally)?;
        ran.tally = tally;
        ran.end_ns = now_ns();
        if ran.end_ns >= stop_ns || attempts(number) >= race.limit.records {
            ran.bad = attempts(number).abs_diff(tally.attempts());
            return Ok(ran);
        }
    }
}

/// [`laps`] with one attempt at a time.
#[inline(always)]
fn singly<const N: usize>(
    race: &Race,
    start_ns: u64,
    mut publish: impl FnMut(u64) -> Result<(), ReserveError>,
) -> Result<Ran, BenchError> {
    laps(race, start_ns, |first, tally| {
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

const BYTES: RecordType = RecordType::BYTES;

#[inline(never)]
fn shared<const N: usize>(
    race: &Race,
    begin: impl FnOnce() -> Result<u64, BenchError>,
) -> Result<Ran, BenchError> {
    let ring = SharedProducer::attach(&*race.path).map_err(error)?;
    let start = begin()?;
    let mut ran = match (race.way, race.shape) {
        (Way::Publish, Shape::Lossless) => singly::<N>(race, start, |number| {
            ring.publish_timeout(BYTES, &filled::<N>(number), PATIENCE)
        }),
        (Way::Publish, _) => singly::<N>(race, start, |number| ring.publish(&filled::<N>(number))),
        (Way::Reserve, Shape::Lossless) => singly::<N>(race, start, |number| {
            in_place!(ring.reserve_timeout(BYTES, N, PATIENCE)?, number, N)
        }),
        (Way::Reserve, _) => {
            singly::<N>(race, start, |number| in_place!(ring.reserve(BYTES, N)?, number, N))
        }
        (Way::Batch, _) => laps(race, start, |mut number, tally| {
            for _ in 0..BLOCK / BATCH {
                match ring.reserve_batch((BATCH * ring.layout().record_size(N)) as usize) {
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
            }
            Ok(number)
        }),
    }?;
    let totals = ring.totals();
    ran.bad += totals.written.records.abs_diff(ran.tally.published)
        + u64::from(Losses::from(totals.refused) != ran.tally.refused);
    Ok(ran)
}

#[inline(never)]
fn exclusive<const N: usize>(
    race: &Race,
    begin: impl FnOnce() -> Result<u64, BenchError>,
) -> Result<Ran, BenchError> {
    let mut ring = Producer::attach(&*race.path).map_err(error)?;
    let start = begin()?;
    let mut ran = match (race.way, race.shape) {
        (Way::Publish, Shape::Lossless) => singly::<N>(race, start, |number| {
            ring.publish_timeout(BYTES, &filled::<N>(number), PATIENCE)
        }),
        (Way::Publish, _) => singly::<N>(race, start, |number| ring.publish(&filled::<N>(number))),
        (Way::Reserve, Shape::Lossless) => singly::<N>(race, start, |number| {
            in_place!(ring.reserve_timeout(BYTES, N, PATIENCE)?, number, N)
        }),
        (Way::Reserve, _) => {
            singly::<N>(race, start, |number| in_place!(ring.reserve(BYTES, N)?, number, N))
        }
        // It has no reserved batch: its records are refused one by one.
        (Way::Batch, _) => laps(race, start, |mut number, tally| {
            for _ in 0..BLOCK / BATCH {
                let mut batch = ring.batch();
                for _ in 0..BATCH {
                    tally.count(batch.push(&filled::<N>(number)))?;
                    number += 1;
                }
                batch.publish();
            }
            Ok(number)
        }),
    }?;
    let totals = ring.totals();
    ran.bad += totals.written.records.abs_diff(ran.tally.published)
        + u64::from(Losses::from(totals.refused) != ran.tally.refused);
    Ok(ran)
}

#[inline(never)]
fn in_kernel<const N: usize>(
    race: &Race,
    begin: impl FnOnce() -> Result<u64, BenchError>,
) -> Result<Ran, BenchError> {
    let map = bpf::Map::open(race.bpf, race.data_size)?;
    let feeder = bpf::Feeder::load(&map, N)?;
    let start = begin()?;
    laps(race, start, |number, tally| {
        let full = feeder.feed(number)?;
        tally.published += bpf::BLOCK - full;
        tally.refused.count(Cause::Full, full);
        if race.shape == Shape::Alone {
            map.forget();
        }
        Ok(number + bpf::BLOCK)
    })
}
