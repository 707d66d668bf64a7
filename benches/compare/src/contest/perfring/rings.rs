//! A ring for each producer, and one reader of all of them.

use super::reader::Reader;
use super::ring::{about, can, error, options};
use crate::CompareError;
use crate::contestant::{About, Can, Cannot, Contestant, Receiver, Setup};
use perfring_bench::WaitStrategy;
use perfring_consumer::advanced::ResumePoint;
use perfring_consumer::{Consumer, ConsumerOptions, Item};
use perfring_producer::{Evict, Options, Producer, Producers};
use perfring_set::{FullestFirst, Merged, SourceId};
use std::hint::spin_loop;
use std::path::{Path, PathBuf};

/// `PAUSE` instructions of a reader that keeps its distance.
const FAR: u32 = 64;
/// Records after which a ring's space is released.
const OWED: u64 = 256;

/// The reason why separate rings are absent where there is one sender.
const ALONE: &str = "each producer has its own ring: then it is `perfring in place`";

pub(super) fn rings_can() -> Can {
    Can {
        senders: Ok(()),
        overwrite: Err("a set is read without losses; `perfring rings in turn` overwrites, too"),
        receivers: Err(ALONE),
        sleeping: Err("the reader of many rings polls all of them"),
        refuses: Err(ALONE),
        ..can()
    }
}

pub(super) fn ring(path: &Path, index: usize) -> PathBuf {
    path.join(index.to_string())
}

/// Creates a ring for each sender, with timestamps or without.
pub(super) fn make(path: &Path, setup: &Setup, time: bool) -> Result<(), CompareError> {
    std::fs::create_dir(path)?;
    let options = Options { time, ..options(setup, Producers::One, Evict::Exact) };
    (0..setup.senders).try_for_each(|index| {
        perfring_producer::files::create(ring(path, index), &options).map_err(error)
    })
}

pub(super) fn consumers(path: &Path, setup: &Setup) -> Result<Vec<Consumer>, CompareError> {
    let open = |index| {
        let options = ConsumerOptions { wait: setup.pace.into(), ..ConsumerOptions::default() };
        Consumer::attach_with(ring(path, index), &options).map_err(error)
    };
    (0..setup.senders).map(open).collect()
}

/// Read from the fullest ring first, by `perfring_set::FullestFirst`.
pub struct Rings;

impl Contestant for Rings {
    type Sender = Producer;
    type Receiver = FromSet<FullestFirst>;
    type Held = ();

    fn can() -> Can {
        rings_can()
    }

    fn about(setup: &Setup) -> About {
        let how =
            format!("{} rings of one producer each, fullest first, no timestamps", setup.senders);
        About { waits: waits(setup), ..about("perfring rings", setup, &how) }
    }

    fn own_channels() -> bool {
        true
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        make(path, setup, false)
    }

    fn sender(path: &Path, _setup: &Setup, index: usize) -> Result<Producer, CompareError> {
        Producer::attach(ring(path, index)).map_err(error)
    }

    fn receiver(
        path: &Path,
        setup: &Setup,
        _index: usize,
    ) -> Result<FromSet<FullestFirst>, CompareError> {
        let mut set = FullestFirst::new();
        for consumer in consumers(path, setup)? {
            set.add(Box::new(consumer));
        }
        Ok(FromSet::new(set, setup))
    }
}

/// Describes how a reader of many rings waits.
pub(super) fn waits(setup: &Setup) -> String {
    format!("busy, {} PAUSE between polls", pauses(setup))
}

fn pauses(setup: &Setup) -> u32 {
    if setup.pace == WaitStrategy::Latency { 1 } else { FAR }
}

/// Rings that are read as one.
pub trait Set {
    /// Returns the next item in order.
    ///
    /// # Errors
    /// The error of a ring.
    fn next(&mut self) -> Result<Option<Merged<'_>>, CompareError>;
    /// Returns the reader's resume point in a ring.
    fn resume_point(&self, source: SourceId) -> Option<ResumePoint>;
    /// Releases everything before a resume point.
    fn release(&mut self, source: SourceId, point: &ResumePoint);
    /// Returns whether something may be left that [`Set::next`] does not return yet.
    fn holds_back(&mut self) -> bool {
        false
    }
    /// Returns how many records came too late for their order.
    fn late(&self) -> Option<u64> {
        None
    }
}

impl Set for FullestFirst {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<Merged<'_>>, CompareError> {
        FullestFirst::next(self).map_err(|(_, failure)| error(failure))
    }

    fn resume_point(&self, source: SourceId) -> Option<ResumePoint> {
        FullestFirst::resume_point(self, source)
    }

    fn release(&mut self, source: SourceId, point: &ResumePoint) {
        FullestFirst::release(self, source, point);
    }
}

/// The reading end of all rings of a set.
pub struct FromSet<S> {
    set: S,
    /// The ring whose records are not released yet, and how many there are.
    source: Option<SourceId>,
    owed: u64,
    pauses: u32,
}

impl<S: Set> FromSet<S> {
    pub(super) fn new(set: S, setup: &Setup) -> Self {
        FromSet { set, source: None, owed: 0, pauses: pauses(setup) }
    }

    fn pause(&self) {
        for _ in 0..self.pauses {
            spin_loop();
        }
    }

    fn release(&mut self) {
        if let Some(source) = self.source.take()
            && let Some(resume_point) = self.set.resume_point(source)
        {
            self.set.release(source, &resume_point);
        }
        self.owed = 0;
    }

    #[inline(always)]
    fn take<const N: usize>(
        &mut self,
        visit: &mut impl FnMut(&[u8; N]),
    ) -> Result<bool, CompareError> {
        let Some(merged) = self.set.next()? else {
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

impl<S: Set> Receiver for FromSet<S> {
    #[inline(always)]
    fn drain<const N: usize>(
        &mut self,
        mut visit: impl FnMut(&[u8; N]),
    ) -> Result<u64, CompareError> {
        let mut count = 0;
        loop {
            while self.take(&mut visit)? {
                count += 1;
            }
            // Only 0 if nothing at all is left.
            if count > 0 || !self.set.holds_back() {
                return Ok(count);
            }
            self.pause();
        }
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
        self.pause();
    }

    fn late(&mut self) -> Option<u64> {
        self.set.late()
    }
}

/// Read one ring after the other, each until it is empty: there is no order between them.
pub struct InTurn;

impl Contestant for InTurn {
    type Sender = Producer;
    type Receiver = Turns;
    type Held = ();

    fn can() -> Can {
        Can { overwrite: Ok(()), ..rings_can() }
    }

    fn cannot() -> Cannot {
        Cannot { follow: Err(ALONE), overwrite_alone: Err(ALONE), ..Cannot::NOTHING }
    }

    fn about(setup: &Setup) -> About {
        let how = format!("{} rings of one producer each, a reader each, in turn", setup.senders);
        About { waits: waits(setup), ..about("perfring rings in turn", setup, &how) }
    }

    fn own_channels() -> bool {
        true
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        make(path, setup, false)
    }

    fn sender(path: &Path, _setup: &Setup, index: usize) -> Result<Producer, CompareError> {
        Producer::attach(ring(path, index)).map_err(error)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Turns, CompareError> {
        let open = |index| Reader::open(&ring(path, index), setup);
        let readers = (0..setup.senders).map(open).collect::<Result<_, _>>()?;
        Ok(Turns::new(readers, setup))
    }
}

/// The reading end of [`InTurn`].
pub struct Turns {
    readers: Vec<Reader>,
    pauses: u32,
}

impl Turns {
    pub(super) fn new(readers: Vec<Reader>, setup: &Setup) -> Self {
        Turns { readers, pauses: pauses(setup) }
    }
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
        // Not the wait of one ring, which may be idle while another fills up.
        (0..self.pauses).for_each(|_| spin_loop());
    }

    fn reported_lost(&mut self) -> Option<u64> {
        self.readers.iter_mut().map(Reader::reported_lost).sum()
    }
}
