//! The kernel's own ring between many producers and one reader, the BPF ring buffer, without any
//! library: three commands of `bpf(2)`, a program of some thirty instructions, and its two
//! mappings.
//!
//! The program publishes [`BLOCK`] numbered records. Each is reserved, written in place and
//! submitted without a wake-up, because the reader here polls by itself: its fastest mode. It is
//! run by `BPF_PROG_TEST_RUN`, which costs a system call for that many records. All this takes
//! privileges; without them, [`Map::create`] or [`Feeder::load`] fails and the ring is not
//! measured.

mod program;
mod system;

pub use program::{BLOCK, Loop, block, into_ringbuf, op};
pub use system::{Program, create_map, freeze, insn, map_id, number, open_map, pin};

use crate::contestant::Visit;
use crate::error::{BenchError, Result};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The type of the map.
const MAP_TYPE_RINGBUF: u32 = 27;
/// Bits of a record's first word besides its length.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// The ring: a map, which processes find by its id.
pub struct Map {
    fd: OwnedFd,
    page: usize,
    data_size: u64,
    /// Two mappings: the reader's page, and the producers' page with the data area twice.
    reader: NonNull<u8>,
    ring: NonNull<u8>,
}

impl Map {
    /// Creates a map of so many bytes.
    pub fn create(data_size: u64) -> Result<Self> {
        let too_large = |_| BenchError::Usage(format!("data size {data_size}"));
        let entries = u32::try_from(data_size).map_err(too_large)?;
        Self::mapped(create_map(MAP_TYPE_RINGBUF, [0, 0], entries, 0)?, data_size)
    }

    /// Opens the map that another process has created.
    pub fn open(id: u32, data_size: u64) -> Result<Self> {
        Self::mapped(open_map(id)?, data_size)
    }

    /// Returns the id that [`Map::open`] takes.
    pub fn id(&self) -> Result<u32> {
        map_id(self.fd.as_fd())
    }

    /// Returns the map itself, which can be polled.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn mapped(fd: OwnedFd, data_size: u64) -> Result<Self> {
        let system = |source| BenchError::System { what: "mapping a BPF ring buffer", source };
        let too_large = |_| BenchError::Usage(format!("data size {data_size}"));
        let page = rustix::param::page_size();
        let twice = page + 2 * usize::try_from(data_size).map_err(too_large)?;
        let [one, twice] =
            [page, twice].map(|len| NonZeroUsize::new(len).unwrap_or(NonZeroUsize::MIN));
        let (read, write) = (ProtFlags::PROT_READ, ProtFlags::PROT_WRITE);
        // SAFETY: without MAP_FIXED the kernel takes addresses that nothing uses.
        let reader = unsafe { mmap(None, one, read | write, MapFlags::MAP_SHARED, &fd, 0) }
            .map_err(system)?
            .cast();
        // SAFETY: as above.
        let ring = unsafe { mmap(None, twice, read, MapFlags::MAP_SHARED, &fd, page as i64) };
        match ring.map_err(system) {
            Ok(ring) => Ok(Map { fd, page, data_size, reader, ring: ring.cast() }),
            Err(error) => {
                // SAFETY: mapped above, and not yet used by anything.
                let unmapped = unsafe { munmap(reader.cast::<c_void>(), page) };
                debug_assert!(unmapped.is_ok(), "{unmapped:?}");
                Err(error)
            }
        }
    }

    fn reader_pos(&self) -> &AtomicU64 {
        // SAFETY: the page's first word is the reader's position; mapped writable for as long as
        // `self`, and accessed atomically by all.
        unsafe { self.reader.cast().as_ref() }
    }

    /// Returns up to where records were reserved.
    pub fn producer_pos(&self) -> u64 {
        // SAFETY: the page's first word is the producers' position; mapped for as long as `self`.
        unsafe { self.ring.cast::<AtomicU64>().as_ref() }.load(Ordering::Acquire)
    }

    /// Releases all space unread: the equivalent of overwriting, as far as a producer is concerned.
    pub fn forget(&self) {
        self.reader_pos().store(self.producer_pos(), Ordering::Release);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let twice = self.page + 2 * self.data_size as usize;
        for (base, len) in [(self.reader, self.page), (self.ring, twice)] {
            // SAFETY: exactly what `mapped` mapped; references into it borrow from `self`.
            let unmapped = unsafe { munmap(base.cast::<c_void>(), len) };
            debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        }
    }
}

/// The reading end.
pub struct Reader {
    map: Map,
    pos: u64,
    /// Where the position is stored next, and how far after that.
    owe_at: u64,
    step: u64,
}

impl Reader {
    /// Reads from this map. Releases space in eighths of the ring, as the other readers do.
    pub fn new(map: Map) -> Self {
        let step = map.data_size / 8;
        Reader { map, pos: 0, owe_at: step, step }
    }

    /// Releases space after each record, as libbpf does.
    pub fn handing_back_each(map: Map) -> Self {
        Reader { map, pos: 0, owe_at: 0, step: 0 }
    }

    /// Returns the map that it reads.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Returns whether something was reserved that is not read.
    #[inline(always)]
    pub fn is_behind(&self) -> bool {
        self.map.producer_pos() != self.pos
    }

    /// Passes every record present to `visit`, in place. Returns how many they were.
    #[inline(always)]
    pub fn drain<const N: usize>(&mut self, visit: impl Visit<N>) -> u64 {
        self.show(u64::MAX, visit)
    }

    /// Passes at most so many records to `visit`.
    #[inline(always)]
    pub fn show<const N: usize>(&mut self, most: u64, mut visit: impl Visit<N>) -> u64 {
        let end = self.map.producer_pos();
        let mut count = 0;
        while self.pos < end && count < most {
            let offset = (self.pos & (self.map.data_size - 1)) as usize;
            // SAFETY: the data area begins a page into the mapping, and is mapped twice.
            let record = unsafe { self.map.ring.add(self.map.page + offset) };
            // SAFETY: 8-aligned and mapped; the kernel stores it atomically.
            let word = unsafe { record.cast::<AtomicU32>().as_ref() }.load(Ordering::Acquire);
            if word & BUSY != 0 {
                break;
            }
            let len = word & !DISCARDED;
            if word & DISCARDED == 0 && len as usize == N {
                // SAFETY: in bounds, as the area is mapped twice.
                let payload = unsafe { record.add(8) };
                // SAFETY: N mapped bytes of a submitted record: they are not written before the
                // reader's position passes them.
                visit(unsafe { payload.cast::<[u8; N]>().as_ref() });
                count += 1;
            }
            self.pos += u64::from(len).next_multiple_of(8) + 8;
            if self.pos >= self.owe_at {
                self.map.reader_pos().store(self.pos, Ordering::Release);
                self.owe_at = self.pos + self.step;
            }
        }
        count
    }
}

/// A producer: the program, loaded.
pub struct Feeder(Program);

impl Feeder {
    /// Loads a program that publishes payloads of `len` bytes into this ring.
    pub fn load(map: &Map, len: usize) -> Result<Self> {
        Program::load(&into_ringbuf(number(map.fd()), len, false, true)).map(Feeder)
    }

    /// Publishes [`BLOCK`] records from this number on. Returns how many found no room.
    #[inline]
    pub fn feed(&self, first: u64) -> Result<u64> {
        Ok(BLOCK - u64::from(self.0.run(&[first, BLOCK])?))
    }
}
