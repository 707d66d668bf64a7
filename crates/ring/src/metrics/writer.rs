//! Taking a block of a metrics area.

use super::block::{AreaBlock, BadArea, BlockOwner, MetricsArea};
use super::cell::{GREATEST, LEAST};
use super::kind::{HEAD, LINE, MetricKind, OWNER, PID, REFUSED, SHAPE, SIZE, START, STRIPES_MAX};
use perfring_abi::RecordType;
use perfring_abi::atomic::{AtomicU64, Ordering, fence};

/// The reason why a block was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBlock {
    /// It did not fit. The area counts this.
    Full {
        /// Bytes of the block.
        needed: u64,
        /// Bytes left in the area.
        left: u64,
    },
    /// The area is damaged. Readers stop at the damage, so they would not see the block.
    Damaged(BadArea),
}

/// A block that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// The index of its first word in the area.
    pub word: usize,
    /// How many words it has.
    pub words: usize,
    /// The number of its stripes.
    pub stripes: u32,
}

/// A block that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct NewBlock<'a> {
    /// The record type that describes the instrument.
    pub id: RecordType,
    /// The kind of its values.
    pub kind: MetricKind,
    /// The number of threads with separate words: 1 to 128, rounded up to a power of two.
    pub stripes: u32,
    /// The process whose values they are.
    pub owner: BlockOwner,
    /// The time since which they count, ns since 1970.
    pub start: u64,
    /// The payload, if the block is a record.
    pub payload: &'a [u8],
}

/// A metrics area on writable pages.
#[derive(Clone, Copy, Debug)]
pub struct MetricsWriter<'a>(MetricsArea<'a>);

impl<'a> MetricsWriter<'a> {
    /// Creates a writer for these words; they are empty if the ring has no area.
    #[must_use]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        MetricsWriter(MetricsArea::new(words))
    }

    /// Takes a block for an instrument of this process: a new block or, in a full area, the block of a dead process with the
    /// same instrument. The dead process's measurements are overwritten, like the oldest records of an overwrite ring; the area
    /// counts this. The caller holds the type table's lock.
    ///
    /// A process that dies in this call has taken nothing, or the whole block, or has left a block without an owner.
    ///
    /// # Errors
    /// See [`NoBlock`].
    pub fn take(
        &self,
        new: NewBlock<'_>,
        is_dead: impl Fn(BlockOwner) -> bool,
    ) -> Result<BlockPlace, NoBlock> {
        if let Some(bad) = self.0.blocks().find_map(Result::err) {
            return Err(NoBlock::Damaged(bad));
        }
        let NewBlock { id, kind, stripes, .. } = new;
        let stripes = stripes.clamp(1, STRIPES_MAX).next_power_of_two();
        let len = LINE + stripes as usize * kind.stripe();
        let (used, _) = self.0.used();
        let free = self.0.words.get(used..).unwrap_or_default();
        let place = |word| BlockPlace { word, words: len, stripes };
        if let Some(words) = free.get(..len) {
            write_block(words, NewBlock { stripes, ..new });
            if let Some(end) = self.0.words.first() {
                end.store(8 * (used + len) as u64, Ordering::Release); // U
            }
            return Ok(place(used));
        }
        let mut same = self.0.blocks().map_while(Result::ok).filter(|block| {
            (block.id, block.kind, block.stripes()) == (id, kind, stripes)
                && block.owner().is_none_or(&is_dead)
        });
        if let Some(block) = same.next() {
            if block.owner().is_some()
                && let Some(dropped) = self.0.words.get(2)
            {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
            take_over(&block, &new);
            return Ok(place((block.at / 8) as usize));
        }
        if let Some(refused) = self.0.words.get(1) {
            refused.fetch_add(1, Ordering::Relaxed);
        }
        Err(NoBlock::Full { needed: 8 * len as u64, left: 8 * free.len() as u64 })
    }
}

/// Writes a block that no reader sees yet. Its words may have remains of a process that died here.
fn write_block(words: &[AtomicU64], new: NewBlock<'_>) {
    let NewBlock { id, kind, stripes, owner, start, payload } = new;
    let line = words.get(..LINE).unwrap_or_default();
    line.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    let head = u64::from(id.get()) | kind.code() << 32 | u64::from(stripes) << 40;
    for (at, value) in [
        (HEAD, head),
        (SIZE, 8 * words.len() as u64),
        (OWNER, owner.to_word()),
        (PID, owner.pid.into()),
        (START, start),
        (SHAPE, kind.shape()),
    ] {
        if let Some(word) = words.get(at) {
            word.store(value, Ordering::Relaxed);
        }
    }
    begin(words.get(LINE..).unwrap_or_default(), kind, payload);
}

/// Writes the values of an instrument without measurements, or a record's payload.
fn begin(values: &[AtomicU64], kind: MetricKind, payload: &[u8]) {
    values.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    match kind {
        MetricKind::Record(_) => {
            for (to, from) in values.iter().zip(payload.chunks(8)) {
                let mut word = [0; 8];
                word[..from.len()].copy_from_slice(from);
                to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
            }
        }
        MetricKind::Histogram(_) => {
            for stripe in values.chunks(kind.stripe()) {
                for (at, value) in [(LEAST, f64::INFINITY), (GREATEST, f64::NEG_INFINITY)] {
                    if let Some(word) = stripe.get(at) {
                        word.store(value.to_bits(), Ordering::Relaxed);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Gives a dead process's block to another process. Meanwhile the block has no owner, so that no reader mixes the values of
/// the two.
fn take_over(block: &AreaBlock<'_>, new: &NewBlock<'_>) {
    let store = |at: usize, value: u64, order| {
        if let Some(word) = block.words.get(at) {
            word.store(value, order);
        }
    };
    store(OWNER, 0, Ordering::Relaxed);
    fence(Ordering::Release); // W
    let values = block.words.get(LINE..).unwrap_or_default();
    begin(values, new.kind, new.payload);
    store(PID, new.owner.pid.into(), Ordering::Relaxed);
    store(START, new.start, Ordering::Relaxed);
    store(REFUSED, 0, Ordering::Relaxed);
    store(OWNER, new.owner.to_word(), Ordering::Release); // W
}
