//! ringfire: fixed slots from one producer, fixed slots from many, and blobs of any length.
//!
//! Its producers create the file, and its readers copy each record out. The ring of one producer
//! has a mode that waits for its readers and one that does not; the other two always overwrite.

mod attach;
mod blobs;
mod many;
mod reader;
mod slots;

pub use blobs::Blobs;
pub use many::Many;
pub use reader::SlotReceiver;
pub use slots::Slots;
