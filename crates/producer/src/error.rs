//! Parts of errors, and errors that few programs name. [`AttachError`](crate::AttachError), [`OpenError`](crate::OpenError) and
//! [`ReserveError`](crate::ReserveError) are at the root. [`metrics`](crate::metrics) has its own errors.

pub use crate::cpu_set::CpuSetError;
pub use crate::reserve_error::TypeError;
pub use perfring_abi::BadRing;
pub use perfring_shm::{ClockError, CreateError, NoRseq, PagesError};
