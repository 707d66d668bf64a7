//! Exports the records of many rings: each [`Output`] is an established format or protocol.
//!
//! The reader of the rings passes [`Event`]s to outputs: a record with its type, its time and its
//! origin, or a loss. An output takes an event, or returns that it is busy. It also returns which
//! of the events that it took are delivered, so that no record leaves its ring before.
//!
//! Outputs with large dependencies are features of this crate: `nats`, `otlp`, `parquet`,
//! `prometheus`; so is the compression of files, `zstd`. `full` has all.
//!
//! # Where things are
//!
//! | | |
//! |---|---|
//! | `model/` | what is exported: events, the types of rings, time, OpenTelemetry's signals |
//! | `delivery/` | [`Output`] itself, and what outputs share: attempts, files, buffers, dead letters |
//! | `files/` | outputs that write files |
//! | `engines/` | outputs that serve or send, and the one that does neither |
//! | [`registry`] | all outputs by name |
//!
//! An output is added with a module in `files/` or `engines/` that implements [`Output`] and has
//! options for serde, and an entry in [`registry`]: from there the sidecar's configuration and
//! `perfring export` know it.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod buffer;
mod delivery;
mod engines;
mod files;
mod model;
pub mod registry;

pub use buffer::{BufferOptions, Buffered};
pub use delivery::checks::{
    check_address, check_directories, check_directory, check_file, check_socket,
};
pub use delivery::compress::Compression;
pub use delivery::dead_letter_file::DeadLetterFile;
pub use delivery::output::{Figures, InBuffer, Output, OutputError, Own, Took};
pub use delivery::replace::{rename, replace};
pub use delivery::series::{Pruned, Rotation};
pub use delivery::stream::Stream;
pub use delivery::terms::{FileMode, Terms};
pub use delivery::write_error::WriteError;
#[cfg(feature = "nats")]
pub use engines::nats;
pub use engines::null::Null;
#[cfg(any(feature = "nats", feature = "otlp"))]
pub use engines::otlp;
#[cfg(feature = "prometheus")]
pub use engines::prometheus;
pub use files::ctf::{Ctf, CtfOptions};
#[cfg(feature = "parquet")]
pub use files::parquet::{Parquet, ParquetOptions, Timestamps};
pub use files::perf_data::{PerfData, PerfDataOptions};
pub use files::perfetto::{Perfetto, PerfettoOptions};
pub use files::{json, recording};
pub use model::duration::{later, read_duration, read_size, read_some_duration};
pub use model::event::{Event, Key, Loss, LossCause, Origin, Rec, Totals, What, sum_of};
pub use model::figures;
pub use model::rule_name::RuleName;
pub use model::shapes::Shapes;
pub use model::signal;
pub use perfring_context::Birth;
