//! Outputs that write files.

pub(crate) mod ctf;
pub mod json;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod perf_data;
pub(crate) mod perfetto;
pub mod recording;
