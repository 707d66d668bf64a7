//! Areas for restartable sequences that libc registers (glibc 2.35 and newer): two variables have their place.
//!
//! A dynamic program asks the dynamic linker for the variables. A static program has no dynamic linker, so the linker
//! fills in their addresses, or 0 if libc lacks the variables: they are weak symbols.

use std::ptr::NonNull;

/// Returns the offset of each thread's area from the thread pointer, and the area's length by libc. `None` if libc
/// registers no areas.
pub(super) fn find() -> Option<(isize, u32)> {
    let (offset, size) = variables();
    // SAFETY: the address is that of an `isize`, which is constant once the program runs.
    let offset = unsafe { offset?.read() };
    // SAFETY: the address is that of a `u32`, which is constant once the program runs.
    let size = unsafe { size?.read() };
    (size > 0).then_some((offset, size))
}

type Variables = (Option<NonNull<isize>>, Option<NonNull<u32>>);

#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
fn variables() -> Variables {
    use nix::libc::{RTLD_DEFAULT, dlsym};
    // SAFETY: names of symbols that are, in a libc that has them, an `isize` and a `u32` for ever.
    let symbol =
        |name: &core::ffi::CStr| unsafe { NonNull::new(dlsym(RTLD_DEFAULT, name.as_ptr())) };
    (symbol(c"__rseq_offset").map(NonNull::cast), symbol(c"__rseq_size").map(NonNull::cast))
}

#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
fn variables() -> Variables {
    macro_rules! address {
        ($name:literal) => {{
            let address;
            // SAFETY: reads the address that the linker has filled in, and nothing else.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                core::arch::asm!(
                    concat!(".weak ", $name),
                    concat!("mov {address}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                    address = out(reg) address,
                    options(nostack, pure, readonly, preserves_flags)
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::asm!(
                    concat!(".weak ", $name),
                    concat!("adrp {address}, :got:", $name),
                    concat!("ldr {address}, [{address}, :got_lo12:", $name, "]"),
                    address = out(reg) address,
                    options(nostack, pure, readonly, preserves_flags)
                );
            }
            NonNull::new(address)
        }};
    }
    (address!("__rseq_offset"), address!("__rseq_size"))
}
