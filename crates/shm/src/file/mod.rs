//! The ring's file: creation, opening, checks, locks and removal.

pub(crate) mod allocate;
pub(crate) mod appear;
pub(crate) mod create;
pub(crate) mod create_dir;
pub(crate) mod create_error;
pub(crate) mod denied;
pub(crate) mod draft_name;
pub(crate) mod error;
pub(crate) mod file_system;
mod image;
pub(crate) mod liveness;
pub(crate) mod location;
pub(crate) mod open;
pub(crate) mod open_or_create;
pub(crate) mod overlay;
pub(crate) mod presence;
pub(crate) mod remove;
pub(crate) mod segment;
pub(crate) mod trust;
