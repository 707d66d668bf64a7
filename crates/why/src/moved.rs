//! Gaps whose thread wrote into another ring after them. What the ring before refused meanwhile is reported by its next
//! record: the thread may have tried to write there all the time.

use crate::gap::Gap;

/// The limit of gaps that wait.
const MOST: usize = 10_000;

/// Gaps that wait for the next record or loss of the ring before them.
#[derive(Debug, Default)]
pub(crate) struct Moved(Vec<(Gap, u32)>);

impl Moved {
    /// Has a gap wait for this ring; returns it if too many wait.
    pub(crate) fn hold(&mut self, gap: Gap, ring: u32) -> Option<Gap> {
        if self.0.len() >= MOST {
            return Some(gap);
        }
        self.0.push((gap, ring));
        None
    }

    /// A ring has a record, and had refused nothing before it: returns the gaps that waited for this.
    pub(crate) fn heard(&mut self, ring: u32) -> impl Iterator<Item = Gap> {
        self.0.extract_if(.., move |(_, of)| *of == ring).map(|(gap, _)| gap)
    }

    /// A ring has lost records: the gaps that waited for it may be no gaps. Returns how many these are.
    pub(crate) fn lost(&mut self, ring: u32) -> u64 {
        self.heard(ring).count() as u64
    }

    /// Returns all that wait: nothing more comes.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = Gap> {
        self.0.drain(..).map(|(gap, _)| gap)
    }
}
