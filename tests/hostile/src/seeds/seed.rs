//! The type of a seed.

/// An input with its name.
pub(crate) type Seed = (String, Vec<u8>);
