//! An output that discards everything: for measuring the stages before an output.

use super::output::{Figures, Output, OutputError, Took};
use crate::event::{Event, What};
use std::time::Instant;

/// Takes everything and counts it.
#[derive(Debug, Default)]
pub struct Null {
    figures: Figures,
}

impl Output for Null {
    #[inline]
    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if let What::Record(record) = &event.what {
            self.figures.taken += 1;
            self.figures.delivered += 1;
            self.figures.bytes += record.bytes.len() as u64;
        }
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn unsettled(&mut self) -> Option<u64> {
        None
    }

    fn close(&mut self, _deadline: Instant) -> Result<(), OutputError> {
        Ok(())
    }

    fn figures(&self) -> Figures {
        self.figures.clone()
    }
}
