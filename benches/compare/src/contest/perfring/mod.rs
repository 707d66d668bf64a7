//! perfring, through its public API, in each of its modes.

mod batch;
mod calls;
mod cpu;
mod exclusive;
mod merged;
mod named;
mod reader;
mod ring;
mod rings;
mod shared;
mod values;

pub use batch::{Batched, SharedBatched};
pub use calls::Calls;
pub use cpu::Cpu;
pub use exclusive::{Exclusive, Half};
pub use merged::InOrder;
pub use named::Named;
pub use reader::Reader;
pub use rings::{InTurn, Rings};
pub use shared::Shared;
pub use values::Values;
