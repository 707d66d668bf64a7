//! The example's ring, after each kind of crash of the example.

#[path = "../examples/crash.rs"]
mod example;

use crate::common::{all_rows, of};
use example::Death;
use perfring_types::Class;
use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const DEATH: &str = "PERFRING_TEST_DEATH";
const RING: &str = "PERFRING_TEST_RING";

/// Runs only as the child of the test below: this very program, started again.
#[test]
fn dies_on_request() {
    let Ok(number) = std::env::var(DEATH) else { return };
    let death = match number.as_str() {
        "6" => Death::Abort,
        "9" => Death::Kill,
        _ => Death::Segfault,
    };
    let ring = std::env::var(RING).unwrap();
    example::run(Path::new(&ring), death).unwrap();
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn the_last_records_of_a_killed_program_are_in_the_ring() {
    let dir = tempfile::tempdir().unwrap();
    for signal in [6, 9, 11] {
        let ring = dir.path().join(signal.to_string());
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::dies_on_request"])
            .env(DEATH, signal.to_string())
            .env(RING, &ring)
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
        println!("signal {signal}: {} records, {} spans ended", rows.len(), ended.len());
    }
}
