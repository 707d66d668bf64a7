//! The NATS output against a real `nats-server`, which the tests start, stop, kill and start again.
#![cfg(feature = "nats")]

mod deaths;
mod feed;
mod messages;
mod otlp;
mod read_back;
mod troubles;
