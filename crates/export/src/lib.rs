//! Records of many rings, handed on: each [`Output`] is a format or an engine that people use
//! already, in a file of its own.
//!
//! Whoever reads rings tells outputs what it reads as [`Event`]s: a record with its type, its time
//! and where it comes from, or a loss. An output takes an event, or says that it is busy; and says
//! which of those that it took are delivered, so that nothing leaves its ring before.
//!
//! Heavy outputs stand behind features of this crate: `nats`, `otlp`, `parquet`, `prometheus`, or
//! `full` for all.
#![forbid(unsafe_code)]

mod ctf;
mod draft;
mod event;
pub mod json;
mod mangle;
#[cfg(feature = "nats")]
pub mod nats;
mod null;
#[cfg(feature = "otlp")]
pub mod otlp;
mod output;
#[cfg(feature = "parquet")]
mod parquet;
mod perf_data;
mod perfetto;
#[cfg(feature = "prometheus")]
pub mod prometheus;
pub mod recording;
mod shapes;
pub mod signal;
mod timeline;

pub use ctf::{Ctf, CtfOptions};
pub use event::{Event, Key, Loss, LossCause, Origin, Rec, Totals, What};
pub use null::Null;
pub use output::{Figures, Output, OutputError, Took};
#[cfg(feature = "parquet")]
pub use parquet::{Parquet, ParquetOptions};
pub use perf_data::{PerfData, PerfDataOptions};
pub use perfetto::{Perfetto, PerfettoOptions};
pub use shapes::Shapes;
