//! System interfaces for rings: sleeping and waking, locks, forks, clocks, and SIGBUS.

mod blocks;
pub(crate) mod clock;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod host;
pub(crate) mod ofd_lock;
pub(crate) mod rseq;
pub(crate) mod sigbus;
mod sigbus_passing;
