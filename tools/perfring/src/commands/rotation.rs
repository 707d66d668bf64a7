//! The options of `perfring record` that begin the next file.

use crate::args;
use perfring_export::Rotation;
use std::time::Duration;

/// When the next file is begun.
#[derive(Debug, clap::Args)]
pub(super) struct RotationArgs {
    /// Finish the file at this size, and begin the next one: run.000002.perfrec and so on
    #[arg(long, value_name = "BYTES", value_parser = args::parse_size, conflicts_with = "force")]
    max_bytes: Option<u64>,
    /// Finish the file this long after its first record, and begin the next one; 0 sets no such limit
    #[arg(long, value_name = "TIME", value_parser = args::parse_duration, conflicts_with = "force")]
    max_age: Option<Duration>,
    /// Remove the oldest of more than N finished files
    #[arg(long, value_name = "N", conflicts_with = "force")]
    keep: Option<usize>,
    /// Remove the oldest finished files before all of them together are larger. Without --max-bytes a
    /// file is finished at an eighth of that
    #[arg(long, value_name = "BYTES", value_parser = args::parse_size, conflicts_with = "force")]
    keep_bytes: Option<u64>,
}

impl RotationArgs {
    pub(super) fn rotation(&self) -> Rotation {
        Rotation {
            max_bytes: self.max_bytes.unwrap_or_default(),
            max_age: self.max_age.unwrap_or_default(),
            keep: self.keep.unwrap_or_default(),
            keep_bytes: self.keep_bytes.unwrap_or_default(),
        }
    }
}
