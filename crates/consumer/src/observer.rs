//! The observer of a ring.

use crate::item::{Item, RecordRef, item};
use crate::options::ObserverOptions;
use crate::snapshot::Snapshot;
use crate::stat::Stat;
use crate::tick::Tick;
use crate::wait_strategy::{Distance, SPIN, WaitStrategy, left};
use perfring_ring::{Count, ReadError, Saved, Start};
use perfring_shm::{AttachError, CopyWindow, Location, ObserverMapping};
use std::time::{Duration, Instant};

/// The longest pause between two polls of a waiting observer.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Watches a ring through a read-only mapping, which no other process can detect. Any number can
/// watch a ring. Every record is a copy that was checked to be whole.
///
/// It waits for no process, and no process waits for it. But it shares cache lines with the
/// producer, and an observer that follows a producer publishing as fast as it can slows that
/// producer (`benches/RESULTS.md` has by how much). A producer below its limit is not slowed.
///
/// An observer that is too slow is lapped: it gets an [`Item::Lost`] with the exact number of
/// records and bytes, and continues from the oldest valid record.
#[derive(Debug)]
pub struct Observer {
    pub(crate) window: CopyWindow<ObserverMapping>,
    wait_strategy: WaitStrategy,
    distance: Distance,
    removal: Tick,
    losses: Tick,
}

impl Observer {
    /// Opens a ring, also a dead process's, to watch it from its oldest record, from now on, or
    /// from where an earlier observer of the same ring left off.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(location: impl Into<Location>, start: Start) -> Result<Self, AttachError> {
        Self::attach_with(location, &ObserverOptions { start, ..ObserverOptions::default() })
    }

    /// Opens a ring with these options, including the ring of a dead process.
    ///
    /// ```
    /// # use perfring_consumer::{Observer, ObserverOptions, Start, Trust};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # let mut producer = Producer::create(&path, &Options::default())?;
    /// let options = ObserverOptions { trust: Trust::Nobody, ..ObserverOptions::default() };
    /// let observer = Observer::attach_with(&path, &options)?;
    /// # assert_eq!(observer.saved().pos, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`AttachError`]; with [`Trust::Nobody`](crate::Trust::Nobody) also
    /// [`AttachError::TooLargeToCopy`].
    pub fn attach_with(
        location: impl Into<Location>,
        options: &ObserverOptions,
    ) -> Result<Self, AttachError> {
        let &ObserverOptions { start, trust, wait } = options;
        let window = CopyWindow::watch(ObserverMapping::open_with(location, trust)?, start)?;
        let distance = Distance::of_observer(window.mapping().file().layout().data_size);
        let (removal, losses) = Default::default();
        Ok(Observer { window, wait_strategy: wait, distance, removal, losses })
    }

    /// Makes another observer of the same ring, also if its file was removed or replaced meanwhile.
    ///
    /// ```
    /// # use perfring_consumer::{Item, Observer, Start};
    /// # use perfring_producer::{Options, Producer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// # Producer::create(&path, &Options::default())?.publish(b"x")?;
    /// let observer = Observer::attach(&path, Start::Latest)?;
    /// std::fs::remove_file(&path)?;
    /// let mut other = observer.again(Start::Oldest)?;
    /// assert!(matches!(other.read()?, Some(Item::Record(record)) if record.bytes == b"x"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AttachError`]: it cannot be mapped again, or is damaged at the position to start from.
    pub fn again(&self, start: Start) -> Result<Self, AttachError> {
        let window = CopyWindow::watch(self.window.mapping().again()?, start)?;
        let distance = Distance::of_observer(window.mapping().file().layout().data_size);
        let (removal, losses) = Default::default();
        let wait_strategy = self.wait_strategy;
        Ok(Observer { window, wait_strategy, distance, removal, losses })
    }

    /// Returns the next item, or `None` if the ring has nothing more now. Does not wait, except for the short
    /// pause of its [`WaitStrategy`] between two polls of a busy ring.
    ///
    /// # Errors
    /// [`ReadError`]. [`ReadError::Removed`] is returned only in place of `None`, once a wait has
    /// found the ring's file removed or replaced.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Item<'_>>, ReadError> {
        match self.window.next_fast() {
            Ok((frame, bytes)) => Ok(Some(Item::Record(RecordRef::new(&frame, bytes)))),
            Err(window) => read_rest(window, self.wait_strategy, &mut self.distance),
        }
    }

    /// Passes all items that are present now to `visit`, and returns their number. For small records this is faster than a
    /// loop of [`Observer::read`]. It polls the ring once, so it ends even if a producer keeps
    /// publishing.
    ///
    /// Each item counts as read when `visit` returns. If `visit` panics, some of the items that it has seen are returned
    /// again.
    ///
    /// # Errors
    /// [`ReadError`]; items that were visited before count as read.
    #[inline(always)]
    pub fn drain(&mut self, mut visit: impl FnMut(Item<'_>)) -> Result<u64, ReadError> {
        let (mut count, mut polled) = (0, false);
        loop {
            count += self.window.visit_copied(|frame, bytes| {
                visit(Item::Record(RecordRef::new(frame, bytes)));
            });
            let must_poll = self.window.observer().must_poll();
            if must_poll && std::mem::replace(&mut polled, true) {
                while let Some(lost) = self.window.lost() {
                    visit(Item::Lost(lost));
                    count += 1;
                }
                return Ok(count);
            }
            match read_rest(&mut self.window, self.wait_strategy, &mut self.distance) {
                Ok(Some(item)) => visit(item),
                Ok(None) => return Ok(count),
                // The next call returns it.
                Err(ReadError::Removed) if count > 0 => return Ok(count),
                Err(error) => return Err(error),
            }
            count += 1;
        }
    }

    /// Waits until there may be something to read, for at most `timeout`. Returns whether there is.
    /// An observer writes nothing, so it cannot ask to be woken: it polls, first all the time, then
    /// less and less often, down to once in 10 ms. It also returns `true` if the ring's file was
    /// removed or replaced, which it checks once a second: [`Observer::read`] then returns that
    /// error.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let (window, losses) = (&mut self.window, &mut self.losses);
        let is_behind = |window: &CopyWindow<ObserverMapping>| {
            window.mapping().head() != window.observer().saved().pos
        };
        if self.distance.spin(self.wait_strategy, timeout.min(SPIN), |_| is_behind(window)) {
            return true;
        }
        let mut pause = SPIN;
        while !(is_behind(window) || losses.is_due() && window.has_lost()) {
            if check_removed(&mut self.removal, window) {
                break;
            }
            let Some(left) = left(deadline) else { return false };
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSE_MAX);
        }
        true
    }

    pub(crate) fn check_removed(&mut self) -> bool {
        check_removed(&mut self.removal, &self.window)
    }

    /// Returns where this observer would continue: for [`Start::At`].
    #[must_use]
    pub fn saved(&self) -> Saved {
        self.window.observer().saved()
    }

    /// Returns how many records were overwritten before this observer read them.
    #[must_use]
    pub fn lapped(&self) -> Count {
        self.window.observer().lapped()
    }

    /// Returns a copy of everything intact, while producers run at full speed.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn snapshot(&self) -> Result<Snapshot, ReadError> {
        Snapshot::of(self.window.mapping())
    }

    /// Returns the ring's figures.
    ///
    /// # Errors
    /// [`AttachError::Io`] where the file system has no locks.
    pub fn stat(&self) -> Result<Stat, AttachError> {
        Stat::of(self.window.mapping().file(), self.window.mapping().totals())
    }
}

/// Reads an item that is not a record copied before.
#[inline(never)]
fn read_rest<'a>(
    window: &'a mut CopyWindow<ObserverMapping>,
    wait_strategy: WaitStrategy,
    distance: &mut Distance,
) -> Result<Option<Item<'a>>, ReadError> {
    if window.observer().must_poll() {
        distance.keep(wait_strategy, window.observer().saved().before);
    }
    Ok(window.read()?.map(item))
}

/// Asks the file system at most once a second.
fn check_removed(removal: &mut Tick, window: &CopyWindow<ObserverMapping>) -> bool {
    if removal.is_due() { window.mapping().check_removed() } else { window.mapping().is_removed() }
}
