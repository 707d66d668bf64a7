//! The NATS output against a real `nats-server`, which the tests start, stop, kill and start again.
#![allow(clippy::unwrap_used, clippy::panic)]

mod deaths;
#[path = "../feed/mod.rs"]
mod emitted;
mod feed;
mod messages;
mod otlp;
mod read_back;
mod troubles;
