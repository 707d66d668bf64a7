//! What the output is told by its user.

use serde::Deserialize;
use std::path::PathBuf;

/// Where lines go, and how.
///
/// ```
/// use perfring_export::json::Options;
/// let options = Options { path: "events.jsonl".into(), ..Options::default() };
/// assert_eq!((options.keep, options.sync), (10, false));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The file that is written to, or `-` for stdout.
    pub path: PathBuf,
    /// Bytes after which a file is finished and another begun; 0 for never. A file is as long as
    /// the line takes that goes beyond.
    pub max_bytes: u64,
    /// Seconds after which a file that holds something is finished; 0 for never.
    pub max_age_seconds: u64,
    /// How many finished files are kept, the newest; 0 for all. They are called as the file is,
    /// with a number before the ending: `events.000017.jsonl`.
    pub keep: usize,
    /// Whether lines count as delivered only once they are on the disk, and not as soon as the
    /// kernel has them. Without it they survive the death of any process, but not of the machine.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { path: "-".into(), max_bytes: 0, max_age_seconds: 0, keep: 10, sync: false }
    }
}
