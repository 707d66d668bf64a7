//! The promises of `perfring record`, `export` and `replay`, tested on the real binary.

mod export;
mod record;
mod replay;

use crate::command::{json_lines, run};
use perfring_consumer::{Item, Snapshot};
use perfring_producer::Options;
use serde_json::Value;
use std::path::Path;

pub(crate) fn timed() -> Options {
    Options { time: true, ..Options::default() }
}

/// Returns the records of a file, as `perfring export` writes them.
#[track_caller]
pub(crate) fn exported(file: &str, options: &[&str]) -> Vec<Value> {
    let done = run(&[&["export", file, "--to", "json"], options].concat(), b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    json_lines(&done.out())
}

pub(crate) fn texts(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["text"].as_str().unwrap()).collect()
}

/// Types and payloads, in order.
pub(crate) fn contents(ring: &Path) -> Vec<(u32, Vec<u8>)> {
    let snapshot = Snapshot::take(ring).unwrap();
    let record = |item| match item {
        Ok(Item::Record(record)) => Some((record.kind, record.bytes.to_vec())),
        _ => None,
    };
    snapshot.iter().filter_map(record).collect()
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

pub(crate) fn has(file: &[u8], what: &[u8]) -> bool {
    file.windows(what.len()).any(|window| window == what)
}
