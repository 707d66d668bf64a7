//! Every way into a ring file, tried on files that may hold anything: each ends with records or with an
//! error that is a sentence, and with no panic, no hang and no access outside the mapping.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)]

use crate::ring_dir;
use perfring_abi::RecordType;
use perfring_consumer::{
    AttachError, Consumer, ConsumerOptions, Item, Layout, Observer, ReadError, Snapshot, Start,
    Stat, recover,
};
use perfring_producer::{Producer, SharedProducer};
use perfring_testkit::image::at as field;
use std::fmt::Display;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than any case may take, on the slowest machine.
const TOO_LONG: Duration = Duration::from_secs(120);

/// What is being tried, for the message of whoever finds that it takes too long.
#[derive(Debug, Default)]
struct Now {
    case: Mutex<(String, Option<Instant>)>,
    done: AtomicBool,
}

/// Runs cases, one file each, and collects what went wrong.
#[derive(Debug)]
pub struct Trial {
    _dir: tempfile::TempDir,
    /// The file.
    pub path: PathBuf,
    cases: u64,
    attached: u64,
    /// Doors that were refused.
    pub refused: u64,
    corrupt: u64,
    records: u64,
    failures: Vec<String>,
    slowest: (Duration, String),
    now: Arc<Now>,
}

impl Trial {
    /// With no case yet.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it starts a thread")]
    pub fn new() -> Self {
        let dir = ring_dir();
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
            now,
        }
    }

    /// One file, every door.
    pub fn file(&mut self, name: impl Display, bytes: &[u8]) {
        let name = name.to_string();
        self.case(name, |trial| trial.every_door(bytes));
    }

    /// Runs one case. A panic is noted, and the next one comes.
    pub fn case(&mut self, name: String, run: impl FnOnce(&mut Self)) {
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

    /// Everybody, each on these bytes as they are.
    pub fn every_door(&mut self, bytes: &[u8]) {
        fs::write(&self.path, bytes).unwrap();
        self.read_only_doors();
        assert!(fs::read(&self.path).unwrap() == bytes, "looking changed the file");
        self.consumer();
        fs::write(&self.path, bytes).unwrap();
        self.producer();
        self.shared_producer();
        self.pinned();
        if bytes.get(field("producers")).is_some_and(|field| field == 2u32.to_le_bytes()) {
            fs::write(&self.path, bytes).unwrap();
            self.recover();
        }
    }

    /// Everybody who only looks.
    pub fn read_only_doors(&mut self) {
        self.observers();
        self.snapshots();
        self.stat();
    }

    /// Observers from the oldest and from the latest.
    pub fn observers(&mut self) {
        for start in [Start::Oldest, Start::Latest] {
            self.observe(start);
        }
    }

    /// An observer from this place.
    pub fn observe(&mut self, start: Start) {
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

    /// A look at the figures.
    pub fn stat(&mut self) {
        if let Some(stat) = self.attach(Stat::read(&self.path)) {
            if let Some(totals) = stat.totals {
                let _ = totals.unreported();
            }
            assert!(!stat.producer.alive && !stat.consumer.alive);
            assert!(stat.producers.iter().all(|member| !member.alive));
            assert!(stat.producers.len() <= stat.layout.slots as usize);
            let _ = stat.epoch();
            assert!(stat.consumer.owner.name.len() <= 64 * 3, "each bad byte makes three");
        }
    }

    /// A consumer reads all and releases it.
    pub fn consumer(&mut self) {
        if let Some(mut consumer) =
            self.attach(Consumer::attach_with(&self.path, &ConsumerOptions::named("hostile")))
        {
            let most = items_at_most(consumer.layout().data_size);
            let touch = touch(consumer.layout());
            self.read_all(most, || consumer.read().map(|item| item.map(&touch)));
            let _ = (consumer.position(), consumer.read_count(), consumer.lapped());
            consumer.wait(Duration::ZERO);
            consumer.release();
        }
    }

    /// A consumer that pins all there is.
    pub fn pinned(&mut self) {
        if let Some(mut consumer) =
            self.attach(Consumer::attach_with(&self.path, &ConsumerOptions::named("hostile")))
        {
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

    /// An exclusive producer publishes in every way.
    pub fn producer(&mut self) {
        if let Some(mut producer) = self.attach(Producer::attach_as(&self.path, "hostile")) {
            let max = producer.max_len();
            for len in [0, 1, 100, max / 3, max, max + 1, 8] {
                if let Err(error) = producer.publish(&vec![b'x'; len]) {
                    sentence(&error);
                }
                if let Ok(mut record) = producer.reserve(RecordType::BYTES, len.min(60)) {
                    record.fill(b'y');
                    record.discard();
                }
            }
            let mut batch = producer.batch();
            for _ in 0..100 {
                let _ = batch.push(&[b'z'; 300]);
            }
            batch.publish();
            let waited = producer.publish_timeout(RecordType::BYTES, b"waited", Duration::ZERO);
            let _ = (waited, producer.totals(), producer.overwritten());
        }
    }

    fn shared_producer(&mut self) {
        if let Some(producer) = self.attach(SharedProducer::attach_as(&self.path, "hostile")) {
            self.publish_shared(&producer);
        }
    }

    /// A producer of a shared ring publishes in every way.
    pub fn publish_shared(&mut self, producer: &SharedProducer) {
        let max = producer.max_len();
        for len in [0, 1, 100, max / 3, max, max + 1, 8] {
            if let Err(error) = producer.publish(&vec![b'x'; len]) {
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
            if let Ok(mut batch) = producer.reserve_batch(bytes) {
                while batch.push(&[b'b'; 50]).is_ok() {}
                batch.publish();
            }
        }
        let waited = producer.publish_timeout(RecordType::BYTES, b"waited", Duration::ZERO);
        let _ = (waited, producer.totals());
    }

    /// A recovery, and an observer after it.
    pub fn recover(&mut self) {
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
    fn read_all(&mut self, most: u64, mut next: impl FnMut() -> Result<Option<u64>, ReadError>) {
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
        panic!("more than {most} items: a loop without end");
    }

    /// Prints what was counted.
    ///
    /// # Panics
    /// If a case failed.
    pub fn end(self) {
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
///
/// # Panics
/// If it is none.
pub fn sentence(error: &dyn Display) {
    let text = error.to_string();
    assert!(text.split(' ').count() >= 3, "no sentence: {text:?}");
    assert!(!text.ends_with('.') && !text.contains('\n'), "style: {text:?}");
}
