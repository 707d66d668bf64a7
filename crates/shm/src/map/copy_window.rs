//! Readers that copy: observers, and the consumer of an overwrite ring.

use crate::file::error::AttachError;
use crate::map::consumer_mapping::ConsumerMapping;
use crate::map::next::Next;
use crate::map::observer_mapping::ObserverMapping;
use perfring_abi::atomic::AtomicU64;
use perfring_ring::{Corrupt, Front, Observer, ResumePoint, Ring, Start};

/// What is mapped for a reader that copies.
pub trait Mapping {
    /// Returns the ring as the algorithm sees it, and its AUX area. Nothing may be stored to an
    /// observer's.
    fn parts(&self) -> (Ring<'_>, &[AtomicU64]);
    /// Returns the error for a ring that was found to be corrupt.
    fn report(&self, corrupt: Corrupt) -> Corrupt;
}

impl Mapping for ConsumerMapping {
    #[inline]
    fn parts(&self) -> (Ring<'_>, &[AtomicU64]) {
        (self.map.ring(), self.map.aux())
    }

    fn report(&self, corrupt: Corrupt) -> Corrupt {
        self.map.guard.report(corrupt)
    }
}

impl Mapping for ObserverMapping {
    #[inline]
    fn parts(&self) -> (Ring<'_>, &[AtomicU64]) {
        (self.map.ring(), self.map.aux())
    }

    fn report(&self, corrupt: Corrupt) -> Corrupt {
        self.map.guard.report(corrupt)
    }
}

/// A ring from which records are copied one by one.
#[derive(Debug)]
pub struct CopyWindow<M> {
    mapping: M,
    observer: Observer,
}

impl CopyWindow<ConsumerMapping> {
    /// Makes the consumer of an overwrite ring, which continues at the position that the last
    /// consumer saved, and takes the seat with `name`.
    pub fn resume(mapping: ConsumerMapping, name: &str) -> Result<Self, AttachError> {
        let layout = mapping.ring.layout();
        let observer = Observer::resume(mapping.map.ring())
            .map_err(|source| mapping.ring.corrupt(mapping.map.guard.report(source)))?
            .with_time(layout.time)
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
    /// Makes an observer, with a position of its own.
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
    /// Returns the mapping.
    #[inline]
    pub fn mapping(&self) -> &M {
        &self.mapping
    }

    /// Returns the observer's state and position.
    #[inline]
    pub fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Returns what is next, or `None` if there is nothing now.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Next<'_>>, Corrupt> {
        let (ring, aux) = self.mapping.parts();
        match self.observer.next_in(ring, aux) {
            Ok(seen) => Ok(seen.map(Next::from)),
            Err(corrupt) => Err(self.mapping.report(corrupt)),
        }
    }

    /// Returns what is next among the records copied at the last poll, and what follows it.
    #[inline]
    pub fn take(&mut self) -> Result<Option<(Next<'_>, Front)>, Corrupt> {
        let (ring, aux) = self.mapping.parts();
        let taken =
            self.observer.take(ring, aux).map_err(|corrupt| self.mapping.report(corrupt))?;
        Ok(taken.map(|(seen, front)| (Next::from(seen), front)))
    }

    /// Polls the producer's head if everything copied was read. Returns what is next.
    #[inline]
    pub fn peek(&mut self) -> Result<Front, Corrupt> {
        self.observer.peek(self.mapping.parts().0).map_err(|corrupt| self.mapping.report(corrupt))
    }
}
