//! Outputs that write files.
//!
//! | | |
//! |---|---|
//! | [`json`] | an object a line for each record and each loss |
//! | [`Perfetto`] | a trace for <https://ui.perfetto.dev> |
//! | [`Ctf`] | a directory for babeltrace2 and Trace Compass, in CTF 1.8 or 2 |
//! | [`PerfData`] | a file for `perf script` |
//! | `Parquet` | a directory of tables, with the feature `parquet` |
//!
//! `perfring-recording` is a file too: the one that perfring reads back.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod ctf;
pub mod json;
#[cfg(feature = "parquet")]
mod parquet;
mod perf_data;
mod perfetto;

pub use ctf::{Ctf, CtfOptions, CtfVersion};
#[cfg(feature = "parquet")]
pub use parquet::{Parquet, ParquetOptions, Timestamps};
pub use perf_data::{PerfData, PerfDataOptions};
pub use perfetto::{Perfetto, PerfettoOptions};
