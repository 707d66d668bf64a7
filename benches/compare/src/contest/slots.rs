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

/// A slot with a record. It begins at a cache line, if `A` is a [`Line`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Slot<A, const N: usize> {
    _align: [A; 0],
    /// The record.
    pub bytes: [u8; N],
}

/// Aligns to a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Line;

impl<A: Copy, const N: usize> Default for Slot<A, N> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<A, const N: usize> Slot<A, N> {
    /// An empty slot.
    pub const EMPTY: Self = Slot { _align: [], bytes: [0; N] };
}

/// Calls a body with the alignment of slots for records of `$n` bytes as `$align`: lengths of whole
/// cache lines are aligned to cache lines.
macro_rules! aligned {
    ($n:ident, $align:ident => $body:expr) => {
        if $n % 64 == 0 {
            type $align = $crate::contest::slots::Line;
            $body
        } else {
            type $align = u64;
            $body
        }
    };
}
pub(crate) use aligned;
