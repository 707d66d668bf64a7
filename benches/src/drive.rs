//! The loops that need no contestant: the bare line, memcpy, and the clock of round trips.

use crate::payload::fill;
use crate::raw::ticks;
use serde::{Deserialize, Serialize};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Polls between two that also yield the core: where there is only one, the other end needs it.
const PATIENT_POLLS: u32 = 4096;

/// When a sender stops.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// After this long.
    pub seconds: f64,
    /// Or after so many records.
    pub records: u64,
}

/// Polls until `ready`.
#[inline(always)]
pub fn poll_until(mut ready: impl FnMut() -> bool) {
    let mut polls = 0u32;
    while !ready() {
        polls += 1;
        if polls == PATIENT_POLLS {
            polls = 0;
            yield_now();
        }
    }
}

/// Sends a bare cache line back and forth; `record` gets the ticks of each trip.
#[inline(never)]
pub fn ask_line(line: &AtomicU64, trips: u64, mut record: impl FnMut(u64)) {
    let mut before = ticks();
    for trip in 0..trips {
        line.store(2 * trip + 1, Ordering::Release);
        poll_until(|| line.load(Ordering::Acquire) == 2 * trip + 2);
        let now = ticks();
        record(now.wrapping_sub(before));
        before = now;
    }
}

/// The other side of [`ask_line`].
#[inline(never)]
pub fn answer_line(line: &AtomicU64, trips: u64) {
    for trip in 0..trips {
        poll_until(|| line.load(Ordering::Acquire) == 2 * trip + 1);
        line.store(2 * trip + 2, Ordering::Release);
    }
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
