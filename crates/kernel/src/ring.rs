//! One of the kernel's rings, read like a perfring ring.

use crate::ahead::{Ahead, Content, Read};
use crate::clock::anchors_now;
use crate::decode::{What, decode};
use crate::event::EventKind;
use perfring_consumer::advanced::{Front, ResumePoint};
use perfring_consumer::{Anchors, Cause, Item, ReadError, error::ClockError, stat::Fill};
use perfring_shm::{KernelEvents, MappedKernel};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Shortest interval between two checks for the ring's end.
const ASK: Duration = Duration::from_millis(20);

/// A ring that the kernel writes, for one processor and one kind of events. Its records are decoded
/// to the types in [`types`](crate::types), with timestamps of the same clock as perfring's.
///
/// Reading and releasing are separate: the kernel gets space back only up to
/// [`KernelRing::release_to`]. Records that do not fit meanwhile are lost, counted, and reported as
/// an [`Item::Lost`] with [`Cause::Full`]: before the next record that fits, and those after the
/// last record once everything that the ring observes has ended.
///
/// ```
/// use perfring_consumer::Item;
/// use perfring_kernel::{EventKind, Options, Target, open};
/// let me = Target::Process(std::process::id());
/// let options = Options { events: vec![EventKind::PageFaults], ..Options::of(me) };
/// let mut rings = match open(&options) {
///     Err(error) if error.is_forbidden() => return Ok(println!("{error}")), // with a reason
///     opened => opened?,
/// };
/// let touched = vec![1u8; 1 << 20];
/// let mut faults = 0;
/// for ring in &mut rings {
///     ring.peek()?;
///     while let Some((item, _)) = ring.take()? {
///         if let Item::Record(record) = item {
///             faults += 1;
///             assert!(record.time.is_some());
///         }
///     }
///     ring.release_to(&ring.resume_point());
/// }
/// assert!(faults > 0 && touched[0] == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KernelRing {
    mapped: MappedKernel,
    event: EventKind,
    cpu: i32,
    uuid: [u8; 16],
    /// Position up to which it was read.
    cursor: u64,
    ahead: Ahead,
    /// Words of the kernel's record.
    body: Vec<u64>,
    /// Records that were reported as lost because the ring was full.
    reported: u64,
    /// Whether all lost records were reported.
    is_reported: bool,
    /// When the ring's end was checked last.
    asked: Instant,
}

/// Stops the kernel from writing into a ring. The content of the ring stays, followed by the loss
/// after it.
///
/// ```
/// use perfring_kernel::{Options, Target, open};
/// if let Ok(rings) = open(&Options::of(Target::Process(std::process::id()))) {
///     for ring in &rings {
///         ring.stopper().stop()?;
///         assert!(ring.is_over());
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stopper {
    events: Arc<KernelEvents>,
}

impl Stopper {
    pub(crate) fn new(events: &Arc<KernelEvents>) -> Self {
        Stopper { events: events.clone() }
    }

    /// Stops the kernel for good.
    ///
    /// # Errors
    /// The system's error.
    pub fn stop(&self) -> io::Result<()> {
        self.events.stop()
    }

    /// Returns whether everything that the ring observes has ended, or it was stopped.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.events.is_over()
    }
}

impl KernelRing {
    pub(crate) fn new(mapped: MappedKernel, event: EventKind, cpu: i32, uuid: [u8; 16]) -> Self {
        let pos = mapped.released();
        KernelRing {
            mapped,
            event,
            cpu,
            uuid,
            cursor: pos,
            ahead: Ahead::new(pos),
            body: Vec::new(),
            reported: 0,
            is_reported: false,
            asked: Instant::now(),
        }
    }

    pub(crate) fn events(&self) -> &Arc<KernelEvents> {
        self.mapped.events()
    }

    /// Polls the kernel's head and returns what is next, without taking it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn peek(&mut self) -> Result<Front, ReadError> {
        self.mapped.poll()?;
        self.read_next()?;
        if self.ahead.next().is_none() && !self.is_reported && self.has_ended() {
            // Poll again: more may have been written in between, and no more is from now on.
            self.mapped.poll()?;
            self.read_next()?;
            if self.ahead.next().is_none() {
                self.read_rest();
            }
        }
        Ok(self.ahead.front())
    }

    /// Takes the next item of those found by the last [`peek`](KernelRing::peek). Returns it and
    /// what is next: [`Front::Empty`] if that needs another poll.
    ///
    /// # Errors
    /// [`ReadError`] if the ring holds something that no kernel writes; again at every call.
    pub fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, ReadError> {
        self.read_next()?;
        match self.ahead.advance() {
            None => return Ok(None),
            Some(Content::Lost { records, cause: Cause::Full, .. }) => {
                self.reported = self.reported.saturating_add(records);
            }
            Some(_) => {}
        }
        // An error of the next record is returned after this item.
        let front = self.read_next().map_or(Front::Empty, |()| self.ahead.front());
        Ok(self.ahead.item().map(|item| (item, front)))
    }

    /// Returns whether the ring has ended. Checked at intervals only, as it takes a system call.
    fn has_ended(&mut self) -> bool {
        let events = self.mapped.events();
        if !events.is_stopped() {
            if self.asked.elapsed() < ASK {
                return false;
            }
            self.asked = Instant::now();
        }
        events.is_over()
    }

    /// Adds the loss after the last record: the kernel reports a loss before the next record that
    /// fits, and there is none.
    fn read_rest(&mut self) {
        self.is_reported = true;
        // Before Linux 6.0 the number is unknown.
        let lost = self.mapped.events().lost().ok().flatten().unwrap_or(0);
        if lost > self.reported {
            let (pos, time) = (self.cursor, self.ahead.time());
            let what = Some(lost_of(lost - self.reported, Cause::Full));
            self.ahead.set_next(Read { pos, end: pos, time, what, payload: Vec::new() });
        }
    }

    /// Returns whether the ring has ended, and all of it was returned or is the next item.
    pub(crate) fn is_reported(&self) -> bool {
        self.is_reported
    }

    fn read_next(&mut self) -> Result<(), ReadError> {
        if self.ahead.next().is_some() {
            return Ok(());
        }
        let Some(frame) = self.mapped.peek(self.cursor, &mut self.body)? else { return Ok(()) };
        let mut payload = self.ahead.buffer();
        let (time, what) = decode(&frame, &self.body, self.event, &mut payload)
            .ok_or(ReadError::Corrupt { pos: frame.pos })?;
        let what = Some(match what {
            What::Record(kind) => Content::Record(kind),
            What::Lost(records, cause) => lost_of(records, cause),
        });
        let (pos, end) = (frame.pos, frame.end());
        self.ahead.set_next(Read { pos, end, time, what, payload });
        self.cursor = end;
        Ok(())
    }

    /// Returns the resume point after everything that was taken.
    #[must_use]
    pub fn resume_point(&self) -> ResumePoint {
        self.ahead.resume_point(self.ahead.end())
    }

    /// Releases the space of what was taken before this [`resume_point`](KernelRing::resume_point)
    /// to the kernel.
    pub fn release_to(&mut self, resume_point: &ResumePoint) {
        if self.ahead.is_own(resume_point) && resume_point.pos() <= self.ahead.end() {
            self.mapped.release(resume_point.pos());
        }
    }

    /// Returns the ring's fill level.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let here = self.ahead.end();
        Fill {
            unread: self.mapped.live_head().saturating_sub(here),
            held: here.saturating_sub(self.mapped.released()),
            size: self.data_size(),
        }
    }

    /// Waits until the kernel has written more than was taken, for at most `timeout`. Returns
    /// whether it has.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.ahead.next().is_some() || self.mapped.wait(self.cursor, timeout)
    }

    /// Returns whether everything that the ring observes has ended, or it was stopped: nothing more
    /// is written, and the present content is the rest.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.mapped.events().is_over()
    }

    /// Returns a handle that stops the ring, also while it is a source of a merge.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper::new(self.mapped.events())
    }

    /// Returns the anchors that convert timestamps to wall-clock times, as of now. Call it again
    /// for later timestamps, as the clock may be set.
    ///
    /// # Errors
    /// [`ClockError`] if this process cannot read the timestamps' clock.
    pub fn anchors() -> Result<Anchors, ClockError> {
        anchors_now()
    }

    /// Returns the event of its samples; if it has none, one of the other requested events. All
    /// kinds without samples share one ring of the processor.
    #[must_use]
    pub fn event(&self) -> EventKind {
        self.event
    }

    /// Returns the processor.
    #[must_use]
    pub fn cpu(&self) -> i32 {
        self.cpu
    }

    /// Returns a random id: the kernel's rings have none, and their positions begin at 0 each time.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns the bytes of its data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.mapped.data_size()
    }
}

/// A loss, of which the kernel does not report the bytes.
fn lost_of(records: u64, cause: Cause) -> Content {
    Content::Lost { records, bytes: 0, cause }
}

impl AsFd for KernelRing {
    /// Returns a descriptor for `poll`: readable once a quarter of the ring was written.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mapped.as_fd()
    }
}
