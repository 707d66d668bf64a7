//! All memory that Python sees without a copy, and the only unsafe code of the package.
//!
//! Two kinds are in the ring: bytes that readers return ([`pinned::Pinned`]), which no process writes
//! while their record is pinned; and the space of open reservations ([`held::Held`]), which only
//! this process writes. Both are in a mapping of a ring, which lives as long as its producer or
//! consumer; objects with such memory keep that alive. The third kind are the copies of a batch ([`crate::spare`]), which are
//! written before Python sees them and used again when the last object with them is dead.
#![allow(unsafe_code)]

use perfring_consumer::{Promise, Trust};

/// Returns the trust of a program that asks for `trust="peers"`.
pub(crate) fn trust_peers() -> Trust {
    // SAFETY: by these words the program promises it, as the documentation of `Consumer` says.
    Trust::Peers(unsafe { Promise::all_writers_keep_to_the_protocol() })
}

pub(crate) mod buffer;
mod exports;
pub(crate) mod held;
pub(crate) mod pinned;
