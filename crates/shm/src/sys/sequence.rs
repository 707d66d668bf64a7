//! The restartable sequences themselves. A name in capitals between braces is a constant: the offset of a field, or a
//! property of a [`Lead`].

use crate::sys::libc_area;
use crate::sys::own_area;
use crate::sys::rseq::{
    Area, Ended, NoRseq, ORIGINAL, RseqRegistration, SequenceRecord, SequenceRing, Thread,
};
use core::arch::asm;
use core::mem::offset_of;
use perfring_abi::{HEADER_LEN, Header, Lead};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicIsize, Ordering};

/// Where each thread's area is, from its thread pointer on; `UNKNOWN` before the first call; `OWN` if libc registers
/// none.
static OFFSET: AtomicIsize = AtomicIsize::new(UNKNOWN);
const UNKNOWN: isize = isize::MIN;
const OWN: isize = isize::MIN + 1;

/// Returns the present thread's area.
#[inline(always)]
pub(crate) fn thread() -> Result<Thread, NoRseq> {
    let offset = OFFSET.load(Ordering::Relaxed);
    if offset <= OWN {
        return unknown_or_own();
    }
    at(offset)
}

#[inline(always)]
fn at(offset: isize) -> Result<Thread, NoRseq> {
    let pointer: *mut u8;
    // SAFETY: reads the thread pointer, and nothing else.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, pure, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, pure, nomem, preserves_flags));
    }
    let thread = NonNull::new(pointer.wrapping_offset(offset)).map(Thread);
    thread.filter(|thread| thread.is_registered()).ok_or(NoRseq::Unregistered)
}

#[cold]
#[inline(never)]
fn unknown_or_own() -> Result<Thread, NoRseq> {
    let known = OFFSET.load(Ordering::Relaxed);
    match if known == UNKNOWN { find_offset() } else { known } {
        // Its distance from the thread pointer is not the same for all threads, if this code is in a library that was
        // loaded later.
        OWN => own_area::thread(),
        offset => at(offset),
    }
}

fn find_offset() -> isize {
    let offset = libc_area::find().map_or(OWN, |(offset, _)| offset);
    OFFSET.store(offset, Ordering::Relaxed);
    offset
}

/// Returns how the present thread is registered, and registers it if libc has not.
#[cold]
pub(crate) fn registration() -> Result<RseqRegistration, NoRseq> {
    thread()?;
    let (by_libc, len) = match libc_area::find() {
        // glibc 2.40 says 20 where it has registered 32 bytes, of which the kernel had fields for 20.
        Some((_, size)) => (true, ORIGINAL.max(size)),
        None => (false, own_area::registered_len()?),
    };
    let kernel_len = own_area::kernel_len().try_into().unwrap_or(u32::MAX);
    Ok(RseqRegistration { by_libc, len, kernel_len })
}

fn ended(code: u64) -> Ended {
    match code {
        0 => Ended::Done,
        1 => Ended::Aborted,
        2 => Ended::Moved,
        _ => Ended::Slow,
    }
}

/// A sequence: it compares the CPU, asks whether the ring is open, and ends with the store that counts.
#[cfg(target_arch = "x86_64")]
macro_rules! sequence {
    ([$($line:expr),+ $(,)?] $($operands:tt)*) => {
        asm!(
            // The descriptor: version and flags, start, length, abort address.
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "3: .long 0, 0",
            ".quad 4f, 5f - 4f, 6f",
            ".popsection",
            "lea {c}, [rip + 3b]",
            "mov [{area} + {RSEQ_CS}], {c}",
            "4:",
            "mov {c:e}, [{place} + {CPU}]",
            "cmp {c:e}, [{area} + {CPU_ID}]",
            "jne 7f",
            "mov {header}, [{place} + {HEADER}]",
            "cmp qword ptr [{header} + {STATE}], 0",
            "jne 8f",
            $($line,)+
            "5:",
            "xor {c:e}, {c:e}",
            "jmp 9f",
            // The signature must precede an abort address (here in a `ud1`).
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "6: mov {c:e}, 1",
            "jmp 9f",
            "7: mov {c:e}, 2",
            "jmp 9f",
            "8: mov {c:e}, 3",
            "9:",
            RSEQ_CS = const offset_of!(Area, rseq_cs),
            CPU_ID = const offset_of!(Area, cpu_id),
            CPU = const offset_of!(SequenceRing, cpu),
            HEADER = const offset_of!(SequenceRing, header),
            STATE = const offset_of!(Header, cpu.state),
            $($operands)*
        )
    };
}

/// See the macro for x86-64. A load-acquire of the state orders everything after it. A process that sees a store of the
/// sequence then sees everything that an older holder of the lock stored before it opened the ring.
#[cfg(target_arch = "aarch64")]
macro_rules! sequence {
    ([$($line:expr),+ $(,)?] $($operands:tt)*) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "3: .word 0, 0",
            ".quad 4f, 5f - 4f, 6f",
            ".popsection",
            "adrp {c}, 3b",
            "add {c}, {c}, :lo12:3b",
            "str {c}, [{area}, #{RSEQ_CS}]",
            "4:",
            "ldr {c:w}, [{place}, #{CPU}]",
            "ldr {t:w}, [{area}, #{CPU_ID}]",
            "cmp {c:w}, {t:w}",
            "b.ne 7f",
            "ldr {header}, [{place}, #{HEADER}]",
            "add {t}, {header}, #{STATE}",
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
            RSEQ_CS = const offset_of!(Area, rseq_cs),
            CPU_ID = const offset_of!(Area, cpu_id),
            CPU = const offset_of!(SequenceRing, cpu),
            HEADER = const offset_of!(SequenceRing, header),
            STATE = const offset_of!(Header, cpu.state),
            $($operands)*
        )
    };
}

/// [`Lead::Time`]'s length.
const TIME: usize = Lead::Time.len();

/// Where a record's time is, from its start on, and where its writer is.
const TIME_AT: usize = HEADER_LEN as usize;
const WRITER_AT: usize = TIME_AT + TIME;

/// The bit of a lead's length that only [`Lead::SampleId`] has.
#[cfg(target_arch = "aarch64")]
const WRITER_BIT: u32 = {
    let with_writer = Lead::SampleId.len();
    assert!(with_writer.is_power_of_two() && TIME < with_writer);
    with_writer.ilog2()
};

/// Publishes a record, with `LEAD` bytes before its payload: a [`Lead`]'s length.
///
/// # Safety
/// `place` names a writable mapping: a header page, and `mask + 1` bytes of data twice in a row, a power
/// of two of at least 4,096. `whole.size` is 8, and `LEAD`, and the payload's length rounded up
/// to 8: [`LONGEST`](crate::sys::rseq::LONGEST) at most. `whole.from` has `words` words to be read, as many as are whole
/// in the payload. A slice of this process that covers bytes of the ring is counted in `place.held`, from before the ring
/// was closed for it ([`close`]).
///
/// Another process's stores in the page change only the record's place in the data area: the
/// position is masked, and a record that begins in the first copy ends inside the second.
#[inline(always)]
pub(crate) unsafe fn publish<const LEAD: usize>(
    thread: Thread,
    place: &SequenceRing,
    whole: SequenceRecord,
) -> Ended {
    let code: u64;
    let SequenceRecord { word, size, from, words, last, now, writer } = whole;
    #[cfg(target_arch = "x86_64")]
    // `$stores` are the lines that store the words before the payload, which begins `BODY` bytes into the record.
    macro_rules! lines {
        ([$($stores:literal),*] $($operands:tt)*) => {
            // SAFETY: the caller's promise. Inside the sequence no other thread of this CPU runs; the stores go
            // to the mapping, the last one with release, as all stores on x86-64. An abort leaves registers
            // alone, all of which are declared here.
            unsafe {
                sequence!(
                    [
                        "cmp dword ptr [{place} + {HELD}], 0",
                        "jne 8f",
                        "mov {end}, [{header} + {HEAD}]",
                        // One more, unless the last one was aborted after it had been counted.
                        "mov {c}, [{header} + {COUNT}]",
                        "mov {at:e}, {c:e}",
                        "shr {c}, 32",
                        "cmp {at:e}, {end:e}",
                        "jne 23f",
                        "add {c}, 1",
                        "23: shl {c}, 32",
                        "add {end}, {size}",
                        "cmp {end}, [{header} + {LIMIT}]",
                        "ja 8f",
                        "mov {at:e}, {end:e}",
                        "or {c}, {at}",
                        "mov [{header} + {COUNT}], {c}",
                        "mov {at}, {end}",
                        "sub {at}, {size}",
                        "and {at}, [{place} + {MASK}]",
                        "add {at}, [{place} + {DATA}]",
                        "lea {c}, [8*{words} + {BODY}]",
                        "cmp {c}, {size}",
                        "je 24f",
                        "mov [{at} + {size} - 8], {last}",
                        "24:",
                        $($stores,)*
                        "mov [{at}], {word}",
                        // An odd one by itself, then two at a time.
                        "test {words:l}, 1",
                        "jz 21f",
                        "mov {c}, [{from} + 8*{words} - 8]",
                        "mov [{at} + 8*{words} + {BODY} - 8], {c}",
                        "sub {words}, 1",
                        "21: sub {words}, 2",
                        "jb 22f",
                        "2: movq {two}, [{from} + 8*{words}]",
                        "movhps {two}, [{from} + 8*{words} + 8]",
                        "movups [{at} + 8*{words} + {BODY}], {two}",
                        "sub {words}, 2",
                        "jae 2b",
                        "22: mov [{header} + {HEAD}], {end}",
                    ]
                    area = in(reg) thread.0.as_ptr(), place = in(reg) place, word = in(reg) word,
                    size = in(reg) size, from = in(reg) from, words = inout(reg) words => _,
                    last = in(reg) last, header = out(reg) _, at = out(reg) _, end = out(reg) _,
                    c = out(reg) code, two = out(xmm_reg) _, $($operands)*
                    BODY = const HEADER_LEN as usize + LEAD,
                    HEAD = const offset_of!(Header, data_head),
                    LIMIT = const offset_of!(Header, cpu.limit),
                    COUNT = const offset_of!(Header, cpu.count),
                    DATA = const offset_of!(SequenceRing, data),
                    MASK = const offset_of!(SequenceRing, mask),
                    HELD = const offset_of!(SequenceRing, held),
                    options(nostack)
                );
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    match LEAD {
        0 => lines!([]),
        TIME => lines!(
            [
                "mov {c}, [{header} + {NEWEST}]",
                "cmp {now}, {c}",
                "cmovb {now}, {c}",
                "mov [{header} + {NEWEST}], {now}",
                "mov [{at} + {TIME_AT}], {now}"
            ]
            now = inout(reg) now => _, NEWEST = const offset_of!(Header, shared.newest_timestamp),
            TIME_AT = const TIME_AT,
        ),
        _ => lines!(
            [
                "mov {c}, [{header} + {NEWEST}]",
                "cmp {now}, {c}",
                "cmovb {now}, {c}",
                "mov [{header} + {NEWEST}], {now}",
                "mov [{at} + {TIME_AT}], {now}",
                "mov [{at} + {WRITER_AT}], {writer}"
            ]
            now = inout(reg) now => _, writer = in(reg) writer,
            NEWEST = const offset_of!(Header, shared.newest_timestamp), TIME_AT = const TIME_AT,
            WRITER_AT = const WRITER_AT,
        ),
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; the last store has release.
    unsafe {
        sequence!(
            [
                "ldr {c:w}, [{place}, #{HELD}]",
                "cbnz {c:w}, 8f",
                "ldr {end}, [{header}, #{HEAD}]",
                "add {t}, {header}, #{STATE}",
                "ldr {c}, [{t}, #{STATE_TO_COUNT}]",
                "lsr {at}, {c}, #32",
                "cmp {c:w}, {end:w}",
                "cinc {at}, {at}, eq",
                "add {end}, {end}, {size}",
                "ldr {c}, [{t}, #{STATE_TO_LIMIT}]",
                "cmp {end}, {c}",
                "b.hi 8f",
                "lsl {at}, {at}, #32",
                "bfi {at}, {end}, #0, #32",
                "str {at}, [{t}, #{STATE_TO_COUNT}]",
                "sub {at}, {end}, {size}",
                "ldr {c}, [{place}, #{MASK}]",
                "and {at}, {at}, {c}",
                "ldr {c}, [{place}, #{DATA}]",
                "add {at}, {at}, {c}",
                // First: if nothing is left, this is where another word goes.
                "sub {t}, {size}, #8",
                "str {last}, [{at}, {t}]",
                "cbz {lead}, 21f",
                "add {t}, {header}, #{NEWEST}",
                "ldr {c}, [{t}]",
                "cmp {now}, {c}",
                "csel {now}, {now}, {c}, hs",
                "str {now}, [{t}]",
                "str {now}, [{at}, #{TIME_AT}]",
                "tbz {lead}, #{WRITER_BIT}, 21f",
                "str {writer}, [{at}, #{WRITER_AT}]",
                "21: str {word}, [{at}]",
                "add {at}, {at}, {lead}",
                "add {at}, {at}, #{HEADER_LEN}",
                "2: cbz {words}, 22f",
                "sub {words}, {words}, #1",
                "ldr {c}, [{from}, {words}, lsl #3]",
                "str {c}, [{at}, {words}, lsl #3]",
                "b 2b",
                "22: add {t}, {header}, #{HEAD}",
                "stlr {end}, [{t}]",
            ]
            area = in(reg) thread.0.as_ptr(), place = in(reg) place, word = in(reg) word,
            size = in(reg) size, from = in(reg) from, words = inout(reg) words => _, last = in(reg) last,
            now = inout(reg) now => _, writer = in(reg) writer, lead = in(reg) LEAD, header = out(reg) _,
            at = out(reg) _, end = out(reg) _, t = out(reg) _, c = out(reg) code,
            HEAD = const offset_of!(Header, data_head),
            NEWEST = const offset_of!(Header, shared.newest_timestamp),
            STATE_TO_LIMIT = const offset_of!(Header, cpu.limit) - offset_of!(Header, cpu.state),
            STATE_TO_COUNT = const offset_of!(Header, cpu.count) - offset_of!(Header, cpu.state),
            DATA = const offset_of!(SequenceRing, data), MASK = const offset_of!(SequenceRing, mask),
            HELD = const offset_of!(SequenceRing, held), HEADER_LEN = const HEADER_LEN, TIME_AT = const TIME_AT, WRITER_AT = const WRITER_AT,
            WRITER_BIT = const WRITER_BIT, options(nostack)
        );
    }
    ended(code)
}

/// Closes the ring for the producer in a slot, if it is open. After that, no thread is inside a sequence.
///
/// # Safety
/// As for [`publish`], of the mapping.
pub(crate) unsafe fn close(thread: Thread, place: &SequenceRing, slot: u32) -> Ended {
    let code: u64;
    let closed = u64::from(slot) + 1;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `publish`; the only store is that of the state.
    unsafe {
        sequence!(
            ["mov [{header} + {STATE}], {closed}"]
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
