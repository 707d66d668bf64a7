//! The orderly end of a process. A static, a leaked value and another thread's thread-local value are never dropped, so
//! their seats would look like the seats of a killed process.
//!
//! Therefore a function that `exit(3)` calls signs off this process's seats. A return from `main` and
//! `std::process::exit` call it, also after a panic in `main`. A signal, `abort(3)`, `_exit(2)` and `quick_exit(3)` do not.
//! The function stores one word in each seat's owner info and does nothing else. Threads that still publish are
//! not disturbed: no publish reads or writes that word, and the seat's lock stays held until the kernel ends the process.
//!
//! An unloaded library would take the function with it. Therefore this code stays loaded: see `sys/pin.rs`.

use crate::sys::blocks::{self, Block};
use crate::sys::fork;
use crate::sys::ofd_lock::LockFile;
use crate::sys::pin::pin;
use crate::sys::sigbus::length_of;
use nix::libc;
use perfring_abi::Holder;
use perfring_ring::{OwnerInfo, sign_off};
use std::os::fd::AsRawFd;
use std::ptr::{from_ref, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

const FREE: u32 = 0;
/// Being filled, or emptied.
const FILLED: u32 = 1;
const IN_USE: u32 = 2;
/// The end of the process is storing there.
const ENDING: u32 = 3;

/// A seat that a handle of this process has signed.
#[derive(Debug)]
struct ExitEntry {
    state: AtomicU32,
    /// In a mapping that lives as long as the entry is in use.
    holder: AtomicPtr<Holder>,
    /// The epoch in the owner info.
    epoch: AtomicU64,
    /// The file's descriptor, which is open while the entry is in use, and its length unless it is truncated.
    fd: AtomicI32,
    size: AtomicU64,
    /// The process that signed. A child of a raw `clone(2)` has its parent's generation; one in another pid namespace may
    /// have its pid.
    pid: AtomicU32,
    generation: AtomicU32,
}

impl blocks::TableEntry for ExitEntry {
    const FREE: Self = ExitEntry {
        state: AtomicU32::new(FREE),
        holder: AtomicPtr::new(null_mut()),
        epoch: AtomicU64::new(0),
        fd: AtomicI32::new(-1),
        size: AtomicU64::new(0),
        pid: AtomicU32::new(0),
        generation: AtomicU32::new(0),
    };

    fn claim(&self) -> bool {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        self.state.load(relaxed) == FREE
            && self.state.compare_exchange(FREE, FILLED, acquire, relaxed).is_ok()
    }
}

static TABLE: Block<ExitEntry> = Block::new();

/// Whether `exit(3)` will call [`on_exit`]. A process that attaches while it ends has it called again.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// A signed seat, which the end of the process signs off. To be dropped before the mapping and the file.
#[derive(Debug)]
pub(crate) struct Signed {
    entry: &'static ExitEntry,
    generation: u32,
}

impl Signed {
    /// Registers a seat that the caller has just signed, and whose lock it holds.
    pub(crate) fn new(holder: &Holder, (file, size): (&Arc<LockFile>, u64)) -> Self {
        if !REGISTERED.swap(true, Ordering::Relaxed) {
            pin();
            // SAFETY: the function is one of this program, or of a library that is never unloaded. Without memory for the
            // registration the seats look dead, like after a kill.
            let _ = unsafe { libc::atexit(on_exit) };
        }
        let (entry, generation) = (TABLE.claim(), fork::generation());
        entry.holder.store(from_ref(holder).cast_mut(), Ordering::Relaxed);
        entry.epoch.store(OwnerInfo::read(holder).epoch, Ordering::Relaxed);
        entry.fd.store(file.as_raw_fd(), Ordering::Relaxed);
        entry.size.store(size, Ordering::Relaxed);
        entry.pid.store(std::process::id(), Ordering::Relaxed);
        entry.generation.store(generation, Ordering::Relaxed);
        // Release: `on_exit` that finds the entry in use finds all of it.
        entry.state.store(IN_USE, Ordering::Release);
        Signed { entry, generation }
    }
}

impl Drop for Signed {
    fn drop(&mut self) {
        let state = &self.entry.state;
        // Acquire: after the last access of `on_exit`, which takes a system call or two.
        while state.compare_exchange(IN_USE, FREE, Ordering::Acquire, Ordering::Relaxed).is_err() {
            if self.generation != fork::generation() {
                // The thread that was in `on_exit` is the parent's.
                state.store(FREE, Ordering::Relaxed);
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// Signs off all seats that this process has signed.
extern "C" fn on_exit() {
    REGISTERED.store(false, Ordering::Relaxed);
    let (pid, generation) = (std::process::id(), fork::generation());
    for entry in TABLE.entries() {
        // A drop waits from here on, so the mapping and the descriptor stay. Acquire: pairs with `Signed::new`.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        if entry.state.compare_exchange(IN_USE, ENDING, acquire, relaxed).is_err() {
            continue;
        }
        let is_own = entry.pid.load(Ordering::Relaxed) == pid
            && entry.generation.load(Ordering::Relaxed) == generation;
        // A store beyond the end of a truncated file raises SIGBUS.
        let is_whole = |length| length >= entry.size.load(Ordering::Relaxed);
        if is_own && length_of(entry.fd.load(Ordering::Relaxed)).is_some_and(is_whole) {
            // SAFETY: a part of a mapping that is registered and of this process, all of it atomics. `Signed` is dropped
            // before the mapping is, and waits for the end of this entry. A truncation since the last line has the page
            // replaced by the handler of `sys/sigbus.rs`, or ends the process, which it ends here anyway.
            let holder = unsafe { &*entry.holder.load(Ordering::Relaxed) };
            sign_off(holder, entry.epoch.load(Ordering::Relaxed));
        }
        // Release: pairs with the drop.
        entry.state.store(IN_USE, Ordering::Release);
    }
}
