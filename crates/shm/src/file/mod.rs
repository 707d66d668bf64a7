//! The ring's file: made, opened, checked, locked and removed.

pub(crate) mod create;
pub(crate) mod error;
pub(crate) mod guard;
pub(crate) mod home;
pub(crate) mod open;
pub(crate) mod open_or_create;
pub(crate) mod peers;
pub(crate) mod remove;
