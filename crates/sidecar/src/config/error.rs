//! Errors.

use thiserror::Error;

/// A configuration that cannot be: where, what is wrong, what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConfigError(pub(crate) String);
