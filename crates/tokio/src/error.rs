//! Errors.

use perfring_consumer::{AttachError, PollError, ReadError};
use std::fmt;

/// Why a reader cannot go on.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing can be read any more.
    #[error(transparent)]
    Read(#[from] ReadError),
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

/// Shows the sentence, which is what `main() -> Result` prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
