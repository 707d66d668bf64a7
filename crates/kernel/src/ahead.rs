//! A reader that knows the next item before it is taken: what both kinds of rings have.

use perfring_consumer::advanced::{Front, ReaderId, ResumePoint};
use perfring_consumer::{Cause, Item, Lost, RecordRef, RecordType, stat::Count};

/// The content of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A record of this type.
    Record(RecordType),
    /// A loss.
    Lost { records: u64, bytes: u64, cause: Cause },
}

/// An item.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) pos: u64,
    pub(crate) end: u64,
    pub(crate) time: u64,
    pub(crate) what: Option<Content>,
    pub(crate) payload: Vec<u8>,
}

impl Read {
    fn item(&self) -> Option<Item<'_>> {
        let (pos, bytes) = (self.pos, &*self.payload);
        Some(match self.what? {
            Content::Record(kind) => Item::Record(RecordRef {
                pos,
                kind: kind.get(),
                bytes,
                time: Some(self.time),
                writer: None,
            }),
            Content::Lost { records, bytes, cause } => {
                Item::Lost(Lost { pos, records, bytes, cause, at_end: false })
            }
        })
    }
}

/// The item that was taken last, and the next one.
#[derive(Debug)]
pub(crate) struct Ahead {
    id: ReaderId,
    /// The item that was taken last; it may be borrowed.
    here: Read,
    /// The next item, once it was polled for.
    next: Option<Read>,
    /// The buffer for the item after it.
    spare: Vec<u8>,
    /// Records before the next item.
    taken: Count,
}

impl Ahead {
    /// Begins at this position.
    pub(crate) fn new(pos: u64) -> Self {
        Ahead {
            id: ReaderId::unique(),
            here: Read { end: pos, ..Read::default() },
            next: None,
            spare: Vec::new(),
            taken: Count::default(),
        }
    }

    /// Returns the buffer for the payload of the next item, to be given to [`Ahead::set_next`].
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    pub(crate) fn set_next(&mut self, next: Read) {
        self.next = Some(next);
    }

    pub(crate) fn next(&self) -> Option<&Read> {
        self.next.as_ref()
    }

    /// Makes the next item the one that was taken last, and returns its content.
    pub(crate) fn advance(&mut self) -> Option<Content> {
        let next = self.next.take()?;
        self.spare = std::mem::replace(&mut self.here, next).payload;
        if let Some(Content::Record(_)) = self.here.what {
            let (count, size) = (self.taken, self.here.end - self.here.pos);
            self.taken =
                Count { records: count.records + 1, bytes: count.bytes.saturating_add(size) };
        }
        self.here.what
    }

    /// Returns the item that was taken last.
    pub(crate) fn item(&self) -> Option<Item<'_>> {
        self.here.item()
    }

    /// Returns the time of that item.
    pub(crate) fn time(&self) -> u64 {
        self.here.time
    }

    /// Returns the position after that item.
    pub(crate) fn end(&self) -> u64 {
        self.here.end
    }

    pub(crate) fn front(&self) -> Front {
        match &self.next {
            None => Front::Empty,
            Some(Read { what: Some(Content::Lost { .. }), .. }) => Front::Lost,
            Some(next) => Front::Timestamped(next.time),
        }
    }

    /// Returns the resume point at a position after everything that was taken.
    pub(crate) fn resume_point(&self, pos: u64) -> ResumePoint {
        ResumePoint::new(self.id, pos, self.taken)
    }

    /// Returns whether a resume point is one of this reader's.
    pub(crate) fn is_own(&self, resume_point: &ResumePoint) -> bool {
        resume_point.is_of(self.id)
    }
}
