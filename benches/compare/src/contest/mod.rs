//! The contestants, each with its own fast path, and what several of them share.

pub mod agrona;
pub mod bpf;
#[doc(hidden)]
pub mod faulty;
#[cfg(feature = "iceoryx2")]
pub mod iceoryx2;
pub mod limits;
pub mod lttng;
mod mapped;
pub mod pipe;
pub mod program;
pub mod ringfire;
pub mod shmem_ipc;
pub mod slots;
pub mod stream;
