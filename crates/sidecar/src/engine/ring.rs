//! A ring that is read, and what is known of it.

use crate::config::{From, Input, Mode};
use perfring_consumer::advanced::ResumePoint;
use perfring_consumer::{
    Acknowledge, AttachError, Cause, Consumer, ConsumerOptions, Count, Location, Lost, Observer,
    ObserverOptions, Policy, Saved, Start, Trust,
};
use perfring_export::{Origin, Shapes};
use perfring_set::{Source, SourceId};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;
use thiserror::Error;

/// Rings by their sources. Looked up for every record.
pub(crate) type Rings = HashMap<SourceId, Ring, BuildHasherDefault<Quick>>;

/// A hash of two small numbers that nobody else chooses.
#[derive(Clone, Copy, Default)]
pub(crate) struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        // A map takes the upper bits as well as the lower ones.
        self.0 = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Why a ring is not read.
#[derive(Debug, Error)]
pub enum AttachFailure {
    /// The ring cannot be attached to.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Another ring took its name in between.
    #[error("another ring took the name {location} while it was attached to: it is tried again")]
    Replaced {
        /// Its name.
        location: Location,
    },
}

/// What a ring gave so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingFigures {
    /// Records that were read.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Records that were told as lost, by cause.
    pub lost: Vec<(Cause, Count)>,
    /// Records that came too late for their place in the order of time.
    pub late: u64,
    /// The most that one was late, ns.
    pub late_most: u64,
}

/// A ring as it is shown.
#[derive(Debug)]
pub struct RingStatus<'a> {
    /// What outputs know of it.
    pub origin: &'a Origin,
    /// What it gave.
    pub figures: &'a RingFigures,
    /// It is looked at only.
    pub observed: bool,
    /// Its records are copied before anything looks at them.
    pub copied: bool,
    /// Its file is gone, and it is read to its end.
    pub vanished: bool,
    /// Bytes between what is delivered and what is published.
    pub lag: u64,
}

/// Something worth a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A ring cannot be read on: what is wrong.
    SetAside {
        /// The ring.
        ring: String,
        /// Where it is, if it is one of perfring's.
        location: Option<Location>,
        /// Its id.
        uuid: [u8; 16],
        /// What is wrong.
        why: String,
    },
    /// A ring was read to its end and is gone.
    Ended {
        /// The ring.
        ring: String,
        /// Its id.
        uuid: [u8; 16],
        /// What it gave.
        figures: RingFigures,
        /// Its file is gone, too, and nobody reads another of its names.
        vanished: bool,
        /// The place where an observer goes on, if it stays and is read by nobody else.
        saved: Option<Saved>,
    },
}

/// A ring that may go.
pub(crate) struct Idle {
    pub(crate) location: Location,
    pub(crate) input: Input,
    pub(crate) uuid: [u8; 16],
}

/// How far a ring is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is there, or its file is gone and there may be more in it.
    Reading,
    /// All was read; its end is to be told.
    Ending,
    /// Its end was told to those that must know: it goes once all before this event is delivered.
    Leaving(u64),
    /// It is let go. Some that need not know are still to be told.
    Gone,
}

/// A ring that is read.
pub(crate) struct Ring {
    pub(crate) shapes: Shapes,
    /// Once the merge has it no more.
    pub(crate) source: Option<Box<dyn Source>>,
    /// Where it was attached to; `None` if it is no ring of perfring's.
    pub(crate) location: Option<Location>,
    pub(crate) input: Input,
    /// It is looked at only: its place is to be saved by who reads.
    pub(crate) observed: bool,
    /// Its records are copied before anything looks at them.
    pub(crate) copied: bool,
    /// Where reading began.
    pub(crate) first: ResumePoint,
    /// The place up to which all is delivered.
    pub(crate) released: Option<ResumePoint>,
    /// Which outputs know that it begins, a bit each.
    pub(crate) began: u64,
    /// The last turn in which something came of it.
    pub(crate) turn: u64,
    /// Since when it has neither a producer nor anything that is not delivered.
    pub(crate) idle: Option<Instant>,
    /// Whether it had a producer at the last look.
    pub(crate) produced: bool,
    /// Its file is gone.
    pub(crate) vanished: bool,
    pub(crate) stage: Stage,
    pub(crate) figures: RingFigures,
}

impl Ring {
    /// Attaches to a ring as its input says, under the number `id`.
    pub(crate) fn attach(
        location: &Location,
        input: &Input,
        id: u32,
        uuid: Option<[u8; 16]>,
        saved: impl FnOnce(&[u8; 16]) -> Option<Saved>,
    ) -> Result<(Self, Box<dyn Source>), AttachFailure> {
        let shapes = Shapes::open(location.clone(), id)?;
        let drops = shapes.origin().policy == Some(Policy::Drop);
        let observed = match input.mode {
            Mode::Auto => !drops,
            Mode::Consume => false,
            Mode::Observe => true,
        };
        let mut copied = observed;
        let (source, layout): (Box<dyn Source>, _) = if observed {
            let start = match (saved(&shapes.origin().uuid), input.from) {
                (Some(saved), _) => Start::At(saved),
                (None, From::Oldest) => Start::Oldest,
                (None, From::Latest) => Start::Latest,
            };
            let options =
                ObserverOptions { start, trust: input.trust, ..ObserverOptions::default() };
            let observer = Observer::open_with(location.clone(), &options)?;
            let layout = *observer.layout();
            (Box::new(observer), layout)
        } else {
            let options = ConsumerOptions {
                name: Some("perfring sidecar".to_owned()),
                trust: input.trust,
                acknowledge: Acknowledge::Explicit,
                ..ConsumerOptions::default()
            };
            let consumer = Consumer::attach_with(location.clone(), &options)?;
            copied = consumer.trust() == Trust::Nobody;
            let layout = *consumer.layout();
            (Box::new(consumer), layout)
        };
        if !shapes.is_of(&layout) || uuid.is_some_and(|uuid| uuid != layout.uuid) {
            return Err(AttachFailure::Replaced { location: location.clone() });
        }
        let ring = Ring::new(shapes, Some(location.clone()), input.clone(), observed);
        Ok((Ring { copied, ..ring }, source))
    }

    pub(crate) fn new(
        shapes: Shapes,
        location: Option<Location>,
        input: Input,
        observed: bool,
    ) -> Self {
        Ring {
            shapes,
            source: None,
            location,
            input,
            observed,
            copied: false,
            first: ResumePoint::default(),
            released: None,
            began: 0,
            turn: 0,
            idle: None,
            produced: false,
            vanished: false,
            stage: Stage::Reading,
            figures: RingFigures::default(),
        }
    }

    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.shapes.origin().uuid
    }

    /// Since when it could go.
    pub(crate) fn idle_since(&mut self, now: Instant) -> Option<Instant> {
        // In this order: what was written before the producer went is seen after it.
        let idle = !self.observed
            && self.stage == Stage::Reading
            && !self.shapes.has_producer()
            && self.delivered().pos == self.shapes.head();
        self.idle = idle.then(|| self.idle.unwrap_or(now));
        self.idle
    }

    /// The place up to which all is delivered: at first, where reading began.
    pub(crate) fn delivered(&self) -> ResumePoint {
        self.released.unwrap_or(self.first)
    }

    pub(crate) fn id(&self) -> u32 {
        self.shapes.origin().id
    }

    pub(crate) fn status(&self) -> RingStatus<'_> {
        RingStatus {
            origin: self.shapes.origin(),
            figures: &self.figures,
            observed: self.observed,
            copied: self.copied,
            vanished: self.vanished,
            lag: self.shapes.head().saturating_sub(self.delivered().pos),
        }
    }
}

impl RingFigures {
    pub(crate) fn lost(&mut self, lost: &Lost) {
        let at = self.lost.iter().position(|(cause, _)| *cause == lost.cause);
        let at = at.unwrap_or_else(|| {
            self.lost.push((lost.cause, Count::default()));
            self.lost.len() - 1
        });
        if let Some((_, count)) = self.lost.get_mut(at) {
            count.records = count.records.saturating_add(lost.records);
            count.bytes = count.bytes.saturating_add(lost.bytes);
        }
    }
}
