//! A ring's figures, as the command and the Python package show them.

pub mod agreed;
#[cfg(feature = "json")]
pub mod json;
pub mod types_use;
