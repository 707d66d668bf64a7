//! The directory of a sample, and files that a library left behind in a killed process.

use crate::error::Result;
use std::path::Path;

/// The directory of shared memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// The prefix of the directories' names.
const PREFIX: &str = "perfring-bench-";

/// Creates a directory of files in memory, which exists until it is dropped.
pub fn memory_dir() -> Result<tempfile::TempDir> {
    // In memory, where there is such a file system: the disk is not to be measured.
    let memory = Path::new(SHARED_MEMORY);
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        builder
    };
    Ok(builder().tempdir_in(memory).or_else(|_| builder().tempdir())?)
}

/// Removes the shared memory whose name begins with the name of this directory of [`memory_dir`].
/// Contestants name whatever is not in the directory so.
pub fn sweep(dir: &Path) {
    sweep_in(Path::new(SHARED_MEMORY), dir);
}

fn sweep_in(memory: &Path, dir: &Path) {
    let Some(name) = dir.file_name().and_then(|name| name.to_str()) else { return };
    // Never a name of another program, whatever the caller passes.
    if name.len() <= PREFIX.len() || !name.starts_with(PREFIX) {
        return;
    }
    for entry in std::fs::read_dir(memory).into_iter().flatten().flatten() {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && entry.file_name().to_str().is_some_and(|other| other.starts_with(name)) {
            // Its owner may remove it at the same time.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_after_a_sample_goes_and_nothing_else() {
        let memory = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = memory.path().join(name);
            std::fs::write(&path, []).unwrap();
            path
        };
        let (ours, others) = (file("perfring-bench-aB3_node"), file("perfring-bench-xY7_node"));
        let foreign = file("iox2_node");
        let dir = memory.path().join("perfring-bench-aB3");
        std::fs::create_dir(&dir).unwrap();
        sweep_in(memory.path(), &dir);
        assert!(!ours.exists() && others.exists() && foreign.exists() && dir.exists());
        // A directory of another name belongs to no sample.
        for other in ["iox2_", "perfring-bench-"] {
            sweep_in(memory.path(), &memory.path().join(other));
        }
        assert!(others.exists() && foreign.exists());
    }
}
