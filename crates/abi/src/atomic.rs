//! The atomics of every shared field, so that loom can run the real algorithm: with `--cfg loom`
//! they are loom's, and nothing else changes.

#[cfg(not(loom))]
pub use core::hint::spin_loop;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Loom reorders nothing within a thread, so a compiler fence is a full one there.
#[cfg(loom)]
pub use loom::sync::atomic::fence as compiler_fence;
