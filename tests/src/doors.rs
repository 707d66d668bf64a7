//! Every entry point for ring files, tried on files with any content: each ends with records or
//! with an error that has a message, without a panic, a hang, or an access outside the mapping.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)]

use crate::ring_dir;
use perfring_abi::RecordType;
use perfring_consumer::{
    AttachError, Consumer, ConsumerOptions, Item, Layout, Observer, ReadError, Snapshot, Start,
    files::recover, stat::Stat,
};
use perfring_producer::{Producer, SharedProducer};
use perfring_testkit::image::at as field;
use perfring_testkit::wait::WATCHDOG;
use std::fmt::Display;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The case that is being tried, for the message of the watchdog.
#[derive(Debug, Default)]
struct Now {
    case: Mutex<(String, Option<Instant>)>,
    done: AtomicBool,
}

/// Runs cases, one file each, and collects failures.
#[derive(Debug)]
pub struct Trial {
    _dir: tempfile::TempDir,
    /// The file of the case.
    pub path: PathBuf,
    cases: u64,
    attached: u64,
    /// Entry points that returned an error.
    pub refused: u64,
    corrupt: u64,
    records: u64,
    failures: Vec<String>,
    slowest: (Duration, String),
    now: Arc<Now>,
}

impl Trial {
    /// Makes a trial without cases.
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
                if since.is_some_and(|since| since.elapsed() > WATCHDOG) {
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

    /// Tries one file through every entry point.
    pub fn file(&mut self, name: impl Display, bytes: &[u8]) {
        let name = name.to_string();
        self.case(name, |trial| trial.every_door(bytes));
    }

    /// Runs one case. A panic is recorded, and the next case follows.
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

    /// Tries every entry point, each on these bytes unchanged.
    pub fn every_door(&mut self, bytes: &[u8]) {
        fs::write(&self.path, bytes).unwrap();
        self.read_only_doors();
        assert!(fs::read(&self.path).unwrap() == bytes, "reading changed the file");
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

    /// Tries the entry points that only read.
    pub fn read_only_doors(&mut self) {
        self.observers();
        self.snapshots();
        self.stat();
    }

    /// Tries observers from the oldest and from the latest record.
    pub fn observers(&mut self) {
        for start in [Start::Oldest, Start::Latest] {
            self.observe(start);
        }
    }

    /// Tries an observer from this position.
    pub fn observe(&mut self, start: Start) {
        if let Some(mut observer) = self.attach(Observer::attach(&self.path, start)) {
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
        if let Some(observer) = self.attach(Observer::attach(&self.path, Start::Latest))
            && let Err(corrupt) = observer.snapshot()
        {
            sentence(&corrupt);
        }
    }

    /// Reads the figures.
    pub fn stat(&mut self) {
        if let Some(stat) = self.attach(Stat::read(&self.path)) {
            if let Some(totals) = stat.totals {
                let _ = totals.unreported();
            }
            assert!(!stat.producer.is_alive() && !stat.consumer.is_alive());
            assert!(stat.producers.iter().all(|member| !member.is_alive()));
            assert!(stat.producers.len() <= stat.layout.slots as usize);
            let _ = stat.epoch();
            assert!(stat.consumer.owner.name.len() <= 64 * 3, "each invalid byte becomes three");
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

    /// A consumer that pins everything.
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

    /// An exclusive producer publishes by every method.
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
            drop(batch);
            let waited = producer.publish_timeout(RecordType::BYTES, b"waited", Duration::ZERO);
            let _ = (waited, producer.totals(), producer.overwritten());
        }
    }

    fn shared_producer(&mut self) {
        if let Some(producer) = self.attach(SharedProducer::attach_as(&self.path, "hostile")) {
            self.publish_shared(&producer);
        }
    }

    /// A producer of a shared ring publishes by every method.
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
                drop(batch);
            }
        }
        let waited = producer.publish_timeout(RecordType::BYTES, b"waited", Duration::ZERO);
        let _ = (waited, producer.totals());
    }

    /// Recovers the ring, and observes it afterwards.
    pub fn recover(&mut self) {
        if let Some(recovered) = self.attach(recover(&self.path)) {
            assert!(recovered.swept.len() <= 4096);
            if let Some(mut observer) = self.attach(Observer::attach(&self.path, Start::Oldest)) {
                let most = items_at_most(observer.layout().data_size);
                let touch = touch(observer.layout());
                self.read_all(most, || observer.read().map(|item| item.map(&touch)));
            }
        }
    }

    /// Counts the result of an open; an error must have a message.
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

    /// Reads to the end, or to corruption; more items than a ring can hold are an endless loop.
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
        panic!("more than {most} items: an endless loop");
    }

    /// Prints the counts.
    ///
    /// # Panics
    /// If a case failed.
    pub fn end(self) {
        self.now.done.store(true, Ordering::Relaxed);
        for failure in self.failures.iter().take(25) {
            eprintln!("{failure}");
        }
        println!(
            "{} cases, {} of them failed; entry points opened {} times and refused {} times, {} items \
             read, {} times corrupt; the slowest took {:?} ({})",
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

/// Returns the most items in a ring: one for each word of it; a few more may be reported as lost.
fn items_at_most(data_size: u64) -> u64 {
    data_size / 8 + 16
}

/// Reads every byte that a reader returns: an unmapped byte would end the test. Records are
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

/// Checks that an error has a message for people: one sentence, in lower case or beginning with a
/// name, without a full stop.
///
/// # Panics
/// If it does not.
pub fn sentence(error: &dyn Display) {
    let text = error.to_string();
    assert!(text.split(' ').count() >= 3, "not a sentence: {text:?}");
    assert!(!text.ends_with('.') && !text.contains('\n'), "style: {text:?}");
}
