//! A recording of what rings held at one moment.

use super::open::{Existing, Options};
use super::write::Recording;
use perfring_consumer::{Item, ReadError, Snapshot, advanced::Saved};
use perfring_events::{Event, FileMode, Loss, Origin, Output, OutputError, Rec, Terms, Took, What};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::time::Instant;

/// Writes a recording of snapshots of rings, in the order of time, and returns the number of its records. An existing
/// file is replaced.
///
/// ```
/// use perfring_consumer::{Location, Snapshot};
/// use perfring_events::{FileMode, Shapes};
/// use perfring_recording::write_snapshots;
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let (ring, path) = (dir.path().join("shop"), dir.path().join("shop.perfrec"));
/// # Producer::create(&ring, &Options::default())?.publish(b"an order")?;
/// let snapshot = Snapshot::take(&ring)?;
/// let shapes = Shapes::of_snapshot(&snapshot, &Location::from(&*ring), 0);
/// let rings = [(shapes.origin().clone(), snapshot)];
/// assert_eq!(write_snapshots(&path, FileMode::default(), &rings)?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`OutputError`], if the file cannot be written.
pub fn write_snapshots(
    path: &Path,
    mode: FileMode,
    rings: &[(Origin, Snapshot)],
) -> Result<u64, OutputError> {
    let existing = Existing::Replace;
    let terms = Terms { mode, ..Terms::default() };
    let options = Options { path: path.to_owned(), existing, terms, ..Options::default() };
    let mut out = Recording::open("snapshot", &options)?;
    let mut seq = 0;
    let mut report = |origin: &Origin, what| -> Result<(), OutputError> {
        seq += 1;
        let event = Event { seq, origin, what };
        if out.take(&event)? == Took::Busy {
            out.flush()?;
            if out.take(&event)? == Took::Busy {
                let why = out.figures().trouble.unwrap_or_else(|| "it takes no events".to_owned());
                return Err(OutputError::new("snapshot", why));
            }
        }
        Ok(())
    };
    let mut next = BinaryHeap::new();
    let mut items: Vec<_> = rings.iter().map(|(_, snapshot)| snapshot.iter().peekable()).collect();
    let mut records = 0;
    for (at, ((origin, _), items)) in rings.iter().zip(&mut items).enumerate() {
        report(origin, What::Began)?;
        if let Some(item) = items.peek() {
            next.push(Reverse((time_of(item, 0), at)));
        }
    }
    while let Some(Reverse((time, at))) = next.pop() {
        let (Some((origin, _)), Some(items)) = (rings.get(at), items.get_mut(at)) else { continue };
        match items.next() {
            Some(Ok(Item::Record(record))) => {
                records += 1;
                report(origin, What::Record(Rec::new(record, origin)))?;
            }
            Some(Ok(Item::Lost(lost))) => {
                report(origin, What::Lost(Loss::of(lost, &Saved::default(), None, origin)))?;
            }
            // A damaged ring ends at the damage; what precedes it is kept.
            Some(Err(_)) | None => continue,
        }
        if let Some(item) = items.peek() {
            next.push(Reverse((time_of(item, time), at)));
        }
    }
    for (origin, _) in rings {
        report(origin, What::Ended)?;
    }
    out.close(Instant::now())?;
    Ok(records)
}

fn time_of(item: &Result<Item<'_>, ReadError>, last: u64) -> u64 {
    match item {
        Ok(Item::Record(record)) => record.time.unwrap_or(last),
        _ => last,
    }
}
