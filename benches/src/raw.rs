//! All unsafe code of this package: the floor's mapping and its two ends, and the cycle counter.
//!
//! The floor is the least code that moves the same bytes with the same layout: a header page with
//! `data_head` and `data_tail` where perf has them, a data area mapped twice so that no record
//! wraps, a header word before each payload. Nothing is checked, so it is no library: it is correct
//! only because the harness creates the file in a directory of its own, gives it one sender and one
//! receiver with the same payload length, and trusts them.

use crate::contestant::{Fill, Setup, Visit};
use crate::error::{BenchError, Result, system};
use crate::waits::Room;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of the header page, as far as they are used.
const WORDS: usize = 512;
/// `data_head` and `data_tail`: on one cache line, as in perf.
const HEAD: usize = 1024 / 8;
const TAIL: usize = 1032 / 8;
/// A record type of the application's range.
const KIND: u64 = 4096;

/// A file of one header page and a data area, the data area mapped twice in a row.
pub struct Mapping {
    base: NonNull<u8>,
    page: usize,
    data_size: usize,
}

impl Mapping {
    /// Creates the file, all zeros, with its space allocated.
    pub fn create(path: &Path, data_size: u64) -> Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let len = rustix::param::page_size() as u64 + data_size;
        file.set_len(len)?;
        let len =
            i64::try_from(len).map_err(|_| BenchError::Usage(format!("data size {data_size}")))?;
        nix::fcntl::posix_fallocate(&file, 0, len).map_err(system("posix_fallocate"))
    }

    /// Maps a file of [`Mapping::create`].
    pub fn open(path: &Path, data_size: u64) -> Result<Self> {
        let too_large = || BenchError::Usage(format!("data size {data_size}"));
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let page = rustix::param::page_size();
        let data = usize::try_from(data_size).map_err(|_| too_large())?;
        let [once, twice] = [page + data, page + 2 * data]
            .map(|len| NonZeroUsize::new(len).unwrap_or(NonZeroUsize::MIN));
        // SAFETY: without MAP_FIXED the kernel takes addresses that nothing uses.
        let base =
            unsafe { mmap_anonymous(None, twice, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE) }
                .map_err(system("mmap"))?
                .cast::<u8>();
        // From here on, dropping it unmaps.
        let mapping = Mapping { base, page, data_size: data };
        mapping.place(&file, 0, once, 0)?;
        let data = NonZeroUsize::new(data).ok_or_else(too_large)?;
        mapping.place(&file, once.get(), data, page)?;
        Ok(mapping)
    }

    /// Maps `len` bytes of the file over the reservation, `at` bytes into it.
    fn place(&self, file: &File, at: usize, len: NonZeroUsize, from: usize) -> Result<()> {
        let address = NonZeroUsize::new(self.base.as_ptr() as usize + at);
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        // SAFETY: both callers stay within the page + 2 * data bytes that `open` has just reserved
        // for itself, so MAP_FIXED replaces no other mapping.
        unsafe { mmap(address, len, prot, flags, file, from) }.map(drop).map_err(system("mmap"))
    }

    /// Returns the header page.
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the mapping begins with a page, 4 KiB at least, readable, writable, page-aligned
        // and mapped for as long as `self`; both processes access it as these atomics only.
        unsafe { self.base.cast::<[AtomicU64; WORDS]>().as_ref() }
    }

    /// Returns the data area's first byte. Two times `data_size` bytes follow, the second image of
    /// the first.
    #[inline(always)]
    pub fn data(&self) -> *mut u8 {
        // SAFETY: the data area begins one page into the mapping.
        unsafe { self.base.as_ptr().add(self.page) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let len = self.page + 2 * self.data_size;
        // SAFETY: exactly what `open` reserved; references into it borrow from `self`.
        let unmapped = unsafe { munmap(self.base.cast::<c_void>(), len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// A record of `N` bytes payload, header included.
const fn size<const N: usize>() -> u64 {
    (N as u64 + 8).next_multiple_of(8)
}

/// The floor's writing end.
pub struct FloorSender {
    map: Mapping,
    data: *mut u8,
    data_size: u64,
    head: u64,
    /// The end of the free space: the tail as last loaded, plus the size; out of reach in overwrite
    /// mode, which does not check.
    full_at: u64,
}

impl FloorSender {
    /// Attaches to write.
    pub fn open(path: &Path, setup: &Setup) -> Result<Self> {
        let map = Mapping::open(path, setup.data_size)?;
        let data_size = setup.data_size;
        let full_at = if setup.overwrite { u64::MAX } else { data_size };
        Ok(FloorSender { data: map.data(), map, data_size, head: 0, full_at })
    }

    /// Publishes a record for each number, which `fill` writes in place. Waits while there is no
    /// room.
    #[inline(always)]
    pub fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) {
        // Locals, as the compiler may not keep fields in registers across a release store.
        let FloorSender { ref map, data, data_size, mut head, mut full_at } = *self;
        let words = map.words();
        for number in numbers {
            let end = head + size::<N>();
            if end >= full_at {
                full_at = wait_for_room(&words[TAIL], end, data_size);
            }
            let offset = (head & (data_size - 1)) as usize;
            // SAFETY: an offset in the first of the two images of the data area.
            let slot = unsafe { data.add(offset) };
            let word = KIND | size::<N>() << 48;
            // SAFETY: `slot` is 8-aligned, for sizes are multiples of 8 in a page-aligned area, and
            // the word is within the mapping. The receiver does not read it before the head passes
            // it and is done with what was there, or, in overwrite mode, reads only after the
            // sender's end.
            unsafe { slot.cast::<u64>().write(word) };
            // SAFETY: in bounds, as a record is smaller than the data area, which is mapped twice.
            let payload = unsafe { slot.add(8) };
            // SAFETY: the N bytes are mapped (as above), any bytes are a [u8; N], and as for the
            // word no other process accesses them until the head is stored.
            fill(unsafe { &mut *payload.cast::<[u8; N]>() }, number);
            words[HEAD].store(end, Ordering::Release);
            head = end;
        }
        (self.head, self.full_at) = (head, full_at);
    }

    /// Publishes one record if there is room, and returns whether there was.
    pub fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> bool {
        let end = self.head + size::<N>();
        if end >= self.full_at {
            self.full_at = self.map.words()[TAIL].load(Ordering::Acquire) + self.data_size;
            if end >= self.full_at {
                return false;
            }
        }
        self.send(number..number + 1, fill);
        true
    }
}

/// Waits until a head at `end` leaves the ring less than full. Returns the position at which it
/// would be full.
#[cold]
#[inline(never)]
fn wait_for_room(tail: &AtomicU64, end: u64, data_size: u64) -> u64 {
    let mut room = Room::default();
    loop {
        let full_at = tail.load(Ordering::Acquire) + data_size;
        if end < full_at {
            return full_at;
        }
        room.wait();
    }
}

/// The floor's reading end.
pub struct FloorReceiver {
    map: Mapping,
    data: *const u8,
    data_size: u64,
    tail: u64,
    /// Where the tail is stored next.
    owe_at: u64,
}

impl FloorReceiver {
    /// Starts at the first record, or, in overwrite mode and after the sender's end, at the oldest.
    pub fn open(path: &Path, setup: &Setup) -> Result<Self> {
        let map = Mapping::open(path, setup.data_size)?;
        let size = setup.payload as u64 + 8;
        let head = map.words()[HEAD].load(Ordering::Acquire);
        let tail = head - head.min(setup.data_size) / size * size;
        let data_size = setup.data_size;
        Ok(FloorReceiver { data: map.data(), map, data_size, tail, owe_at: tail + data_size / 8 })
    }

    /// Returns whether there is something to read.
    #[inline(always)]
    pub fn is_behind(&self) -> bool {
        self.map.words()[HEAD].load(Ordering::Acquire) != self.tail
    }

    /// Passes every record present to `visit`, in place, and releases the space in eighths of the
    /// ring: the tail shares its cache line with the head, so each store of it costs the sender a
    /// transfer, and seven eighths of the ring are enough for a sender. Returns how many records
    /// they were.
    #[inline(always)]
    pub fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> u64 {
        let head = self.map.words()[HEAD].load(Ordering::Acquire);
        let first = self.tail;
        while self.tail != head {
            let stop = head.min(self.owe_at);
            while self.tail < stop {
                let offset = (self.tail & (self.data_size - 1)) as usize;
                // SAFETY: an offset in the first of the two images of the data area.
                let slot = unsafe { self.data.add(offset) };
                // SAFETY: 8-aligned and mapped; the acquired head is past this record, so its bytes
                // were written before and stay until the tail moves.
                let word = unsafe { slot.cast::<u64>().read() };
                // SAFETY: in bounds, as the area is mapped twice.
                let payload = unsafe { slot.add(8) };
                // SAFETY: N mapped bytes of a whole record, pinned as above.
                visit(unsafe { &*payload.cast::<[u8; N]>() });
                // Records have their own lengths in this layout: the next is where the word says.
                self.tail += word >> 48;
            }
            if self.tail >= self.owe_at {
                self.map.words()[TAIL].store(self.tail, Ordering::Release);
                self.owe_at = self.tail + self.data_size / 8;
            }
        }
        (self.tail - first) / size::<N>()
    }
}

/// A clock for single round trips: the cycle counter, which costs a third of the system's clock.
/// [`crate::drive`] measures the duration of its ticks.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has it, and Linux permits it in user space unless
        // configured otherwise.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}
