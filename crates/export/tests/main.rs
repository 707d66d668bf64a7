//! The tests of outputs, in one program: each by itself would be linked with all that outputs need.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod buffer;
mod common;
mod ctf;
mod feed;
mod full_disk;
mod grpc;
mod json;
mod nats;
mod numbered;
mod otlp;
mod otlp_json;
mod parquet;
mod perf_data;
mod perfetto;
mod prometheus;
mod recording;
mod retry;
mod rotation;
mod steps;
