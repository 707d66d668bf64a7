//! Exports the records of many rings: each [`Output`] is an established format or protocol.
//!
//! This crate lists all outputs by name, in [`registry`]. It re-exports the rest:
//!
//! | | |
//! |---|---|
//! | `perfring-events` | what is exported, the interface of outputs, and what outputs share |
//! | `perfring-recording` | the format of recordings, and the [buffer](Buffered) on disk that is made of them |
//! | `perfring-files` | outputs that write files |
//! | `perfring-otlp`, `perfring-nats`, `perfring-prometheus` | outputs that send or serve, one each |
//!
//! Outputs with large dependencies are features of this crate: `nats`, `otlp`, `parquet`,
//! `prometheus`; so is the compression of files, `zstd`. `full` has all.
//!
//! An output is added with a module or a crate that implements [`Output`] and has options that
//! serde can read, and an entry in [`registry`]: from there the sidecar's configuration and `perfring export`
//! know it.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod registry;

pub use perfring_events::{
    Birth, Compression, DeadLetterFile, Event, Explanation, Figures, FileMode, InBuffer, Key, Loss,
    LossCause, Null, Origin, Output, OutputError, Own, Pruned, Rec, Rotation, RuleName, Shapes,
    Stream, Terms, Took, Totals, What, WriteError, check_address, check_directories,
    check_directory, check_file, check_socket, delivery::series::series, event::ring_bytes,
    figures, later, moment, read_duration, read_size, read_some_duration, rename, replace, sampled,
    signal, sum_of, utc, utc_micros,
};
pub use perfring_files::{
    Ctf, CtfOptions, CtfVersion, PerfData, PerfDataOptions, Perfetto, PerfettoOptions, json,
};
#[cfg(feature = "parquet")]
pub use perfring_files::{Parquet, ParquetOptions, Timestamps};
#[cfg(feature = "nats")]
pub use perfring_nats as nats;
#[cfg(any(feature = "nats", feature = "otlp"))]
pub use perfring_otlp as otlp;
#[cfg(feature = "prometheus")]
pub use perfring_prometheus as prometheus;
pub use perfring_recording as recording;
pub use perfring_recording::{BufferOptions, Buffered};
