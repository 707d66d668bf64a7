//! Records at an OTLP receiver, and delivery without loss.
#![cfg(feature = "otlp")]

mod delivery;
mod example;
mod held;
mod letters;
mod mapping;
mod rows;
mod samples;
mod spans;

use crate::feed::{ANSWER, Feed, Numbers, delivers, emit, reports};
use perfring_export::otlp::{Mapping, Options, Otlp};
use perfring_testkit::wait::{deadline, until};
use perfring_testrig::otlp::{Got, Reply, Server};
use std::time::Duration;

/// Batches and samples do not wait. Answers and the ends of spans have the time that a busy machine needs.
fn options(server: &Server) -> Options {
    Options {
        endpoint: Some(server.endpoint()),
        timeout: Some(ANSWER),
        mapping: Mapping {
            batch_delay: Duration::ZERO,
            metric_interval: Duration::ZERO,
            span_wait: Duration::from_secs(3600),
            ..Mapping::default()
        },
        ..Options::default()
    }
}

/// The same with other ways to make items of records.
fn mapped(server: &Server, set: impl FnOnce(&mut Mapping)) -> Options {
    let mut options = options(server);
    set(&mut options.mapping);
    options
}

fn open(server: &Server) -> Otlp {
    Otlp::open("otlp", &options(server)).unwrap()
}
