//! Helpers for the tests of processes: rings in a separate directory, numbered payloads, and an
//! actor process that is driven from outside.

use perfring_consumer::{Item, Snapshot};
use perfring_producer::types::{Encoding, Field, Kind, Schema, Shape};
use perfring_producer::{RecordType, ReserveError, SharedProducer, error::TypeError};
use perfring_testkit::wait::{Watchdog, until};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

pub use perfring_testkit::size::workspace;

pub mod c_schema;
pub mod doors;
pub mod foreign;
pub mod golden;
pub mod large;
pub mod seccomp;
pub mod shapes;
pub mod shared;
pub mod stepped;

/// The type of numbered records.
pub const NUMBERED: RecordType = RecordType::new(7001).unwrap();

/// The schema of [`NUMBERED`] records.
pub const NUMBERED_TYPE: Schema<'static> = Schema {
    id: NUMBERED,
    help: "a number, and bytes that follow from it",
    ..Schema::new("tests.Numbered", Encoding::Bytes)
};

/// Another type, with a field.
pub const OTHER_TYPE: Schema<'static> = Schema::new("tests.Other", Encoding::Pod)
    .with_fields(8, &[Field::new("number", 0, Shape::plain(Kind::U64, 8))])
    .with_hashed_id();

/// Makes a directory for rings, on a tmpfs if the machine has one.
///
/// # Panics
/// If the directory cannot be made.
#[must_use]
pub fn ring_dir() -> TempDir {
    let shm = Path::new("/dev/shm");
    let made = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    made.expect("a directory for rings")
}

/// Returns a payload that contains its number, and whose bytes all follow from it.
#[must_use]
pub fn numbered(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((8..len).map(|at| (number as usize).wrapping_mul(31).wrapping_add(at) as u8));
    bytes
}

/// Returns the number of a payload that [`numbered`] made.
///
/// # Panics
/// If any byte of it is wrong.
#[must_use]
pub fn number_of(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    assert_eq!(bytes, numbered(number, bytes.len()), "a torn or foreign payload");
    number
}

/// Returns the numbers of all records of a snapshot, and the number of records reported lost in it.
///
/// # Panics
/// If the snapshot is corrupt.
#[must_use]
pub fn numbers(snapshot: &Snapshot) -> (Vec<u64>, u64) {
    let (mut numbers, mut lost) = (Vec::new(), 0);
    for item in snapshot {
        match item.expect("an intact snapshot") {
            Item::Record(record) => numbers.push(number_of(record.bytes)),
            Item::Lost(reported) => lost += reported.records,
        }
    }
    (numbers, lost)
}

/// Registers a type, also while another producer is off its core with the table's lock.
///
/// # Panics
/// If the type is refused.
#[track_caller]
pub fn register(producer: &SharedProducer, schema: &Schema<'_>) {
    until("the table's lock is free", || match producer.register(schema) {
        Err(ReserveError::Type(TypeError::Busy)) => false,
        done => {
            done.expect("a type that the table takes");
            true
        }
    });
}

/// Returns the types in a ring's table, and how often each is there.
///
/// # Panics
/// If the table is corrupt.
#[must_use]
pub fn types_in(snapshot: &Snapshot) -> BTreeMap<u32, usize> {
    let mut types = BTreeMap::new();
    for entry in snapshot.types().entries() {
        *types.entry(entry.expect("an intact table").id.get()).or_default() += 1;
    }
    types
}

/// Returns the second of the clock at whose full seconds everything that sleeps wakes by itself.
#[must_use]
pub fn second() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_sec
}

/// Repeats a round until one contains no full second of the clock: then nothing that slept in it has woken by itself. Returns
/// that round's result.
///
/// # Panics
/// If every round contains a full second.
#[track_caller]
pub fn within_a_second<T>(mut round: impl FnMut() -> T) -> T {
    let dog = Watchdog::default();
    loop {
        let began = second();
        let done = round();
        if second() == began {
            return done;
        }
        dog.check("a round within a second");
    }
}

/// Returns the actor: a process of this package that obeys its arguments.
#[must_use]
pub fn actor(exe: &str, args: &[&str], ring: &Path) -> Command {
    let mut command = Command::new(exe);
    command.args(args).arg(ring);
    command
}

/// Prints why a test cannot run on this machine. With `PERFRING_NO_SKIP` set, as in CI, a test that
/// should run fails instead.
///
/// # Panics
/// With `PERFRING_NO_SKIP` set.
pub fn skip(why: &str) {
    assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "should run here, but {why}");
    report_skip(why);
}

/// Prints why a test, or a part of it, does not run now, on a machine where it can.
pub fn report_skip(why: &str) {
    // Written past the harness's capture: a skip is never silent.
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
}
