//! Slots of one length, which is a constant in this crate's code and a run-time value in a setup.

use perfring_bench::{BenchError, Result};
use std::any::Any;

/// Returns how many slots a ring of fixed slots gets: a power of two, at least two.
pub(crate) fn slots(data_size: u64, payload: usize) -> u64 {
    let fit = (data_size / payload.max(1) as u64).max(2);
    1 << fit.ilog2()
}

/// An end whose type depends on the payload.
pub(crate) struct Erased(Box<dyn Any>);

impl Erased {
    pub(crate) fn new<T: Any>(end: T) -> Self {
        Erased(Box::new(end))
    }

    /// Returns it as its type.
    #[inline(always)]
    pub(crate) fn get<T: Any>(&mut self) -> Result<&mut T> {
        self.0.downcast_mut().ok_or_else(other_payload)
    }
}

#[cold]
fn other_payload() -> BenchError {
    BenchError::Usage("an end made for another payload".to_owned())
}
