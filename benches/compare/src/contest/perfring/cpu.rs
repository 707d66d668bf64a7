//! A ring for each CPU, and one reader of all of them.

use super::exclusive::refusal;
use super::reader::Reader;
use super::ring::{PATIENCE, about, error, options};
use super::rings::{Turns, rings_can, waits};
use crate::CompareError;
use crate::contestant::{About, Can, Cannot, Contestant, Sender, Setup};
use nix::unistd::{SysconfVar, sysconf};
use perfring_bench::payload::Pool;
use perfring_producer::{CpuProducer, Evict, Producers, RecordType, ReserveError};
use std::ops::Range;
use std::path::Path;

/// Records are published in restartable sequences, and the rings are read one after the other: there is
/// no order between them.
pub struct Cpu;

fn cpus() -> u32 {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    online.and_then(|online| u32::try_from(online).ok()).unwrap_or(1)
}

impl Contestant for Cpu {
    type Sender = CpuProducer;
    type Receiver = Turns;
    type Held = ();

    fn can() -> Can {
        Can { overwrite: Ok(()), payload: 512, ..rings_can() }
    }

    fn cannot() -> Cannot {
        const ORDER: &str = "its rings are read in turn, without an order between them";
        Cannot { follow: Err(ORDER), overwrite_alone: Ok(()), ..Cannot::NOTHING }
    }

    fn about(setup: &Setup) -> About {
        let how = format!("{} rings, one for each processor, read in turn", cpus());
        About { waits: waits(setup), ..about("perfring cpu", setup, &how) }
    }

    fn create(path: &Path, setup: &Setup) -> Result<(), CompareError> {
        let options = options(setup, Producers::Cpu, Evict::Exact);
        let producer = CpuProducer::create(path, &options).map_err(error)?;
        (0..cpus()).try_for_each(|cpu| producer.attach_to(cpu).map_err(error))
    }

    fn sender(path: &Path, _setup: &Setup, _index: usize) -> Result<CpuProducer, CompareError> {
        let producer = CpuProducer::attach(path).map_err(error)?;
        (0..cpus()).try_for_each(|cpu| producer.attach_to(cpu).map_err(error))?;
        Ok(producer)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<Turns, CompareError> {
        let open = |cpu| Reader::open(&path.join(format!("cpu{cpu}")), setup);
        Ok(Turns::new((0..cpus()).map(open).collect::<Result<_, _>>()?, setup))
    }
}

impl Sender for CpuProducer {
    #[inline(always)]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        for number in numbers {
            let mut bytes = [0; N];
            fill(&mut bytes, number);
            self.publish_timeout(RecordType::BYTES, &bytes, PATIENCE).map_err(refusal)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn send_from<const N: usize>(
        &mut self,
        mut numbers: Range<u64>,
        pool: &Pool<N>,
    ) -> Result<(), CompareError> {
        let publish = |n| self.publish_timeout(RecordType::BYTES, pool.get(n), PATIENCE);
        numbers.try_for_each(publish).map_err(refusal)
    }

    #[inline(always)]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        mut fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        let mut bytes = [0; N];
        fill(&mut bytes, number);
        match self.publish(&bytes) {
            Ok(()) => Ok(true),
            Err(ReserveError::Full) => Ok(false),
            Err(other) => Err(refusal(other)),
        }
    }
}
