//! Records with their types and times, and their selection.

pub(crate) mod filter;
pub(crate) mod select;
pub(crate) mod shapes;
pub(crate) mod time;
pub(crate) mod typed;
