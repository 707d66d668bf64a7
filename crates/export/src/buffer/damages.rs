//! What is said of files that are damaged.

use crate::files::recording::ReadError;
use std::path::{Path, PathBuf};

/// The ending of a file that is damaged: it is kept.
pub(super) const DAMAGED: &str = "damaged";
/// The limit of such files that are named: the newest.
const NAMED: usize = 8;

/// Returns the path at which a damaged file is kept.
pub(super) fn kept(path: &Path) -> PathBuf {
    path.with_extension(DAMAGED)
}

/// The numbers of such files, and what is said of each.
#[derive(Default)]
pub(super) struct Damages(Vec<(u64, String)>);

impl Damages {
    /// Notes a file that is read over damage, and will be kept.
    pub(super) fn read(&mut self, number: u64, path: &Path, what: &str, is_unknown: bool) {
        let lost = match is_unknown {
            true => "how much of it is lost is not known",
            false => "what is lost of it is reported as lost",
        };
        let (kept, path) = (kept(path), path.display());
        let kept = kept.display();
        self.note(number, format!("its buffer: {path} {what}; {lost}, and it is kept as {kept}"));
    }

    /// Notes a file of which nothing can be read, and that is kept here.
    pub(super) fn set_aside(&mut self, number: u64, error: &ReadError, kept: &Path) {
        let kept = kept.display();
        let left = "and what could not be read of it is not delivered";
        self.note(number, format!("its buffer: {error}; the file is kept as {kept}, {left}"));
    }

    fn note(&mut self, number: u64, said: String) {
        self.0.retain(|(other, _)| *other != number);
        self.0.push((number, said));
        self.0.drain(..self.0.len().saturating_sub(NAMED));
    }

    /// Returns the sentences.
    pub(super) fn said(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(_, said)| said.clone())
    }
}
