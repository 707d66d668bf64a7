//! Files in the directories of the inputs that are not read.

use crate::log::Say;
use perfring_set::NoRing;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Files that are no rings, of which each is reported.
const OTHERS: usize = 5;

pub(super) const RAISE_NOFILE: &str =
    "raise that limit (LimitNOFILE of a systemd unit, `ulimit -n`)";

/// Files of directories that are not read: a message for each of the first, and a count.
#[derive(Default)]
pub(super) struct Others {
    /// How many of them are no rings.
    no_rings: usize,
    /// Files that may be rings: there was no descriptor left to open them.
    unopened: HashSet<PathBuf>,
}

impl Others {
    pub(super) fn report(&mut self, other: &NoRing, say: &mut Say<'_>) {
        let path = other.path.display();
        if other.is_shortage {
            if self.unopened.is_empty() {
                say.warn(&format!(
                    "{path} cannot be opened, and more may not: {}; {RAISE_NOFILE}",
                    other.why
                ));
            }
            self.unopened.insert(other.path.clone());
            return;
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

    /// Notes that a file was opened, or is gone.
    pub(super) fn opened(&mut self, path: &Path) {
        self.unopened.remove(path);
    }

    /// Returns how many files could not be opened for want of a descriptor.
    pub(super) fn unopened(&self) -> usize {
        self.unopened.len()
    }
}
