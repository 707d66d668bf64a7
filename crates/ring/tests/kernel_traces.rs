//! Replays operations that were run against the BPF ring buffer of a real kernel: the ring must
//! grant and refuse as the kernel did, and reach the same positions.
//!
//! The kernel's one thread held both reservations of a row open at once. So do the producers of a
//! shared ring here: A belongs to one and B to the other. An exclusive producer has one open at a
//! time, and ends A before it reserves B, which changes no position. Where the kernel refused B
//! only because A was open, an exclusive ring would grant it: B is then left out of that ring's
//! replay.
//!
//! The traces are in `tests/kernel-traces`; `PERFRING_KERNEL_TRACES` names further folders, with colons
//! between them.
#![cfg(not(loom))]

use crate::common::{Reported, attach_at};
use perfring_abi::{Policy, RecordType, Report, record_size};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    Count, End, Fences, Next, Place, Reader, Refusal, Reserved, Ring, Shared, SharedWriter, Wake,
    Writer,
};
use perfring_testkit::size::workspace;
use std::collections::HashMap;
use std::path::PathBuf;

/// The size of the ring in every trace.
pub(crate) const SIZE: u64 = 4096;

fn folders() -> Vec<PathBuf> {
    let further = std::env::var_os("PERFRING_KERNEL_TRACES").unwrap_or_default();
    let further = std::env::split_paths(&further).filter(|path| !path.as_os_str().is_empty());
    [workspace().join("tests/kernel-traces")].into_iter().chain(further).collect()
}

/// One row: its cells by the names in the file's first line.
pub(crate) struct Row<'a>(HashMap<&'a str, &'a str>);

impl Row<'_> {
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("no column {name}"))
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.maybe(name).unwrap_or_else(|| panic!("no number in {name} of op {}", self.text("op")))
    }

    pub(crate) fn maybe(&self, name: &str) -> Option<u64> {
        match self.text(name) {
            "" => None,
            text => Some(text.parse().unwrap()),
        }
    }

    /// Returns whether the kernel refused B because A, which begins at `a_pos`, was open: B's end
    /// would have been a whole ring behind A, and B by itself fits. The oldest committed record is
    /// no obstacle, as the ring overwrites it.
    fn only_a_is_in_the_way(&self, policy: Policy, a_pos: u64) -> bool {
        let (Some(a), Some(b)) = (self.maybe("a_len"), self.maybe("b_len")) else { return false };
        let [a, b] = [a, b].map(|len| record_size(len as usize));
        policy == Policy::Overwrite
            && (self.number("a_ok"), self.number("b_ok")) == (1, 0)
            && b < SIZE
            && a + b >= SIZE
            && self.number("reserved_producer_pos") == a_pos + a
    }
}

/// The outcome of a trace on one kind of ring.
#[derive(Default)]
struct Replayed {
    rows: usize,
    granted: usize,
    refused: usize,
    /// Rows of which B was refused only because A was open.
    a_in_the_way: usize,
}

impl Replayed {
    fn note(&mut self, granted: bool) {
        *if granted { &mut self.granted } else { &mut self.refused } += 1;
    }
}

pub(crate) fn rows(text: &str) -> Vec<Row<'_>> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let names: Vec<_> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            let cells: Vec<_> = line.split(',').collect();
            assert_eq!(cells.len(), names.len(), "{line}");
            Row(names.iter().copied().zip(cells).collect())
        })
        .collect()
}

/// Reserves, fills and ends one record. Returns whether it was granted.
fn one(writer: &mut Writer, ring: Ring<'_>, len: usize, commit: bool, fill: u8) -> bool {
    match writer.reserve(ring, RecordType::BYTES, len, 0) {
        Ok(reserved) => {
            writer.fill(ring, &reserved, &vec![fill; len]);
            if commit {
                let len = reserved.len();
                let _ = writer.end(ring, reserved, len, End::Hold);
            } else {
                writer.discard(ring, reserved);
            }
            let _ = writer.publish(ring, Wake::Auto);
            true
        }
        Err(refusal) => {
            let max = writer.max_len();
            let too_large = Refusal::TooLarge { max };
            assert_eq!(refusal, if len > max { too_large } else { Refusal::Full });
            let _ = writer.refuse(ring, refusal, len);
            false
        }
    }
}

/// The producers of A and B. Neither dies, and neither waits.
struct Two<'a> {
    at: Shared<'a>,
    liveness: Reported,
    producers: [SharedWriter; 2],
}

impl<'a> Two<'a> {
    fn attach(heap: &'a HeapRing) -> Self {
        let liveness = Reported::default();
        let producers = [0, 1].map(|slot| attach_at(heap, &liveness, slot));
        Two { at: heap.shared(), liveness, producers }
    }

    /// Reserves and fills, or counts the refusal.
    fn reserve(&mut self, of: usize, len: usize) -> Result<Reserved, Refusal> {
        let (at, writer) = (self.at, &mut self.producers[of]);
        match writer.reserve(at, &self.liveness, RecordType::BYTES, len, 0) {
            Ok(reserved) => {
                writer.fill(at, &reserved, &vec![[0xaa, 0xbb][of]; len]);
                Ok(reserved)
            }
            Err(refusal) => {
                let (max, ring) = (writer.max_len(), at.ring());
                let expected = match refusal {
                    Refusal::TooLarge { .. } => len > max,
                    // Only A can block B.
                    Refusal::Pending { slot } => of == 1 && slot == 0,
                    other => other == Refusal::Full && ring.head() - ring.tail() <= SIZE,
                };
                assert!(expected, "{refusal:?} for {len} bytes");
                let _ = writer.refuse(at, refusal, len);
                Err(refusal)
            }
        }
    }

    fn end(&mut self, of: usize, reserved: Reserved, commit: bool) {
        let (at, writer) = (self.at, &mut self.producers[of]);
        let len = reserved.len();
        let _ = if commit {
            writer.commit(at, &self.liveness, reserved, len, Wake::Auto)
        } else {
            writer.discard(at, &self.liveness, reserved)
        };
    }
}

/// Like [`replay`], with A and B open at once, and ended in the order that the row gives.
fn replay_shared(name: &str, text: &str) -> Replayed {
    let policy = if name.starts_with("overwrite") { Policy::Overwrite } else { Policy::Drop };
    let heap = HeapRing::new(SIZE, policy).unwrap().report(Report::CountersOnly).many(2);
    let ring = heap.ring();
    let mut two = Two::attach(&heap);
    let mut reader = (policy == Policy::Drop).then(|| Reader::attach(ring, Fences::Full).unwrap());
    let mut replayed = Replayed::default();
    for row in rows(text) {
        let op = row.text("op");
        replayed.rows += 1;
        if let Some(reader) = &mut reader {
            let target = ring.tail() + row.number("advance");
            advance_to(reader, ring, target);
        }
        let stood = ring.head();
        let mut open: [Option<(Reserved, bool)>; 2] = [None, None];
        for (of, record) in ["a", "b"].into_iter().enumerate() {
            let Some(len) = row.maybe(&format!("{record}_len")) else { continue };
            let commit = match row.text(&format!("{record}_end")) {
                "commit" => true,
                "discard" => false,
                other => panic!("{name} {op}: {other}"),
            };
            let reserved = two.reserve(of, len as usize);
            let kernel = row.number(&format!("{record}_ok")) == 1;
            assert_eq!(reserved.is_ok(), kernel, "{name} {op}: granted {record} or not");
            replayed.note(kernel);
            if of == 1 && row.only_a_is_in_the_way(policy, stood) {
                let pending = matches!(reserved, Err(Refusal::Pending { .. }));
                assert!(pending, "{name} {op}: refused for another reason");
                replayed.a_in_the_way += 1;
            }
            open[of] = reserved.ok().map(|reserved| (reserved, commit));
        }
        let number = |column: &str| row.number(column);
        assert_eq!(producer_pos(&heap), number("reserved_producer_pos"), "{name} {op}");
        assert_eq!(ring.head(), stood, "{name} {op}: nothing is published while it is open");
        if policy == Policy::Overwrite {
            assert_eq!(ring.tail(), number("reserved_overwrite_pos"), "{name} {op}");
        }
        let both = open.iter().all(Option::is_some);
        let order = match row.text("order") {
            "ba" => [1, 0],
            "ab" | "a" | "" => [0, 1],
            other => panic!("{name} {op}: order {other}"),
        };
        for (nth, of) in order.into_iter().enumerate() {
            let Some((reserved, commit)) = open[of].take() else { continue };
            two.end(of, reserved, commit);
            // B's end is not visible before A's.
            if both && nth == 0 && of == 1 {
                assert_eq!(ring.head(), stood, "{name} {op}: B ended, A is open");
            }
        }
        assert_eq!(producer_pos(&heap), number("ended_producer_pos"), "{name} {op}");
        // The kernel advances its pending position at the next reserve; ours is at the end.
        assert_eq!(ring.head(), number("ended_producer_pos"), "{name} {op}");
        match policy {
            Policy::Overwrite => {
                assert_eq!(ring.tail(), number("ended_overwrite_pos"), "{name} {op}");
            }
            Policy::Drop => assert_eq!(ring.tail(), number("ended_consumer_pos"), "{name} {op}"),
        }
    }
    replayed
}

fn producer_pos(heap: &HeapRing) -> u64 {
    heap.header().shared.producer_pos.load(std::sync::atomic::Ordering::Relaxed)
}

/// Replays one trace, except what only rings with several open reservations refuse.
fn replay(name: &str, text: &str) -> Replayed {
    let policy = if name.starts_with("overwrite") { Policy::Overwrite } else { Policy::Drop };
    let heap = HeapRing::new(SIZE, policy).unwrap().report(Report::CountersOnly);
    let ring = heap.ring();
    let mut writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
    let mut reader = (policy == Policy::Drop).then(|| Reader::attach(ring, Fences::Full).unwrap());
    let mut replayed = Replayed::default();
    for row in rows(text) {
        let op = row.text("op");
        replayed.rows += 1;
        let advance = row.number("advance");
        if let Some(reader) = &mut reader {
            let target = ring.tail() + advance;
            advance_to(reader, ring, target);
        } else {
            assert_eq!(advance, 0, "{name} {op}: nobody consumes an overwrite ring");
        }
        let stood = writer.pos();
        for (record, fill) in [("a", 0xaa), ("b", 0xbb)] {
            let Some(len) = row.maybe(&format!("{record}_len")) else { continue };
            if record == "b" && row.only_a_is_in_the_way(policy, stood) {
                replayed.a_in_the_way += 1;
                continue;
            }
            let commit = match row.text(&format!("{record}_end")) {
                "commit" => true,
                "discard" => false,
                other => panic!("{name} {op}: {other}"),
            };
            let before = writer.pos();
            let ok = one(&mut writer, ring, len as usize, commit, fill);
            let kernel = row.number(&format!("{record}_ok")) == 1;
            assert_eq!(ok, kernel, "{name} {op}: granted {record} or not");
            assert_eq!(writer.pos() - before, if ok { record_size(len as usize) } else { 0 });
            replayed.note(ok);
        }
        let at = |column| (row.number(column), format!("{name} {op}: {column}"));
        for (ours, (kernels, what)) in [
            // Ending a record moves neither: positions after the reserves are those after the ends.
            (writer.pos(), at("reserved_producer_pos")),
            (writer.pos(), at("ended_producer_pos")),
            (ring.head(), at("ended_producer_pos")),
        ] {
            assert_eq!(ours, kernels, "{what}");
        }
        match policy {
            Policy::Overwrite => {
                for column in ["reserved_overwrite_pos", "ended_overwrite_pos"] {
                    let (kernels, what) = at(column);
                    assert_eq!(ring.tail(), kernels, "{what}");
                }
            }
            Policy::Drop => {
                let (kernels, what) = at("ended_consumer_pos");
                assert_eq!(ring.tail(), kernels, "{what}");
            }
        }
    }
    replayed
}

/// Reads record by record up to a position, which must be a boundary, and releases.
fn advance_to(reader: &mut Reader, ring: Ring<'_>, target: u64) {
    reader.refresh(ring).unwrap();
    let mut cursor = reader.cursor();
    while let Some((Next::Record(Place::Ring(frame)), after)) = reader.peek(ring, cursor).unwrap()
        && after <= target
    {
        cursor = after;
        reader.pass(cursor, Count { records: 1, bytes: frame.size });
    }
    // Only holes are left, which a reader skips on the way to the next record.
    let next = match reader.peek(ring, cursor).unwrap() {
        Some((Next::Record(Place::Ring(frame)), _)) => frame.pos,
        _ => ring.head(),
    };
    assert!((cursor..=next).contains(&target), "the kernel's consumer advances by whole records");
    reader.pass(target, Count::default());
    let _ = reader.release(ring);
    assert_eq!(ring.tail(), target);
}

/// Returns the files of all traces.
pub(crate) fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in folders() {
        let entries = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("no traces in {}: {error}", folder.display()));
        let before = files.len();
        files.extend(
            entries
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|extension| extension == "csv")),
        );
        assert!(files.len() > before, "no *.csv in {}", folder.display());
    }
    files.sort();
    files
}

#[test]
fn the_ring_grants_refuses_and_stands_where_the_kernel_did() {
    for path in files() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let [exclusive, shared] = [replay, replay_shared].map(|replay| replay(&name, &text));
        let alone = shared.a_in_the_way;
        assert_eq!(exclusive.a_in_the_way, alone, "{name}");
        for (kind, Replayed { rows, granted, refused, .. }, rows_too) in
            [("exclusive", &exclusive, exclusive.rows - alone), ("shared", &shared, shared.rows)]
        {
            println!(
                "{}: {kind} ring, {rows_too} of {rows} rows whole, {granted} granted, {refused} refused",
                path.display()
            );
            assert!(*rows > 0 && *granted > 0);
        }
        println!("{alone} rows by the shared ring alone: the kernel refused B as A was open");
    }
}
