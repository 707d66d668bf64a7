//! A BPF ring-buffer map, mapped: programs write their records into it.

use crate::bpf::map::{BpfMap, NoBpfMap};
use crate::sys::fork::NotForChildren;
use crate::sys::host::page_size;
use crate::sys::poll_fd::poll_in;
use memmap2::{MmapOptions, MmapRaw};
use nix::libc;
use perfring_abi::atomic::AtomicU64;
use perfring_abi::{BpfConsumerPage, BpfProducerPage};
use perfring_ring::{BpfFault, BpfPages, BpfReader, BpfRole, BpfStep, BpfView};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::slice;
use std::time::{Duration, Instant};

/// The longest sleep of a waiting reader that the kernel wakes: a program may submit records without a wake-up.
const PAUSE_MAX: Duration = Duration::from_millis(10);
/// The pause between two looks where the kernel wakes no reader.
const PAUSE: Duration = Duration::from_millis(1);

/// A map with its reader.
#[derive(Debug)]
pub struct MappedBpf {
    // First, so that it is dropped first: the registration for forked children.
    children: NotForChildren,
    /// The consumer's page, writable for a consumer alone.
    consumer: MmapRaw,
    /// The producers' page, and the data area. The kernel offers the data a second time after that, which is not mapped:
    /// records are copied.
    ring: MmapRaw,
    page: usize,
    reader: BpfReader,
    map: BpfMap,
}

impl MappedBpf {
    /// Maps a map, and begins at its oldest record: a consumer where the last one stopped. A map in overwrite mode has no
    /// consumer: its role is another one in any case.
    ///
    /// # Errors
    /// [`NoBpfMap`], or in the inner result a [`BpfFault`].
    pub fn map(map: BpfMap, role: BpfRole) -> Result<Result<Self, BpfFault>, NoBpfMap> {
        let failed = |source| NoBpfMap::Other { step: "mapping it", source };
        let page = page_size() as usize;
        let size = usize::try_from(map.data_size()).unwrap_or_default();
        if !size.is_power_of_two() || size < page {
            return Err(failed(io::ErrorKind::InvalidData.into()));
        }
        let role = if map.overwrites() { BpfRole::OverwriteObserver } else { role };
        let consumer = match role {
            BpfRole::Consumer => MmapOptions::new().len(page).map_raw(&map.as_fd()),
            _ => MmapOptions::new().len(page).map_raw_read_only(&map.as_fd()),
        };
        let consumer = consumer.map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) if role == BpfRole::Consumer => NoBpfMap::Frozen,
            _ => failed(error),
        })?;
        let ring = MmapOptions::new()
            .offset(page as u64)
            .len(page + size)
            .map_raw_read_only(&map.as_fd())
            .map_err(failed)?;
        let base = |map: &MmapRaw| NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        let ranges = [(base(&consumer), page), (base(&ring), page + size), (base(&ring), 0)];
        let children = NotForChildren::new(ranges, &map.as_fd());
        let reader = BpfReader::attach(&view(&consumer, &ring, page), role);
        Ok(reader.map(|reader| MappedBpf { children, consumer, ring, page, reader, map }))
    }

    /// Returns the map.
    #[must_use]
    pub fn source(&self) -> &BpfMap {
        &self.map
    }

    /// Returns the reader's positions and counts.
    #[must_use]
    pub fn reader(&self) -> &BpfReader {
        &self.reader
    }

    /// Polls the producers' position. In a forked child, which has no map, it never advances.
    ///
    /// # Errors
    /// [`BpfFault`].
    pub fn poll(&mut self) -> Result<(), BpfFault> {
        match self.children.forked() {
            true => Ok(()),
            false => self.reader.poll(&view(&self.consumer, &self.ring, self.page)),
        }
    }

    /// Returns the next record or gap before the last poll's end, and passes over it: see [`BpfReader::next`].
    ///
    /// # Errors
    /// [`BpfFault`].
    pub fn next(&mut self, body: &mut Vec<u64>) -> Result<BpfStep, BpfFault> {
        match self.children.forked() {
            true => Ok(BpfStep::Empty),
            false => self.reader.next(&view(&self.consumer, &self.ring, self.page), body),
        }
    }

    /// Releases everything before `pos`, as a consumer.
    pub fn release(&mut self, pos: u64) {
        if !self.children.forked() {
            self.reader.release(&view(&self.consumer, &self.ring, self.page), pos);
        }
    }

    /// Limits reading to the present reservations.
    pub fn limit(&mut self) {
        if !self.children.forked() {
            self.reader.limit(&view(&self.consumer, &self.ring, self.page));
        }
    }

    /// Returns the end of the present reservations.
    #[must_use]
    pub fn live_head(&self) -> u64 {
        match self.children.forked() {
            true => self.reader.head(),
            false => view(&self.consumer, &self.ring, self.page).producer_pos(),
        }
    }

    /// Waits until there is a record at the cursor, or it is gone, for at most `timeout`. Returns whether that is so.
    ///
    /// The kernel wakes a consumer that has released everything. Other readers look again every millisecond.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if self.children.forked() {
                return false;
            }
            let (view, cursor) =
                (view(&self.consumer, &self.ring, self.page), self.reader.cursor());
            let is_reserved = view.producer_pos() != cursor;
            if is_reserved && !view.header(cursor).is_busy() {
                return true;
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return false;
            }
            // While something is reserved, the descriptor is readable, whether it can be read or not.
            let is_woken = self.reader.role() == BpfRole::Consumer
                && self.reader.released() == cursor
                && !is_reserved;
            if is_woken {
                poll_in(self.map.as_fd().as_raw_fd(), left.min(PAUSE_MAX));
            } else {
                std::thread::sleep(left.min(PAUSE));
            }
        }
    }
}

impl AsFd for MappedBpf {
    /// Returns the map's descriptor, for `poll`: readable while the consumer has not released everything that is reserved.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// The map as the algorithm sees it.
#[inline]
fn view<'a>(consumer: &'a MmapRaw, ring: &'a MmapRaw, page: usize) -> BpfView<'a> {
    // SAFETY: a page is mapped for as long as `consumer`, aligned, and all atomics: any content is valid, whatever another
    // process or the kernel stores. Only a consumer, which has mapped it writable, stores there.
    let positions = unsafe { &*consumer.as_ptr().cast::<BpfConsumerPage>() };
    // SAFETY: as above; the first page of `ring`, of which the algorithm only loads.
    let producer = unsafe { &*ring.as_ptr().cast::<BpfProducerPage>() };
    let data = ring.as_ptr().wrapping_add(page).cast::<AtomicU64>();
    // SAFETY: the rest of the mapping, which `MappedBpf::map` made a power of two of bytes; aligned; atomics that are only
    // loaded, as above. The kernel's stores of other widths to the same words are to us stores of an unknown value, which
    // the algorithm checks.
    let data = unsafe { slice::from_raw_parts(data, (ring.len() - page) / 8) };
    BpfView::new(positions, producer, data)
}
