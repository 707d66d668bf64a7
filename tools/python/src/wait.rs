//! Timeouts, and waits during which other threads run and Ctrl-C is answered.

use perfring_types::read::parse_duration;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// The longest time without a check for signals.
const SLICE: Duration = Duration::from_millis(100);

/// How long a call may wait: seconds, a text that [`parse_duration`] reads, or `None` for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeout(Option<Duration>);

impl Timeout {
    pub(crate) const NOW: Timeout = Timeout(Some(Duration::ZERO));
    pub(crate) const NEVER: Timeout = Timeout(None);

    pub(crate) fn begin(self) -> Until {
        // A timeout that overflows is for ever.
        Until(self.0.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Returns it as a duration, the longest one for ever.
    pub(crate) fn length(self) -> Duration {
        self.0.unwrap_or(Duration::MAX)
    }

    pub(crate) fn is_now(self) -> bool {
        self.0 == Some(Duration::ZERO)
    }
}

/// When a wait is over; `None`: never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until(Option<Instant>);

impl Until {
    /// Returns whether the time is over.
    pub(crate) fn is_over(self) -> bool {
        self.0.is_some_and(|until| Instant::now() >= until)
    }
}

impl<'py> FromPyObject<'_, 'py> for Timeout {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if given.is_none() {
            return Ok(Timeout::NEVER);
        }
        let seconds: f64 = match given.extract() {
            Ok(seconds) => seconds,
            Err(error) => {
                let Ok(text) = given.extract::<&str>() else { return Err(error) };
                let timeout = parse_duration(text);
                return timeout
                    .map(|timeout| Timeout(Some(timeout)))
                    .map_err(|wrong| PyValueError::new_err(wrong.to_string()));
            }
        };
        if seconds == f64::INFINITY {
            return Ok(Timeout::NEVER);
        }
        match Duration::try_from_secs_f64(seconds) {
            Ok(duration) => Ok(Timeout(Some(duration))),
            Err(_) if seconds > 0.0 => Ok(Timeout::NEVER), // longer than a `Duration` can be
            Err(_) => Err(PyValueError::new_err(format!(
                "{seconds} s is no time: pass seconds from 0 on, a text such as \"250ms\", or None for ever"
            ))),
        }
    }
}

/// Calls `once` with a time that it may take, until it returns a value or the time is over. Calls
/// it without the interpreter's lock; checks for signals in between.
pub(crate) fn slices<T: Send>(
    py: Python<'_>,
    until: Until,
    mut once: impl FnMut(Duration) -> Option<T> + Send,
) -> PyResult<Option<T>> {
    loop {
        // Here, too, as a caller may call this in a loop.
        py.check_signals()?;
        let left = match until.0 {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None => SLICE,
        };
        if let Some(done) = py.detach(|| once(left.min(SLICE))) {
            return Ok(Some(done));
        }
        if left.is_zero() {
            py.check_signals()?;
            return Ok(None);
        }
    }
}
