//! Areas for restartable sequences where libc registers none (musl; glibc, if `glibc.pthread.rseq=0` says so). Each
//! thread's is in its thread-local storage, and registered when the thread first asks for it.
//!
//! The kernel writes to an area whenever its thread returns to user mode, so it must not be left registered when the storage
//! goes. The destructor of a key (`pthread_key_create(3)`) ends it. A key and not a Rust destructor, because a signal handler
//! may be the first in its thread to publish: storing a key's value allocates and locks nothing (in musl; in glibc for the
//! first 32 keys). If another destructor publishes later, that registers the area anew, and libc calls this one again, up to
//! four times in all.
//!
//! A forked child has its parent's registration, at the same address.

use crate::sys::rseq::{Area, NoRseq, Thread};
use nix::errno::Errno;
use nix::libc;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

thread_local! {
    /// Without a destructor, so that it can be used in all of them.
    static AREA: Area = const { Area::unregistered() };
}

#[cfg(target_arch = "x86_64")]
const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const SIGNATURE: u32 = 0xd428_bc00;

const REGISTER: libc::c_int = 0;
/// `RSEQ_FLAG_UNREGISTER`.
const UNREGISTER: libc::c_int = 1;

/// Returns the present thread's area, registered.
#[inline(always)]
pub(super) fn thread() -> Result<Thread, NoRseq> {
    let area = AREA.with(|area| NonNull::from(area).cast::<u8>());
    let thread = Thread(area);
    if thread.is_registered() { Ok(thread) } else { register(area).map(|()| thread) }
}

#[cold]
#[inline(never)]
fn register(area: NonNull<u8>) -> Result<(), NoRseq> {
    let key = key().ok_or(NoRseq::Unregistered)?;
    // SAFETY: the key was made, and is never deleted; its destructor gets this thread's own area, in this thread.
    let kept = unsafe { libc::pthread_setspecific(key, area.as_ptr().cast()) };
    if kept != 0 {
        return Err(NoRseq::Unregistered);
    }
    match rseq(area, REGISTER) {
        // Busy: a signal handler that came in between has done it.
        Ok(()) | Err(Errno::EBUSY) => Ok(()),
        // The area has its size and alignment: so there is another one.
        Err(Errno::EINVAL) => Err(NoRseq::Taken),
        Err(_) => Err(NoRseq::Unregistered),
    }
}

fn rseq(area: NonNull<u8>, flags: libc::c_int) -> Result<(), Errno> {
    let len = size_of::<Area>() as u32;
    // SAFETY: the area is the present thread's. The kernel writes to it from now on, as to atomics, and reads `rseq_cs`,
    // which is 0 or what a sequence stores; it forgets it in `forget`, before the thread's storage goes.
    Errno::result(unsafe { libc::syscall(libc::SYS_rseq, area.as_ptr(), len, flags, SIGNATURE) })
        .map(drop)
}

/// Called for each thread that has registered its area, when it ends.
extern "C" fn forget(area: *mut c_void) {
    if let Some(area) = NonNull::new(area.cast()) {
        // Fails if it was not registered after all.
        let _ = rseq(area, UNREGISTER);
    }
}

/// Returns the key whose destructor is [`forget`]. `None` if the process has no key left.
fn key() -> Option<libc::pthread_key_t> {
    /// No key: there are no more than some thousand.
    const NONE: u32 = u32::MAX;
    static KEY: AtomicU32 = AtomicU32::new(NONE);
    // Relaxed: libc makes a key for all threads.
    let known = KEY.load(Ordering::Relaxed);
    if known != NONE {
        return Some(known);
    }
    let mut made = NONE;
    // SAFETY: stores a number, which is ours. The destructor is a function of this program, which is never unloaded: see
    // `fork::generation`.
    if unsafe { libc::pthread_key_create(&raw mut made, Some(forget)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(NONE, made, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Some(made),
        Err(first) => {
            // SAFETY: nobody else knows this one.
            unsafe { libc::pthread_key_delete(made) };
            Some(first)
        }
    }
}
