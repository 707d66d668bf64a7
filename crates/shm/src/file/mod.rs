//! The ring's file: creation, opening, checks, locks and removal.

pub(crate) mod create;
pub(crate) mod error;
pub(crate) mod guard;
pub(crate) mod liveness;
pub(crate) mod location;
pub(crate) mod open;
pub(crate) mod remove;
