//! Snapshots of live rings.

use super::frozen::Recording;
use super::shared::Shared;
use perfring_consumer::{Location, Start, advanced::SnapshotReader};
use perfring_events::{FileMode, Origin, Shapes};
use perfring_set::Source;
use std::sync::Arc;

/// Bytes of the rings of a snapshot, at most: it is in memory for a moment.
const MOST: u64 = 1 << 30;

/// Copies what these rings hold now, and makes a recording of it.
pub(super) fn freeze(shared: &Shared, rings: &[u32]) -> Result<Arc<Recording>, String> {
    // One after the other: each may take as much memory.
    let _one = shared.freezing();
    let mut copies: Vec<(Origin, Box<dyn Source>)> = Vec::new();
    let (mut bytes, mut trouble) = (0, Vec::new());
    // All copies first, and then the file: so all rings are copied as close to one moment as possible.
    for id in rings {
        let Some((name, location)) =
            shared.model().ring(*id).map(|(name, at)| (name.to_owned(), Location::from(at)))
        else {
            continue;
        };
        let Some(observer) = shared.watch().observer(*id, Start::Latest) else { continue };
        bytes += observer.layout().data_size + observer.layout().aux_size;
        if bytes > MOST {
            return Err(format!(
                "these rings have more than {} MiB: choose some of them",
                MOST >> 20
            ));
        }
        match observer.snapshot() {
            Ok(snapshot) => {
                let shapes = Shapes::of_snapshot(&snapshot, &location, copies.len() as u32);
                let live = observer.stat().ok();
                let mut origin = Origin {
                    name,
                    epoch: live.as_ref().map_or(0, perfring_consumer::stat::Stat::epoch),
                    producer: live.map(|stat| stat.producer.owner).unwrap_or_default(),
                    ..shapes.origin().clone()
                };
                origin.find_birth(&observer);
                copies.push((origin, Box::new(SnapshotReader::new(snapshot))));
            }
            Err(error) => trouble.push(format!("{name}: {error}")),
        }
    }
    let names: Vec<&str> = copies.iter().map(|(origin, _)| origin.name.as_str()).collect();
    let name = match &names[..] {
        [] if trouble.is_empty() => return Err("there is no such ring any more".to_owned()),
        [] => return Err(trouble.join("; ")),
        [one] => (*one).to_owned(),
        all => format!("{} rings", all.len()),
    };
    let (id, path) = shared.frozen().place()?;
    let written = perfring_recording::write_snapshots(&path, FileMode::PRIVATE, copies)
        .map_err(|error| error.to_string());
    written?;
    let mut recording = Recording::open(id, name, path, true)?;
    if !trouble.is_empty() {
        recording.about.trouble = Some(trouble.join("; "));
    }
    Ok(shared.frozen().keep(recording))
}
