//! Which rings are damaged, or cut short.

use crate::engine::Engine;
use perfring_abi::BadRing;
use perfring_consumer::AttachError;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// As many damaged rings are remembered.
const ASIDE_MAX: usize = 65_536;

/// Damaged rings: they are not read again, and each counts once.
#[derive(Default)]
pub(crate) struct Damaged {
    aside: HashSet<[u8; 16]>,
    /// What has no ring now: the one that it had, or `None` once it is counted for what it is.
    names: HashMap<PathBuf, Option<[u8; 16]>>,
}

/// Whether a ring is damaged, or cut short, and not one of another kind.
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
    /// It is not read again, while it is the same.
    pub(crate) fn set_aside(&mut self, uuid: [u8; 16]) {
        if self.aside.len() < ASIDE_MAX {
            self.aside.insert(uuid);
        }
    }

    pub(crate) fn is_aside(&self, uuid: &[u8; 16]) -> bool {
        self.aside.contains(uuid)
    }

    /// A ring that cannot be attached to.
    pub(crate) fn never(&mut self, uuid: [u8; 16], damage: bool, engine: &mut Engine) {
        self.set_aside(uuid);
        if damage {
            engine.count_damaged(Some(uuid));
        }
    }

    /// A name that has no ring any more. If it is one that was cut, the engine may find that, too.
    pub(crate) fn left(&mut self, path: PathBuf, uuid: [u8; 16]) {
        self.remember(path, Some(uuid));
    }

    /// A name that has a damaged one.
    pub(crate) fn found(&mut self, path: &Path, engine: &mut Engine) {
        match self.remember(path.to_owned(), None) {
            Some(None) => {}
            Some(uuid) => engine.count_damaged(uuid),
            None => engine.count_damaged(None),
        }
    }

    /// A name that has a ring that is none of these.
    pub(crate) fn is_ring(&mut self, path: &Path) {
        self.names.remove(path);
    }

    fn remember(&mut self, path: PathBuf, uuid: Option<[u8; 16]>) -> Option<Option<[u8; 16]>> {
        if self.names.len() >= ASIDE_MAX {
            self.names.clear();
        }
        self.names.insert(path, uuid)
    }
}
