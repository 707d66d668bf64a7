//! The present thread, and the CPU that it runs on.

use crate::sys::rseq::{NoRseq, RseqRegistration, Thread};
use crate::sys::sequence;
use std::marker::PhantomData;

/// The present thread's registration for restartable sequences.
#[derive(Clone, Copy, Debug)]
pub struct CpuThread {
    pub(crate) thread: Thread,
    not_send: PhantomData<*const ()>,
}

impl CpuThread {
    /// Returns the present thread.
    ///
    /// # Errors
    /// See [`NoRseq`].
    #[inline(always)]
    pub fn here() -> Result<Self, NoRseq> {
        sequence::thread().map(|thread| CpuThread { thread, not_send: PhantomData })
    }

    /// Returns how the present thread is registered. Registers the thread if the C library has not.
    ///
    /// # Errors
    /// See [`NoRseq`].
    pub fn registration() -> Result<RseqRegistration, NoRseq> {
        sequence::registration()
    }

    /// Returns the number of the CPU that the thread runs on. It may run on another one at once.
    #[must_use]
    #[inline(always)]
    pub fn cpu(self) -> u32 {
        self.thread.cpu()
    }
}
