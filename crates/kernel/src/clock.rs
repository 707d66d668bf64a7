//! The wall clock beside the clock of timestamps.

use perfring_consumer::advanced::{Anchor, MachineClock};
use perfring_consumer::{Anchors, error::ClockError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of readings of the clocks, of which the narrowest counts.
const READINGS: u32 = 3;

/// Returns the anchors of this moment.
pub(crate) fn anchors_now() -> Result<Anchors, ClockError> {
    let clock = MachineClock::find()?;
    let mut narrowest = (u64::MAX, Anchor::default());
    for _ in 0..READINGS {
        let before = clock.now_ns();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let width = clock.now_ns().saturating_sub(before);
        if width < narrowest.0 {
            let (clock_ns, realtime_ns) = (before + width / 2, now.as_nanos() as u64);
            let anchor = Anchor { pos: 0, clock_ns, realtime_ns, error_ns: width / 2 + 1 };
            narrowest = (width, anchor);
        }
    }
    Ok([narrowest.1].into_iter().collect())
}
