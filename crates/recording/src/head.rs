//! The beginning of a recording.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The first bytes of every recording.
pub(super) const MAGIC: [u8; 8] = *b"perfrec\n";
/// The version of a recording, and of the oldest reader that can read it.
pub(super) const PLAIN: u32 = 1;
/// The same of one that may have compressed blocks, and the newest that this program reads.
pub(super) const COMPRESSED: u32 = 2;
/// Returns the first bytes of a file.
pub(super) fn head(compressed: bool) -> [u8; HEAD] {
    let version = if compressed { COMPRESSED } else { PLAIN };
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&version.to_le_bytes());
    head[12..].copy_from_slice(&version.to_le_bytes());
    head
}

/// Bytes before the first block: magic, version, lowest compatible version.
pub(super) const HEAD: usize = 16;

/// Returns whether this file is a recording, by its first bytes.
#[must_use]
pub fn is_recording(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    // Reading from a pipe would lose the bytes.
    path.metadata().is_ok_and(|meta| meta.is_file())
        && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == MAGIC
}
