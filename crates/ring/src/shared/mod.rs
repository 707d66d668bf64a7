//! One of many producers of a shared ring.

pub(crate) mod allot; // ranges of the AUX area
pub(crate) mod cpu; // a ring per CPU
pub(crate) mod end; // commit, discard, and data_head's advance
pub(crate) mod evict; // the oldest records of an overwrite ring
pub(crate) mod locked_room; // the lock, and room under it
pub(crate) mod own_open; // open reservations, whose memory this producer must not get a second time
#[cfg(all(test, feature = "heap", not(any(loom, miri))))] // too many for them
mod own_open_tests;
pub(crate) mod owner; // taking the lock, also from dead owners
pub(crate) mod publish; // the producer
mod refused; // refusals, also without the lock
mod reserving; // reservations
pub(crate) mod running; // the running totals, kept under the lock
pub(crate) mod slot; // the counts of one slot's producers
pub(crate) mod span; // several records in one reservation
#[cfg(all(test, feature = "heap", not(any(loom, miri))))] // too many for them
mod step_tests;
pub(crate) mod sweep; // open reservations of dead producers
