//! The example: what it prints, and what is left of it after `kill -9`.

#[path = "../../examples/flight_recorder.rs"]
mod example;

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::path::Path;
use std::process::Stdio;

const DIR: &str = "PERFRING_TEST_FLIGHT_RECORDER";

/// Runs only as the child of the test below: this very program, started again.
#[test]
fn writes_on_request() {
    let Ok(dir) = std::env::var(DIR) else { return };
    println!();
    example::write(Path::new(&dir), stdin().lock(), &mut stdout()).unwrap();
}

#[test]
fn both_rings_are_read_in_the_order_of_time_and_the_last_ten_events_after_a_kill() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shop");
    let mut writer = super::again("flight_recorder::writes_on_request")
        .env(DIR, &dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut order = |id: u64| {
        writeln!(input).unwrap();
        let id = id.to_string();
        assert!(lines.any(|line| line.unwrap() == id));
    };
    (1..=9).for_each(&mut order);
    let mut out = Vec::new();
    example::read(&dir, &mut out).unwrap();
    let expected = "events: shop.Order id=1 price=250 ct\n\
                    events: shop.Order id=2 price=500 ct\n\
                    events: shop.Order id=3 price=750 ct\n\
                    events: shop.Order id=4 price=1000 ct\n\
                    metrics: shop.Queue depth=1\n\
                    events: shop.Order id=5 price=1250 ct\n\
                    events: shop.Order id=6 price=1500 ct\n\
                    events: shop.Order id=7 price=1750 ct\n\
                    events: shop.Order id=8 price=2000 ct\n\
                    metrics: shop.Queue depth=2\n\
                    events: shop.Order id=9 price=2250 ct\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    (10..=5000).for_each(&mut order); // more than the recorder holds
    writer.kill().unwrap();
    writer.wait().unwrap();
    let mut out = Vec::new();
    example::last(&dir, &mut out).unwrap();
    let expected: String =
        (4991..=5000).map(|id| format!("order {id}: {} ct\n", 250 * id)).collect();
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
