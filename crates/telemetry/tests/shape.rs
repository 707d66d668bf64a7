//! What a sink of a test writes to, and the files that it makes.

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use perfring_consumer::{Item, RecordRef, Snapshot};
use perfring_telemetry::producer::{CpuProducer, Options, files::create};
use perfring_telemetry::{Resource, Sink};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A shared ring.
    Ring,
    /// A directory with a ring for each CPU.
    Cpus,
}

impl Shape {
    pub(crate) fn sink(self, place: &Path, options: &Options, resource: Resource) -> Sink {
        match self {
            Shape::Ring => Sink::create(place, options, resource).unwrap(),
            Shape::Cpus => {
                let sink = Sink::open(place, options, resource).unwrap();
                assert_eq!(sink.no_cpu_rings(), None, "a test of rings per CPU");
                assert!(fs::read_dir(place).unwrap().count() > 0 && !place.join("shared").exists());
                sink
            }
        }
    }

    /// Makes the ring or the rings, without a sink.
    pub(crate) fn make(self, place: &Path, options: &Options) {
        match self {
            Shape::Ring => create(place, options).unwrap(),
            Shape::Cpus => drop(CpuProducer::open_or_create(place, options).unwrap()),
        }
    }

    /// Returns the full name of a test of a module that is compiled for each shape.
    pub(crate) fn test(self, name: &str) -> String {
        let module = if self == Shape::Cpus { "cpus::" } else { "" };
        format!("{module}{name}")
    }
}

/// The files of rings at a place: a ring, or a directory of some.
pub(crate) fn rings(place: &Path) -> Vec<PathBuf> {
    match fs::read_dir(place) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => vec![place.to_owned()],
    }
}

/// Has this thread run on its CPU only.
pub(crate) fn stay_on_this_cpu() {
    let mut here = CpuSet::new();
    here.set(sched_getcpu().unwrap()).unwrap();
    sched_setaffinity(Pid::from_raw(0), &here).unwrap();
}

/// Removes the files of rings at a place.
pub(crate) fn remove(place: &Path) {
    rings(place).iter().for_each(|ring| fs::remove_file(ring).unwrap());
}

/// Returns what `each` makes of all records at a place, in the order of time.
pub(crate) fn records<T>(
    place: &Path,
    mut each: impl FnMut(&Snapshot, RecordRef<'_>) -> T,
) -> Vec<T> {
    let mut all = Vec::new();
    for ring in rings(place) {
        let snapshot = Snapshot::take(&ring).unwrap();
        for item in &snapshot {
            let Item::Record(record) = item.unwrap() else { continue };
            all.push((record.time, each(&snapshot, record)));
        }
    }
    all.sort_by_key(|(time, _)| *time);
    all.into_iter().map(|(_, one)| one).collect()
}
