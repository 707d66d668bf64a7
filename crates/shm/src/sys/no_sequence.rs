//! Replaces `sequence` on machines without restartable sequences.

use crate::sys::rseq::{Ended, NoRseq, RseqRegistration, SequenceRecord, SequenceRing, Thread};

pub(crate) fn thread() -> Result<Thread, NoRseq> {
    Err(NoRseq::Architecture)
}

pub(crate) fn registration() -> Result<RseqRegistration, NoRseq> {
    Err(NoRseq::Architecture)
}

pub(crate) unsafe fn publish<const LEAD: usize>(
    _: Thread,
    _: &SequenceRing,
    _: SequenceRecord,
) -> Ended {
    Ended::Slow
}

pub(crate) unsafe fn close(_: Thread, _: &SequenceRing, _: u32) -> Ended {
    Ended::Slow
}
