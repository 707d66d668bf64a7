//! Round trips.

use super::patience::Patience;
use crate::contestant::{Receiver, Sender};
use crate::drive::{self, Limit, tick_ns};
use crate::error::{BenchError, Result};
use crate::part::Found;
use crate::payload::{Check, fill};
use crate::raw::ticks;
use crate::stage::{Stage, now_ns};
use hdrhistogram::Histogram;
use std::time::Duration;

/// How long a sleeper sleeps before it checks whether the other end is done.
const NAP: Duration = Duration::from_millis(100);
/// Trips before those of the line that count.
const LINE_WARM_UP: u64 = 1000;

/// Ticks of round trips.
struct Trips {
    histogram: Histogram<u64>,
    warm_up: u64,
    tick_ns: f64,
}

impl Trips {
    fn new(warm_up: u64) -> Result<Self> {
        let histogram = Histogram::new_with_bounds(1, 1 << 40, 3)
            .map_err(|error| BenchError::Usage(error.to_string()))?;
        Ok(Trips { histogram, warm_up, tick_ns: tick_ns() })
    }

    #[inline]
    fn add(&mut self, ticks: u64) {
        if self.warm_up > 0 {
            self.warm_up -= 1;
        } else {
            self.histogram.saturating_record(ticks);
        }
    }

    /// Returns one-way times, in nanoseconds.
    fn counts(&self) -> Vec<(f64, u64)> {
        let one_way = |ticks: u64| ticks as f64 * self.tick_ns / 2.0;
        let each = self.histogram.iter_recorded();
        each.map(|at| (one_way(at.value_iterated_to()), at.count_since_last_iteration())).collect()
    }
}

/// Reads one record; `false` if the other end is done instead.
#[inline(always)]
fn read_one<const N: usize>(
    receiver: &mut impl Receiver,
    check: &mut Check,
    sleeping: bool,
    over: impl Fn() -> bool,
) -> Result<bool> {
    let mut patience = Patience::default();
    loop {
        if receiver.next::<N>(|bytes| check.see(bytes))? {
            return Ok(true);
        }
        if sleeping {
            if over() {
                return Ok(false);
            }
            receiver.sleep(NAP)?;
            continue;
        }
        receiver.wait();
        if patience.lose() && over() {
            return Ok(false);
        }
    }
}

/// Sends a record and waits for the answer, repeatedly.
#[inline(never)]
pub fn ask<const N: usize>(
    there: &mut impl Sender,
    back: &mut impl Receiver,
    (limit, warm_up): (Limit, u64),
    sleeping: bool,
    stage: &Stage<'_>,
) -> Result<Found> {
    let mut trips = Trips::new(warm_up)?;
    let mut check = Check::default();
    let most = warm_up + limit.records;
    let start_ns = stage.ready()?;
    let mut before = ticks();
    let end = before.wrapping_add((limit.seconds * 1e9 / trips.tick_ns) as u64);
    let mut sent = 0;
    while sent < most && (sent < 2 * warm_up || before < end) {
        there.send::<N>(sent..sent + 1, fill)?;
        sent += 1;
        read_one::<N>(back, &mut check, sleeping, || false)?;
        let now = ticks();
        trips.add(now.wrapping_sub(before));
        before = now;
    }
    stage.sent(0, sent);
    check.finish(sent);
    Ok(Found { histogram: trips.counts(), ..found(&check, start_ns)? })
}

/// The other side of [`ask`].
#[inline(never)]
pub fn answer<const N: usize>(
    there: &mut impl Receiver,
    back: &mut impl Sender,
    sleeping: bool,
    stage: &Stage<'_>,
) -> Result<Found> {
    let mut check = Check::default();
    let start_ns = stage.ready()?;
    let mut answered = 0;
    while read_one::<N>(there, &mut check, sleeping, || stage.all_sent(1))? {
        back.send::<N>(answered..answered + 1, fill)?;
        answered += 1;
    }
    check.finish(stage.sent_by(0));
    found(&check, start_ns)
}

fn found(check: &Check, start_ns: u64) -> Result<Found> {
    let (records, lost, bad) = (check.good(), check.lost, check.bad);
    Ok(Found { records, start_ns, end_ns: now_ns()?, lost, bad, ..Found::default() })
}

/// Sends a bare cache line back and forth.
pub fn ask_line(count: u64, stage: &Stage<'_>) -> Result<Found> {
    let mut trips = Trips::new(LINE_WARM_UP)?;
    let records = count + LINE_WARM_UP;
    let start_ns = stage.ready()?;
    drive::ask_line(stage.line(), records, |ticks| trips.add(ticks));
    let end_ns = now_ns()?;
    Ok(Found { records, start_ns, end_ns, histogram: trips.counts(), ..Found::default() })
}

/// The other side of [`ask_line`].
pub fn answer_line(count: u64, stage: &Stage<'_>) -> Result<Found> {
    let records = count + LINE_WARM_UP;
    let start_ns = stage.ready()?;
    drive::answer_line(stage.line(), records);
    let end_ns = now_ns()?;
    Ok(Found { records, start_ns, end_ns, ..Found::default() })
}
