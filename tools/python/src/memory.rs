//! All memory that Python sees without a copy, and the only unsafe code of the package.
//!
//! Two kinds of it: bytes that readers were given ([`pinned::Pinned`]), which nobody writes while
//! their record is pinned; and the space of open reservations ([`held::Held`]), which only this
//! process writes. Both live in a mapping of a ring, which lives as long as its producer or consumer
//! does; whoever has such memory keeps that alive.
#![allow(unsafe_code)]

pub(crate) mod buffer;
mod exports;
pub(crate) mod held;
pub(crate) mod pinned;
