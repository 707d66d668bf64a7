//! The beginning of a recording.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The first bytes of every recording.
pub(super) const MAGIC: [u8; 8] = *b"perfrec\n";
/// The version that this program writes.
pub(super) const VERSION: u32 = 1;
/// The oldest reader that can read it.
pub(super) const COMPATIBLE: u32 = 1;
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
