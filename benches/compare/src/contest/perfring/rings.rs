//! A ring for each producer, and one reader of all of them.

use super::{Reader, about, can, create, error};
use crate::CompareError;
use crate::contest::{About, Can, Contestant, Receiver, Setup};
use perfring_bench::Pace;
use perfring_consumer::{Consumer, Item};
use perfring_producer::{Producer, Producers};
use perfring_set::{Fullest, SourceId};
use std::hint::spin_loop;
use std::path::{Path, PathBuf};

/// `PAUSE` instructions of a reader that keeps its distance.
const FAR: u32 = 64;
/// Records after which a ring's space is handed back.
const OWED: u64 = 256;

fn rings_can() -> Can {
    Can {
        senders: Ok(()),
        overwrite: Err("each producer has a ring of its own: then it is `perfring`"),
        receivers: Err("each producer has a ring of its own: then it is `perfring`"),
        sleeping: Err("the reader of many rings looks at all of them"),
        refuses: Err("each producer has a ring of its own: then it is `perfring`"),
        ..can()
    }
}

fn ring(path: &Path, index: usize) -> PathBuf {
    path.join(index.to_string())
}

fn make(path: &Path, setup: &Setup) -> Result<(), CompareError> {
    std::fs::create_dir(path)?;
    (0..setup.senders).try_for_each(|index| create(&ring(path, index), setup, Producers::One))
}

fn consumers(path: &Path, setup: &Setup) -> Result<Vec<Consumer>, CompareError> {
    let open = |index| {
        let mut consumer = Consumer::attach(ring(path, index)).map_err(error)?;
        consumer.set_pace(setup.pace.into());
        Ok(consumer)
    };
    (0..setup.senders).map(open).collect()
}

/// Read from the fullest ring first, by `perfring_set::Fullest`.
pub struct Rings;

impl Contestant for Rings {
    type Sender = Producer;
    type Receiver = FullestFirst;
    type Held = ();

    fn can() -> Can {
        rings_can()
    }

    fn about(setup: &Setup) -> About {
        let how = format!("{} rings of one producer each, fullest first, no stamps", setup.senders);
        About {
            waits: "64 PAUSE, or none for latency".to_owned(),
            ..about("perfring rings", setup, &how)
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        make(path, setup)
    }

    fn sender(path: &Path, _setup: &Setup, index: usize) -> Result<Producer, CompareError> {
        Producer::attach(ring(path, index)).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<FullestFirst, CompareError> {
        let mut set = Fullest::new();
        for consumer in consumers(path, setup)? {
            set.add(Box::new(consumer));
        }
        let pauses = if setup.pace == Pace::Latency { 1 } else { FAR };
        Ok(FullestFirst { set, source: None, owed: 0, pauses })
    }
}

/// The reading end of [`Rings`].
pub struct FullestFirst {
    set: Fullest,
    /// Whose records are not handed back yet, and how many there are.
    source: Option<SourceId>,
    owed: u64,
    pauses: u32,
}

impl FullestFirst {
    fn release(&mut self) {
        if let Some(source) = self.source.take()
            && let Some(mark) = self.set.mark(source)
        {
            self.set.release(source, &mark);
        }
        self.owed = 0;
    }

    #[inline(always)]
    fn take<const N: usize>(
        &mut self,
        visit: &mut impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        let Some(merged) = self.set.next().map_err(|(_, failure)| error(failure))? else {
            self.release();
            return Ok(false);
        };
        let source = merged.source;
        if let Item::Record(record) = merged.item
            && let Ok(bytes) = record.bytes.try_into()
        {
            visit(bytes);
        }
        if self.source != Some(source) || self.owed == OWED {
            self.release();
        }
        self.source = Some(source);
        self.owed += 1;
        Ok(true)
    }
}

impl Receiver for FullestFirst {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        while self.take(&mut visit)? {
            count += 1;
        }
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        self.take(&mut visit)
    }

    #[inline]
    fn wait(&mut self) {
        for _ in 0..self.pauses {
            spin_loop();
        }
    }
}

/// Read one ring after the other, each until it is empty: no order among them is promised.
pub struct InTurn;

impl Contestant for InTurn {
    type Sender = Producer;
    type Receiver = Turns;
    type Held = ();

    fn can() -> Can {
        rings_can()
    }

    fn about(setup: &Setup) -> About {
        let how = format!("{} rings of one producer each, a consumer each, in turn", setup.senders);
        about("perfring rings in turn", setup, &how)
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        make(path, setup)
    }

    fn sender(path: &Path, _setup: &Setup, index: usize) -> Result<Producer, CompareError> {
        Producer::attach(ring(path, index)).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Turns, CompareError> {
        let open = |index| Reader::open(&ring(path, index), setup);
        let readers = (0..setup.senders).map(open).collect::<Result<_, _>>()?;
        Ok(Turns { readers, at: 0 })
    }
}

/// The reading end of [`InTurn`].
pub struct Turns {
    readers: Vec<Reader>,
    at: usize,
}

impl Receiver for Turns {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        for reader in &mut self.readers {
            count += reader.drain(&mut visit)?;
        }
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        for reader in &mut self.readers {
            if reader.next(&mut visit)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    #[inline]
    fn wait(&mut self) {
        // The first one's wait, for any of them: a few microseconds at most, and each in its turn.
        self.at = (self.at + 1) % self.readers.len().max(1);
        if let Some(reader) = self.readers.get_mut(self.at) {
            reader.wait();
        }
    }
}
