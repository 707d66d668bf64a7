//! Bare loops over perfring's layout, a header word before each payload, in which that word can be
//! the flag: the reader needs no index then, and a record that arrives is one line less to wait for.

use super::floor::can;
use super::slots::{wait_for_room, write_touch};
use crate::CompareError;
use crate::contest::waits::Polls;
use crate::contestant::{About, Can, Contestant, Location, Receiver, Sender, Setup};
use perfring_bench::contest::Waits;
use perfring_bench::raw::Mapping;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of the header page, where perf has them.
pub(super) const HEAD: usize = 1024 / 8;
pub(super) const TAIL: usize = 1032 / 8;
/// A header word that is not zero.
pub(super) const WORD: u64 = 4096;

/// With `INDEX`, the sender stores the head for each record, after its header word. With `FLAG`, it
/// stores a zero after the record before it writes the payload and then the header word, which is
/// what the reader polls; otherwise it polls the head. The reader write-touches the lines.
pub struct Flag<const INDEX: bool, const FLAG: bool>;

impl<const INDEX: bool, const FLAG: bool> Contestant for Flag<INDEX, FLAG> {
    type Sender = FlagSender<INDEX, FLAG>;
    type Receiver = FlagReceiver<FLAG>;
    type Held = ();

    fn can() -> Can {
        can()
    }

    fn about(setup: &Setup) -> About {
        let (name, polled) = match (INDEX, FLAG) {
            (_, false) => ("floor layout back", "the head"),
            (false, true) => ("floor flag back", "the next record's header word, no head"),
            (true, true) => ("floor flag head back", "the next record's header word, head stored"),
        };
        About {
            name,
            version: "raw pointers".to_owned(),
            location: Location::Processes,
            settings: format!(
                "{} KiB, perf's layout, the reader polls {polled}, tail in eighths, one word of each \
                 line written back",
                setup.data_size / 1024
            ),
            waits: Polls::about(setup.pace),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        Ok(Mapping::create(path, setup.data_size)?)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<Self::Sender, CompareError> {
        let ring = Ring::open(path, setup)?;
        let full_at = ring.size;
        Ok(FlagSender { ring, head: 0, full_at })
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Self::Receiver, CompareError> {
        let ring = Ring::open(path, setup)?;
        let owe_at = ring.size / 8;
        Ok(FlagReceiver { ring, tail: 0, owe_at, waits: Waits::new(setup.pace) })
    }
}

/// The state of both ends.
pub(super) struct Ring {
    pub(super) map: Mapping,
    pub(super) size: u64,
}

impl Ring {
    pub(super) fn open(path: &Path, setup: &Setup) -> Result<Self, CompareError> {
        Ok(Ring { map: Mapping::open(path, setup.data_size)?, size: setup.data_size })
    }

    /// Returns where the record at this position begins.
    #[inline(always)]
    pub(super) fn at(&self, pos: u64) -> *mut u8 {
        // SAFETY: an offset in the first of the two images of the data area.
        unsafe { self.map.data().add((pos & (self.size - 1)) as usize) }
    }

    /// Returns the word at this position, a multiple of 8.
    #[inline(always)]
    pub(super) fn word(&self, pos: u64) -> &AtomicU64 {
        // SAFETY: mapped as long as `self` and 8-aligned, as sizes of records are multiples of 8.
        // Where it is a payload's it is not accessed.
        unsafe { &*self.at(pos).cast::<AtomicU64>() }
    }

    #[inline(always)]
    fn prefetch(&self, pos: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint, which reads nothing as far as the language can tell.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.at(pos).cast::<i8>()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = pos;
    }
}

/// The writing end.
pub struct FlagSender<const INDEX: bool, const FLAG: bool> {
    ring: Ring,
    head: u64,
    full_at: u64,
}

impl<const INDEX: bool, const FLAG: bool> FlagSender<INDEX, FLAG> {
    /// Returns the position after a record of `N` bytes, and that up to which there must be room.
    #[inline(always)]
    fn end<const N: usize>(head: u64) -> (u64, u64) {
        let end = head + N as u64 + 8;
        (end, if FLAG { end + 8 } else { end })
    }
}

impl<const INDEX: bool, const FLAG: bool> Sender for FlagSender<INDEX, FLAG> {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        let FlagSender { ref ring, mut head, mut full_at } = *self;
        for number in numbers {
            let (end, needed) = Self::end::<N>(head);
            if needed >= full_at {
                full_at = wait_for_room(&ring.map.words()[TAIL], needed, ring.size);
            }
            if FLAG {
                ring.word(end).store(0, Ordering::Relaxed);
            }
            // SAFETY: in bounds, as the area is mapped twice; any bytes are a [u8; N]; the tail is
            // past what was here, and the reader does not look before the header word, or the head,
            // says so.
            fill(unsafe { &mut *ring.at(head).add(8).cast::<[u8; N]>() }, number);
            // The zero is before it, as all stores of a release are.
            ring.word(head).store(WORD | (end - head) << 48, Ordering::Release);
            if INDEX {
                ring.map.words()[HEAD].store(end, Ordering::Release);
            }
            head = end;
        }
        (self.head, self.full_at) = (head, full_at);
        Ok(())
    }

    fn offer<const N: usize>(
        &mut self,
        number: u64,
        fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        let (_, needed) = Self::end::<N>(self.head);
        if needed >= self.full_at {
            self.full_at = self.ring.map.words()[TAIL].load(Ordering::Acquire) + self.ring.size;
            if needed >= self.full_at {
                return Ok(false);
            }
        }
        self.send(number..number + 1, fill)?;
        Ok(true)
    }
}

/// The reading end.
pub struct FlagReceiver<const FLAG: bool> {
    pub(super) ring: Ring,
    pub(super) tail: u64,
    pub(super) owe_at: u64,
    pub(super) waits: Waits,
}

impl<const FLAG: bool> FlagReceiver<FLAG> {
    /// Passes at most so many records to `visit`. Returns how many.
    #[inline(always)]
    fn take<const N: usize>(&mut self, most: u64, visit: &mut impl FnMut(&[u8; N])) -> u64 {
        let FlagReceiver { ref ring, mut tail, mut owe_at, .. } = *self;
        let words = ring.map.words();
        let head = if FLAG { 0 } else { words[HEAD].load(Ordering::Acquire) };
        let mut count = 0;
        while count < most && (FLAG || tail != head) {
            let word = ring.word(tail).load(Ordering::Acquire);
            if FLAG && word == 0 {
                break;
            }
            let slot = ring.at(tail);
            // SAFETY: in bounds, as the area is mapped twice; the record is whole, by its header
            // word or by the head, and stays until the tail is stored.
            visit(unsafe { &*slot.add(8).cast::<[u8; N]>() });
            // SAFETY: the same record's bytes.
            write_touch::<N>(unsafe { slot.add(8) });
            tail += word >> 48;
            count += 1;
            if tail >= owe_at {
                words[TAIL].store(tail, Ordering::Release);
                owe_at = tail + ring.size / 8;
            }
        }
        (self.tail, self.owe_at) = (tail, owe_at);
        count
    }
}

impl<const FLAG: bool> Receiver for FlagReceiver<FLAG> {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        Ok(self.take(u64::MAX, &mut visit))
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        Ok(self.take(1, &mut visit) == 1)
    }

    #[inline]
    fn wait(&mut self) {
        let (ring, tail) = (&self.ring, self.tail);
        self.waits.wait(|| {
            if FLAG {
                return ring.word(tail).load(Ordering::Acquire) != 0;
            }
            // As perfring's reader: the next record's lines come together with the head's. A reader
            // of flags gains nothing from it.
            ring.prefetch(tail);
            ring.prefetch(tail + 64);
            ring.map.words()[HEAD].load(Ordering::Acquire) != tail
        });
    }
}
