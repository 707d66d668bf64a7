//! Real rings of real producers, read into events for an output.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

pub mod pretty;
pub mod shapes;

use perfring_consumer::{Item, Lost, Observer, RecordRef, Start};
use perfring_export::{Event, Loss, LossCause, Origin, Output, Rec, Took, What};
use perfring_types::read::{TypeTable, Value};
use std::path::Path;
use std::process::{Command, Output as Ran};
use std::time::Instant;

/// A ring with an observer; the items that were read are kept.
pub struct Followed {
    observer: Observer,
    pub origin: Origin,
    pub items: Vec<Kept>,
}

/// An item that owns its bytes.
pub enum Kept {
    Record { pos: u64, kind: u32, bytes: Vec<u8>, time: Option<u64> },
    Lost(Lost, Option<u64>),
}

impl Followed {
    pub fn open(path: &Path, id: u32) -> Self {
        let observer = Observer::attach(path, Start::Oldest).unwrap();
        let layout = observer.layout();
        let stat = observer.stat().unwrap();
        let mut origin = Origin {
            id,
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            location: path.display().to_string(),
            uuid: layout.uuid,
            epoch: stat.producer.owner.epoch,
            policy: Some(layout.policy),
            timed: layout.time,
            data_size: layout.data_size,
            producer: stat.producer.owner.clone(),
            types: TypeTable::default(),
            anchors: observer.anchors(),
            ..Origin::default()
        };
        origin.find_birth(&observer);
        Followed { observer, origin, items: Vec::new() }
    }

    /// Reads what is present now.
    pub fn read(&mut self) -> &mut Self {
        let mut newest = self.items.iter().rev().find_map(|item| match item {
            Kept::Record { time, .. } => Some(*time),
            Kept::Lost(..) => None,
        });
        while let Some(item) = self.observer.read().unwrap() {
            self.items.push(match item {
                Item::Record(RecordRef { pos, kind, bytes, time, .. }) => {
                    newest = Some(time);
                    Kept::Record { pos, kind, bytes: bytes.to_vec(), time }
                }
                Item::Lost(lost) => Kept::Lost(lost, newest.flatten()),
            });
        }
        self.origin.types = TypeTable::from_entries(self.observer.types().entries());
        self.origin.anchors = self.observer.anchors();
        self
    }

    /// Passes each item as an event; the first has the number `seq`.
    pub fn events(&self, mut seq: u64, mut each: impl FnMut(&Event<'_>)) -> u64 {
        let origin = &self.origin;
        let whats = self.items.iter().map(|item| match item {
            Kept::Record { pos, kind, bytes, time } => {
                let record = RecordRef { pos: *pos, kind: *kind, bytes, time: *time, writer: None };
                What::Record(Rec::new(record, origin))
            }
            Kept::Lost(lost, time) => What::Lost(Loss {
                time: *time,
                wall: time.and_then(|time| origin.anchors.wall(lost.pos, time)),
                ..Loss::new(lost.pos, lost.records, lost.bytes, LossCause::Ring(lost.cause))
            }),
        });
        for what in std::iter::once(What::Began).chain(whats).chain([What::Ended]) {
            each(&Event { seq, origin, what });
            seq += 1;
        }
        seq
    }

    /// Passes all items to an output.
    pub fn export(&self, to: &mut dyn Output) {
        self.events(0, |event| assert_eq!(to.take(event).unwrap(), Took::Yes));
    }

    /// Returns the records: type, value by the table, time.
    pub fn records(&self) -> Vec<Shown> {
        let mut shown = Vec::new();
        self.events(0, |event| {
            if let What::Record(record) = &event.what {
                shown.push(Shown {
                    name: record.kind_of().map_or(String::new(), |kind| kind.name.clone()),
                    value: record.value().and_then(|value| value.clone().ok()),
                    bytes: record.bytes.to_vec(),
                    pos: record.pos,
                    time: record.time,
                    wall: record.wall,
                });
            }
        });
        shown
    }

    /// Returns the losses.
    pub fn losses(&self) -> Vec<Lost> {
        let lost = |item: &Kept| match item {
            Kept::Lost(lost, _) => Some(*lost),
            Kept::Record { .. } => None,
        };
        self.items.iter().filter_map(lost).collect()
    }
}

/// A record as a reader should show it.
#[derive(Debug)]
pub struct Shown {
    pub name: String,
    pub value: Option<Value>,
    pub bytes: Vec<u8>,
    pub pos: u64,
    pub time: Option<u64>,
    pub wall: Option<u64>,
}

/// Closes an output; its deadline has passed already.
pub fn close(mut output: impl Output) {
    output.flush().unwrap();
    assert_eq!(output.unsettled(), None);
    close_at_once(output);
}

/// Closes an output whose files are not readable before.
pub fn close_at_once(mut output: impl Output) {
    output.close(Instant::now()).unwrap();
    assert_eq!(output.unsettled(), None);
    let figures = output.figures();
    assert_eq!((figures.taken, figures.refused), (figures.delivered, 0));
    assert!(figures.bytes > 0);
}

/// Reports a test that cannot run here; fails if all must run.
pub fn skip(why: &str) {
    assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "must not be skipped: {why}");
    println!("SKIPPED: {why}");
}

/// Returns a program's output; `None` if it is not installed.
pub fn run(program: &str, args: &[&str]) -> Option<Ran> {
    Command::new(program).args(args).env("LC_ALL", "C.UTF-8").env("TZ", "UTC").output().ok()
}

/// Returns a Python script's output; `None` if there is no Python with this module.
pub fn python(module: &str, script: &str, args: &[&str]) -> Option<String> {
    let ran = run("python3", &[&["-c", script], args].concat())?;
    let error = String::from_utf8_lossy(&ran.stderr);
    if error.contains(&format!("No module named '{module}'")) {
        return None;
    }
    assert!(ran.status.success(), "{error}");
    Some(String::from_utf8(ran.stdout).unwrap())
}
