//! The example's ring, after each kind of crash of the example.

#[path = "../examples/crash.rs"]
mod example;

use crate::common::{all_rows, of};
use example::Death;
use perfring_tracing::{Sink, options};
use perfring_types::Class;
use std::collections::{HashMap, HashSet};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const DEATH: &str = "PERFRING_TEST_DEATH";
const RING: &str = "PERFRING_TEST_RING";
const SHAPE: &str = "PERFRING_TEST_SHAPE";

/// Runs only as the child of the test below: this very program, started again.
#[test]
fn dies_on_request() {
    let Ok(number) = std::env::var(DEATH) else { return };
    let death = match number.as_str() {
        "6" => Death::Abort,
        "9" => Death::Kill,
        _ => Death::Segfault,
    };
    let place = std::env::var(RING).unwrap();
    let sink = match std::env::var(SHAPE).as_deref() {
        Ok("cpus") => Sink::open(&place, &options(), example::resource()).unwrap(),
        _ => Sink::create(Path::new(&place), &options(), example::resource()).unwrap(),
    };
    example::run(sink, death).unwrap();
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn the_last_records_of_a_killed_program_are_in_the_ring() {
    let dir = tempfile::tempdir().unwrap();
    for (signal, shape) in [6, 9, 11].into_iter().flat_map(|n| [(n, "ring"), (n, "cpus")]) {
        let ring = dir.path().join(format!("{signal} {shape}"));
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::dies_on_request"])
            .env(DEATH, signal.to_string())
            .env(RING, &ring)
            .env(SHAPE, shape)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.signal(), Some(signal));

        let rows = all_rows(&ring);
        let minute = 60_000_000_000;
        assert!(rows.iter().all(|row| (now() - minute..=now()).contains(&row.wall.unwrap())));
        let resources = of(&rows, Class::Resource);
        let last = resources.last().unwrap();
        assert_eq!(last.str("service.name"), "shop");
        let logs = of(&rows, Class::Log);
        let word = logs.iter().find(|row| row.str("severity_text") == "ERROR").unwrap();
        assert_eq!(word.str("body"), "this is where it ends");
        assert_eq!(word.str("device"), "/dev/sdb");
        assert_eq!(word.get("process.pid"), last.get("process.pid"));
        let starts = of(&rows, Class::SpanStart);
        let shift = starts.iter().find(|row| row.bytes("span_id") == word.bytes("span_id"));
        assert_eq!(shift.unwrap().str("name"), "shift");
        let workers: HashSet<_> =
            starts.iter().filter(|row| row.has("worker")).map(|row| row.u64("worker")).collect();
        assert_eq!(workers.len(), 3);
        // The spans that were open have begun and not ended.
        let ended: HashSet<_> =
            of(&rows, Class::SpanEnd).iter().map(|row| row.bytes("span_id")).collect();
        assert!(!ended.contains(&word.bytes("span_id")) && !ended.is_empty());
        // Every id belongs to one span, and each parent and trace is that of a span which began.
        let spans: HashMap<_, _> = starts
            .iter()
            .filter(|row| row.has("name"))
            .map(|row| (row.bytes("span_id"), row.bytes("trace_id")))
            .collect();
        assert_eq!(spans.len(), starts.iter().filter(|row| row.has("name")).count());
        for row in starts.iter().chain(&logs).filter(|row| row.has("span_id")) {
            assert_eq!(spans[&row.bytes("span_id")], row.bytes("trace_id"));
            if row.has("parent_span_id") {
                assert_eq!(spans[&row.bytes("parent_span_id")], row.bytes("trace_id"));
            }
        }
        println!("signal {signal}, {shape}: {} records, {} spans ended", rows.len(), ended.len());
    }
}
