//! What a question about records finds in rings or in a recording.

use perfring_events::{Loss, Rec};

/// What is found in a ring.
#[derive(Debug)]
pub(super) enum Seen<'a> {
    /// The ring, before anything else of it.
    Ring {
        timed: bool,
    },
    /// A record, and its number in a question for the whole record.
    Record(u64, &'a Rec<'a>),
    Lost(&'a Loss),
    /// Records that were overwritten, or read and freed, before they could be looked at.
    Missed(u64),
    /// There are more records than are looked at.
    More,
}
