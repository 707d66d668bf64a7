//! The event that is held.

use super::merges::RingId;
use perfring_consumer::{RecordRef, WriterId};
use perfring_export::{Event, Loss, Origin, Rec, What};

/// An event that one output has no room for: the only one that is held for it.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) source: RingId,
    kept: Kept,
}

/// An event without its ring.
#[derive(Clone, Debug)]
enum Kept {
    Record {
        pos: u64,
        kind: u32,
        bytes: Vec<u8>,
        time: Option<u64>,
        writer: Option<WriterId>,
        late: u64,
    },
    Lost(Loss),
}

impl Pending {
    /// Keeps a record or a loss; `None` for other events.
    pub(super) fn of(source: RingId, event: Event<'_>) -> Option<Self> {
        let kept = match event.what {
            What::Record(rec) => Kept::Record {
                pos: rec.pos,
                kind: rec.kind,
                bytes: rec.bytes.to_vec(),
                time: rec.time,
                writer: rec.writer,
                late: rec.late,
            },
            What::Lost(loss) => Kept::Lost(loss),
            What::Began | What::Ended => return None,
        };
        Some(Pending { source, kept })
    }

    /// Returns the event again, without a number.
    pub(super) fn event<'a>(&'a self, origin: &'a Origin) -> Event<'a> {
        let what = match &self.kept {
            Kept::Record { pos, kind, bytes, time, writer, late } => {
                let record =
                    RecordRef { pos: *pos, kind: *kind, bytes, time: *time, writer: *writer };
                What::Record(Rec::new_late(record, origin, *late))
            }
            Kept::Lost(loss) => What::Lost(*loss),
        };
        Event { seq: 0, origin, what }
    }
}
