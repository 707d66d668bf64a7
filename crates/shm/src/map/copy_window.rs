//! Readers that copy: observers, and the consumer of an overwrite ring.

use crate::file::error::AttachError;
use crate::map::consumer_mapping::ConsumerMapping;
use crate::map::next::Next;
use crate::map::observer_mapping::ObserverMapping;
use perfring_abi::atomic::AtomicU64;
use perfring_ring::{Front, Observer, ReadError, ResumePoint, Ring, Start};

/// What is mapped for a reader that copies.
pub trait Mapping {
    /// The ring as the algorithm sees it, and its AUX area. An observer's are not to be stored to.
    fn parts(&self) -> (Ring<'_>, &[AtomicU64]);
    /// What to say of what was found to be wrong.
    fn report(&self, error: impl Into<ReadError>) -> ReadError;
    /// Whether the ring's file was found removed.
    fn is_removed(&self) -> bool;
}

impl Mapping for ConsumerMapping {
    #[inline]
    fn parts(&self) -> (Ring<'_>, &[AtomicU64]) {
        (self.map.ring(), self.map.aux())
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
    fn parts(&self) -> (Ring<'_>, &[AtomicU64]) {
        (self.map.ring(), self.map.aux())
    }

    fn report(&self, error: impl Into<ReadError>) -> ReadError {
        self.map.guard.report(error)
    }

    fn is_removed(&self) -> bool {
        ObserverMapping::is_removed(self)
    }
}

/// A ring that is copied from, record by record.
#[derive(Debug)]
pub struct CopyWindow<M> {
    mapping: M,
    observer: Observer,
}

impl CopyWindow<ConsumerMapping> {
    /// The consumer of an overwrite ring, which goes on where the last one saved its place, and signs
    /// with `name`.
    pub fn resume(mapping: ConsumerMapping, name: &str) -> Result<Self, AttachError> {
        let layout = mapping.ring.layout();
        let observer = Observer::resume(mapping.map.ring())
            .map_err(|source| mapping.ring.corrupt(mapping.map.guard.report(source)))?
            .with_time(layout.time)
            .with_aux(layout.aux_size);
        mapping.sign(name);
        Ok(CopyWindow { mapping, observer })
    }

    /// Saves the place after everything that was read.
    pub fn save(&mut self) {
        self.observer.save(self.mapping.map.ring());
    }

    /// Saves a place that was marked.
    pub fn save_resume_point(&mut self, resume_point: &ResumePoint) {
        self.observer.save_resume_point(self.mapping.map.ring(), resume_point);
    }
}

impl CopyWindow<ObserverMapping> {
    /// An observer, with a place of its own.
    pub fn watch(mapping: ObserverMapping, start: Start) -> Result<Self, AttachError> {
        let layout = mapping.ring.layout();
        let observer = Observer::new(mapping.map.ring(), layout.policy, start)
            .map_err(|source| mapping.ring.corrupt(mapping.map.guard.report(source)))?
            .with_time(layout.time)
            .with_aux(layout.aux_size);
        Ok(CopyWindow { mapping, observer })
    }
}

impl<M: Mapping> CopyWindow<M> {
    /// The ring.
    #[inline]
    pub fn mapping(&self) -> &M {
        &self.mapping
    }

    /// The observer, and its place.
    #[inline]
    pub fn observer(&self) -> &Observer {
        &self.observer
    }

    /// What is next, or `None` if there is nothing now.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Next<'_>>, ReadError> {
        let (ring, aux) = self.mapping.parts();
        match self.observer.next_in(ring, aux) {
            Ok(None) if self.mapping.is_removed() => Err(ReadError::Removed),
            Ok(seen) => Ok(seen.map(Next::from)),
            Err(error) => Err(self.mapping.report(error)),
        }
    }

    /// As [`CopyWindow::read`], of what was copied at the last look, and what is next after it.
    #[inline]
    pub fn take(&mut self) -> Result<Option<(Next<'_>, Front)>, ReadError> {
        let (ring, aux) = self.mapping.parts();
        let taken = self.observer.take(ring, aux).map_err(|error| self.mapping.report(error))?;
        if taken.is_none() && self.mapping.is_removed() {
            return Err(ReadError::Removed);
        }
        Ok(taken.map(|(seen, front)| (Next::from(seen), front)))
    }

    /// Looks how far the producer is, if what was copied is read. Returns what is next.
    #[inline]
    pub fn peek(&mut self) -> Result<Front, ReadError> {
        self.observer.peek(self.mapping.parts().0).map_err(|error| self.mapping.report(error))
    }
}
