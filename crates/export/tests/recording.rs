//! The promises of a recording: everything that was written is read; a truncated or damaged
//! recording is read up to that point, with the number of missing records; and no file harms its
//! reader.

use crate::steps::{Seen, Shared, Step, any_step, origin, read, record, records, some, written};
use perfring_consumer::advanced::{Saved, SnapshotReader};
use perfring_consumer::stat::{Count, OwnerInfo, Refused};
use perfring_consumer::{Cause, Policy, RecordRef, RecordType, Snapshot};
use perfring_export::recording::{
    Existing, Missing, Options, ReadError, Reader, Recording, is_recording, write_snapshots,
};
use perfring_export::{Birth, Event, FileMode, LossCause, Output, Rec, Shapes, What};
use perfring_producer::{Options as RingOptions, Producer};
use proptest::prelude::*;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_are_read_as_they_were_written(steps in prop::collection::vec(any_step(), 0..60)) {
        let (bytes, seen) = written(&steps);
        let (found, error) = read(&bytes);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(found, seen);
    }

    #[test]
    fn any_bytes_are_read_without_harm(
        frames in prop::collection::vec(
            (0..12u16, any::<u16>(), prop::collection::vec(0..5u8, 0..80)), 0..20),
        lie in any::<Option<u32>>(),
    ) {
        // Valid blocks of invalid frames.
        let mut file = whole(&[]);
        for (what, flags, mut body) in frames {
            body.resize(body.len().next_multiple_of(8), 0);
            let size = lie.unwrap_or(8 + body.len() as u32);
            let mut frame = what.to_le_bytes().to_vec();
            frame.extend((flags & 31).to_le_bytes());
            frame.extend(size.to_le_bytes());
            frame.extend(body);
            let at = file.len() as u64;
            file.extend(block(at, 0, 0, 1, &frame));
        }
        let (_, error) = read(&file);
        if let Some(error) = error {
            prop_assert!(error.to_string().contains("records"), "{error}");
        }
    }
}

#[test]
fn a_ring_that_gets_another_producer_is_read_with_it() {
    let mut origin = origin(1);
    let (file, mut expected) = (Shared::default(), Vec::new());
    let mut recording = Recording::to("recording", file.clone()).unwrap();
    for (seq, epoch) in (1..).zip([1, 1, 2, 2]) {
        let birth = Birth { namespace: 4_026_531_836, started_ns: 100 * epoch };
        (origin.producer.epoch, origin.birth) = (epoch, Some(birth));
        let record = RecordRef { pos: 64 * seq, kind: 4999, bytes: b"x", time: None, writer: None };
        let what = What::Record(Rec::new(record, &origin));
        recording.take(&Event { seq, origin: &origin, what }).unwrap();
        expected.push((epoch, Some(birth)));
    }
    recording.close(Instant::now()).unwrap();
    let bytes = file.0.take();
    let mut reader = Reader::new(&*bytes).unwrap();
    let (mut found, mut ids) = (Vec::new(), Vec::new());
    while let Some(event) = reader.next().unwrap() {
        if matches!(event.what, What::Record(_)) {
            found.push((event.origin.producer.epoch, event.origin.birth));
            ids.push(event.origin.id);
        }
    }
    assert_eq!(found, expected);
    assert!(ids.iter().all(|id| *id == ids[0]), "it is one ring: {ids:?}");
}

/// Returns a block by `proto/RECORDING.md`.
fn block(at: u64, before: u64, records: u32, flags: u32, frames: &[u8]) -> Vec<u8> {
    let mut bytes = b"PFRB".to_vec();
    bytes.extend((frames.len() as u32).to_le_bytes());
    bytes.extend(at.to_le_bytes());
    bytes.extend(before.to_le_bytes());
    bytes.extend(records.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend(crc32fast::hash(frames).to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend(frames);
    bytes
}

/// Returns the head of a file, a block with its start, and a block of these frames.
fn whole(frames: &[u8]) -> Vec<u8> {
    let mut file = b"perfrec\n\x01\0\0\0\x01\0\0\0".to_vec();
    let mut start = vec![1, 0, 0, 0, 56, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    start.extend([0; 40]);
    file.extend(block(16, 0, 0, u32::from(frames.is_empty()), &start));
    if !frames.is_empty() {
        let at = file.len() as u64;
        file.extend(block(at, 0, 0, 1, frames));
    }
    file
}

/// Returns the offsets of blocks, each with the number of records before it.
fn blocks(bytes: &[u8]) -> Vec<(usize, u64)> {
    let mut all = Vec::new();
    let mut at = 16;
    while at < bytes.len() {
        assert_eq!(bytes[at..at + 4], *b"PFRB");
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        all.push((at, number(at + 16).into()));
        at += 40 + number(at + 4) as usize;
    }
    assert_eq!(at, bytes.len());
    all
}

#[test]
fn a_recording_truncated_anywhere_is_read_up_to_there_with_an_error() {
    let (bytes, seen) = written(&some());
    let blocks = blocks(&bytes);
    assert!(blocks.len() > 5 && records(&seen) == 12);
    for len in 0..bytes.len() {
        let (found, error) = read(&bytes[..len]);
        assert!(seen.starts_with(&found), "{len}");
        let error = error.unwrap_or_else(|| panic!("truncated at {len} without an error"));
        if len == 0 {
            assert!(matches!(error, ReadError::Other));
            continue;
        }
        // All complete blocks are read.
        let (at, before) = *blocks.iter().rev().find(|(at, _)| *at <= len).unwrap_or(&(0, 0));
        let ReadError::Truncated { read, bytes, missing } = error else { panic!("{error}") };
        assert_eq!((read, bytes), (before, (len - at) as u64), "{len}");
        assert_eq!(read, records(&found));
        if len >= at + 40 && at > 0 {
            let next = blocks.iter().find(|next| next.0 > at).map_or(12, |next| next.1);
            assert_eq!(missing, Missing::AtLeast(next - before), "{len}");
        } else {
            assert_eq!(missing, Missing::Unknown, "{len}");
        }
        let said = ReadError::Truncated { read, bytes, missing }.to_string();
        assert!(said.contains("no end") && said.contains("missing"), "{said}");
    }
}

#[test]
fn a_recording_with_any_byte_changed_is_read_up_to_there_with_the_number_missing() {
    let (bytes, seen) = written(&some());
    let (blocks, mut exactly) = (blocks(&bytes), 0);
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x41;
        let (found, error) = read(&bytes);
        assert!(seen.starts_with(&found), "{at}");
        match error {
            None => assert!((8..12).contains(&at), "byte {at} was changed without an error"),
            Some(ReadError::Other) => assert!(at < 8),
            Some(ReadError::Version { .. }) => assert!((12..16).contains(&at)),
            Some(ReadError::Damaged { at: place, read, bytes: rest, missing, .. }) => {
                let (block, before) = *blocks.iter().rev().find(|(from, _)| *from <= at).unwrap();
                assert_eq!((place, read), (block as u64, before), "{at}");
                assert_eq!(rest, (bytes.len() - block) as u64, "{at}");
                assert_eq!(records(&found), before);
                if block < blocks.last().unwrap().0 {
                    assert_eq!(missing, Missing::Exactly(12 - before), "{at}");
                    exactly += 1;
                }
            }
            // A length beyond the end is impossible: the header has a checksum, too.
            Some(other) => panic!("{at}: {other}"),
        }
    }
    println!("{} bytes changed, {exactly} times with the exact number", bytes.len());
    assert!(exactly > 500);
}

#[test]
fn a_recording_of_a_recording_is_not_mistaken_for_it() {
    // A payload with complete blocks in it, damaged before them: they are not counted.
    let (inner, _) = written(&some());
    let record = Step::Record { ring: 0, pos: 0, kind: 4096, bytes: inner, time: None, late: 0 };
    let (mut outer, _) = written(&[Step::Flush, record.clone(), Step::Flush, record]);
    let at = blocks(&outer)[1].0;
    outer[at + 41] ^= 1;
    let Some(ReadError::Damaged { missing, .. }) = read(&outer).1 else { panic!() };
    assert_eq!(missing, Missing::Exactly(2));
}

#[test]
fn a_removed_block_is_noticed() {
    let mut file = whole(&[]);
    let at = file.len() as u64;
    file.extend(block(at, 5, 0, 1, &[]));
    let (_, error) = read(&file);
    let Some(ReadError::Damaged { at: place, missing, .. }) = error else { panic!("{error:?}") };
    assert_eq!((place, missing), (at, Missing::Exactly(5)));
}

/// Frames, encoded by hand.
#[derive(Default)]
struct Frames(Vec<u8>);

impl Frames {
    fn put(&mut self, what: u16, flags: u16, body: &[u8]) {
        let padding = (8 - body.len() % 8) % 8;
        self.0.extend(what.to_le_bytes());
        self.0.extend((flags | padding as u16).to_le_bytes());
        self.0.extend(((8 + body.len() + padding) as u32).to_le_bytes());
        self.0.extend(body);
        self.0.extend(vec![0; padding]);
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

#[test]
fn a_file_is_as_the_document_says() {
    // By hand, from proto/RECORDING.md.
    let mut frames = Frames::default();
    let mut ring = [words(&[5, 1]), vec![9; 16], longs(&[2, 4096, 1, 77]), words(&[12, 1000])];
    for text in ["name", "/home", "who"] {
        ring[3].extend((text.len() as u32).to_le_bytes());
        ring[3].extend(text.as_bytes());
    }
    frames.put(2, 8, &ring.concat());
    let text = br#"{"name":"t","version":1,"encoding":"utf8"}"#.to_vec();
    frames.put(3, 0, &[words(&[5, 5000]), longs(&[3]), text].concat());
    frames.put(4, 0, &[words(&[5, 1]), longs(&[0, 100, 1_000_100, 1])].concat());
    frames.put(7, 0, &words(&[5]));
    frames.put(5, 8 | 16, &[words(&[5, 5000]), longs(&[64, 150, 3]), b"hi".to_vec()].concat());
    frames.put(6, 8 | 16, &[words(&[5, 1]), longs(&[128, 7, 112, 160, 1_000_160])].concat());
    frames.put(8, 0, &words(&[5]));
    frames.put(200, 8, b"of a later version");
    let end = [longs(&[1, 2, 0]), words(&[1, 0, 1, 0]), longs(&[7, 112])].concat();
    frames.put(9, 0, &end);
    let file = whole(&frames.0);

    let mut reader = Reader::new(&file[..]).unwrap();
    let event = reader.next().unwrap().unwrap();
    assert!(matches!(event.what, What::Began));
    let origin = event.origin;
    assert_eq!((origin.name.as_str(), origin.location.as_str()), ("name", "/home"));
    assert_eq!((origin.uuid, origin.epoch, origin.data_size), ([9; 16], 2, 4096));
    assert_eq!((origin.policy, origin.timed), (Some(Policy::Drop), true));
    let who = OwnerInfo { epoch: 1, attached_ns: 77, pid: 12, uid: 1000, name: "who".to_owned() };
    assert_eq!(origin.producer, who);
    let event = reader.next().unwrap().unwrap();
    let What::Record(record) = &event.what else { panic!("{event:?}") };
    assert_eq!((record.pos, record.kind, record.bytes), (64, 5000, &b"hi"[..]));
    assert_eq!((record.time, record.wall, record.late), (Some(150), Some(1_000_150), 3));
    assert_eq!(record.kind_of().unwrap().id, RecordType::new(5000).unwrap());
    assert_eq!(event.origin.types.entries().next().unwrap().layout, 3);
    let event = reader.next().unwrap().unwrap();
    let What::Lost(loss) = event.what else { panic!("{event:?}") };
    assert_eq!((loss.pos, loss.records, loss.bytes), (128, 7, 112));
    assert_eq!((loss.time, loss.wall), (Some(160), Some(1_000_160)));
    assert_eq!(loss.cause, LossCause::Ring(Cause::Full));
    assert!(matches!(reader.next().unwrap().unwrap().what, What::Ended));
    assert!(reader.next().unwrap().is_none());
    assert_eq!(reader.totals().to_string(), "1 record, lost 7: full 7");

    // Totals that do not match are an error: something was left out.
    let at = frames.0.len() - end.len();
    frames.0[at] = 2;
    let (_, error) = read(&whole(&frames.0));
    assert!(error.unwrap().to_string().contains("totals"));
}

fn options(path: &Path, existing: Existing) -> Options {
    Options { path: path.to_owned(), existing, ..Options::default() }
}

fn record_some(path: &Path, existing: Existing) -> Result<Vec<Seen>, String> {
    let recording = Recording::open("rec", &options(path, existing));
    let mut recording = recording.map_err(|error| error.to_string())?;
    let seen = record(&some(), &mut recording);
    recording.close(Instant::now()).unwrap();
    Ok(seen)
}

#[test]
fn an_existing_file_is_refused_or_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let seen = record_some(&path, Existing::Refuse).unwrap();
    assert!(is_recording(&path) && !is_recording(dir.path()));
    let error = record_some(&path, Existing::Refuse).unwrap_err();
    assert!(error.contains("exists"), "{error}");
    record_some(&path, Existing::Replace).unwrap();
    assert_eq!(read(&fs::read(&path).unwrap()).0, seen);

    let busy = Recording::open("rec", &options(&path, Existing::Replace)).unwrap();
    for existing in [Existing::Append, Existing::Replace] {
        let error = record_some(&path, existing).unwrap_err();
        assert!(error.contains("another process"), "{error}");
    }
    drop(busy);
    let error = record_some(dir.path(), Existing::Append).unwrap_err();
    assert!(error.contains("directory"), "{error}");
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let error = record_some(&fifo, Existing::Replace).unwrap_err();
    assert!(error.contains("is a pipe"), "{error}");
}

#[test]
fn a_recording_is_appended_to_whatever_a_crash_left_at_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let seen = record_some(&path, Existing::Refuse).unwrap();
    let once = fs::read(&path).unwrap();
    let last = blocks(&once).last().unwrap().0;
    for len in (16..=once.len()).rev() {
        fs::write(&path, &once[..len]).unwrap();
        let there = read(&once[..len]).0;
        record_some(&path, Existing::Append).unwrap();
        let again = fs::read(&path).unwrap();
        let (found, error) = read(&again);
        // Only the half block is removed.
        assert!(error.is_none(), "{len}: {error:?}");
        assert_eq!(found, [there, seen.clone()].concat(), "{len}");
        if len >= last {
            assert_eq!(once[..last], again[..last]);
        }
    }
    // The last block's frames are damaged.
    let mut damaged = once.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&path, &damaged).unwrap();
    let there = read(&damaged).0;
    record_some(&path, Existing::Append).unwrap();
    assert_eq!(read(&fs::read(&path).unwrap()).0, [there, seen.clone()].concat());

    // A header in the middle is damaged: what follows it is not truncated.
    let starts = blocks(&once);
    assert!(starts.len() > 2);
    let mut damaged = once.clone();
    damaged[starts[1].0 + 8] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let error = record_some(&path, Existing::Append).unwrap_err();
    assert!(error.contains("records follow"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), damaged);

    // Half a block that is longer than the new one.
    let mut half = once.clone();
    half.extend(block(once.len() as u64, 12, 1, 0, &[0; 90_000]));
    half.truncate(half.len() - 8);
    fs::write(&path, &half).unwrap();
    record_some(&path, Existing::Append).unwrap();
    let (found, error) = read(&fs::read(&path).unwrap());
    assert!(error.is_none() && found == [seen.clone(), seen].concat(), "{error:?}");

    fs::write(&path, "something else").unwrap();
    let error = record_some(&path, Existing::Append).unwrap_err();
    assert!(error.contains("not a recording"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"something else");
}

/// Accepts this many bytes.
struct Disk(usize, Shared);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.0);
        if len == 0 {
            return Err(io::Error::from_raw_os_error(28));
        }
        self.0 -= len;
        self.1.write(&bytes[..len])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_has_a_message_and_nothing_counts_as_delivered() {
    let full = options(Path::new("/dev/full"), Existing::Refuse);
    let error = Recording::open("rec", &full).unwrap_err().to_string();
    assert!(error.contains("No space left"), "{error}");

    let file = Shared::default();
    let mut recording = Recording::to("rec", Disk(1000, file.clone())).unwrap();
    let origin = origin(1);
    let mut taken = 0;
    let error = loop {
        let record =
            RecordRef { pos: taken, kind: 4096, bytes: &[1; 100], time: None, writer: None };
        let what = What::Record(Rec::new(record, &origin));
        match recording.take(&Event { seq: taken, origin: &origin, what }) {
            Ok(_) if taken % 3 == 2 => match recording.flush() {
                Ok(()) => assert_eq!(recording.unsettled(), None),
                Err(error) => break error,
            },
            Ok(_) => {}
            Err(error) => break error,
        }
        taken += 1;
    };
    assert!(error.to_string().contains("No space left"), "{error}");
    let whole = taken / 3 * 3;
    assert!(whole > 0);
    assert_eq!(recording.figures().delivered, whole);
    assert_eq!(recording.unsettled(), Some(whole));
    assert!(recording.flush().is_err() && recording.close(Instant::now()).is_err());
    let (found, error) = read(&file.0.borrow());
    assert_eq!(found.len() as u64, whole);
    assert!(matches!(error, Some(ReadError::Truncated { .. })));
}

#[test]
fn options_are_parsed_by_their_names() {
    let options: Options =
        serde_json::from_str(r#"{"path":"x","existing":"append","block_bytes":4096}"#).unwrap();
    assert_eq!((options.existing, options.block_bytes), (Existing::Append, 4096));
    assert!(serde_json::from_str::<Options>(r#"{"pth":"x"}"#).is_err());
}

#[test]
fn the_position_of_a_reader_is_in_the_file_and_other_events_are_as_without_it() {
    let file = Shared::default();
    let mut recording = Recording::to("recording", file.clone()).unwrap();
    let origin = origin(1);
    let count = |records| Count { records, bytes: 24 * records };
    let told =
        Refused { full: count(1), too_large: count(2), contended: count(3), pending: count(4) };
    let at = |pos| Saved { pos, before: count(pos), told };
    recording.read_to(&origin, &at(8)).unwrap();
    recording.take(&Event { seq: 1, origin: &origin, what: What::Began }).unwrap();
    recording.read_to(&origin, &at(16)).unwrap();
    recording.close(Instant::now()).unwrap();
    let bytes = file.0.take();
    let mut reader = Reader::new(&*bytes).unwrap();
    assert!(matches!(reader.next().unwrap().unwrap().what, What::Began));
    assert!(reader.next().unwrap().is_none());
    assert_eq!(reader.read_to().iter().collect::<Vec<_>>(), [(&origin.uuid, &at(16))]);
}

#[test]
fn a_snapshot_of_a_damaged_ring_ends_with_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    let (ring, path) = (dir.path().join("ring"), dir.path().join("run.perfrec"));
    let mut producer = Producer::create(&ring, &RingOptions::default()).unwrap();
    (0..4u8).for_each(|n| producer.publish(&[n; 8]).unwrap());
    drop(producer);
    let damaged = fs::File::options().write(true).open(&ring).unwrap();
    damaged.write_all_at(&[0xff; 8], 4096 + 16 * 2).unwrap();
    let snapshot = Snapshot::take(&ring).unwrap();
    let origin = Shapes::of_snapshot(&snapshot, &ring.into(), 0).origin().clone();
    let rings = vec![(origin, Box::new(SnapshotReader::new(snapshot)) as _)];
    assert_eq!(write_snapshots(&path, FileMode::default(), rings).unwrap(), [2]);
    let mut reader = Reader::open(&path).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        seen.push(match event.what {
            What::Lost(loss) => (loss.cause.name(), loss.pos, loss.counted()),
            What::Record(record) => ("record", record.pos, Some(1)),
            What::Began => ("began", 0, None),
            What::Ended => ("ended", 0, None),
        });
    }
    let records = [("record", 0, Some(1)), ("record", 16, Some(1))];
    assert_eq!(seen[1..3], records);
    assert_eq!(seen[3..], [("ring damaged", 32, None), ("ended", 0, None)]);
    let said = "2 records, lost an unknown number: ring damaged";
    assert_eq!(reader.totals().to_string(), said);
}
