//! Outputs that write files.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod ctf;
pub mod json;
#[cfg(feature = "parquet")]
mod parquet;
mod perf_data;
mod perfetto;

pub use ctf::{Ctf, CtfOptions};
#[cfg(feature = "parquet")]
pub use parquet::{Parquet, ParquetOptions, Timestamps};
pub use perf_data::{PerfData, PerfDataOptions};
pub use perfetto::{Perfetto, PerfettoOptions};
