//! The kernel's perf ring in its overwrite mode: written backwards, so that a reader finds the
//! newest record at the head and walks to older ones. The reader has to pause the writing
//! meanwhile.

use crate::contest::perf_ring::{
    Held, ON_STACK, Ring, check, create, pause, processors, rings, sender,
};
use crate::contest::program::ProgramSender;
use perfring_bench::bpf::block;
use perfring_bench::contestant::{
    About, Can, Cannot, Contestant, Location, Receiver, Setup, Visit,
};
use perfring_bench::waits::Waits;
use perfring_bench::{BenchError, Result};
use std::path::Path;

/// A perf ring that is written backwards.
pub struct PerfOverwrite;

impl Contestant for PerfOverwrite {
    type Sender = ProgramSender;
    type Receiver = PerfSnapshot;
    type Held = Held;

    fn check() -> Result<(), String> {
        check()
    }

    fn can() -> Can {
        Can {
            payload: ON_STACK,
            lossless: Err("it overwrites; see bpf"),
            senders: Err("only its overwriting is measured"),
            overwrite: Ok(()),
            receivers: Err("each reader pauses it"),
            sleeping: Err("it is read as a snapshot"),
            refuses: Err("it overwrites"),
        }
    }

    fn cannot() -> Cannot {
        const NO: &str =
            "it is read as a snapshot, and each pauses its writing: no reader can follow it";
        Cannot { follow: Err(NO), ..Cannot::NOTHING }
    }

    fn about(setup: &Setup) -> About {
        let (block, data_size, rings) = (block(setup.payload), setup.data_size, processors());
        About {
            name: "perf_overwrite",
            version: "kernel".into(),
            location: Location::Kernel,
            settings: format!(
                "{rings} rings of {data_size} bytes, one a processor, write_backward, \
                 bpf_perf_event_output, up to {block} records a system call, paused while read"
            ),
            waits: setup.pace.polls(),
        }
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held> {
        create(path, setup.data_size)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<ProgramSender> {
        sender(path, setup.payload)
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<PerfSnapshot> {
        let rings = rings(path, index)?;
        Ok(PerfSnapshot { rings, whole: Vec::new(), waits: Waits::new(setup.pace) })
    }
}

/// The reading end.
pub struct PerfSnapshot {
    /// Each with the head of the last snapshot.
    rings: Vec<(Ring, u64)>,
    /// A record that wraps.
    whole: Vec<u8>,
    waits: Waits,
}

impl Receiver for PerfSnapshot {
    fn drain<const N: usize>(&mut self, mut visit: impl Visit<N>) -> Result<u64> {
        let mut count = 0;
        for (ring, seen) in &mut self.rings {
            if ring.head() == *seen {
                continue;
            }
            pause(ring, true)?;
            let head = ring.head();
            // From the newest back to the ones already seen, as far as they are not overwritten.
            let (mut at, mut places) = (head, Vec::new());
            let written = (*seen).wrapping_sub(head).min(ring.data_size as u64);
            while at != *seen {
                let left = written - at.wrapping_sub(head);
                if left < 8 {
                    break;
                }
                let (len, record) = ring.record::<N>(at, &mut self.whole);
                // The oldest may be partly overwritten.
                if len as u64 > left {
                    break;
                }
                if record.is_some() {
                    places.push(at);
                }
                at = at.wrapping_add(len as u64);
            }
            for at in places.iter().rev() {
                if let (_, Some(record)) = ring.record::<N>(*at, &mut self.whole) {
                    visit(record);
                }
            }
            count += places.len() as u64;
            *seen = head;
            pause(ring, false)?;
        }
        Ok(count)
    }

    fn next<const N: usize>(&mut self, _visit: impl Visit<N>) -> Result<bool> {
        Err(BenchError::Cannot("show one record: it is read as a snapshot"))
    }

    #[inline]
    fn wait(&mut self) {
        let rings = &self.rings;
        self.waits.wait(|| rings.iter().any(|(ring, seen)| ring.head() != *seen));
    }
}
