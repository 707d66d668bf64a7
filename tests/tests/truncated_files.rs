//! A file that is truncated while it is mapped raises SIGBUS in each process that touches a missing
//! page. With `install_sigbus_handler` it is an error for that ring, at every entry point, and the
//! process continues. (If one of these tests fails this way, the whole program dies.)

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use perfring_consumer::{
    AttachError, Consumer, ConsumerOptions, Item, Observer, Policy, Producers, ReadError, Start,
    Trust, files::recover, install_sigbus_handler, stat::Stat,
};
use perfring_producer::types::{Encoding, Schema};
use perfring_producer::{
    CpuProducer, Options, Producer, ReserveError, SharedProducer, error::TypeError,
};
use perfring_tests::{NUMBERED, NUMBERED_TYPE, number_of, numbered, ring_dir};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const RECORDS: u64 = 300;
/// More records than any of these rings holds.
const LAP: u64 = 2000;
/// Bytes of a record: all of them together are more than a reader copies at a time.
const LEN: usize = 600;

/// Publishes a record of this number, and returns the result, and whether the file is known to be
/// truncated.
type Publish = Box<dyn FnMut(u64) -> (Result<(), ReserveError>, bool)>;

/// Returns kinds of rings: every reader and writer has its own path in one of them.
fn kinds() -> [(&'static str, Options); 5] {
    let plain = Options { size: 256 << 10, types_size: 4096, slots: 4, ..Options::default() };
    let (overwrite, many) = (Policy::Overwrite, Producers::Many);
    [
        ("drop", plain),
        ("drop, timed", Options { time: true, ..plain }),
        ("overwrite", Options { policy: overwrite, ..plain }),
        ("shared", Options { producers: many, ..plain }),
        ("shared, overwrite", Options { producers: many, policy: overwrite, ..plain }),
    ]
}

/// The rest of a file: nothing, the header alone, data up to the middle of a page, some of the
/// data, all except the control pages, all except the type table.
const LEFT: [(&str, u64); 6] = [
    ("nothing", 0),
    ("the header", 4096),
    ("half a page", 9000),
    ("some data", 84 << 10),
    ("the data", 260 << 10),
    ("all but the types", 264 << 10),
];

/// Makes a ring with records, and its producer.
fn filled(path: &Path, options: &Options) -> Publish {
    let _ = std::fs::remove_file(path);
    let mut publish: Publish = if options.producers == Producers::One {
        let mut producer = Producer::create(path, options).unwrap();
        producer.register(&NUMBERED_TYPE).unwrap();
        Box::new(move |number| {
            (
                producer.publish_as(NUMBERED, &numbered(number, LEN)),
                producer.cut_off() == Some(ReadError::Truncated),
            )
        })
    } else {
        let producer = SharedProducer::create(path, options).unwrap();
        producer.register(&NUMBERED_TYPE).unwrap();
        Box::new(move |number| {
            (
                producer.publish_as(NUMBERED, &numbered(number, LEN)),
                producer.cut_off() == Some(ReadError::Truncated),
            )
        })
    };
    (0..RECORDS).for_each(|number| publish(number).0.unwrap());
    publish
}

/// A ring that will be truncated.
struct Case<'a> {
    what: String,
    path: &'a Path,
    left: u64,
    /// Readers and writers of records do not need the missing part.
    harmless: bool,
    publish: Publish,
}

impl Case<'_> {
    /// Returns the check of a copy. A partial page has zeros after its rest, and raises no SIGBUS.
    fn see(&self) -> fn(Item<'_>) {
        if self.left.is_multiple_of(4096) { whole } else { touched }
    }

    fn cut(&self) {
        File::options().write(true).open(self.path).unwrap().set_len(self.left).unwrap();
    }

    /// Reads on until the error that must come. Returns whether it did.
    fn read_on(&self, mut read: impl FnMut() -> Result<bool, ReadError>) -> bool {
        for _ in 0..2 * RECORDS {
            if let Err(error) = read() {
                // A partial page has zeros after its rest: corruption, and no SIGBUS.
                let cut = error == ReadError::Truncated || !self.left.is_multiple_of(4096);
                assert!(cut, "{}: {error}", self.what);
                assert!(read().is_err(), "{}: the error comes again", self.what);
                return true;
            }
        }
        assert!(self.harmless, "{}: no error was returned", self.what);
        false
    }
}

/// Tries every kind of ring, truncated to every length, with every one of these methods.
fn each(methods: &[&str], mut entry: impl FnMut(&str, &mut Case<'_>) -> bool) {
    install_sigbus_handler().unwrap();
    let dir = ring_dir();
    let path = dir.path().join("ring");
    let (mut rings, mut errors) = (0, 0);
    for (kind, options) in kinds() {
        for (name, left) in LEFT {
            for method in methods {
                let what = format!("{method}: a ring of kind {kind} of which {name} is left");
                let harmless = left >= 260 << 10;
                let publish = filled(&path, &options);
                let mut case = Case { what, path: &path, left, harmless, publish };
                rings += 1;
                errors += u32::from(entry(method, &mut case));
                let again = Observer::attach(&path, Start::Oldest);
                let refused = matches!(again, Err(AttachError::Bad { .. }));
                assert!(refused, "{}: an attach is refused", case.what);
            }
        }
    }
    println!("{rings} rings were truncated, {errors} of them reported it");
}

/// Checks a copy: whole, or an error.
fn whole(item: Item<'_>) {
    if let Item::Record(record) = item {
        let _ = number_of(record.bytes);
    }
}

/// Checks a borrowed record: its page may be zeros by now.
fn touched(item: Item<'_>) {
    if let Item::Record(record) = item {
        std::hint::black_box(record.bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    }
}

fn read(way: &str, consumer: &mut Consumer, see: fn(Item<'_>)) -> Result<bool, ReadError> {
    match way {
        "read" => Ok(consumer.read()?.map(see).is_some()),
        "take" => {
            consumer.advanced().peek()?;
            Ok(consumer.advanced().take()?.map(|(item, _)| see(item)).is_some())
        }
        "pinned" => {
            let Some(pinned) = consumer.pinned()? else { return Ok(consumer.read()?.is_some()) };
            while let Some(item) = pinned.read()? {
                see(item);
            }
            Ok(true)
        }
        "run" => {
            while let Some(run) = consumer.read_run(100) {
                run.records().for_each(|record| see(Item::Record(record)));
            }
            Ok(consumer.read()?.map(see).is_some())
        }
        _ => Ok(consumer.drain(see)? > 0),
    }
}

/// Calls the other methods of a consumer.
fn ask(consumer: &mut Consumer) {
    let _ = (consumer.types(), consumer.fill(), consumer.anchors(), consumer.lapped());
    let _ = (
        consumer.advanced().tend(),
        consumer.has_producer(),
        consumer.advanced().raw().map(|raw| raw.cursor()),
    );
    let (sleeper, ticket) = (consumer.advanced().sleeper(), consumer.advanced().prepare_sleep());
    if let (Ok(sleeper), Some(ticket)) = (sleeper, ticket) {
        sleeper.sleep(ticket, Duration::from_millis(1));
        sleeper.wake();
    }
    consumer.advanced().end_sleep();
    consumer.wait(Duration::from_millis(1));
    consumer.release();
}

#[test]
fn a_truncated_file_is_an_error_for_a_consumer_that_copies() {
    each(&["read", "take", "drain"], |method, case| {
        let mut consumer = Consumer::attach_with(
            case.path,
            &ConsumerOptions { trust: Trust::Nobody, ..ConsumerOptions::default() },
        )
        .unwrap();
        consumer.read().unwrap().map(whole).unwrap();
        case.cut();
        let reported = case.read_on(|| read(method, &mut consumer, case.see()));
        ask(&mut consumer);
        reported
    });
}

#[test]
fn a_truncated_file_is_an_error_for_a_consumer_that_borrows() {
    each(&["read", "take", "drain", "pinned", "run"], |method, case| {
        let mut consumer = Consumer::attach(case.path).unwrap();
        consumer.read().unwrap().map(whole).unwrap();
        case.cut();
        let reported = case.read_on(|| read(method, &mut consumer, touched));
        ask(&mut consumer);
        reported
    });
}

#[test]
fn a_truncated_file_is_an_error_for_an_observer() {
    each(&["read", "take", "snapshot", "wait"], |method, case| {
        let mut observer = Observer::attach(case.path, Start::Oldest).unwrap();
        if method != "wait" {
            observer.read().unwrap().map(whole).unwrap();
        }
        case.cut();
        let see = case.see();
        let reported = case.read_on(|| match method {
            "take" => {
                observer.advanced().peek()?;
                Ok(observer.advanced().take()?.map(|(item, _)| see(item)).is_some())
            }
            "snapshot" => {
                let snapshot = observer.snapshot()?;
                snapshot.iter().try_for_each(|item| item.map(see))?;
                Ok(true)
            }
            method => {
                if method == "wait" {
                    observer.wait(Duration::ZERO);
                }
                Ok(observer.read()?.map(see).is_some())
            }
        });
        let refused = matches!(observer.stat(), Err(AttachError::Truncated { .. }));
        assert!(refused || case.left > 0, "{}: {:?}", case.what, observer.stat());
        let _ = (observer.types(), observer.fill(), observer.anchors(), observer.has_producer());
        reported
    });
}

#[test]
fn a_truncated_file_is_an_error_for_a_producer_within_a_lap() {
    each(&["publish"], |_, case| {
        case.cut();
        let mut published = RECORDS..RECORDS + LAP;
        // In a full ring without a consumer, or in an overwrite ring, there is no end by itself.
        let reported = published.any(|number| match (case.publish)(number) {
            (Err(ReserveError::Truncated), _) | (_, true) => true,
            (Ok(()) | Err(ReserveError::Full), false) => false,
            (Err(error), false) => panic!("{}: {error}", case.what),
        });
        // The other half of a halved page is zeros, and written again.
        assert!(reported || case.harmless, "{}: no error was returned", case.what);
        reported
    });
}

fn types_offset(ring: &Path) -> u64 {
    perfring_consumer::files::RingFile::inspect(ring).unwrap().layout().areas().types.start
}

#[test]
fn a_truncated_ring_per_cpu_is_named_as_such_by_every_call_of_its_producer() {
    install_sigbus_handler().unwrap();
    let dir = ring_dir();
    let mut only = CpuSet::new();
    let cpu = sched_getcpu().unwrap();
    only.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
    let plain = Options { size: 256 << 10, types_size: 4096, slots: 4, ..Options::per_cpu() };
    let kinds = [
        ("drop", plain),
        ("drop, timed", Options { time: true, ..plain }),
        ("overwrite", Options { policy: Policy::Overwrite, ..plain }),
    ];
    let (mut errors, mut sets) = (0, 0);
    for (kind, options) in kinds {
        // Of the types, the beginning of the first is left, which says how long it is.
        for (name, left) in LEFT.into_iter().chain([("half a type", 0)]) {
            for method in ["publish", "reserve", "publish_timeout", "register"] {
                sets += 1;
                let what = format!("{method}: rings of kind {kind} of which {name} is left");
                let set = dir.path().join(sets.to_string());
                let producer = CpuProducer::create(&set, &options).unwrap();
                producer.register(&NUMBERED_TYPE).unwrap();
                (0..RECORDS).for_each(|number| {
                    producer.publish_as(NUMBERED, &numbered(number, LEN)).unwrap();
                });
                let ring = set.join(format!("cpu{cpu}"));
                let left = match name {
                    "half a type" => types_offset(&ring) + 64 + 24,
                    _ => left,
                };
                File::options().write(true).open(ring).unwrap().set_len(left).unwrap();
                let once = |number| match method {
                    "publish" => producer.publish_as(NUMBERED, &numbered(number, LEN)),
                    "publish_timeout" => {
                        producer.publish_timeout(NUMBERED, &numbered(number, LEN), Duration::ZERO)
                    }
                    "register" => {
                        let name = format!("tests.Type{number}");
                        producer.register(&Schema::new(&name, Encoding::Bytes).with_hashed_id())
                    }
                    _ => producer.reserve(NUMBERED, LEN).map(|mut record| {
                        record.copy_from_slice(&numbered(number, LEN));
                        record.commit();
                    }),
                };
                let found = (RECORDS..RECORDS + LAP).find_map(|number| match once(number) {
                    Ok(()) => None,
                    Err(ReserveError::Full) => None,
                    Err(ReserveError::Type(TypeError::Full { .. })) => None,
                    Err(error) => Some(error),
                });
                if let Some(error) = found {
                    assert_eq!(error, ReserveError::Truncated, "{what}");
                    errors += 1;
                }
                assert_eq!(producer.cut_off(), Some(ReadError::Truncated), "{what}");
            }
        }
    }
    println!("{errors} of {sets} sets returned an error");
    assert!(errors > 0);
}

#[test]
fn a_ring_that_is_truncated_between_two_polls_is_refused_by_name() {
    each(&["stat"], |_, case| {
        let file = perfring_consumer::files::RingFile::inspect(case.path).unwrap();
        case.cut();
        let asked = [
            file.totals().map(drop),
            file.holder(perfring_consumer::files::SeatId::Consumer).map(drop),
            file.last_sign_of_life().map(drop),
        ];
        let cut = asked
            .iter()
            .filter(|reported| matches!(reported, Err(AttachError::Truncated { .. })))
            .count();
        assert!(cut > 0 || case.harmless || case.left > 0, "{}: {asked:?}", case.what);
        assert!(Stat::read(case.path).is_err() && recover(case.path).is_err());
        cut > 0
    });
}

/// This program without the handler. Not a test by itself.
#[test]
fn without_the_handler() {
    let Some(path) = std::env::var_os("PERFRING_CUT_FILES_CHILD") else { return };
    let path = Path::new(&path);
    let _publish = filled(path, &Options::default());
    let mut consumer = Consumer::attach(path).unwrap();
    File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    let _ = consumer.read();
}

#[test]
fn without_the_handler_the_process_dies() {
    let dir = ring_dir();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "truncated_files::without_the_handler"]);
    child.env("PERFRING_CUT_FILES_CHILD", dir.path().join("ring"));
    let ended = child.output().unwrap();
    assert_eq!(ended.status.signal(), Some(nix::libc::SIGBUS), "{ended:?}");
}
