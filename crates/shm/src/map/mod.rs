//! The ring's file in memory, and what is done with it there.

pub(crate) mod address_range;
pub(crate) mod aux_mirror;
pub(crate) mod control;
pub(crate) mod look;
pub(crate) mod mirror;
pub(crate) mod pages;
pub(crate) mod plain;
pub(crate) mod recover;
