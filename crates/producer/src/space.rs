//! Space for the records of an exclusive producer: attempts, waiting, and refusals.

use crate::reserve_error::ReserveError;
use crate::timestamp::Clock;
use crate::waiting::{Limits, wait_once};
use perfring_abi::RecordType;
use perfring_ring::{End, Refusal};
use perfring_shm::{ExclusiveSpace, MachineClock, Reservation, Reserves, WriteWindow};
use std::time::Duration;

/// Returns the time for a record that gets a timestamp.
#[inline(always)]
pub(crate) fn now(window: &mut WriteWindow, clock: &mut Clock<MachineClock>) -> u64 {
    match clock.by_line() {
        Some(now) => now,
        None => read_clock(window, clock),
    }
}

#[cold]
#[inline(never)]
fn read_clock(window: &mut WriteWindow, clock: &mut Clock<MachineClock>) -> u64 {
    if !window.file().layout().time {
        return 0; // a large record, or one that is lent
    }
    let now = clock.by_clock();
    if clock.is_due(now) {
        window.keep_time(&clock.read());
    }
    now
}

/// Continues after a refusal. Apart from the first attempt, which is where the caller is.
#[cold]
#[inline(never)]
pub(crate) fn put_after(
    mut refusal: Refusal,
    window: &mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    (kind, payload, end): (RecordType, &[u8], End),
    timeout: Duration,
) -> Result<(), ReserveError> {
    let mut wait = waiter(payload.len(), timeout, refuse);
    loop {
        wait(window, refusal)?;
        match window.put(kind, payload, end, |window| now(window, clock)) {
            Ok(()) => return Ok(()),
            Err(again) => refusal = again,
        }
    }
}

/// Reserves space for one record, in place, and waits for it for at most `timeout`, if there is one. `refused` says what a
/// refusal comes to.
#[inline(always)]
pub(crate) fn reserve<'a, P: for<'b> Reserves<Space<'b> = ExclusiveSpace<'b>>, T: ?Sized, E>(
    window: &'a mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    kind: RecordType,
    len: usize,
    end: End,
    timeout: Option<Duration>,
    refused: impl Fn(&mut WriteWindow, Refusal, usize) -> E,
) -> Result<Reservation<'a, P, T>, E> {
    let wait = |window: &mut WriteWindow, refusal| match timeout {
        Some(timeout) => Ok(waiter(len, timeout, refused)),
        None => Err(refused(window, refusal, len)),
    };
    window.reserve(kind, len, end, |window| now(window, clock), wait)
}

/// Returns what waits after a refusal, and returns what `refused` makes of the last one.
fn waiter<E>(
    len: usize,
    timeout: Duration,
    refused: impl Fn(&mut WriteWindow, Refusal, usize) -> E,
) -> impl FnMut(&mut WriteWindow, Refusal) -> Result<(), E> {
    let mut waiting = None;
    move |window, refusal| {
        let for_space = |left| window.sleep_for_space(len, left);
        wait_once(&mut waiting, refusal, Limits::all(timeout), for_space)
            .map_err(|refusal| refused(window, refusal, len))
    }
}

/// Counts a refusal, unless the ring is a parent's: a fork in the middle of a record is noticed here.
#[inline(never)]
pub(crate) fn refuse(window: &mut WriteWindow, refusal: Refusal, len: usize) -> ReserveError {
    if window.forked() {
        return ReserveError::Forked;
    }
    window.refuse(refusal, len);
    ReserveError::of(refusal, len, || window.look())
}
