//! A layer whose ring's file was removed continues in a new ring, where its call sites have their types.

use super::SHAPE;
use crate::common::{all_rows, of, remove};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use perfring_testkit::alone::run_alone;
use perfring_tracing::options;
use perfring_types::Class;
use tracing::{Dispatch, info, info_span};
use tracing_subscriber::prelude::*;

const CHILD: &str = "PERFRING_TEST_ALONE";

fn say(word: &str) {
    info!(answer = 42, "{word}");
}

#[test]
fn call_sites_that_are_known_have_their_types_in_the_new_ring() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let layer = SHAPE.layer(&path, &options());
    let sink = layer.sink().clone();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || {
        let span = info_span!("serve", order = 17).entered();
        say("lost");
        remove(&path);
        sink.check().unwrap();
        say("kept");
        drop(span);
    });
    assert_eq!(sink.dropped(), 2, "the span's start, and an event");
    let rows = all_rows(&path);
    let logs = of(&rows, Class::Log);
    assert_eq!(logs.len(), 1);
    assert_eq!((logs[0].str("body"), logs[0].str("severity_text")), ("kept", "INFO"));
    assert!(logs[0].type_name.starts_with(concat!(module_path!(), ":")), "{}", logs[0].type_name);
    assert_eq!(of(&rows, Class::SpanEnd)[0].str("name"), "serve");
    assert!(!of(&rows, Class::Resource).is_empty());
}

#[test]
fn a_forked_child_makes_the_ring_that_was_removed_and_its_parent_follows() {
    const TEST: &str =
        "removed::a_forked_child_makes_the_ring_that_was_removed_and_its_parent_follows";
    if std::env::var_os(CHILD).is_none() {
        return run_alone(&SHAPE.test(TEST), CHILD, "yes");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let layer = SHAPE.layer(&path, &options());
    let sink = layer.sink().clone();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    let child = tracing::dispatcher::with_default(&dispatch, || {
        say("lost");
        remove(&path);
        // SAFETY: the child calls what any thread may call, and ends without returning.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let said = std::panic::catch_unwind(|| say("child"));
                let code = i32::from(said.is_err() || sink.dropped() != 0);
                // SAFETY: ends the process; nothing of it is needed any more.
                unsafe { nix::libc::_exit(code) }
            }
            ForkResult::Parent { child } => {
                assert!(matches!(waitpid(child, None).unwrap(), WaitStatus::Exited(_, 0)));
                sink.check().unwrap();
                say("parent");
                u64::try_from(child.as_raw()).unwrap()
            }
        }
    });
    assert_eq!(sink.dropped(), 1);
    let rows = all_rows(&path);
    let logs: Vec<_> =
        of(&rows, Class::Log).iter().map(|row| (row.str("body"), row.u64("process.pid"))).collect();
    let parent = u64::from(std::process::id());
    assert_eq!(logs, [("child", child), ("parent", parent)]);
    let resources: Vec<_> =
        of(&rows, Class::Resource).iter().map(|row| row.u64("process.pid")).collect();
    assert_eq!(resources.first(), Some(&child));
    assert!(resources.contains(&parent), "{resources:?}");
}

#[test]
fn a_check_in_a_forked_child_attaches_for_the_child_and_counts_nothing_of_its_parent() {
    const TEST: &str = "removed::a_check_in_a_forked_child_attaches_for_the_child_and_counts_nothing_of_its_parent";
    if std::env::var_os(CHILD).is_none() {
        return run_alone(&SHAPE.test(TEST), CHILD, "yes");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let layer = SHAPE.layer(&path, &options());
    let sink = layer.sink().clone();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || {
        say("parent");
        // SAFETY: the child calls what any thread may call, and ends without returning.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let said = std::panic::catch_unwind(|| {
                    sink.check().unwrap();
                    say("child");
                });
                let code = i32::from(said.is_err() || sink.dropped() != 0);
                // SAFETY: ends the process; nothing of it is needed any more.
                unsafe { nix::libc::_exit(code) }
            }
            ForkResult::Parent { child } => {
                assert!(matches!(waitpid(child, None).unwrap(), WaitStatus::Exited(_, 0)));
                let child = u64::try_from(child.as_raw()).unwrap();
                let rows = all_rows(&path);
                let logs = of(&rows, Class::Log);
                assert_eq!((logs.len(), logs[1].u64("process.pid")), (2, child));
                let resources = of(&rows, Class::Resource);
                assert!(resources.iter().any(|row| row.u64("process.pid") == child));
            }
        }
    });
    assert_eq!(sink.dropped(), 0);
}
