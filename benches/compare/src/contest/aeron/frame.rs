//! Names, frames, and how subscribers signal that they are attached.

use std::path::{Path, PathBuf};

pub(super) const NAME: &str = "aeron";
/// A data frame's header.
pub(super) const HEADER: usize = 32;
/// Frames begin at multiples of this.
const ALIGN: usize = 32;
/// The longest frame that its driver allows, so that no record is split.
pub(super) const MTU: usize = 65_504;
pub(super) const STREAM: i32 = 1001;

/// The bytes that a frame uses of a term.
pub(super) const fn frame(payload: usize) -> usize {
    (payload + HEADER).next_multiple_of(ALIGN)
}

/// The file with which receiver `index` signals that it has subscribed: a later subscriber misses
/// what was sent.
pub(super) fn subscribed(path: &Path, index: usize) -> PathBuf {
    path.with_extension(format!("subscribed-{index}"))
}
