//! The exclusive producer: one at a time, plain stores.

pub(crate) mod account; // what it has written, for its totals
pub(crate) mod exclusive; // the producer
pub(crate) mod ranges; // its ranges of the AUX area
mod reserving; // reservations
pub(crate) mod room; // how far it may go, and what it does beyond
pub(crate) mod tail; // the oldest records of an overwrite ring
