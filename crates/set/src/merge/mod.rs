//! The items of many sources in the order of time.

mod asleep;
mod requests;
mod turns;

use crate::described::Described;
use crate::heap::{Heap, TimedSource};
use crate::merged::{Merged, SourceId};
use crate::poll_schedule::{GroupSlot, PollSchedule};
use crate::source::{Source, SourceError};
use perfring_consumer::advanced::{Front, ResumePoint};
use perfring_consumer::{Item, advanced::MachineClock, error::ClockError};
use requests::Asleep;
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// The shortest interval between two checks of how full the rings with waiting items are, ns.
const FILL_CHECK: u64 = 100_000;
/// A timestamp this far in the future, in ns, is of another boot, or damaged: nothing waits for it.
const FUTURE: u64 = 1_000_000_000;

/// Counters of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeFigures {
    /// Records that came too late for their order.
    pub late: u64,
    /// The most that a record was late, ns.
    pub late_most: u64,
    /// Polls of sources.
    pub polls: u64,
    /// Times that it did not hold records back, because a ring was half full.
    pub hurried: u64,
}

/// The state of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has items: it is the current source, or in the heap.
    Active,
    /// It has no known items: it is in the poll schedule.
    Idle(GroupSlot),
    /// It has failed.
    Finished,
}

struct MergeEntry {
    source: Box<dyn Source>,
    /// Kept up to date by each poll that finds something, if the caller asked for it.
    described: Option<Box<Described>>,
    turn: u32,
    state: State,
    /// When it was polled last.
    polled: u64,
    /// The time of the item that was taken last.
    last: u64,
    /// Records from this position on were published after this time.
    since: (u64, u64),
    /// The time before which losses at the end are not looked for.
    gathers: u64,
    /// Its group in the poll schedule while it is idle.
    group: u8,
    /// There is a request for its wake.
    requested: bool,
}

/// Returns the items of many sources in the order of time. Items stay in their rings until
/// [`Merge::release`].
///
/// [`Merge::follow`] merges the rings of a directory. This type is for sources that the caller adds itself.
///
/// A record is returned at once if every source has items and its timestamp is the least. Otherwise it waits
/// until each source without items was polled half of the delay after its timestamp, which takes the whole
/// delay at most. The consequences:
///
/// * Records that are published within half of the delay after their timestamp are returned in order.
/// * A record is returned at most the delay after its timestamp, if the caller reads often and fast enough.
///   In a ring without timestamps it may take twice the delay, because the time is that of a poll.
/// * A record that comes later is returned at once, with its lateness.
/// * Invalid timestamps delay no other source. If a source's next record was published after a poll, and is
///   older than the poll by more than the delay, or of the future, the source waits for its next poll.
///
/// A ring must hold the records that its producer writes during the delay, and the unreleased records. If a
/// ring with waiting items is half full, the merge stops holding back: it polls all sources and returns
/// everything up to that moment. Only records that were reserved and not published at that moment are late.
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
    entries: Vec<Option<MergeEntry>>,
    free: Vec<u32>,
    turns: u32,
    heap: Heap,
    schedule: PollSchedule,
    /// The current source, and the time of its next item.
    current: Option<u32>,
    has_front: bool,
    time: u64,
    /// The current source stays the current one before this time.
    below: u64,
    /// The greatest time returned so far.
    newest: u64,
    /// Times beyond this are of the future, as of the last poll.
    ceiling: u64,
    /// Items up to this time are returned without waiting.
    hurry: u64,
    /// When to check next how full the rings with waiting items are, and the interval.
    fills_at: u64,
    fills_after: u64,
    failed: VecDeque<(SourceId, SourceError)>,
    figures: MergeFigures,
    asleep: Asleep,
    /// Until this time, losses of some source do not end a sleep.
    gathers: u64,
    clock: Box<dyn Fn() -> u64 + Send>,
}

impl fmt::Debug for Merge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.entries.iter().flatten().count();
        f.debug_struct("Merge").field("sources", &sources).finish_non_exhaustive()
    }
}

impl Merge {
    /// Creates a merge that holds records back for at most `delay`, and at least 0.2 ms.
    ///
    /// # Errors
    /// [`ClockError`] if this process cannot read the clock of the timestamps.
    pub fn new(delay: Duration) -> Result<Self, ClockError> {
        let clock = MachineClock::find()?;
        Ok(Self::with_clock(delay, move || clock.now_ns()))
    }

    /// Creates a merge with another clock, in ns: it must be the clock of the timestamps.
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
            asleep: Asleep::default(),
            gathers: 0,
            clock: Box::new(clock),
        }
    }

    /// Adds a source, and polls it. Its items that are older than returned items are late.
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
        let entry = MergeEntry {
            source,
            described,
            turn: self.turns,
            state: State::Finished,
            polled: 0,
            last: 0,
            since: (u64::MAX, 0),
            gathers: 0,
            group: self.schedule.fastest(),
            requested: false,
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
                self.heap.push(TimedSource::new(time, slot));
            }
            None => self.rest(slot),
        }
        self.below = 0; // the turn ends: the new one may be before it
        id
    }

    /// Removes and returns a source, with the items that are left in it.
    pub fn remove(&mut self, id: SourceId) -> Option<Box<dyn Source>> {
        self.entry(id)?;
        let mut entry = self.entries[id.slot as usize].take()?;
        self.forget(id.slot, &mut entry);
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

    /// Returns the next item that is due, or `None` if no item is due now: then call
    /// [`Merge::wait`].
    ///
    /// # Errors
    /// The error of a source that has failed. It is returned once, and the other sources continue to be read.
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
                    // A time of the future would make all others late.
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

    /// Sleeps until there may be an item, for at most `timeout`. Returns whether there is. While no item waits to be
    /// returned it sleeps on all rings at once, if all sources are consumers: a publish wakes it. (That needs Linux 5.16
    /// for 128 rings, and for more of them 6.7 and a process that may make an io_uring.) Otherwise it wakes up for polls
    /// that are due, and sleeps again if they find nothing.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let since = Instant::now();
        loop {
            if self.is_ready() {
                return true;
            }
            // Before the poll: the last poll comes after the end of the time, and finds everything that was due before it.
            let left = timeout.saturating_sub(since.elapsed());
            let now = self.now();
            let polled = self.poll_due(now) || self.is_filling_up(now);
            // Also if a poll is always due, as with very many rings.
            if left.is_zero() {
                return self.is_ready();
            }
            if polled {
                continue;
            }
            self.sleep(left, now);
        }
    }

    /// Returns the time until the next poll is due, for callers that sleep by other means. Zero if there is
    /// something now, `None` without sources.
    pub fn due(&mut self) -> Option<Duration> {
        if self.is_ready() {
            return Some(Duration::ZERO);
        }
        self.poll_by_schedule();
        let now = self.now();
        self.due_at(now)
    }

    fn due_at(&self, now: u64) -> Option<Duration> {
        let waits = self.has_front || self.heap.first().is_some();
        let next = self.schedule.next().into_iter().chain(waits.then_some(self.fills_at)).min();
        next.map(|due| Duration::from_nanos(due.saturating_sub(now)))
    }

    /// Returns the point after everything that was taken from a source.
    #[must_use]
    #[inline]
    pub fn resume_point(&self, id: SourceId) -> Option<ResumePoint> {
        Some(self.entry(id)?.source.resume_point())
    }

    /// Releases everything before a resume point of this source, in its ring.
    pub fn release(&mut self, id: SourceId, resume_point: &ResumePoint) {
        if let Some(source) = self.source_mut(id) {
            source.release(resume_point);
        }
    }

    /// Returns a source.
    #[must_use]
    pub fn source(&self, id: SourceId) -> Option<&dyn Source> {
        Some(self.entry(id)?.source.as_ref())
    }

    fn source_mut(&mut self, id: SourceId) -> Option<&mut Box<dyn Source>> {
        let entry = self.entries.get_mut(id.slot as usize)?.as_mut()?;
        (entry.turn == id.turn).then_some(&mut entry.source)
    }

    /// Polls a source now. Returns whether everything in it was taken. A source that has failed is drained.
    pub fn is_drained(&mut self, id: SourceId) -> bool {
        if self.current == Some(id.slot) && !self.has_front {
            self.settle(); // which polls it not always
        }
        if let Some(Some(entry)) = self.entries.get_mut(id.slot as usize) {
            entry.gathers = 0;
        }
        match self.entry(id).map(|entry| entry.state) {
            Some(State::Active) => false,
            Some(State::Finished) | None => true,
            Some(State::Idle(member)) => {
                let now = self.now();
                let found = self.poll_source(id.slot, now);
                if let Some(time) = found {
                    self.rouse(member, time);
                }
                found.is_none()
            }
        }
    }

    /// Returns the sources.
    pub fn sources(&self) -> impl Iterator<Item = (SourceId, &dyn Source)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| {
            let entry = entry.as_ref()?;
            Some((SourceId { slot: slot as u32, turn: entry.turn }, entry.source.as_ref()))
        })
    }

    /// Returns the counters.
    #[must_use]
    pub fn figures(&self) -> MergeFigures {
        self.figures
    }

    fn entry(&self, id: SourceId) -> Option<&MergeEntry> {
        let entry = self.entries.get(id.slot as usize)?.as_ref()?;
        (entry.turn == id.turn).then_some(entry)
    }

    fn now(&mut self) -> u64 {
        let now = (self.clock)();
        self.ceiling = now.saturating_add(FUTURE);
        now
    }
}
