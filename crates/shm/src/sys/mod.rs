//! System interfaces for rings: sleeping and waking, locks, forks, clocks, and SIGBUS.

mod blocks;
pub(crate) mod clock;
pub(crate) mod copy;
pub(crate) mod cpu_thread;
pub(crate) mod exit;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod host;
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_endian = "little",
    target_pointer_width = "64",
    not(miri)
))]
mod libc_area;
pub(crate) mod ofd_lock;
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_endian = "little",
    target_pointer_width = "64",
    not(miri)
))]
mod own_area;
mod pin;
pub(crate) mod poll_fd;
pub(crate) mod process_context;
pub(crate) mod rseq;
#[cfg_attr(
    not(all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_endian = "little",
        target_pointer_width = "64",
        not(miri)
    )),
    path = "no_sequence.rs"
)]
pub(crate) mod sequence;
pub(crate) mod sigbus;
mod sigbus_passing;
pub(crate) mod thread_context;
pub(crate) mod thread_id;
