//! What the layer survives: panics, full rings and tables, threads that end, rings that are removed.

use super::SHAPE;
use crate::common::{Shape, all_rows, of, rings, rows};
use nix::fcntl::{FcntlArg, fcntl};
use perfring_consumer::Snapshot;
use perfring_producer::{AttachError, Options, Policy, SharedProducer};
use perfring_tracing::options;
use perfring_types::Class;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tempfile::TempDir;
use tracing::{Dispatch, info, info_span, warn};
use tracing_subscriber::prelude::*;

fn ring() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    (dir, path)
}

fn dispatch(path: &Path, options: &Options) -> Dispatch {
    let layer = SHAPE.layer(path, options);
    Dispatch::new(tracing_subscriber::registry().with(layer))
}

fn with<T>(dispatch: &Dispatch, act: impl FnOnce() -> T) -> T {
    tracing::dispatcher::with_default(dispatch, act)
}

struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half of it")?;
        panic!("in Debug");
    }
}

#[test]
fn a_panic_in_a_value_goes_on_and_what_was_written_before_it_stays() {
    let (_dir, path) = ring();
    let dispatch = dispatch(&path, &options());
    with(&dispatch, || {
        let said = std::panic::catch_unwind(AssertUnwindSafe(|| {
            info!(first = 1, panics = ?Panics, after = 2, "message");
        }));
        assert_eq!(*said.unwrap_err().downcast::<&str>().unwrap(), "in Debug");
        info!("afterwards");
    });
    let rows = rows(&path);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].str("body"), "message"); // tracing's first field
    assert!(rows[0].has("first") && !rows[0].has("panics") && !rows[0].has("after"));
    assert_eq!(rows[1].str("body"), "afterwards");
}

#[test]
fn where_the_type_table_is_full_the_names_are_in_the_records() {
    let (_dir, path) = ring();
    // The built-in types fit in, and few more.
    let small = Options { types_size: 8192, ..options() };
    with(&dispatch(&path, &small), || {
        macro_rules! call_sites {
            ($($n:literal)*) => {$(
                let _span = info_span!(target: concat!("t", $n), "numbered", n = $n, name = "mine").entered();
                warn!(target: concat!("t", $n), n = $n, body = "mine", "event {}", $n);
            )*};
        }
        call_sites! { 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 }
    });
    let rows = rows(&path);
    let (logs, starts) = (of(&rows, Class::Log), of(&rows, Class::SpanStart));
    let own = logs.iter().filter(|row| row.type_name != "perfring.Log").count();
    println!("{own} of {} call sites have a type of their own", logs.len());
    assert!((1..30).contains(&own));
    assert_eq!((logs.len(), starts.len()), (30, 30));
    let mut around: Option<Vec<u8>> = None;
    for (n, (log, start)) in logs.iter().zip(&starts).enumerate() {
        assert_eq!(log.str("body"), format!("event {n}"));
        assert_eq!((log.u64("severity_number"), log.str("severity_text")), (13, "WARN"));
        assert_eq!(log.str("attributes.body"), "mine");
        assert_eq!(log.str("otel.scope.name"), format!("t{n}"));
        assert_eq!(log.str("code.module.name"), module_path!());
        assert!(log.has("code.file.path") && log.has("code.line.number"));
        assert_eq!(log.get("n"), start.get("n"));
        assert_eq!(log.bytes("span_id"), start.bytes("span_id"));
        assert_eq!((start.str("name"), start.str("attributes.name")), ("numbered", "mine"));
        assert_eq!(start.value.get("parent_span_id").is_some(), around.is_some());
        if let Some(around) = around {
            assert_eq!(start.bytes("parent_span_id"), around);
        }
        around = Some(start.bytes("span_id"));
    }
}

#[test]
fn what_a_full_ring_refuses_is_counted_by_it_and_by_the_sink() {
    let (_dir, path) = ring();
    let full = Options { size: 4096, policy: Policy::Drop, ..options() };
    let layer = SHAPE.layer(&path, &full);
    let sink = layer.sink().clone();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    with(&dispatch, || (0..1000).for_each(|n| info!(n, "more")));
    let kept = rows(&path).len() as u64;
    assert!(kept > 0 && sink.dropped() == 1000 - kept, "{kept} and {}", sink.dropped());
    let full = |ring: &PathBuf| Snapshot::take(ring).unwrap().totals().producer.refused.full;
    assert_eq!(rings(&path).iter().map(|ring| full(ring).records).sum::<u64>(), sink.dropped());
}

#[test]
fn a_thread_that_ends_frees_its_slot() {
    if SHAPE == Shape::Cpus {
        return; // threads need no slots
    }
    let (_dir, path) = ring();
    // One for the sink, one for a thread.
    let dispatch = dispatch(&path, &Options { slots: 2, ..options() });
    let (go, gone) = mpsc::channel::<()>();
    let (said, saying) = mpsc::channel();
    let here = dispatch.clone();
    let thread = std::thread::spawn(move || {
        with(&here, || info!("first"));
        said.send(()).unwrap();
        gone.recv().unwrap();
    });
    saying.recv().unwrap();
    assert!(matches!(SharedProducer::attach(&path), Err(AttachError::Slots { .. })));
    // No slot for this one: its records are published all the same.
    let here = dispatch.clone();
    std::thread::spawn(move || with(&here, || info!("second"))).join().unwrap();
    go.send(()).unwrap();
    thread.join().unwrap();
    drop(SharedProducer::attach(&path).unwrap());
    let said: Vec<_> = rows(&path).iter().map(|row| row.str("body").to_owned()).collect();
    assert_eq!(said, ["first", "second"]);
}

#[test]
fn a_dropped_layer_frees_its_slots() {
    if SHAPE == Shape::Cpus {
        return; // threads need no slots
    }
    let (_dir, path) = ring();
    with(&dispatch(&path, &Options { slots: 2, ..options() }), || info!("here"));
    let (_one, _two) =
        (SharedProducer::attach(&path).unwrap(), SharedProducer::attach(&path).unwrap());
}

#[test]
fn a_new_thread_publishes_in_the_ring_that_has_the_name() {
    if SHAPE == Shape::Cpus {
        return; // its file is a shared ring's
    }
    let (_dir, path) = ring();
    let dispatch = dispatch(&path, &options());
    let moved = path.with_extension("moved");
    std::fs::rename(&path, &moved).unwrap();
    let other = SharedProducer::create(&path, &options()).unwrap();
    let here = dispatch.clone();
    std::thread::spawn(move || with(&here, || info!(n = 1, "where to"))).join().unwrap();
    drop(other);
    assert_eq!(rows(&path)[0].str("body"), "where to");
    std::fs::remove_file(&path).unwrap();
    std::thread::spawn(move || with(&dispatch, || info!("and now"))).join().unwrap();
    assert_eq!(rows(&path)[0].str("body"), "and now"); // made again
    assert_eq!(rows(&moved).len(), 0);
}

#[test]
fn a_ring_that_overwrites_keeps_the_resource() {
    let (_dir, path) = ring();
    let small = Options { size: 1 << 16, ..options() };
    let dispatch = dispatch(&path, &small);
    for threads in [1u64, 8] {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                let dispatch = dispatch.clone();
                std::thread::spawn(move || {
                    with(&dispatch, || (0..5000).for_each(|n| info!(n, "more")));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for ring in rings(&path) {
            let rows = all_rows(&ring);
            let resources = of(&rows, Class::Resource);
            assert!((1..=8).contains(&resources.len()), "{}", resources.len());
            assert!(resources[0].has("service.name"));
        }
    }
}

#[test]
fn the_resource_is_published_for_each_quarter_of_the_ring() {
    if SHAPE == Shape::Cpus {
        return; // its file is a shared ring's
    }
    let (_dir, path) = ring();
    // Small records: headers and timestamps are a large part of what they take.
    let layer = SHAPE.layer(&path, &Options { size: 1 << 16, ..options() });
    let sink = layer.sink().clone();
    let kind = sink.declare(Class::Gauge, "small", "", &[]).unwrap();
    for _ in 0..50 {
        (0..1000).for_each(|_| sink.write(kind, |_| {}).unwrap());
    }
    for _ in 0..20 {
        (0..300).for_each(|_| sink.write(kind, |_| {}).unwrap());
        let resources = of(&all_rows(&path), Class::Resource).len();
        assert!((3..=5).contains(&resources), "{resources}");
    }
}

#[test]
fn what_a_program_says_of_itself_stands_alone_also_where_the_table_is_full() {
    let (_dir, path) = ring();
    let layer = SHAPE.layer(&path, &Options { types_size: 8192, ..options() });
    for n in 0..100 {
        let _ = layer.sink().declare(Class::Gauge, &format!("filler {n}"), "", &[]);
    }
    with(&Dispatch::new(tracing_subscriber::registry().with(layer)), || {
        let _span = info_span!("span", level = "mine").entered();
        info!(code.file.path = "mine", code.line.number = 7, "event");
    });
    let rows = rows(&path);
    assert_eq!((rows[0].type_name.as_str(), rows[0].str("level")), ("perfring.SpanStart", "mine"));
    assert_eq!(
        (rows[1].str("code.file.path"), rows[1].get("code.line.number").to_string()),
        ("mine", "7".into())
    );
    assert_eq!(
        (rows[1].str("severity_text"), rows[1].type_name.as_str()),
        ("INFO", "perfring.Log")
    );
}

#[test]
fn a_call_site_that_found_the_table_locked_gets_its_type_later() {
    if SHAPE == Shape::Cpus {
        return; // its file is a shared ring's
    }
    let (_dir, path) = ring();
    let layer = SHAPE.layer(&path, &options());
    let byte = SharedProducer::attach(&path).unwrap().layout().areas().types.start;
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let lock = nix::libc::flock {
        l_type: nix::libc::F_WRLCK as nix::libc::c_short,
        l_whence: nix::libc::SEEK_SET as nix::libc::c_short,
        l_start: byte.try_into().unwrap(),
        l_len: 1,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    with(&Dispatch::new(tracing_subscriber::registry().with(layer)), || {
        let call_site = |n: u32| warn!(n, "call_site");
        call_site(0);
        drop(file); // and with it the lock
        (1..3000).for_each(call_site);
    });
    let rows = rows(&path);
    assert_eq!(rows.len(), 3000);
    let without = rows.iter().filter(|row| row.type_name == "perfring.Log").count();
    // Neither for good, nor with a try for each record.
    assert!((100..2000).contains(&without), "{without}");
    assert!(
        rows.iter().zip(0..).all(|(row, n)| row.u64("n") == n && row.str("body") == "call_site")
    );
}
