//! Pauses that are ended from outside: those of files are in `full_disk`.
#![cfg(feature = "nats")]

use perfring_export::nats::{Nats, Options};
use perfring_export::{BufferOptions, Buffered, Output, Terms};
use perfring_testkit::wait::until;
use std::time::Duration;

#[test]
fn a_server_that_is_away_is_tried_again_at_once_also_behind_a_buffer() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing listens on port 1.
    let servers = vec!["nats://127.0.0.1:1".to_owned()];
    let terms = Terms { max_backoff: Duration::from_secs(3600), ..Terms::default() };
    let nats = Nats::open("out", &Options { servers, terms, ..Options::default() }).unwrap();
    let options = BufferOptions { path: dir.path().join("buffer"), max_bytes: 1 << 20 };
    let mut output = Buffered::open("out", &options, Box::new(nats)).unwrap();
    // Without an end from outside, these pauses would take an hour.
    for n in 1..=16 {
        until("it waits, and tries again", || output.retry());
        until("it has tried", || output.figures().retries > n);
    }
}
