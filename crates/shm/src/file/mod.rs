//! The ring's file: made, opened, checked, locked and removed.

pub(crate) mod create;
pub(crate) mod error;
pub(crate) mod guard;
pub(crate) mod liveness;
pub(crate) mod location;
pub(crate) mod open;
pub(crate) mod open_or_create;
pub(crate) mod remove;
