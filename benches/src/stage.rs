//! The synchronization of a sample's parts: words of a shared page for fast steps, and messages to
//! and from the conductor where a part may sleep.

use crate::drive::poll_until;
use crate::error::{Result, system};
use crate::part::{Found, SENDERS_MAX, Word};
use crate::raw::Mapping;
use nix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Words of the page, on lines of their own.
const GO: usize = 16;
const LINE: usize = 32;
const DONE: usize = 48;
/// For parts that go through several channels, one after the other: see [`Mark`].
const MARKS: usize = 64;
/// What each sender has sent.
const SENT: usize = 160;
/// The mapping has a data area, which is unused.
const UNUSED: u64 = 1 << 16;

/// Returns nanoseconds of a clock that all processes share.
pub fn now_ns() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(system("clock_gettime"))?;
    Ok(u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX))
}

/// The progress of one end, signalled to the other.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// The channel is created.
    Created,
    /// The reading end is open.
    Opened,
    /// All was read.
    Read,
    /// The writing end is closed.
    Closed,
}

/// The shared page.
pub struct Page {
    map: Mapping,
}

impl Page {
    /// Creates the page.
    pub fn create(path: &Path) -> Result<Self> {
        Mapping::create(path, UNUSED)?;
        Self::open(path)
    }

    /// Maps the page.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Page { map: Mapping::open(path, UNUSED)? })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // All are constants within the page except the sender's index, which is bounded.
        self.map.words().get(at).unwrap_or(&self.map.words()[0])
    }

    /// Starts all parts.
    pub fn go(&self) {
        self.word(GO).store(1, Ordering::Release);
    }

    /// Returns the cache line that goes back and forth.
    pub fn line(&self) -> &AtomicU64 {
        self.word(LINE)
    }
}

/// The page, and the connection to the conductor.
pub struct Stage<'a> {
    page: Page,
    say: Box<dyn Fn(Word) -> Result<()> + 'a>,
    listen: Box<dyn Fn() -> Result<()> + 'a>,
}

impl<'a> Stage<'a> {
    /// Creates a stage: `listen` returns when the conductor wants to continue.
    pub fn new(
        page: Page,
        say: impl Fn(Word) -> Result<()> + 'a,
        listen: impl Fn() -> Result<()> + 'a,
    ) -> Self {
        Stage { page, say: Box::new(say), listen: Box::new(listen) }
    }

    /// Signals that what must exist before the ends is created, and waits until that is so
    /// everywhere.
    pub fn created(&self) -> Result<()> {
        (self.say)(Word::Created)?;
        (self.listen)()
    }

    /// Signals that this end is open, waits for the start, and returns its time.
    pub fn ready(&self) -> Result<u64> {
        (self.say)(Word::Ready)?;
        poll_until(|| self.page.word(GO).load(Ordering::Acquire) == 1);
        now_ns()
    }

    /// Reports the results, and waits until all others have done so, too.
    pub fn done(&self, found: Found) -> Result<()> {
        (self.say)(Word::Done(Box::new(found)))?;
        (self.listen)()
    }

    /// Signals that this sender has sent so many records and is done.
    pub fn sent(&self, index: usize, records: u64) {
        self.sent_word(index).store(records, Ordering::Relaxed);
        self.page.word(DONE).fetch_add(1, Ordering::Release);
    }

    fn sent_word(&self, index: usize) -> &AtomicU64 {
        self.page.word(SENT + index % SENDERS_MAX)
    }

    /// Returns whether so many senders are done.
    #[inline(always)]
    pub fn all_sent(&self, senders: usize) -> bool {
        self.page.word(DONE).load(Ordering::Acquire) == senders as u64
    }

    /// Returns what this sender has sent, once it is done.
    pub fn sent_by(&self, index: usize) -> u64 {
        self.sent_word(index).load(Ordering::Relaxed)
    }

    /// Returns the cache line that goes back and forth.
    pub fn line(&self) -> &AtomicU64 {
        self.page.line()
    }

    /// Signals progress to the other end.
    pub fn mark(&self, mark: Mark, turn: u64) {
        self.mark_word(mark).store(turn, Ordering::Release);
    }

    /// Waits for the other end's progress.
    pub fn until(&self, mark: Mark, turn: u64) {
        let word = self.mark_word(mark);
        poll_until(|| word.load(Ordering::Acquire) >= turn);
    }

    fn mark_word(&self, mark: Mark) -> &AtomicU64 {
        self.page.word(MARKS + 16 * mark as usize)
    }
}
