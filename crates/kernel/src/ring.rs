//! One of the kernel's rings, read like a perfring ring.

use crate::decode::{What, decode};
use crate::event::EventKind;
use perfring_consumer::advanced::{Front, ReaderId, ResumePoint};
use perfring_consumer::{
    Anchors, Cause, ClockError, Count, Fill, Item, Lost, ReadError, RecordRef,
    advanced::{Anchor, MachineClock},
};
use perfring_shm::{KernelEvents, MappedKernel};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shortest interval between two checks for the ring's end.
const ASK: Duration = Duration::from_millis(20);
/// Number of readings of the clocks, of which the narrowest counts.
const READINGS: u32 = 3;

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
    id: ReaderId,
    mapped: MappedKernel,
    event: EventKind,
    cpu: i32,
    uuid: [u8; 16],
    /// Position up to which it was read.
    cursor: u64,
    /// The item that was taken last; it may be borrowed.
    here: Read,
    /// The next item, once it was polled for.
    next: Option<Read>,
    /// Buffers for the item after it.
    spare: Read,
    /// Words of the kernel's record.
    body: Vec<u64>,
    /// Records before the next item.
    taken: Count,
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

/// A decoded record of the kernel.
#[derive(Debug, Default)]
struct Read {
    pos: u64,
    end: u64,
    time: u64,
    what: Option<What>,
    payload: Vec<u8>,
}

impl KernelRing {
    pub(crate) fn new(mapped: MappedKernel, event: EventKind, cpu: i32, uuid: [u8; 16]) -> Self {
        let pos = mapped.released();
        KernelRing {
            id: ReaderId::unique(),
            mapped,
            event,
            cpu,
            uuid,
            cursor: pos,
            here: Read { end: pos, ..Read::default() },
            next: None,
            spare: Read::default(),
            body: Vec::new(),
            taken: Count::default(),
            reported: 0,
            is_reported: false,
            asked: Instant::now(),
        }
    }

    pub(crate) fn enable(&self) -> io::Result<()> {
        self.mapped.events().enable()
    }

    /// Polls the kernel's head and returns what is next, without taking it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn peek(&mut self) -> Result<Front, ReadError> {
        self.mapped.poll()?;
        self.read_next()?;
        if self.next.is_none() && !self.is_reported && self.has_ended() {
            // Poll again: more may have been written in between, and no more is from now on.
            self.mapped.poll()?;
            self.read_next()?;
            if self.next.is_none() {
                self.read_rest();
            }
        }
        Ok(self.front())
    }

    /// Takes the next item of those found by the last [`peek`](KernelRing::peek). Returns it and
    /// what is next: [`Front::Empty`] if that needs another poll.
    ///
    /// # Errors
    /// [`ReadError`] if the ring holds something that no kernel writes; again at every call.
    pub fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, ReadError> {
        self.read_next()?;
        let Some(next) = self.next.take() else { return Ok(None) };
        self.spare = std::mem::replace(&mut self.here, next);
        match self.here.what {
            Some(What::Lost(records, Cause::Full)) => {
                self.reported = self.reported.saturating_add(records)
            }
            Some(What::Record(_)) => {
                let (count, size) = (self.taken, self.here.end - self.here.pos);
                self.taken =
                    Count { records: count.records + 1, bytes: count.bytes.saturating_add(size) };
            }
            _ => {}
        }
        // An error of the next record is returned after this item.
        let front = self.read_next().map_or(Front::Empty, |()| self.front());
        Ok(self.here.item().map(|item| (item, front)))
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
            let (pos, time) = (self.cursor, self.here.time);
            let what = Some(What::Lost(lost - self.reported, Cause::Full));
            self.next = Some(Read { pos, end: pos, time, what, payload: Vec::new() });
        }
    }

    /// Returns whether the ring has ended, and all of it was returned or is the next item.
    pub(crate) fn is_reported(&self) -> bool {
        self.is_reported
    }

    fn front(&self) -> Front {
        match &self.next {
            None => Front::Empty,
            Some(Read { what: Some(What::Lost(..)), .. }) => Front::Lost,
            Some(next) => Front::Timestamped(next.time),
        }
    }

    fn read_next(&mut self) -> Result<(), ReadError> {
        if self.next.is_some() {
            return Ok(());
        }
        let Some(frame) = self.mapped.peek(self.cursor, &mut self.body)? else { return Ok(()) };
        let payload = &mut self.spare.payload;
        let (time, what) = decode(&frame, &self.body, self.event, payload)
            .ok_or(ReadError::Corrupt { pos: frame.pos })?;
        let payload = std::mem::take(payload);
        let (pos, end, what) = (frame.pos, frame.end(), Some(what));
        self.next = Some(Read { pos, end, time, what, payload });
        self.cursor = end;
        Ok(())
    }

    /// Returns the resume point after everything that was taken.
    #[must_use]
    pub fn resume_point(&self) -> ResumePoint {
        ResumePoint::new(self.id, self.here.end, self.taken)
    }

    /// Releases the space of what was taken before this [`resume_point`](KernelRing::resume_point)
    /// to the kernel.
    pub fn release_to(&mut self, resume_point: &ResumePoint) {
        if resume_point.is_of(self.id) && resume_point.pos() <= self.here.end {
            self.mapped.release(resume_point.pos());
        }
    }

    /// Returns the ring's fill level.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let here = self.here.end;
        Fill {
            unread: self.mapped.live_head().saturating_sub(here),
            held: here.saturating_sub(self.mapped.released()),
            size: self.data_size(),
        }
    }

    /// Waits until the kernel has written more than was taken, for at most `timeout`. Returns
    /// whether it has.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.next.is_some() || self.mapped.wait(self.cursor, timeout)
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
        Stopper { events: self.mapped.events().clone() }
    }

    /// Returns the anchors that convert timestamps to wall-clock times, as of now. Call it again
    /// for later timestamps, as the clock may be set.
    ///
    /// # Errors
    /// [`ClockError`] if this process cannot read the timestamps' clock.
    pub fn anchors() -> Result<Anchors, ClockError> {
        let clock = MachineClock::find()?;
        let mut narrowest = (u64::MAX, Anchor::default());
        for _ in 0..READINGS {
            let before = clock.now_ns();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let width = clock.now_ns().saturating_sub(before);
            if width < narrowest.0 {
                let (clock_ns, realtime_ns) = (before + width / 2, now.as_nanos() as u64);
                let anchor = Anchor { pos: 0, clock_ns, realtime_ns, error_ns: width / 2 + 1 };
                narrowest = (width, anchor);
            }
        }
        Ok([narrowest.1].into_iter().collect())
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

impl Read {
    fn item(&self) -> Option<Item<'_>> {
        let (pos, bytes) = (self.pos, &*self.payload);
        Some(match self.what? {
            What::Record(kind) => Item::Record(RecordRef {
                pos,
                kind: kind.get(),
                bytes,
                time: Some(self.time),
                writer: None,
            }),
            // The kernel does not report their length.
            What::Lost(records, cause) => {
                Item::Lost(Lost { pos, records, bytes: 0, cause, at_end: false })
            }
        })
    }
}

impl AsFd for KernelRing {
    /// Returns a descriptor for `poll`: readable once a quarter of the ring was written.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mapped.as_fd()
    }
}
