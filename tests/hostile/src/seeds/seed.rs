//! What a seed is.

/// An input with its name.
pub(crate) type Seed = (String, Vec<u8>);
