//! Reading a metrics area, which another process may be writing, or may have made of anything.

use super::buckets::Buckets;
use super::cell::{GREATEST, IS_SET, LEAST, SUM, VALUE, ZEROS, stripe_of};
use super::kind::{HEAD, LINE, MetricKind, OWNER, PID, REFUSED, SHAPE, SIZE, START, STRIPES_MAX};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{METRICS_ALIGN, RecordType};

/// The number of looks at an owner that changes all the time.
const TRIES: u32 = 64;

/// The metrics area of a ring, mapped or on the heap.
#[derive(Clone, Copy, Debug)]
pub struct MetricsArea<'a> {
    pub(super) words: &'a [AtomicU64],
}

/// Words that no process writes. The blocks before them are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadArea {
    /// The offset of the block in bytes from the area's beginning on; 0 for the area's first line.
    pub at: u64,
    /// The damaged part.
    pub what: BadPart,
    /// The number in it.
    pub value: u64,
}

/// The part of a metrics area that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPart {
    /// The end of the last block: no multiple of 64, or beyond the area.
    End,
    /// A block's size: no multiple of 64, or beyond the end of the last block.
    Size,
    /// A block's record type: no instrument can have it.
    Type,
    /// The details of a block's kind, such as a histogram's buckets.
    Shape,
    /// A block's number of stripes: no power of two up to 128.
    Stripes,
    /// A block's size: another one follows from its kind and its stripes.
    Fit,
}

impl fmt::Display for BadArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadArea { at, what, value } = self;
        write!(f, "the metrics area is damaged {at} bytes after its beginning: ")?;
        match what {
            BadPart::End => write!(f, "its last block ends at {value}, where no block can end"),
            BadPart::Size => write!(f, "no block can have a size of {value} bytes there"),
            BadPart::Type => write!(f, "no instrument has the record type {value}"),
            BadPart::Shape => {
                write!(f, "no instrument of the block's kind has the shape {value:#x}")
            }
            BadPart::Stripes => write!(f, "no block has {value} stripes"),
            BadPart::Fit => {
                write!(f, "a size of {value} bytes does not fit the block's kind and stripes")
            }
        }
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

/// The fill of a metrics area, and the instruments that found no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricsFill {
    /// Bytes of the area; 0 for a ring without an area.
    pub size: u64,
    /// Bytes that are in use.
    pub used: u64,
    /// Instruments that found no room: their measurements are lost.
    pub refused: u64,
    /// Instruments of dead processes whose values were replaced by other instruments, for want of room.
    pub replaced: u64,
    /// Instruments that have room, each once for each process.
    pub instruments: u64,
    /// The damage of the area. Blocks behind it are not read, and not counted as instruments.
    pub damage: Option<BadArea>,
}

impl MetricsFill {
    /// Returns the sum of two areas, with the damage of the first damaged area.
    #[must_use]
    pub fn plus(self, other: MetricsFill) -> MetricsFill {
        MetricsFill {
            size: self.size.saturating_add(other.size),
            used: self.used.saturating_add(other.used),
            refused: self.refused.saturating_add(other.refused),
            replaced: self.replaced.saturating_add(other.replaced),
            instruments: self.instruments.saturating_add(other.instruments),
            damage: self.damage.or(other.damage),
        }
    }

    /// Returns a phrase about the instruments that found no room, and about replaced instruments of ended processes; `None`
    /// if the area had room for all.
    #[must_use]
    pub fn unmeasured(&self) -> Option<String> {
        let some = |number: u64, what: &str| {
            let s = if number == 1 { "" } else { "s" };
            (number > 0).then(|| format!("{number} instrument{s} {what}"))
        };
        joined([
            some(self.refused, "found no room"),
            some(self.replaced, "of ended processes replaced"),
        ])
    }

    /// Returns a phrase about the area's damage and the instruments without room; `None` without either.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        joined([self.damage.map(|damage| damage.to_string()), self.unmeasured()])
    }
}

fn joined(parts: [Option<String>; 2]) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A block of a metrics area: the values of one instrument in one process.
#[derive(Clone, Copy, Debug)]
pub struct AreaBlock<'a> {
    /// The offset in bytes from the area's beginning. It identifies the block of the area for ever.
    pub at: u64,
    /// The record type that describes the instrument.
    pub id: RecordType,
    /// The kind of its values.
    pub kind: MetricKind,
    stripes: u32,
    pub(super) words: &'a [AtomicU64],
}

/// The measurements of an instrument.
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
        /// The scale and the range of its buckets.
        buckets: Buckets,
        /// Measurements in each of them.
        counts: Vec<u64>,
        /// Measurements that are zero, or at most [`Buckets::zero_threshold`].
        zeros: u64,
        /// The sum of all.
        sum: f64,
        /// The least and the greatest; `None` before the first measurement.
        range: Option<(f64, f64)>,
        /// Measurements that were not counted: negative, infinite or not a number.
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

    /// Returns the end of the last block in words, at most the length of the area, and the damage if a block cannot end there.
    pub(super) fn used(&self) -> (usize, Option<BadArea>) {
        let Some(used) = self.words.first() else { return (0, None) };
        let value = used.load(Ordering::Relaxed);
        fence(Ordering::Acquire); // U
        // An area that no process has used yet is all zeros.
        let used = usize::try_from(value / 8).unwrap_or(usize::MAX).max(LINE);
        let is_good = value.is_multiple_of(METRICS_ALIGN) && used <= self.words.len();
        let bad = BadArea { at: 0, what: BadPart::End, value };
        (used.min(self.words.len()) / LINE * LINE, (!is_good).then_some(bad))
    }

    /// Returns its fill and its damage. Looks at the first line of each block.
    #[must_use]
    pub fn fill(&self) -> MetricsFill {
        let word = |at: usize| self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
        let mut fill = MetricsFill {
            size: 8 * self.words.len() as u64,
            used: 8 * self.used().0 as u64,
            refused: word(1),
            replaced: word(2),
            ..MetricsFill::default()
        };
        for block in self.blocks() {
            match block {
                Ok(AreaBlock { kind: MetricKind::Record(_), .. }) => {}
                Ok(_) => fill.instruments += 1,
                Err(bad) => fill.damage = Some(bad),
            }
        }
        fill
    }

    /// Iterates over the blocks. Ends after the first damage. A block of a kind that this version does not know is passed over.
    pub fn blocks(&self) -> impl Iterator<Item = Result<AreaBlock<'a>, BadArea>> + use<'a> {
        let words = self.words;
        let (end, mut bad_end) = self.used();
        let mut at = LINE.min(end);
        core::iter::from_fn(move || {
            while at < end {
                let begin = at;
                let rest = words.get(begin..end)?;
                let size = rest.get(SIZE)?.load(Ordering::Relaxed);
                let len = usize::try_from(size / 8).unwrap_or(usize::MAX);
                if !size.is_multiple_of(METRICS_ALIGN) || len < LINE || len > rest.len() {
                    at = end;
                    let bad = BadArea { at: 8 * begin as u64, what: BadPart::Size, value: size };
                    return Some(Err(bad_end.take().unwrap_or(bad)));
                }
                at = begin + len;
                match AreaBlock::read(8 * begin as u64, rest.get(..len)?) {
                    Ok(Some(block)) => return Some(Ok(block)),
                    Ok(None) => {}
                    Err(bad) => {
                        at = end;
                        return Some(Err(bad_end.take().unwrap_or(bad)));
                    }
                }
            }
            bad_end.take().map(Err)
        })
    }
}

impl<'a> AreaBlock<'a> {
    fn read(at: u64, words: &'a [AtomicU64]) -> Result<Option<Self>, BadArea> {
        let word = |at: usize| words.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
        let (head, shape) = (word(HEAD), word(SHAPE));
        let bad = |what, value| BadArea { at, what, value };
        let (id, code, stripes) = (head as u32, head >> 32 & 0xff, (head >> 40) as u32);
        let Some(kind) = MetricKind::from_words(code, shape) else {
            // A known kind, with a shape that it cannot have.
            return if (1..=8).contains(&code) {
                Err(bad(BadPart::Shape, shape))
            } else {
                Ok(None)
            };
        };
        let id = RecordType::new(id).ok_or(bad(BadPart::Type, id.into()))?;
        if !stripes.is_power_of_two() || stripes > STRIPES_MAX {
            return Err(bad(BadPart::Stripes, stripes.into()));
        }
        if words.len() - LINE != stripes as usize * kind.stripe() {
            return Err(bad(BadPart::Fit, 8 * words.len() as u64));
        }
        Ok(Some(AreaBlock { at, id, kind, stripes, words }))
    }

    fn word(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Returns the number of stripes: threads that contend for an instrument update different stripes.
    #[must_use]
    pub fn stripes(&self) -> u32 {
        self.stripes
    }

    /// Returns the process whose values it has; `None` while a process takes the block over from a dead process, or if it
    /// died during that.
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

    /// Samples the block, with its owner and the time since which it counts. `None` for a gauge that was never set, while a
    /// process takes the block over from another, and if it died during that.
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
