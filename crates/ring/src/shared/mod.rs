//! One of many producers of a shared ring.

pub(crate) mod allot;
pub(crate) mod end;
pub(crate) mod evict;
pub(crate) mod group;
pub(crate) mod ledger;
pub(crate) mod locked_room;
pub(crate) mod owner;
pub(crate) mod publish;
pub(crate) mod slot;
pub(crate) mod sweep;
