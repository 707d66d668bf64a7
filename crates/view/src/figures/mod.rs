//! A ring's figures: the command and the Python package show these.

pub mod agreed;
#[cfg(feature = "json")]
pub mod json;
pub mod types_use;
