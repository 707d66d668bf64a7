//! One of the kernel's rings, read as a ring of perfring's.

use crate::decode::{What, decode};
use crate::event::EventKind;
use perfring_consumer::advanced::{Front, ResumePoint};
use perfring_consumer::{
    Anchor, Anchors, Cause, ClockError, Count, Fill, Item, Lost, MachineClock, ReadError, Record,
};
use perfring_shm::{KernelEvents, MappedKernel};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whether a ring is over is asked no more often.
const ASK: Duration = Duration::from_millis(20);
/// Readings of the clocks of which the narrowest counts.
const READINGS: u32 = 3;

/// A ring that the kernel writes, of one processor and one kind of events. Its records are decoded to such as
/// [`types`](crate::types) tells of, and stamped on the clock of perfring's stamps.
///
/// It is read ahead of what is released: the kernel gets space back only up to where
/// [`KernelRing::release_to`] says. What finds no room meanwhile is lost, counted, and told as an
/// [`Item::Lost`] with [`Cause::Full`]: before the next record that fits, and what comes after the last
/// one once everything is over that the ring is of.
///
/// ```
/// use perfring_consumer::Item;
/// use perfring_kernel::{EventKind, Options, Target, open};
/// let me = Target::Process(std::process::id());
/// let options = Options { events: vec![EventKind::PageFaults], ..Options::of(me) };
/// let mut rings = match open(&options) {
///     Err(error) if error.is_forbidden() => return Ok(println!("{error}")), // a sentence
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
    /// Up to where it was read.
    cursor: u64,
    /// What was taken last, and may be lent out.
    here: Read,
    /// What stands next, once it was looked at.
    next: Option<Read>,
    /// Room for the one after it.
    spare: Read,
    /// Words of the kernel's record.
    body: Vec<u64>,
    /// Records before what is next.
    taken: Count,
    /// Records that were told as lost for want of room.
    reported: u64,
    /// All that were lost are told.
    is_reported: bool,
    /// When it was asked last whether it is over.
    asked: Instant,
}

/// What stops the kernel from writing into a ring. What stands in it stays, and is followed by what
/// found no room after it.
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
    /// The kernel writes no more, once and for all.
    ///
    /// # Errors
    /// What the system says.
    pub fn stop(&self) -> io::Result<()> {
        self.events.stop()
    }

    /// Whether everything is over that the ring is of, or it was stopped.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.events.is_over()
    }
}

/// A record of the kernel's, decoded.
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

    /// Looks how far the kernel is, and says what is next, without taking it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn peek(&mut self) -> Result<Front, ReadError> {
        self.mapped.poll()?;
        self.read_next()?;
        if self.next.is_none() && !self.is_reported && self.has_ended() {
            // Once more: it may have been written in between, and no more is from now on.
            self.mapped.poll()?;
            self.read_next()?;
            if self.next.is_none() {
                self.read_rest();
            }
        }
        Ok(self.front())
    }

    /// The next item of what was there at the last [`peek`](KernelRing::peek), and what is next after
    /// it: [`Front::Empty`] if that is to be found out by another look.
    ///
    /// # Errors
    /// [`ReadError`] if the ring holds what no kernel writes; again at every call.
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
        // What is wrong with the next one is told once this one was dealt with.
        let front = self.read_next().map_or(Front::Empty, |()| self.front());
        Ok(self.here.item().map(|item| (item, front)))
    }

    /// Whether it is over. Asked now and then alone, as it takes a system call.
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

    /// After the last record: those that found no room after it, of which the kernel tells before
    /// the next record that fits, and there is none.
    fn read_rest(&mut self) {
        self.is_reported = true;
        // Before Linux 6.0 nobody can tell.
        let lost = self.mapped.events().lost().ok().flatten().unwrap_or(0);
        if lost > self.reported {
            let (pos, time) = (self.cursor, self.here.time);
            let what = Some(What::Lost(lost - self.reported, Cause::Full));
            self.next = Some(Read { pos, end: pos, time, what, payload: Vec::new() });
        }
    }

    /// Whether it is over, and all of it was told or is the next to be.
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

    /// The place after everything that was taken.
    #[must_use]
    pub fn resume_point(&self) -> ResumePoint {
        ResumePoint {
            pos: self.here.end,
            before: self.taken,
            lapped: Count::default(),
            range_end: 0,
        }
    }

    /// Gives the kernel back the space of what was taken before this [`resume_point`](KernelRing::resume_point).
    pub fn release_to(&mut self, resume_point: &ResumePoint) {
        if resume_point.pos <= self.here.end {
            self.mapped.release(resume_point.pos);
        }
    }

    /// How full the ring is now.
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

    /// Whether everything is over that the ring is of, or it was stopped, so that nothing more is
    /// written: what stands in it is the rest.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.mapped.events().is_over()
    }

    /// What stops it, also while it is among the sources of a merge.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { events: self.mapped.events().clone() }
    }

    /// What tells wall-clock times of its stamps, as of now. Take it anew for later ones, as
    /// somebody may set the clock.
    ///
    /// # Errors
    /// [`ClockError`] if the stamps' clock cannot be told from this process.
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

    /// What its samples are of; if it has none, something else that was asked for. All that are no
    /// samples stand in one ring of the processor.
    #[must_use]
    pub fn event(&self) -> EventKind {
        self.event
    }

    /// The processor.
    #[must_use]
    pub fn cpu(&self) -> i32 {
        self.cpu
    }

    /// A number of its own: a ring of the kernel's has none, and its positions begin at 0 each time.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Bytes of its data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.mapped.data_size()
    }
}

impl Read {
    fn item(&self) -> Option<Item<'_>> {
        let (pos, bytes) = (self.pos, &*self.payload);
        Some(match self.what? {
            What::Record(kind) => {
                Item::Record(Record { pos, kind: kind.get(), bytes, time: Some(self.time) })
            }
            // The kernel does not say how long they would have been.
            What::Lost(records, cause) => Item::Lost(Lost { pos, records, bytes: 0, cause }),
        })
    }
}

impl AsFd for KernelRing {
    /// For poll: readable once a quarter of the ring was written.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mapped.as_fd()
    }
}
