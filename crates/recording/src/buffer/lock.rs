//! The lock of a buffer's directory.

use crate::machine::boot;
use perfring_events::FileMode;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use uuid::Uuid;

/// Locks the directory, and notes this boot of the machine in it. Returns whether another boot was noted before.
pub(super) fn lock(dir: &Path) -> Result<(File, bool), TryLockError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let file = FileMode::PRIVATE.open(&options, &dir.join("lock"));
    let mut file = file.map_err(TryLockError::Error)?;
    file.try_lock()?;
    let mut last = String::new();
    let _ = file.read_to_string(&mut last); // without it, no other boot is known
    let now = Uuid::from_bytes(boot()).to_string();
    if last != now {
        let _ = note(&mut file, &now); // a disk without room is no reason not to start
    }
    Ok((file, !last.is_empty() && last != now))
}

fn note(file: &mut File, boot: &str) -> io::Result<()> {
    file.rewind()?;
    file.write_all(boot.as_bytes())
}
