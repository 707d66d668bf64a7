//! The example: what eight processes log is read in the order of time, the panic among it.

#[path = "../../examples/tracing_many.rs"]
mod example;

use std::path::Path;
use std::process::Stdio;

const DIR: &str = "PERFRING_TEST_TRACING_MANY";
const NUMBER: &str = "PERFRING_TEST_NUMBER";

/// Runs only as a child of the test below: this very program, started again.
#[test]
fn works_on_request() {
    let Ok(dir) = std::env::var(DIR) else { return };
    example::work(Path::new(&dir), std::env::var(NUMBER).unwrap().parse().unwrap()).unwrap();
}

#[test]
fn eight_processes_are_read_in_the_order_of_time_with_the_panic_of_one() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shop");
    let command = |number: u64| {
        let mut command = super::again("tracing_many::works_on_request");
        command
            .env(DIR, &dir)
            .env(NUMBER, number.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let mut out = Vec::new();
    example::run(&dir, command, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<(&str, &str)> = out.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert!(lines.is_sorted_by_key(|(time, _)| *time), "{out}");
    for number in 1..=8 {
        let prefix = format!("worker-{number} ");
        let said = lines.iter().filter_map(|(_, line)| line.strip_prefix(&prefix));
        let expected: &[&str] = match number {
            5 => &[
                "INFO taken",
                "INFO paid",
                "INFO taken",
                "FATAL \"the oven of worker 5 is on fire\"",
            ],
            _ => &["INFO taken", "INFO paid", "INFO taken", "INFO paid", "INFO taken", "INFO paid"],
        };
        assert_eq!(said.collect::<Vec<_>>(), expected, "{out}");
    }
    assert_eq!(lines.len(), 7 * 6 + 4);
}
