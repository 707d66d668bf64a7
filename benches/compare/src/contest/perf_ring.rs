//! The kernel's perf rings, written backwards: one for each processor, in a
//! map from which a program in the kernel takes that of the processor it runs on.

use crate::contest::bpf::number_at;
use crate::contest::handed::{self, Whose};
use crate::contest::program::ProgramSender;
use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use perfring_bench::bpf::{Loop, create_map, insn, map_id, number, op, open_map, set_entry};
use perfring_bench::error::system;
use perfring_bench::{BenchError, Result};
use std::ffi::{c_long, c_void};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The type of the map.
const MAP_TYPE_PERF_EVENT_ARRAY: u32 = 4;
/// The function that the program calls.
const PERF_EVENT_OUTPUT: i32 = 25;
/// Selects the ring of the present processor.
const CURRENT_CPU: i32 = -1;
/// Payloads that fit the program's stack, of 512 bytes in all.
pub(super) const ON_STACK: usize = 256;

/// The event type of programs' output, and its bits.
const TYPE_SOFTWARE: u32 = 1;
const SW_BPF_OUTPUT: u64 = 10;
const SAMPLE_RAW: u64 = 1 << 10;
const WATERMARK: u64 = 1 << 14;
const WRITE_BACKWARD: u64 = 1 << 27;
/// A flag of `perf_event_open`.
const CLOEXEC: c_long = 8;

/// The position in a ring's first page, in words.
const DATA_HEAD: usize = 1024 / 8;
/// The type of the records in it.
const RECORD_SAMPLE: u32 = 9;
/// What precedes a payload: type, flags and size, and the size of what the program passed.
const BEFORE: usize = 12;

/// Returns how many processors there may be: each has a ring.
pub(super) fn processors() -> u32 {
    // SAFETY: it takes no pointers.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    u32::try_from(count).unwrap_or(1).max(1)
}

#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    config1: u64,
}

/// One processor's ring.
pub(super) struct Ring {
    pub(super) event: OwnedFd,
    base: NonNull<u8>,
    page: usize,
    pub(super) data_size: usize,
}

// SAFETY: it is the only owner; the mapping belongs to the process.
unsafe impl Send for Ring {}

impl Ring {
    fn open(processor: u32, data_size: u64) -> Result<Self> {
        let attributes = Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: SW_BPF_OUTPUT,
            sample_period: 1,
            sample_type: SAMPLE_RAW,
            // Never woken, and written backwards over old records.
            flags: WATERMARK | WRITE_BACKWARD,
            wakeup: i32::MAX as u32,
            ..Attributes::default()
        };
        let (anybody, alone, close) = (-1 as c_long, -1 as c_long, CLOEXEC);
        // SAFETY: the kernel reads `size` bytes of `attributes`, which outlives the call.
        let fd = unsafe {
            let call = libc::SYS_perf_event_open;
            libc::syscall(
                call,
                &raw const attributes,
                anybody,
                c_long::from(processor),
                alone,
                close,
            )
        };
        let fd = Errno::result(fd).map_err(system("perf_event_open"))? as i32;
        // SAFETY: it was just created and has no other owner.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        let page = rustix::param::page_size();
        let data_size = usize::try_from(data_size).unwrap_or(usize::MAX / 2);
        let len = NonZeroUsize::new(page + data_size).unwrap_or(NonZeroUsize::MIN);
        // A mapping that may not be written to is one that the kernel overwrites.
        // SAFETY: without MAP_FIXED the kernel takes addresses that nothing uses.
        let base =
            unsafe { mmap(None, len, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, &event, 0) };
        let base = base.map_err(system("mapping a perf ring"))?.cast();
        Ok(Ring { event, base, page, data_size })
    }

    /// A position of its first page.
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the page is mapped for as long as `self`, 8-aligned, and the kernel stores its
        // positions atomically.
        unsafe { self.base.cast::<AtomicU64>().add(at).as_ref() }
    }

    /// Returns from where on it was written: backwards.
    pub(super) fn head(&self) -> u64 {
        self.word(DATA_HEAD).load(Ordering::Acquire)
    }

    /// Returns `len` bytes from a position on, at most the size of the area. Uses `whole` if they
    /// wrap.
    fn bytes<'a>(&'a self, at: u64, len: usize, whole: &'a mut Vec<u8>) -> &'a [u8] {
        let from = (at % self.data_size as u64) as usize;
        let first = len.min(self.data_size - from);
        // SAFETY: `from + first` is within the data area, which begins a page into the mapping, and
        // the kernel does not write a record that a caller reads: it is in front of the tail, or
        // the ring is paused.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.page + from), first) };
        if first == len {
            return bytes;
        }
        whole.clear();
        whole.extend_from_slice(bytes);
        // SAFETY: as above; what is left is less than the data area.
        let rest =
            unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.page), len - first) };
        whole.extend_from_slice(rest);
        whole
    }

    /// Returns the length of the record at a position, and its payload if it is a benchmark record.
    #[inline(always)]
    pub(super) fn record<'a, const N: usize>(
        &'a self,
        at: u64,
        whole: &'a mut Vec<u8>,
    ) -> (usize, Option<&'a [u8; N]>) {
        // Records are 8-aligned: a header does not wrap.
        let from = (at % self.data_size as u64) as usize;
        // SAFETY: eight bytes within the data area, 8-aligned; as in `bytes`.
        let header = unsafe { self.base.add(self.page + from).cast::<u64>().read() };
        let (kind, len) = (header as u32, (header >> 48) as usize);
        if len < 8 {
            return (8, None);
        }
        if kind != RECORD_SAMPLE || len < BEFORE + N {
            return (len, None);
        }
        (len, self.bytes(at, BEFORE + N, whole)[BEFORE..].first_chunk())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly what `open` mapped; references into it borrow from `self`.
        let unmapped = unsafe { munmap(self.base.cast::<c_void>(), self.page + self.data_size) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Pauses or continues the writing of a ring.
pub(super) fn pause(ring: &Ring, paused: bool) -> Result<()> {
    const PAUSE_OUTPUT: libc::c_ulong = 0x4004_2409;
    // SAFETY: the request takes a number, no pointer.
    let done = unsafe { libc::ioctl(ring.event.as_raw_fd(), PAUSE_OUTPUT, u32::from(paused)) };
    Errno::result(done).map(drop).map_err(system("PERF_EVENT_IOC_PAUSE_OUTPUT"))
}

/// The map of the rings, and the file with its id. Its entries are removed when the descriptors
/// that set them close.
pub struct Held {
    _map: OwnedFd,
    _rings: handed::Held,
}

/// Creates the map and the rings of all processors, and leaves the rings to the receiver: they
/// exist from the beginning, also where there is no reader before the end.
pub(super) fn create(path: &Path, data_size: u64) -> Result<Held> {
    let map = create_map(MAP_TYPE_PERF_EVENT_ARRAY, [4, 4], processors(), 0)?;
    let mut rings = Vec::new();
    for processor in 0..processors() {
        match Ring::open(processor, data_size) {
            Ok(ring) => {
                set_entry(map.as_fd(), processor, number(ring.event.as_fd()))?;
                rings.push(ring);
            }
            // A processor that is switched off.
            Err(BenchError::System { source: Errno::ENODEV, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    std::fs::write(path, map_id(map.as_fd())?.to_string())?;
    let held = handed::Held::new(path);
    held.lay(Whose::Receiver(0), rings);
    Ok(Held { _map: map, _rings: held })
}

/// Returns the rings, each with a position: none yet.
pub(super) fn rings(path: &Path, index: usize) -> Result<Vec<(Ring, u64)>> {
    let rings: Vec<Ring> = handed::take(path, Whose::Receiver(index))?;
    Ok(rings.into_iter().map(|ring| (ring, 0)).collect())
}

/// Returns a program that writes to the rings of a map. It assembles each record on its stack.
pub(super) fn sender(path: &Path, payload: usize) -> Result<ProgramSender> {
    let map = open_map(number_at(path)?)?;
    let mut code = Loop::begin(payload);
    code.push(insn(op::MOVE, 0, 10, 0, 0));
    code.push(insn(op::ADD_IMM, 0, 0, 0, -(payload as i32)));
    code.fill(payload);
    code.push(insn(op::MOVE, 4, 0, 0, 0));
    code.push(insn(op::MOVE, 1, 9, 0, 0));
    code.map(2, number(map.as_fd()));
    code.push(insn(op::MOVE_HALF_IMM, 3, 0, 0, CURRENT_CPU));
    code.push(insn(op::MOVE_IMM, 5, 0, 0, payload as i32));
    code.push(insn(op::CALL, 0, 0, 0, PERF_EVENT_OUTPUT));
    code.end_if(op::JUMP_UNLESS_IMM, 0, 0);
    ProgramSender::load(&code.finish(), payload)
}

/// Checks whether all of it is available here.
pub(super) fn check() -> Result<(), String> {
    let try_all = || {
        let path =
            PathBuf::from("/dev/shm").join(format!("perfring-probe-{}", nix::unistd::getpid()));
        let held = create(&path, rustix::param::page_size() as u64)?;
        sender(&path, 8)?;
        drop(held);
        Ok(())
    };
    try_all().map_err(crate::contest::bpf::privileges)
}
