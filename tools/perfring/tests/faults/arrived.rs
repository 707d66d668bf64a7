//! The records that arrived, by their keys.

use super::writer::parse;
use crate::command::{Losses, json_lines};
use perfring_testrig::nats::Stored;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A ring's name and id, and a position in it.
pub(crate) type Key = (String, String, u64);

/// The records that arrived, each key once.
#[derive(Clone, Default)]
pub(crate) struct Arrived {
    pub(crate) records: HashMap<Key, String>,
    /// Records lost, by the ring's name and id.
    pub(crate) losses: HashMap<(String, String), Losses>,
    /// The number of duplicates: the same key and the same content.
    pub(crate) doubles: u64,
}

impl Arrived {
    pub(crate) fn record(&mut self, key: Key, text: String) {
        match self.records.get(&key) {
            Some(before) => {
                assert_eq!(*before, text, "two records at {key:?}");
                self.doubles += 1;
            }
            None => drop(self.records.insert(key, text)),
        }
    }

    fn loss(&mut self, (ring, uuid, _): Key, lost: &Value) {
        self.losses.entry((ring, uuid)).or_default().add(lost);
    }

    /// Returns how many records of each life of a ring's writers arrived: all up to the last, each
    /// once.
    pub(crate) fn lives(&self, ring: &str) -> BTreeMap<u64, u64> {
        let mut lives: BTreeMap<u64, HashSet<u64>> = BTreeMap::new();
        let mut ids = HashSet::new();
        let mut order = BTreeMap::new();
        for ((name, uuid, pos), text) in &self.records {
            if name == ring {
                let (life, number) = parse(text);
                let is_new = lives.entry(life).or_default().insert(number);
                assert!(is_new, "{ring}: {life} {number} under two keys");
                order.insert(*pos, (life, number));
                ids.insert(uuid);
            }
        }
        assert_eq!(ids.len(), 1, "{ring} is one ring");
        assert!(order.values().is_sorted(), "{ring}: positions have the order of writing");
        let count = |(life, numbers): (u64, HashSet<u64>)| {
            let count = numbers.len() as u64;
            let last = numbers.into_iter().max().unwrap_or(0);
            assert_eq!(last + 1, count, "{ring}: some of life {life} are missing");
            (life, count)
        };
        lives.into_iter().map(count).collect()
    }

    /// Returns the number of records that were reported as lost.
    pub(crate) fn lost(&self, ring: &str) -> u64 {
        self.losses.iter().filter(|((name, _), _)| name == ring).map(|(_, n)| n.records()).sum()
    }
}

/// Collects the records of the stream, which has each ring's records in their order.
pub(crate) fn in_stream(stored: &[Stored]) -> Arrived {
    let mut arrived = Arrived::default();
    let mut ids = HashSet::new();
    let mut places: HashMap<String, u64> = HashMap::new();
    for message in stored {
        let header = |name: &str| message.header(name).unwrap().to_owned();
        let pos = header("Perfring-Pos").parse().unwrap();
        let ring = header("Perfring-Ring");
        let key = (ring.clone(), header("Perfring-Uuid").replace('-', ""), pos);
        assert!(ids.insert(header("Nats-Msg-Id")), "{key:?} stands there twice");
        let place = places.insert(ring, pos).unwrap_or(0);
        assert!(place <= pos, "{key:?} after {place}");
        let payload = String::from_utf8(message.payload.clone()).unwrap();
        match message.header("Perfring-Cause") {
            Some(_) => {
                let value: Value = serde_json::from_str(&payload).unwrap();
                arrived.loss(key, &value["lost"]);
            }
            None => arrived.record(key, payload),
        }
    }
    arrived
}

/// Returns the files of lines, the finished ones first.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_lines = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
    entries.filter(is_lines).collect()
}

/// Collects the records of the files of lines.
pub(crate) fn in_files(dir: &Path) -> Arrived {
    let mut arrived = Arrived::default();
    for file in files(dir) {
        for line in json_lines(&fs::read_to_string(file).unwrap()) {
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            let key =
                |pos: &Value| (text("ring"), text("uuid").replace('-', ""), pos.as_u64().unwrap());
            let lost = &line["lost"];
            if lost.is_null() {
                arrived.record(key(&line["pos"]), text("text"));
            } else {
                arrived.loss(key(&lost["pos"]), lost);
            }
        }
    }
    arrived
}
