//! The distance between the two cores now.

use crate::CompareError;
use perfring_bench::BenchError;
use perfring_bench::cores::Pinned;
use perfring_bench::drive::{answer_line, ask_line};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

/// Round trips of one measurement: batches, of which the median is taken, so that an interrupt has
/// no effect.
const BATCHES: usize = 33;
const TRIPS: u32 = 64;

/// A cache line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

/// Returns the hop between this processor and the farthest of those; `None` if there are none.
///
/// # Errors
/// If the threads cannot be pinned.
pub fn farthest_hop_ns(
    here: usize,
    there: &[usize],
    tick_ns: f64,
) -> Result<Option<f64>, CompareError> {
    let there: BTreeSet<usize> = there.iter().copied().collect();
    let mut farthest: Option<f64> = None;
    for there in there {
        let hop = hop_ns([here, there], tick_ns)?;
        farthest = Some(farthest.map_or(hop, |most| most.max(hop)));
    }
    Ok(farthest)
}

/// Returns the nanoseconds that a cache line takes from one core to the other: half the median
/// round trip between two threads, which end with the call.
fn hop_ns([here, there]: [usize; 2], tick_ns: f64) -> Result<f64, CompareError> {
    let line = Line(AtomicU64::new(0));
    let trips = BATCHES as u32 * TRIPS;
    let mut batches = Vec::with_capacity(BATCHES);
    std::thread::scope(|scope| -> Result<(), BenchError> {
        let answering = scope.spawn(|| {
            let _pinned = Pinned::to(there)?;
            answer_line(&line.0, trips, &mut || Ok(()))
        });
        let asking = scope.spawn(|| {
            let _pinned = Pinned::to(here)?;
            let (mut ticks, mut count) = (0, 0);
            ask_line(&line.0, trips, &mut || Ok(()), |trip| {
                ticks += trip;
                count += 1;
                if count == TRIPS {
                    batches.push(ticks);
                    (ticks, count) = (0, 0);
                }
            })
        });
        let panicked = || BenchError::Usage("a thread panicked".to_owned());
        asking.join().map_err(|_| panicked())??;
        answering.join().map_err(|_| panicked())?
    })?;
    batches.sort_unstable();
    let median = batches.get(batches.len() / 2).copied().unwrap_or_default();
    Ok(median as f64 * tick_ns / f64::from(2 * TRIPS))
}
