//! A ring on the heap: for property tests, loom and Miri, which support no mappings.

use crate::named::{NamedSeat, Seats};
use crate::observer::copy::CopyReader;
use crate::observer::intact::RingCopy;
use crate::producer::exclusive::Writer;
use crate::read_error::ReadError;
use crate::record::{AuxRange, FrameWords, Next};
use crate::reserve::{Refusal, Reserved};
use crate::shared::publish::SharedWriter;
use crate::totals::RingTotals;
use crate::view::{Ring, Shared};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{
    ConsumerSeat, Evict, Header, Layout, Policy, Producers, RecordType, Report, Slot,
};

/// The seats of a ring on the heap.
#[derive(Debug, Default)]
struct HeapSeats(Vec<ConsumerSeat>);

impl Seats for HeapSeats {
    fn seat(&self, number: u32) -> Option<&ConsumerSeat> {
        self.0.get(number as usize)
    }
}

/// A header and a data area of any power of two of words.
#[derive(Debug)]
pub struct HeapRing {
    header: Box<Header>,
    data: Box<[AtomicU64]>,
    slots: Box<[Slot]>,
    seats: Arc<HeapSeats>,
    aux: Box<[AtomicU64]>,
    layout: Layout,
}

impl HeapRing {
    /// Creates a ring of `data_size` bytes, or returns `None` if that is not a power of two of at
    /// least 32.
    #[must_use]
    pub fn new(data_size: u64, policy: Policy) -> Option<Self> {
        if !data_size.is_power_of_two() || data_size < 32 {
            return None;
        }
        Some(HeapRing {
            header: Box::new(Header::new()),
            data: (0..data_size / 8).map(|_| AtomicU64::new(0)).collect(),
            slots: Box::default(),
            seats: Arc::default(),
            aux: Box::default(),
            layout: Layout {
                page_size: 4096,
                data_size,
                policy,
                evict: Evict::Exact,
                report: Report::InStream,
                producers: Producers::One,
                cpu: 0,
                slots: 1,
                created_ns: 0,
                creator_pid: 0,
                creator_uid: 0,
                uuid: [0; 16],
                boot_id: [0; 16],
                time: false,
                sample_id: false,
                types_size: 0,
                aux_size: 0,
                consumers: 0,
                metrics_size: 0,
            },
        })
    }

    /// Sets how the ring makes room.
    #[must_use]
    pub fn evict(mut self, evict: Evict) -> Self {
        self.layout.evict = evict;
        self
    }

    /// Sets where the ring reports losses.
    #[must_use]
    pub fn report(mut self, report: Report) -> Self {
        self.layout.report = report;
        self
    }

    /// Makes it a shared ring for so many producers at a time.
    #[must_use]
    pub fn many(mut self, slots: u32) -> Self {
        self.slots = (0..slots).map(|_| Slot::new()).collect();
        (self.layout.producers, self.layout.slots) = (Producers::Many, slots);
        self
    }

    /// Makes it a ring per CPU, for so many processes at a time.
    #[must_use]
    pub fn per_cpu(mut self, slots: u32) -> Self {
        self = self.many(slots);
        self.layout.producers = Producers::Cpu;
        self
    }

    /// Gives each record a timestamp.
    #[must_use]
    pub fn timed(mut self) -> Self {
        self.layout.time = true;
        self
    }

    /// Gives each record a timestamp, and its writer.
    #[must_use]
    pub fn with_sample_id(mut self) -> Self {
        (self.layout.time, self.layout.sample_id) = (true, true);
        self
    }

    /// Gives it seats for so many named consumers.
    #[must_use]
    pub fn consumers(mut self, consumers: u32) -> Self {
        self.seats = Arc::new(HeapSeats((0..consumers).map(|_| ConsumerSeat::new()).collect()));
        self.layout.consumers = consumers;
        self
    }

    /// Returns the seat of a named consumer, if there is one of this number.
    #[must_use]
    pub fn seat(&self, number: u32) -> Option<NamedSeat> {
        let seats: Arc<HeapSeats> = Arc::clone(&self.seats);
        NamedSeat::new(seats, number)
    }

    /// Returns the seats of the named consumers.
    #[must_use]
    pub fn seats(&self) -> &[ConsumerSeat] {
        &self.seats.0
    }

    /// Adds an AUX area of `size` bytes, a power of two of at least 64.
    #[must_use]
    pub fn with_aux(mut self, size: u64) -> Self {
        self.aux = (0..size / 8).map(|_| AtomicU64::new(0)).collect();
        self.layout.aux_size = size;
        self
    }

    /// Returns the AUX area.
    #[must_use]
    pub fn aux(&self) -> &[AtomicU64] {
        &self.aux
    }

    /// Writes a payload to its range, word by word.
    pub fn fill_range(&self, range: AuxRange, payload: &[u8]) {
        let mask = (self.aux.len() as u64).wrapping_sub(1);
        for (chunk, at) in payload[..payload.len().min(range.len)].chunks(8).zip(range.at / 8..) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            // Relaxed: A publishes it, and E came before it.
            self.aux[(at & mask) as usize].store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// Returns the view that producers of a shared ring work on.
    #[must_use]
    pub fn shared(&self) -> Shared<'_> {
        Shared::new(self.ring(), &self.slots)
    }

    /// Returns the view that the algorithm works on.
    #[must_use]
    pub fn ring(&self) -> Ring<'_> {
        Ring::new(&self.header, &self.data)
    }

    /// Returns the ring's shape.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the header, for tests that corrupt it.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the data area, for tests that corrupt it.
    #[must_use]
    pub fn data(&self) -> &[AtomicU64] {
        &self.data
    }
}

/// Methods that only models and tests call, on rings on the heap.
impl Writer {
    /// Reserves space for a record, to be written in place: see [`Writer::reserve_as`].
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn reserve(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<Reserved, Refusal> {
        let now = if len < self.in_place_end() { None } else { Some(now) };
        self.reserve_as::<true>(ring, kind, len, now)
    }

    /// Copies a payload into its reservation, word by word. A mapping has a faster method.
    pub fn fill(&self, ring: Ring<'_>, reserved: &Reserved, payload: &[u8]) {
        fill(ring, reserved, payload);
    }
}

impl SharedWriter {
    /// Copies a payload into its reservation, word by word. A mapping has a faster method.
    pub fn fill(&self, at: Shared<'_>, reserved: &Reserved, payload: &[u8]) {
        fill(at.ring, reserved, payload);
    }
}

pub(crate) fn fill(ring: Ring<'_>, reserved: &Reserved, payload: &[u8]) {
    debug_assert!(!reserved.site.is_large());
    let mut pos = reserved.payload_pos();
    for chunk in payload[..payload.len().min(reserved.len)].chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        // Relaxed: A publishes it, and E came before it.
        ring.word(pos).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        pos += 8;
    }
}

impl RingTotals {
    /// Reads the totals of a ring without slots: see [`RingTotals::of`].
    #[doc(hidden)] // like `RingTotals::of`
    #[must_use]
    pub fn read(ring: Ring<'_>, policy: Policy) -> Option<Self> {
        Self::of(ring.into(), policy, |_| false)
    }
}

impl RingCopy {
    /// Copies everything intact in a ring without slots: see [`RingCopy::of`].
    ///
    /// # Errors
    /// See [`RingCopy::of`].
    pub fn take(ring: Ring<'_>, policy: Policy) -> Result<Self, ReadError> {
        Self::of(ring.into(), policy, |_| false)
    }
}

impl CopyReader {
    /// Returns the next record or loss of a ring without slots and AUX area: see [`CopyReader::next_in`].
    ///
    /// # Errors
    /// See [`CopyReader::next_in`].
    pub fn next(&mut self, ring: Ring<'_>) -> Result<Option<Next<FrameWords<'_>>>, ReadError> {
        self.next_in(ring.into(), &[])
    }
}
