//! The mapping in which a process publishes its identity: OpenTelemetry's process context, OTEP 4719, version 2.
//!
//! Other processes find it by its name in `/proc/PID/maps`, and read it with the rights of `ptrace(2)`. No other
//! process has it mapped.

use crate::sys::clock::MachineClock;
use memmap2::{Advice, MmapMut, MmapOptions};
use nix::libc;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, TryLockError};

const NAME: &core::ffi::CStr = c"OTEL_CTX";
const VERSION: u32 = 2;
/// The mapping's bytes: the header, then the payload.
const SIZE: usize = 16 << 10;
/// Signature, version and payload's size, time, address of the payload.
const HEADER: usize = 32;

/// The longest payload that [`publish_process_context`] takes, in bytes.
pub const PROCESS_CONTEXT_MOST: usize = SIZE - HEADER;

static PUBLISHED: Mutex<Option<Published>> = Mutex::new(None);

struct Published {
    map: MmapMut,
    /// The process that mapped it: a forked child does not have it.
    pid: u32,
    /// When it was last published, `CLOCK_BOOTTIME`, ns.
    at: u64,
}

/// Publishes this payload as the process's context, or replaces the context that this function published before.
///
/// A forked child has no context until it publishes its own.
///
/// # Errors
/// The payload is empty or too long, another thread is publishing, or the kernel refuses the mapping or its name.
pub fn publish_process_context(payload: &[u8]) -> io::Result<()> {
    if payload.is_empty() || payload.len() > PROCESS_CONTEXT_MOST {
        let why = format!("a process context has 1 to {PROCESS_CONTEXT_MOST} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    // Not waited for: in a forked child the holder may not exist.
    let mut published = match PUBLISHED.try_lock() {
        Ok(published) => published,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            let why = "another thread is publishing the process context";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
        }
    };
    let pid = std::process::id();
    if let Some(parents) = published.take_if(|published| published.pid != pid) {
        // In this process, other memory is at its address.
        std::mem::forget(parents);
    }
    match &mut *published {
        Some(published) => {
            published.write(payload)?;
            let _ = published.name(); // it was found by its name before
        }
        none => {
            let (map, has_name) = map()?;
            let mut made = Published { map, pid, at: 0 };
            made.write(payload)?;
            let named = made.name();
            if !has_name {
                named?;
            }
            *none = Some(made);
        }
    }
    Ok(())
}

/// Maps the pages, private to this process. Returns whether they have the name of a file.
fn map() -> io::Result<(MmapMut, bool)> {
    let (map, has_name) = match memfd_create(NAME, MemfdFlags::CLOEXEC) {
        Ok(file) => {
            ftruncate(&file, SIZE as u64)?;
            // SAFETY: the file is new, and its descriptor is closed below, so that nobody truncates it. (A process
            // that may open `/proc/PID/map_files`, which is root, may end this one in any case.) The mapping is
            // private: its content stays in this process.
            (unsafe { MmapOptions::new().len(SIZE).map_copy(&File::from(file)) }?, true)
        }
        // A sandbox may forbid it.
        Err(_) => (MmapMut::map_anon(SIZE)?, false),
    };
    map.advise(Advice::DontFork)?;
    Ok((map, has_name))
}

impl Published {
    /// Writes header and payload. A process that reads at the same time finds a time of 0, or a changed time afterwards.
    fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        let size = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let base = self.map.as_mut_ptr();
        // SAFETY: of both: the pages are mapped for as long as `self`, which is borrowed exclusively, and aligned.
        // Atomic, so that the compiler keeps these stores and their order; this process does not load them.
        let word = |at: usize| unsafe { AtomicU64::from_ptr(base.wrapping_add(at).cast()) };
        // SAFETY: as above.
        let half = |at: usize| unsafe { AtomicU32::from_ptr(base.wrapping_add(at).cast()) };
        let (signature, version, length) = (word(0), half(8), half(12));
        let (time, address) = (word(16), word(24));
        time.store(0, Ordering::Relaxed);
        // The payload's stores stay behind this store, for a reader that loads the time twice.
        fence(Ordering::SeqCst);
        // SAFETY: `payload` has at most `SIZE - HEADER` bytes, and is not in the mapping, of which no slice exists.
        unsafe {
            base.wrapping_add(HEADER).copy_from_nonoverlapping(payload.as_ptr(), payload.len())
        };
        version.store(VERSION, Ordering::Relaxed);
        length.store(size, Ordering::Relaxed);
        address.store(base.addr() as u64 + HEADER as u64, Ordering::Relaxed);
        let now = MachineClock::find().map_err(io::Error::other)?.now_ns();
        self.at = now.max(self.at + 1);
        time.store(self.at, Ordering::Release);
        // Last of all the first time: with it the mapping counts.
        signature.store(u64::from_ne_bytes(*b"OTEL_CTX"), Ordering::Release);
        Ok(())
    }

    /// Names the mapping, which also notifies tracers of `prctl(2)` of the write.
    fn name(&self) -> io::Result<()> {
        // SAFETY: sets the name of pages of this process that are mapped, and copies it.
        let done = unsafe {
            libc::prctl(
                libc::PR_SET_VMA,
                libc::PR_SET_VMA_ANON_NAME,
                self.map.as_ptr(),
                self.map.len(),
                NAME.as_ptr(),
            )
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
