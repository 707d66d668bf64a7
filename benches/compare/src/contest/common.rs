//! What several contestants need: errors, waits without a look, a mapped file, ends by payload.

use super::Setup;
use crate::CompareError;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use perfring_bench::Pace;
use std::any::Any;
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::hint::spin_loop;
use std::num::NonZeroUsize;
use std::path::Path;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// How long an end waits for the other one to appear.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How long it looks all the time.
const PROMPT: Duration = Duration::from_millis(5);

/// An error of this contestant's.
pub(crate) fn failed<E>(contestant: &'static str) -> impl Fn(E) -> CompareError
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    move |source| CompareError::Contestant { contestant, source: source.into() }
}

/// Tries again until there is something, for as long as anybody has patience. Not on a fast path.
pub(crate) fn until<T>(
    contestant: &'static str,
    what: &'static str,
    mut ready: impl FnMut() -> Result<Option<T>, CompareError>,
) -> Result<T, CompareError> {
    let start = Instant::now();
    loop {
        if let Some(found) = ready()? {
            return Ok(found);
        }
        let waited = start.elapsed();
        if waited > PATIENCE {
            return Err(failed(contestant)(what));
        }
        // A cold start is measured, too: it should not end with a nap.
        if waited < PROMPT {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Waits of a sender that finds no room.
#[derive(Default)]
pub(crate) struct Room(u32);

impl Room {
    /// Spins, and gives the core up now and then: the reader may need it.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait(&mut self) {
        spin_loop();
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(4096) {
            std::thread::yield_now();
        }
    }
}

/// The rules of [`perfring_bench::contest::Waits`] for a reader that can look only by reading: a
/// wait is a number of `PAUSE` instructions, and the caller's next read is the look.
pub(crate) struct Polls {
    pace: Pace,
    pauses: u32,
    empty: u32,
}

/// As [`perfring_bench::contest::Waits`] has them.
const FAR: u32 = 64;
const NEAR_AFTER: u32 = 8;
const LOOKS: u32 = 64;

impl Polls {
    pub(crate) fn new(pace: Pace) -> Self {
        Polls { pace, pauses: 0, empty: 0 }
    }

    /// A read found nothing.
    #[inline]
    pub(crate) fn wait(&mut self) {
        let pauses = match self.pace {
            Pace::Latency => 0,
            Pace::Throughput => FAR,
            Pace::Adaptive => self.pauses,
        };
        for _ in 0..=pauses {
            spin_loop();
        }
        self.empty += 1;
        if self.empty == LOOKS {
            (self.pauses, self.empty) = (0, 0);
        }
    }

    /// A read found something.
    #[inline(always)]
    pub(crate) fn found(&mut self) {
        if self.empty != 0 {
            let near = self.empty <= NEAR_AFTER;
            self.pauses = if near { (self.pauses * 2).clamp(1, FAR) } else { 0 };
            self.empty = 0;
        }
    }

    /// In words, or how it sleeps.
    pub(crate) fn or_asleep(setup: &Setup, how: &str) -> String {
        if setup.sleeping { how.to_owned() } else { Self::about(setup.pace) }
    }

    /// In words.
    pub(crate) fn about(pace: Pace) -> String {
        match pace {
            Pace::Latency => "busy, 1 PAUSE between looks".to_owned(),
            Pace::Throughput => "busy, 64 PAUSE between looks".to_owned(),
            Pace::Adaptive => "busy, 1 to 64 PAUSE between looks, by the shared rule".to_owned(),
        }
    }
}

/// How many slots a ring of fixed slots gets: a power of two, at least two.
pub(crate) fn slots(data_size: u64, payload: usize) -> u64 {
    let fit = (data_size / payload.max(1) as u64).max(2);
    1 << fit.ilog2()
}

/// An end whose type depends on the payload.
pub(crate) struct Erased(Box<dyn Any>);

impl Erased {
    pub(crate) fn new<T: Any>(end: T) -> Self {
        Erased(Box::new(end))
    }

    /// As what it is.
    #[inline(always)]
    pub(crate) fn get<T: Any>(&mut self) -> Result<&mut T, CompareError> {
        self.0.downcast_mut().ok_or_else(other_payload)
    }
}

#[cold]
fn other_payload() -> CompareError {
    CompareError::Usage("an end made for another payload".to_owned())
}

/// A file that is mapped to be written.
pub(crate) struct Mapped {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to no thread; what its owner does with it is the owner's to prove.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Makes the file, all zeros, with its space allocated.
    pub(crate) fn create(path: &Path, len: u64) -> Result<(), CompareError> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let bytes = i64::try_from(len).map_err(|_| CompareError::Usage(format!("{len} bytes")))?;
        nix::fcntl::posix_fallocate(&file, 0, bytes)
            .map_err(|source| CompareError::System { what: "posix_fallocate", source })
    }

    /// Maps a whole file.
    pub(crate) fn open(path: &Path) -> Result<Self, CompareError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let len = usize::try_from(file.metadata()?.len()).ok().and_then(NonZeroUsize::new);
        let len = len.ok_or_else(|| CompareError::Usage("an empty file".to_owned()))?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { mmap(None, len, prot, flags, &file, 0) }
            .map_err(|source| CompareError::System { what: "mmap", source })?;
        Ok(Mapped { base: base.cast(), len: len.get() })
    }

    /// Its first byte; it is mapped for as long as this lives.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Its length.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this mapping, whose pointers go with it.
        let _ = unsafe { munmap(self.base.cast::<c_void>(), self.len) };
    }
}
