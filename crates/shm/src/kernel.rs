//! The kernel's own rings: `perf_event_open(2)`, and the mapping that it writes its records into.

use crate::file::host_page_size;
use crate::fork::NotForChildren;
use bytemuck::{Pod, Zeroable};
use memmap2::{MmapOptions, MmapRaw};
use nix::libc;
use perfring_abi::Header;
use perfring_abi::atomic::AtomicU64;
use perfring_ring::{Corrupt, KernelFrame, KernelReader, Ring};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The longest pause between two looks of a waiting reader: the kernel wakes it for many records
/// only, so that reading makes little of what it reads about.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Which of the kernel's other records are wanted besides an event's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Also {
    /// Threads that begin, end, and get a name.
    pub tasks: bool,
    /// Files that are mapped with execute permission.
    pub mappings: bool,
    /// Threads that come to and leave a processor.
    pub switches: bool,
}

/// What is asked of the kernel: one of its software events.
///
/// Each sample is `identifier, ip, pid tid, time, addr, cpu, period`, and each other record ends
/// with `pid tid, time, cpu, identifier`: 64-bit words, `pid tid` two halves of one. All times are of
/// `CLOCK_BOOTTIME` as the initial time namespace has it, as perfring's stamps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEventSpec {
    /// `enum perf_sw_ids`.
    pub config: u64,
    /// A sample for so many; of the clocks, ns. 0: none.
    pub period: u64,
    /// What else is wanted.
    pub also: Also,
    /// Leave out what happens in the kernel itself, as most systems ask of most users.
    pub user_only: bool,
    /// Whoever waits is woken for so many bytes.
    pub wakeup_bytes: u32,
}

/// Whose events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A thread's, and of the threads and processes that it starts, while on this processor.
    Thread {
        /// Its id, as this process sees it.
        tid: i32,
        /// The processor.
        cpu: i32,
    },
    /// All that happens on a processor.
    Cpu(i32),
}

/// `struct perf_event_attr` up to `clockid`: what Linux 4.1 knows, and takes from us for ever.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
}

const TYPE_SOFTWARE: u32 = 1;
/// `IP | TID | TIME | ADDR | CPU | PERIOD | IDENTIFIER`.
const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 7 | 1 << 8 | 1 << 16;
/// Since Linux 6.0.
const FORMAT_LOST: u64 = 1 << 4;
const CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;

/// The bits of `perf_event_attr`, in their order.
mod flag {
    pub(super) const DISABLED: u64 = 1;
    pub(super) const INHERIT: u64 = 1 << 1;
    pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub(super) const EXCLUDE_HV: u64 = 1 << 6;
    pub(super) const MMAP: u64 = 1 << 8;
    pub(super) const COMM: u64 = 1 << 9;
    pub(super) const TASK: u64 = 1 << 13;
    pub(super) const WATERMARK: u64 = 1 << 14;
    pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub(super) const MMAP2: u64 = 1 << 23;
    pub(super) const COMM_EXEC: u64 = 1 << 24;
    pub(super) const USE_CLOCKID: u64 = 1 << 25;
    pub(super) const CONTEXT_SWITCH: u64 = 1 << 26;
}

impl KernelEventSpec {
    fn attr(&self, whose: Whose, read_format: u64) -> Attr {
        let mut flags = flag::DISABLED | flag::WATERMARK | flag::SAMPLE_ID_ALL | flag::USE_CLOCKID;
        for (wanted, bits) in [
            (matches!(whose, Whose::Thread { .. }), flag::INHERIT),
            (self.user_only, flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV),
            (self.also.tasks, flag::TASK | flag::COMM | flag::COMM_EXEC),
            (self.also.mappings, flag::MMAP | flag::MMAP2),
            (self.also.switches, flag::CONTEXT_SWITCH),
        ] {
            flags |= if wanted { bits } else { 0 };
        }
        Attr {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attr>() as u32,
            config: self.config,
            sample_period: self.period,
            sample_type: SAMPLE_TYPE,
            read_format,
            // C's bit fields begin at the other end there.
            flags: if cfg!(target_endian = "big") { flags.reverse_bits() } else { flags },
            wakeup_watermark: self.wakeup_bytes,
            clockid: libc::CLOCK_BOOTTIME,
            ..Attr::zeroed()
        }
    }
}

/// Why there is no event.
#[derive(Debug)]
pub enum NoEvent {
    /// The thread has ended, or the processor is off.
    Gone,
    /// This user may not, or a sandbox forbids it.
    Forbidden,
    /// The kernel has no such system call.
    Missing,
    /// The kernel does not know what was asked for.
    Unknown,
    /// The process has as many descriptors as it may.
    Descriptors,
    /// Another reason.
    Other(io::Error),
}

impl From<io::Error> for NoEvent {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ESRCH | libc::ENODEV) => NoEvent::Gone,
            Some(libc::EACCES | libc::EPERM) => NoEvent::Forbidden,
            Some(libc::ENOSYS) => NoEvent::Missing,
            Some(libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP) => NoEvent::Unknown,
            Some(libc::EMFILE | libc::ENFILE) => NoEvent::Descriptors,
            _ => NoEvent::Other(error),
        }
    }
}

/// An open event. It counts nothing until its ring is enabled.
#[derive(Debug)]
pub struct KernelEvent {
    file: File,
    /// Whether the kernel tells how many of its records were lost.
    tells_lost: bool,
}

impl KernelEvent {
    /// Opens an event.
    ///
    /// # Errors
    /// See [`NoEvent`].
    pub fn open(spec: &KernelEventSpec, whose: Whose) -> Result<Self, NoEvent> {
        let (pid, cpu) = match whose {
            Whose::Thread { tid, cpu } => (tid, cpu),
            Whose::Cpu(cpu) => (-1, cpu),
        };
        for read_format in [FORMAT_LOST, 0] {
            let attr = spec.attr(whose, read_format);
            let (attr, none): (*const Attr, libc::c_int) = (&raw const attr, -1);
            // SAFETY: the kernel reads `size` bytes at `attr`, which is what the struct has, and
            // writes there at most the size that it would rather have (E2BIG).
            let fd =
                unsafe { libc::syscall(libc::SYS_perf_event_open, attr, pid, cpu, none, CLOEXEC) };
            if fd >= 0 {
                // SAFETY: a descriptor that was just opened, and that nobody else knows of.
                let fd = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
                return Ok(KernelEvent { file: fd.into(), tells_lost: read_format != 0 });
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINVAL) {
                return Err(error.into());
            }
        }
        Err(NoEvent::Unknown)
    }

    fn control(&self, request: libc::c_ulong, value: libc::c_int) -> io::Result<()> {
        // SAFETY: these requests take a number.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, value) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Records of it that found no room since it was opened, if the kernel counts them.
    fn lost(&self) -> io::Result<Option<u64>> {
        if !self.tells_lost {
            return Ok(None);
        }
        let mut words = [0u64; 2]; // value, lost
        match (&self.file).read(bytemuck::bytes_of_mut(&mut words))? {
            16 => Ok(Some(words[1])),
            _ => Ok(None), // an event that can count no more reads as nothing
        }
    }
}

impl AsFd for KernelEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The events that write into one ring.
#[derive(Debug)]
pub struct KernelEvents {
    events: Vec<KernelEvent>,
    /// The first whose tasks may still live.
    alive: AtomicUsize,
    stopped: AtomicBool,
}

impl KernelEvents {
    /// The kernel writes from now on.
    ///
    /// # Errors
    /// What `ioctl(2)` says.
    pub fn enable(&self) -> io::Result<()> {
        self.events.iter().try_for_each(|event| event.control(IOC_ENABLE, 0))
    }

    /// The kernel writes no more, once and for all.
    ///
    /// # Errors
    /// What `ioctl(2)` says.
    pub fn stop(&self) -> io::Result<()> {
        self.events.iter().try_for_each(|event| event.control(IOC_DISABLE, 0))?;
        self.stopped.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether [`KernelEvents::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether nothing is written any more: everything has ended that the events are of, or they
    /// were stopped.
    #[must_use]
    pub fn is_over(&self) -> bool {
        if self.is_stopped() {
            return true;
        }
        self.poll(Duration::ZERO);
        self.alive.load(Ordering::Relaxed) >= self.events.len()
    }

    /// Records that found no room since the ring was made, told in it or not; `None` before Linux
    /// 6.0, which does not tell.
    ///
    /// # Errors
    /// What `read(2)` says.
    pub fn lost(&self) -> io::Result<Option<u64>> {
        let mut sum = 0u64;
        for event in &self.events {
            match event.lost()? {
                Some(lost) => sum = sum.saturating_add(lost),
                None => return Ok(None),
            }
        }
        Ok(Some(sum))
    }

    /// Sleeps until the kernel wakes the ring's readers. Passes over events that have ended: their
    /// descriptors would wake for ever.
    fn poll(&self, limit: Duration) {
        let mut limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
        loop {
            // Relaxed, here and below: a hint, and whoever is behind finds out as well.
            let alive = self.alive.load(Ordering::Relaxed);
            let event = self.events.get(alive);
            let fd = event.map_or(-1, |event| event.file.as_raw_fd()); // which poll passes over
            let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: one struct, which is ours.
            unsafe { libc::poll(&raw mut poll, 1, limit) };
            if event.is_none() || poll.revents & (libc::POLLHUP | libc::POLLNVAL) == 0 {
                return;
            }
            self.alive.fetch_max(alive + 1, Ordering::Relaxed);
            limit = 0;
        }
    }
}

/// A ring that the kernel writes: of one processor, for any number of events.
#[derive(Debug)]
pub struct MappedKernel {
    // First, so that it is dropped first: what a forked child is cut off from.
    children: NotForChildren,
    map: MmapRaw,
    page: usize,
    reader: KernelReader,
    events: Arc<KernelEvents>,
}

impl MappedKernel {
    /// Maps a ring that these events write into, which must be of one processor, with a data area of
    /// a power of two of whole pages.
    ///
    /// # Errors
    /// What `mmap(2)` says: `EPERM` where so much memory may not be locked.
    pub fn map(events: Vec<KernelEvent>, data_size: u64) -> io::Result<Self> {
        let page = host_page_size() as usize;
        let size = usize::try_from(data_size).ok().filter(|size| size.is_power_of_two());
        let len = size.filter(|size| *size >= page).and_then(|size| size.checked_add(page));
        let (Some(len), Some((first, more))) = (len, events.split_first()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let map = MmapOptions::new().len(len).map_raw(&first.file)?;
        let base = NonNull::new(map.as_mut_ptr()).unwrap_or(NonNull::dangling());
        let data = NonNull::new(map.as_mut_ptr().wrapping_add(page)).unwrap_or(base);
        let children =
            NotForChildren::new([(base, page), (data, len - page), (base, 0)], &first.file);
        let damaged = |corrupt: Corrupt| io::Error::other(corrupt.to_string());
        let reader = KernelReader::attach(ring(&map, page)).map_err(damaged)?;
        for event in more {
            event.control(IOC_SET_OUTPUT, first.file.as_raw_fd())?;
        }
        let events =
            KernelEvents { events, alive: AtomicUsize::new(0), stopped: AtomicBool::new(false) };
        Ok(MappedKernel { children, map, page, reader, events: Arc::new(events) })
    }

    /// The events that write into it.
    #[must_use]
    pub fn events(&self) -> &Arc<KernelEvents> {
        &self.events
    }

    /// A fresh look at how far the kernel is. In a forked child, which has no ring, nothing comes.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn look(&mut self) -> Result<u64, Corrupt> {
        match self.children.forked() {
            true => Ok(self.reader.head()),
            false => self.reader.look(ring(&self.map, self.page)),
        }
    }

    /// The record at `cursor`, if one is known of, with its body copied to `body`.
    ///
    /// # Errors
    /// [`Corrupt`].
    #[inline]
    pub fn peek(&self, cursor: u64, body: &mut Vec<u64>) -> Result<Option<KernelFrame>, Corrupt> {
        if self.children.forked() {
            return Ok(None);
        }
        let ring = ring(&self.map, self.page);
        let Some(frame) = self.reader.peek(ring, cursor)? else { return Ok(None) };
        self.reader.copy(ring, &frame, body);
        Ok(Some(frame))
    }

    /// Hands the space before `pos` back, which is where a record ended.
    #[inline]
    pub fn release(&mut self, pos: u64) {
        if !self.children.forked() {
            self.reader.release(ring(&self.map, self.page), pos);
        }
    }

    /// Up to where the space was handed back.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.reader.released()
    }

    /// `data_head` when last looked at.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        self.reader.head()
    }

    /// `data_head` now.
    #[must_use]
    pub fn live_head(&self) -> u64 {
        match self.children.forked() {
            true => self.reader.head(),
            false => ring(&self.map, self.page).head(),
        }
    }

    /// Bytes of the data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        (self.map.len() - self.page) as u64
    }

    /// Waits until the kernel has written beyond `cursor`, for at most `timeout`. Returns whether it
    /// has.
    pub fn wait(&self, cursor: u64, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if self.children.forked() || ring(&self.map, self.page).head() != cursor {
                return !self.children.forked();
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return false;
            }
            self.events.poll(left.min(PAUSE_MAX));
        }
    }
}

impl AsFd for MappedKernel {
    /// Of an event that has not ended, for poll: readable once as many bytes are there as were asked
    /// for.
    fn as_fd(&self) -> BorrowedFd<'_> {
        let KernelEvents { events, alive, .. } = &*self.events;
        // There is always one: `map` took its descriptor.
        events[alive.load(Ordering::Relaxed).min(events.len() - 1)].as_fd()
    }
}

/// The ring as the algorithm sees it.
#[inline]
fn ring(map: &MmapRaw, page: usize) -> Ring<'_> {
    // SAFETY: the first page is mapped for as long as `map`, page-aligned, and holds at least the
    // 4,096 bytes of a `Header`, which is all atomics: any content is valid, whatever the kernel
    // stores. `perf_event_mmap_page` stands where `Header` has it.
    let header = unsafe { &*map.as_ptr().cast::<Header>() };
    let data = map.as_ptr().wrapping_add(page).cast::<AtomicU64>();
    // SAFETY: the rest of the mapping, which `MappedKernel::map` made a power of two of bytes;
    // aligned; atomics, as above.
    let data = unsafe { slice::from_raw_parts(data, (map.len() - page) / 8) };
    Ring::new(header, data)
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod tests;
