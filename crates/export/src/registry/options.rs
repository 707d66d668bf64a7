//! What the options of outputs have in common. Each output's options are in one of the three lists.

use perfring_events::Terms;
use perfring_events::delivery::series::{free_path, series};
use perfring_files::{CtfOptions, PerfDataOptions, PerfettoOptions};
use perfring_recording::Existing;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// No options.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Options of an output.
pub(super) trait HasTerms: Clone {
    /// Returns the same with these terms, if it has terms.
    fn with(&self, terms: Terms) -> Self;
}

/// Options of an output that writes one file after the other.
pub(super) trait FileOptions: HasTerms {
    fn path(&self) -> &Path;

    /// Returns the file that is written first: one that a process which was started again does not refuse.
    fn first(&self) -> PathBuf;

    /// Returns the same for another file.
    fn at(&self, path: PathBuf) -> Self;
}

macro_rules! have_terms {
    ($($(#[$if:meta])* $options:path;)*) => {$(
        $(#[$if])*
        impl HasTerms for $options {
            fn with(&self, terms: Terms) -> Self {
                Self { terms, ..self.clone() }
            }
        }
    )*};
}

macro_rules! have_no_terms {
    ($($(#[$if:meta])* $options:path;)*) => {$(
        $(#[$if])*
        impl HasTerms for $options {
            fn with(&self, _: Terms) -> Self {
                self.clone()
            }
        }
    )*};
}

macro_rules! write_files {
    ($($(#[$if:meta])* $options:path;)*) => {$(
        $(#[$if])*
        have_terms! { $options; }

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

write_files! {
    PerfettoOptions;
    PerfDataOptions;
    CtfOptions;
    #[cfg(feature = "parquet")]
    perfring_files::ParquetOptions;
}

have_terms! {
    perfring_files::json::Options;
    perfring_recording::Options;
    #[cfg(feature = "otlp")]
    perfring_otlp::FileOptions;
    #[cfg(feature = "otlp")]
    perfring_otlp::Options;
    #[cfg(feature = "nats")]
    perfring_nats::Options;
}

have_no_terms! {
    Nothing;
    #[cfg(feature = "prometheus")]
    perfring_prometheus::Options;
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
