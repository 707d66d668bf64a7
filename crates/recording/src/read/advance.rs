//! Reads a file of a buffer over damage.

use super::Reader;
use crate::block::{BLOCK_MAX, survey};
use crate::counts::Counts;
use crate::error::ReadError;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

impl Reader {
    /// Opens a file of a buffer, to be read over damage by [`Reader::advance`].
    pub(crate) fn open_noted(path: &Path) -> Result<Self, ReadError> {
        let mut reader = Self::of(File::open(path)?);
        reader.over = Some(Box::default());
        let error = match reader.begin() {
            Ok(()) => return Ok(reader),
            Err(error) => error,
        };
        let is_damage = matches!(error, ReadError::Other | ReadError::Damaged { .. });
        if is_damage && reader.resume(&error)? { Ok(reader) } else { Err(error) }
    }

    /// Finds the next event, over damage: what that took is a loss among the events, by ring. Returns
    /// whether there is one, which [`Reader::next`] returns.
    ///
    /// # Errors
    /// [`ReadError`], if nothing follows for another reason.
    pub(crate) fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            match self.next().map(|event| event.is_some()) {
                Ok(true) => {
                    self.repeat();
                    return Ok(true);
                }
                Ok(false) if self.is_over && self.claim_all() => {}
                Ok(false) => return Ok(false),
                Err(ReadError::Truncated { .. }) if self.claim_all() => {}
                Err(error @ ReadError::Damaged { .. }) => {
                    if !self.resume(&error)? {
                        self.give_up()?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes on behind the block that could not be read. Returns whether that is possible.
    fn resume(&mut self, error: &ReadError) -> io::Result<bool> {
        let Some(over) = &mut self.over else { return Ok(false) };
        let what = match error {
            ReadError::Damaged { at, what, .. } => format!("is damaged at byte {at}: {what}"),
            _ => "is damaged at byte 0: it does not begin as a recording".to_owned(),
        };
        if over.damage.is_none() {
            (over.damage, over.is_news) = (Some(what), true);
        }
        // Counts are at the beginning of the damaged block; if those are gone too, at its end, or in a later one.
        for most in [64 << 10, 2 * BLOCK_MAX as u64] {
            self.input.seek(SeekFrom::Start(self.at))?;
            let mut bytes = Vec::new();
            let room = self.limit.saturating_sub(self.at);
            (&mut self.input).take(most.min(room)).read_to_end(&mut bytes)?;
            let found = Counts::find(&bytes, self.at, self.machine.wall_ns);
            let Some(counts) = found.filter(|counts| counts.end <= self.limit) else { continue };
            over.skip(&counts, &mut self.rings);
            self.input.seek(SeekFrom::Start(counts.end))?;
            (self.at, self.machine.wall_ns) = (counts.end, counts.began);
            self.block.clear();
            (self.next, self.last, self.is_over, self.resumed) = (0, None, false, true);
            self.head.is_last = true; // the block that was skipped may have been
            return Ok(true);
        }
        Ok(false)
    }

    /// Counts what follows as lost, as far as the headers of blocks say how much that is.
    fn give_up(&mut self) -> Result<(), ReadError> {
        self.input.seek(SeekFrom::Start(self.at))?;
        let (_, missing) = survey(&mut self.input, self.at, None, self.totals.records)?;
        let Some(over) = &mut self.over else { return Ok(()) };
        over.give_up(&mut self.rings, missing);
        over.damage.iter_mut().for_each(|what| *what = format!("{what}; {missing}"));
        over.is_news = true;
        Ok(())
    }

    fn claim_all(&mut self) -> bool {
        self.over.as_mut().is_some_and(|over| over.claim_all(&mut self.rings))
    }

    /// Returns how many events of the file are returned or lost, and how many must be delivered before
    /// the last one that was returned is.
    pub(crate) fn events(&self) -> (u64, u64) {
        self.over.as_ref().map_or((0, 0), |over| (over.events, over.through))
    }

    /// Returns where the block begins that has the event which was returned last.
    pub(crate) fn block_at(&self) -> u64 {
        self.head.at
    }

    /// Returns what is damaged, and whether it is not known how much that took, if that is new.
    pub(crate) fn take_damage(&mut self) -> Option<(String, bool)> {
        let over = self.over.as_mut().filter(|over| over.is_news)?;
        over.is_news = false;
        Some((over.damage.clone()?, over.is_unknown))
    }

    /// Returns whether nothing follows, even if the file grows.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}
