//! Record types: schemas, and what the type table of a ring holds. Re-exports `perfring-types`.

#[cfg(feature = "derive")]
pub use perfring_derive::PerfringRecord as Record;
#[doc(inline)]
pub use perfring_types::*;
