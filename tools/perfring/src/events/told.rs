//! The losses that a recording has: a recorder that appends to it reports none of them again.

use perfring_consumer::stat::Count;
use perfring_export::recording::Reader;
use perfring_export::{Event, Loss, What};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Losses by ring and cause. Each is known by its sum, and has its records and bytes.
#[derive(Debug, Default)]
pub(crate) struct Told(HashMap<([u8; 16], &'static str), BTreeMap<u64, Count>>);

impl Told {
    /// Reads the losses of a recording, up to damage.
    pub(crate) fn of(path: &Path) -> Self {
        let mut told = Told::default();
        let Ok(mut reader) = Reader::open(path) else { return told };
        while let Ok(Some(event)) = reader.next() {
            if let What::Lost(Loss { cause, records, bytes, sum: Some(sum), .. }) = event.what {
                let of_cause = told.0.entry((event.origin.uuid, cause.name())).or_default();
                of_cause.insert(sum, Count { records, bytes });
            }
        }
        told
    }

    /// Returns an event without the lost records that the recording has; `None` if there are no others in it.
    pub(crate) fn cut<'a>(&self, event: Event<'a>) -> Option<Event<'a>> {
        let What::Lost(loss) = &event.what else { return Some(event) };
        let Some(sum) = loss.sum else { return Some(event) };
        let Some(told) = self.0.get(&(event.origin.uuid, loss.cause.name())) else {
            return Some(event);
        };
        let within = sum.saturating_sub(loss.records).saturating_add(1)..=sum;
        let had = told.range(within).fold(Count::default(), |sum, (_, had)| sum.plus(*had));
        let Count { records, bytes } =
            Count { records: loss.records, bytes: loss.bytes }.since(had);
        let rest = Loss { records, bytes, ..*loss };
        (rest.records > 0).then_some(Event { what: What::Lost(rest), ..event })
    }
}
