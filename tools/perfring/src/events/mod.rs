//! The events of many rings, or of a recording, in order.

pub(crate) mod evidence;
mod held;
pub(crate) mod input;
pub(crate) mod live;
pub(crate) mod progress;
pub(crate) mod recorded;
pub(crate) mod still;
pub(crate) mod told;
pub(crate) mod untold;
