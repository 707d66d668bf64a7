//! The consumer of a drop ring.

pub(crate) mod borrow;
pub(crate) mod hold;
pub(crate) mod lines;
pub(crate) mod passed;
pub(crate) mod release;
