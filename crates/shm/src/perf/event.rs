//! Events of the kernel: `perf_event_open(2)`.

use crate::perf::attr::{Attr, FORMAT_LOST, KernelEventSpec, Whose};
use crate::sys::poll_fd::poll_in;
use nix::libc;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_PAUSE_OUTPUT: libc::c_ulong = 0x4004_2409;

/// The reason why an event could not be opened.
#[derive(Debug)]
pub enum NoEvent {
    /// The thread has ended, or the processor is off.
    Ended,
    /// This user lacks the permission, or a sandbox forbids it.
    Forbidden,
    /// The kernel has no such system call.
    Missing,
    /// The kernel does not support the requested event.
    Unknown,
    /// The process has reached its limit of descriptors.
    Descriptors,
    /// Another reason.
    Other(io::Error),
}

impl From<io::Error> for NoEvent {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ESRCH | libc::ENODEV) => NoEvent::Ended,
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
    /// Whether the kernel reports how many of its records were lost.
    reports_lost: bool,
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
                // SAFETY: a descriptor that was just opened, without another reference.
                let fd = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
                return Ok(KernelEvent { file: fd.into(), reports_lost: read_format != 0 });
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

    /// Returns the number of its records that did not fit since it was opened, if the kernel counts
    /// them.
    fn lost(&self) -> io::Result<Option<u64>> {
        if !self.reports_lost {
            return Ok(None);
        }
        let mut words = [0u64; 2]; // value, lost
        match (&self.file).read(bytemuck::bytes_of_mut(&mut words))? {
            16 => Ok(Some(words[1])),
            _ => Ok(None), // an event that has ended reads as empty
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
    /// Index of the first event whose tasks may still live.
    alive: AtomicUsize,
    stopped: AtomicBool,
}

impl KernelEvents {
    /// Makes all events write into the ring of the first one.
    pub(crate) fn of_one_ring(events: Vec<KernelEvent>) -> io::Result<Self> {
        if let Some((first, more)) = events.split_first() {
            for event in more {
                event.control(IOC_SET_OUTPUT, first.file.as_raw_fd())?;
            }
        }
        Ok(KernelEvents { events, alive: AtomicUsize::new(0), stopped: AtomicBool::new(false) })
    }

    /// Starts the events.
    ///
    /// # Errors
    /// The error of `ioctl(2)`.
    pub fn enable(&self) -> io::Result<()> {
        self.events.iter().try_for_each(|event| event.control(IOC_ENABLE, 0))
    }

    /// Stops the events for good.
    ///
    /// # Errors
    /// The error of `ioctl(2)`.
    pub fn stop(&self) -> io::Result<()> {
        self.events.iter().try_for_each(|event| event.control(IOC_DISABLE, 0))?;
        self.stopped.store(true, Ordering::Release);
        Ok(())
    }

    /// Keeps the kernel from writing into the ring, or lets it write again. The events count on, and
    /// so does the kernel the records that it does not write.
    pub(crate) fn pause_output(&self, paused: bool) -> io::Result<()> {
        // The ring is that of all events.
        self.events.first().map_or(Ok(()), |event| event.control(IOC_PAUSE_OUTPUT, paused.into()))
    }

    /// Returns whether [`KernelEvents::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Returns whether nothing is written any more: everything that the events observe has ended,
    /// or they were stopped.
    #[must_use]
    pub fn is_over(&self) -> bool {
        if self.is_stopped() {
            return true;
        }
        self.poll(Duration::ZERO);
        self.alive.load(Ordering::Relaxed) >= self.events.len()
    }

    /// Returns the number of records that did not fit since the ring was created, reported in it or
    /// not; `None` before Linux 6.0, which does not count them.
    ///
    /// # Errors
    /// The error of `read(2)`.
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

    /// Returns the descriptor of an event that has not ended, or of the last one.
    pub(crate) fn alive_fd(&self) -> BorrowedFd<'_> {
        let alive = self.alive.load(Ordering::Relaxed);
        // There is always one, see `KernelPages::map`.
        self.events[alive.min(self.events.len() - 1)].as_fd()
    }

    /// Sleeps until the kernel wakes the ring's readers. Skips events that have ended: their
    /// descriptors are readable for ever.
    pub(crate) fn poll(&self, limit: Duration) {
        let mut limit = limit;
        loop {
            // Relaxed, here and below: a hint. A thread with an older value finds out by itself.
            let alive = self.alive.load(Ordering::Relaxed);
            let event = self.events.get(alive);
            let fd = event.map_or(-1, |event| event.file.as_raw_fd()); // which poll skips
            let found = poll_in(fd, limit);
            if event.is_none() || found & (libc::POLLHUP | libc::POLLNVAL) == 0 {
                return;
            }
            self.alive.fetch_max(alive + 1, Ordering::Relaxed);
            limit = Duration::ZERO;
        }
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
