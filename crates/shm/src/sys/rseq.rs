//! Restartable sequences (`rseq(2)`, Linux 4.18): a few instructions of which the last one publishes.
//!
//! While a thread is inside one, the kernel knows its bounds. If the thread is preempted, migrated to
//! another CPU or gets a signal before the last instruction, it goes on at the abort address instead. So
//! between the comparison of the CPU and the last store nobody else runs on that CPU, whatever process it
//! is of, and a thread that is killed there has stored nothing that counts.
//!
//! libc registers each thread with the kernel (glibc since 2.35) and says where its area is, by
//! `__rseq_offset` from the thread pointer. The design is Paul Turner's and Mathieu Desnoyers's; the layout
//! of area and descriptor is `include/uapi/linux/rseq.h`.

use perfring_abi::Header;
use std::ptr::NonNull;
use thiserror::Error;

/// Why restartable sequences cannot be used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoRseq {
    /// Not on this architecture, or under Miri.
    #[error("restartable sequences need x86-64 or aarch64")]
    Architecture,
    /// libc has no `__rseq_offset`.
    #[error(
        "this libc does not register threads for restartable sequences: glibc does, from 2.35 on"
    )]
    Libc,
    /// libc has it and did not register this thread.
    #[error(
        "this thread is not registered for restartable sequences: the kernel is older than 4.18, or a sandbox \
         such as gVisor, or GLIBC_TUNABLES has glibc.pthread.rseq=0"
    )]
    Unregistered,
}

/// What a sequence needs of its ring's mapping. The instructions know the offsets of the fields.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Place {
    /// Offset 0.
    pub(crate) header: NonNull<Header>,
    /// Offset 8: the first copy of the data area, which is followed by another.
    pub(crate) data: NonNull<u8>,
    /// Offset 16: `data_size - 1`.
    pub(crate) mask: u64,
    /// Offset 24: the number of the ring's CPU.
    pub(crate) cpu: u32,
}

/// How a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With its last store.
    Done,
    /// By an abort: nothing has happened.
    Aborted,
    /// The thread runs on another CPU.
    Moved,
    /// The ring is closed, or there is no room before its limit.
    Slow,
}

/// A record as a sequence writes it.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    pub(crate) word: u64,
    /// Bytes in the ring, with header and timestamp.
    pub(crate) size: u64,
    /// The payload's words, but the last one.
    pub(crate) from: *const u8,
    pub(crate) words: u64,
    /// The last one, padded with zeros. Anything if there is no payload.
    pub(crate) last: u64,
    pub(crate) now: u64,
}

/// The longest payload that a sequence copies: a longer one would be preempted too often.
pub(crate) const LONGEST: usize = 512;

/// The present thread's area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread(NonNull<u8>);

pub(crate) use imp::{close, publish, thread};

impl Thread {
    /// Returns the number of the CPU that the thread runs on: it may be another one at once.
    #[inline(always)]
    pub(crate) fn cpu(self) -> u32 {
        // SAFETY: the area lives as long as its thread, which is the present one as this is not `Send`;
        // the kernel writes it, while the thread does not run in user space.
        unsafe { self.0.cast::<u32>().add(1).read_volatile() }
    }

    /// A number that no other living thread of this process has.
    pub(crate) fn id(self) -> usize {
        self.0.addr().get()
    }
}

#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_endian = "little",
    target_pointer_width = "64",
    not(miri)
))]
mod imp {
    use super::{Ended, NoRseq, Place, Thread, Whole};
    use core::arch::asm;
    use core::mem::offset_of;
    use nix::libc;
    use perfring_abi::Header;
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicIsize, Ordering};

    const _: () = {
        assert!(offset_of!(Place, header) == 0 && offset_of!(Place, data) == 8);
        assert!(offset_of!(Place, mask) == 16 && offset_of!(Place, cpu) == 24);
        assert!(offset_of!(Header, data_head) == 1024);
        assert!(offset_of!(Header, shared.newest_timestamp) == 2592);
        assert!(offset_of!(Header, cpu.state) == 3456 && offset_of!(Header, cpu.limit) == 3464);
        assert!(offset_of!(Header, cpu.count) == 3472);
    };

    /// Where each thread's area is, from its thread pointer on; `UNKNOWN` before the first call.
    static OFFSET: AtomicIsize = AtomicIsize::new(UNKNOWN);
    const UNKNOWN: isize = isize::MIN;
    const NONE: isize = isize::MIN + 1;

    /// Returns the present thread's area.
    #[inline(always)]
    pub(crate) fn thread() -> Result<Thread, NoRseq> {
        let mut offset = OFFSET.load(Ordering::Relaxed);
        if offset <= NONE {
            offset = find_offset().ok_or(NoRseq::Libc)?;
        }
        let pointer: *mut u8;
        // SAFETY: reads the thread pointer, and nothing else.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!("mov {}, fs:0", out(reg) pointer, options(nostack, pure, readonly, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, pure, nomem, preserves_flags));
        }
        let thread = NonNull::new(pointer.wrapping_offset(offset)).map(Thread);
        // The numbers of no CPU, -1 and -2: not registered, or in vain.
        thread.filter(|thread| thread.cpu() < u32::MAX - 1).ok_or(NoRseq::Unregistered)
    }

    #[cold]
    #[inline(never)]
    fn find_offset() -> Option<isize> {
        // SAFETY: names of symbols that are, in a libc that has them, an `isize` and a `u32` for ever.
        let symbol = |name: &core::ffi::CStr| unsafe {
            NonNull::new(libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()))
        };
        let found =
            symbol(c"__rseq_offset").zip(symbol(c"__rseq_size")).and_then(|(offset, size)| {
                // SAFETY: as above; they are constant once the program runs.
                let (offset, size) =
                    unsafe { (offset.cast::<isize>().read(), size.cast::<u32>().read()) };
                (size > 0).then_some(offset)
            });
        OFFSET.store(found.unwrap_or(NONE), Ordering::Relaxed);
        found
    }

    fn ended(code: u64) -> Ended {
        match code {
            0 => Ended::Done,
            1 => Ended::Aborted,
            2 => Ended::Moved,
            _ => Ended::Slow,
        }
    }

    /// A sequence: `$enter` compares the CPU, `$body` ends with the store that counts.
    #[cfg(target_arch = "x86_64")]
    macro_rules! sequence {
        ([$($line:literal),+ $(,)?] $($operands:tt)*) => {
            asm!(
                // The descriptor: version and flags, start, length, abort address.
                ".pushsection __rseq_cs, \"aw\"",
                ".balign 32",
                "3: .long 0, 0",
                ".quad 4f, 5f - 4f, 6f",
                ".popsection",
                "lea {c}, [rip + 3b]",
                "mov [{area} + 8], {c}",
                "4:",
                "mov {c:e}, [{place} + 24]",
                "cmp {c:e}, [{area} + 4]",
                "jne 7f",
                "mov {header}, [{place}]",
                "cmp qword ptr [{header} + 3456], 0",
                "jne 8f",
                $($line,)+
                "5:",
                "xor {c:e}, {c:e}",
                "jmp 9f",
                // What is before an abort address must be the signature (here in a `ud1`).
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "6: mov {c:e}, 1",
                "jmp 9f",
                "7: mov {c:e}, 2",
                "jmp 9f",
                "8: mov {c:e}, 3",
                "9:",
                $($operands)*
            )
        };
    }

    /// See the other one. A load-acquire of the state orders all after it; what an older holder of the lock
    /// stored before it opened the ring is then seen by whoever sees a store of the sequence.
    #[cfg(target_arch = "aarch64")]
    macro_rules! sequence {
        ([$($line:literal),+ $(,)?] $($operands:tt)*) => {
            asm!(
                ".pushsection __rseq_cs, \"aw\"",
                ".balign 32",
                "3: .word 0, 0",
                ".quad 4f, 5f - 4f, 6f",
                ".popsection",
                "adrp {c}, 3b",
                "add {c}, {c}, :lo12:3b",
                "str {c}, [{area}, #8]",
                "4:",
                "ldr {c:w}, [{place}, #24]",
                "ldr {t:w}, [{area}, #4]",
                "cmp {c:w}, {t:w}",
                "b.ne 7f",
                "ldr {header}, [{place}]",
                "add {t}, {header}, #3456",
                "ldar {c}, [{t}]",
                "cbnz {c}, 8f",
                $($line,)+
                "5:",
                "mov {c}, #0",
                "b 9f",
                ".inst 0xd428bc00",
                "6: mov {c}, #1",
                "b 9f",
                "7: mov {c}, #2",
                "b 9f",
                "8: mov {c}, #3",
                "9:",
                $($operands)*
            )
        };
    }

    /// Publishes a record, with a timestamp if `TIMED`.
    ///
    /// # Safety
    /// `place` names a writable mapping: a header page, and `mask + 1` bytes of data twice in a row, a power
    /// of two of at least 4,096. `whole.size` is 8, and 8 more if `TIMED`, and the payload's length rounded up
    /// to 8: [`LONGEST`](super::LONGEST) at most. `whole.from` has `words` words to be read, one less than the
    /// payload has, if it has any. No slice of this process covers what is free in the ring.
    ///
    /// What another process stores in the page changes only where in the data area the record goes: the
    /// position is masked, and a record that begins in the first copy ends inside the second.
    #[inline(always)]
    pub(crate) unsafe fn publish<const TIMED: bool>(
        thread: Thread,
        place: &Place,
        whole: Whole,
    ) -> Ended {
        let code: u64;
        let Whole { word, size, from, words, last, now } = whole;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's promise. Inside the sequence no other thread of this CPU runs; the stores go to
        // the mapping, the last one with release, as all stores on x86-64. An abort leaves registers alone, all
        // of which are declared here.
        unsafe {
            if TIMED {
                sequence!(
                    [
                        "mov {end}, [{header} + 1024]",
                        // One more, unless the last one was aborted after it had been counted.
                        "mov {c}, [{header} + 3472]",
                        "mov {at:e}, {c:e}",
                        "shr {c}, 32",
                        "cmp {at:e}, {end:e}",
                        "jne 23f",
                        "add {c}, 1",
                        "23: shl {c}, 32",
                        "add {end}, {size}",
                        "cmp {end}, [{header} + 3464]",
                        "ja 8f",
                        "mov {at:e}, {end:e}",
                        "or {c}, {at}",
                        "mov [{header} + 3472], {c}",
                        "mov {at}, {end}",
                        "sub {at}, {size}",
                        "and {at}, [{place} + 16]",
                        "add {at}, [{place} + 8]",
                        "mov {c}, [{header} + 2592]",
                        "cmp {now}, {c}",
                        "cmovb {now}, {c}",
                        "mov [{header} + 2592], {now}",
                        "mov [{at} + {size} - 8], {last}",
                        "mov [{at} + 8], {now}",
                        "mov [{at}], {word}",
                        // An odd one by itself, then two at a time.
                        "test {words:l}, 1",
                        "jz 21f",
                        "mov {c}, [{from} + 8*{words} - 8]",
                        "mov [{at} + 8*{words} + 8], {c}",
                        "sub {words}, 1",
                        "21: sub {words}, 2",
                        "jb 22f",
                        "2: movups {two}, [{from} + 8*{words}]",
                        "movups [{at} + 8*{words} + 16], {two}",
                        "sub {words}, 2",
                        "jae 2b",
                        "22: mov [{header} + 1024], {end}",
                    ]
                    area = in(reg) thread.0.as_ptr(), place = in(reg) place, word = in(reg) word,
                    size = in(reg) size, from = in(reg) from, words = inout(reg) words => _,
                    last = in(reg) last, now = inout(reg) now => _, header = out(reg) _, at = out(reg) _,
                    end = out(reg) _, c = out(reg) code, two = out(xmm_reg) _, options(nostack)
                );
            } else {
                sequence!(
                    [
                        "mov {end}, [{header} + 1024]",
                        // One more, unless the last one was aborted after it had been counted.
                        "mov {c}, [{header} + 3472]",
                        "mov {at:e}, {c:e}",
                        "shr {c}, 32",
                        "cmp {at:e}, {end:e}",
                        "jne 23f",
                        "add {c}, 1",
                        "23: shl {c}, 32",
                        "add {end}, {size}",
                        "cmp {end}, [{header} + 3464]",
                        "ja 8f",
                        "mov {at:e}, {end:e}",
                        "or {c}, {at}",
                        "mov [{header} + 3472], {c}",
                        "mov {at}, {end}",
                        "sub {at}, {size}",
                        "and {at}, [{place} + 16]",
                        "add {at}, [{place} + 8]",
                        "mov [{at} + {size} - 8], {last}",
                        "mov [{at}], {word}",
                        // An odd one by itself, then two at a time.
                        "test {words:l}, 1",
                        "jz 21f",
                        "mov {c}, [{from} + 8*{words} - 8]",
                        "mov [{at} + 8*{words} + 0], {c}",
                        "sub {words}, 1",
                        "21: sub {words}, 2",
                        "jb 22f",
                        "2: movups {two}, [{from} + 8*{words}]",
                        "movups [{at} + 8*{words} + 8], {two}",
                        "sub {words}, 2",
                        "jae 2b",
                        "22: mov [{header} + 1024], {end}",
                    ]
                    area = in(reg) thread.0.as_ptr(), place = in(reg) place, word = in(reg) word,
                    size = in(reg) size, from = in(reg) from, words = inout(reg) words => _,
                    last = in(reg) last, header = out(reg) _, at = out(reg) _, end = out(reg) _,
                    c = out(reg) code, two = out(xmm_reg) _, options(nostack)
                );
            }
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above; the last store has release.
        unsafe {
            sequence!(
                [
                    "ldr {end}, [{header}, #1024]",
                    "add {t}, {header}, #3456",
                    "ldr {c}, [{t}, #16]",
                    "lsr {at}, {c}, #32",
                    "cmp {c:w}, {end:w}",
                    "cinc {at}, {at}, eq",
                    "add {end}, {end}, {size}",
                    "ldr {c}, [{t}, #8]",
                    "cmp {end}, {c}",
                    "b.hi 8f",
                    "lsl {at}, {at}, #32",
                    "bfi {at}, {end}, #0, #32",
                    "str {at}, [{t}, #16]",
                    "sub {at}, {end}, {size}",
                    "ldr {c}, [{place}, #16]",
                    "and {at}, {at}, {c}",
                    "ldr {c}, [{place}, #8]",
                    "add {at}, {at}, {c}",
                    "sub {t}, {size}, #8",
                    "str {last}, [{at}, {t}]",
                    // Without a timestamp this stores one, and the payload or the next record over it.
                    "cbz {timed}, 21f",
                    "add {t}, {header}, #2592",
                    "ldr {c}, [{t}]",
                    "cmp {now}, {c}",
                    "csel {now}, {now}, {c}, hs",
                    "str {now}, [{t}]",
                    "str {now}, [{at}, #8]",
                    "21: str {word}, [{at}]",
                    "add {at}, {at}, {timed}",
                    "add {at}, {at}, #8",
                    "2: cbz {words}, 22f",
                    "sub {words}, {words}, #1",
                    "ldr {c}, [{from}, {words}, lsl #3]",
                    "str {c}, [{at}, {words}, lsl #3]",
                    "b 2b",
                    "22: add {t}, {header}, #1024",
                    "stlr {end}, [{t}]",
                ]
                area = in(reg) thread.0.as_ptr(), place = in(reg) place, word = in(reg) word,
                size = in(reg) size, from = in(reg) from, words = inout(reg) words => _, last = in(reg) last,
                now = inout(reg) now => _, timed = in(reg) if TIMED { 8u64 } else { 0 }, header = out(reg) _,
                at = out(reg) _, end = out(reg) _, t = out(reg) _, c = out(reg) code, options(nostack)
            );
        }
        ended(code)
    }

    /// Closes the ring for the producer in a slot, if it is open: then nobody is inside a sequence.
    ///
    /// # Safety
    /// As for [`publish`], of the mapping.
    pub(crate) unsafe fn close(thread: Thread, place: &Place, slot: u32) -> Ended {
        let code: u64;
        let closed = u64::from(slot) + 1;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `publish`; the only store is that of the state.
        unsafe {
            sequence!(
                ["mov [{header} + 3456], {closed}"]
                area = in(reg) thread.0.as_ptr(), place = in(reg) place, closed = in(reg) closed,
                header = out(reg) _, c = out(reg) code, options(nostack)
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            sequence!(
                ["stlr {closed}, [{t}]"]
                area = in(reg) thread.0.as_ptr(), place = in(reg) place, closed = in(reg) closed,
                header = out(reg) _, t = out(reg) _, c = out(reg) code, options(nostack)
            );
        }
        ended(code)
    }
}

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_endian = "little",
    target_pointer_width = "64",
    not(miri)
)))]
mod imp {
    use super::{Ended, NoRseq, Place, Thread, Whole};

    pub(crate) fn thread() -> Result<Thread, NoRseq> {
        Err(NoRseq::Architecture)
    }

    pub(crate) unsafe fn publish<const TIMED: bool>(_: Thread, _: &Place, _: Whole) -> Ended {
        Ended::Slow
    }

    pub(crate) unsafe fn close(_: Thread, _: &Place, _: u32) -> Ended {
        Ended::Slow
    }
}
