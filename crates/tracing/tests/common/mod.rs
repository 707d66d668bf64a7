//! What a ring holds, with names; and a process that runs one test.

use perfring_consumer::{Item, Snapshot};
use perfring_producer::{Options, RecordType};
use perfring_testkit::alone::run_alone;
use perfring_tracing::PerfringLayer;
use perfring_types::Class;
use perfring_types::read::{TypeTable, Value};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The path of the ring of a process that runs one test alone.
const RING: &str = "PERFRING_TEST_RING";

/// What a layer writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A shared ring.
    Ring,
    /// A directory with a ring for each CPU.
    Cpus,
}

impl Shape {
    /// Makes a layer that writes there.
    pub(crate) fn layer(self, place: &Path, options: &Options) -> PerfringLayer {
        match self {
            Shape::Ring => PerfringLayer::create(place, options).unwrap(),
            Shape::Cpus => {
                let layer = PerfringLayer::open(place, options).unwrap();
                assert_eq!(layer.sink().no_cpu_rings(), None, "a test of rings per CPU");
                layer
            }
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
    match std::fs::read_dir(place) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => vec![place.to_owned()],
    }
}

/// Removes the files of rings at a place.
pub(crate) fn remove(place: &Path) {
    rings(place).iter().for_each(|ring| std::fs::remove_file(ring).unwrap());
}

/// One record, decoded.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) type_name: String,
    pub(crate) class: Class,
    pub(crate) value: Value,
    /// By the ring's own timestamp, in ns since 1970.
    pub(crate) wall: Option<u64>,
    time: Option<u64>,
}

impl Row {
    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> &Value {
        self.value.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some()
    }

    #[track_caller]
    pub(crate) fn str(&self, name: &str) -> &str {
        match self.get(name) {
            Value::Str(text) => text,
            other => panic!("{name} is {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        match self.get(name) {
            Value::Bytes(bytes) => bytes.clone(),
            other => panic!("{name} is {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn u64(&self, name: &str) -> u64 {
        match self.get(name) {
            Value::U64(number) => *number,
            other => panic!("{name} is {other:?}"),
        }
    }
}

/// All records that the rings have, the resources aside.
pub(crate) fn rows(ring: &Path) -> Vec<Row> {
    let mut rows = all_rows(ring);
    rows.retain(|row| row.class != Class::Resource);
    rows
}

/// All records that the rings at a place have, in the order of time.
pub(crate) fn all_rows(place: &Path) -> Vec<Row> {
    let mut rows: Vec<Row> = rings(place).iter().flat_map(|ring| rows_of_ring(ring)).collect();
    rows.sort_by_key(|row| row.time);
    rows
}

fn rows_of_ring(ring: &Path) -> Vec<Row> {
    let snapshot = Snapshot::take(ring).unwrap();
    let table = TypeTable::from_entries(snapshot.types().entries());
    assert!(table.damage().is_empty(), "{:?}", table.damage());
    let mut rows = Vec::new();
    for item in &snapshot {
        let Item::Record(record) = item.unwrap() else { continue };
        let kind = RecordType::new(record.kind).unwrap();
        let of = table.get(kind).unwrap_or_else(|| panic!("type {kind:?} is not in the table"));
        rows.push(Row {
            type_name: of.name.clone(),
            class: of.class.known().unwrap(),
            value: of.decode(record.bytes).unwrap(),
            wall: record.wall(snapshot.anchors()),
            time: record.time,
        });
    }
    rows
}

pub(crate) fn of(rows: &[Row], class: Class) -> Vec<&Row> {
    rows.iter().filter(|row| row.class == class).collect()
}

/// Does this in a process that runs this test alone. `act` gets the path of a ring, which it may make. Returns that path, with
/// its directory, once the test has passed there; in that process, `None`.
pub(crate) fn in_a_child(test: &str, act: impl FnOnce(&Path)) -> Option<(TempDir, PathBuf)> {
    if let Some(ring) = std::env::var_os(RING) {
        act(Path::new(&ring));
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("ring");
    run_alone(test, RING, &ring);
    Some((dir, ring))
}
