//! The events of many rings, or of a recording, in order.

mod calls;
mod held;
pub(crate) mod input;
pub(crate) mod live;
mod machine;
pub(crate) mod progress;
pub(crate) mod recorded;
pub(crate) mod seats;
pub(crate) mod still;
pub(crate) mod tasks;
pub(crate) mod witness;
