//! The kernel's perf buffer, which BPF programs used before the BPF ring buffer. It has a ring for
//! each processor, into which the kernel copies what the program has assembled. Senders have to
//! stay on their processors, or their order is lost.

use crate::CompareError;
use crate::contest::perf_ring::{
    Held, Mode, PerfSender, Ring, check, create, mapped, processors, rings,
};
use crate::contest::program::block;
use crate::contest::stream::sleep_until_readable;
use crate::contest::waits::Polls;
use crate::contestant::{About, Can, Contestant, Location, Receiver, Setup};
use perfring_bench::contest::Waits;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// A perf buffer.
pub struct PerfBuffer;

fn mode(setup: &Setup) -> Mode {
    if setup.sleeping { Mode::Wake } else { Mode::Quiet }
}

impl Contestant for PerfBuffer {
    type Sender = PerfSender;
    type Receiver = PerfReceiver;
    type Held = Held;

    fn check() -> Result<(), String> {
        check(Mode::Wake)
    }

    fn can() -> Can {
        Can {
            payload: 65_472,
            lossless: Ok(()),
            senders: Ok(()),
            overwrite: Err("see perf_overwrite"),
            receivers: Err("a perf buffer has one reader"),
            sleeping: Ok(()),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let (block, data_size, rings) = (block(setup.payload), setup.data_size, processors());
        let wakes = if setup.sleeping { "a wake-up a record" } else { "no wake-ups" };
        About {
            name: "perf_buffer",
            version: "kernel".into(),
            location: Location::Kernel,
            settings: format!(
                "{rings} rings of {data_size} bytes, one a processor, bpf_perf_event_output, up to \
                 {block} records a system call, {wakes}, space released when all is read"
            ),
            waits: Polls::or_asleep(setup, "asleep in poll"),
        }
    }

    fn kernel_bytes(setup: &Setup) -> Option<u64> {
        Some(mapped(setup.data_size))
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held, CompareError> {
        create(path, setup.data_size, mode(setup))
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<PerfSender, CompareError> {
        PerfSender::new(path, setup.payload)
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<PerfReceiver, CompareError> {
        let rings = rings(path, index)?;
        Ok(PerfReceiver { rings, whole: Vec::new(), waits: Waits::new(setup.pace) })
    }
}

/// The reading end.
pub struct PerfReceiver {
    /// Each with the position up to which it was read.
    rings: Vec<(Ring, u64)>,
    /// A record that wraps.
    whole: Vec<u8>,
    waits: Waits,
}

impl PerfReceiver {
    #[inline(always)]
    fn show<const N: usize>(&mut self, most: u64, mut visit: impl FnMut(&[u8; N])) -> u64 {
        let mut count = 0;
        for (ring, pos) in &mut self.rings {
            let (head, first) = (ring.head(), *pos);
            while *pos != head && count < most {
                let (len, record) = ring.record::<N>(*pos, &mut self.whole);
                // Others are the kernel's: reports of how many records it has refused.
                if let Some(record) = record {
                    visit(record);
                    count += 1;
                }
                *pos += len as u64;
            }
            if *pos != first {
                ring.set_tail(*pos);
            }
        }
        count
    }
}

impl Receiver for PerfReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<u64, CompareError> {
        Ok(self.show(u64::MAX, visit))
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<bool, CompareError> {
        Ok(self.show(1, visit) > 0)
    }

    #[inline]
    fn wait(&mut self) {
        let rings = &self.rings;
        self.waits.wait(|| rings.iter().any(|(ring, pos)| ring.head() != *pos));
    }

    fn sleep(&mut self, timeout: Duration) -> Result<(), CompareError> {
        if self.rings.iter().any(|(ring, pos)| ring.head() != *pos) {
            return Ok(());
        }
        sleep_until_readable(self.rings.iter().map(|(ring, _)| ring.event.as_fd()), timeout)
    }
}
