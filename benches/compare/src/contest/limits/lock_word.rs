//! The bare loop of many senders: a lock word, and nothing else that a shared ring needs. Nobody counts, and if a
//! sender dies with the lock, that is the end.

use super::flag::{FlagReceiver, HEAD, Ring, TAIL, WORD};
use super::floor::can;
use crate::CompareError;
use crate::contest::waits::Polls;
use crate::contestant::{About, Can, Contestant, Location, Sender, Setup};
use perfring_bench::contest::Waits;
use perfring_bench::raw::Mapping;
use std::hint::spin_loop;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A word with a line of its own.
const LOCK: usize = 2048 / 8;
/// As perfring's producers wait for a lock.
const PAUSES: u32 = 16;
const ROUNDS: u32 = 16;

/// Senders that take the word by compare-and-swap, copy header and payload, store the head, and release it. The reader is
/// the one of `floor layout back`.
pub struct LockWord;

impl Contestant for LockWord {
    type Sender = LockSender;
    type Receiver = FlagReceiver<false>;
    type Held = ();

    fn can() -> Can {
        Can { senders: Ok(()), ..can() }
    }

    fn about(setup: &Setup) -> About {
        About {
            name: "floor lock word",
            version: "raw pointers".to_owned(),
            location: Location::Processes,
            settings: format!(
                "{} KiB, perf's layout, a record is copied and the head stored under a lock word, tail in \
                 eighths, one word of each line written back",
                setup.data_size / 1024
            ),
            waits: Polls::about(setup.pace),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        Ok(Mapping::create(path, setup.data_size)?)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<LockSender, CompareError> {
        let ring = Ring::open(path, setup)?;
        let full_at = ring.size;
        Ok(LockSender { ring, full_at })
    }

    fn receiver(
        path: &Path,
        setup: &Setup,
        _index: usize,
    ) -> Result<FlagReceiver<false>, CompareError> {
        let ring = Ring::open(path, setup)?;
        let owe_at = ring.size / 8;
        Ok(FlagReceiver { ring, tail: 0, owe_at, waits: Waits::new(setup.pace) })
    }
}

/// One of the writing ends.
pub struct LockSender {
    ring: Ring,
    full_at: u64,
}

/// Takes a word that another sender holds.
#[cold]
#[inline(never)]
fn lock_slowly(lock: &AtomicU64) {
    let mut rounds = 0u32;
    loop {
        for _ in 0..PAUSES {
            spin_loop();
        }
        if lock.load(Ordering::Relaxed) == 0
            && lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return;
        }
        rounds += 1;
        if rounds.is_multiple_of(ROUNDS) {
            std::thread::yield_now();
        }
    }
}

impl LockSender {
    /// Publishes one record, if there is room for it. Returns whether there was.
    #[inline(always)]
    fn put<const N: usize>(&mut self, fill: impl FnOnce(&mut [u8; N])) -> bool {
        let words = self.ring.map.words();
        let lock = &words[LOCK];
        if lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            lock_slowly(lock);
        }
        let head = words[HEAD].load(Ordering::Relaxed);
        let end = head + N as u64 + 8;
        if end >= self.full_at {
            self.full_at = words[TAIL].load(Ordering::Acquire) + self.ring.size;
            if end >= self.full_at {
                lock.store(0, Ordering::Release);
                return false;
            }
        }
        // SAFETY: in bounds, as the area is mapped twice; any bytes are a [u8; N]; the tail is past what was
        // here, no other sender is before it has the word, and the reader does not look before the head says so.
        fill(unsafe { &mut *self.ring.at(head).add(8).cast::<[u8; N]>() });
        self.ring.word(head).store(WORD | (end - head) << 48, Ordering::Relaxed);
        words[HEAD].store(end, Ordering::Release);
        lock.store(0, Ordering::Release);
        true
    }
}

impl Sender for LockSender {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        for number in numbers {
            let mut polls = 0u32;
            while !self.put(|slot| fill(slot, number)) {
                // As `publish_timeout` does: without the lock, and not at once.
                for _ in 0..2 * PAUSES {
                    spin_loop();
                }
                polls += 1;
                if polls.is_multiple_of(64) {
                    std::thread::yield_now();
                }
            }
        }
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        Ok(self.put(|slot| fill(slot, number)))
    }
}
