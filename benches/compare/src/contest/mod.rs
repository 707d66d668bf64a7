//! The contestants, each with its own fast path, and what several of them share.

#[cfg(feature = "aeron")]
pub mod aeron;
pub mod agrona;
pub mod bpf;
#[doc(hidden)]
pub mod faulty;
pub mod handed;
#[cfg(feature = "iceoryx2")]
pub mod iceoryx2;
pub mod limits;
pub mod lttng;
mod mapped;
pub mod perf_overwrite;
mod perf_ring;
pub mod perfring;
pub mod pipe;
pub mod program;
pub mod ringfire;
pub mod rtrb;
pub mod shmem_ipc;
pub mod slots;
pub mod stream;
pub mod unix_stream;
