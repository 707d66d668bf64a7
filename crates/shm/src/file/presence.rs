//! Checking whether the file of a mapped ring was removed.

use crate::file::open::RingFile;
use std::sync::atomic::{AtomicBool, Ordering};

/// The known state of a mapped ring's file. A reader queries the file when it has nothing to read, because no
/// process wakes it for a removal.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    removed: AtomicBool,
}

impl Presence {
    /// Returns whether an earlier [`Presence::check`] found the file removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed) // says nothing of other memory
    }

    /// Asks the file system, unless it is known already. Once removed, a file stays so.
    pub(crate) fn check(&self, ring: &RingFile) -> bool {
        if !self.is_removed() && ring.is_removed() {
            self.removed.store(true, Ordering::Relaxed);
        }
        self.is_removed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::create::{RingOptions, create};
    use std::fs;

    #[test]
    fn a_ring_is_removed_once_its_name_is_removed_or_another_s() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("ring"), dir.path().join("other"));
        let make = || {
            create(&path, &RingOptions::default()).unwrap();
            (RingFile::inspect(&path).unwrap(), Presence::default())
        };
        let (ring, presence) = make();
        assert!(!presence.check(&ring), "it is there");
        fs::remove_file(&path).unwrap();
        assert!(!presence.is_removed(), "nobody has checked");
        assert!(presence.check(&ring) && presence.is_removed(), "removed");

        let (ring, presence) = make();
        fs::rename(&path, &other).unwrap();
        assert!(!presence.check(&ring), "moved, and nothing has its name");
        create(&path, &RingOptions::default()).unwrap();
        assert!(presence.check(&ring), "another has its name");
        fs::remove_file(&path).unwrap();
        assert!(presence.check(&ring), "it stays so");

        let (ring, presence) = make();
        fs::rename(&other, &path).unwrap();
        assert!(presence.check(&ring), "replaced by a rename");
    }
}
