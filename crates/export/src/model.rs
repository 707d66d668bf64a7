//! What is exported.

pub(crate) mod duration;
pub(crate) mod event;
pub mod figures;
pub(crate) mod mangle;
pub(crate) mod processes;
pub(crate) mod rule_name;
pub(crate) mod shapes;
pub mod signal;
pub(crate) mod timeline;
