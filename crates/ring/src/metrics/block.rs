//! Reading a metrics area, which another process may be writing, or may have made of anything.

use super::buckets::Buckets;
use super::cell::{GREATEST, IS_SET, LEAST, SUM, VALUE, ZEROS, stripe_of};
use super::kind::{HEAD, LINE, MetricKind, OWNER, PID, REFUSED, SHAPE, SIZE, START, STRIPES_MAX};
use alloc::vec::Vec;
use core::fmt;
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{METRICS_ALIGN, RecordType};

/// Looks at an owner that changes all the time.
const TRIES: u32 = 64;

/// The metrics area of a ring, mapped or on the heap.
#[derive(Clone, Copy, Debug)]
pub struct MetricsArea<'a> {
    pub(super) words: &'a [AtomicU64],
}

/// A block that no process writes. Those before it are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadArea {
    /// The offset in bytes from the area's beginning on.
    pub at: u64,
}

impl fmt::Display for BadArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the metrics area is damaged {} bytes after its beginning", self.at)
    }
}

impl core::error::Error for BadArea {}

/// The process whose values a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockOwner {
    /// The slot that it holds or held.
    pub slot: u32,
    /// The slot's epoch then, its low 48 bits: another one says that the process has left the slot.
    pub epoch: u64,
    /// Its pid, in its own pid namespace.
    pub pid: u32,
}

impl BlockOwner {
    /// Returns whether a process with this slot and this epoch is the owner: blocks have 48 bits of an epoch.
    #[must_use]
    pub fn is_in_epoch_of(&self, other: BlockOwner) -> bool {
        self.to_word() == other.to_word()
    }

    pub(super) fn to_word(self) -> u64 {
        u64::from(self.slot) << 48 | self.epoch & EPOCH
    }
}

const EPOCH: u64 = (1 << 48) - 1;

/// A block of a metrics area: the values of one instrument in one process.
#[derive(Clone, Copy, Debug)]
pub struct AreaBlock<'a> {
    /// The offset in bytes from the area's beginning on. It says which block of the area it is, for ever.
    pub at: u64,
    /// The record type that describes the instrument.
    pub id: RecordType,
    /// What its values are.
    pub kind: MetricKind,
    stripes: u32,
    pub(super) words: &'a [AtomicU64],
}

/// What an instrument has measured.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// A whole sum.
    U64(u64),
    /// A whole number.
    I64(i64),
    /// A number.
    F64(f64),
    /// The counts of a histogram.
    Histogram {
        /// What its buckets are.
        buckets: Buckets,
        /// Measurements in each of them.
        counts: Vec<u64>,
        /// Measurements that are zero, or at most [`Buckets::zero_threshold`].
        zeros: u64,
        /// The sum of all.
        sum: f64,
        /// The least and the greatest; `None` before the first measurement.
        range: Option<(f64, f64)>,
        /// Measurements that were not counted: negative, infinite or no numbers.
        refused: u64,
    },
    /// The payload of a record.
    Record(Vec<u8>),
}

impl<'a> MetricsArea<'a> {
    /// Creates a view of these words; empty if the ring has no area.
    #[must_use]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        MetricsArea { words }
    }

    /// Returns the end of the last block in words, at most the length of the area.
    pub(super) fn used(&self) -> usize {
        let Some(used) = self.words.first() else { return 0 };
        let used = used.load(Ordering::Relaxed);
        fence(Ordering::Acquire); // U
        // An area that no process has used yet is all zeros.
        let used = usize::try_from(used / 8).unwrap_or(usize::MAX).max(LINE);
        used.min(self.words.len()) / LINE * LINE
    }

    /// Returns how many bytes are in use, and how many there are.
    #[must_use]
    pub fn fill(&self) -> (u64, u64) {
        (8 * self.used() as u64, 8 * self.words.len() as u64)
    }

    /// Returns how many instruments found no room.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.words.get(1).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Returns how many blocks of dead processes others have taken over: what those had measured is not here any more.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.words.get(2).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Iterates over the blocks. Ends after the first one that no process writes. A block of a kind that this version does not
    /// know is passed over.
    pub fn blocks(&self) -> impl Iterator<Item = Result<AreaBlock<'a>, BadArea>> + use<'a> {
        let (words, end) = (self.words, self.used());
        let mut at = LINE.min(end);
        core::iter::from_fn(move || {
            while at < end {
                let begin = at;
                let rest = words.get(begin..end)?;
                let size = rest.get(SIZE)?.load(Ordering::Relaxed);
                let len = usize::try_from(size / 8).unwrap_or(usize::MAX);
                if !size.is_multiple_of(METRICS_ALIGN) || len < LINE || len > rest.len() {
                    at = end;
                    return Some(Err(BadArea { at: 8 * begin as u64 }));
                }
                at = begin + len;
                match AreaBlock::read(8 * begin as u64, rest.get(..len)?) {
                    Ok(Some(block)) => return Some(Ok(block)),
                    Ok(None) => {}
                    Err(bad) => {
                        at = end;
                        return Some(Err(bad));
                    }
                }
            }
            None
        })
    }
}

impl<'a> AreaBlock<'a> {
    fn read(at: u64, words: &'a [AtomicU64]) -> Result<Option<Self>, BadArea> {
        let word = |at: usize| words.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
        let (head, bad) = (word(HEAD), BadArea { at });
        let (id, code, stripes) = (head as u32, head >> 32 & 0xff, (head >> 40) as u32);
        let Some(kind) = MetricKind::from_words(code, word(SHAPE)) else {
            // A kind that is known, with a shape that it cannot have.
            return if (1..=8).contains(&code) { Err(bad) } else { Ok(None) };
        };
        let id = RecordType::new(id).ok_or(bad)?;
        if !stripes.is_power_of_two()
            || stripes > STRIPES_MAX
            || words.len() - LINE != stripes as usize * kind.stripe()
        {
            return Err(bad);
        }
        Ok(Some(AreaBlock { at, id, kind, stripes, words }))
    }

    fn word(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Returns the number of stripes: threads that contend for an instrument update different ones.
    #[must_use]
    pub fn stripes(&self) -> u32 {
        self.stripes
    }

    /// Returns whose values it has; `None` while one process takes it over from a dead one, or if that has died then.
    #[must_use]
    pub fn owner(&self) -> Option<BlockOwner> {
        for _ in 0..TRIES {
            let owner = self.word(OWNER);
            fence(Ordering::Acquire); // W
            let pid = self.word(PID);
            fence(Ordering::Acquire); // W
            if owner == self.word(OWNER) {
                let (slot, epoch) = ((owner >> 48) as u32, owner & EPOCH);
                return (owner != 0).then_some(BlockOwner { slot, epoch, pid: pid as u32 });
            }
        }
        None
    }

    fn stripe(&self, stripe: u32) -> &'a [AtomicU64] {
        stripe_of(self.words, self.kind, stripe)
    }

    /// Samples it, with its owner and since when it counts. `None` for a gauge that was never set, and while one process takes it
    /// over from another, or if that has died then.
    #[must_use]
    pub fn sample(&self) -> Option<(BlockOwner, u64, MetricValue)> {
        for _ in 0..TRIES {
            let owner = self.owner()?;
            fence(Ordering::Acquire); // W
            let (start, value) = (self.word(START), self.value());
            fence(Ordering::Acquire); // W
            if self.owner() == Some(owner) {
                return Some((owner, start, value?));
            }
        }
        None
    }

    fn value(&self) -> Option<MetricValue> {
        let load = |words: &[AtomicU64], at: usize| {
            words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let stripes = || (0..self.stripes).map(|stripe| self.stripe(stripe));
        let whole = || stripes().fold(0u64, |sum, words| sum.wrapping_add(load(words, VALUE)));
        let double = || stripes().map(|words| f64::from_bits(load(words, VALUE))).sum();
        Some(match self.kind {
            MetricKind::CounterU64 => MetricValue::U64(whole()),
            MetricKind::UpDownI64 => MetricValue::I64(whole().cast_signed()),
            MetricKind::CounterF64 | MetricKind::UpDownF64 => MetricValue::F64(double()),
            MetricKind::GaugeI64 | MetricKind::GaugeF64 => {
                let words = self.stripe(0);
                if load(words, IS_SET) == 0 {
                    return None;
                }
                fence(Ordering::Acquire); // V
                match (self.kind, load(words, VALUE)) {
                    (MetricKind::GaugeI64, bits) => MetricValue::I64(bits.cast_signed()),
                    (_, bits) => MetricValue::F64(f64::from_bits(bits)),
                }
            }
            MetricKind::Histogram(buckets) => self.histogram(buckets),
            MetricKind::Record(len) => {
                let words = self.stripe(0).iter();
                let mut bytes: Vec<u8> =
                    words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
                bytes.truncate(len as usize);
                MetricValue::Record(bytes)
            }
        })
    }

    fn histogram(&self, buckets: Buckets) -> MetricValue {
        let mut counts = alloc::vec![0u64; buckets.count()];
        let (mut zeros, mut sum) = (0u64, 0.0);
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        for stripe in 0..self.stripes {
            let Some((line, its)) = self.stripe(stripe).split_first_chunk::<LINE>() else { break };
            for (to, from) in counts.iter_mut().zip(its) {
                *to = to.wrapping_add(from.load(Ordering::Relaxed));
            }
            zeros = zeros.wrapping_add(line[ZEROS].load(Ordering::Relaxed));
            fence(Ordering::Acquire); // V
            let double = |at: usize| f64::from_bits(line[at].load(Ordering::Relaxed));
            sum += double(SUM);
            (least, greatest) = (least.min(double(LEAST)), greatest.max(double(GREATEST)));
        }
        let range = (least <= greatest).then_some((least, greatest));
        let refused = self.word(REFUSED);
        MetricValue::Histogram { buckets, counts, zeros, sum, range, refused }
    }
}
