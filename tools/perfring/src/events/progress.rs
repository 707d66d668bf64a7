//! Progress: one line on stderr, if that is a terminal.

use crate::verbosity::has_summaries;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use perfring_export::{Totals, later};
use std::time::{Duration, Instant};

/// The interval at which the line is redrawn.
const EVERY: Duration = Duration::from_millis(100);

/// A line that is shown during an operation, and removed afterwards.
pub(crate) struct Progress {
    bar: ProgressBar,
    began: Instant,
    next: Instant,
    /// When the rate was last measured, at how many records; and its value.
    rate: (Instant, u64, f64),
}

impl Progress {
    /// For an operation without an end.
    pub(crate) fn spinner() -> Self {
        Self::of(ProgressBar::no_length(), "{spinner} {elapsed} {wide_msg}")
    }

    /// For an operation that reads a known number of bytes.
    pub(crate) fn bar() -> Self {
        Self::of(ProgressBar::new(0), "[{bar:20}] {percent:>3} % {wide_msg}")
    }

    fn of(bar: ProgressBar, template: &str) -> Self {
        // Nothing is shown where stderr is no terminal. No thread redraws it, so a stopped process
        // shows.
        bar.set_draw_target(match has_summaries() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        });
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        let now = Instant::now();
        Progress { bar, began: now, next: now, rate: (now, 0, 0.0) }
    }

    /// Returns whether the line is due to be redrawn.
    pub(crate) fn is_due(&self) -> bool {
        !self.bar.is_hidden() && Instant::now() >= self.next
    }

    pub(crate) fn show(&mut self, totals: &Totals, read: Option<(u64, u64)>, note: &str) {
        let now = Instant::now();
        self.next = later(now, EVERY);
        let (then, records, _) = self.rate;
        let since = now.duration_since(then);
        if since >= Duration::from_secs(1) || records == 0 {
            let seconds = since.as_secs_f64().max(0.001);
            self.rate = (now, totals.records, (totals.records - records) as f64 / seconds);
        }
        let lost = totals.lost();
        self.bar.set_message(format!(
            "{} records {}/s lost {}{note}",
            HumanCount(totals.records),
            HumanCount(self.rate.2 as u64),
            HumanCount(lost),
        ));
        match read {
            Some((read, all)) => {
                self.bar.set_length(all);
                self.bar.set_position(read);
            }
            None => self.bar.tick(),
        }
    }

    /// Removes the line, and returns how long the operation took.
    pub(crate) fn end(&self) -> Duration {
        self.bar.finish_and_clear();
        self.began.elapsed()
    }
}
