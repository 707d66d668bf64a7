//! Files that are truncated under a mapping, or lack a page on a full disk. Touching a page beyond the end of its file raises
//! SIGBUS, which ends the process. Checking the file's size does not help: it can be truncated
//! between the check and the access. (A seal would help, but only a memfd can have one, and rings
//! have names.)
//!
//! Therefore a handler checks whether the address is in a mapping of a ring. If so, the ring is over:
//! private pages replace its whole mapping, with positions in the header that every reader and
//! producer rejects; the access is repeated, and the next poll of the ring is an error. The fast
//! path has no extra check. Any other SIGBUS goes to the previous handler.

use crate::sys::blocks::{self, Block};
use crate::sys::host::page_size;
use crate::sys::ofd_lock::LockFile;
use crate::sys::pin::pin;
use crate::sys::sigbus_passing::{pass_on, remember};
use nix::libc;
use perfring_abi::Header;
use perfring_ring::ReadError;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

/// `si_code` of an address beyond the end of a file, and of memory that has failed. The `libc`
/// crate does not have them for every Linux.
const BUS_ADRERR: i32 = 2;
const BUS_MCEERR_AR: i32 = 4;

static ON: AtomicBool = AtomicBool::new(false);
static INSTALL: Mutex<()> = Mutex::new(());
/// Bytes of a page.
static PAGE: AtomicUsize = AtomicUsize::new(0);
static TABLE: Block<SigbusEntry> = Block::new();

/// A range of whole pages.
struct PageRange {
    base: AtomicUsize,
    len: AtomicUsize,
}

impl PageRange {
    fn set(&self, (base, len): (NonNull<u8>, usize)) {
        self.base.store(base.as_ptr().expose_provenance(), Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
    }

    fn get(&self) -> (usize, usize) {
        (self.base.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed))
    }
}

/// A ring's mapping.
struct SigbusEntry {
    /// A multiple of four: free; plus one: being filled; plus two: in use. It only rises.
    state: AtomicU64,
    /// One that begins with its header, and perhaps others of its control pages and its AUX area.
    ranges: [PageRange; 3],
    writable: AtomicBool,
    /// The file's descriptor, which is open while the entry is in use.
    fd: AtomicI32,
    /// How long the file is unless it is truncated.
    size: AtomicU64,
    /// Why private memory has taken the mapping's place: [`WHOLE`] if it has not.
    cut_off: AtomicU8,
}

/// The mapping is the file's.
const WHOLE: u8 = 0;
/// The file is shorter than it was.
const TRUNCATED: u8 = 1;
/// The file is as long as it was, and a page could not be had.
const NO_SPACE: u8 = 2;

impl blocks::TableEntry for SigbusEntry {
    const FREE: Self = SigbusEntry {
        state: AtomicU64::new(0),
        ranges: [const { PageRange { base: AtomicUsize::new(0), len: AtomicUsize::new(0) } }; 3],
        writable: AtomicBool::new(false),
        fd: AtomicI32::new(-1),
        size: AtomicU64::new(0),
        cut_off: AtomicU8::new(WHOLE),
    };

    fn claim(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        state & 3 == 0 && self.state.compare_exchange(state, state + 1, acquire, relaxed).is_ok()
    }
}

/// Makes the truncation of a ring's file an error for that ring instead of the end of this process.
/// It applies to rings that are mapped from now on, by producers and readers alike: call it before the process creates a
/// ring or attaches to one.
///
/// A file that is truncated under a mapping raises SIGBUS in each process that touches a missing
/// page. This installs a handler for it, for the whole process. It passes other SIGBUS signals on to the previous
/// handler. It costs nothing per record. Further calls have no effect; a
/// foreign handler that was installed meanwhile stays, behind the handler of this function.
///
/// On truncation, readers get [`ReadError::Truncated`], at the next poll that touches a missing page. A page that is
/// missing from a file of the right length (a hole, on a full file system) is [`ReadError::NoSpace`]. A reader that
/// waits with nothing to read, and a producer that waits for space, also query the file's size: once a second, or more
/// often. A record that a consumer has borrowed in place may turn into zeros during the borrow; a copied record is
/// whole. A payload of the AUX area that was being copied may be reported as lapped before that. A producer writes into
/// private memory, and gets `ReserveError::Truncated` before it has written a ring's worth.
///
/// A signal that is not a ring's goes to the handler from before. If that raises the signal again before it returns, as
/// Python's `faulthandler` does, two frames are on the thread's alternate stack. Rust's has 8 KiB, and a processor with AVX-512 takes
/// up to 3.6 KiB for each: the process may then end by SIGSEGV instead of SIGBUS, unless the thread has a larger stack
/// (`sigaltstack`).
///
/// # Errors
/// The system's error, if the handler cannot be installed.
pub fn install_sigbus_handler() -> io::Result<()> {
    let _one_at_a_time = INSTALL.lock().unwrap_or_else(PoisonError::into_inner);
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks for the present handler, into memory that is large enough for it.
    if unsafe { libc::sigaction(libc::SIGBUS, null(), now.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeros are a `sigaction`, and the call above has filled it in.
    let now = unsafe { now.assume_init() };
    let handler = on_sigbus as *const () as usize;
    if now.sa_sigaction != handler {
        // SAFETY: zeros are a `sigaction`, with an empty mask.
        let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        ours.sa_sigaction = handler;
        // Not deferred: a handler called in our place may raise the signal again, to end the
        // process.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        remember(now);
        pin();
        // SAFETY: the handler is a function of this program, or of a library that is never unloaded, and does
        // nothing that is not async-signal-safe: loads, stores and system calls.
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    PAGE.store(page_size() as usize, Ordering::Relaxed);
    ON.store(true, Ordering::Release);
    Ok(())
}

/// A mapping, registered if this process called [`install_sigbus_handler`]. To be dropped before
/// the mapping is.
#[derive(Debug, Default)]
pub(crate) struct SigbusGuard {
    entry: Option<&'static SigbusEntry>,
    /// Open for as long as the entry is in use.
    _file: Option<Arc<LockFile>>,
}

impl std::fmt::Debug for SigbusEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (base, len) = self.ranges[0].get();
        f.debug_struct("SigbusEntry")
            .field("base", &base)
            .field("len", &len)
            .finish_non_exhaustive()
    }
}

impl SigbusGuard {
    /// Registers a ring's mapping, if this process called [`install_sigbus_handler`]: the first
    /// part begins with the header, and the others may be empty.
    pub(crate) fn new(
        ranges: [(NonNull<u8>, usize); 3],
        writable: bool,
        (file, size): (&Arc<LockFile>, u64),
    ) -> Self {
        if !ON.load(Ordering::Acquire) {
            return SigbusGuard::default();
        }
        // A handler installed since then is put behind ours; if that fails, the order stays as it
        // was.
        let _ = install_sigbus_handler();
        let entry = TABLE.claim();
        let state = entry.state.load(Ordering::Relaxed);
        // Pairs with the fence in `cover`: a handler that has seen a part of this sees that the entry was claimed.
        fence(Ordering::Release);
        entry.ranges.iter().zip(ranges).for_each(|(range, new)| range.set(new));
        entry.writable.store(writable, Ordering::Relaxed);
        entry.fd.store(file.as_raw_fd(), Ordering::Relaxed);
        entry.size.store(size, Ordering::Relaxed);
        entry.cut_off.store(WHOLE, Ordering::Relaxed);
        entry.state.store(state + 1, Ordering::Release);
        SigbusGuard { entry: Some(entry), _file: Some(Arc::clone(file)) }
    }

    /// Returns the error for a ring that was found to be corrupt.
    #[cold]
    pub(crate) fn report(&self, error: impl Into<ReadError>) -> ReadError {
        self.look(); // the rest of a partial page is zeros
        self.cut_off().unwrap_or_else(|| error.into())
    }

    /// Asks the file system whether the file is shorter than it was: all pages that a reader or a producer touches may still
    /// be there. If it is shorter, replaces the mapping, like the handler after a touch of a missing page. Does nothing if it is not registered,
    /// nor in a forked child, which has another file in its place.
    pub(crate) fn look(&self) {
        if let Some(entry) = self.entry
            && self.cut_off().is_none()
            && length_of(entry.fd.load(Ordering::Relaxed))
                .is_some_and(|length| length < entry.size.load(Ordering::Relaxed))
        {
            // The entry is in use for as long as `self`.
            replace_all(entry, entry.ranges.each_ref().map(PageRange::get), TRUNCATED);
        }
    }

    /// Returns why the mapping is no longer the file's, if that was found out; never, if it is not registered. If it
    /// still is, everything loaded from the mapping before was the file's.
    #[inline]
    pub(crate) fn cut_off(&self) -> Option<ReadError> {
        let entry = self.entry?;
        // After all loads from the mapping: the handler stores the reason before it replaces a page.
        fence(Ordering::Acquire);
        match entry.cut_off.load(Ordering::Relaxed) {
            WHOLE => None,
            TRUNCATED => Some(ReadError::Truncated),
            _ => Some(ReadError::NoSpace),
        }
    }
}

/// Returns how long a ring's file is; `None` in a forked child, where the descriptor is of another file. The caller has the
/// descriptor open.
pub(crate) fn length_of(fd: RawFd) -> Option<u64> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: async-signal-safe. It fills in memory that is large enough, and refuses a number that is no descriptor.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call above has filled it in.
    let stat = unsafe { stat.assume_init() };
    (stat.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(stat.st_size.max(0) as u64)
}

impl Drop for SigbusGuard {
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            entry.state.fetch_add(2, Ordering::Release);
        }
    }
}

extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a `siginfo_t`, as SA_SIGINFO asks for.
    let code = unsafe { (*info).si_code };
    if code == BUS_ADRERR || code == BUS_MCEERR_AR {
        // SAFETY: the kernel passes a `siginfo_t`, as above.
        let info = unsafe { &*info };
        // SAFETY: of these codes it has an address.
        let at = unsafe { info.si_addr() } as usize;
        // SAFETY: a call without arguments.
        let errno_at = unsafe { libc::__errno_location() };
        // SAFETY: the address of this thread's `errno`, which the interrupted code may be about to
        // read.
        let errno = unsafe { *errno_at };
        let covered = cover(at);
        // SAFETY: as above.
        unsafe { *errno_at = errno };
        if covered {
            return;
        }
    }
    pass_on(signal, info, context, code);
}

/// Replaces the mapping that has this address by private memory, if it is one of ours.
fn cover(at: usize) -> bool {
    for entry in TABLE.entries() {
        let state = entry.state.load(Ordering::Acquire);
        if state & 3 != 2 {
            continue;
        }
        let ranges = entry.ranges.each_ref().map(PageRange::get);
        if !ranges.iter().any(|(base, len)| at.wrapping_sub(*base) < *len) {
            continue;
        }
        // Both words of a range are of one mapping: the entry was not freed in between. From here
        // on it cannot be, if it has the address: a thread is touching it right now.
        fence(Ordering::Acquire);
        if entry.state.load(Ordering::Relaxed) == state {
            let whole = |length| length >= entry.size.load(Ordering::Relaxed);
            let is_whole = length_of(entry.fd.load(Ordering::Relaxed)).is_some_and(whole);
            return replace_all(entry, ranges, if is_whole { NO_SPACE } else { TRUNCATED });
        }
    }
    false
}

fn replace_all(
    entry: &SigbusEntry,
    [(base, len), others @ ..]: [(usize, usize); 3],
    why: u8,
) -> bool {
    // Before any page is replaced: a thread that has read zeros and checks afterwards sees it. The first reason stays.
    let _ = entry.cut_off.compare_exchange(WHOLE, why, Ordering::SeqCst, Ordering::Relaxed);
    let writable = entry.writable.load(Ordering::Relaxed);
    // The header first, so that its positions change before any data are zeros: readers discard
    // copies that they made while the tail was already out of reach.
    let page = PAGE.load(Ordering::Relaxed).max(size_of::<Header>());
    if !spoil(base, page.min(len)) {
        return false;
    }
    replace(base + page, len.saturating_sub(page), writable)
        && others.into_iter().all(|(base, len)| replace(base, len, writable))
}

/// Replaces a registered mapping's header by a header that every reader and producer rejects, in one
/// step: no thread sees positions that are zero, not even if two threads do this for one mapping.
fn spoil(base: usize, len: usize) -> bool {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, where there was none.
    let page = unsafe { libc::mmap(null_mut(), len, access, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: pages of our own, of zeros, which are a `Header`; aligned, and long enough: a
    // mapping begins with a page, and that is as long as a header.
    perfring_ring::spoil(unsafe { &*page.cast::<Header>() });
    let (how, to) = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, base as *mut libc::c_void);
    // SAFETY: from pages without another reference to a mapping of ours that is registered and in
    // use, as in `replace`; all references into it are to atomics.
    unsafe { libc::mremap(page, len, len, how, to) != libc::MAP_FAILED }
}

/// Replaces a part of a registered mapping by private zeros.
fn replace(base: usize, len: usize, writable: bool) -> bool {
    if len == 0 {
        return true;
    }
    let write = if writable { libc::PROT_WRITE } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range is a mapping of ours that is registered and in use: a thread is touching it
    // right now, or has it borrowed. What it holds is other processes' to change, so all code that reads it takes any
    // content; the addresses stay valid, and as writable as they were.
    let new = unsafe {
        libc::mmap(base as *mut libc::c_void, len, libc::PROT_READ | write, flags, -1, 0)
    };
    new != libc::MAP_FAILED
}

#[cfg(test)]
#[path = "sigbus_tests.rs"]
mod tests;
