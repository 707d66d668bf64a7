//! Each example: what it prints. `python` is run by the tests of the Python package.
#![allow(unreachable_pub, missing_docs, reason = "each example is a program")]

mod flight_recorder;
mod from_c;
mod hello;
mod metrics;
mod per_cpu;
mod tokio_forwarder;
mod tracing_many;

use std::process::Command;

/// This very program again, for one test of it that is the other process.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("examples::{test}"), "--nocapture"]);
    command
}
