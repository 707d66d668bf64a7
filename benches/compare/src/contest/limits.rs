//! The limits: bare loops that move the same bytes and check nothing. The third one, over
//! perfring's layout, is [`perfring_bench::contest::Floor`].
//!
//! They are no libraries: they are correct only because the harness gives each one receiver and one
//! length of payload, and trusts them.

use perfring_bench::Result;
use perfring_bench::contest::bare_loop;
use perfring_bench::contestant::{
    About, Can, Contestant, Fill, Location, Receiver, Sender, Setup, Visit,
};
use perfring_bench::raw::Mapping;
use perfring_bench::waits::{Room, Waits};
use std::hint::spin_loop;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A cache line.
const LINE: usize = 64;

fn about(setup: &Setup, settings: String) -> About {
    About {
        version: "raw pointers".to_owned(),
        location: Location::Processes,
        settings: format!("{settings}, tail in eighths, one word of each line written back"),
        waits: setup.pace.polls(),
    }
}

/// Stores the first word of each line of a record again, so that the sender finds the lines owned
/// by one core and not shared by two.
///
/// # Safety
/// `slot` is 8-aligned, of `N` mapped bytes, and no other process accesses them meanwhile.
#[inline(always)]
unsafe fn write_touch<const N: usize>(slot: *mut u8) {
    for at in (0..N).step_by(LINE) {
        // SAFETY: within the N bytes, by the caller.
        let word = unsafe { slot.add(at) }.cast::<u64>();
        // SAFETY: as above. Volatile, as otherwise the compiler removes a store that changes
        // nothing.
        unsafe { word.write_volatile(word.read()) };
    }
}

/// Fixed slots that hold a payload each, and nothing before it; head and tail on lines of their
/// own. The reader write-touches the lines. The fastest of all bare loops that were tried.
pub struct Slots;

/// Records published and records finished: words of the header page, far enough apart that neither
/// line is prefetched with the other.
const SLOT_HEAD: usize = 0;
const SLOT_TAIL: usize = 64;

impl Contestant for Slots {
    type Sender = SlotSender;
    type Receiver = SlotReceiver;
    type Held = ();

    fn can() -> Can {
        bare_loop()
    }

    fn about(setup: &Setup) -> About {
        about(setup, format!("{} fixed slots, head stored for each", slots(setup)))
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        Mapping::create(path, setup.data_size)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<SlotSender> {
        let (map, slots) = (Mapping::open(path, setup.data_size)?, slots(setup));
        Ok(SlotSender { map, slots, head: 0, full_at: slots })
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<SlotReceiver> {
        let (map, slots) = (Mapping::open(path, setup.data_size)?, slots(setup));
        let (owe_at, waits) = (slots.div_ceil(8), Waits::new(setup.pace));
        Ok(SlotReceiver { map, slots, tail: 0, owe_at, waits })
    }
}

/// Returns how many fit, a power of two.
fn slots(setup: &Setup) -> u64 {
    let fit = (setup.data_size / setup.payload.max(1) as u64).max(1);
    1 << fit.ilog2()
}

/// Returns where the slot of this record begins.
#[inline(always)]
fn slot<const N: usize>(map: &Mapping, slots: u64, number: u64) -> *mut [u8; N] {
    let at = (number & (slots - 1)) as usize * N;
    // SAFETY: there are `slots` times N bytes in the data area, and the number is less than `slots`
    // after masking.
    unsafe { map.data().add(at) }.cast()
}

/// The writing end of [`Slots`].
pub struct SlotSender {
    map: Mapping,
    slots: u64,
    head: u64,
    full_at: u64,
}

impl Sender for SlotSender {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        // Locals, as the compiler may not keep fields in registers across a release store.
        let SlotSender { ref map, slots, mut head, mut full_at } = *self;
        let words = map.words();
        for number in numbers {
            if head == full_at {
                full_at = wait_for_room(&words[SLOT_TAIL], head, slots);
            }
            // SAFETY: N mapped bytes, of which any are a [u8; N]; the tail is past what was in this
            // slot, and the reader does not access it again before the head is past it.
            fill(unsafe { &mut *slot(map, slots, head) }, number);
            head += 1;
            words[SLOT_HEAD].store(head, Ordering::Release);
        }
        (self.head, self.full_at) = (head, full_at);
        Ok(())
    }

    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        if self.head == self.full_at {
            self.full_at = self.map.words()[SLOT_TAIL].load(Ordering::Acquire) + self.slots;
            if self.head == self.full_at {
                return Ok(false);
            }
        }
        self.send(number..number + 1, fill)?;
        Ok(true)
    }
}

/// Waits until a head here leaves the ring less than full. Returns where it would be full.
#[cold]
#[inline(never)]
fn wait_for_room(tail: &AtomicU64, head: u64, most: u64) -> u64 {
    let mut room = Room::default();
    loop {
        let full_at = tail.load(Ordering::Acquire) + most;
        if head < full_at {
            return full_at;
        }
        room.wait();
    }
}

/// The reading end of [`Slots`].
pub struct SlotReceiver {
    map: Mapping,
    slots: u64,
    tail: u64,
    owe_at: u64,
    waits: Waits,
}

impl SlotReceiver {
    /// Passes at most so many records to `visit`. Returns how many.
    #[inline(always)]
    fn take<const N: usize>(&mut self, most: u64, visit: &mut impl Visit<N>) -> u64 {
        let first = self.tail;
        let head = self.map.words()[SLOT_HEAD].load(Ordering::Acquire);
        let head = head.min(first.saturating_add(most));
        while self.tail != head {
            let stop = head.min(self.owe_at);
            while self.tail < stop {
                let slot = slot::<N>(&self.map, self.slots, self.tail);
                // SAFETY: N mapped bytes; the acquired head is past them and the tail is not, so
                // the sender does not touch them.
                visit(unsafe { &*slot });
                // SAFETY: as above; payloads are multiples of 8 in a page-aligned area.
                unsafe { write_touch::<N>(slot.cast()) };
                self.tail += 1;
            }
            if self.tail >= self.owe_at {
                self.map.words()[SLOT_TAIL].store(self.tail, Ordering::Release);
                self.owe_at = self.tail + self.slots.div_ceil(8);
            }
        }
        head - first
    }
}

impl Receiver for SlotReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        Ok(self.take(u64::MAX, &mut visit))
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        Ok(self.take(1, &mut visit) == 1)
    }

    #[inline]
    fn wait(&mut self) {
        let (map, tail) = (&self.map, self.tail);
        self.waits.wait(|| map.words()[SLOT_HEAD].load(Ordering::Acquire) != tail);
    }
}

/// Many senders that take a lock word by compare-and-swap, copy header and payload, store the head,
/// and release the word: nothing else that a shared ring needs. Nobody counts, and if a sender dies
/// with the lock, that is the end. The layout is perfring's, and the reader prefetches as
/// perfring's does.
pub struct LockWord;

/// Words of the header page, where perf has them, and the lock with a line of its own.
const HEAD: usize = 1024 / 8;
const TAIL: usize = 1032 / 8;
const LOCK: usize = 2048 / 8;
/// A header word that is not zero.
const WORD: u64 = 4096;
/// As perfring's producers wait for a lock.
const PAUSES: u32 = 16;
const ROUNDS: u32 = 16;

impl Contestant for LockWord {
    type Sender = LockSender;
    type Receiver = LockReceiver;
    type Held = ();

    fn can() -> Can {
        Can { senders: Ok(()), ..bare_loop() }
    }

    fn about(setup: &Setup) -> About {
        let kib = setup.data_size / 1024;
        let how = "perf's layout, a record is copied and the head stored under a lock word";
        about(setup, format!("{kib} KiB, {how}"))
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        Mapping::create(path, setup.data_size)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<LockSender> {
        let (map, size) = (Mapping::open(path, setup.data_size)?, setup.data_size);
        Ok(LockSender { map, size, full_at: size })
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<LockReceiver> {
        let (map, size) = (Mapping::open(path, setup.data_size)?, setup.data_size);
        Ok(LockReceiver { map, size, tail: 0, owe_at: size / 8, waits: Waits::new(setup.pace) })
    }
}

/// Returns where the record at this position begins.
#[inline(always)]
fn at(map: &Mapping, size: u64, pos: u64) -> *mut u8 {
    // SAFETY: an offset in the first of the two images of the data area.
    unsafe { map.data().add((pos & (size - 1)) as usize) }
}

/// One of the writing ends.
pub struct LockSender {
    map: Mapping,
    size: u64,
    full_at: u64,
}

/// Takes a word that another sender holds.
#[cold]
#[inline(never)]
fn lock_slowly(lock: &AtomicU64) {
    let mut rounds = 0u32;
    loop {
        for _ in 0..PAUSES {
            spin_loop();
        }
        if lock.load(Ordering::Relaxed) == 0
            && lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return;
        }
        rounds += 1;
        if rounds.is_multiple_of(ROUNDS) {
            std::thread::yield_now();
        }
    }
}

impl Sender for LockSender {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        for number in numbers {
            let mut polls = 0u32;
            while !self.offer(number, &mut fill)? {
                // As `publish_timeout` does: without the lock, and not at once.
                for _ in 0..2 * PAUSES {
                    spin_loop();
                }
                polls += 1;
                if polls.is_multiple_of(64) {
                    std::thread::yield_now();
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
        let words = self.map.words();
        let lock = &words[LOCK];
        if lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            lock_slowly(lock);
        }
        let head = words[HEAD].load(Ordering::Relaxed);
        let end = head + N as u64 + 8;
        if end >= self.full_at {
            self.full_at = words[TAIL].load(Ordering::Acquire) + self.size;
            if end >= self.full_at {
                lock.store(0, Ordering::Release);
                return Ok(false);
            }
        }
        let record = at(&self.map, self.size, head);
        // SAFETY: in bounds, as the area is mapped twice; any bytes are a [u8; N]; the tail is past
        // what was here, no other sender is before it has the word, and the reader does not look
        // before the head says so.
        fill(unsafe { &mut *record.add(8).cast::<[u8; N]>() }, number);
        // SAFETY: as above; 8-aligned, as sizes of records are multiples of 8.
        unsafe { record.cast::<u64>().write(WORD | (end - head) << 48) };
        words[HEAD].store(end, Ordering::Release);
        lock.store(0, Ordering::Release);
        Ok(true)
    }
}

/// The reading end of [`LockWord`].
pub struct LockReceiver {
    map: Mapping,
    size: u64,
    tail: u64,
    owe_at: u64,
    waits: Waits,
}

impl LockReceiver {
    /// Passes at most so many records to `visit`. Returns how many.
    #[inline(always)]
    fn take<const N: usize>(&mut self, most: u64, visit: &mut impl Visit<N>) -> u64 {
        let LockReceiver { ref map, size, mut tail, mut owe_at, .. } = *self;
        let words = map.words();
        let head = words[HEAD].load(Ordering::Acquire);
        let mut count = 0;
        while count < most && tail != head {
            let record = at(map, size, tail);
            // SAFETY: 8-aligned and mapped; the acquired head is past it.
            let word = unsafe { record.cast::<u64>().read() };
            // SAFETY: in bounds, as the area is mapped twice; the record stays until the tail is
            // stored.
            visit(unsafe { &*record.add(8).cast::<[u8; N]>() });
            // SAFETY: the same record's bytes.
            unsafe { write_touch::<N>(record.add(8)) };
            tail += word >> 48;
            count += 1;
            if tail >= owe_at {
                words[TAIL].store(tail, Ordering::Release);
                owe_at = tail + size / 8;
            }
        }
        (self.tail, self.owe_at) = (tail, owe_at);
        count
    }
}

impl Receiver for LockReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        Ok(self.take(u64::MAX, &mut visit))
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
        Ok(self.take(1, &mut visit) == 1)
    }

    #[inline]
    fn wait(&mut self) {
        let (map, size, tail) = (&self.map, self.size, self.tail);
        self.waits.wait(|| {
            // The next record's lines come together with the head's.
            prefetch(at(map, size, tail));
            prefetch(at(map, size, tail + 64));
            map.words()[HEAD].load(Ordering::Acquire) != tail
        });
    }
}

#[inline(always)]
fn prefetch(line: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which reads nothing as far as the language can tell.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
