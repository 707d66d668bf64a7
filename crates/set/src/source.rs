//! What many rings are read through: a source for each.

use perfring_consumer::{
    Anchors, Consumer, Corrupt, Fill, Front, Item, Layout, Observer, Policy, Producers,
    ResumePoint, Types,
};
use thiserror::Error;

/// Why a source gives nothing more.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The ring is damaged. What was read before stands.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Something else: a sentence that says what is wrong and what to do.
    #[error("{0}")]
    Other(Box<str>),
}

/// What a source says of itself, once and for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The ring's own id.
    pub uuid: [u8; 16],
    /// Bytes of its data area.
    pub data_size: u64,
    /// What it does when it is full; `None` for a ring of the kernel.
    pub policy: Option<Policy>,
    /// Whether its records have stamps.
    pub timed: bool,
}

/// A ring that is read ahead of what is released from it.
///
/// A [`Consumer`] is one: of a drop ring it lends records in place, and moves the tail by
/// [`Source::release`] alone; it goes on hold by the first look. An [`Observer`] is one: its records
/// are copies, and it has nothing to release. The caller remembers a [`ResumePoint`] to go on from.
pub trait Source: Send {
    /// Looks whether there is more, and says what is next: not [`Front::More`], but where a producer
    /// outruns it. Cheap, as it is called often for nothing.
    ///
    /// # Errors
    /// [`SourceError`]: the source is finished.
    fn peek(&mut self) -> Result<Front, SourceError>;

    /// Takes the next item, and says what is next after it: [`Front::Empty`] only if all that was
    /// published before the last look was taken, [`Front::More`] if another look must tell. `None` if
    /// there is nothing after all.
    ///
    /// # Errors
    /// [`SourceError`]: the source is finished.
    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError>;

    /// The place after everything that was taken.
    fn resume_point(&self) -> ResumePoint;

    /// Gives back everything before a mark of this source. Marks come in order.
    fn release(&mut self, resume_point: &ResumePoint);

    /// How full the ring is now.
    fn fill(&self) -> Fill;

    /// Its shape and identity.
    fn about(&self) -> About;

    /// What tells wall-clock times of stamps, as of now.
    fn anchors(&self) -> Anchors;

    /// The type table, as it is now.
    fn types(&self) -> Types;

    /// Whether the type table has grown since this copy was taken.
    fn has_more_types(&self, than: &Types) -> bool;

    /// Whether somebody is there who may write more. If that cannot be told, somebody is.
    fn has_producer(&self) -> bool;
}

/// What both readers do alike.
macro_rules! forward {
    ($reader:ident) => {
        fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
            Ok($reader::take(self)?)
        }

        fn resume_point(&self) -> ResumePoint {
            $reader::resume_point(self)
        }

        fn fill(&self) -> Fill {
            $reader::fill(self)
        }

        fn about(&self) -> About {
            let Layout { uuid, data_size, policy, time: timed, .. } = *self.layout();
            About { uuid, data_size, policy: Some(policy), timed }
        }

        fn anchors(&self) -> Anchors {
            $reader::anchors(self)
        }

        fn types(&self) -> Types {
            $reader::types(self)
        }

        fn has_more_types(&self, than: &Types) -> bool {
            $reader::has_more_types(self, than)
        }

        fn has_producer(&self) -> bool {
            $reader::has_producer(self).unwrap_or(true)
        }
    };
}

impl Source for Consumer {
    forward!(Consumer);

    fn peek(&mut self) -> Result<Front, SourceError> {
        self.hold();
        let front = Consumer::peek(self)?;
        // Nobody may be there but this reader to end what a dead producer left open.
        if front == Front::Empty && self.layout().producers == Producers::Many && self.tend() {
            return Ok(Consumer::peek(self)?);
        }
        Ok(front)
    }

    fn release(&mut self, resume_point: &ResumePoint) {
        self.release_to(resume_point);
    }
}

impl Source for Observer {
    forward!(Observer);

    fn peek(&mut self) -> Result<Front, SourceError> {
        Ok(Observer::peek(self)?)
    }

    fn release(&mut self, _: &ResumePoint) {}
}
