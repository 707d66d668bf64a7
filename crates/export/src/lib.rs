//! Exports the records of many rings: each [`Output`] is an established format or protocol, in a
//! file of its own.
//!
//! The reader of the rings passes [`Event`]s to outputs: a record with its type, its time and its
//! origin, or a loss. An output takes an event, or returns that it is busy. It also returns which
//! of the events that it took are delivered, so that no record leaves its ring before.
//!
//! Outputs with large dependencies are features of this crate: `nats`, `otlp`, `parquet`,
//! `prometheus`, or `full` for all.
#![forbid(unsafe_code)]

mod buffer;
mod ctf;
#[cfg(any(feature = "nats", feature = "otlp"))]
mod dead_letters;
mod draft;
mod event;
#[cfg(any(feature = "nats", feature = "otlp"))]
mod jitter;
pub mod json;
mod mangle;
#[cfg(feature = "nats")]
pub mod nats;
mod null;
#[cfg(any(feature = "nats", feature = "otlp"))]
pub mod otlp;
mod output;
#[cfg(feature = "parquet")]
mod parquet;
mod perf_data;
mod perfetto;
#[cfg(feature = "prometheus")]
pub mod prometheus;
pub mod recording;
mod replace;
mod shapes;
pub mod signal;
mod timeline;
mod tries;

pub use buffer::{BufferOptions, Buffered};
pub use ctf::{Ctf, CtfOptions};
pub use event::{Event, Key, Loss, LossCause, Origin, Rec, Totals, What};
pub use null::Null;
pub use output::{Figures, Output, OutputError, Took};
#[cfg(feature = "parquet")]
pub use parquet::{Parquet, ParquetOptions};
pub use perf_data::{PerfData, PerfDataOptions};
pub use perfetto::{Perfetto, PerfettoOptions};
pub use replace::{free_path, numbered, rename, replace};
pub use shapes::Shapes;
