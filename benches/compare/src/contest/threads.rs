//! What the queues between threads share: they are made for slots of one length, which this crate
//! knows when it is compiled and a set-up says when it runs.

use crate::CompareError;
use std::any::Any;

/// A slot with a record. It begins with a cache line, if `A` is a [`Line`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Slot<A, const N: usize> {
    _align: [A; 0],
    /// The record.
    pub bytes: [u8; N],
}

/// What begins with a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Line;

impl<A, const N: usize> Slot<A, N> {
    /// An empty one.
    pub const EMPTY: Self = Slot { _align: [], bytes: [0; N] };
}

/// A queue's end, whatever the length of its slots.
pub trait End: Any + Send {
    /// Whether there is something to read, where it is a reading end.
    fn is_behind(&self) -> bool;
}

/// The end, of slots of a length that is known.
#[inline(always)]
pub fn of<T: Any>(end: &mut dyn End) -> Result<&mut T, CompareError> {
    let end: &mut dyn Any = end;
    end.downcast_mut().ok_or(CompareError::Cannot("take records of another length"))
}

/// Calls a body with how slots for records of `$n` bytes begin as `$align`: whole cache lines lie on
/// cache lines.
macro_rules! aligned {
    ($n:ident, $align:ident => $body:expr) => {
        if $n % 64 == 0 {
            type $align = $crate::contest::threads::Line;
            $body
        } else {
            type $align = u64;
            $body
        }
    };
}
pub(crate) use aligned;

/// Waits until `attempt` does something.
#[inline(always)]
pub fn wait_until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut looks = 0u32;
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        std::hint::spin_loop();
        looks += 1;
        if looks.is_multiple_of(4096) {
            // The reader may need this core.
            std::thread::yield_now();
        }
    }
}

/// Slots of a queue of so many bytes.
pub fn slots(data_size: u64, payload: usize) -> usize {
    usize::try_from(data_size).unwrap_or(usize::MAX).checked_div(payload).unwrap_or(0).max(2)
}
