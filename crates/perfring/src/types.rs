//! Record types: schemas, and what the type table of a ring holds. Re-exports `perfring-types`, whose pages describe them.

#[cfg(feature = "derive")]
pub use perfring_derive::PerfringRecord as Record;
// Inlined, `perfring_types::bytemuck` would bring 9,148 pages of Rust's `core` here.
#[doc(no_inline)]
pub use perfring_types::*;
