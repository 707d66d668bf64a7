//! What is said of files that are damaged.

use crate::error::ReadError;
use std::path::{Path, PathBuf};

/// The ending of a file that is damaged: it is kept.
pub(super) const DAMAGED: &str = "damaged";
/// The limit of such files that are named: the newest.
const NAMED: usize = 8;

/// Returns the path at which a damaged file is kept.
pub(super) fn kept(path: &Path) -> PathBuf {
    path.with_extension(DAMAGED)
}

/// Why a file that has no end may lack something. A process that is killed leaves one, too: that file lacks nothing.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoEnd {
    /// It has fewer events than were delivered of it.
    Shorter { events: u64, delivered: u64 },
    /// It was written in another boot of the machine, which may have crashed.
    OtherBoot,
}

/// The numbers of such files, and what is said of each: of its contents, and of its end.
#[derive(Default)]
pub(super) struct Damages(Vec<((u64, Part), String)>);

/// What of a file a sentence is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Contents,
    End,
}

impl Damages {
    /// Notes a file that is read over damage, and will be kept.
    pub(super) fn read(&mut self, number: u64, path: &Path, what: &str, is_unknown: bool) {
        let lost = match is_unknown {
            true => "how much of it is lost is not known",
            false => "what is lost of it is reported as lost",
        };
        let (kept, path) = (kept(path), path.display());
        let kept = kept.display();
        self.note(
            (number, Part::Contents),
            format!("its buffer: {path} {what}; {lost}, and it is kept as {kept}"),
        );
    }

    /// Notes a file of which nothing can be read, and that is kept here.
    pub(super) fn set_aside(&mut self, number: u64, error: &ReadError, kept: &Path) {
        let kept = kept.display();
        let left = "and what could not be read of it is not delivered";
        self.note(
            (number, Part::Contents),
            format!("its buffer: {error}; the file is kept as {kept}, {left}"),
        );
    }

    /// Notes a file that has no end, and lacks something, or may lack something.
    pub(super) fn no_end(&mut self, number: u64, path: &Path, why: NoEnd) {
        let path = path.display();
        self.note((number, Part::End), match why {
            NoEnd::Shorter { events, delivered } => format!(
                "its buffer: {path} was cut short: {delivered} events of it were delivered, and it has {events} now; how many \
                 records followed them is not known"
            ),
            NoEnd::OtherBoot => format!(
                "its buffer: {path} has no end, and the machine was started again since it was written: records that had not \
                 reached the disk may be missing, and how many is not known"
            ),
        });
    }

    fn note(&mut self, of: (u64, Part), said: String) {
        self.0.retain(|(other, _)| *other != of);
        self.0.push((of, said));
        self.0.drain(..self.0.len().saturating_sub(NAMED));
    }

    /// Returns the sentences.
    pub(super) fn said(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(_, said)| said.clone())
    }
}
