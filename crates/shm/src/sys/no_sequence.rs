//! In the place of `sequence` where there are none.

use crate::sys::rseq::{Ended, NoRseq, Place, RseqRegistration, Thread, Whole};

pub(crate) fn thread() -> Result<Thread, NoRseq> {
    Err(NoRseq::Architecture)
}

pub(crate) fn registration() -> Result<RseqRegistration, NoRseq> {
    Err(NoRseq::Architecture)
}

pub(crate) unsafe fn publish<const LEAD: usize>(_: Thread, _: &Place, _: Whole) -> Ended {
    Ended::Slow
}

pub(crate) unsafe fn close(_: Thread, _: &Place, _: u32) -> Ended {
    Ended::Slow
}
