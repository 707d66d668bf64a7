//! The contestants of `perfring bench`: the floor, and perfring in each way.

pub mod calls;
mod floor;
pub mod perfring;
pub mod rings;
mod sets;
pub mod ways;

pub use floor::{Floor, bare_loop};
