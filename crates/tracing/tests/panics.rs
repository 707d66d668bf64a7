//! Panics are in the ring, whatever the process does afterwards.

use super::SHAPE;
use crate::common::{Row, of, rows};
use perfring_tracing::options;
use perfring_types::Class;
use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use tracing::{info, info_span};
use tracing_subscriber::prelude::*;

const HOW: &str = "PERFRING_TEST_PANIC";
const RING: &str = "PERFRING_TEST_RING";

struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("in Debug");
    }
}

struct PanicsAtEnd;

impl Drop for PanicsAtEnd {
    fn drop(&mut self) {
        panic!("while it unwinds");
    }
}

/// Runs only as the child of the tests below: this very program, started again.
#[test]
fn panics_on_request() {
    let Ok(how) = std::env::var(HOW) else { return };
    let layer = SHAPE.layer(Path::new(&std::env::var(RING).unwrap()), &options());
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        println!("the hook before");
        previous(panic);
    }));
    layer.panic_hook();
    tracing_subscriber::registry().with(layer).init();
    let worker = std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
        let _span = info_span!("serve").entered();
        match how.as_str() {
            "plain" => panic!("order {} is gone", 17),
            "debug" => info!(value = ?Panics, "said before"),
            "abort" => {
                let _end = PanicsAtEnd;
                panic!("first");
            }
            _ => std::panic::panic_any(17u32),
        }
    });
    std::process::exit(if worker.unwrap().join().is_err() { 3 } else { 0 });
}

/// Runs it, and returns how it ended, what it printed, and its log records.
fn run(how: &str) -> (ExitStatus, String, Vec<Row>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("ring");
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &SHAPE.test("panics::panics_on_request"), "--nocapture"])
        .env(HOW, how)
        .env(RING, &ring)
        .env("RUST_BACKTRACE", "0")
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let printed = String::from_utf8([child.stdout, child.stderr].concat()).unwrap();
    let span = of(&rows(&ring), Class::SpanStart)[0].bytes("span_id");
    let logs = rows(&ring).into_iter().filter(|row| row.class == Class::Log).collect();
    (child.status, printed, logs, span)
}

#[test]
fn a_panic_is_a_fatal_record_with_message_location_thread_and_span() {
    let (status, printed, logs, span) = run("plain");
    assert_eq!(status.code(), Some(3), "{printed}");
    // The hook that was there before is called, and the one that prints.
    assert!(printed.contains("the hook before"), "{printed}");
    assert!(printed.contains("order 17 is gone"), "{printed}");
    let [log] = &logs[..] else { panic!("{logs:?}") };
    assert_eq!(log.str("body"), "order 17 is gone");
    assert_eq!((log.str("severity_text"), log.u64("severity_number")), ("FATAL", 21));
    assert_eq!(log.str("event_name"), "panic");
    assert_eq!(log.str("thread.name"), "worker");
    assert_eq!(Path::new(log.str("code.file.path")).file_name().unwrap(), "panics.rs");
    assert!(log.u64("code.line.number") > 40);
    assert_eq!(log.bytes("span_id"), span);
}

#[test]
fn a_panic_inside_of_the_layer_is_written_without_a_deadlock() {
    let (status, printed, logs, span) = run("debug");
    assert_eq!(status.code(), Some(3), "{printed}");
    let [panic, event] = &logs[..] else { panic!("{logs:?}") };
    assert_eq!((panic.str("body"), panic.str("severity_text")), ("in Debug", "FATAL"));
    assert_eq!(panic.bytes("span_id"), span);
    assert_eq!(event.str("body"), "said before");
}

#[test]
fn a_panic_that_aborts_is_written_before() {
    let (status, printed, logs, _) = run("abort");
    assert_eq!(status.signal(), Some(6), "{printed}");
    let bodies: Vec<&str> = logs.iter().map(|log| log.str("body")).collect();
    assert_eq!(bodies[..2], ["first", "while it unwinds"]);
}

#[test]
fn a_panic_without_a_text_is_written() {
    let (status, printed, logs, _) = run("any");
    assert_eq!(status.code(), Some(3), "{printed}");
    assert_eq!(logs[0].str("body"), "a panic whose payload is no text");
}
