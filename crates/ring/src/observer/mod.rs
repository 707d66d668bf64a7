//! Who reads without leaving a trace.

pub(crate) mod copy;
pub(crate) mod intact;
