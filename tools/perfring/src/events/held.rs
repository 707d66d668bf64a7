//! A copy of the next item, as readers lend it only until the next call.

use perfring_consumer::{Item, Lost, RecordRef, WriterId, advanced::Saved, stat::Count};
use perfring_export::{Event, Loss, LossCause, Origin, Rec, What};

#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) what: Given,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Given {
    #[default]
    Began,
    Record {
        pos: u64,
        kind: u32,
        time: Option<u64>,
        writer: Option<WriterId>,
        late: u64,
    },
    Lost {
        lost: Lost,
        /// The time of the previous record.
        time: Option<u64>,
        /// The reader's position after it.
        after: Saved,
    },
    /// The ring cannot be read from this position on: what is lost there, 0 records if that is unknown.
    Damaged {
        pos: u64,
        rest: Count,
        /// The time of the last record.
        time: Option<u64>,
    },
    Ended,
}

impl Held {
    /// Copies an item; `last` is the timestamp of the previous record, and becomes this one's.
    pub(super) fn item(&mut self, item: &Item<'_>, late: u64, last: &mut Option<u64>) {
        self.what = match *item {
            Item::Record(RecordRef { pos, kind, bytes, time, writer }) => {
                self.bytes.clear();
                self.bytes.extend_from_slice(bytes);
                *last = time.or(*last);
                Given::Record { pos, kind, time, writer, late }
            }
            Item::Lost(lost) => Given::Lost { lost, time: *last, after: Saved::default() },
        };
    }

    /// Sets the reader's position after the item, which a loss needs.
    pub(super) fn set_after(&mut self, position: impl FnOnce() -> Saved) {
        if let Given::Lost { after, .. } = &mut self.what {
            *after = position();
        }
    }

    pub(super) fn record(&self) -> Option<RecordRef<'_>> {
        match self.what {
            Given::Record { pos, kind, time, writer, .. } => {
                Some(RecordRef { pos, kind, bytes: &self.bytes, time, writer })
            }
            _ => None,
        }
    }

    pub(super) fn event<'a>(&'a self, seq: u64, origin: &'a Origin) -> Event<'a> {
        let what = match self.what {
            Given::Began => What::Began,
            Given::Ended => What::Ended,
            Given::Record { pos, kind, time, writer, late } => {
                let record = RecordRef { pos, kind, bytes: &self.bytes, time, writer };
                let mut record = Rec::new(record, origin);
                record.late = late;
                What::Record(record)
            }
            Given::Lost { lost, time, after } => What::Lost(Loss::of(lost, &after, time, origin)),
            Given::Damaged { pos, rest: Count { records, bytes }, time } => {
                let wall = time.and_then(|time| origin.anchors.wall(pos, time));
                let loss = Loss::new(pos, records, bytes, LossCause::RingDamaged);
                What::Lost(Loss { time, wall, ..loss })
            }
        };
        Event { seq, origin, what }
    }
}
