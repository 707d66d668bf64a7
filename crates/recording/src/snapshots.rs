//! A recording of what rings held at one moment.

use super::open::{Existing, Options};
use super::write::Recording;
use perfring_consumer::{Item, advanced::Saved};
use perfring_events::{
    Event, FileMode, Loss, LossCause, Origin, Output, OutputError, Rec, Terms, Took, What,
};
use perfring_set::{Merge, Source, SourceId};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Writes a recording of snapshots of rings, in the order of time, and returns the number of records of each. An existing file
/// is replaced. A source is read until it has nothing more, or is damaged: a loss of the cause [`LossCause::RingDamaged`] follows.
///
/// ```
/// use perfring_consumer::{Location, Snapshot, advanced::SnapshotReader};
/// use perfring_events::{FileMode, Shapes};
/// use perfring_recording::write_snapshots;
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let (ring, path) = (dir.path().join("shop"), dir.path().join("shop.perfrec"));
/// # Producer::create(&ring, &Options::default())?.publish(b"an order")?;
/// let snapshot = Snapshot::take(&ring)?;
/// let shapes = Shapes::of_snapshot(&snapshot, &Location::from(&*ring), 0);
/// let origin = shapes.origin().clone();
/// let written =
///     write_snapshots(&path, FileMode::default(), vec![(origin, Box::new(SnapshotReader::new(snapshot)))])?;
/// assert_eq!(written, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`OutputError`], if the file cannot be written.
pub fn write_snapshots(
    path: &Path,
    mode: FileMode,
    rings: Vec<(Origin, Box<dyn Source>)>,
) -> Result<Vec<u64>, OutputError> {
    let existing = Existing::Replace;
    let terms = Terms { mode, ..Terms::default() };
    let options = Options { path: path.to_owned(), existing, terms, ..Options::default() };
    let mut out = Recording::open("snapshot", &options)?;
    let mut seq = 0;
    let mut report = |origin: &Origin, what: What<'_>| -> Result<(), OutputError> {
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
    // All is there: the clock is at its end, so nothing is waited for.
    let mut merge = Merge::with_clock(Duration::ZERO, || u64::MAX);
    let mut origins: BTreeMap<SourceId, (usize, Origin)> = BTreeMap::new();
    // After the last record of each.
    let mut ends = vec![0; rings.len()];
    let mut written = vec![0; rings.len()];
    for (at, (origin, source)) in rings.into_iter().enumerate() {
        report(&origin, What::Began)?;
        origins.insert(merge.add(source), (at, origin));
    }
    loop {
        match merge.next() {
            Ok(Some(merged)) => {
                let Some((at, origin)) = origins.get(&merged.source) else { continue };
                let what = match merged.item {
                    Item::Record(record) => {
                        written[*at] += 1;
                        let record = Rec::new(record, origin);
                        ends[*at] = record.pos.saturating_add(record.ring_bytes());
                        What::Record(record)
                    }
                    Item::Lost(lost) => What::Lost(Loss::of(lost, &Saved::default(), None, origin)),
                };
                report(origin, what)?;
            }
            Ok(None) => break,
            // What precedes the damage is kept.
            Err((id, _)) => {
                let Some((at, origin)) = origins.get(&id) else { continue };
                report(origin, What::Lost(Loss::new(ends[*at], 0, 0, LossCause::RingDamaged)))?;
            }
        }
    }
    for (_, origin) in origins.values() {
        report(origin, What::Ended)?;
    }
    out.close(Instant::now())?;
    Ok(written)
}
