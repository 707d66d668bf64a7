//! Two processes.

#[path = "../../examples/hello.rs"]
mod example;

use std::path::Path;
use std::process::Stdio;

const RING: &str = "PERFRING_TEST_HELLO";

/// Runs only as the child of the test below: the other process.
#[test]
fn reads_on_request() {
    let Ok(ring) = std::env::var(RING) else { return };
    println!();
    example::read(Path::new(&ring), &mut std::io::stdout()).unwrap();
}

#[test]
fn what_one_process_writes_the_other_prints() {
    let dir = tempfile::tempdir().unwrap();
    let ring = dir.path().join("hello");
    // Before the reader starts: it waits for a second between two records, and no longer.
    example::write(&ring, &b"world\nmoon\n"[..]).unwrap();
    let mut reader = super::again("hello::reads_on_request");
    let reader = reader.env(RING, &ring).stdout(Stdio::piped()).spawn().unwrap();
    let out = String::from_utf8(reader.wait_with_output().unwrap().stdout).unwrap();
    let lines: Vec<&str> = out.lines().filter(|line| line.contains("hello, ")).collect();
    assert_eq!(lines, ["hello, world", "hello, moon"], "{out}");
}
