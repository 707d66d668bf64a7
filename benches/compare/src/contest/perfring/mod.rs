//! perfring, through its public API, in each of its ways besides those of `perfring bench`.

mod many;
mod one;
mod sets;

pub use many::{Cpu, Fullest, InOrder, InTurn};
pub use one::{Batched, Named, Shared, SharedBatched, Values};
