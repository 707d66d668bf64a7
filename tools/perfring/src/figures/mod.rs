//! A ring's figures, as several commands show them.

pub(crate) mod agreed;
pub(crate) mod areas;
pub(crate) mod boot;
pub(crate) mod opened;
