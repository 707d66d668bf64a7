//! All memory that Python sees without a copy, and the only unsafe code of the package.
//!
//! There are two kinds: bytes that readers return ([`pinned::Pinned`]), which no process writes
//! while their record is pinned; and the space of open reservations ([`held::Held`]), which only
//! this process writes. Both are in a mapping of a ring, which lives as long as its producer or
//! consumer; objects with such memory keep that alive.
#![allow(unsafe_code)]

pub(crate) mod buffer;
mod exports;
pub(crate) mod held;
pub(crate) mod pinned;
