//! Records that an output leaves out by itself.

use super::output::Figures;
use crate::event::sum_of;
use std::time::{Duration, Instant};

/// How long a record that is left out is reported as trouble.
pub const REPORTED: Duration = Duration::from_secs(60);

/// How many records an output has left out, by cause, and why the last one is.
#[derive(Debug, Default)]
pub struct LeftOut {
    by: Vec<(&'static str, u64)>,
    last: Option<(Instant, String)>,
}

impl LeftOut {
    /// Counts a record, and reports it.
    pub fn count(&mut self, cause: &'static str, why: String) {
        *sum_of(&mut self.by, cause) += 1;
        self.report(why);
    }

    /// Reports a record that is not lost.
    pub fn report(&mut self, why: String) {
        self.last = Some((Instant::now(), why));
    }

    pub fn records(&self) -> u64 {
        self.by.iter().map(|(_, count)| count).sum()
    }

    /// Adds the records to those that were refused for good. Another trouble precedes.
    pub fn add_to(&self, figures: &mut Figures) {
        for (cause, records) in &self.by {
            figures.refuse(cause, *records);
        }
        if figures.trouble.is_none() {
            let last = self.last.as_ref().filter(|(at, _)| at.elapsed() < REPORTED);
            figures.trouble = last.map(|(_, why)| why.clone());
        }
    }
}
