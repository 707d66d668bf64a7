//! Tests that need a process of their own: a global subscriber (with a scoped one `tracing` itself
//! drops what is logged while something is logged, or while a thread is destroyed), and forks: another
//! thread that logs at that moment has locks of `tracing`, which the child would wait for.

use super::SHAPE;
use crate::common::{Row, Shape, all_rows, in_a_child, of, rows};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use perfring_producer::{Options, SharedProducer};
use perfring_telemetry::Log;
use perfring_tracing::{Sink, options};
use perfring_types::Class;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use tracing::{Dispatch, info, info_span, warn};
use tracing_subscriber::prelude::*;

fn dispatch(path: &Path, options: &Options) -> Dispatch {
    let layer = SHAPE.layer(path, options);
    Dispatch::new(tracing_subscriber::registry().with(layer))
}

/// Does this in a child, under a global subscriber, and reads what it has logged. `None` in the child.
fn under_a_global(test: &str, act: impl FnOnce()) -> Option<Vec<Row>> {
    let ring = in_a_child(&SHAPE.test(test), |ring| {
        tracing::dispatcher::set_global_default(dispatch(ring, &options())).unwrap();
        act();
    });
    ring.map(|(_dir, path)| rows(&path))
}

struct Talks(u32);

impl fmt::Debug for Talks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0 {
            info!(depth = self.0, talks = ?Talks(self.0 - 1), "talking");
        }
        write!(f, "Talks({})", self.0)
    }
}

#[test]
fn a_value_that_logs_while_it_is_logged() {
    let rows = under_a_global("alone::a_value_that_logs_while_it_is_logged", || {
        warn!(talks = ?Talks(20), "outermost");
    });
    let Some(rows) = rows else { return };
    assert_eq!(rows.len(), 21); // the innermost first
    assert_eq!(rows[0].u64("depth"), 1);
    assert_eq!(rows[0].str("talks"), "Talks(0)");
    assert_eq!((rows[20].str("body"), rows[20].str("talks")), ("outermost", "Talks(20)"));
}

#[test]
fn what_the_log_crate_writes_has_its_own_target_and_location() {
    let test = "alone::what_the_log_crate_writes_has_its_own_target_and_location";
    let rows = under_a_global(test, || {
        tracing_log::LogTracer::init().unwrap();
        let _span = info_span!("around").entered();
        log::warn!(target: "shop::disk", "{} left", 3);
    });
    let Some(rows) = rows else { return };
    let row = of(&rows, Class::Log)[0];
    assert_eq!((row.str("body"), row.str("severity_text")), ("3 left", "WARN"));
    assert_eq!(row.str("otel.scope.name"), "shop::disk");
    assert!(row.str("code.file.path").ends_with("alone.rs") && row.has("code.line.number"));
    assert_eq!(row.bytes("span_id"), rows[0].bytes("span_id"));
    assert_eq!(row.type_name, "log:WARN");
}

/// Logs something when the thread ends.
struct LogsAtEnd(&'static str);

impl Drop for LogsAtEnd {
    fn drop(&mut self) {
        // No new span: the registry itself panics at that.
        info!("{}", self.0);
    }
}

thread_local! {
    static BEFORE: RefCell<Option<LogsAtEnd>> = const { RefCell::new(None) };
    static AFTER: RefCell<Option<LogsAtEnd>> = const { RefCell::new(None) };
    static SPAN: RefCell<Option<tracing::span::EnteredSpan>> = const { RefCell::new(None) };
}

#[test]
fn what_is_logged_while_a_thread_is_destroyed_is_written() {
    let test = "alone::what_is_logged_while_a_thread_is_destroyed_is_written";
    let rows = under_a_global(test, || {
        let thread = std::thread::spawn(|| {
            BEFORE.set(Some(LogsAtEnd("before")));
            SPAN.set(Some(info_span!("as long as the thread").entered()));
            info!("alive");
            AFTER.set(Some(LogsAtEnd("after")));
        });
        thread.join().unwrap();
    });
    let Some(rows) = rows else { return };
    let said: HashSet<_> = of(&rows, Class::Log).iter().map(|row| row.str("body")).collect();
    assert_eq!(said, HashSet::from(["alive", "before", "after"]));
    assert_eq!(of(&rows, Class::SpanEnd).len(), 1);
}

#[test]
fn a_forked_child_attaches_anew_and_is_distinguished_from_its_parent() {
    in_a_child(
        &SHAPE.test("alone::a_forked_child_attaches_anew_and_is_distinguished_from_its_parent"),
        |_| {
            [true, false].into_iter().for_each(forks);
        },
    );
}

fn say(word: &str) {
    info!("{word}");
}

fn forks(time: bool) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let options = Options { time, ..options() };
    let child = tracing::dispatcher::with_default(&dispatch(&path, &options), || {
        let _outer = info_span!("outer").entered();
        say("parent");
        // SAFETY: the child calls what any thread may call, and ends without returning.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let said = std::panic::catch_unwind(|| {
                    say("child"); // a known call site: the record is made before the fork is detected
                    info_span!("of child").in_scope(|| say("in span"));
                    info!("new place");
                });
                // SAFETY: ends the process; nothing of it is needed any more.
                unsafe { nix::libc::_exit(i32::from(said.is_err())) }
            }
            ForkResult::Parent { child } => {
                assert!(matches!(waitpid(child, None).unwrap(), WaitStatus::Exited(_, 0)));
                info_span!("of parent").in_scope(|| info!("parent again"));
                u64::try_from(child.as_raw()).unwrap()
            }
        }
    });
    let rows = all_rows(&path);
    let parent = u64::from(std::process::id());
    has_resources_of(&rows, parent, child);
    let logs: Vec<_> =
        of(&rows, Class::Log).iter().map(|row| (row.str("body"), row.u64("process.pid"))).collect();
    let expected = [
        ("parent", parent),
        ("child", child),
        ("in span", child),
        ("new place", child),
        ("parent again", parent),
    ];
    assert_eq!(logs, expected);
    let starts = of(&rows, Class::SpanStart);
    let spans: HashSet<_> = starts.iter().map(|row| row.bytes("span_id")).collect();
    assert_eq!((starts.len(), spans.len()), (3, 3));
}

/// Writes a record while it is written.
struct Says(Sink);

impl fmt::Debug for Says {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.emit(&Log { body: "inner".into(), ..Log::default() }).map_err(|_| fmt::Error)
    }
}

/// What is in the ring after a child of `fork(2)` has done this, and the child's pid.
fn after_a_fork(path: &Path, dispatch: &Dispatch, act: impl FnOnce()) -> (Vec<Row>, u64) {
    let child = tracing::dispatcher::with_default(dispatch, || {
        // SAFETY: the child calls what any thread may call, and ends without returning.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
                // SAFETY: ends the process; nothing of it is needed any more.
                unsafe { nix::libc::_exit(i32::from(done.is_err())) }
            }
            ForkResult::Parent { child } => {
                assert!(matches!(waitpid(child, None).unwrap(), WaitStatus::Exited(_, 0)));
                u64::try_from(child.as_raw()).unwrap()
            }
        }
    });
    (all_rows(path), child)
}

fn pids(rows: &[Row], class: Class) -> Vec<u64> {
    of(rows, class).iter().map(|row| row.u64("process.pid")).collect()
}

/// A shared ring has a resource of each, and each ring per CPU may have one of each.
fn has_resources_of(rows: &[Row], parent: u64, child: u64) {
    let mut pids = pids(rows, Class::Resource);
    if SHAPE == Shape::Ring {
        return assert_eq!(pids, [parent, child]);
    }
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids, [parent.min(child), parent.max(child)]);
}

#[test]
fn a_child_of_a_process_that_has_logged_nothing_is_distinguished_from_it() {
    let test = "alone::a_child_of_a_process_that_has_logged_nothing_is_distinguished_from_it";
    in_a_child(&SHAPE.test(test), |_| {
        for time in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("ring");
            let layer = SHAPE.layer(&path, &Options { time, ..options() });
            let says = Says(layer.sink().clone());
            let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
            let (rows, child) = after_a_fork(&path, &dispatch, || {
                // The outer record is begun first, and the inner one detects the fork.
                info!(?says, "outer");
            });
            let parent = u64::from(std::process::id());
            assert_eq!(pids(&rows, Class::Log), [child; 2]);
            has_resources_of(&rows, parent, child);
        }
    });
}

#[test]
fn a_new_thread_of_a_child_may_be_the_first_to_speak() {
    in_a_child(&SHAPE.test("alone::a_new_thread_of_a_child_may_be_the_first_to_speak"), |path| {
        let dispatch = dispatch(path, &options());
        tracing::dispatcher::with_default(&dispatch, || say("parent"));
        let (rows, child) = after_a_fork(path, &dispatch, || {
            let here = dispatch.clone();
            let thread = || tracing::dispatcher::with_default(&here, || say("thread"));
            std::thread::scope(|scope| scope.spawn(thread).join()).unwrap();
            say("child");
        });
        let parent = u64::from(std::process::id());
        assert_eq!(pids(&rows, Class::Log), [parent, child, child]);
        let resources = of(&rows, Class::Resource);
        let first = |pid| {
            let its = resources.iter().find(|row| row.u64("process.pid") == pid);
            its.unwrap().u64("start_time_unix_nano")
        };
        assert!(first(parent) < first(child));
        has_resources_of(&rows, parent, child);
    });
}

#[test]
fn a_child_without_a_slot_does_not_try_to_attach_for_each_record() {
    if SHAPE == Shape::Cpus {
        return; // its threads need no slots
    }
    in_a_child(
        &SHAPE.test("alone::a_child_without_a_slot_does_not_try_to_attach_for_each_record"),
        |path| {
            // One for the parent's sink, one that is taken and then free.
            let dispatch = dispatch(path, &Options { slots: 2, ..options() });
            let (rows, child) = after_a_fork(path, &dispatch, || {
                let taken = SharedProducer::attach(path).unwrap();
                say("no slot");
                drop(taken);
                (0..1000).for_each(|_| say("too early"));
                (0..5000).for_each(|_| say("at last"));
            });
            let said: HashSet<_> =
                of(&rows, Class::Log).iter().map(|row| row.str("body")).collect();
            assert_eq!(said, HashSet::from(["at last"]));
            // It could not be published at first.
            assert_eq!(pids(&rows, Class::Resource), [u64::from(std::process::id()), child]);
        },
    );
}
