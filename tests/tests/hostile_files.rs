//! Whoever can write a file can lie in it. Whatever a ring file holds, every door ends with records or
//! with an error that is a sentence: no panic, no hang, no access outside the mapping.
//!
//! A file that is cut while it is mapped is tried in `cut_files.rs`, and one that is rewritten while it
//! is read in `hostile_live.rs`.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../src/golden.rs"]
#[allow(dead_code, reason = "the generator is here for its names of fields alone")]
mod golden;

use golden::{at, slot_at, word};
use perfring_abi::{BadRing, FIELDS, MAGIC, RecordType, RecordWord};
use perfring_consumer::{
    AttachError, Consumer, Corrupt, Count, Item, Layout, Observer, Saved, Snapshot, Start, Stat,
    recover,
};
use perfring_producer::{Producer, SharedProducer};
use perfring_tests::spoiler::NASTY;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than any case may take, on the slowest machine.
const TOO_LONG: Duration = Duration::from_secs(20);

fn golden_file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/golden");
    fs::read(folder.join(format!("{name}.perfring"))).unwrap()
}

/// Rings of different kinds to start from.
fn bases() -> Vec<(&'static str, Vec<u8>)> {
    [
        "drop_wrapped_with_losses",
        "drop_foreign_reader",
        "overwrite_wrapped",
        "overwrite_half",
        "killed_between_mark_and_tail",
        "timed_drop",
        "aux_drop",
        "aux_overwrite",
    ]
    .map(|name| (name, golden_file(name)))
    .into()
}

/// Shared rings to start from: the last has something open, which everybody looks after.
fn shared_bases() -> Vec<(&'static str, Vec<u8>)> {
    [
        "shared_drop",
        "shared_overwrite_lapped",
        "timed_shared",
        "aux_shared",
        "shared_killed_with_open",
    ]
    .map(|name| (name, golden_file(name)))
    .into()
}

/// What is being tried, for the message of whoever finds that it takes too long.
#[derive(Default)]
struct Now {
    case: Mutex<(String, Option<Instant>)>,
    done: AtomicBool,
}

/// Runs cases, one file each, and collects what went wrong.
struct Trial {
    _dir: tempfile::TempDir,
    path: PathBuf,
    cases: u64,
    attached: u64,
    refused: u64,
    corrupt: u64,
    records: u64,
    failures: Vec<String>,
    slowest: (Duration, String),
    /// Somebody writes to the file meanwhile, who may feed a reader for ever.
    live: bool,
    now: Arc<Now>,
}

impl Trial {
    fn new() -> Self {
        let shm = Path::new("/dev/shm");
        let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
        let dir = dir.unwrap();
        let path = dir.path().join("ring");
        let now = Arc::new(Now::default());
        let watched = Arc::clone(&now);
        // A hang cannot be caught where it happens.
        std::thread::spawn(move || {
            while !watched.done.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(200));
                let (case, since) = &*watched.case.lock().unwrap();
                if since.is_some_and(|since| since.elapsed() > TOO_LONG) {
                    eprintln!("hangs: {case}");
                    std::process::abort();
                }
            }
        });
        Trial {
            _dir: dir,
            path,
            cases: 0,
            attached: 0,
            refused: 0,
            corrupt: 0,
            records: 0,
            failures: Vec::new(),
            slowest: (Duration::ZERO, String::new()),
            live: false,
            now,
        }
    }

    /// One file, every door.
    fn file(&mut self, name: impl Display, bytes: &[u8]) {
        let name = name.to_string();
        self.case(name, |trial| trial.every_door(bytes));
    }

    fn case(&mut self, name: String, run: impl FnOnce(&mut Self)) {
        self.cases += 1;
        let begun = Instant::now();
        *self.now.case.lock().unwrap() = (name.clone(), Some(begun));
        let ended = catch_unwind(AssertUnwindSafe(|| run(self)));
        self.now.case.lock().unwrap().1 = None;
        let took = begun.elapsed();
        if let Err(panic) = ended {
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("something");
            self.failures.push(format!("{name}: {said}"));
        }
        if took > self.slowest.0 {
            self.slowest = (took, name);
        }
    }

    fn every_door(&mut self, bytes: &[u8]) {
        fs::write(&self.path, bytes).unwrap();
        self.read_only_doors();
        assert!(fs::read(&self.path).unwrap() == bytes, "looking changed the file");
        self.consumer();
        fs::write(&self.path, bytes).unwrap();
        self.producer();
        self.shared_producer();
        self.pinned();
        if bytes.get(at("producers")).is_some_and(|field| field == 2u32.to_le_bytes()) {
            fs::write(&self.path, bytes).unwrap();
            self.recover();
        }
    }

    fn read_only_doors(&mut self) {
        self.observers();
        self.snapshots();
        self.stat();
    }

    fn observers(&mut self) {
        for start in [Start::Oldest, Start::Latest] {
            self.observe(start);
        }
    }

    fn observe(&mut self, start: Start) {
        if let Some(mut observer) = self.attach(Observer::open(&self.path, start)) {
            let most = items_at_most(observer.layout().data_size);
            let touch = touch(observer.layout());
            self.read_all(most, || observer.read().map(|item| item.map(&touch)));
            let _ = (observer.saved(), observer.lapped(), observer.stat());
        }
    }

    fn snapshots(&mut self) {
        if let Some(snapshot) = self.attach(Snapshot::take(&self.path)) {
            let data_size = snapshot.layout().data_size;
            assert!(snapshot.span().end - snapshot.span().start < data_size);
            for item in snapshot.iter().map_while(Result::ok) {
                if let Item::Record(record) = item {
                    assert_eq!(record.time.is_some(), snapshot.layout().time);
                    let _ = record.wall(snapshot.anchors());
                }
            }
            let (mut items, touch) = (snapshot.iter(), touch(snapshot.layout()));
            self.read_all(items_at_most(data_size), || {
                items.next().transpose().map(|item| item.map(&touch))
            });
        }
        if let Some(observer) = self.attach(Observer::open(&self.path, Start::Latest))
            && let Err(corrupt) = observer.snapshot()
        {
            sentence(&corrupt);
        }
    }

    fn stat(&mut self) {
        if let Some(stat) = self.attach(Stat::read(&self.path)) {
            if let Some(totals) = stat.totals {
                let _ = totals.untold();
            }
            assert!(!stat.producer.alive && !stat.consumer.alive);
            assert!(stat.producers.iter().all(|member| !member.alive));
            assert!(stat.producers.len() <= stat.layout.slots as usize);
            let _ = stat.epoch();
            assert!(stat.consumer.who.name.len() <= 64 * 3, "each bad byte makes three");
        }
    }

    fn consumer(&mut self) {
        if let Some(mut consumer) = self.attach(Consumer::attach_as(&self.path, "hostile")) {
            let most = items_at_most(consumer.layout().data_size);
            let touch = touch(consumer.layout());
            self.read_all(most, || consumer.read().map(|item| item.map(&touch)));
            let _ = (consumer.position(), consumer.read_count(), consumer.lapped());
            consumer.wait(Duration::ZERO);
            consumer.release();
        }
    }

    fn pinned(&mut self) {
        if let Some(mut consumer) = self.attach(Consumer::attach_as(&self.path, "hostile")) {
            let most = items_at_most(consumer.layout().data_size);
            let touch = touch(consumer.layout());
            match consumer.pinned() {
                Ok(Some(pinned)) => {
                    self.read_all(most, || pinned.read().map(|item| item.map(&touch)));
                }
                Ok(None) => {}
                Err(corrupt) => sentence(&corrupt),
            }
        }
    }

    fn producer(&mut self) {
        if let Some(mut producer) = self.attach(Producer::attach_as(&self.path, "hostile")) {
            let max = producer.max_len();
            for len in [0, 1, 100, max / 3, max, max + 1, 8] {
                if let Err(error) = producer.publish(RecordType::BYTES, &vec![b'x'; len]) {
                    sentence(&error);
                }
                if let Ok(mut record) = producer.reserve(RecordType::BYTES, len.min(60)) {
                    record.fill(b'y');
                    record.discard();
                }
            }
            let mut batch = producer.batch();
            for _ in 0..100 {
                let _ = batch.push(RecordType::BYTES, &[b'z'; 300]);
            }
            batch.publish();
            let waited = producer.publish_timeout(RecordType::BYTES, b"waited", Duration::ZERO);
            let _ = (waited, producer.book(), producer.overwritten());
        }
    }

    fn shared_producer(&mut self) {
        if let Some(producer) = self.attach(SharedProducer::attach_as(&self.path, "hostile")) {
            self.publish_shared(&producer);
        }
    }

    fn publish_shared(&mut self, producer: &SharedProducer) {
        let max = producer.max_len();
        for len in [0, 1, 100, max / 3, max, max + 1, 8] {
            if let Err(error) = producer.publish(RecordType::BYTES, &vec![b'x'; len]) {
                sentence(&error);
            }
            let first = producer.reserve(RecordType::BYTES, len.min(61));
            let second = producer.reserve(RecordType::BYTES, len.min(600));
            if let Ok(mut record) = second {
                record.fill(b'y');
                record.commit_len(len / 2);
            }
            if let Ok(mut record) = first {
                record.fill(b'z');
                record.discard();
            }
        }
        for bytes in [0, 700, usize::MAX] {
            if let Ok(mut batch) = producer.batch(bytes) {
                while batch.push(RecordType::BYTES, &[b'b'; 50]) {}
                batch.publish();
            }
        }
        let waited = producer.publish_timeout(RecordType::BYTES, b"waited", Duration::ZERO);
        let _ = (waited, producer.written(), producer.refused());
    }

    fn recover(&mut self) {
        if let Some(recovered) = self.attach(recover(&self.path)) {
            assert!(recovered.swept.len() <= 4096);
            if let Some(mut observer) = self.attach(Observer::open(&self.path, Start::Oldest)) {
                let most = items_at_most(observer.layout().data_size);
                let touch = touch(observer.layout());
                self.read_all(most, || observer.read().map(|item| item.map(&touch)));
            }
        }
    }

    /// Counts how a door opened; a refusal must be a sentence.
    fn attach<T>(&mut self, opened: Result<T, AttachError>) -> Option<T> {
        match opened {
            Ok(door) => {
                self.attached += 1;
                Some(door)
            }
            Err(error) => {
                self.refused += 1;
                sentence(&error);
                None
            }
        }
    }

    /// Reads to the end, or to damage; more items than a ring can hold are a loop without end.
    fn read_all(&mut self, most: u64, mut next: impl FnMut() -> Result<Option<u64>, Corrupt>) {
        for _ in 0..most {
            match next() {
                Ok(Some(_)) => self.records += 1,
                Ok(None) => return,
                Err(corrupt) => {
                    sentence(&corrupt);
                    self.corrupt += 1;
                    return;
                }
            }
        }
        assert!(self.live, "more than {most} items: a loop without end");
    }

    fn end(self) {
        self.now.done.store(true, Ordering::Relaxed);
        for failure in self.failures.iter().take(25) {
            eprintln!("{failure}");
        }
        println!(
            "{} cases, {} of them failed; doors opened {} times and refused {} times, {} items read, \
             {} times damage; the slowest took {:?} ({})",
            self.cases,
            self.failures.len(),
            self.attached,
            self.refused,
            self.records,
            self.corrupt,
            self.slowest.0,
            self.slowest.1,
        );
        assert!(self.failures.is_empty(), "{} cases failed", self.failures.len());
    }
}

/// Writes lies over a ring that others have mapped, and the truth back, until it is told to stop.
fn scribble(
    path: &Path,
    truth: &[u8],
    places: &[std::ops::Range<usize>],
    stop: &AtomicBool,
) -> u64 {
    let file = File::options().write(true).open(path).unwrap();
    let mut dice = Dice(0x0123_4567_89AB_CDEF);
    let mut lies = 0;
    while !stop.load(Ordering::Relaxed) {
        let place = &places[dice.roll(places.len() as u64) as usize];
        let offset = place.start + 8 * dice.roll(place.len() as u64 / 8) as usize;
        let lie = dice.nasty(get(truth, offset, 8));
        file.write_all_at(&lie.to_le_bytes(), offset as u64).unwrap();
        lies += 1;
        if dice.roll(3) == 0 {
            for place in places {
                file.write_all_at(&truth[place.clone()], place.start as u64).unwrap();
            }
        }
    }
    lies
}

/// A ring holds at most one item for each word of it; a few more may be told as lost.
fn items_at_most(data_size: u64) -> u64 {
    data_size / 8 + 16
}

/// Reads every byte that a reader hands out: one that is not mapped would end the test. Records are
/// no longer than a data area takes, or the ring's own AUX area.
fn touch(layout: &Layout) -> impl Fn(Item<'_>) -> u64 + use<> {
    let longest = layout.aux_size.max(65_520);
    move |item| match item {
        Item::Record(record) => {
            assert!(record.bytes.len() as u64 <= longest);
            record.bytes.iter().map(|&byte| u64::from(byte)).sum()
        }
        Item::Lost(lost) => {
            assert!(!lost.cause.name().is_empty());
            0
        }
    }
}

/// An error that people can act on: one sentence, in lower case or beginning with a name, without a
/// full stop.
fn sentence(error: &dyn Display) {
    let text = error.to_string();
    assert!(text.split(' ').count() >= 3, "no sentence: {text:?}");
    assert!(!text.ends_with('.') && !text.contains('\n'), "style: {text:?}");
}

/// What a value may be replaced by.
fn nasty_values(value: u64, bits: usize) -> BTreeSet<u64> {
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let near = [1, 2, 8, 16, 4096, 1 << 32]
        .into_iter()
        .flat_map(|by: u64| [value.wrapping_add(by), value.wrapping_sub(by)]);
    NASTY
        .into_iter()
        .chain(near)
        .chain([value.swap_bytes(), !value])
        .map(|nasty| nasty & mask)
        .filter(|&nasty| nasty != value)
        .collect()
}

/// The bytes of a field, in pieces of up to eight.
fn pieces() -> impl Iterator<Item = (&'static str, usize, usize)> {
    FIELDS.iter().flat_map(|field| {
        let step = field.size.min(8);
        // A few words of what is reserved stand for all of it.
        let words = match field.name {
            "reserved" => 3,
            "anchors" => 8,
            _ => field.size / step,
        };
        (0..words).map(move |word| (field.name, field.offset + word * step, step))
    })
}

fn get(file: &[u8], offset: usize, size: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(&file[offset..offset + size]);
    u64::from_le_bytes(bytes)
}

fn set(file: &mut [u8], offset: usize, size: usize, value: u64) {
    file[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// A stream of numbers that is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn nasty(&mut self, old: u64) -> u64 {
        match self.roll(4) {
            0 => NASTY[self.roll(NASTY.len() as u64) as usize],
            1 => old.wrapping_add(8 * self.roll(600)).wrapping_sub(8 * 300),
            2 => old ^ (1 << self.roll(64)),
            _ => self.0,
        }
    }
}

#[test]
fn any_value_in_any_field_of_the_header() {
    let mut trial = Trial::new();
    for (index, (base, file)) in bases().into_iter().enumerate() {
        for (field, offset, size) in pieces() {
            let value = get(&file, offset, size);
            let mut values = nasty_values(value, size * 8);
            if index % 2 == 0 {
                values.extend((0..size * 8).map(|bit| value ^ (1 << bit)));
            }
            for nasty in values {
                let mut broken = file.clone();
                set(&mut broken, offset, size, nasty);
                trial.file(format_args!("{base}: {field} at {offset} is {nasty:#x}"), &broken);
            }
        }
        // A slot's holder.
        let control = word(&file, "control_offset") as usize;
        for offset in (control..control + 128).step_by(8) {
            let mut broken = file.clone();
            set(&mut broken, offset, 8, u64::MAX);
            trial.file(format_args!("{base}: the slot's byte {}", offset - control), &broken);
        }
    }
    trial.end();
}

/// What stands in the place of an open reservation, a hole or a lock word.
fn busy_words() -> Vec<u64> {
    let busy = |size, slot| RecordWord::busy(size, slot).raw();
    vec![
        busy(0, 0),
        busy(8, 0),
        busy(12, 1),
        busy(48, 1),
        busy(48, 3),
        busy(48, 4),
        busy(4096, 2),
        busy(65_528, 8191),
        RecordWord::pack(RecordType::NOP, 0xffff, 48).raw(),
        RecordWord::pack(RecordType::NOP, 0x10, 0).raw(),
        RecordWord::pack(4096, 0, 48).raw(),
    ]
}

#[test]
fn any_value_in_any_word_that_the_producers_of_a_shared_ring_share() {
    let mut trial = Trial::new();
    let shared = at("shared_lock").start..at("recover_byte").end;
    for (base, file) in shared_bases() {
        let positions = at("data_head").start..at("data_tail").end;
        let marks = at("tail_mark").start..at("producer_book").end;
        let places = [positions, shared.clone(), marks, slot_at(&file, 0), slot_at(&file, 1)];
        // Looking whether something that is open stays so takes its time.
        let step = match base {
            "shared_drop" => 3,
            "shared_overwrite_lapped" | "timed_shared" => 5,
            _ => 40,
        };
        for offset in places.into_iter().flatten().step_by(8).step_by(step) {
            let value = get(&file, offset, 8);
            let mut values = nasty_values(value, 64);
            values.extend(busy_words());
            // Locks of the living and of the dead, of slots that there are and are not.
            values.extend([1 | 1 << 16, 2 | 1 << 16, 4, 5 | 9 << 16, 1 << 16]);
            for nasty in values {
                if offset == at("shared_lock").start && nasty & 0xffff > 5 {
                    continue; // see below
                }
                let mut broken = file.clone();
                set(&mut broken, offset, 8, nasty);
                trial.file(format_args!("{base}: byte {offset} is {nasty:#x}"), &broken);
            }
        }
    }
    trial.end();
}

/// A slot that there is none of is nobody's to rob, so whoever needs the lock says who has it.
#[test]
fn a_lock_that_nobody_can_hold_is_an_error_and_no_hang() {
    let mut trial = Trial::new();
    for (base, file) in shared_bases() {
        for lock in [6, 4097, 4098, 0xffff, u64::MAX, 0xffff | 1 << 16] {
            let mut broken = file.clone();
            set(&mut broken, at("shared_lock").start, 8, lock);
            trial.case(format!("{base}: the lock is {lock:#x}"), |trial| {
                fs::write(&trial.path, &broken).unwrap();
                trial.read_only_doors();
                for refused in [
                    SharedProducer::attach_as(&trial.path, "hostile").err(),
                    recover(&trial.path).err(),
                ] {
                    let error = refused.expect("refused");
                    sentence(&error);
                    assert!(matches!(error, AttachError::HeldUp { .. }), "{error}");
                }
                // It comes while somebody is attached.
                fs::write(&trial.path, &file).unwrap();
                let producer = SharedProducer::attach_as(&trial.path, "hostile").unwrap();
                let open = producer.reserve(RecordType::BYTES, 8);
                let ring = File::options().write(true).open(&trial.path).unwrap();
                ring.write_all_at(&lock.to_le_bytes(), at("shared_lock").start as u64).unwrap();
                trial.publish_shared(&producer);
                drop(open);
                trial.consumer();
            });
        }
    }
    trial.end();
}

#[test]
fn any_value_in_any_word_of_the_data_of_a_shared_ring() {
    let mut trial = Trial::new();
    for (base, file) in shared_bases() {
        let data = word(&file, "data_offset") as usize;
        // What is open is at the end of what is written.
        let end = data + word(&file, "producer_pos") as usize % 4096 + 256;
        let places = if base == "shared_killed_with_open" {
            data..end.min(data + 4096)
        } else {
            data..data + 4096
        };
        for (index, offset) in places.step_by(8).enumerate() {
            for (turn, nasty) in busy_words().into_iter().enumerate() {
                let mut broken = file.clone();
                set(&mut broken, offset, 8, nasty);
                // Now and then with a reservation that is open further on.
                if (index + turn) % 3 == 0 {
                    let end = word(&file, "producer_pos") + 64;
                    set(&mut broken, at("producer_pos").start, 8, end);
                }
                let step = if base == "shared_overwrite_lapped" { 3 } else { 8 };
                if (index + turn) % step == 0 {
                    trial.file(
                        format_args!("{base}: data at {} is {nasty:#x}", offset - data),
                        &broken,
                    );
                }
            }
        }
    }
    trial.end();
}

#[test]
fn several_lies_about_a_shared_ring_that_fit_each_other() {
    let mut trial = Trial::new();
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let bases = shared_bases();
    for round in 0..800 {
        let (base, file) = &bases[dice.roll(bases.len() as u64) as usize];
        let mut broken = file.clone();
        let data = word(file, "data_offset") as usize;
        for _ in 0..=dice.roll(3) {
            match dice.roll(6) {
                0 => forge(&mut broken, &mut dice, "producer_book"),
                1 => {
                    // One of a slot's words, of any slot.
                    let slot = slot_at(file, dice.roll(4) as u32).start;
                    let at = slot + 8 * dice.roll(96) as usize;
                    let old = get(&broken, at, 8);
                    let nasty = dice.nasty(old);
                    set(&mut broken, at, 8, nasty);
                }
                // All positions, in their order or not.
                2 => {
                    let tail = dice.roll(1 << 40) & !7;
                    let head = tail + (dice.roll(4096) & !7);
                    let end = head + (dice.roll(4096) & !7);
                    for (field, value) in
                        [("data_tail", tail), ("data_head", head), ("producer_pos", end)]
                    {
                        set(&mut broken, at(field).start, 8, value);
                    }
                    let mark = at("tail_mark").start;
                    set(&mut broken, mark, 8, tail);
                    set(&mut broken, mark + 24, 8, tail);
                    for copy in [0, 224] {
                        set(&mut broken, at("producer_book").start + copy + 8, 8, tail);
                    }
                }
                3 => {
                    for _ in 0..8 {
                        let at = data + 8 * dice.roll(512) as usize;
                        let slot = dice.roll(5) as u32;
                        let lie = RecordWord::busy(8 * dice.roll(40), slot).raw();
                        set(&mut broken, at, 8, lie);
                    }
                }
                // All of it open reservations of the smallest size, or holes.
                4 => {
                    let slot = dice.roll(5) as u32;
                    let hole = dice.roll(2) == 0;
                    for at in (data..data + 4096).step_by(8) {
                        let lie = if hole {
                            RecordWord::pack(RecordType::NOP, 8, 8)
                        } else {
                            RecordWord::busy(8, slot)
                        };
                        set(&mut broken, at, 8, lie.raw());
                    }
                }
                _ => {
                    for (field, below) in [("producer_pos", 9000), ("shared_lock", 6)] {
                        let value = dice.roll(below);
                        set(&mut broken, at(field).start, 8, value & !u64::from(below > 6));
                    }
                }
            }
        }
        trial.file(format_args!("{base}: round {round}"), &broken);
    }
    trial.end();
}

#[test]
fn any_value_in_any_word_of_the_data() {
    let mut trial = Trial::new();
    for (base, file) in bases().into_iter().step_by(2) {
        let data = word(&file, "data_offset") as usize;
        for offset in (data..data + 4096).step_by(8) {
            let old = get(&file, offset, 8);
            let words = [
                0,
                u64::MAX,
                old ^ (1 << 48),
                old ^ (1 << 51),
                old ^ (1 << 63),
                RecordWord::pack(4096, 0, 8).raw(),
                RecordWord::pack(4096, 7, 16).raw(),
                RecordWord::pack(4096, 1, 8).raw(),
                RecordWord::pack(4096, 0, 65_528).raw(),
                RecordWord::pack(RecordType::NOP, 0, 8).raw(),
                RecordWord::pack(RecordType::NOP, 0, 0).raw(),
                RecordWord::pack(RecordType::NOP, 0, 4096).raw(),
                RecordWord::pack(RecordType::LOST, 0, 8).raw(),
                RecordWord::pack(RecordType::LOST, 0, 16).raw(),
                RecordWord::pack(RecordType::LOST, 0, 24).raw(),
                RecordWord::pack(RecordType::LOST, 7, 32).raw(),
            ];
            for nasty in words {
                let mut broken = file.clone();
                set(&mut broken, offset, 8, nasty);
                trial
                    .file(format_args!("{base}: data at {} is {nasty:#x}", offset - data), &broken);
            }
        }
    }
    trial.end();
}

/// Writes a latch so that it is whole, or not, and says what it is told.
fn forge(file: &mut [u8], dice: &mut Dice, latch: &str) {
    let words = at(latch).len() / 16;
    let copy = dice.roll(2) as usize;
    let start = at(latch).start + copy * words * 8;
    for index in 0..words {
        let old = get(file, start + index * 8, 8);
        if dice.roll(2) == 0 {
            set(file, start + index * 8, 8, dice.nasty(old));
        }
    }
    if dice.roll(4) != 0 {
        let first = get(file, start, 8);
        set(file, start + (words - 1) * 8, 8, first);
    }
}

#[test]
fn several_lies_that_fit_each_other() {
    let mut trial = Trial::new();
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let bases = bases();
    for round in 0..12_000 {
        let (base, file) = &bases[dice.roll(bases.len() as u64) as usize];
        let mut broken = file.clone();
        let data = word(file, "data_offset") as usize;
        for _ in 0..=dice.roll(3) {
            match dice.roll(7) {
                0 => forge(&mut broken, &mut dice, "producer_book"),
                1 => forge(&mut broken, &mut dice, "consumer_book"),
                2 => forge(&mut broken, &mut dice, "tail_mark"),
                // The positions, together and still in their order.
                3 => {
                    let tail = dice.roll(1 << 40) & !7;
                    let head = tail + (dice.roll(4096) & !7);
                    for (field, value) in [("data_tail", tail), ("data_head", head)] {
                        set(&mut broken, at(field).start, 8, value);
                    }
                    let mark = at("tail_mark").start;
                    set(&mut broken, mark, 8, tail);
                    set(&mut broken, mark + 24, 8, tail);
                    let book = at("producer_book").start;
                    for copy in [0, 224] {
                        set(
                            &mut broken,
                            book + copy + 8,
                            8,
                            head - (dice.roll(head - tail + 1) & !7),
                        );
                    }
                }
                4 => {
                    for _ in 0..8 {
                        let at = data + 8 * dice.roll(512) as usize;
                        let old = get(&broken, at, 8);
                        let nasty = dice.nasty(old);
                        set(&mut broken, at, 8, nasty);
                    }
                }
                // All of it holes, or records of the smallest size.
                5 => {
                    let kind = if dice.roll(2) == 0 { RecordType::NOP } else { 4096 };
                    for at in (data..data + 4096).step_by(8) {
                        set(&mut broken, at, 8, RecordWord::pack(kind, 0, 8).raw());
                    }
                }
                _ => {
                    let live = at("data_head").start + 8 * dice.roll(2) as usize;
                    let old = get(&broken, live, 8);
                    let nasty = dice.nasty(old);
                    set(&mut broken, live, 8, nasty);
                }
            }
        }
        trial.file(format_args!("{base}: round {round}"), &broken);
    }
    trial.end();
}

#[test]
fn any_place_that_an_observer_is_told_to_start_at() {
    let mut trial = Trial::new();
    for (base, file) in bases() {
        fs::write(&trial.path, &file).unwrap();
        let head = word(&file, "data_head");
        let near = (0..600).map(|n| head.wrapping_sub(4 * n));
        for pos in NASTY.into_iter().chain(near) {
            let before = Count { records: pos, bytes: u64::MAX };
            trial.case(format!("{base}: from {pos}"), |trial| {
                trial.observe(Start::At(Saved { pos, before }));
                trial.observe(Start::At(Saved { pos, before: Count::default() }));
            });
        }
    }
    trial.end();
}

#[test]
fn random_bytes_behind_a_good_header_and_instead_of_it() {
    let mut trial = Trial::new();
    let mut dice = Dice(0xDEAD_BEEF_CAFE_F00D);
    let good = golden_file("overwrite_wrapped");
    let own = at("magic").start..at("tail_mark").start;
    for round in 0..2_000 {
        let mut file: Vec<u8> = (0..good.len()).map(|_| dice.roll(256) as u8).collect();
        if round % 4 != 0 {
            for kept in [own.clone(), at("data_offset"), at("data_size")] {
                file[kept.clone()].copy_from_slice(&good[kept]);
            }
        }
        if round % 2 != 0 {
            let tail = 8 * dice.roll(1000);
            set(&mut file, at("data_tail").start, 8, tail);
            set(&mut file, at("data_head").start, 8, tail + 8 * dice.roll(511));
        }
        if round % 4 == 0 {
            file.truncate(dice.roll(20_000) as usize);
        }
        trial.file(format_args!("random, round {round}"), &file);
    }
    trial.end();
}

/// What refuses the file, if the header does.
fn refusal(trial: &mut Trial, file: &[u8]) -> Option<BadRing> {
    trial.every_door(file);
    fs::write(&trial.path, file).unwrap();
    let bad = |error| match error {
        AttachError::Bad { home, source } => {
            let text = AttachError::Bad { home, source }.to_string();
            assert!(text.starts_with(&trial.path.display().to_string()), "names the file: {text}");
            source
        }
        other => panic!("another error than that the header is bad: {other}"),
    };
    let refused = Stat::read(&trial.path).err().map(bad);
    // All doors say the same.
    assert_eq!(Observer::open(&trial.path, Start::Oldest).err().map(bad), refused);
    assert_eq!(Snapshot::take(&trial.path).err().map(bad), refused);
    assert_eq!(Consumer::attach_as(&trial.path, "hostile").err().map(bad), refused);
    assert_eq!(Producer::attach_as(&trial.path, "hostile").err().map(bad), refused);
    refused
}

#[test]
fn a_file_cut_short_is_refused_with_its_length() {
    let mut trial = Trial::new();
    let file = golden_file("drop_few");
    let whole = file.len();
    let lengths =
        [0, 1, 7, 8, 1023, 1088, 1152, 1160, 4095, 4096, 4097, 8191, 8192, 8193, whole - 1];
    for len in lengths.into_iter().chain((0..whole).step_by(509)) {
        trial.case(format!("{len} bytes"), |trial| {
            let expected = if len < 4096 {
                BadRing::Short { len: len as u64 }
            } else {
                BadRing::Truncated { len: len as u64, needed: whole as u64 }
            };
            assert_eq!(refusal(trial, &file[..len]), Some(expected));
        });
    }
    for more in [0, 1, 4096, 100_000] {
        trial.case(format!("{more} bytes more"), |trial| {
            let mut file = file.clone();
            file.resize(whole + more, 0xff);
            assert_eq!(refusal(trial, &file), None, "what is behind the ring is not its business");
        });
    }
    trial.end();
}

#[test]
fn a_header_that_is_wrong_is_refused_for_what_is_wrong() {
    let mut trial = Trial::new();
    let file = golden_file("drop_few");
    let mut case = |name: &str, changes: &[(&str, u64)], expected: Option<BadRing>| {
        let mut broken = file.clone();
        for &(field, value) in changes {
            set(&mut broken, at(field).start, at(field).len(), value);
        }
        trial.case(name.to_owned(), |trial| assert_eq!(refusal(trial, &broken), expected));
    };
    let field = |name, value| Some(BadRing::Field { name, value });

    case("as it was", &[], None);
    case("no magic yet", &[("magic", 0)], Some(BadRing::Foreign { magic: 0 }));
    case("another magic", &[("magic", MAGIC ^ 1)], Some(BadRing::Foreign { magic: MAGIC ^ 1 }));
    case("the other byte order", &[("magic", MAGIC.swap_bytes())], Some(BadRing::Endian));
    case("the other byte order by its mark", &[("endian", 0x0403_0201)], Some(BadRing::Endian));

    let newer = |version, compat| Some(BadRing::Newer { version, compat });
    case("newer", &[("abi_version", 2), ("abi_compat", 2)], newer(2, 2));
    case("much newer", &[("abi_version", 9000), ("abi_compat", 70)], newer(9000, 70));
    case("newer, and old readers are welcome", &[("abi_version", 2)], None);
    case("no version", &[("abi_version", 0), ("abi_compat", 0)], field("abi_version", 0));

    for bit in [0, 1, 31, 32, 63] {
        let unknown = 1 << bit;
        let name = format!("required feature {bit}");
        let refused = match bit {
            0 => field("time_clock", 0), // time, and no clock
            1 => field("aux_size", 0),   // an AUX area, and none
            _ => Some(BadRing::Features { unknown }),
        };
        case(&name, &[("features_required", unknown)], refused);
        case(&format!("optional feature {bit}"), &[("features_optional", unknown)], None);
    }
    // Time, which changes what is in the records: the shortest has no room for a stamp.
    case("time", &[("features_required", 1), ("time_clock", 7)], None);
    case(
        "time by another clock",
        &[("features_required", 1), ("time_clock", 1)],
        field("time_clock", 1),
    );
    case("every optional feature", &[("features_optional", u64::MAX)], None);

    for (name, value) in [
        ("page_size", 0),
        ("page_size", 2048),
        ("page_size", 4097),
        ("page_size", 1 << 21),
        ("data_size", 0),
        ("data_size", 2048),
        ("data_size", 4095),
        ("data_size", 6000),
        ("data_size", 1 << 41),
        ("data_size", 1 << 63),
        ("data_size", u64::MAX),
        ("policy", 2),
        ("policy", u64::from(u32::MAX)),
        ("evict", 2),
        ("tell", 2),
        ("producers", 0),
        ("producers", 3),
        ("slot_count", 0),
        ("slot_count", 4097),
        ("slot_size", 0),
        ("slot_size", 128),
        ("data_offset", 0),
        ("data_offset", 8192),
        ("control_offset", 0),
        ("control_offset", 4096),
        ("control_offset", u64::MAX),
        ("control_size", 0),
        ("control_size", 512),
        ("file_size", 0),
        ("file_size", 12_287),
        ("file_size", u64::MAX),
        ("time_clock", 7),
        ("time_clock", 1),
    ] {
        case(&format!("{name} is {value}"), &[(name, value)], field(name, value));
    }

    // Lies that fit each other, but not the file.
    let huge = 1u64 << 40;
    case(
        "a data area of 1 TiB",
        &[("data_size", huge), ("control_offset", huge + 4096), ("file_size", huge + 8192)],
        Some(BadRing::Truncated { len: 12_288, needed: huge + 8192 }),
    );
    trial.end();
}

#[test]
fn what_is_no_ring_at_all_is_refused_as_such() {
    let mut trial = Trial::new();
    let dir = tempfile::tempdir().unwrap();
    let elf = fs::read(std::env::current_exe().unwrap()).unwrap();
    let text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/ABI.md")).unwrap();
    let elf_magic = u64::from_ne_bytes(elf[1152..1160].try_into().unwrap());
    trial.case("an ELF file".into(), |trial| {
        assert_eq!(refusal(trial, &elf), Some(BadRing::Foreign { magic: elf_magic }));
    });
    trial.case("a text".into(), |trial| {
        assert!(matches!(refusal(trial, &text), Some(BadRing::Foreign { .. })));
    });
    trial.case("a short text".into(), |trial| {
        assert_eq!(refusal(trial, b"perfring\n"), Some(BadRing::Short { len: 9 }));
    });
    trial.case("zeros".into(), |trial| {
        assert_eq!(refusal(trial, &[0; 12_288]), Some(BadRing::Foreign { magic: 0 }));
    });

    let folder = dir.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let dangling = dir.path().join("dangling");
    std::os::unix::fs::symlink(dir.path().join("nothing"), &dangling).unwrap();
    let within = fifo.join("within");
    for (path, missing) in [
        (folder, false),
        (fifo, false),
        (socket, false),
        (PathBuf::from("/dev/null"), false),
        (PathBuf::from("/dev/zero"), false),
        (PathBuf::from("/proc/self/mem"), false),
        (within, false),
        (dangling, true),
        (dir.path().join("missing"), true),
    ] {
        trial.case(path.display().to_string(), |trial| {
            for refused in [
                Observer::open(&path, Start::Oldest).err(),
                Snapshot::take(&path).err(),
                Stat::read(&path).err(),
                Consumer::attach_as(&path, "hostile").err(),
                Producer::attach_as(&path, "hostile").err(),
            ] {
                let error = refused.expect("refused");
                sentence(&error);
                trial.refused += 1;
                let as_missing = matches!(error, AttachError::NotFound { .. });
                assert_eq!(as_missing, missing, "{error}");
                let as_io = matches!(
                    error,
                    AttachError::Io { .. }
                        | AttachError::Permission { .. }
                        | AttachError::Bad { .. }
                );
                assert_eq!(as_io, !missing, "{error}");
            }
        });
    }
    trial.end();
}

/// Makes a ring file of this size and says so in its header: a sparse one, as a lie about size costs
/// nothing.
fn sparse(path: &Path, data_size: u64, fields: &[(usize, u64)]) -> File {
    let file = File::create(path).unwrap();
    let file_size = 4096 + data_size + 4096;
    file.set_len(file_size).unwrap();
    let mut page = golden_file("drop_few")[..4096].to_vec();
    page[at("data_head").start..at("data_offset").start].fill(0);
    page[at("tail_mark").start..].fill(0);
    for (field, value) in
        [("data_size", data_size), ("control_offset", 4096 + data_size), ("file_size", file_size)]
    {
        set(&mut page, at(field).start, 8, value);
    }
    for &(offset, value) in fields {
        set(&mut page, offset, 8, value);
    }
    file.write_all_at(&page, 0).unwrap();
    file
}

#[test]
fn a_large_ring_does_not_make_its_lies_cost_more() {
    let mut trial = Trial::new();
    let size = 8u64 << 20;
    let head = (at("data_head").start, size - 8);
    let tail = (at("data_tail").start, 16);
    let book = |pos| (at("producer_book").start + 8, pos);
    let consumer = (at("consumer_book").start + 8, 8);
    for (name, fields) in [
        ("no book", vec![head]),
        ("a book at the head", vec![head, book(size - 8)]),
        ("a book half way", vec![head, book(size / 2)]),
        ("a consumer's book elsewhere", vec![head, book(size - 8), consumer]),
        ("a tail that nobody knows", vec![head, book(size - 8), consumer, tail]),
    ] {
        for policy in [0u32, 1] {
            trial.case(format!("{name}, policy {policy}"), |trial| {
                let file = sparse(&trial.path, size, &fields);
                file.write_all_at(&policy.to_ne_bytes(), at("policy").start as u64).unwrap();
                // The smallest records all over, and near the end a place where none can stand.
                let smallest = RecordWord::pack(4096, 0, 8).raw().to_ne_bytes();
                file.write_all_at(&smallest.repeat(size as usize / 8), 4096).unwrap();
                file.write_all_at(&[0; 8], 4096 + size - 64).unwrap();
                trial.read_only_doors();
                trial.consumer();
                trial.producer();
            });
        }
    }
    trial.end();
}

#[test]
fn a_terabyte_that_is_not_there() {
    let mut trial = Trial::new();
    let size = 1u64 << 40;
    let head = (at("data_head").start, size - 8);
    let book = (at("producer_book").start + 8, size - 8);
    let consumer = (at("consumer_book").start + 8, 8);
    for (name, fields) in [
        ("empty", vec![]),
        ("a head", vec![head]),
        ("a head and a book", vec![head, book]),
        ("a head, a book and a consumer's book", vec![head, book, consumer]),
    ] {
        for policy in [0u32, 1] {
            trial.case(format!("{name}, policy {policy}"), |trial| {
                let file = sparse(&trial.path, size, &fields);
                file.write_all_at(&policy.to_ne_bytes(), at("policy").start as u64).unwrap();
                trial.observers();
                trial.stat();
                trial.consumer();
                trial.producer();
            });
        }
    }
    trial.end();
}

#[test]
fn lies_that_change_while_they_are_read() {
    let mut trial = Trial::new();
    trial.live = true;
    let positions = at("data_head").start..at("data_tail").end;
    let live = at("tail_mark").start..at("consumer_name").end;
    // All but the lock: for one of a slot that there is none of everybody would wait.
    let shared = at("producer_pos").start..at("recover_byte").end;
    let mut lies = 0;
    for (base, truth) in bases().into_iter().chain(shared_bases()) {
        let data = word(&truth, "data_offset") as usize..word(&truth, "control_offset") as usize;
        let mut all = vec![positions.clone(), live.clone()];
        if truth[at("producers")] == 2u32.to_le_bytes() {
            all.extend([shared.clone(), slot_at(&truth, 0), slot_at(&truth, 3)]);
        }
        let header = all.len();
        all.push(data);
        // Who borrows records in place cannot have them written to by this very process: for the
        // producer and the consumer it is the header that lies.
        for (door, places) in
            [("observers", &all[..]), ("producer", &all[..header]), ("consumer", &all[..header])]
        {
            fs::write(&trial.path, &truth).unwrap();
            let path = trial.path.clone();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let scribbler = scope.spawn(|| scribble(&path, &truth, places, &stop));
                for round in 0..150 {
                    trial.case(format!("{base}: {door}, round {round}"), |trial| match door {
                        "observers" => trial.read_only_doors(),
                        "producer" => {
                            trial.producer();
                            trial.shared_producer();
                            trial.recover();
                        }
                        _ => {
                            trial.consumer();
                            trial.pinned();
                        }
                    });
                }
                stop.store(true, Ordering::Relaxed);
                lies += scribbler.join().unwrap();
            });
        }
    }
    println!("{lies} lies were told meanwhile");
    trial.end();
}

/// In a process of its own, with less address space than the lie would take.
#[test]
fn a_snapshot_of_a_terabyte_that_is_not_there() {
    const CHILD: &str = "PERFRING_TERABYTE";
    if let Some(path) = std::env::var_os(CHILD) {
        let error = Snapshot::take(Path::new(&path)).expect_err("no memory for it");
        sentence(&error);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let size = 1u64 << 40;
    let book = (at("producer_book").start + 8, size - 8);
    sparse(&path, size, &[(at("data_head").start, size - 8), book]);
    // In KiB: the mapping fits, a copy beside it does not.
    let run =
        "ulimit -v 1600000000 && exec \"$0\" --exact a_snapshot_of_a_terabyte_that_is_not_there";
    let output = Command::new("sh")
        .args(["-c", run])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    println!("a snapshot of 1 TiB that is not there is an error");
}
