//! The state that a merge of very many rings keeps from one sleep to the next.

use perfring_consumer::advanced::ManyWaits;

/// The requests of very many sources.
#[derive(Debug, Default)]
pub(super) struct Asleep {
    pub(super) waits: Option<ManyWaits>,
    /// It was tried in vain: not again until a source is removed, which may be the reason.
    pub(super) impossible: bool,
    /// Each idle source has a request.
    pub(super) all: bool,
    /// Then all are polled: see [`ManyWaits`].
    pub(super) tick_at: u64,
    /// Another user may read one of the rings, or could read a ring that was here.
    pub(super) exposed: bool,
}
