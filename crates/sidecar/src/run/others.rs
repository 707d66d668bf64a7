//! Files in the directories of the inputs that are not read.

use crate::limits::RAISE_NOFILE;
use crate::log::Say;
use perfring_set::NoRing;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Files that are no rings, of which each is reported.
const OTHERS: usize = 5;

/// Files of directories that are not read: a message for each of the first, and a count.
#[derive(Default)]
pub(super) struct Others {
    /// How many of them are no rings.
    no_rings: usize,
    /// Rings, and files that may be rings, for which there was no descriptor or no mapping left.
    unopened: HashSet<PathBuf>,
    /// The limit that the last one of them met.
    why: String,
}

impl Others {
    pub(super) fn report(&mut self, other: &NoRing, say: &mut Say<'_>) {
        let path = other.path.display();
        if other.is_shortage {
            let why = format!("{}; {RAISE_NOFILE}", other.why);
            return self.short(other.path.clone(), &why, say);
        }
        self.no_rings += 1;
        match self.no_rings {
            ..=OTHERS => say.warn(&format!("{path} is not read: {}", other.why)),
            nth if nth == OTHERS + 1 => {
                say.warn("more files are no rings, and are not named here: `perfring ls DIR` counts them");
            }
            _ => {}
        }
    }

    /// Notes a ring, or a file that may be one, that is not read because of a limit. Reports the first.
    pub(super) fn short(&mut self, path: PathBuf, why: &str, say: &mut Say<'_>) {
        if self.unopened.is_empty() {
            let path = path.display();
            say.warn(&format!("{path} is not read, and more rings may not be: {why}; retrying"));
        }
        why.clone_into(&mut self.why);
        self.unopened.insert(path);
    }

    /// Notes a file that was opened, or is gone.
    pub(super) fn opened(&mut self, path: &Path) {
        self.unopened.remove(path);
    }

    /// Notes that the files below this path are not read any more.
    pub(super) fn left(&mut self, dir: &Path) {
        self.unopened.retain(|path| !path.starts_with(dir));
    }

    /// Returns whether a limit is why a file is not read.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.unopened.contains(path)
    }

    /// Returns how many files are not read because of a limit, and that limit.
    pub(super) fn unopened(&self) -> (usize, &str) {
        (self.unopened.len(), &self.why)
    }
}
