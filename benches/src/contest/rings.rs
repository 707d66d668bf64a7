//! A ring for each producer, or for each CPU, and one reader of all of them.

use super::sets::{FromSet, Ordered};
use crate::contest::perfring::{PATIENCE, Reader, Way, can, error, options, refusal, taken};
use crate::contestant::{Can, Fill, Receiver, Sender, Setup, Visit};
use crate::error::Result;
use crate::payload::Pool;
use crate::waits::WaitStrategy;
use nix::unistd::{SysconfVar, sysconf};
use perfring_consumer::{Consumer, ConsumerOptions};
use perfring_producer::{CpuProducer, Evict, Options, Producer, Producers, RecordType, files};
use perfring_set::{FullestFirst, Merge};
use std::hint::spin_loop;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `PAUSE` instructions of a reader that keeps its distance.
const FAR: u32 = 64;
/// How long a record may be held back for one with an earlier timestamp.
const DELAY: Duration = Duration::from_millis(1);

/// The reason why separate rings are absent where there is one sender.
const ALONE: &str = "each producer has its own ring: then it is `perfring in place`";

/// Returns everything that many rings can do.
fn rings() -> Can {
    Can {
        senders: Ok(()),
        overwrite: Err("a set is read without losses; `perfring rings in turn` overwrites"),
        receivers: Err(ALONE),
        sleeping: Err("the reader of many rings polls all of them"),
        refuses: Err(ALONE),
        ..can()
    }
}

/// Describes how the reader of many rings waits.
fn waits(setup: &Setup) -> Option<String> {
    Some(format!("busy, {} PAUSE between polls", pauses(setup)))
}

fn pauses(setup: &Setup) -> u32 {
    if setup.pace == WaitStrategy::Latency { 1 } else { FAR }
}

fn ring(path: &Path, index: usize) -> PathBuf {
    path.join(index.to_string())
}

/// Creates a ring for each sender, with timestamps or without.
fn make(path: &Path, setup: &Setup, time: bool) -> Result<()> {
    std::fs::create_dir(path)?;
    let options = Options { time, ..options(setup, Producers::One, Evict::Exact) };
    let mut all = 0..setup.senders;
    all.try_for_each(|index| files::create(ring(path, index), &options).map_err(error))
}

fn attach(path: &Path, index: usize) -> Result<Producer> {
    Producer::attach(ring(path, index)).map_err(error)
}

fn consumers(path: &Path, setup: &Setup) -> Result<Vec<Consumer>> {
    let open = |index| {
        let options = ConsumerOptions { wait: setup.pace.into(), ..ConsumerOptions::default() };
        Consumer::attach_with(ring(path, index), &options).map_err(error)
    };
    (0..setup.senders).map(open).collect()
}

/// Read from the fullest ring first, by `perfring_set::FullestFirst`.
pub struct Fullest;

impl Way for Fullest {
    type Sender = Producer;
    type Receiver = FromSet<FullestFirst>;

    fn how(setup: &Setup) -> String {
        format!("{} rings of one producer each, fullest first, no timestamps", setup.senders)
    }

    fn can() -> Can {
        rings()
    }

    fn waits(setup: &Setup) -> Option<String> {
        waits(setup)
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        make(path, setup, false)
    }

    fn sender(path: &Path, _: &Setup, index: usize) -> Result<Producer> {
        attach(path, index)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<FromSet<FullestFirst>> {
        let mut set = FullestFirst::new();
        for consumer in consumers(path, setup)? {
            set.add(Box::new(consumer));
        }
        Ok(FromSet::new(set, pauses(setup)))
    }
}

/// Read in the order of time, by `perfring_set::Merge`: an order that a shared ring has and
/// separate rings have not.
pub struct InOrder;

impl Way for InOrder {
    type Sender = Producer;
    type Receiver = FromSet<Ordered>;

    fn how(setup: &Setup) -> String {
        format!(
            "{} rings of one producer each, each record stamped, merged in the order of time, held \
             back until no ring can have an older one, for at most {} ms",
            setup.senders,
            DELAY.as_millis()
        )
    }

    fn can() -> Can {
        rings()
    }

    fn waits(setup: &Setup) -> Option<String> {
        waits(setup)
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        make(path, setup, true)
    }

    fn sender(path: &Path, _: &Setup, index: usize) -> Result<Producer> {
        attach(path, index)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<FromSet<Ordered>> {
        let mut merge = Merge::new(DELAY).map_err(error)?;
        let consumers = consumers(path, setup)?.into_iter();
        let sources = consumers.map(|consumer| merge.add(Box::new(consumer))).collect();
        Ok(FromSet::new(Ordered::new(merge, sources), pauses(setup)))
    }
}

/// Read one ring after the other, each until it is empty: there is no order between them.
pub struct InTurn;

impl Way for InTurn {
    type Sender = Producer;
    type Receiver = Turns;

    fn how(setup: &Setup) -> String {
        format!("{} rings of one producer each, a reader each, in turn", setup.senders)
    }

    fn can() -> Can {
        Can { overwrite: Ok(()), follow: Err(ALONE), overwrite_alone: Err(ALONE), ..rings() }
    }

    fn waits(setup: &Setup) -> Option<String> {
        waits(setup)
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        make(path, setup, false)
    }

    fn sender(path: &Path, _: &Setup, index: usize) -> Result<Producer> {
        attach(path, index)
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Turns> {
        Turns::open((0..setup.senders).map(|index| ring(path, index)), setup)
    }
}

/// A ring for each CPU: records are published in restartable sequences, and the rings are read one
/// after the other, without an order between them.
pub struct Cpu;

fn cpus() -> u32 {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    online.and_then(|online| u32::try_from(online).ok()).unwrap_or(1)
}

impl Way for Cpu {
    type Sender = PerCpu;
    type Receiver = Turns;

    fn how(_: &Setup) -> String {
        format!("{} rings, one for each processor, read in turn", cpus())
    }

    fn can() -> Can {
        const ORDER: &str = "its rings are read in turn, without an order between them";
        Can { overwrite: Ok(()), follow: Err(ORDER), payload: 512, ..rings() }
    }

    fn waits(setup: &Setup) -> Option<String> {
        waits(setup)
    }

    fn create(path: &Path, setup: &Setup) -> Result<()> {
        let options = options(setup, Producers::Cpu, Evict::Exact);
        let producer = CpuProducer::create(path, &options).map_err(error)?;
        (0..cpus()).try_for_each(|cpu| producer.attach_to(cpu).map_err(error))
    }

    fn sender(path: &Path, _: &Setup, _: usize) -> Result<PerCpu> {
        let producer = CpuProducer::attach(path).map_err(error)?;
        (0..cpus()).try_for_each(|cpu| producer.attach_to(cpu).map_err(error))?;
        Ok(PerCpu(producer))
    }

    fn receiver(path: &Path, setup: &Setup, _: usize) -> Result<Turns> {
        Turns::open((0..cpus()).map(|cpu| path.join(format!("cpu{cpu}"))), setup)
    }
}

/// The writing end of [`Cpu`].
pub struct PerCpu(CpuProducer);

impl Sender for PerCpu {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, mut fill: impl Fill<N>) -> Result<()> {
        for number in numbers {
            let mut bytes = [0; N];
            fill(&mut bytes, number);
            self.0.publish_timeout(RecordType::BYTES, &bytes, PATIENCE).map_err(refusal)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn send_from<const N: usize>(&mut self, mut numbers: Range<u64>, pool: &Pool<N>) -> Result<()> {
        let publish = |n| self.0.publish_timeout(RecordType::BYTES, pool.get(n), PATIENCE);
        numbers.try_for_each(publish).map_err(refusal)
    }

    #[inline(always)]
    fn offer<const N: usize>(&mut self, number: u64, mut fill: impl Fill<N>) -> Result<bool> {
        let mut bytes = [0; N];
        fill(&mut bytes, number);
        taken(self.0.publish(&bytes))
    }
}

/// A reader of each ring, in turn.
pub struct Turns {
    readers: Vec<Reader>,
    pauses: u32,
}

impl Turns {
    fn open(rings: impl Iterator<Item = PathBuf>, setup: &Setup) -> Result<Self> {
        let readers = rings.map(|ring| Reader::open(&ring, setup)).collect::<Result<_, _>>()?;
        Ok(Turns { readers, pauses: pauses(setup) })
    }
}

impl Receiver for Turns {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        let mut count = 0;
        for reader in &mut self.readers {
            count += reader.drain(&mut visit)?;
        }
        Ok(count)
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<bool> {
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
