//! The inputs that the command line names: a recording, rings, directories of rings.

use super::recorded::{Events, Recorded};
use super::still::Still;
use crate::failure::{Failure, summary};
use crate::left_out;
use crate::stop::Stop;
use perfring_consumer::stat::Stat;
use perfring_consumer::{Location, Observer, Start};
use perfring_export::What;
use perfring_export::recording::is_recording;
use perfring_set::{NoRing, NotRead};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Events between two checks of the signals.
const TURN: u64 = 1024;

/// What a name on the command line refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Ring(Location),
    /// A directory of rings.
    Set(PathBuf),
    Recording(PathBuf),
}

impl Input {
    pub(crate) fn of(location: &Location) -> Self {
        match location {
            Location::File(path) if path.is_dir() => Input::Set(path.clone()),
            Location::File(path) if is_recording(path) => Input::Recording(path.clone()),
            _ => Input::Ring(location.clone()),
        }
    }
}

/// Opens what these names refer to, in its present state: a recording, or rings merged by their
/// timestamps.
pub(crate) fn open(locations: &[Location]) -> Result<Box<dyn Events>, Failure> {
    let inputs: Vec<Input> = locations.iter().map(Input::of).collect();
    if let [Input::Recording(path)] = &inputs[..] {
        return Ok(Box::new(Recorded::open(path)?));
    }
    let mut rings = Vec::new();
    for input in inputs {
        match input {
            Input::Ring(location) => rings.push(location),
            Input::Set(dir) => rings.extend(rings_in(&dir)?),
            Input::Recording(path) => {
                let path = path.display();
                let why = "name one recording alone, or any number of rings";
                return Err(Failure::Usage(format!("{path} is a recording: {why}")));
            }
        }
    }
    Ok(Box::new(Still::open(&originals(rings))?))
}

/// Returns the rings that a name refers to: itself, or those of a directory.
pub(crate) fn rings_of(location: &Location) -> Result<Vec<Location>, Failure> {
    match location {
        Location::File(path) if path.is_dir() => rings_in(path),
        _ => Ok(vec![location.clone()]),
    }
}

/// Returns these rings without copies: of the files of one ring, the file with the producer, or else the file with the most
/// records, or else the oldest, as a [`Follower`](perfring_set::Follower) does. Reports the others.
pub(crate) fn originals(locations: Vec<Location>) -> Vec<Location> {
    if locations.len() < 2 {
        return locations;
    }
    let (mut kept, mut copies) = (Vec::<(Location, u64)>::new(), Vec::new());
    let mut by_uuid: HashMap<[u8; 16], usize> = HashMap::new();
    for location in locations {
        // A ring that cannot be read is reported when it is read.
        let stat = Stat::read(&location).ok();
        let head = stat.as_ref().and_then(|stat| stat.totals).map_or(0, |totals| totals.head);
        let known = stat.map(|stat| *by_uuid.entry(stat.layout.uuid).or_insert(kept.len()));
        let Some((at, other)) = known.and_then(|at| Some((at, kept.get_mut(at)?))) else {
            kept.push((location, head));
            continue;
        };
        if other.0 == location {
            continue;
        }
        let mut copy = (location, head);
        let rank = |(file, head): &(Location, u64)| (has_producer(file), *head, Reverse(age(file)));
        if rank(&copy) > rank(other) {
            std::mem::swap(&mut copy, other);
        }
        copies.push((copy.0, at));
    }
    for (copy, of) in copies {
        left_out::copy(&copy.path(), &kept[of].0.path());
    }
    kept.into_iter().map(|(location, _)| location).collect()
}

/// Returns the time when a file was made, and its inode: older kernels lack the time on a tmpfs.
fn age(location: &Location) -> Option<(Option<SystemTime>, u64)> {
    let meta = std::fs::metadata(location.path()).ok()?;
    Some((meta.created().ok(), meta.ino()))
}

fn has_producer(location: &Location) -> bool {
    let observer = Observer::attach(location, Start::Latest);
    observer.is_ok_and(|observer| observer.has_producer().unwrap_or(false))
}

/// Returns the rings of a directory, sorted by name.
fn rings_in(dir: &Path) -> Result<Vec<Location>, Failure> {
    let listed = perfring_set::list(dir);
    let (rings, others) = listed.map_err(Failure::general)?;
    left_out::report(&others);
    if rings.is_empty() && !others.iter().any(|other| other.reason == NotRead::Limit) {
        return Err(without_rings(dir, &others));
    }
    Ok(rings.into_iter().map(|ring| Location::from(ring.path)).collect())
}

/// Says why there is no ring in a directory that could be read.
fn without_rings(dir: &Path, others: &[NoRing]) -> Failure {
    let shown = dir.display();
    let number = |reason| others.iter().filter(|other| other.reason == reason).count() as u64;
    let forbidden = number(NotRead::Permission);
    if forbidden > 0 {
        let damaged = number(NotRead::Damaged);
        return left_out::forbidden(forbidden, damaged, &format!(" of {shown}"));
    }
    match others.iter().find(|other| is_recording(&other.path)) {
        Some(NoRing { path, .. }) => {
            let what = left_out::recording(path);
            Failure::NotFound(format!("there is no ring in {shown}; {}: {what}", path.display()))
        }
        None => Failure::NotFound(format!("there is no ring in {shown}")),
    }
}

/// Returns the newest timestamp, which this option counts back from; 0 if there are no records.
pub(crate) fn newest(inputs: &[Location], option: &str, stop: &Stop) -> Result<u64, Failure> {
    let mut events = open(inputs)?;
    let (mut newest, mut records) = (None, 0u64);
    for count in 1u64.. {
        match events.next() {
            Ok(Some(event)) => {
                if let What::Record(record) = &event.what {
                    newest = newest.max(record.time);
                    records += 1;
                }
            }
            Ok(None) if records == 0 => {
                let what = match inputs {
                    [only] => format!("{only} is empty"),
                    _ => "all of these are empty".to_owned(),
                };
                summary(&format!("{what}: {option} has no newest record to count back from"));
                return Ok(0);
            }
            // Damage is reported when the records are read.
            Err(_) if records == 0 => return Ok(0),
            Ok(None) | Err(_) => break,
        }
        if count.is_multiple_of(TURN) {
            stop.check()?;
        }
    }
    newest.ok_or_else(|| {
        let why = format!("none of the records has a timestamp, so {option} cannot be applied");
        Failure::Usage(format!("{why}: create rings with `perfring create --time`"))
    })
}
