//! The loops that both processes run: produce, consume, answer, and the bare line between them.

use crate::contest::ring::{Receiver, Sender};
use crate::error::BenchError;
use crate::payload::{Check, Pool, fill};
use crate::raw::ticks;
use serde::{Deserialize, Serialize};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Polls between two checks whether the other process is alive. Both may share one core where there
/// is only one, so the core is yielded then, too.
const PATIENT_POLLS: u32 = 4096;

/// When a producer stops.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// After this long.
    pub seconds: f64,
    /// Or after so many records.
    pub records: u64,
}

/// Polls until `ready`.
#[inline(always)]
pub fn poll_until(
    mut ready: impl FnMut() -> bool,
    alive: &mut dyn FnMut() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut polls = 0u32;
    while !ready() {
        polls += 1;
        if polls == PATIENT_POLLS {
            polls = 0;
            yield_now();
            alive()?;
        }
    }
    Ok(())
}

/// Sends records until the limit, of a pool or numbered. Returns how many, and the nanoseconds it took.
#[inline(never)]
pub fn produce<const N: usize>(
    sender: &mut impl Sender,
    pool: Option<&Pool<N>>,
    limit: Limit,
) -> Result<(u64, u64), BenchError> {
    // The clock is read once per block: often enough, at no cost.
    let block = if N <= 1024 { 1024 } else { 64 };
    let start = Instant::now();
    let time = Duration::from_secs_f64(limit.seconds);
    let mut seq = 0u64;
    loop {
        match pool {
            Some(pool) => sender.send_from(seq..seq + block, pool)?,
            None => sender.send::<N>(seq..seq + block, fill)?,
        }
        seq += block;
        let elapsed = start.elapsed();
        if elapsed >= time || seq >= limit.records {
            return Ok((seq, u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)));
        }
    }
}

/// Reads and verifies until the producer has signalled that it is done and nothing is left.
#[inline(never)]
pub fn consume<const N: usize>(
    receiver: &mut impl Receiver,
    check: &mut Check,
    done: impl Fn() -> bool,
    alive: &mut dyn FnMut() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut idle = 0u32;
    loop {
        // Read before draining: what was published before the signal is then seen.
        let last = done();
        // A copy of its own stays in registers.
        let mut seen = *check;
        let count = receiver.drain::<N>(|bytes| seen.see(bytes))?;
        *check = seen;
        if count > 0 {
            idle = 0;
        } else if last {
            return Ok(());
        } else {
            receiver.wait();
            idle += 1;
            if idle == PATIENT_POLLS {
                idle = 0;
                yield_now();
                alive()?;
            }
        }
    }
}

/// Reads one record, polling all the time.
#[inline(always)]
fn read_one<const N: usize>(
    receiver: &mut impl Receiver,
    check: &mut Check,
    alive: &mut dyn FnMut() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut failure = None;
    poll_until(
        || {
            receiver.wait();
            match receiver.next::<N>(|bytes| check.see(bytes)) {
                Ok(found) => found,
                Err(error) => {
                    failure = Some(error);
                    true
                }
            }
        },
        alive,
    )?;
    failure.map_or(Ok(()), Err)
}

/// Sends a record and waits for the answer, repeatedly; `record` gets the ticks of each trip.
#[inline(never)]
pub fn ask<const N: usize>(
    ping: &mut impl Sender,
    pong: &mut impl Receiver,
    trips: u32,
    alive: &mut dyn FnMut() -> Result<(), BenchError>,
    mut record: impl FnMut(u64),
) -> Result<Check, BenchError> {
    let mut check = Check::default();
    let mut before = ticks();
    for seq in 0..u64::from(trips) {
        ping.send::<N>(seq..seq + 1, fill)?;
        read_one::<N>(pong, &mut check, alive)?;
        let now = ticks();
        record(now.wrapping_sub(before));
        before = now;
    }
    check.finish(u64::from(trips));
    Ok(check)
}

/// The other side of [`ask`].
#[inline(never)]
pub fn answer<const N: usize>(
    ping: &mut impl Receiver,
    pong: &mut impl Sender,
    trips: u32,
    alive: &mut dyn FnMut() -> Result<(), BenchError>,
) -> Result<Check, BenchError> {
    let mut check = Check::default();
    for seq in 0..u64::from(trips) {
        read_one::<N>(ping, &mut check, alive)?;
        pong.send::<N>(seq..seq + 1, fill)?;
    }
    check.finish(u64::from(trips));
    Ok(check)
}

/// Sends a bare cache line back and forth.
#[inline(never)]
pub fn ask_line(
    line: &AtomicU64,
    trips: u32,
    alive: &mut dyn FnMut() -> Result<(), BenchError>,
    mut record: impl FnMut(u64),
) -> Result<(), BenchError> {
    let mut before = ticks();
    for trip in 0..u64::from(trips) {
        line.store(2 * trip + 1, Ordering::Release);
        poll_until(|| line.load(Ordering::Acquire) == 2 * trip + 2, alive)?;
        let now = ticks();
        record(now.wrapping_sub(before));
        before = now;
    }
    Ok(())
}

/// The other side of [`ask_line`].
#[inline(never)]
pub fn answer_line(
    line: &AtomicU64,
    trips: u32,
    alive: &mut dyn FnMut() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for trip in 0..u64::from(trips) {
        poll_until(|| line.load(Ordering::Acquire) == 2 * trip + 1, alive)?;
        line.store(2 * trip + 2, Ordering::Release);
    }
    Ok(())
}

/// Returns nanoseconds per tick, measured against the system's clock.
pub fn tick_ns() -> f64 {
    let (start, before) = (Instant::now(), ticks());
    while start.elapsed() < Duration::from_millis(20) {
        spin_loop();
    }
    let elapsed = start.elapsed();
    elapsed.as_nanos() as f64 / ticks().wrapping_sub(before).max(1) as f64
}

/// Copies payloads into a buffer, one after the other and wrapping around, for so long: bytes are
/// moved within one process and nothing is published.
#[inline(never)]
pub fn copy<const N: usize>(buffer: &mut [u8], limit: Limit) -> (u64, u64) {
    let mut payload = [0u8; N];
    fill(&mut payload, 1);
    let start = Instant::now();
    let time = Duration::from_secs_f64(limit.seconds);
    let mut records = 0u64;
    loop {
        for slot in buffer.chunks_exact_mut(N) {
            slot.copy_from_slice(std::hint::black_box(&payload));
            records += 1;
        }
        std::hint::black_box(&mut *buffer);
        let elapsed = start.elapsed();
        if elapsed >= time || records >= limit.records {
            return (records, u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        }
    }
}
