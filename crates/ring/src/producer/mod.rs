//! The exclusive producer: one at a time, plain stores.

pub(crate) mod account;
pub(crate) mod exclusive;
pub(crate) mod loan;
pub(crate) mod ranges;
pub(crate) mod room;
pub(crate) mod tail;
