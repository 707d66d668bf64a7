//! Preparing the pages of a ring's data: faulting in, locking, huge pages.

use crate::file::location::Location;
use crate::file::open::RingFile;
use crate::map::address_range::HUGE;
use crate::map::aux_mirror::AuxMirror;
use crate::map::mirror::Mirror;
use nix::errno::Errno;
use nix::libc::{self, MADV_POPULATE_READ};
use std::ffi::c_void;
use std::io;
use thiserror::Error;

/// How often huge pages are requested: the kernel skips pages that are in use at that moment.
const TRIES: u32 = 16;
/// `MADV_COLLAPSE`, which the crate `libc` does not have for musl.
const COLLAPSE: libc::c_int = 25;

/// A failure to prefault, lock or collapse a ring's pages. The ring can be used as before.
#[derive(Error)]
#[error("{location}: {step} failed: {source}")]
pub struct PagesError {
    /// The ring.
    pub location: Location,
    /// The step that failed, and its requirement.
    pub step: &'static str,
    /// The system's error.
    pub source: io::Error,
}

perfring_abi::debug_by_display!(PagesError);

/// The preparation of the pages of records that a process has mapped: once, after the attach.
///
/// This changes nothing in the ring, and each process chooses for itself. But pages that one
/// process made huge are huge for all. It costs the caller some 2 ms a mebibyte, and 7 ms for huge
/// pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pages {
    /// Faults all of them in now, so that the first lap has no page faults. Rings up to 16 MiB get
    /// that in any case.
    FaultIn,
    /// Faults the pages in and keeps them in memory: a ring on a tmpfs may be swapped out, and a
    /// publish would wait for the disk. `RLIMIT_MEMLOCK` limits how much a process may lock.
    Lock,
    /// Replaces the data area's pages by huge pages of 2 MiB where there is contiguous memory for
    /// them: for rings from some 16 MiB on. Needs Linux 6.1 and a tmpfs mounted with any `huge=`
    /// except `deny`.
    Huge,
}

impl Pages {
    pub(crate) fn set(self, map: &Mirror, ring: &RingFile) -> Result<(), PagesError> {
        let (what, advice) = match self {
            Pages::FaultIn => ("faulting its pages in (Linux 5.14)", MADV_POPULATE_READ),
            Pages::Lock => ("locking its pages in memory (see ulimit -l)", MADV_POPULATE_READ),
            Pages::Huge => ("making its pages huge (Linux 6.1, a tmpfs)", COLLAPSE),
        };
        let failed = |source| PagesError { location: ring.location.clone(), step: what, source };
        // No huge pages for the AUX area: in the file it does not begin at a multiple of a huge page.
        let aux = map.aux.as_ref().filter(|_| self != Pages::Huge).map(AuxMirror::range);
        for (at, len) in map.data_ranges().into_iter().chain(aux) {
            let (skip, len) = match self {
                // Whole huge pages, by the offset in the file: both copies have the same offsets.
                Pages::Huge => whole_huge(at.as_ptr() as usize, len),
                Pages::FaultIn | Pages::Lock => (0, len),
            };
            if len == 0 {
                let source = io::Error::other("it holds no whole huge page");
                return Err(failed(source));
            }
            // SAFETY: `skip` is less than the length of the range.
            let at = unsafe { at.add(skip) }.as_ptr().cast::<c_void>();
            // SAFETY: a range of this mapping. Either advice leaves its content as it is, whether
            // or not other processes store to the pages meanwhile.
            let advise = || Errno::result(unsafe { libc::madvise(at, len, advice) });
            let done = match self {
                // SAFETY: as above; locking changes no byte.
                Pages::Lock => Errno::result(unsafe { libc::mlock(at, len) }),
                Pages::FaultIn => advise(),
                Pages::Huge => {
                    let tried = (1..TRIES).map(|_| advise());
                    let settled = tried.into_iter().find(|done| *done != Err(Errno::EAGAIN));
                    settled.unwrap_or_else(advise)
                }
            };
            done.map_err(|errno| failed(errno.into()))?;
        }
        Ok(())
    }
}

/// Returns the part of a range that whole huge pages fill: its offset and its length.
fn whole_huge(at: usize, len: usize) -> (usize, usize) {
    let skip = at.next_multiple_of(HUGE) - at;
    if skip >= len { (0, 0) } else { (skip, (len - skip) / HUGE * HUGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_huge_pages_of_a_range() {
        assert_eq!(whole_huge(HUGE, 3 * HUGE), (0, 3 * HUGE));
        assert_eq!(whole_huge(HUGE + 4096, 3 * HUGE), (HUGE - 4096, 2 * HUGE));
        assert_eq!(whole_huge(HUGE + 4096, HUGE - 4096), (0, 0));
        assert_eq!(whole_huge(HUGE + 4096, HUGE), (HUGE - 4096, 0));
    }
}
