//! The consumer of a drop ring.

pub(crate) mod borrow;
pub(crate) mod hold;
pub(crate) mod passed;
