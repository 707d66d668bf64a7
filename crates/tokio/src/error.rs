//! Errors of readers in tokio.

use perfring_consumer::{AttachError, ReadError, poll::PollError};
use std::fmt;

/// Why a reader cannot continue.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ring cannot be read any more.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The ring cannot be attached to, or its locks cannot be queried.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The descriptor failed.
    #[error(transparent)]
    Poll(#[from] PollError),
    /// There is no runtime with I/O enabled here, or it accepted no more descriptors.
    #[error("tokio does not wait for the ring's descriptor: {0}")]
    Runtime(#[source] std::io::Error),
}

/// Shows the sentence, which is what `main() -> Result` prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
