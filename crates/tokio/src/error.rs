//! Errors.

use perfring_consumer::{AttachError, Corrupt, PollError};

/// Why a reader cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ring holds what no producer writes.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// It cannot be attached to, or not be asked for its producer.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Its descriptor failed.
    #[error(transparent)]
    Poll(#[from] PollError),
    /// There is no runtime with I/O enabled here, or it took no more descriptors.
    #[error("tokio does not wait for the ring's descriptor: {0}")]
    Runtime(#[source] std::io::Error),
}
