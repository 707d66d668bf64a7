//! Options of Parquet files.

use ::parquet::errors::ParquetError;
use perfring_events::{OutputError, Terms, delivery::draft::trouble, read_size};
use serde::Deserialize;
use std::io;
use std::path::PathBuf;

/// Options of a [`Parquet`](super::Parquet).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParquetOptions {
    /// The directory of the files.
    pub path: PathBuf,
    /// Whether existing Parquet files may be removed. Default no.
    #[serde(default)]
    pub overwrite: bool,
    /// Bytes of rows that may wait in memory, of all files together. Default 64 MiB.
    #[serde(default = "memory", deserialize_with = "read_size")]
    pub memory: usize,
    /// Rows after which a file is finished and the next one, `TYPE-2.parquet`, is started; 0 for
    /// never. Rows of an unfinished file are lost in a crash, and not delivered yet. Default 0.
    #[serde(default)]
    pub rows: u64,
    /// The unit of the column `time`: `ns`, or `us` for Spark. Default `ns`.
    #[serde(default)]
    pub timestamps: Timestamps,
    /// What it has in common with other outputs.
    #[serde(skip)]
    pub terms: Terms,
}

const fn memory() -> usize {
    64 << 20
}

impl ParquetOptions {
    /// Creates options with all defaults.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (overwrite, rows, timestamps) = (false, 0, Timestamps::Ns);
        let terms = Terms::default();
        ParquetOptions { path: path.into(), overwrite, memory: memory(), rows, timestamps, terms }
    }

    /// Converts an error, or the error of the file beneath it.
    pub(super) fn trouble(&self, output: &str, error: &ParquetError) -> OutputError {
        if let ParquetError::External(inner) = error
            && let Some(inner) = inner.downcast_ref::<io::Error>()
        {
            return trouble(output, "write in", &self.path, inner);
        }
        let path = self.path.display();
        OutputError::new(output, format!("cannot write in {path}: {error}"))
    }
}

/// The unit of the column `time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timestamps {
    /// Nanoseconds, as rings have them. Spark refuses such files.
    #[default]
    Ns,
    /// Microseconds, rounded down, for Spark and other readers without nanoseconds. The column `boottime` still has ns.
    Us,
}

impl Timestamps {
    /// Converts ns.
    pub(super) fn of_ns(self, ns: u64) -> u64 {
        match self {
            Timestamps::Ns => ns,
            Timestamps::Us => ns / 1000,
        }
    }
}
