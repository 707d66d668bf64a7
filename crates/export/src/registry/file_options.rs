//! Options of outputs that write one file after the other.

use super::has_terms::HasTerms;
use perfring_events::delivery::series::{free_path, series};
use perfring_files::{CtfOptions, PerfDataOptions, PerfettoOptions};
use perfring_recording::Existing;
use std::path::{Path, PathBuf};

/// Options of an output that writes one file after the other.
pub(super) trait FileOptions: HasTerms {
    fn path(&self) -> &Path;

    /// Returns the file that is written first: one that a process which was started again does not refuse.
    fn first(&self) -> PathBuf;

    /// Returns the same for another file.
    fn at(&self, path: PathBuf) -> Self;
}

macro_rules! file_options {
    ($($(#[$if:meta])* $options:path;)*) => {$(
        $(#[$if])*
        impl FileOptions for $options {
            fn path(&self) -> &Path {
                &self.path
            }

            fn first(&self) -> PathBuf {
                if self.overwrite { self.path.clone() } else { free_path(&self.path) }
            }

            fn at(&self, path: PathBuf) -> Self {
                Self { path, ..self.clone() }
            }
        }
    )*};
}

file_options! {
    PerfettoOptions;
    PerfDataOptions;
    CtfOptions;
    #[cfg(feature = "parquet")]
    perfring_files::ParquetOptions;
}

impl FileOptions for perfring_recording::Options {
    fn path(&self) -> &Path {
        &self.path
    }

    fn first(&self) -> PathBuf {
        match self.existing {
            Existing::Refuse => free_path(&self.path),
            Existing::Replace => self.path.clone(),
            Existing::Append => {
                let all = series(&self.path).unwrap_or_default(); // opening says why not
                all.last().unwrap_or(&self.path).clone()
            }
        }
    }

    fn at(&self, path: PathBuf) -> Self {
        Self { path, ..self.clone() }
    }
}
