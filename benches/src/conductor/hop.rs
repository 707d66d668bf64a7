//! The distance between the two cores now.

use crate::cores::Pinned;
use crate::drive::{answer_line, ask_line};
use crate::error::{BenchError, Result};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

/// Round trips of one measurement: batches, of which the median is taken, so that an interrupt has
/// no effect; and the most in a batch.
const BATCHES: u32 = 33;
const TRIPS: u32 = 64;

/// A cache line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

/// Returns the hop between this processor and the farthest of those; `None` if there are none. With
/// few round trips in a latency sample, there are few here as well.
pub fn farthest_hop_ns(
    here: usize,
    there: &[usize],
    (tick_ns, round_trips): (f64, u64),
) -> Result<Option<f64>> {
    let there: BTreeSet<usize> = there.iter().copied().collect();
    let of_batch = u32::try_from(round_trips / u64::from(BATCHES)).unwrap_or(TRIPS).clamp(1, TRIPS);
    let mut farthest: Option<f64> = None;
    for there in there {
        let hop = hop_ticks([here, there], of_batch)? * tick_ns;
        farthest = Some(farthest.map_or(hop, |most| most.max(hop)));
    }
    Ok(farthest)
}

/// Returns the ticks that a cache line takes from one core to the other: half the median round trip
/// between two threads, which end with the call.
fn hop_ticks([here, there]: [usize; 2], of_batch: u32) -> Result<f64> {
    let line = Line(AtomicU64::new(0));
    let trips = u64::from(BATCHES * of_batch);
    let mut batches = Vec::with_capacity(BATCHES as usize);
    std::thread::scope(|scope| -> Result<()> {
        let answering = scope.spawn(|| {
            let _pinned = Pinned::to(there)?;
            answer_line(&line.0, trips);
            Ok(())
        });
        let asking = scope.spawn(|| -> Result<()> {
            let _pinned = Pinned::to(here)?;
            let (mut ticks, mut count) = (0, 0);
            ask_line(&line.0, trips, |trip| {
                ticks += trip;
                count += 1;
                if count == of_batch {
                    batches.push(ticks);
                    (ticks, count) = (0, 0);
                }
            });
            Ok(())
        });
        let panicked = || BenchError::Usage("a thread panicked".to_owned());
        asking.join().map_err(|_| panicked())??;
        answering.join().map_err(|_| panicked())?
    })?;
    batches.sort_unstable();
    let median: u64 = batches.get(batches.len() / 2).copied().unwrap_or_default();
    Ok(median as f64 / f64::from(2 * of_batch))
}
