//! The contestants of `perfring bench`: the floor, and one ring of perfring's in each way that
//! publishes record by record.

pub mod calls;
mod floor;
pub mod perfring;

pub use floor::{Floor, bare_loop};
