//! Records at an OTLP receiver, and delivery without loss.
#![cfg(feature = "otlp")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod feed;
mod otlp {
    mod delivery;
    mod example;
    mod held;
    mod letters;
    mod mapping;
    mod rows;
    mod samples;
    pub(crate) mod server;
    mod spans;
}

use feed::{Feed, Numbers, until};
use otlp::server::{Got, Reply, Server};
use perfring_export::otlp::{Options, Otlp};

/// Short waits, so that tests are fast.
fn options(server: &Server) -> Options {
    Options {
        endpoint: Some(server.endpoint()),
        batch_delay_ms: 0,
        metric_interval_ms: 0,
        ..Options::default()
    }
}

fn open(server: &Server) -> Otlp {
    Otlp::open("otlp", &options(server)).unwrap()
}
