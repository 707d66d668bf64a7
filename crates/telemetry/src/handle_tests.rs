//! When a handle looks at its file.
#![allow(clippy::unwrap_used)]

use super::*;
use perfring_producer::{Options, SharedProducer};
use std::fs;

const SECOND: u64 = LOOK_EVERY;
const DETACHED: Result<(), ReserveError> = Err(ReserveError::Detached);

#[test]
fn a_handle_looks_once_a_second_and_is_to_try_once_after_each_look() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("ring"), dir.path().join("moved"));
    let producer = SharedProducer::create(&path, &Options::many()).unwrap();
    let handle = Handle::new(Attached::Shared(Box::new(producer)), false, 0);
    let clock = ProcessClock::find().unwrap();
    let publish = |now: u64, alarm: u32| {
        handle.publish(RecordType::BYTES, b"x", (now, &clock), alarm)?;
        handle.note_published();
        Ok(())
    };
    let now = 1_700_000_000 * SECOND;
    assert_eq!(publish(now, 0), Ok(()), "the first record looks");
    fs::rename(&path, &moved).unwrap();
    fs::write(&path, "another file").unwrap();
    assert_eq!(publish(now + SECOND - 1, 0), Ok(()), "no look is due");
    assert_eq!(publish(now + SECOND, 0), DETACHED);
    assert_eq!((handle.may_try(), handle.may_try()), (true, false));
    assert_eq!(publish(now + SECOND + 1, 0), DETACHED);
    assert!(!handle.may_try(), "there was no look");
    assert_eq!(publish(now + 2 * SECOND, 0), DETACHED);
    assert!(handle.may_try());
    assert_eq!(handle.take_unsure(), 2);

    // The file is back.
    fs::rename(&moved, &path).unwrap();
    assert_eq!(publish(now + 2 * SECOND + 1, 0), DETACHED, "no look is due");
    assert_eq!(publish(now + 3 * SECOND, 0), Ok(()));
    assert_eq!(publish(now + 3 * SECOND + 1, 0), Ok(()));
    fs::remove_file(&path).unwrap();
    assert_eq!(publish(now + 3 * SECOND + 2, 0), Ok(()));
    assert_eq!(publish(now + 3 * SECOND + 3, 1), DETACHED, "another handle has raised an alarm");
    assert_eq!(handle.last_look(), 3);
}

#[test]
fn a_clock_that_went_back_has_a_handle_look() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let producer = SharedProducer::create(&path, &Options::many()).unwrap();
    let handle = Handle::new(Attached::Shared(Box::new(producer)), false, 0);
    let clock = ProcessClock::find().unwrap();
    let publish = |now: u64| handle.publish(RecordType::BYTES, b"x", (now, &clock), 0).map(|_| ());
    assert_eq!(publish(9 * SECOND), Ok(()));
    fs::remove_file(&path).unwrap();
    assert_eq!(publish(9 * SECOND - 1), DETACHED);
}
