//! A BPF ring-buffer map, read like a perfring ring.

use crate::ahead::{Ahead, Content, Read};
use crate::bpf_options::BpfTime;
use crate::clock::anchors_now;
use perfring_consumer::advanced::{Front, MachineClock, ResumePoint};
use perfring_consumer::{Anchors, Cause, Item, RecordType, error::ClockError, stat::Fill};
use perfring_ring::{BpfFault, BpfRole, BpfStep};
use perfring_shm::MappedBpf;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A suspend of the machine is at least this long, ns. What differs by less is an error of reading two clocks.
const SUSPEND: u64 = 1_000_000;

/// A map of the type `BPF_MAP_TYPE_RINGBUF`. Its records are bytes, of the type [`RecordType::BYTES`].
///
/// **A map in normal mode** has one consumer: this one. Records are held until [`BpfRing::release_to`], and the position up
/// to which they were released is kept by the map: a consumer that comes later continues there. Two consumers would each get
/// some of the records and spoil the other's position. The kernel does not keep them apart; this one reports the other's
/// moves as a fault, if it sees them. A full map refuses records. The program gets an error for each, and the map counts none of
/// them: no reader learns of it.
///
/// **An observer** of such a map ([`BpfOptions::observe`](crate::BpfOptions::observe)) changes nothing, and reads what the
/// consumer has not released. What the consumer releases first is an [`Item::Lost`] of [`Cause::Lapped`].
///
/// **A map in overwrite mode** (`BPF_F_RB_OVERWRITE`, Linux 6.19) has observers alone. What was overwritten before it was
/// read is an [`Item::Lost`], too. Its `bytes` are exact, headers and discarded records included; its `records` are 0, because
/// the map does not say how many they were. On processors other than x86-64, the kernel does not order its stores such that
/// an observer notices each record that was overwritten while it was copied.
///
/// A record has no timestamp. Its time is when this reader found it, unless
/// [`BpfOptions::time`](crate::BpfOptions::time) says where a program writes the time.
///
/// ```
/// use perfring_consumer::Item;
/// use perfring_kernel::{BpfOptions, BpfRing};
/// let options: BpfOptions = "/sys/fs/bpf/events".parse()?;
/// let mut ring = match BpfRing::open(&options) {
///     Ok(ring) => ring,
///     Err(error) => return Ok(println!("{error}")), // a sentence that says what to do
/// };
/// ring.peek()?;
/// while let Some((item, _)) = ring.take()? {
///     if let Item::Record(record) = item {
///         println!("{} bytes", record.bytes.len());
///     }
/// }
/// ring.release_to(&ring.resume_point());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BpfRing {
    mapped: MappedBpf,
    time: Option<BpfTime>,
    uuid: [u8; 16],
    clock: MachineClock,
    /// The time of the last poll.
    polled: u64,
    /// How long the machine was suspended.
    suspended: u64,
    ahead: Ahead,
    /// Words of the map's record.
    body: Vec<u64>,
    state: Arc<State>,
    /// The stop was seen.
    limited: bool,
}

#[derive(Debug, Default)]
struct State {
    stopped: AtomicBool,
    over: AtomicBool,
}

/// Ends the reading of a [`BpfRing`] at what is reserved in its map when it is polled next. The programs continue to write.
#[derive(Clone, Debug)]
pub struct BpfStopper {
    state: Arc<State>,
}

impl BpfStopper {
    /// Ends the reading.
    pub fn stop(&self) {
        self.state.stopped.store(true, Ordering::Release);
    }

    /// Returns whether everything up to the stop was found.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state.over.load(Ordering::Acquire)
    }
}

impl BpfRing {
    pub(crate) fn new(
        mapped: MappedBpf,
        time: Option<BpfTime>,
        uuid: [u8; 16],
    ) -> Result<Self, ClockError> {
        let clock = MachineClock::find()?;
        let ahead = Ahead::new(mapped.reader().cursor());
        Ok(BpfRing {
            mapped,
            time,
            uuid,
            polled: clock.now_ns(),
            suspended: clock.suspended_ns(),
            clock,
            ahead,
            body: Vec::new(),
            state: Arc::default(),
            limited: false,
        })
    }

    /// Polls the map, and returns what is next, without taking it.
    ///
    /// # Errors
    /// [`BpfFault`].
    pub fn peek(&mut self) -> Result<Front, BpfFault> {
        if !self.limited && self.state.stopped.load(Ordering::Acquire) {
            self.limited = true;
            self.mapped.limit();
        }
        self.mapped.poll()?;
        self.polled = self.clock.now_ns();
        if matches!(self.time, Some(BpfTime::Monotonic(_))) {
            let suspended = self.clock.suspended_ns();
            if suspended.abs_diff(self.suspended) >= SUSPEND {
                self.suspended = suspended;
            }
        }
        self.read_next()?;
        if self.limited && self.ahead.next().is_none() {
            self.state.over.store(true, Ordering::Release);
        }
        // Discarded records are released with what is before them, and at once if nothing is held.
        if self.mapped.reader().released() >= self.ahead.end() {
            let pos = self.resume_pos();
            self.mapped.release(pos);
        }
        Ok(self.ahead.front())
    }

    /// Takes the next item of those found by the last [`peek`](BpfRing::peek). Returns it and what is next:
    /// [`Front::Empty`] if that needs another poll.
    ///
    /// # Errors
    /// [`BpfFault`]; again at every call.
    pub fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, BpfFault> {
        self.read_next()?;
        if self.ahead.advance().is_none() {
            return Ok(None);
        }
        // A fault of the next record is returned after this item.
        let front = self.read_next().map_or(Front::Empty, |()| self.ahead.front());
        Ok(self.ahead.item().map(|item| (item, front)))
    }

    fn read_next(&mut self) -> Result<(), BpfFault> {
        if self.ahead.next().is_some() {
            return Ok(());
        }
        let next = match self.mapped.next(&mut self.body)? {
            BpfStep::Empty | BpfStep::Open => return Ok(()),
            BpfStep::Lost { pos, bytes } => {
                let what = Some(Content::Lost { records: 0, bytes, cause: Cause::Lapped });
                let (end, time, payload) = (pos + bytes, self.polled, Vec::new());
                Read { pos, end, time, what, payload }
            }
            BpfStep::Record(frame) => {
                let mut payload = self.ahead.buffer();
                payload.clear();
                let bytes: &[u8] = bytemuck::cast_slice(&self.body);
                payload.extend_from_slice(&bytes[..frame.len.min(bytes.len())]);
                let time = self.time_of(&payload).unwrap_or(self.polled);
                let what = Some(Content::Record(RecordType::BYTES));
                Read { pos: frame.pos, end: frame.end, time, what, payload }
            }
        };
        self.ahead.set_next(next);
        Ok(())
    }

    /// Returns the time that a record holds.
    fn time_of(&self, payload: &[u8]) -> Option<u64> {
        let (at, suspended) = match self.time? {
            BpfTime::Monotonic(at) => (at, self.suspended),
            BpfTime::Boot(at) => (at, 0),
        };
        let word = payload.get(at as usize..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*word).saturating_add(suspended))
    }

    /// Returns the position before the next item, or before what could not be read yet.
    fn resume_pos(&self) -> u64 {
        self.ahead.next().map_or(self.mapped.reader().cursor(), |next| next.pos)
    }

    /// Returns the resume point after everything that was taken.
    #[must_use]
    pub fn resume_point(&self) -> ResumePoint {
        self.ahead.resume_point(self.resume_pos())
    }

    /// Releases the space of what was taken before this [`resume_point`](BpfRing::resume_point). An observer has nothing to
    /// release.
    pub fn release_to(&mut self, resume_point: &ResumePoint) {
        if self.ahead.is_own(resume_point) && resume_point.pos() <= self.resume_pos() {
            self.mapped.release(resume_point.pos());
        }
    }

    /// Returns the fill level.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let here = self.resume_pos();
        Fill {
            unread: self.mapped.live_head().saturating_sub(here),
            held: here.saturating_sub(self.mapped.reader().released()),
            size: self.data_size(),
        }
    }

    /// Waits until there is something to take, for at most `timeout`. Returns whether there is.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.ahead.next().is_some() || self.mapped.wait(timeout)
    }

    /// Returns whether everything up to a [stop](BpfStopper::stop) was found.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state.over.load(Ordering::Acquire)
    }

    /// Returns a handle that ends the reading, also while it is a source of a merge.
    #[must_use]
    pub fn stopper(&self) -> BpfStopper {
        BpfStopper { state: self.state.clone() }
    }

    /// Returns the anchors that convert timestamps to wall-clock times, as of now.
    ///
    /// # Errors
    /// [`ClockError`] if this process cannot read the timestamps' clock.
    pub fn anchors() -> Result<Anchors, ClockError> {
        anchors_now()
    }

    /// Returns how many records were discarded, of those that were passed, and the bytes that they used.
    #[must_use]
    pub fn discarded(&self) -> (u64, u64) {
        self.mapped.reader().discarded()
    }

    /// Returns whether it consumes the map, or only observes it.
    #[must_use]
    pub fn consumes(&self) -> bool {
        self.mapped.reader().role() == BpfRole::Consumer
    }

    /// Returns the kernel's number for the map.
    #[must_use]
    pub fn map_id(&self) -> u32 {
        self.mapped.source().id()
    }

    /// Returns the name that its maker gave the map, or an empty one.
    #[must_use]
    pub fn map_name(&self) -> &str {
        self.mapped.source().name()
    }

    /// Returns a name for it among rings: `bpf/` and the map's name, or its id if it has no name.
    #[must_use]
    pub fn name(&self) -> String {
        match self.map_name() {
            "" => format!("bpf/id:{}", self.map_id()),
            name => format!("bpf/{name}"),
        }
    }

    /// Returns a random id: the map has none but the kernel's number, which is used again after the map has ended.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns the bytes of the data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.mapped.source().data_size()
    }
}

impl AsFd for BpfRing {
    /// Returns the map's descriptor, for `poll`: readable while the consumer has not released everything that is reserved.
    /// In overwrite mode, and to an observer, it says nothing.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mapped.as_fd()
    }
}
