//! Counts files that are damaged or truncated rings.

use crate::engine::Engine;
use perfring_abi::BadRing;
use perfring_consumer::AttachError;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The limit of paths that are remembered.
const NAMES_MAX: usize = 65_536;

/// Paths of damaged rings, so that each is counted once.
#[derive(Default)]
pub(crate) struct Damaged {
    /// Paths without a ring now: the ring that was there, or `None` once the file was counted as
    /// damaged.
    names: HashMap<PathBuf, Option<[u8; 16]>>,
}

/// Returns whether a ring is damaged or truncated, and not just one of another kind.
pub(crate) fn is_damage(error: &AttachError) -> bool {
    match error {
        AttachError::Bad { source, .. } => {
            matches!(source, BadRing::Field { .. } | BadRing::Truncated { .. })
        }
        AttachError::Corrupt { .. } | AttachError::Truncated { .. } => true,
        _ => false,
    }
}

impl Damaged {
    /// Notes a path that has no ring any more. If the ring was truncated, the engine may find that,
    /// too.
    pub(crate) fn left(&mut self, path: PathBuf, uuid: [u8; 16]) {
        self.remember(path, Some(uuid));
    }

    /// Notes a path with a damaged ring.
    pub(crate) fn found(&mut self, path: &Path, engine: &mut Engine) {
        match self.remember(path.to_owned(), None) {
            Some(None) => {}
            Some(uuid) => engine.count_damaged(uuid),
            None => engine.count_damaged(None),
        }
    }

    /// Notes a path with an intact ring.
    pub(crate) fn is_ring(&mut self, path: &Path) {
        self.names.remove(path);
    }

    fn remember(&mut self, path: PathBuf, uuid: Option<[u8; 16]>) -> Option<Option<[u8; 16]>> {
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        self.names.insert(path, uuid)
    }
}
