//! A sink whose ring's file was removed attaches again, and counts what it lost.

use super::SHAPE;
use crate::shape::{Shape, records, remove, rings, stay_on_this_cpu};
use nix::unistd::{Uid, setuid};
use perfring_telemetry::producer::types::{self, Class, Constant, Field};
use perfring_telemetry::producer::{
    AttachError, OpenError, Options, RecordType, ReserveError,
    error::{BadRing, CpuSetError, CreateError},
    files::create,
    install_sigbus_handler,
};
use perfring_telemetry::{FIRST, Log, Resource, Severity, Sink, SinkError, names, options};
use perfring_testkit::alone::run_alone;
use perfring_testkit::wait::Watchdog;
use perfring_types::read::TypeTable;
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tempfile::TempDir;

/// Says in the child that it is one.
const CHILD: &str = "PERFRING_TEST_ALONE";

/// Small, for tests that make many.
fn small(time: bool) -> Options {
    Options { size: 1 << 18, types_size: 1 << 16, time, ..options() }
}

/// Returns a place for a ring or rings, and has this thread and those that it starts run on one CPU: on another, the process has no
/// ring yet, and the producer of the removed rings makes one there.
fn place() -> (TempDir, PathBuf) {
    stay_on_this_cpu();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rings").join("ring");
    fs::create_dir(dir.path().join("rings")).unwrap();
    (dir, path)
}

fn say(sink: &Sink, body: &str) -> Result<(), ReserveError> {
    sink.emit(&Log { severity: Some(Severity::Info), body: body.into(), ..Log::default() })
}

/// Returns the class of each record that the ring has, and its body or value. Each must have a type.
fn rows(path: &Path) -> Vec<(Class, String)> {
    records(path, |snapshot, record| {
        let types = TypeTable::from_entries(snapshot.types().entries());
        let of = types.get(RecordType::new(record.kind).unwrap()).unwrap();
        let value = of.decode(record.bytes).unwrap();
        let said = value.get("body").or_else(|| value.get("value")).map(ToString::to_string);
        (of.class.known().unwrap(), said.unwrap_or_default())
    })
}

fn logs(path: &Path) -> Vec<String> {
    let all = rows(path).into_iter();
    all.filter(|(class, _)| *class != Class::Resource).map(|(_, said)| said).collect()
}

fn depth(sink: &Sink) -> RecordType {
    let fields = [
        Field::new(names::VALUE, 0, types::Shape::ANY),
        Field::constant(names::NAME, Constant::Str("queue.depth")),
    ];
    sink.declare(Class::Gauge, "queue.depth", "", &fields).unwrap()
}

/// The sinks of this shape: whether all threads have one producer, and whether the ring has timestamps.
const SINKS: &[(bool, bool)] = match SHAPE {
    Shape::Ring => &[(false, true), (false, false), (true, true), (true, false)],
    Shape::Cpus => &[(false, true)],
};

fn attach(together: bool, time: bool, path: &Path) -> Sink {
    match SHAPE {
        Shape::Cpus => SHAPE.sink(path, &small(time), Resource::here()),
        Shape::Ring => {
            SHAPE.make(path, &small(time));
            let attach = if together { Sink::attach_one } else { Sink::attach };
            attach(path.to_owned(), Resource::here()).unwrap()
        }
    }
}

/// What happened to the file.
const WAYS: [&str; 4] = ["removed", "replaced", "replaced by a larger one", "renamed over"];

fn take_away(how: &str, path: &Path, time: bool) {
    let larger = Options { size: 1 << 19, ..small(time) };
    match how {
        "renamed over" => {
            let other = path.with_extension("other");
            SHAPE.make(&other, &small(time));
            if SHAPE == Shape::Cpus {
                fs::rename(path, path.with_extension("old")).unwrap();
            }
            fs::rename(other, path).unwrap();
        }
        how => {
            remove(path);
            match how {
                "replaced" => SHAPE.make(path, &small(time)),
                "replaced by a larger one" => SHAPE.make(path, &larger),
                _ => {}
            }
        }
    }
}

#[test]
fn a_check_attaches_again_and_counts_each_record_since_the_last_one() {
    let mut cases = 0;
    for how in WAYS {
        for &(together, time) in SINKS {
            let case = format!("{how}, together: {together}, time: {time}");
            let (_dir, path) = place();
            let sink = attach(together, time, &path);
            let kind = depth(&sink);
            for _ in 0..3 {
                say(&sink, "before").unwrap();
            }
            sink.check().unwrap();
            assert_eq!((sink.dropped(), logs(&path).len()), (0, 3), "{case}");
            for _ in 0..5 {
                say(&sink, "lost").unwrap();
            }
            take_away(how, &path, time);
            for _ in 0..2 {
                say(&sink, "lost").unwrap();
            }
            assert_eq!(sink.dropped(), 0, "{case}");
            sink.check().unwrap();
            assert_eq!(sink.dropped(), 7, "{case}");
            say(&sink, "after").unwrap();
            sink.write(kind, |values| values.u64(FIRST, 17)).unwrap();
            let found = rows(&path);
            assert_eq!(found[0].0, Class::Resource, "{case}: {found:?}");
            assert_eq!(logs(&path), ["after", "17"], "{case}");
            // Nothing is counted twice.
            sink.check().unwrap();
            assert_eq!(sink.dropped(), 7, "{case}");
            cases += 1;
        }
    }
    println!("{cases} cases");
}

#[test]
fn a_sink_finds_out_by_itself_within_a_second_or_so() {
    for &(together, time) in SINKS {
        let (_dir, path) = place();
        let sink = attach(together, time, &path);
        say(&sink, "first").unwrap();
        sink.check().unwrap();
        remove(&path);
        let (mut said, watchdog) = (0u64, Watchdog::default());
        while rings(&path).iter().all(|ring| !ring.exists()) {
            say(&sink, "again").unwrap();
            said += 1;
            watchdog.check("the sink attaches again");
        }
        // If the producer of the resource was the first to find it out, the thread's producer follows with this record.
        say(&sink, "last").unwrap();
        said += 1;
        let (lost, arrived) = (sink.dropped(), logs(&path).len() as u64);
        assert_eq!(lost + arrived, said, "together: {together}, time: {time}");
        println!("together: {together}, time: {time}: {lost} of {said} records were lost");
    }
}

#[test]
fn other_threads_follow_at_their_next_record_or_count_at_their_end() {
    let (_dir, path) = place();
    let sink = SHAPE.sink(&path, &small(true), Resource::here());
    let (done, is_done) = mpsc::channel();
    let thread = |last: bool| {
        let (sink, done) = (sink.clone(), done.clone());
        let (go_on, goes_on) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            say(&sink, "thread").unwrap();
            sink.check().unwrap();
            for _ in 0..10 {
                say(&sink, "lost").unwrap();
            }
            done.send(()).unwrap();
            goes_on.recv().unwrap();
            if last {
                say(&sink, "again").unwrap();
            }
        });
        (thread, go_on)
    };
    let threads = [true, false, true].map(thread);
    threads.iter().for_each(|_| is_done.recv().unwrap());
    remove(&path);
    say(&sink, "main").unwrap(); // its first record: the thread attaches to a new ring
    assert_eq!(logs(&path), ["main"]);
    for (lost, (thread, go_on)) in threads.into_iter().enumerate() {
        go_on.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!(sink.dropped(), 10 * (lost as u64 + 1));
    }
    assert_eq!(logs(&path), ["main", "again", "again"]);
}

#[test]
fn a_type_that_a_late_thread_declares_is_in_the_new_ring() {
    let (_dir, path) = place();
    let sink = SHAPE.sink(&path, &small(true), Resource::here());
    let (go_on, goes_on) = mpsc::channel::<()>();
    let late = sink.clone();
    let (done, is_done) = mpsc::channel();
    let late = std::thread::spawn(move || {
        say(&late, "first").unwrap();
        done.send(()).unwrap();
        goes_on.recv().unwrap();
        let kind = depth(&late); // by a producer of the old ring
        late.write(kind, |values| values.u64(FIRST, 4)).unwrap();
    });
    is_done.recv().unwrap();
    say(&sink, "here").unwrap();
    remove(&path);
    sink.check().unwrap();
    go_on.send(()).unwrap();
    late.join().unwrap();
    assert_eq!(logs(&path), ["4"]);
    assert_eq!(sink.dropped(), 2);
}

#[test]
fn the_resource_stays_in_the_new_ring_while_records_are_overwritten() {
    let (_dir, path) = place();
    let small = Options { size: 1 << 16, ..small(true) };
    let sink = SHAPE.sink(&path, &small, Resource::here());
    say(&sink, "first").unwrap();
    remove(&path);
    sink.check().unwrap(); // by the producer of this thread: that of the resource has to follow
    let mut bytes = 0;
    while bytes < 4 * small.size {
        say(&sink, "more").unwrap();
        bytes += 64; // each takes more
    }
    let resources = rows(&path).iter().filter(|(class, _)| *class == Class::Resource).count();
    assert!(resources > 0);
}

#[test]
fn while_it_cannot_attach_a_sink_refuses_and_counts_and_says_why() {
    if SHAPE == Shape::Cpus {
        return; // see `per_cpu`
    }
    /// What is at the place of the ring.
    type Put = fn(&Path);
    type Is = fn(&SinkError) -> bool;
    let untimed: Put = |path| create(path, &small(false)).unwrap();
    let open: Put = |path| create(path, &Options { mode: 0o666, ..small(true) }).unwrap();
    let one: Put = |path| create(path, &Options::default()).unwrap();
    let foreign: [(&str, Put, Is); 6] = [
        (
            "text",
            |path| fs::write(path, "text").unwrap(),
            |error| {
                matches!(
                    error,
                    SinkError::Attach(AttachError::Bad { source: BadRing::Short { .. }, .. })
                )
            },
        ),
        (
            "a directory",
            |path| fs::create_dir(path).unwrap(),
            |error| matches!(error, SinkError::Attach(AttachError::Io { .. })),
        ),
        (
            "no directory",
            |path| fs::remove_dir(path.parent().unwrap()).unwrap(),
            |error| matches!(error, SinkError::Create(CreateError::Io { .. })),
        ),
        ("a ring of one producer", one, |error| {
            matches!(error, SinkError::Attach(AttachError::Kind { .. }))
        }),
        ("a ring without timestamps", untimed, |error| {
            matches!(error, SinkError::Other(OpenError::Differs { option: "time", .. }))
        }),
        ("a ring that lets all users in", open, |error| {
            matches!(error, SinkError::Other(OpenError::Mode { .. }))
        }),
    ];
    for (what, put, is) in foreign {
        let (_dir, path) = place();
        let sink = SHAPE.sink(&path, &small(true), Resource::here());
        say(&sink, "before").unwrap();
        sink.check().unwrap();
        say(&sink, "lost").unwrap();
        fs::remove_file(&path).unwrap();
        put(&path);
        let there = fs::read(&path).ok();
        let error = sink.check().unwrap_err();
        assert!(is(&error), "{what}: {error:?}");
        println!("{what}: {error}");
        assert_eq!(sink.dropped(), 1, "{what}");
        for lost in 2..5 {
            assert_eq!(say(&sink, "refused"), Err(ReserveError::Detached), "{what}");
            assert_eq!(sink.dropped(), lost, "{what}");
        }
        let declared = sink.declare(Class::Gauge, "late", "", &[]);
        assert!(declared.as_ref().is_err_and(Sink::may_declare_later), "{what}: {declared:?}");
        assert_eq!(fs::read(&path).ok(), there, "{what}: it was changed");
        // Out of the way again.
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        let _ = fs::create_dir(path.parent().unwrap());
        sink.check().unwrap();
        say(&sink, "after").unwrap();
        assert_eq!(logs(&path), ["after"], "{what}");
        assert_eq!(sink.dropped(), 4, "{what}");
    }
}

#[test]
fn in_a_directory_that_is_not_writable_a_sink_says_so() {
    const TEST: &str = "removed::in_a_directory_that_is_not_writable_a_sink_says_so";
    if std::env::var_os(CHILD).is_none() {
        return run_alone(&SHAPE.test(TEST), CHILD, "yes");
    }
    if Uid::effective().is_root() {
        setuid(Uid::from_raw(65534)).unwrap(); // for root, each directory is writable
    }
    let (_dir, path) = place();
    let parent = if SHAPE == Shape::Cpus { &*path } else { path.parent().unwrap() };
    let sink = SHAPE.sink(&path, &small(true), Resource::here());
    say(&sink, "lost").unwrap();
    remove(&path);
    fs::set_permissions(parent, Permissions::from_mode(0o500)).unwrap();
    let error = sink.check().unwrap_err();
    let is_refused = match &error {
        SinkError::Create(error) | SinkError::Cpu(CpuSetError::Ring(OpenError::Create(error))) => {
            matches!(error, CreateError::Permission { .. })
        }
        _ => false,
    };
    assert!(is_refused, "{error:?}");
    assert_eq!(say(&sink, "refused"), Err(ReserveError::Detached));
    fs::set_permissions(parent, Permissions::from_mode(0o700)).unwrap();
    sink.check().unwrap();
    say(&sink, "after").unwrap();
    assert_eq!((logs(&path), sink.dropped()), (vec!["after".to_owned()], 2));
}

#[test]
fn a_ring_that_was_cut_off_is_left_once_it_is_removed() {
    const TEST: &str = "removed::a_ring_that_was_cut_off_is_left_once_it_is_removed";
    if std::env::var_os(CHILD).is_none() {
        return run_alone(&SHAPE.test(TEST), CHILD, "yes");
    }
    install_sigbus_handler().unwrap();
    let (_dir, path) = place();
    let sink = SHAPE.sink(&path, &small(true), Resource::here());
    say(&sink, "before").unwrap();
    sink.check().unwrap();
    for ring in rings(&path) {
        OpenOptions::new().write(true).open(ring).unwrap().set_len(0).unwrap();
    }
    assert_eq!(say(&sink, "into private memory"), Err(ReserveError::Detached));
    let error = sink.check().unwrap_err();
    let is_bad = match &error {
        SinkError::Attach(error) | SinkError::Cpu(CpuSetError::Ring(OpenError::Attach(error))) => {
            matches!(error, AttachError::Bad { .. })
        }
        _ => false,
    };
    assert!(is_bad, "{error:?}");
    assert_eq!(sink.dropped(), 1);
    assert_eq!(say(&sink, "refused"), Err(ReserveError::Detached));
    remove(&path);
    sink.check().unwrap();
    say(&sink, "after").unwrap();
    assert_eq!((logs(&path), sink.dropped()), (vec!["after".to_owned()], 2));
}

#[cfg(all(feature = "log", feature = "metrics"))]
#[test]
fn the_records_of_log_and_metrics_have_their_types_in_the_new_ring() {
    use log::Log as _;
    use perfring_telemetry::{log::RingLog, metrics::RingRecorder};

    let (_dir, path) = place();
    let sink = SHAPE.sink(&path, &small(true), Resource::here());
    let logger = RingLog::new(sink.clone());
    let warn = || {
        let args = format_args!("full");
        logger.log(&log::Record::builder().level(log::Level::Warn).args(args).build());
    };
    metrics::with_local_recorder(&RingRecorder::new(sink.clone()), || {
        let requests = metrics::counter!("requests", "method" => "GET");
        requests.increment(2);
        warn();
        remove(&path);
        sink.check().unwrap();
        assert_eq!(sink.dropped(), 2);
        requests.increment(3);
        warn();
    });
    let expected = [(Class::Sum, "5".to_owned()), (Class::Log, "full".to_owned())];
    let mut found = rows(&path);
    found.retain(|(class, _)| *class != Class::Resource);
    assert_eq!(found, expected);
}
