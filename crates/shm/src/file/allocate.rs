//! Space for a ring's file. The first touch of a page without a block allocates the block, or raises SIGBUS if the file system
//! is full. Therefore a ring is allocated when it is made. The blocks that a sparse copy has lost (`cp --sparse`, `rsync -S`,
//! `tar -S`) are allocated when a process attaches to write.

use crate::file::error::AttachError;
use crate::file::file_system::FileSystem;
use crate::file::open::RingFile;
use nix::errno::Errno;
use rustix::fs::{FallocateFlags, fallocate};
use std::os::unix::fs::MetadataExt;

/// Bytes that a call allocates at least, however often signals interrupt.
const PIECE_LEAST: u64 = 64 << 10;

/// Allocates `size` bytes with `piece`, which gets an offset and a length. A call that a signal interrupts is repeated with half
/// the length: the kernel frees the blocks of an interrupted call, and a shorter call ends before the next signal.
pub(super) fn allocate(
    size: u64,
    mut piece: impl FnMut(u64, u64) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let (mut at, mut longest) = (0, size);
    while let Some(left) = size.checked_sub(at).filter(|left| *left > 0) {
        let len = longest.min(left);
        match piece(at, len) {
            Ok(()) => at += len,
            Err(Errno::EINTR) => longest = (len / 2).next_multiple_of(PIECE_LEAST),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Allocates the pages that a ring's file lacks, which is open for writing.
///
/// # Errors
/// [`AttachError::NoSpace`]; [`AttachError::Io`] if the device fails.
pub(crate) fn fill_holes(ring: &RingFile) -> Result<(), AttachError> {
    let io = |source| ring.io("allocating the pages that it lacks", source);
    let size = ring.layout.file_size();
    let blocks = ring.file.metadata().map_err(io)?.blocks();
    // In memory, the blocks are the pages: nothing is missing. On a disk, some blocks hold no data.
    if blocks.saturating_mul(512) >= size
        && FileSystem::of_file(&ring.file).is_ok_and(|system| system.is_memory())
    {
        return Ok(());
    }
    // Not `posix_fallocate`: where the file system cannot allocate, the C library writes bytes that others may be writing.
    let filled = allocate(size, |at, len| {
        fallocate(&**ring.file, FallocateFlags::KEEP_SIZE, at, len)
            .map_err(|errno| Errno::from_raw(errno.raw_os_error()))
    });
    match filled {
        Err(Errno::ENOSPC | Errno::EDQUOT) => {
            Err(AttachError::NoSpace { location: ring.location.clone() })
        }
        Err(errno @ Errno::EIO) => Err(io(errno.into())),
        // Nothing is promised where the file system, or a filter of system calls, does not allocate.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates 1 MiB where every call beyond `longest` bytes ends in this error. Returns the pieces.
    fn pieces(longest: u64, errno: Errno) -> Result<Vec<(u64, u64)>, Errno> {
        let mut done = Vec::new();
        allocate(1 << 20, |at, len| {
            if len > longest {
                return Err(errno);
            }
            done.push((at, len));
            Ok(())
        })?;
        Ok(done)
    }

    #[test]
    fn a_call_that_a_signal_interrupts_is_continued_in_shorter_pieces() {
        for longest in [1 << 20, 700 << 10, 100 << 10, PIECE_LEAST] {
            let pieces = pieces(longest, Errno::EINTR).expect("it is not an error");
            let mut next = 0;
            for (at, len) in &pieces {
                assert_eq!(*at, next, "nothing is left out");
                next += len;
            }
            assert_eq!(next, 1 << 20, "{pieces:?}");
        }
        assert_eq!(pieces(PIECE_LEAST, Errno::EINTR).map(|pieces| pieces.len()), Ok(16));
    }

    #[test]
    fn any_other_error_ends_it() {
        for errno in [Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG, Errno::EIO, Errno::EOPNOTSUPP] {
            assert_eq!(pieces(0, errno), Err(errno));
        }
    }
}
