//! Restartable sequences (`rseq(2)`, Linux 4.18): a few instructions, the last of which publishes.
//!
//! While a thread is inside a sequence, the kernel knows its bounds. If the thread is preempted, migrated to
//! another CPU or gets a signal before the last instruction, it continues at the abort address instead. Therefore
//! no other thread, of any process, runs on that CPU between the comparison of the CPU and the last store,
//! and a thread that is killed there has stored nothing that counts.
//!
//! libc registers each thread with the kernel (glibc since 2.35), and the thread's area is at
//! `__rseq_offset` from the thread pointer. If libc does not, threads have areas of this crate. The design is
//! Paul Turner's and Mathieu Desnoyers's; the layout of area and descriptor is `include/uapi/linux/rseq.h`.

use core::mem::offset_of;
use perfring_abi::Header;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use thiserror::Error;

perfring_abi::debug_by_display!(NoRseq);

/// Why restartable sequences cannot be used here.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoRseq {
    /// Not on this architecture, or under Miri.
    #[error("restartable sequences need x86-64 or aarch64")]
    Architecture,
    /// The kernel registers no area for this thread.
    #[error(
        "this thread cannot be registered for restartable sequences: the kernel is older than 4.18, or a sandbox \
         such as gVisor or a seccomp filter forbids it"
    )]
    Unregistered,
    /// Another library has registered its own area for this thread, which can have only one.
    #[error(
        "another library, such as an allocator, has registered this thread for restartable sequences with an area of its \
         own: turn that off, or have libc do it, for all libraries (glibc 2.35 or newer, without glibc.pthread.rseq=0 in \
         GLIBC_TUNABLES)"
    )]
    Taken,
}

/// The addresses of a ring's mapping that a sequence needs.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SequenceRing {
    pub(crate) header: NonNull<Header>,
    /// The first copy of the data area. The second follows it.
    pub(crate) data: NonNull<u8>,
    /// `data_size - 1`.
    pub(crate) mask: u64,
    /// The number of the ring's CPU.
    pub(crate) cpu: u32,
    /// The reasons why this process uses no sequences for now: the number of its open reservations, and [`REPORT`].
    pub(crate) held: Held,
}

/// The private count that a sequence of this process checks before it writes: another process cannot change it. A thread that
/// is preempted after the load begins the sequence again.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Held(AtomicU32);

/// In [`Held`]: there are losses to report.
const REPORT: u32 = 1 << 31;

impl Held {
    /// Returns a count without reservations. An older holder of the slot may have left losses to report.
    pub(crate) fn new() -> Self {
        Held(AtomicU32::new(REPORT))
    }

    /// Adds a reservation. Call it before a sequence closes the ring: the closing sequence aborts the sequences of other
    /// threads on the ring's CPU, and later sequences load this count.
    pub(crate) fn hold(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a reservation, after the last access to its bytes.
    pub(crate) fn let_go(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Returns whether there is no reservation.
    pub(crate) fn is_alone(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !REPORT == 0
    }

    /// Has the next record report losses, or says that they were reported.
    pub(crate) fn set_report(&self, report: bool) {
        match report {
            true => self.0.fetch_or(REPORT, Ordering::Relaxed),
            false => self.0.fetch_and(!REPORT, Ordering::Relaxed),
        };
    }
}

/// `struct rseq`. The kernel writes to it while the thread is not in user space. The fields are from Linux 4.18; the
/// space is for fields of later kernels. Linux 7.0 has 33 bytes in all, aligned to 64.
#[repr(C, align(64))]
pub(super) struct Area {
    _cpu_id_start: AtomicU32,
    pub(super) cpu_id: AtomicU32,
    /// The address of the descriptor of the sequence that the thread is in.
    pub(super) rseq_cs: AtomicU64,
    _flags: AtomicU32,
    _space: [AtomicU32; 11],
}

impl Area {
    /// Returns an area that the kernel does not know.
    pub(super) const fn unregistered() -> Area {
        Area {
            _cpu_id_start: AtomicU32::new(0),
            cpu_id: AtomicU32::new(UNREGISTERED),
            rseq_cs: AtomicU64::new(0),
            _flags: AtomicU32::new(0),
            _space: [const { AtomicU32::new(0) }; 11],
        }
    }
}

/// The length of an area as Linux 4.18 had it, and the only one before Linux 6.3. From Linux 7.0.y on, a thread whose area
/// has this length gets the slow mode that older programs need.
pub(super) const ORIGINAL: u32 = 32;

/// How the kernel knows a thread's area for restartable sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RseqRegistration {
    /// Whether the C library registered the thread. Otherwise, this crate did.
    pub by_libc: bool,
    /// Bytes of the registered area, as far as the C library says how many.
    pub len: u32,
    /// Bytes that the kernel has fields for. 0 before Linux 6.3, which does not say.
    pub kernel_len: u32,
}

impl RseqRegistration {
    /// Returns whether the area is longer than the original 32 bytes. The kernel then updates it only when that is needed
    /// (from Linux 7.0.y on).
    #[must_use]
    pub fn is_extensible(self) -> bool {
        self.len > ORIGINAL
    }

    /// Returns whether the kernel has an extensible mode, in which a thread's area is longer than the original 32 bytes.
    #[must_use]
    pub fn can_be_extensible(self) -> bool {
        self.kernel_len > ORIGINAL
    }
}

/// `RSEQ_CPU_ID_UNINITIALIZED`, which the kernel stores too when it forgets an area.
const UNREGISTERED: u32 = u32::MAX;

/// How a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With its last store.
    Done,
    /// By an abort: nothing has happened.
    Aborted,
    /// The thread runs on another CPU.
    Moved,
    /// The ring is closed, this process holds a reservation in it or has losses to report, or there is no room before
    /// its limit.
    Slow,
}

/// A record as a sequence writes it.
#[derive(Clone, Copy)]
pub(crate) struct SequenceRecord {
    pub(crate) word: u64,
    /// Bytes in the ring, with header and lead.
    pub(crate) size: u64,
    /// The payload's whole words.
    pub(crate) from: *const u8,
    pub(crate) words: u64,
    /// The rest of the payload, padded with zeros. Any value if there is no rest.
    pub(crate) last: u64,
    pub(crate) now: u64,
    /// [`WriterId::to_word`](perfring_abi::WriterId::to_word) of the present thread, in a ring with
    /// [`Lead::SampleId`](perfring_abi::Lead::SampleId).
    pub(crate) writer: u64,
}

/// The longest payload that a sequence copies: a longer one would be preempted too often.
pub(crate) const LONGEST: usize = 512;

/// The present thread's area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread(pub(super) NonNull<u8>);

impl Thread {
    /// Returns the number of the CPU that the thread runs on: it may be another one at once.
    #[inline(always)]
    pub(crate) fn cpu(self) -> u32 {
        let number = self.0.as_ptr().wrapping_add(offset_of!(Area, cpu_id)).cast::<u32>();
        // SAFETY: the area lives as long as its thread, which is the present one as this is not `Send`, and has the fields
        // of `Area`; the kernel writes the number, while the thread is not in user space.
        unsafe { number.read_volatile() }
    }

    /// Returns whether the kernel knows the area: else it has one of the numbers of no CPU, -1 or -2 (in vain).
    #[inline(always)]
    pub(super) fn is_registered(self) -> bool {
        self.cpu() < UNREGISTERED - 1
    }
}
