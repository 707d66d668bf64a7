//! A ring that is read, and its state.

use super::merges::Class;
use super::place::{Reached, reached};
use crate::config::{From, Input, Mode};
use perfring_consumer::advanced::ResumePoint;
use perfring_consumer::{
    Acknowledge, AttachError, Cause, Consumer, ConsumerOptions, Location, Lost, Observer,
    ObserverOptions, Policy, Start,
    advanced::Saved,
    metrics::MetricsFill,
    stat::{Count, Refused},
};
use perfring_export::{Origin, Shapes, sum_of};
use perfring_set::{Source, is_priority};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::hash::Hasher;
use std::time::Instant;
use thiserror::Error;

/// A hash of two small numbers that no attacker chooses.
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
        // A map uses the upper bits as well as the lower ones.
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
    #[error("another ring took the name {location} while it was attached to: retrying")]
    Replaced {
        /// Its name.
        location: Location,
    },
}

/// The limit of resume points of a ring that wait for an output: beyond it every second one goes.
const ENDS_MAX: usize = 1024;

/// Counters of a ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingFigures {
    /// Records that were read.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Records that were reported as lost, by cause.
    pub lost: Vec<(Cause, Count)>,
    /// Records that arrived too late for the order of time.
    pub late: u64,
    /// The greatest lateness of one, ns.
    pub late_most: u64,
}

/// The status of a ring.
#[derive(Debug)]
pub struct RingStatus<'a> {
    /// The ring as outputs know it.
    pub origin: &'a Origin,
    /// Its counters.
    pub figures: &'a RingFigures,
    /// Whether it is only observed.
    pub observed: bool,
    /// Whether its records are copied before they are decoded.
    pub copied: bool,
    /// Whether its file was removed, and it is read to its end.
    pub removed: bool,
    /// Whether outputs are given its records before those of other rings.
    pub priority: bool,
    /// Bytes between what is delivered and what is published.
    pub lag: u64,
    unread: Unread<'a>,
}

/// What is unread of a ring: of one that is consumed, what its slowest consumer has not released; of one that is
/// observed, what the sidecar has not delivered. It is found when it is asked for.
#[derive(Clone, Copy)]
struct Unread<'a>(&'a Ring);

impl fmt::Debug for Unread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unread")
    }
}

impl RingStatus<'_> {
    /// Returns where its file is now, or was before it was removed: it may have been renamed.
    #[must_use]
    pub fn location(&self) -> String {
        let location = self.unread.0.location.as_ref();
        location.map_or_else(|| self.origin.location.clone(), ToString::to_string)
    }

    /// Returns how many bytes are unread, at most the ring's size: of a ring that is consumed, those that its slowest
    /// consumer has not released; of one that is observed, those that the sidecar has not delivered. `None` for a ring
    /// of the kernel.
    #[must_use]
    pub fn unread(&self) -> Option<u64> {
        let Unread(ring) = self.unread;
        let from = ring.unread_from()?.pos;
        Some(ring.shapes.head().saturating_sub(from).min(self.origin.data_size))
    }

    /// Returns how full the metrics area is that it is; `None` of any other ring.
    #[must_use]
    pub fn metrics(&self) -> Option<MetricsFill> {
        let Unread(ring) = self.unread;
        // Its origin has another id than the ring that it is a part of.
        let of = ring.shapes.observer().filter(|of| of.layout().uuid != self.origin.uuid)?;
        of.metrics_fill().ok()
    }

    /// Returns the timestamp of the oldest unread record, ns; `None` if all is read, or if the ring has no timestamps.
    #[must_use]
    pub fn oldest_unread(&self) -> Option<u64> {
        self.unread.0.oldest_unread()
    }

    /// Returns the same if an earlier call has found it.
    pub(crate) fn known_oldest_unread(&self) -> Option<u64> {
        let Unread(ring) = self.unread;
        let (pos, time) = ring.oldest.get();
        time.filter(|_| ring.unread_from().is_some_and(|from| from.pos == pos))
    }
}

/// An event that is worth a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A ring cannot be read any further.
    SetAside {
        /// The ring.
        ring: String,
        /// Its location, if it is one of perfring's.
        location: Option<Location>,
        /// Its id.
        uuid: [u8; 16],
        /// The problem.
        why: String,
        /// Whether the problem may pass, and the ring is to be attached to again: the disk is full, or memory is short.
        again: bool,
    },
    /// A ring has the name of another ring that is read: its location is its name.
    SameName {
        /// The name of both.
        name: String,
        /// The location of the second, which is its name now.
        location: String,
    },
    /// A metrics area is damaged, or has no room for some instruments.
    Trouble {
        /// The area, named after its ring.
        ring: String,
        /// The problem.
        trouble: String,
    },
    /// A ring is not read any more.
    Ended {
        /// The ring.
        ring: String,
        /// Its id.
        uuid: [u8; 16],
        /// Its counters.
        figures: RingFigures,
        /// Whether its file was removed, and no other ring of its name is read.
        removed: bool,
        /// The position where an observer continues, if it stays and is read by no one else.
        saved: Option<Saved>,
    },
}

/// A ring that may be removed.
pub(crate) struct Idle {
    pub(crate) location: Location,
    pub(crate) uuid: [u8; 16],
    /// What its producers have lost, all of which was read.
    pub(crate) refused: Refused,
}

/// The stage of a ring's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has a file, or was removed and may have more records.
    Reading,
    /// All was read; its end must be reported.
    Ending,
    /// Its end was reported to required outputs: it is released once all before this event is
    /// delivered.
    Leaving(u64),
    /// It is released. Some best-effort outputs are not notified yet.
    Gone,
}

/// A ring that is read.
pub(crate) struct Ring {
    pub(crate) shapes: Shapes,
    /// Set once the merge no longer has it.
    pub(crate) source: Option<Box<dyn Source>>,
    /// Its location; `None` if it is not a ring of perfring's.
    pub(crate) location: Option<Location>,
    pub(crate) input: Input,
    /// Whether it is only observed: its position must be saved by the reader.
    pub(crate) observed: bool,
    /// Whether its records are copied before they are decoded.
    pub(crate) copied: bool,
    /// Where reading began.
    pub(crate) first: ResumePoint,
    /// The resume point after what was passed on in whole turns.
    pub(crate) read: ResumePoint,
    /// Resume points after turns, of which some output lacks something.
    pub(crate) ends: VecDeque<ResumePoint>,
    /// The resume point up to which all is delivered.
    pub(crate) released: Option<ResumePoint>,
    /// Which outputs know of its beginning, a bit each.
    pub(crate) began: u64,
    /// The last turn in which something was read of it.
    pub(crate) turn: u64,
    /// Since when it has neither a producer nor undelivered records.
    pub(crate) idle: Option<Instant>,
    /// Whether it had a producer at the last check.
    pub(crate) produced: bool,
    /// Whether its file was removed.
    pub(crate) removed: bool,
    /// Whether there is another file of it, after that.
    pub(crate) replaced: bool,
    pub(crate) stage: Stage,
    pub(crate) figures: RingFigures,
    /// The position of the oldest unread record at the last look, and its timestamp.
    oldest: Cell<(u64, Option<u64>)>,
}

impl Ring {
    /// Attaches to a ring as its input says, under the number `id`.
    pub(crate) fn attach(
        location: &Location,
        input: &Input,
        id: u32,
        uuid: Option<[u8; 16]>,
        start: impl FnOnce(&[u8; 16]) -> Option<Start>,
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
            let start = start(&shapes.origin().uuid).unwrap_or(match input.from {
                From::Oldest => Start::Oldest,
                From::Latest => Start::Latest,
            });
            let options =
                ObserverOptions { start, trust: input.trust.trust(), ..ObserverOptions::default() };
            let observer = Observer::attach_with(location.clone(), &options)?;
            let layout = *observer.layout();
            (Box::new(observer), layout)
        } else {
            let options = ConsumerOptions {
                name: Some("perfring sidecar".to_owned()),
                trust: input.trust.trust(),
                acknowledge: Acknowledge::Explicit,
                ..ConsumerOptions::default()
            };
            let consumer = Consumer::attach_with(location.clone(), &options)?;
            copied = consumer.is_guarded();
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
            read: ResumePoint::default(),
            ends: VecDeque::new(),
            released: None,
            began: 0,
            turn: 0,
            idle: None,
            produced: false,
            removed: false,
            replaced: false,
            stage: Stage::Reading,
            figures: RingFigures::default(),
            oldest: Cell::default(),
        }
    }

    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.shapes.origin().uuid
    }

    /// Returns since when it may be removed. `is_drained` polls whether all was read.
    pub(super) fn idle_since(
        &mut self,
        now: Instant,
        is_drained: impl FnOnce() -> bool,
    ) -> Option<Instant> {
        // In this order: what was written or lost before the producer ended is seen after it.
        let idle = !self.observed
            && self.stage == Stage::Reading
            && !self.shapes.has_producer()
            && self.delivered().pos() == self.shapes.head()
            && is_drained()
            && reached(&self.delivered().saved()) == reached(&self.read.saved());
        self.idle = idle.then(|| self.idle.unwrap_or(now));
        self.idle
    }

    /// Notes that a turn has passed on everything up to this resume point.
    pub(crate) fn passed(&mut self, end: ResumePoint) {
        self.read = end;
        if self.ends.len() >= ENDS_MAX {
            let mut nth = 0;
            self.ends.retain(|_| {
                nth += 1;
                nth % 2 == 0 // the last of an even number stays
            });
        }
        self.ends.push_back(end);
    }

    /// Takes the last resume point that is not beyond this.
    pub(super) fn take_end(&mut self, upto: Reached) -> Option<ResumePoint> {
        let count = self.ends.partition_point(|end| reached(&end.saved()) <= upto);
        self.ends.drain(..count).next_back()
    }

    /// Returns whether it is read before others: as its input says, or as its name does.
    pub(super) fn class(&self) -> Class {
        match self.input.priority.unwrap_or_else(|| is_priority(&self.shapes.origin().name)) {
            true => Class::Priority,
            false => Class::Other,
        }
    }

    /// Returns whether it can be read once more.
    pub(crate) fn is_kept(&self) -> bool {
        self.location.is_some()
    }

    /// Returns the resume point up to which all is delivered: at first, where reading began.
    pub(crate) fn delivered(&self) -> ResumePoint {
        self.released.unwrap_or(self.first)
    }

    pub(crate) fn status(&self) -> RingStatus<'_> {
        RingStatus {
            origin: self.shapes.origin(),
            figures: &self.figures,
            observed: self.observed,
            copied: self.copied,
            removed: self.removed,
            priority: self.class() == Class::Priority,
            lag: self.shapes.head().saturating_sub(self.delivered().pos()),
            unread: Unread(self),
        }
    }

    /// Returns where what is unread begins.
    fn unread_from(&self) -> Option<Saved> {
        self.location.as_ref()?;
        let delivered = self.delivered().saved();
        match self.observed {
            true => Some(delivered),
            false => Some(Saved { pos: self.shapes.observer()?.released().ok()?, ..delivered }),
        }
    }

    /// Returns the timestamp of the oldest unread record. One that stays the oldest is looked for once.
    fn oldest_unread(&self) -> Option<u64> {
        let from = self.unread_from().filter(|from| from.pos < self.shapes.head())?;
        let (pos, time) = self.oldest.get();
        if pos == from.pos && time.is_some() {
            return time;
        }
        let time = if self.shapes.origin().timed { self.shapes.first_time(from) } else { None };
        self.oldest.set((from.pos, time));
        time
    }
}

impl RingFigures {
    pub(crate) fn lost(&mut self, lost: &Lost) {
        let Lost { records, bytes, cause, .. } = *lost;
        self.lose(cause, Count { records, bytes });
    }

    // A ring may report any number.
    fn lose(&mut self, cause: Cause, count: Count) {
        let sum = sum_of(&mut self.lost, cause);
        *sum = sum.plus(count);
    }

    /// Adds what another ring counted.
    pub(crate) fn add(&mut self, other: &RingFigures) {
        self.records = self.records.saturating_add(other.records);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.late = self.late.saturating_add(other.late);
        self.late_most = self.late_most.max(other.late_most);
        other.lost.iter().for_each(|(cause, count)| self.lose(*cause, *count));
    }
}
