//! All memory that Python sees without a copy, and the only unsafe code of the package.
//!
//! Two kinds are in the ring: bytes that readers return ([`pinned::Pinned`]), which no process writes
//! while their record is pinned; and the space of open reservations ([`held::Held`]), which only
//! this process writes. Both are in a mapping of a ring, which lives as long as its producer or
//! consumer; objects with such memory keep that alive. The third kind are the copies of a batch ([`crate::spare`]), which are
//! written before Python sees them and used again when the last object with them is dead.
//!
//! [`items`] reads an interpreter's memory: a dictionary, without a reference count for each of its items.
#![allow(unsafe_code)]

use crate::kind::choice;
use perfring_consumer::{Promise, Trust};
use pyo3::PyResult;

/// Returns the trust that a program has asked for.
pub(crate) fn trust_of(given: &str) -> PyResult<Trust> {
    match given {
        "auto" => Ok(Trust::Auto),
        // SAFETY: by this word the program promises it, as the documentation of `Consumer` and `Producer` says.
        "peers" => Ok(Trust::Peers(unsafe { Promise::all_writers_keep_to_the_protocol() })),
        "nobody" => Ok(Trust::Nobody),
        other => Err(choice("trust", other, "\"auto\", \"peers\" or \"nobody\"")),
    }
}

pub(crate) mod buffer;
mod exports;
pub(crate) mod held;
pub(crate) mod items;
pub(crate) mod pinned;
