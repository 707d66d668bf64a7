//! The consumer of a drop ring.

pub(crate) mod borrow; // the consumer
pub(crate) mod hold; // reading ahead of the released position
mod known; // the common path
pub(crate) mod lines; // write-touching the lines that were read
pub(crate) mod losses; // losses that no marker reports
pub(crate) mod passed; // ranges of the AUX area that were read
pub(crate) mod release; // the records that were read, and their release
