//! The merge by time.

mod turns;

use crate::described::Described;
use crate::heap::{Heap, Next};
use crate::poll_schedule::{GroupSlot, PollSchedule};
use crate::source::{Source, SourceError};
use perfring_consumer::{Anchors, ClockError, Front, Item, MachineClock, ResumePoint};
use perfring_types::read::TypeTable;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest time between two looks at how full the rings are whose items wait, ns.
const FILL_CHECK: u64 = 100_000;
/// A stamp so far in the future is of another boot, or damage: nothing waits for its time. ns.
const FUTURE: u64 = 1_000_000_000;

/// A source of a [`Merge`], or of a [`FullestFirst`](crate::FullestFirst). No other gets the same, within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId {
    pub(crate) slot: u32,
    pub(crate) turn: u32,
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.turn)
    }
}

/// An item in its place among those of all sources.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Merged<'a> {
    /// Where it is from.
    pub source: SourceId,
    /// What it is.
    pub item: Item<'a>,
    /// Its place in time, ns of `CLOCK_BOOTTIME`: its stamp; of a ring without stamps, the time of
    /// the look that found it; of a loss, that of the item before it in its ring, or 0.
    pub time: u64,
    /// By how many ns it comes too late: something later was given before it. 0 if it does not.
    pub late: u64,
    pub(crate) described: Option<&'a Described>,
}

impl<'a> Merged<'a> {
    /// Returns the wall-clock time of the item, in ns since 1970. `None` without a timestamp, without
    /// an anchor for it, or if the source was added by [`Merge::add`].
    #[must_use]
    pub fn wall(&self) -> Option<u64> {
        let anchors = self.anchors()?;
        match self.item {
            Item::Record(record) => record.wall(anchors),
            Item::Lost(_) if self.time == 0 => None,
            Item::Lost(lost) => anchors.wall(lost.pos, self.time),
        }
    }

    /// Returns the type table of the item's ring. `None` if the source was added by [`Merge::add`].
    #[must_use]
    pub fn types(&self) -> Option<&'a Arc<TypeTable>> {
        self.described.map(Described::types)
    }

    /// Returns the clock anchors of the item's ring. `None` if the source was added by [`Merge::add`].
    #[must_use]
    pub fn anchors(&self) -> Option<&'a Anchors> {
        self.described.map(Described::anchors)
    }
}

/// What a merge did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeFigures {
    /// Records that came too late for their place.
    pub late: u64,
    /// The most that one was late, ns.
    pub late_most: u64,
    /// PollSchedule at sources.
    pub polls: u64,
    /// Times that it did not wait, as a ring was half full.
    pub hurried: u64,
}

/// Where an entry's source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is the current one, or something of it is next, in the heap.
    Active,
    /// Nothing is known of it.
    Idle(GroupSlot),
    /// It has failed.
    Finished,
}

struct Entry {
    source: Box<dyn Source>,
    /// Kept up to date by each poll that finds something, if the caller asked for it.
    described: Option<Box<Described>>,
    turn: u32,
    state: State,
    /// When it was polled at last.
    polled: u64,
    /// The time of what was taken last.
    last: u64,
    /// What stands at this position and after was published after this time.
    since: (u64, u64),
    /// Which group it is in while it is idle.
    group: u8,
}

/// Items of many sources in the order of time, none of them moved on by that: a source's items stay
/// where they are until [`Merge::release`].
///
/// A record is given at once if every source has something, and its stamp is the least. Else it waits
/// until each source that has nothing was polled at half of the delay after its stamp; which is the
/// case after the whole delay at the latest. So:
///
/// * What is published within half of the delay after it was stamped is given in its place: times
///   do not go down.
/// * Between its stamp and its coming out lies at most the delay, as long as the caller asks often
///   enough and does not take more time for what comes out than there is. What has no
///   stamp may take twice the delay: it counts from the look that found it.
/// * What comes later than that is given at once, and says by how much it is late.
/// * Stamps that are made up keep no other source waiting: where what is next was published after a look
///   and is older than that by more than the delay, or of the future, its source waits for its next look.
///
/// A ring must hold what its producer writes in the delay, and what the caller has not released. When
/// one that has waiting items is half full, the merge does not wait longer: it looks at all sources
/// and gives what was stamped until then. Only what was stamped and not published at that moment
/// comes late.
///
/// ```
/// use perfring_consumer::{Consumer, Item};
/// use perfring_set::Merge;
/// use std::time::Duration;
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let options = Options { time: true, ..Options::default() };
/// # let paths = ["a", "b"].map(|name| dir.path().join(name));
/// # let mut a = Producer::create(&paths[0], &options)?;
/// # let mut b = Producer::create(&paths[1], &options)?;
/// # for n in 0..4u8 { [&mut a, &mut b][usize::from(n % 2)].publish(&[n])?; }
/// let mut merge = Merge::new(Duration::from_millis(20))?;
/// for path in &paths {
///     merge.add(Box::new(Consumer::attach(path)?));
/// }
/// let mut seen = Vec::new();
/// while seen.len() < 4 {
///     match merge.next() {
///         Ok(Some(merged)) => {
///             let Item::Record(record) = merged.item else { continue };
///             seen.push(record.bytes[0]); // borrowed from its ring
///             let source = merged.source;
///             if let Some(resume_point) = merge.resume_point(source) {
///                 merge.release(source, &resume_point); // now, or later
///             }
///         }
///         Ok(None) => {
///             merge.wait(Duration::from_millis(100));
///         }
///         Err((source, error)) => eprintln!("{source}: {error}"), // the others go on
///     }
/// }
/// assert_eq!(seen, [0, 1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Merge {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    turns: u32,
    heap: Heap,
    schedule: PollSchedule,
    /// The source whose turn it is, and the time of what is next in it.
    current: Option<u32>,
    has_front: bool,
    time: u64,
    /// Up to here, and not at it, the turn goes on.
    below: u64,
    /// The greatest time given so far.
    newest: u64,
    /// Beyond this lies the future, at the last look.
    ceiling: u64,
    /// What was stamped until then is given, waited for or not.
    hurry: u64,
    /// When to look next at how full the rings are whose items wait, and how long after the last.
    fills_at: u64,
    fills_after: u64,
    failed: VecDeque<(SourceId, SourceError)>,
    figures: MergeFigures,
    clock: Box<dyn Fn() -> u64 + Send>,
}

impl fmt::Debug for Merge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.entries.iter().flatten().count();
        f.debug_struct("Merge").field("sources", &sources).finish_non_exhaustive()
    }
}

impl Merge {
    /// A merge that holds records back for at most `delay`; at least 0.2 ms.
    ///
    /// # Errors
    /// [`ClockError`] where this process does not know the clock that stamps are of.
    pub fn new(delay: Duration) -> Result<Self, ClockError> {
        let clock = MachineClock::find()?;
        Ok(Self::with_clock(delay, move || clock.now_ns()))
    }

    /// As [`Merge::new`], by another clock, ns: it must be the one that stamps are of.
    pub fn with_clock(delay: Duration, clock: impl Fn() -> u64 + Send + 'static) -> Self {
        Merge {
            entries: Vec::new(),
            free: Vec::new(),
            turns: 0,
            heap: Heap::default(),
            schedule: PollSchedule::new(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)),
            current: None,
            has_front: false,
            time: 0,
            below: 0,
            newest: 0,
            ceiling: 0,
            hurry: 0,
            fills_at: 0,
            fills_after: FILL_CHECK,
            failed: VecDeque::new(),
            figures: MergeFigures::default(),
            clock: Box::new(clock),
        }
    }

    /// Adds a source, and polls it. What it has that is older than what was given comes late.
    pub fn add(&mut self, source: Box<dyn Source>) -> SourceId {
        self.add_with(source, None)
    }

    /// Adds a source as [`Merge::add`] does, and keeps a copy of its type table and clock anchors:
    /// [`Merged::wall`] and [`Merged::types`] need them.
    pub fn add_described(&mut self, source: Box<dyn Source>) -> SourceId {
        let described = Described::new(source.as_ref());
        self.add_with(source, Some(Box::new(described)))
    }

    fn add_with(&mut self, source: Box<dyn Source>, described: Option<Box<Described>>) -> SourceId {
        self.turns = self.turns.wrapping_add(1);
        let entry = Entry {
            source,
            described,
            turn: self.turns,
            state: State::Finished,
            polled: 0,
            last: 0,
            since: (u64::MAX, 0),
            group: self.schedule.fastest(),
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.entries.push(None);
                self.entries.len() as u32 - 1
            }
        };
        let id = SourceId { slot, turn: entry.turn };
        self.entries[slot as usize] = Some(entry);
        let now = self.now();
        match self.poll_source(slot, now) {
            Some(time) => {
                self.set_state(slot, State::Active);
                self.heap.push(Next::new(time, slot));
            }
            None => self.rest(slot),
        }
        self.below = 0; // the turn ends: the new one may be before it
        id
    }

    /// Takes a source out, whatever is left in it.
    pub fn remove(&mut self, id: SourceId) -> Option<Box<dyn Source>> {
        self.entry(id)?;
        let entry = self.entries[id.slot as usize].take()?;
        match entry.state {
            State::Active if self.current == Some(id.slot) => self.end_turn(),
            State::Active => self.heap.remove(id.slot),
            State::Idle(member) => self.leave(member),
            State::Finished => {}
        }
        self.below = 0;
        self.schedule.set_horizon();
        self.free.push(id.slot);
        Some(entry.source)
    }

    /// The next item whose time has come; `None` if there is none now: then [`Merge::wait`].
    ///
    /// # Errors
    /// What a source has failed with: told once, and the others go on.
    #[inline]
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> Result<Option<Merged<'_>>, (SourceId, SourceError)> {
        if self.time >= self.below && !self.choose() {
            return self.failed.pop_front().map_or(Ok(None), Err);
        }
        let slot = self.current.unwrap_or_default();
        let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::as_mut) else {
            return Ok(None);
        };
        let (source, time) = (SourceId { slot, turn: entry.turn }, self.time);
        match entry.source.take() {
            Ok(Some((item, front))) => {
                entry.last = time;
                match front {
                    Front::Timestamped(timestamp) => self.time = timestamp,
                    Front::Plain => self.time = entry.polled,
                    Front::Lost => {}
                    Front::Empty => (self.has_front, self.below) = (false, 0),
                    Front::More => (self.has_front, self.below, entry.polled) = (false, 0, 0),
                }
                let mut late = 0;
                if time >= self.newest {
                    // What is of the future would make everything late.
                    if time <= self.ceiling {
                        self.newest = time;
                    }
                } else if matches!(item, Item::Record(_)) {
                    late = self.newest - time;
                    self.figures.late += 1;
                    self.figures.late_most = self.figures.late_most.max(late);
                }
                let described = entry.described.as_deref();
                Ok(Some(Merged { source, item, time, late, described }))
            }
            Ok(None) => {
                (self.has_front, self.below) = (false, 0);
                Ok(None)
            }
            Err(error) => {
                (entry.state, entry.group) = (State::Finished, u8::MAX);
                (self.current, self.has_front, self.below) = (None, false, 0);
                Err((source, error))
            }
        }
    }

    /// Sleeps until there may be something, for at most `timeout`: wakes up for the looks that are
    /// due, and sleeps on if they find nothing. Returns whether there is.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let since = Instant::now();
        loop {
            if self.is_ready() {
                return true;
            }
            let now = self.now();
            let polled = self.poll_due(now) || self.is_filling_up(now);
            // Also if there is always something to look at, as with very many rings.
            let left = timeout.saturating_sub(since.elapsed());
            if left.is_zero() {
                return self.is_ready();
            }
            if polled {
                continue;
            }
            std::thread::sleep(self.due_at(now).map_or(left, |due| due.min(left)));
        }
    }

    /// How long there is nothing to do, for those who sleep elsewhere: until the next look is due.
    /// Zero if there is something now, `None` if there are no sources.
    pub fn due(&mut self) -> Option<Duration> {
        if self.is_ready() {
            return Some(Duration::ZERO);
        }
        let now = self.now();
        self.due_at(now)
    }

    fn due_at(&self, now: u64) -> Option<Duration> {
        let waits = self.has_front || self.heap.first().is_some();
        let next = self.schedule.next().into_iter().chain(waits.then_some(self.fills_at)).min();
        next.map(|due| Duration::from_nanos(due.saturating_sub(now)))
    }

    /// The place after everything that was taken from a source.
    #[must_use]
    #[inline]
    pub fn resume_point(&self, id: SourceId) -> Option<ResumePoint> {
        Some(self.entry(id)?.source.resume_point())
    }

    /// Gives back what stands before a mark of this source, in its ring.
    pub fn release(&mut self, id: SourceId, resume_point: &ResumePoint) {
        if let Some(source) = self.source_mut(id) {
            source.release(resume_point);
        }
    }

    /// A source, to ask it something.
    #[must_use]
    pub fn source(&self, id: SourceId) -> Option<&dyn Source> {
        Some(self.entry(id)?.source.as_ref())
    }

    fn source_mut(&mut self, id: SourceId) -> Option<&mut Box<dyn Source>> {
        let entry = self.entries.get_mut(id.slot as usize)?.as_mut()?;
        (entry.turn == id.turn).then_some(&mut entry.source)
    }

    /// PollSchedule at a source now. Returns whether all that is in it was taken; of one that has failed,
    /// all is.
    pub fn is_drained(&mut self, id: SourceId) -> bool {
        let Some(state) = self.entry(id).map(|entry| entry.state) else { return true };
        match state {
            State::Active => self.current == Some(id.slot) && !self.has_front && !self.settle(),
            State::Finished => true,
            State::Idle(member) => {
                let now = self.now();
                let found = self.poll_source(id.slot, now);
                if let Some(time) = found {
                    self.rouse(member, time);
                }
                found.is_none()
            }
        }
    }

    /// The sources.
    pub fn sources(&self) -> impl Iterator<Item = (SourceId, &dyn Source)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| {
            let entry = entry.as_ref()?;
            Some((SourceId { slot: slot as u32, turn: entry.turn }, entry.source.as_ref()))
        })
    }

    /// What it did so far.
    #[must_use]
    pub fn figures(&self) -> MergeFigures {
        self.figures
    }

    fn entry(&self, id: SourceId) -> Option<&Entry> {
        let entry = self.entries.get(id.slot as usize)?.as_ref()?;
        (entry.turn == id.turn).then_some(entry)
    }

    fn now(&mut self) -> u64 {
        let now = (self.clock)();
        self.ceiling = now.saturating_add(FUTURE);
        now
    }
}
