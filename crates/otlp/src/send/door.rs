//! The entry point for `tests/fuzz`: requests as a receiver would get them, without a receiver and
//! without threads.

use super::{Options, Otlp};
use crate::mapping::Lane;
use perfring_events::OutputError;

impl Otlp {
    /// Creates an output that sends nothing: [`Otlp::requests`] takes what waits.
    ///
    /// # Errors
    /// The options are invalid.
    pub fn without_threads(name: &str, options: &Options) -> Result<Self, OutputError> {
        Self::with(name, options, Vec::new(), None)
    }

    /// Returns the waiting requests, encoded, which then count as delivered; if `all`, also those
    /// that are still being filled.
    pub fn requests(&mut self, all: bool) -> Vec<(Lane, Vec<u8>)> {
        self.drained(all)
    }
}
