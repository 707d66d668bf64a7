//! The interface through which many rings are read.

use perfring_consumer::advanced::{Armed, Front, ResumePoint, SnapshotReader};
use perfring_consumer::{
    Anchors, Consumer, Item, Layout, Observer, Policy, Producers, ReadError, Types, stat::Fill,
};
use thiserror::Error;

perfring_producer::debug_by_display!(SourceError);

/// Why a source has failed.
#[derive(Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The ring cannot be read further. Items read before are good.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Another error: a sentence with the fault and the remedy.
    #[error("{0}")]
    Other(Box<str>),
}

/// The properties of a source, which do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The ring's id.
    pub uuid: [u8; 16],
    /// Bytes of its data area.
    pub data_size: u64,
    /// Its policy when it is full; `None` for a ring of the kernel.
    pub policy: Option<Policy>,
    /// Whether its records have timestamps.
    pub timed: bool,
}

/// The behaviour of a source while its reader sleeps.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Sleep<'a> {
    /// It cannot wake a sleeper: it is polled.
    Polled,
    /// It has something: there is no reason to sleep.
    Ready,
    /// It wakes a sleeper by this.
    Armed(Armed<'a>),
}

/// A ring that is read ahead of its released position.
///
/// A [`Consumer`] is a source: it lends the records of a drop ring in place, holds them from the first poll on,
/// and moves the tail only by [`Source::release`]. An [`Observer`] is a source: its records are copies, and it
/// has nothing to release. The caller remembers a [`ResumePoint`] to continue from.
pub trait Source: Send {
    /// Polls the ring, and returns the kind of the next item: [`Front::More`] only if a producer outruns it. It must be
    /// cheap, because it is often called in vain.
    ///
    /// # Errors
    /// [`SourceError`]: the source is finished.
    fn peek(&mut self) -> Result<Front, SourceError>;

    /// Takes the next item, and returns the kind of the item after it: [`Front::Empty`] only if everything that was
    /// published before the last poll was taken, [`Front::More`] if another poll is needed. `None` if there
    /// is no item after all.
    ///
    /// # Errors
    /// [`SourceError`]: the source is finished.
    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError>;

    /// Returns the point after everything that was taken.
    fn resume_point(&self) -> ResumePoint;

    /// Releases everything before a resume point of this source. Points come in order.
    fn release(&mut self, resume_point: &ResumePoint);

    /// Requests a wake for when there is something to poll for, before a sleep on all sources. By default it is
    /// polled, as an observer is, which leaves no trace in its ring.
    fn prepare_sleep(&mut self) -> Sleep<'_> {
        Sleep::Polled
    }

    /// Withdraws the request, after the sleep.
    fn end_sleep(&mut self) {}

    /// Returns how full the ring is now.
    fn fill(&self) -> Fill;

    /// Returns its properties.
    fn about(&self) -> About;

    /// Returns the current clock anchors, which convert timestamps to wall-clock times.
    fn anchors(&self) -> Anchors;

    /// Returns the current type table.
    fn types(&self) -> Types;

    /// Returns whether the type table has grown since this copy.
    fn has_more_types(&self, than: &Types) -> bool;

    /// Returns whether a producer is attached, or may be.
    fn has_producer(&self) -> bool;
}

impl About {
    fn of(layout: &Layout) -> Self {
        let Layout { uuid, data_size, policy, time: timed, .. } = *layout;
        About { uuid, data_size, policy: Some(policy), timed }
    }
}

/// The methods that both readers have.
macro_rules! forward {
    ($reader:ident) => {
        fn resume_point(&self) -> ResumePoint {
            $reader::resume_point(self)
        }

        fn fill(&self) -> Fill {
            $reader::fill(self)
        }

        fn about(&self) -> About {
            About::of(self.layout())
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

    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
        self.advanced()
            .take_as(|record, next| Ok(Some((Item::Record(record), next))), |taken| Ok(taken?))
    }

    fn peek(&mut self) -> Result<Front, SourceError> {
        self.advanced().hold();
        let front = self.advanced().peek()?;
        // This reader may be the only process left to end a dead producer's reservations.
        let shared = self.layout().producers != Producers::One;
        if front == Front::Empty && shared && self.advanced().tend() {
            return Ok(self.advanced().peek()?);
        }
        Ok(front)
    }

    fn release(&mut self, resume_point: &ResumePoint) {
        self.advanced().release_to(resume_point);
    }

    fn prepare_sleep(&mut self) -> Sleep<'_> {
        self.advanced().hold();
        self.advanced().prepare_sleep_on_any().map_or(Sleep::Ready, Sleep::Armed)
    }

    fn end_sleep(&mut self) {
        self.advanced().end_sleep();
    }
}

impl Source for Observer {
    forward!(Observer);

    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
        Ok(self.advanced().take()?)
    }

    fn peek(&mut self) -> Result<Front, SourceError> {
        Ok(self.advanced().peek()?)
    }

    fn release(&mut self, _: &ResumePoint) {}
}

/// It has what the ring had at one moment: it has nothing to release, and no producer.
impl Source for SnapshotReader {
    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
        Ok(SnapshotReader::take(self)?)
    }

    fn peek(&mut self) -> Result<Front, SourceError> {
        Ok(SnapshotReader::peek(self)?)
    }

    fn resume_point(&self) -> ResumePoint {
        ResumePoint::default()
    }

    fn release(&mut self, _: &ResumePoint) {}

    fn fill(&self) -> Fill {
        Fill { size: self.snapshot().layout().data_size, ..Fill::default() }
    }

    fn about(&self) -> About {
        About::of(self.snapshot().layout())
    }

    fn anchors(&self) -> Anchors {
        *self.snapshot().anchors()
    }

    fn types(&self) -> Types {
        self.snapshot().types().clone()
    }

    fn has_more_types(&self, _: &Types) -> bool {
        false
    }

    fn has_producer(&self) -> bool {
        false
    }
}
