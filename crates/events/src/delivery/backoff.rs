//! Pauses between attempts that fail.

use super::terms::Terms;
use std::time::Duration;

/// Pauses between attempts: each is twice the last one, up to the longest of the [`Terms`].
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    /// Zero if the last attempt succeeded.
    last: Duration,
}

impl Backoff {
    /// Creates pauses of which the first is so long.
    pub fn new(terms: &Terms, first: Duration) -> Self {
        Backoff { first, longest: terms.max_backoff.max(first), last: Duration::ZERO }
    }

    /// Returns the next pause: from a half of it to all of it, so that many clients of one server do not return all at
    /// once.
    pub fn pause(&mut self) -> Duration {
        self.last = self.last.saturating_mul(2).clamp(self.first, self.longest);
        let random = getrandom::u32().unwrap_or(0) & 0xffff;
        self.last / 2 + self.last / 2 / 65_536 * random
    }

    /// Returns whether the last attempt has failed.
    pub fn is_failing(&self) -> bool {
        !self.last.is_zero()
    }

    /// An attempt has succeeded. Returns whether the one before had failed.
    pub fn end(&mut self) -> bool {
        !std::mem::take(&mut self.last).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_one() {
        let first = Duration::from_millis(100);
        let pauses = |max_backoff: Duration| {
            let mut backoff = Backoff::new(&Terms { max_backoff, ..Terms::default() }, first);
            let next = |_| {
                let pause = backoff.pause();
                assert!(backoff.last / 2 <= pause && pause <= backoff.last, "{pause:?}");
                backoff.last.as_millis()
            };
            (0..9).map(next).collect::<Vec<_>>()
        };
        let default = Terms::default().max_backoff;
        assert_eq!(pauses(default), [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        assert_eq!(pauses(Duration::MAX).last(), Some(&25_600));
        // No output tries without a pause.
        assert_eq!(pauses(Duration::ZERO), [100; 9]);
        let mut backoff = Backoff::new(&Terms::default(), first);
        backoff.pause();
        assert!(backoff.is_failing() && backoff.end() && !backoff.end());
    }
}
