//! The kernel's BPF ring buffer. A program in the kernel reserves each record, writes it in place
//! and submits it; a system call runs it for a block of records. The reader is in another process
//! and reads in place.

use crate::contest::program::ProgramSender;
use crate::contest::stream::sleep_until_readable;
use perfring_bench::bpf::{Map, Reader, block, into_ringbuf, number};
use perfring_bench::contestant::{About, Can, Contestant, Location, Receiver, Setup, Visit};
use perfring_bench::waits::Waits;
use perfring_bench::{BenchError, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A BPF ring buffer. A reader that polls releases space in eighths, and is never woken: the
/// fastest mode. One that sleeps is used as libbpf does: the kernel decides about wake-ups, and
/// each record is released.
pub struct Bpf;

/// The ring, and the file with its id.
pub struct Held {
    _map: Map,
    path: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        // The file is removed already if the directory was.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reads the id with which another process finds the map.
pub(super) fn number_at(path: &Path) -> Result<u32> {
    let reported = std::fs::read_to_string(path)?;
    reported.parse().map_err(|_| std::io::Error::other("no map's number").into())
}

fn open(path: &Path, setup: &Setup) -> Result<Map> {
    Map::open(number_at(path)?, setup.data_size)
}

/// Explains, in one sentence, why the kernel's contestants cannot run.
pub(super) fn privileges(error: BenchError) -> String {
    format!("{error}: it takes root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN")
}

impl Contestant for Bpf {
    type Sender = ProgramSender;
    type Receiver = BpfReceiver;
    type Held = Held;

    fn check() -> Result<(), String> {
        let size = rustix::param::page_size() as u64;
        let tried = Map::create(size).and_then(|map| {
            ProgramSender::load(&into_ringbuf(number(map.fd()), 8, true, false), 8)?;
            Map::open(map.id()?, size)?;
            Ok(())
        });
        tried.map_err(privileges)
    }

    fn can() -> Can {
        Can {
            overwrite: Err("its overwrite mode is younger than libbpf, which has no reader for it"),
            receivers: Err("a BPF ring buffer has one reader"),
            ..Can::all(65_472)
        }
    }

    fn about(setup: &Setup) -> About {
        let (block, data_size) = (block(setup.payload), setup.data_size);
        let how = if setup.sleeping {
            "the kernel's wake-ups, each record released"
        } else {
            "no wake-ups, space released in eighths"
        };
        About {
            version: "kernel".into(),
            location: Location::Kernel,
            settings: format!(
                "ring of {data_size} bytes, reserve and submit by a program in the kernel, up to \
                 {block} records a system call, {how}"
            ),
            waits: setup.polls_or("asleep in poll"),
        }
    }

    fn kernel_bytes(setup: &Setup) -> Option<u64> {
        // The data, mapped twice but present once, and a page for itself and for each position.
        Some(setup.data_size + 3 * rustix::param::page_size() as u64)
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held> {
        let map = Map::create(setup.data_size)?;
        std::fs::write(path, map.id()?.to_string())?;
        Ok(Held { _map: map, path: path.to_owned() })
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<ProgramSender> {
        let map = open(path, setup)?;
        let code = into_ringbuf(number(map.fd()), setup.payload, setup.sleeping, false);
        ProgramSender::load(&code, setup.payload)
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<BpfReceiver> {
        let map = open(path, setup)?;
        let reader = if setup.sleeping { Reader::handing_back_each(map) } else { Reader::new(map) };
        Ok(BpfReceiver { reader, waits: Waits::new(setup.pace) })
    }
}

/// The reading end.
pub struct BpfReceiver {
    reader: Reader,
    waits: Waits,
}

impl Receiver for BpfReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, visit: impl Visit<N>) -> Result<u64> {
        Ok(self.reader.drain(visit))
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, visit: impl Visit<N>) -> Result<bool> {
        Ok(self.reader.show(1, visit) > 0)
    }

    #[inline]
    fn wait(&mut self) {
        let reader = &self.reader;
        self.waits.wait(|| reader.is_behind());
    }

    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        sleep_until_readable(self.reader.map().fd(), timeout).map(drop)
    }
}
