//! The copy of a payload into the ring.

#[cfg(target_arch = "x86_64")]
use core::arch::asm;

/// Longer payloads are left to `memcpy`: there most of the bytes have left the queue.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 256;

/// Copies bytes that the program has often just written, such as the fields of a struct.
///
/// A load takes bytes in the store queue from one store only (Intel's optimization manual, "Store-to-Load
/// Forwarding"; AMD's, "Load-Store Unit"). A load that is wider than the stores before it waits until all of them are in the
/// cache, which takes longer than everything else in a publish. Therefore these functions load eight bytes at a time, while
/// a compiler and `memcpy` load 16 or more, and store 16.
///
/// # Safety
/// As for [`core::ptr::copy_nonoverlapping`].
#[inline(always)]
pub(crate) unsafe fn copy_fresh(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if (8..=SHORT).contains(&len) {
        let mut at = 0;
        while at + 64 <= len {
            // SAFETY: the 64 bytes are among those of the caller's promise.
            unsafe { copy_64(from.wrapping_add(at), to.wrapping_add(at)) };
            at += 64;
        }
        if at + 32 <= len {
            // SAFETY: as above, 32 bytes.
            unsafe { copy_32(from.wrapping_add(at), to.wrapping_add(at)) };
            at += 32;
        }
        if at + 16 <= len {
            // SAFETY: as above, 16 bytes.
            unsafe { copy_16(from.wrapping_add(at), to.wrapping_add(at)) };
            at += 16;
        }
        if at + 8 <= len {
            // SAFETY: as above, 8 bytes.
            unsafe { copy_8(from.wrapping_add(at), to.wrapping_add(at)) };
        }
        if !len.is_multiple_of(8) {
            // SAFETY: as above: the last 8, some of which have been copied.
            unsafe { copy_8(from.wrapping_add(len - 8), to.wrapping_add(len - 8)) };
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
}

/// A function that copies so many bytes: in assembly, because the compiler makes one load of two, and at once, so
/// that the offsets are in the instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! copy {
    ($name:ident, $($at:literal)+) => {
        /// # Safety
        /// As for [`copy_fresh`], of as many bytes as it says.
        #[inline(always)]
        unsafe fn $name(from: *const u8, to: *mut u8) {
            // SAFETY: reads and writes the caller's bytes, and a register that is declared.
            unsafe {
                asm!(
                    $(
                        concat!("movq {two}, [{from} + ", $at, "]"),
                        concat!("movhps {two}, [{from} + ", $at, " + 8]"),
                        concat!("movups [{to} + ", $at, "], {two}"),
                    )+
                    from = in(reg) from, to = in(reg) to, two = out(xmm_reg) _,
                    options(nostack, preserves_flags)
                );
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
copy!(copy_16, 0);
#[cfg(target_arch = "x86_64")]
copy!(copy_32, 0 16);
#[cfg(target_arch = "x86_64")]
copy!(copy_64, 0 16 32 48);

/// # Safety
/// As for [`copy_fresh`], of 8 bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_8(from: *const u8, to: *mut u8) {
    // SAFETY: reads the caller's bytes; a word may be anywhere.
    let word = unsafe { from.cast::<u64>().read_unaligned() };
    // SAFETY: writes them.
    unsafe { to.cast::<u64>().write_unaligned(word) };
}

#[cfg(test)]
mod tests {
    use super::copy_fresh;

    #[test]
    fn all_bytes_are_copied_and_none_beside_them() {
        let from: Vec<u8> = (0..=255).cycle().take(512).collect();
        for len in 0..300 {
            for (start, end) in [(0, 0), (1, 3), (8, 16), (13, 8)] {
                let mut to = vec![0xee; start + len + end];
                // SAFETY: both have as many bytes.
                unsafe { copy_fresh(from[end..].as_ptr(), to[start..].as_mut_ptr(), len) };
                assert_eq!(to[start..start + len], from[end..end + len]);
                let beside = to[..start].iter().chain(&to[start + len..]);
                assert!(beside.into_iter().all(|byte| *byte == 0xee), "{len}");
            }
        }
    }
}
