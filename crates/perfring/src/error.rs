//! Parts of errors, and errors that few programs name. The four of the verbs are at the root: [`AttachError`](crate::AttachError),
//! [`OpenError`](crate::OpenError), [`ReserveError`](crate::ReserveError) and [`ReadError`](crate::ReadError).
//! [`metrics`](crate::metrics), `poll` and [`types`](mod@crate::types) have their own errors.

#[doc(inline)]
pub use perfring_consumer::error::*;
#[doc(inline)]
pub use perfring_producer::error::*;
