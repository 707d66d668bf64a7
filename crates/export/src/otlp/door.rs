//! The door of `tests/fuzz`: requests as a receiver would get them, without one and without threads.

use super::{Lane, Options, Otlp};
use crate::output::OutputError;

impl Otlp {
    /// One that sends nothing: [`Otlp::requests`] takes what waits.
    ///
    /// # Errors
    /// The options say what cannot be.
    pub fn without_threads(name: &str, options: &Options) -> Result<Self, OutputError> {
        Self::with(name, options, Vec::new())
    }

    /// The requests that wait, encoded, and delivered from now on; if `all`, with what is still gathered.
    pub fn requests(&mut self, all: bool) -> Vec<(Lane, Vec<u8>)> {
        self.flow.requests(all)
    }
}
