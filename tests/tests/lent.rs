//! If other users may write a ring's file, a reservation lends private memory. No process changes the bytes that safe code
//! has written or checked there, and the records are the same as in any other ring.

use perfring_consumer::{
    AttachError, Consumer, ConsumerOptions, Item, Observer, ReadError, Snapshot, Start,
    files::{RingFile, SeatId, recover},
};
use perfring_producer::{
    CpuProducer, Layout, Options, Policy, Producer, ProducerOptions, Producers, Promise,
    RecordType, ReserveError, SharedProducer, Trust,
};
use perfring_testkit::alone::run_alone;
use perfring_testkit::size::cases;
use perfring_testkit::wait::until;
use perfring_tests::ring_dir;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KIND: RecordType = RecordType::new(7003).unwrap();
const AUX: u64 = 1 << 20;
const LARGE: usize = 90_000;

/// The options of the rings of each test: any user may write them.
fn open_to_all() -> Options {
    Options { size: 64 << 10, aux_size: AUX, mode: 0o666, slots: 4, ..Options::default() }
}

fn kinds() -> [Options; 4] {
    let (plain, overwrite) = (open_to_all(), Policy::Overwrite);
    [
        plain,
        Options { policy: overwrite, ..plain },
        Options { time: true, ..plain },
        Options { time: true, policy: overwrite, ..plain },
    ]
}

/// A process that may write the file and keeps to no protocol: it changes every byte of every record.
struct Peer {
    file: File,
    layout: Layout,
}

impl Peer {
    fn of(path: &Path, layout: &Layout) -> Self {
        Peer { file: File::options().write(true).open(path).unwrap(), layout: *layout }
    }

    /// Overwrites the payload of a reservation at this position, wherever it is: all but the record's own words, which the
    /// algorithm checks.
    fn spoil(&self, pos: u64, len: usize) {
        let Layout { data_size, aux_size, .. } = self.layout;
        let lead = self.layout.lead().len() as u64;
        if len <= self.layout.max_small_len() {
            self.write(self.layout.areas().data.start, data_size, pos + 8 + lead, len);
        } else {
            self.write(self.layout.areas().aux.start, aux_size, 0, aux_size as usize);
        }
    }

    fn write(&self, offset: u64, size: u64, pos: u64, len: usize) {
        let (at, len) = (pos % size, len as u64);
        let before = len.min(size - at);
        for (at, len) in [(at, before), (0, len - before)] {
            self.file.write_all_at(&vec![0xff; len as usize], offset + at).unwrap();
        }
    }
}

/// Writes text into a reservation, lets the peer write over the ring, and checks that the text is still there: text that was
/// checked to be UTF-8 stays UTF-8.
fn stays(bytes: &mut [u8], spoil: impl FnOnce()) {
    bytes.fill(b'a');
    let text = std::str::from_utf8(bytes).unwrap();
    spoil();
    assert!(text.bytes().all(|byte| byte == b'a'), "another process has written here");
}

/// Reads everything. Each record is the committed text.
fn all_text(path: &Path) -> usize {
    let mut observer = Observer::attach(path, Start::Oldest).unwrap();
    let mut records = 0;
    while let Some(item) = observer.read().unwrap() {
        let Item::Record(record) = item else { panic!("{item:?}") };
        assert!(record.bytes.iter().all(|byte| *byte == b'a'), "{records}: {:?}", record.bytes);
        records += 1;
    }
    records
}

#[test]
fn what_an_exclusive_producer_reserves_is_its_own() {
    let dir = ring_dir();
    for (nth, options) in kinds().into_iter().enumerate() {
        for len in [1, 8, 61, 4000, LARGE] {
            let path = dir.path().join(format!("one{nth}, {len}"));
            let mut producer = Producer::create(&path, &options).unwrap();
            assert!(producer.is_guarded());
            let peer = Peer::of(&path, producer.layout());
            let mut record = producer.reserve(KIND, len).unwrap();
            let pos = record.pos();
            stays(&mut record, || peer.spoil(pos, len));
            record.commit();
            let mut record = producer.reserve_timeout(KIND, len, Duration::from_secs(1)).unwrap();
            let pos = record.pos();
            stays(&mut record, || peer.spoil(pos, len));
            record.commit_len(len - 1);
            let mut record = producer.offer_timeout(KIND, len, Duration::ZERO).unwrap().unwrap();
            let pos = record.pos();
            stays(&mut record, || peer.spoil(pos, len));
            drop(record);
            let mut batch = producer.batch();
            let mut record = batch.reserve(KIND, len).unwrap();
            let pos = record.pos();
            stays(&mut record, || peer.spoil(pos, len));
            record.commit();
            drop(batch);
            // The peer writes over all of the AUX area, which has the committed payload.
            assert!(len == LARGE || all_text(&path) == 3);
        }
    }
}

fn observed_head(path: &Path) -> u64 {
    Snapshot::take(path).unwrap().span().end
}

#[test]
fn what_a_shared_producer_reserves_is_its_own() {
    let dir = ring_dir();
    for (nth, options) in kinds().into_iter().enumerate() {
        for len in [1, 8, 61, 4000, LARGE] {
            let path = dir.path().join(format!("many{nth}, {len}"));
            let producer = SharedProducer::create(&path, &options).unwrap();
            assert!(producer.is_guarded());
            let peer = Peer::of(&path, producer.layout());
            let step = |len| producer.layout().record_size(len);
            // Several at a time, which end in another order.
            let mut one = producer.reserve(KIND, len).unwrap();
            let mut two = producer.reserve_timeout(KIND, len, Duration::ZERO).unwrap();
            let mut three = producer.reserve_timeout(KIND, 8, Duration::ZERO).unwrap();
            let (first, second, third) = (one.pos(), two.pos(), three.pos());
            stays(&mut two, || peer.spoil(second, len));
            stays(&mut one, || peer.spoil(first, len));
            stays(&mut three, || peer.spoil(third, 8));
            assert!(two.iter().chain(&one[..]).all(|byte| *byte == b'a'), "they are apart");
            three.commit();
            two.commit_len(len - 1);
            one.commit();
            let mut made = 3;
            if len < LARGE {
                let first = observed_head(&path);
                let mut batch = producer.reserve_batch(3 * step(len) as usize).unwrap();
                stays(batch.push_in_place(KIND, len).unwrap(), || peer.spoil(first, len));
                batch.push_as(KIND, &vec![b'a'; len]).unwrap();
                let third = first + 2 * step(len);
                stays(batch.push_in_place(KIND, len).unwrap(), || peer.spoil(third, len));
                drop(batch);
                made += 3;
            }
            assert!(len == LARGE || all_text(&path) == made);
        }
    }
}

#[test]
fn what_a_producer_per_cpu_reserves_is_its_own() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let dir = ring_dir();
        let options = Options { policy, producers: Producers::Cpu, ..open_to_all() };
        let producer = CpuProducer::create(dir.path(), &options).unwrap();
        for len in [1, 61, 4000, LARGE] {
            let mut record = producer.reserve(KIND, len).unwrap();
            // On whichever CPU this was.
            let rings: Vec<PathBuf> =
                std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            stays(&mut record, || {
                for ring in &rings {
                    let layout = *RingFile::inspect(ring).unwrap().layout();
                    let peer = Peer::of(ring, &layout);
                    let open = observed_head(ring);
                    peer.spoil(open, len);
                }
            });
            record.commit();
            assert!(rings.iter().map(|ring| all_text(ring)).sum::<usize>() > 0);
        }
    }
}

/// The end of a reservation.
#[derive(Clone, Copy, Debug)]
enum End {
    Commit,
    CommitLen(usize),
    Discard,
    Forget,
}

/// An action of a producer.
#[derive(Clone, Debug)]
enum Op {
    Publish(usize),
    Reserve(usize, End),
    Batch(Vec<(bool, usize)>),
    /// Of a shared ring: several at a time.
    Nested(Vec<(usize, End)>, bool),
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..40usize, 4 => 0..3000usize, 1 => 70_000..LARGE]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        6 => Just(End::Commit),
        3 => (0..90usize).prop_map(End::CommitLen),
        1 => Just(End::Discard),
        1 => Just(End::Forget),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    // In a shared ring, no process ends a forgotten reservation: a separate case.
    let ends = end().prop_map(|end| if matches!(end, End::Forget) { End::Discard } else { end });
    prop_oneof![
        length().prop_map(Op::Publish),
        (length(), end()).prop_map(|(len, end)| Op::Reserve(len, end)),
        prop::collection::vec((any::<bool>(), 0..200usize), 1..6).prop_map(Op::Batch),
        (prop::collection::vec((length(), ends), 1..4), any::<bool>())
            .prop_map(|(all, turned)| Op::Nested(all, turned)),
    ]
}

/// Returns a payload of which each byte says where it belongs.
fn payload(nth: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (nth * 131 + at * 7 + 1) as u8).collect()
}

/// A producer of either kind.
enum Any {
    One(Box<Producer>),
    Many(Box<SharedProducer>),
}

macro_rules! ended {
    ($record:expr, $end:expr) => {
        match $end {
            End::Commit => $record.commit(),
            End::CommitLen(len) => $record.commit_len(len),
            End::Discard => $record.discard(),
            End::Forget => std::mem::forget($record),
        }
    };
}

impl Any {
    fn new(path: &Path, options: &Options) -> Self {
        match options.producers {
            Producers::One => Any::One(Box::new(Producer::create(path, options).unwrap())),
            _ => Any::Many(Box::new(SharedProducer::create(path, options).unwrap())),
        }
    }

    fn is_guarded(&self) -> bool {
        match self {
            Any::One(producer) => producer.is_guarded(),
            Any::Many(producer) => producer.is_guarded(),
        }
    }

    /// Does it, and returns which of its parts were refused.
    fn run(&mut self, nth: usize, op: &Op) -> Vec<String> {
        let said = |result: Result<(), ReserveError>| format!("{result:?}");
        match (self, op) {
            (Any::One(producer), Op::Publish(len)) => {
                vec![said(producer.publish_as(KIND, &payload(nth, *len)))]
            }
            (Any::Many(producer), Op::Publish(len)) => {
                vec![said(producer.publish_as(KIND, &payload(nth, *len)))]
            }
            (Any::One(producer), Op::Reserve(len, end)) => {
                vec![said(producer.reserve(KIND, *len).map(|mut record| {
                    record.copy_from_slice(&payload(nth, *len));
                    ended!(record, *end);
                }))]
            }
            (Any::Many(producer), Op::Reserve(len, end)) => {
                let end = if matches!(end, End::Forget) { &End::Discard } else { end };
                vec![said(producer.reserve(KIND, *len).map(|mut record| {
                    record.copy_from_slice(&payload(nth, *len));
                    ended!(record, *end);
                }))]
            }
            (Any::One(producer), Op::Batch(records)) => {
                let mut batch = producer.batch();
                records
                    .iter()
                    .map(|(in_place, len)| match in_place {
                        false => said(batch.push_as(KIND, &payload(nth, *len))),
                        true => said(batch.reserve(KIND, *len).map(|mut record| {
                            record.copy_from_slice(&payload(nth, *len));
                            record.commit();
                        })),
                    })
                    .collect()
            }
            (Any::Many(producer), Op::Batch(records)) => {
                let Ok(mut batch) = producer.reserve_batch(700) else {
                    return vec!["refused".into()];
                };
                records
                    .iter()
                    .map(|(in_place, len)| match in_place {
                        false => said(batch.push_as(KIND, &payload(nth, *len))),
                        true => said(batch.push_in_place(KIND, *len).map(|to| {
                            to.copy_from_slice(&payload(nth, *len));
                        })),
                    })
                    .collect()
            }
            (Any::Many(producer), Op::Nested(all, turned)) => {
                let mut open = Vec::new();
                let mut results = Vec::new();
                for (len, end) in all {
                    let record = producer.reserve(KIND, *len);
                    results.push(said(record.map(|record| open.push((record, *end)))));
                }
                for (at, (record, _)) in open.iter_mut().enumerate() {
                    let len = record.len();
                    record.copy_from_slice(&payload(nth + at, len));
                }
                if *turned {
                    open.reverse();
                }
                for (record, end) in open {
                    ended!(record, end);
                }
                results
            }
            (Any::One(_), Op::Nested(..)) => Vec::new(),
        }
    }
}

/// Returns the records of a reader: positions, and the bytes with the padding behind them.
fn read(observer: &mut Observer, path: &Path) -> Vec<(u64, u32, Vec<u8>)> {
    let (file, layout) = (File::open(path).unwrap(), *observer.layout());
    let mut all = Vec::new();
    loop {
        let pos = observer.resume_point().pos();
        match observer.read().unwrap() {
            Some(Item::Record(record)) => {
                let (pos, kind, mut bytes) = (record.pos, record.kind, record.bytes.to_vec());
                let size = layout.record_size(bytes.len());
                // Else the payload is in the AUX area, which has no padding to look at.
                if observer.resume_point().pos() == pos + size {
                    let padding = pos + 8 + (layout.lead().len() + bytes.len()) as u64..pos + size;
                    for at in padding {
                        let mut byte = [0];
                        let offset = layout.areas().data.start + at % layout.data_size;
                        file.read_exact_at(&mut byte, offset).unwrap();
                        bytes.push(byte[0]);
                    }
                }
                all.push((pos, kind, bytes));
            }
            Some(Item::Lost(lost)) => all.push((pos, 0, format!("{lost:?}").into_bytes())),
            None => return all,
        }
    }
}

#[test]
fn a_guarded_producer_writes_the_ring_that_any_other_writes() {
    let strategy = (
        prop::collection::vec(op(), 1..60),
        0..4usize,
        prop::sample::select(vec![Producers::One, Producers::Many]),
    );
    let config =
        Config { cases: cases(60, 2000) as u32, failure_persistence: None, ..Config::default() };
    let seen = [const { Cell::new(0) }; 3];
    let [records, large, nested] = &seen;
    let count = |of: &Cell<usize>, more| of.set(of.get() + more);
    TestRunner::new(config)
        .run(&strategy, |(ops, kind, producers)| {
            let dir = ring_dir();
            let options = Options { producers, ..kinds()[kind] };
            let paths = ["guarded", "trusting"].map(|name| dir.path().join(name));
            let mut both = [
                Any::new(&paths[0], &options),
                Any::new(&paths[1], &Options { mode: 0o600, ..options }),
            ];
            prop_assert_eq!(both.each_ref().map(Any::is_guarded), [true, false]);
            let mut observers =
                paths.each_ref().map(|path| Observer::attach(path, Start::Oldest).unwrap());
            for (nth, op) in ops.iter().enumerate() {
                let [guarded, trusting] = both.each_mut().map(|producer| producer.run(nth, op));
                prop_assert_eq!(guarded, trusting, "{:?}", op);
                let [guarded, trusting] = [0, 1].map(|at| read(&mut observers[at], &paths[at]));
                count(records, guarded.len());
                count(large, guarded.iter().filter(|(_, _, bytes)| bytes.len() > 65_000).count());
                count(nested, usize::from(matches!(op, Op::Nested(..))));
                prop_assert_eq!(guarded, trusting, "{:?}", op);
            }
            Ok(())
        })
        .unwrap();
    println!("{seen:?}: records, large ones, sets of nested reservations");
    assert!(records.get() > 100 && large.get() > 0 && nested.get() > 0);
}

#[test]
fn only_a_promise_lends_the_ring_itself_where_others_may_write() {
    let dir = ring_dir();
    // SAFETY: this process alone has the rings.
    let promise = unsafe { Promise::all_writers_keep_to_the_protocol() };
    for (mode, others) in
        [(0o600, false), (0o644, false), (0o620, true), (0o602, true), (0o666, true)]
    {
        let path = dir.path().join(format!("{mode:o}"));
        let options = Options { mode, ..open_to_all() };
        let is = |trust| {
            let options = ProducerOptions { trust, ..ProducerOptions::default() };
            Producer::attach_with(&path, &options).unwrap().is_guarded()
        };
        let created = Producer::create(&path, &options).unwrap().is_guarded();
        assert_eq!((created, is(Trust::Auto)), (others, others), "{mode:o}");
        assert_eq!((is(Trust::Nobody), is(Trust::Peers(promise))), (true, false), "{mode:o}");
        let peers = Options { trust: Trust::Peers(promise), ..options };
        assert!(!Producer::open_or_create(&path, &peers).unwrap().is_guarded());
    }
}

/// Every entry to a ring that any user may cut short, in a process that has not installed the handler. Not a test by itself.
#[test]
fn an_entry_that_survives() {
    let Some(given) = std::env::var_os("PERFRING_LENT_CHILD") else { return };
    let given = given.into_string().unwrap();
    let (entry, path) = given.rsplit_once(' ').unwrap();
    let path = Path::new(path);
    let file = File::options().write(true).open(path).unwrap();
    let (cut, size) = (|| file.set_len(0).unwrap(), file.metadata().unwrap().len());
    match entry {
        "a producer" => {
            let mut producer = Producer::attach(path).unwrap();
            let mut record = producer.reserve(KIND, 4000).unwrap();
            cut();
            record.fill(7);
            record.commit();
            assert_eq!(producer.cut_off(), Some(ReadError::Truncated));
        }
        "a shared producer" => {
            let producer = SharedProducer::attach(path).unwrap();
            cut();
            let _ = producer.publish(b"x");
            assert_eq!(producer.cut_off(), Some(ReadError::Truncated));
        }
        "a producer per CPU" => {
            let producer = CpuProducer::attach(path.parent().unwrap()).unwrap();
            cut();
            let _ = producer.publish(b"x");
        }
        "a producer that trusts all" | "a consumer that trusts all" => {
            // SAFETY: this process only asks what a truncation does.
            let promise = unsafe { Promise::all_writers_keep_to_the_protocol() };
            let trust = Trust::Peers(promise);
            if entry.starts_with("a consumer") {
                let options = ConsumerOptions { trust, ..ConsumerOptions::default() };
                let mut consumer = Consumer::attach_with(path, &options).unwrap();
                cut();
                assert_eq!(consumer.read(), Err(ReadError::Truncated));
            } else {
                let options = ProducerOptions { trust, ..ProducerOptions::default() };
                let mut producer = Producer::attach_with(path, &options).unwrap();
                cut();
                let _ = producer.publish(b"x");
                assert_eq!(producer.cut_off(), Some(ReadError::Truncated));
            }
        }
        "a reader that waits" => {
            let mut consumer = Consumer::attach(path).unwrap();
            let mut observer = Observer::attach(path, Start::Oldest).unwrap();
            assert_eq!((consumer.read(), observer.read()), (Ok(None), Ok(None)));
            file.set_len(4096).unwrap(); // all that they look at is there
            until("the consumer's error", || {
                consumer.wait(Duration::from_secs(1));
                consumer.read() == Err(ReadError::Truncated)
            });
            until("the observer's error", || {
                observer.wait(Duration::from_secs(1));
                observer.read() == Err(ReadError::Truncated)
            });
        }
        "a producer that waits" => {
            let mut producer = Producer::attach(path).unwrap();
            while producer.publish(&[7; 1000]).is_ok() {}
            file.set_len(4096).unwrap();
            let refused = producer.publish_timeout(KIND, &[7; 1000], Duration::MAX);
            assert_eq!(refused, Err(ReserveError::Truncated));
            assert_eq!(producer.cut_off(), Some(ReadError::Truncated));
        }
        "a shared producer that waits" => {
            let producer = SharedProducer::attach(path).unwrap();
            while producer.publish(&[7; 1000]).is_ok() {}
            file.set_len(4096).unwrap();
            let refused = producer.publish_timeout(KIND, &[7; 1000], Duration::MAX);
            assert_eq!(refused, Err(ReserveError::Truncated));
            assert_eq!(producer.cut_off(), Some(ReadError::Truncated));
        }
        "inspection" => {
            let ring = RingFile::inspect(path).unwrap();
            cut();
            assert!(ring.totals().is_err() && ring.last_sign_of_life().is_err());
            assert!(ring.holder(SeatId::Consumer).is_err());
        }
        // Cut between its mapping and its look, as often as it takes to be there at that moment.
        "a snapshot" | "recovery" => {
            let (stop, relaxed) = (AtomicBool::new(false), Ordering::Relaxed);
            let refused = || match entry {
                "recovery" => recover(path).map(drop),
                _ => Snapshot::take(path).map(drop),
            };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(relaxed) {
                        file.set_len(4096).unwrap();
                        file.set_len(size).unwrap();
                    }
                });
                until("a cut at that moment", || {
                    matches!(refused(), Err(AttachError::Truncated { .. }))
                });
                stop.store(true, relaxed);
            });
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_ring_that_any_user_may_cut_ends_no_process() {
    let dir = ring_dir();
    let many = Options { producers: Producers::Many, ..open_to_all() };
    for (entry, options) in [
        ("a producer", open_to_all()),
        ("a shared producer", many),
        ("a producer per CPU", Options { producers: Producers::Cpu, ..open_to_all() }),
        ("a producer that trusts all", open_to_all()),
        ("a consumer that trusts all", open_to_all()),
        ("a reader that waits", open_to_all()),
        ("a producer that waits", open_to_all()),
        ("a shared producer that waits", many),
        ("inspection", many),
        ("a snapshot", open_to_all()),
        ("recovery", many),
    ] {
        let path = dir.path().join("cpu0");
        let _ = std::fs::remove_file(&path);
        perfring_producer::files::create(&path, &options).unwrap();
        let value = format!("{entry} {}", path.display());
        run_alone("lent::an_entry_that_survives", "PERFRING_LENT_CHILD", value);
    }
}
