//! When to try again what has failed.

use super::backoff::Backoff;
use super::terms::Terms;
use std::time::{Duration, Instant};

/// The first pause between attempts to write.
const PAUSE: Duration = Duration::from_millis(50);

/// Attempts with growing pauses.
#[derive(Debug)]
pub struct Tries {
    backoff: Backoff,
    next: Option<Instant>,
}

impl Tries {
    pub fn new(terms: &Terms) -> Self {
        Tries { backoff: Backoff::new(terms, PAUSE), next: None }
    }

    /// Returns whether the pause is over, or there is none.
    pub fn is_due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// Returns whether the last attempt has failed.
    pub fn is_failing(&self) -> bool {
        self.backoff.is_failing()
    }

    /// Begins the next pause.
    pub fn failed(&mut self) {
        self.next = Instant::now().checked_add(self.backoff.pause());
    }

    /// It has succeeded. Returns whether it had failed before.
    pub fn end(&mut self) -> bool {
        self.next = None;
        self.backoff.end()
    }

    /// Ends the pause. Returns whether there was one.
    pub fn retry(&mut self) -> bool {
        self.next.take().is_some_and(|next| Instant::now() < next)
    }

    /// Repeats until it is done, or the deadline has come. Returns whether it is done.
    pub fn until<E>(
        deadline: Instant,
        mut attempt: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        loop {
            if attempt()? {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::sleep(PAUSE.min(left));
        }
    }
}
