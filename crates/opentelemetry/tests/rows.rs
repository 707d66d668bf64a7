//! What a ring holds.

use perfring_consumer::{Item, RecordType, Snapshot};
use perfring_opentelemetry::{RingExporter, options};
use perfring_producer::Options;
use perfring_types::Class;
use perfring_types::read::{TypeTable, Value};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A record: its class, and its fields by name.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) class: Class,
    pub(crate) value: Value,
}

impl Row {
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let Value::Struct(fields) = &self.value else { panic!("{:?}", self.value) };
        fields.iter().find(|(its, _)| &**its == name).map(|(_, value)| value.clone())
    }

    /// Its fields but the pid, which each record has.
    pub(crate) fn fields(&self) -> Vec<(String, Value)> {
        let Value::Struct(fields) = &self.value else { panic!("{:?}", self.value) };
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.clone()));
        fields.filter(|(name, _)| name != "process.pid").collect()
    }
}

pub(crate) fn rows(path: &Path) -> Vec<Row> {
    let snapshot = Snapshot::take(path).unwrap();
    let types = TypeTable::from_entries(snapshot.types().entries());
    let mut rows = Vec::new();
    for item in &snapshot {
        let Item::Record(record) = item.unwrap() else { continue };
        let kind = types.get(RecordType::new(record.kind).unwrap()).unwrap();
        let value = kind.decode(record.bytes).unwrap();
        rows.push(Row { class: kind.class.known().unwrap(), value });
    }
    rows
}

pub(crate) fn of(class: Class, path: &Path) -> Vec<Row> {
    rows(path).into_iter().filter(|row| row.class == class).collect()
}

pub(crate) fn small() -> Options {
    Options { size: 1 << 20, types_size: 1 << 16, ..options() }
}

pub(crate) fn ring() -> (TempDir, PathBuf, RingExporter) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let ring = RingExporter::open(&path, &small()).unwrap();
    (dir, path, ring)
}

pub(crate) fn s(text: &str) -> Value {
    Value::Str(text.into())
}
