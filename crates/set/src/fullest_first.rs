//! The items of many sources, from the fullest ring first.

use crate::merged::{Merged, SourceId};
use crate::sleep_on_all::sleep_on_all;
use crate::source::{Source, SourceError};
use perfring_consumer::advanced::{Front, ResumePoint};
use perfring_consumer::{Item, stat::Fill};
use std::cmp::Ordering;
use std::time::{Duration, Instant};

/// A source's turn ends after this fraction of its ring.
const TURN: u64 = 16;
/// The pause between two polls that find nothing, at first, and at most.
const PAUSE: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(10);

struct PolledSource {
    id: SourceId,
    source: Box<dyn Source>,
    polled: bool,
    finished: bool,
}

/// Returns the items of many sources, from the fullest ring first: for readers that must prevent
/// overflow, and do not need an order.
///
/// The ring that is fullest, relative to its size, has the next turn, for a sixteenth of the ring. A loss is
/// returned as soon as it is found. Each choice polls all rings. Items fill their ring until [`FullestFirst::release`]: release often.
///
/// ```
/// use perfring_consumer::{Consumer, Item};
/// use perfring_set::FullestFirst;
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let paths = ["a", "b"].map(|name| dir.path().join(name));
/// # let mut a = Producer::create(&paths[0], &Options::default())?;
/// # let mut b = Producer::create(&paths[1], &Options::default())?;
/// # a.publish(&[1])?;
/// # for _ in 0..9 { b.publish(&[2])?; }
/// let mut fullest = FullestFirst::new();
/// for path in &paths {
///     fullest.add(Box::new(Consumer::attach(path)?));
/// }
/// let mut seen = Vec::new();
/// while let Some(merged) = fullest.next().map_err(|(_, error)| error)? {
///     let Item::Record(record) = merged.item else { continue };
///     seen.push(record.bytes[0]);
///     let source = merged.source;
///     if let Some(resume_point) = fullest.resume_point(source) {
///         fullest.release(source, &resume_point);
///     }
/// }
/// assert_eq!(seen, [2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct FullestFirst {
    entries: Vec<PolledSource>,
    turns: u32,
    /// The current source, and the position at which its turn ends.
    turn: Option<(usize, u64)>,
}

impl std::fmt::Debug for FullestFirst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FullestFirst").field("sources", &self.entries.len()).finish_non_exhaustive()
    }
}

impl FullestFirst {
    /// Creates one without sources.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source.
    pub fn add(&mut self, source: Box<dyn Source>) -> SourceId {
        self.turns = self.turns.wrapping_add(1);
        let id = SourceId { slot: self.turns, turn: self.turns };
        self.entries.push(PolledSource { id, source, polled: false, finished: false });
        id
    }

    /// Removes and returns a source, with the items that are left in it.
    pub fn remove(&mut self, id: SourceId) -> Option<Box<dyn Source>> {
        let at = self.entries.iter().position(|entry| entry.id == id)?;
        self.turn = None;
        Some(self.entries.swap_remove(at).source)
    }

    /// Returns the next item of the fullest ring, or `None` if all are empty. Its time is its timestamp, or
    /// 0.
    ///
    /// # Errors
    /// The error of a source that has failed. It is returned once, and the other sources continue to be read.
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> Result<Option<Merged<'_>>, (SourceId, SourceError)> {
        let at = match self.turn {
            Some((at, _)) => at,
            None => match self.choose()? {
                Some(at) => at,
                None => return Ok(None),
            },
        };
        let Some(entry) = self.entries.get_mut(at) else { return Ok(None) };
        let end = self.turn.map_or(0, |(_, end)| end);
        match entry.source.take() {
            Ok(Some((item, front))) => {
                let (pos, time) = match &item {
                    Item::Record(record) => {
                        (record.pos + 8 + record.bytes.len() as u64, record.time)
                    }
                    Item::Lost(lost) => (lost.pos, None),
                };
                entry.polled = front != Front::Empty;
                if front == Front::Empty || pos >= end {
                    self.turn = None;
                }
                let time = time.unwrap_or(0);
                Ok(Some(Merged { source: entry.id, item, time, late: 0, described: None }))
            }
            Ok(None) => {
                (entry.polled, self.turn) = (false, None);
                Ok(None)
            }
            Err(error) => {
                (entry.finished, self.turn) = (true, None);
                Err((entry.id, error))
            }
        }
    }

    /// Makes the fullest source the current one.
    fn choose(&mut self) -> Result<Option<usize>, (SourceId, SourceError)> {
        let mut most: Option<(Fill, usize)> = None;
        for (at, entry) in self.entries.iter_mut().enumerate().filter(|(_, e)| !e.finished) {
            if !entry.polled {
                let polled = entry.source.peek();
                entry.finished = polled.is_err();
                let front = polled.map_err(|error| (entry.id, error))?;
                entry.polled = front != Front::Empty;
                if front == Front::Lost {
                    // It takes no turn: the ring may be empty, and the others never.
                    self.turn = Some((at, 0));
                    return Ok(Some(at));
                }
            }
            if entry.polled {
                let fill = entry.source.fill();
                if most.is_none_or(|(most, _)| compare(&fill, &most) == Ordering::Greater) {
                    most = Some((fill, at));
                }
            }
        }
        let Some((fill, at)) = most else { return Ok(None) };
        let from = self.entries.get(at).map_or(0, |entry| entry.source.resume_point().pos());
        self.turn = Some((at, from.saturating_add(fill.size / TURN)));
        Ok(Some(at))
    }

    /// Waits until there may be an item, for at most `timeout`. Returns whether there is. It sleeps on up to 128 rings at
    /// once, if all sources are consumers (Linux 5.16); otherwise with pauses that grow up to 10 ms, and a ring must hold
    /// the records that its producer writes in a pause.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let since = Instant::now();
        let mut pause = PAUSE;
        loop {
            // `next` polls as well, and returns the error of a source that fails here.
            if self.turn.is_some() || self.entries.iter_mut().any(PolledSource::has_something) {
                return true;
            }
            let left = timeout.saturating_sub(since.elapsed());
            if left.is_zero() {
                return false;
            }
            let entries = self.entries.iter_mut().filter(|entry| !entry.finished);
            if !sleep_on_all(entries.map(|entry| &mut entry.source).collect(), left) {
                std::thread::sleep(pause.min(left));
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Returns the point after everything that was taken from a source.
    #[must_use]
    pub fn resume_point(&self, id: SourceId) -> Option<ResumePoint> {
        self.entries.iter().find(|entry| entry.id == id).map(|entry| entry.source.resume_point())
    }

    /// Releases everything before a resume point of this source, in its ring.
    pub fn release(&mut self, id: SourceId, resume_point: &ResumePoint) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
            entry.source.release(resume_point);
        }
    }
}

impl PolledSource {
    fn has_something(&mut self) -> bool {
        if !self.polled && !self.finished {
            match self.source.peek() {
                Ok(front) => self.polled = front != Front::Empty,
                Err(_) => return true,
            }
        }
        self.polled
    }
}

/// Compares how full two rings are, relative to their sizes.
fn compare(one: &Fill, other: &Fill) -> Ordering {
    let part = |of: &Fill, size: u64| u128::from(of.unread + of.held) * u128::from(size.max(1));
    part(one, other.size).cmp(&part(other, one.size))
}
