//! Areas for restartable sequences where libc registers none (musl; glibc, if `glibc.pthread.rseq=0` says so). Each
//! thread's is in its thread-local storage, and registered when the thread first asks for it.
//!
//! The kernel writes to an area whenever its thread returns to user mode, so it must not be left registered when the storage
//! goes. The destructor of a key (`pthread_key_create(3)`) ends it. A key and not a Rust destructor, because a signal handler
//! may be the first in its thread to publish: storing a key's value allocates and locks nothing (in musl; in glibc for the
//! first 32 keys). If another destructor publishes later, it registers the area again, and libc calls this destructor again, up to
//! four times in all.
//!
//! A forked child has its parent's registration, at the same address.
//!
//! The auxiliary vector (`getauxval(3)`) has the length and the alignment of the kernel's fields. A
//! kernel that has fields beyond the original 32 bytes (33 bytes, aligned to 64, from Linux 7.0 on) treats a shorter area as
//! the area of an older program, and writes to it at each context switch and each signal. Therefore the length is the
//! kernel's, if an [`Area`] has it, and 32 otherwise.

use crate::sys::rseq::{Area, NoRseq, ORIGINAL, Thread};
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

const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
const AT_RSEQ_ALIGN: libc::c_ulong = 28;

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
        Ok(_) => Ok(()),
        // The area has its length and alignment. Therefore another area is registered.
        Err(Errno::EINVAL) => Err(NoRseq::Taken),
        Err(_) => Err(NoRseq::Unregistered),
    }
}

/// Returns the length of the present thread's area, which is registered.
#[cold]
pub(super) fn registered_len() -> Result<u32, NoRseq> {
    let Thread(area) = thread()?;
    // Again, which is refused for its length alone.
    rseq(area, REGISTER).map_err(|_| NoRseq::Unregistered)
}

/// Returns how many bytes the kernel has fields for. 0 if it does not say.
pub(super) fn kernel_len() -> u64 {
    // SAFETY: reads a word that the kernel left for the process, or says 0.
    unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) }
}

/// Returns the length to register, by the length of the kernel's fields and their alignment.
fn length(kernel_len: u64, align: u64) -> u32 {
    let aligned = align.is_power_of_two() && align <= align_of::<Area>() as u64;
    let fits = kernel_len <= size_of::<Area>() as u64;
    if aligned && fits { ORIGINAL.max(kernel_len as u32) } else { ORIGINAL }
}

/// Registers an area, or ends that. Returns the length for which the kernel does it, or has done it already.
fn rseq(area: NonNull<u8>, flags: libc::c_int) -> Result<u32, Errno> {
    let call = |len: u32| {
        // SAFETY: the area is the present thread's. The kernel writes to it from now on, as to atomics, and reads `rseq_cs`,
        // which is 0 or a sequence's descriptor; it forgets it in `forget`, before the thread's storage goes.
        let done = unsafe { libc::syscall(libc::SYS_rseq, area.as_ptr(), len, flags, SIGNATURE) };
        match Errno::result(done) {
            // Busy: this very area is registered. A signal handler that came in between may have done it.
            Ok(_) | Err(Errno::EBUSY) => Ok(len),
            Err(error) => Err(error),
        }
    };
    // SAFETY: as in `kernel_len`.
    let align = unsafe { libc::getauxval(AT_RSEQ_ALIGN) };
    match length(kernel_len(), align) {
        ORIGINAL => call(ORIGINAL),
        // A kernel that takes no other length than the original, or a registration of that length.
        longer => call(longer).or_else(|error| match error {
            Errno::EINVAL => call(ORIGINAL),
            _ => Err(error),
        }),
    }
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
            // SAFETY: no other code knows this key.
            unsafe { libc::pthread_key_delete(made) };
            Some(first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn an_area_has_the_length_that_the_kernel_wants_if_it_fits() {
        // Bytes of fields, alignment, length.
        let cases = [
            (0, 0, 32), // before Linux 6.3
            (20, 32, 32),
            (28, 32, 32), // Linux 6.3
            (32, 32, 32),
            (33, 64, 33), // Linux 7.0
            (33, 32, 33),
            (40, 64, 40),
            (64, 64, 64),
            // An area is not that long, or not so aligned.
            (65, 64, 32),
            (65, 128, 32),
            (33, 128, 32),
            (u64::MAX, 64, 32),
            (1 << 32, 64, 32),
            ((1 << 32) + 33, 64, 32),
            // No alignments.
            (33, 0, 32),
            (33, 48, 32),
            (33, u64::MAX, 32),
        ];
        for (kernel_len, align, expected) in cases {
            assert_eq!(
                length(kernel_len, align),
                expected,
                "{kernel_len} bytes, aligned to {align}"
            );
        }
    }
}
