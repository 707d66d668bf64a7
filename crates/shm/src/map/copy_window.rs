//! Readers that copy: observers, and the consumer of an overwrite ring.

use crate::file::error::AttachError;
use crate::map::consumer_mapping::ConsumerMapping;
use crate::map::observer_mapping::ObserverMapping;
use crate::map::payload::{FrameBytes, bytes_of, with_bytes};
use perfring_abi::atomic::AtomicU64;
use perfring_ring::{CopyReader, Frame, Front, Lost, Next, ReadError, ResumePoint, Shared, Start};

/// A mapping for a reader that copies.
pub trait Mapping {
    /// Returns the ring and its slots as the algorithm sees them, and its AUX area. Nothing may be stored to an
    /// observer's.
    fn parts(&self) -> (Shared<'_>, &[AtomicU64]);
    /// Returns the error to report for a fault that was found.
    fn report(&self, error: impl Into<ReadError>) -> ReadError;
    /// Whether the ring's file was found removed.
    fn is_removed(&self) -> bool;
}

impl Mapping for ConsumerMapping {
    #[inline]
    fn parts(&self) -> (Shared<'_>, &[AtomicU64]) {
        (self.map.shared(), self.map.aux())
    }

    fn report(&self, error: impl Into<ReadError>) -> ReadError {
        self.map.guard.report(error)
    }

    fn is_removed(&self) -> bool {
        ConsumerMapping::is_removed(self)
    }
}

impl Mapping for ObserverMapping {
    #[inline]
    fn parts(&self) -> (Shared<'_>, &[AtomicU64]) {
        (self.map.shared(), self.map.aux())
    }

    fn report(&self, error: impl Into<ReadError>) -> ReadError {
        self.map.guard.report(error)
    }

    fn is_removed(&self) -> bool {
        ObserverMapping::is_removed(self)
    }
}

/// A ring from which records are copied one by one.
#[derive(Debug)]
pub struct CopyWindow<M> {
    mapping: M,
    observer: CopyReader,
}

impl CopyWindow<ConsumerMapping> {
    /// Makes the consumer of an overwrite ring, which continues at the position that the last
    /// consumer saved, and takes the seat with `name`.
    pub(super) fn resume(mut mapping: ConsumerMapping, name: &str) -> Result<Self, AttachError> {
        let layout = mapping.ring.layout();
        let observer = CopyReader::resume(mapping.map.ring())
            .map_err(|source| mapping.ring.corrupt(mapping.map.guard.report(source)))?
            .with_lead(layout.lead())
            .with_losses(mapping.map.shared(), layout.loss_slots())
            .with_aux(layout.aux_size);
        mapping.sign(name);
        Ok(CopyWindow { mapping, observer })
    }

    /// Saves the position after everything that was read.
    pub fn save(&mut self) {
        self.observer.save(self.mapping.map.ring());
    }

    /// Saves a resume point.
    pub fn save_resume_point(&mut self, resume_point: &ResumePoint) {
        self.observer.save_resume_point(self.mapping.map.ring(), resume_point);
    }
}

impl CopyWindow<ObserverMapping> {
    /// Makes an observer, with its own position.
    pub fn watch(mapping: ObserverMapping, start: Start) -> Result<Self, AttachError> {
        let layout = mapping.ring.layout();
        let observer = CopyReader::new(mapping.map.ring(), layout.policy, start)
            .map_err(|source| mapping.ring.corrupt(mapping.map.guard.report(source)))?
            .with_lead(layout.lead())
            .with_losses(mapping.map.shared(), layout.loss_slots())
            .with_aux(layout.aux_size);
        Ok(CopyWindow { mapping, observer })
    }
}

impl<M: Mapping> CopyWindow<M> {
    /// Returns the mapping.
    #[inline]
    pub fn mapping(&self) -> &M {
        &self.mapping
    }

    /// Returns the observer's state and position.
    #[inline]
    pub fn observer(&self) -> &CopyReader {
        &self.observer
    }

    /// Returns the next record on the common path: a record that was copied before. In all other cases
    /// returns the window: [`CopyWindow::read`] decides then.
    #[inline(always)]
    pub fn next_fast(&mut self) -> Result<(Frame, &[u8]), &mut Self> {
        match self.observer.next_copied() {
            Some(frame) => Ok((frame, bytes_of(self.observer.copied_payload(&frame), frame.len))),
            None => Err(self),
        }
    }

    /// Calls `visit` with the records that were copied before, as [`CopyWindow::next_fast`] would return
    /// them. Each counts as read when `visit` returns. Returns their number.
    #[inline(always)]
    pub fn visit_copied(&mut self, mut visit: impl FnMut(&Frame, &[u8])) -> u64 {
        self.observer.visit_copied(|frame, words| visit(frame, bytes_of(words, frame.len)))
    }

    /// Returns the next item, or `None` if the ring has nothing more now.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Next<FrameBytes<'_>>>, ReadError> {
        let (at, aux) = self.mapping.parts();
        if self.mapping.is_removed() && self.observer.must_poll() {
            self.observer.has_lost(at, true);
        }
        match self.observer.next_in(at, aux) {
            Ok(None) if self.mapping.is_removed() => Err(ReadError::Removed),
            Ok(next) => Ok(next.map(|next| next.map(with_bytes))),
            Err(error) => Err(self.mapping.report(error)),
        }
    }

    /// Returns the next item among the records copied at the last poll, and the kind of the item after it.
    #[inline]
    pub fn take(&mut self) -> Result<Option<(Next<FrameBytes<'_>>, Front)>, ReadError> {
        let (at, aux) = self.mapping.parts();
        if self.mapping.is_removed() && self.observer.must_poll() {
            self.observer.has_lost(at, true);
        }
        let taken = self.observer.take(at, aux).map_err(|error| self.mapping.report(error))?;
        if taken.is_none() && self.mapping.is_removed() {
            return Err(ReadError::Removed);
        }
        Ok(taken.map(|(next, front)| (next.map(with_bytes), front)))
    }

    /// Returns a loss that producers have counted and no marker in the stream reports, if everything else was read.
    #[inline]
    pub fn lost(&mut self) -> Option<Lost> {
        self.observer.lost(self.mapping.parts().0, false)
    }

    /// Returns whether there is such a loss: it is returned next.
    pub fn has_lost(&mut self) -> bool {
        self.observer.has_lost(self.mapping.parts().0, true)
    }

    /// Polls the producer's head if everything copied was read. Returns the kind of the next item.
    #[inline]
    pub fn peek(&mut self) -> Result<Front, ReadError> {
        self.observer.peek(self.mapping.parts().0).map_err(|error| self.mapping.report(error))
    }
}
