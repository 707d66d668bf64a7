//! One of many producers of a shared ring.

pub(crate) mod allot; // where a record, or a range, begins
pub(crate) mod end; // commit, discard, and data_head's advance
pub(crate) mod evict; // the oldest records of an overwrite ring
pub(crate) mod locked_room; // the lock, and room under it
pub(crate) mod owner; // who takes the lock, also from the dead
pub(crate) mod publish; // the producer
pub(crate) mod running; // the books, as kept under the lock
pub(crate) mod slot; // what one slot's producers have done
pub(crate) mod span; // several records in one reservation
pub(crate) mod sweep; // what a dead producer left open
