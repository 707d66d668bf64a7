//! Parts of errors, and errors that few programs name. [`AttachError`](crate::AttachError) and [`ReadError`](crate::ReadError) are at
//! the root. `poll` and [`metrics`](crate::metrics) have their own errors.

pub use crate::item::TypeMismatch;
pub use crate::table::SchemaMismatch;
pub use perfring_abi::BadRing;
pub use perfring_shm::{ClockError, PagesError};
