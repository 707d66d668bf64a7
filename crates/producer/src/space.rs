//! Space for the records of an exclusive producer: attempts, waiting, and refusals.

use crate::each::Each;
use crate::errors::ReserveError;
use crate::timestamp::Clock;
use perfring_abi::RecordType;
use perfring_ring::{Refusal, Wake};
use perfring_shm::{End, MachineClock, Reservation, WriteWindow};
use std::time::{Duration, Instant};

/// Checks of a full ring before a waiting producer sleeps: some 50 µs in all, with the pauses
/// between them.
pub(crate) const SPINS: u32 = 64;
const SPIN_PAUSES: u32 = 32;

/// The pause between two checks. Each check takes a cache line from the consumer, so they are not
/// too frequent.
pub(crate) fn spin() {
    for _ in 0..SPIN_PAUSES {
        std::hint::spin_loop();
    }
}

/// Writes one record.
#[inline(always)]
pub(crate) fn put(
    window: &mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    kind: RecordType,
    payload: &[u8],
    end: End,
) -> Result<(), ReserveError> {
    let refused = |window: &mut WriteWindow, refusal| refuse(window, refusal, payload.len());
    window.put_or_count(kind, payload, end, |keeper| clock.timestamp(keeper), refused)
}

/// Writes one record as [`put`] does, and waits for space for at most `timeout`.
#[inline(always)]
pub(crate) fn put_timeout(
    window: &mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    kind: RecordType,
    payload: &[u8],
    timeout: Duration,
) -> Result<(), ReserveError> {
    let end = End::Publish(Wake::Auto);
    let refused = |_: &mut WriteWindow, refusal| refusal;
    match window.put(kind, payload, end, |keeper| clock.timestamp(keeper), refused) {
        Ok(()) => Ok(()),
        Err(refusal) => put_after(refusal, window, clock, kind, payload, timeout),
    }
}

#[cold]
#[inline(never)]
fn put_after(
    refusal: Refusal,
    window: &mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    kind: RecordType,
    payload: &[u8],
    timeout: Duration,
) -> Result<(), ReserveError> {
    let len = payload.len();
    wait(window, refusal, len, timeout).map_err(|refusal| refuse(window, refusal, len))?;
    put(window, clock, kind, payload, End::Publish(Wake::Auto))
}

/// Reserves space for one record, in place.
#[inline(always)]
pub(crate) fn reserve<'a>(
    window: &'a mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    kind: RecordType,
    len: usize,
    end: End,
) -> Result<Reservation<'a>, ReserveError> {
    let refused = |window: &mut WriteWindow, refusal| refuse(window, refusal, len);
    window.reserve_or_count(kind, len, end, |keeper| clock.timestamp(keeper), refused)
}

/// Reserves space as [`reserve`] does, and waits for it for at most `timeout`.
#[inline(always)]
pub(crate) fn reserve_timeout<'a>(
    window: &'a mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    kind: RecordType,
    len: usize,
    timeout: Duration,
) -> Result<Reservation<'a>, ReserveError> {
    let wait = |window: &mut WriteWindow, refusal| {
        wait(window, refusal, len, timeout).map_err(|refusal| refuse(window, refusal, len))
    };
    let end = End::Publish(Wake::Auto);
    window.reserve_when(kind, len, end, |keeper| clock.timestamp(keeper), wait)
}

/// Reserves space as [`reserve_timeout`] does, but returns `None`, and counts nothing, if there is
/// none in time.
#[inline(always)]
pub(crate) fn offer_timeout<'a>(
    window: &'a mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    kind: RecordType,
    len: usize,
    timeout: Duration,
) -> Result<Option<Reservation<'a>>, ReserveError> {
    let wait = |window: &mut WriteWindow, refusal| {
        wait(window, refusal, len, timeout).map_err(|refusal| match refusal {
            Refusal::Full => ReserveError::Full,
            refusal => refuse(window, refusal, len),
        })
    };
    let end = End::Publish(Wake::Auto);
    match window.reserve_when(kind, len, end, |keeper| clock.timestamp(keeper), wait) {
        Ok(reserved) => Ok(Some(reserved)),
        Err(ReserveError::Full) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reserves where the loop of [`Producer::publish_each`](crate::Producer::publish_each) finds no
/// room.
#[cold]
#[inline(never)]
pub(crate) fn reserve_slowly<'w>(
    window: &'w mut WriteWindow,
    clock: &mut Clock<MachineClock>,
    each: &Each,
) -> Result<Reservation<'w>, ReserveError> {
    let Each { kind, len, timeout, .. } = *each;
    if timeout.is_zero() {
        reserve(window, clock, kind, len, End::Hold)
    } else {
        reserve_timeout(window, clock, kind, len, timeout)
    }
}

/// Waits until a record of `len` bytes fits, after a refusal: spins for the time that a fast
/// consumer takes, then sleeps. When it returns, the next attempt succeeds.
#[cold]
#[inline(never)]
pub(crate) fn wait(
    window: &mut WriteWindow,
    mut refusal: Refusal,
    len: usize,
    timeout: Duration,
) -> Result<(), Refusal> {
    if timeout.is_zero() {
        return Err(refusal); // without a look at the clock
    }
    let (since, mut spun) = (Instant::now(), 0);
    while refusal == Refusal::Full {
        if spun < SPINS {
            spun += 1;
            spin();
        } else {
            let left = timeout.saturating_sub(since.elapsed());
            if left.is_zero() {
                break;
            }
            window.sleep_for_space(len, left);
        }
        match window.poll_for_space(len) {
            Ok(()) => return Ok(()),
            Err(again) => refusal = again,
        }
    }
    Err(refusal)
}

/// Counts a refusal, unless the ring is a parent's: a fork in the middle of a record is noticed here.
#[inline(never)]
pub(crate) fn refuse(window: &mut WriteWindow, refusal: Refusal, len: usize) -> ReserveError {
    if window.forked() {
        return ReserveError::Forked;
    }
    window.refuse(refusal, len);
    ReserveError::of(refusal, || window.cut_off())
}
