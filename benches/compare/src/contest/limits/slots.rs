//! Bare loops over fixed slots: head and tail on lines of their own, nothing before a payload.

use super::floor::can;
use crate::CompareError;
use crate::contest::waits::Polls;
use crate::contestant::{About, Can, Contestant, Location, Receiver, Sender, Setup};
use perfring_bench::contest::Waits;
use perfring_bench::raw::Mapping;
use std::hint::spin_loop;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records published and records finished: words of the header page, far enough apart that neither
/// line is prefetched with the other.
const HEAD: usize = 0;
const TAIL: usize = 64;
/// A cache line.
const LINE: usize = 64;

/// Slots that hold a payload each. The head is stored once in `BATCH` records, and after the last.
/// With `BACK`, the reader write-touches the lines: after reading a record it stores the first word
/// of each of its lines again, so that the sender finds them owned by one core and not shared by
/// two.
pub struct Slots<const BATCH: u64, const BACK: bool>;

impl<const BATCH: u64, const BACK: bool> Contestant for Slots<BATCH, BACK> {
    type Sender = SlotSender<BATCH>;
    type Receiver = SlotReceiver<BACK>;
    type Held = ();

    fn can() -> Can {
        can()
    }

    fn about(setup: &Setup) -> About {
        About {
            name: match (BATCH, BACK) {
                (1, false) => "floor slots",
                (1, true) => "floor back",
                (_, false) => "floor batch",
                (_, true) => "floor batch back",
            },
            version: "raw pointers".to_owned(),
            location: Location::Processes,
            settings: format!(
                "{} fixed slots, head published every {BATCH}, tail in eighths{}",
                slots(setup),
                if BACK { ", the reader writes one word of each line back" } else { "" }
            ),
            waits: Polls::about(setup.pace),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        Ok(Mapping::create(path, setup.data_size)?)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<Self::Sender, CompareError> {
        let ring = Ring::open(path, setup)?;
        let free = ring.slots;
        Ok(SlotSender { ring, head: 0, full_at: free })
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Self::Receiver, CompareError> {
        let ring = Ring::open(path, setup)?;
        let owe_at = ring.slots.div_ceil(8);
        Ok(SlotReceiver { ring, tail: 0, owe_at, waits: Waits::new(setup.pace) })
    }
}

/// Returns how many fit, a power of two.
fn slots(setup: &Setup) -> u64 {
    let fit = (setup.data_size / setup.payload.max(1) as u64).max(1);
    1 << fit.ilog2()
}

/// The state of both ends.
struct Ring {
    map: Mapping,
    slots: u64,
    payload: usize,
}

impl Ring {
    fn open(path: &Path, setup: &Setup) -> Result<Self, CompareError> {
        let map = Mapping::open(path, setup.data_size)?;
        Ok(Ring { map, slots: slots(setup), payload: setup.payload })
    }

    /// Returns where the slot of this record begins, if its payload has the length for which the
    /// ring was created.
    #[inline(always)]
    fn slot<const N: usize>(&self, number: u64) -> *mut u8 {
        debug_assert_eq!(N, self.payload);
        let at = (number & (self.slots - 1)) as usize * N;
        // SAFETY: there are `slots` times N bytes in the data area, and the number is less than
        // `slots` after masking.
        unsafe { self.map.data().add(at) }
    }
}

/// The writing end.
pub struct SlotSender<const BATCH: u64> {
    ring: Ring,
    head: u64,
    full_at: u64,
}

impl<const BATCH: u64> Sender for SlotSender<BATCH> {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        let SlotSender { ref ring, mut head, mut full_at } = *self;
        let words = ring.map.words();
        for number in numbers {
            if head == full_at {
                // A record held back now would never be published.
                words[HEAD].store(head, Ordering::Release);
                full_at = wait_for_room(&words[TAIL], head, ring.slots);
            }
            let slot = ring.slot::<N>(head).cast::<[u8; N]>();
            // SAFETY: N mapped bytes, of which any are a [u8; N]; the tail is past what was in this
            // slot, and the reader does not access it again before the head is past it.
            fill(unsafe { &mut *slot }, number);
            head += 1;
            if head.is_multiple_of(BATCH) {
                words[HEAD].store(head, Ordering::Release);
            }
        }
        if BATCH > 1 {
            words[HEAD].store(head, Ordering::Release);
        }
        (self.head, self.full_at) = (head, full_at);
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        let words = self.ring.map.words();
        if self.head == self.full_at {
            self.full_at = words[TAIL].load(Ordering::Acquire) + self.ring.slots;
            if self.head == self.full_at {
                return Ok(false);
            }
        }
        let slot = self.ring.slot::<N>(self.head).cast::<[u8; N]>();
        // SAFETY: as in `send`.
        fill(unsafe { &mut *slot }, number);
        self.head += 1;
        words[HEAD].store(self.head, Ordering::Release);
        Ok(true)
    }
}

/// Waits until a head here leaves the ring less than full, where it holds `most` slots or bytes.
/// Returns where it would be full.
#[cold]
#[inline(never)]
pub(super) fn wait_for_room(tail: &AtomicU64, head: u64, most: u64) -> u64 {
    let mut polls = 0u32;
    loop {
        let full_at = tail.load(Ordering::Acquire) + most;
        if head < full_at {
            return full_at;
        }
        spin_loop();
        polls += 1;
        if polls.is_multiple_of(4096) {
            std::thread::yield_now();
        }
    }
}

/// The reading end.
pub struct SlotReceiver<const BACK: bool> {
    ring: Ring,
    tail: u64,
    owe_at: u64,
    waits: Waits,
}

impl<const BACK: bool> SlotReceiver<BACK> {
    #[inline(always)]
    fn take<const N: usize>(&mut self, head: u64, visit: &mut impl FnMut(&[u8; N])) {
        while self.tail != head {
            let stop = head.min(self.owe_at);
            while self.tail < stop {
                let slot = self.ring.slot::<N>(self.tail);
                // SAFETY: N mapped bytes; the acquired head is past them and the tail is not, so
                // the sender does not touch them.
                visit(unsafe { &*slot.cast::<[u8; N]>() });
                if BACK {
                    write_touch::<N>(slot);
                }
                self.tail += 1;
            }
            if self.tail >= self.owe_at {
                self.ring.map.words()[TAIL].store(self.tail, Ordering::Release);
                self.owe_at = self.tail + self.ring.slots.div_ceil(8);
            }
        }
    }
}

/// Stores the first word of each line again.
#[inline(always)]
pub(super) fn write_touch<const N: usize>(slot: *mut u8) {
    let mut at = 0;
    while at < N {
        // SAFETY: within the N bytes of the slot, and 8-aligned, as payloads are multiples of 8 in a
        // page-aligned area.
        let word = unsafe { slot.add(at) }.cast::<u64>();
        // SAFETY: as above; until the tail is stored, no other process writes here. Volatile, as
        // otherwise the compiler removes a store that changes nothing.
        unsafe { word.write_volatile(word.read()) };
        at += LINE;
    }
}

impl<const BACK: bool> Receiver for SlotReceiver<BACK> {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let head = self.ring.map.words()[HEAD].load(Ordering::Acquire);
        let first = self.tail;
        self.take(head, &mut visit);
        Ok(head - first)
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        let head = self.ring.map.words()[HEAD].load(Ordering::Acquire);
        let first = self.tail;
        self.take(head.min(first + 1), &mut visit);
        Ok(head != first)
    }

    #[inline]
    fn wait(&mut self) {
        let (ring, tail) = (&self.ring, self.tail);
        self.waits.wait(|| ring.map.words()[HEAD].load(Ordering::Acquire) != tail);
    }
}
