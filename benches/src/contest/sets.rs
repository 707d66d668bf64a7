//! Sets of rings that are read as one.

use crate::contest::perfring::error;
use crate::contestant::{Receiver, Visit};
use crate::error::failed;
use crate::error::{BenchError, Result};
use perfring_consumer::Item;
use perfring_consumer::advanced::ResumePoint;
use perfring_set::{FullestFirst, Merge, Merged, SourceId};
use std::hint::spin_loop;

/// Records after which a ring's space is released.
const OWED: u64 = 256;
/// Empty polls after which a merge checks whether something is left.
const POLLS: u32 = 64;

/// Rings that are read as one.
pub trait Set {
    /// Returns the next item in order.
    fn next(&mut self) -> Result<Option<Merged<'_>>>;
    /// Returns the reader's resume point in a ring.
    fn resume_point(&self, source: SourceId) -> Option<ResumePoint>;
    /// Releases everything before a resume point.
    fn release(&mut self, source: SourceId, point: &ResumePoint);
    /// Returns whether something may be left that [`Set::next`] does not return yet.
    fn holds_back(&mut self) -> bool {
        false
    }
    /// Returns how many records came too late for their order.
    fn late(&self) -> Option<u64> {
        None
    }
}

impl Set for FullestFirst {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<Merged<'_>>> {
        FullestFirst::next(self).map_err(|(_, failure)| error(failure))
    }

    fn resume_point(&self, source: SourceId) -> Option<ResumePoint> {
        FullestFirst::resume_point(self, source)
    }

    fn release(&mut self, source: SourceId, point: &ResumePoint) {
        FullestFirst::release(self, source, point);
    }
}

/// The rings, merged, and whether they are.
pub struct Ordered {
    merge: Merge,
    sources: Vec<SourceId>,
    /// The time of the newest record so far.
    time: u64,
    /// Empty polls in a row.
    empty: u32,
}

impl Ordered {
    pub(super) fn new(merge: Merge, sources: Vec<SourceId>) -> Self {
        Ordered { merge, sources, time: 0, empty: 0 }
    }
}

impl Set for Ordered {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<Merged<'_>>> {
        let Some(merged) = self.merge.next().map_err(|(_, failure)| error(failure))? else {
            return Ok(None);
        };
        self.empty = 0;
        if matches!(merged.item, Item::Record(_)) {
            if merged.time >= self.time {
                self.time = merged.time;
            } else if merged.late == 0 {
                return Err(disorder());
            }
        }
        Ok(Some(merged))
    }

    fn resume_point(&self, source: SourceId) -> Option<ResumePoint> {
        self.merge.resume_point(source)
    }

    fn release(&mut self, source: SourceId, point: &ResumePoint) {
        self.merge.release(source, point);
    }

    /// The check polls all rings, so it is not made each time.
    fn holds_back(&mut self) -> bool {
        self.empty += 1;
        if self.empty < POLLS {
            return true;
        }
        self.empty = 0;
        let merge = &mut self.merge;
        !self.sources.iter().all(|source| merge.is_drained(*source))
    }

    fn late(&self) -> Option<u64> {
        Some(self.merge.figures().late)
    }
}

#[cold]
fn disorder() -> BenchError {
    failed("perfring")("a record before its time that was not reported as late")
}

/// The reading end of all rings of a set.
pub struct FromSet<S> {
    set: S,
    /// The ring whose records are not released yet, and how many there are.
    source: Option<SourceId>,
    owed: u64,
    pauses: u32,
}

impl<S: Set> FromSet<S> {
    pub(super) fn new(set: S, pauses: u32) -> Self {
        FromSet { set, source: None, owed: 0, pauses }
    }

    fn release(&mut self) {
        if let Some(source) = self.source.take()
            && let Some(resume_point) = self.set.resume_point(source)
        {
            self.set.release(source, &resume_point);
        }
        self.owed = 0;
    }
}

impl<S: Set> Receiver for FromSet<S> {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        let mut count = 0;
        loop {
            while Receiver::next(self, &mut visit)? {
                count += 1;
            }
            // Only 0 if nothing at all is left.
            if count > 0 || !self.set.holds_back() {
                return Ok(count);
            }
            (0..self.pauses).for_each(|_| spin_loop());
        }
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        let Some(merged) = self.set.next()? else {
            self.release();
            return Ok(false);
        };
        let source = merged.source;
        if let Item::Record(record) = merged.item
            && let Ok(bytes) = record.bytes.try_into()
        {
            visit(bytes);
        }
        if self.source != Some(source) || self.owed == OWED {
            self.release();
        }
        self.source = Some(source);
        self.owed += 1;
        Ok(true)
    }

    #[inline]
    fn wait(&mut self) {
        (0..self.pauses).for_each(|_| spin_loop());
    }

    fn late(&mut self) -> Option<u64> {
        self.set.late()
    }
}
