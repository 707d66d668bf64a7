//! What a writer is told by its user.

use serde::Deserialize;
use std::path::PathBuf;

/// What to do where the file is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// Refuse.
    #[default]
    Refuse,
    /// Make a new one in its place. Who reads the old one goes on with that.
    Replace,
    /// If it is a recording, go on at its end. What a crash left half written there is cut off.
    Append,
}

/// What a recording is to be.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The file. A device is written to as it is; a pipe is refused.
    pub path: PathBuf,
    /// What to do if it is there.
    pub existing: Existing,
    /// Bytes that are collected before they are written, with one checksum: at most 1 MiB. What is
    /// collected is written before, too, whenever nothing more comes for now.
    pub block_bytes: u32,
    /// Mode bits of a new file, whatever the umask.
    pub mode: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            path: PathBuf::new(),
            existing: Existing::Refuse,
            block_bytes: 64 << 10,
            mode: 0o600,
        }
    }
}
