//! A ring's figures, as several commands show them.

pub(crate) mod books;
pub(crate) mod json;
pub(crate) mod types;
