//! The kernel's BPF ring buffer. A program in the kernel reserves each record, writes it in place
//! and submits it; a system call runs it for a block of records. The reader is in another process
//! and reads in place.

use crate::CompareError;
use crate::contest::program::{Loop, Publisher, block, op};
use crate::contest::stream::sleep_until_readable;
use crate::contest::waits::Polls;
use crate::contestant::{About, Can, Contestant, Location, Receiver, Sender, Setup};
use perfring_bench::bpf::{Map, Reader, insn, number};
use perfring_bench::contest::Waits;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A BPF ring buffer: as libbpf uses it, or, if `QUIET`, without any wake-up, with a reader that
/// releases space in eighths.
pub struct BpfOf<const QUIET: bool>;
/// As libbpf uses it: the kernel decides about wake-ups, the reader releases each record.
pub type Bpf = BpfOf<false>;
/// The fastest mode of the kernel's.
pub type BpfQuiet = BpfOf<true>;

const RINGBUF_RESERVE: i32 = 131;
const RINGBUF_SUBMIT: i32 = 132;
const NO_WAKEUP: i32 = 1;

fn program(map: u32, payload: usize, quiet: bool) -> Vec<u64> {
    let mut code = Loop::begin(payload);
    code.map(1, map);
    code.push(insn(op::MOVE_IMM, 2, 0, 0, payload as i32));
    code.push(insn(op::MOVE_IMM, 3, 0, 0, 0));
    code.push(insn(op::CALL, 0, 0, 0, RINGBUF_RESERVE));
    code.end_if(op::JUMP_IF_IMM, 0, 0);
    code.fill(payload);
    code.push(insn(op::MOVE, 1, 0, 0, 0));
    code.push(insn(op::MOVE_IMM, 2, 0, 0, if quiet { NO_WAKEUP } else { 0 }));
    code.push(insn(op::CALL, 0, 0, 0, RINGBUF_SUBMIT));
    code.finish()
}

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
pub(super) fn number_at(path: &Path) -> Result<u32, CompareError> {
    let reported = std::fs::read_to_string(path)?;
    reported.parse().map_err(|_| std::io::Error::other("no map's number").into())
}

fn open(path: &Path, setup: &Setup) -> Result<Map, CompareError> {
    Ok(Map::open(number_at(path)?, setup.data_size)?)
}

/// Explains, in one sentence, why the kernel's contestants cannot run.
pub(super) fn privileges(error: CompareError) -> String {
    format!("{error}: it takes root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN")
}

impl<const QUIET: bool> Contestant for BpfOf<QUIET> {
    type Sender = BpfSender;
    type Receiver = BpfReceiver;
    type Held = Held;

    fn check() -> Result<(), String> {
        let size = rustix::param::page_size() as u64;
        let tried = Map::create(size).map_err(CompareError::from).and_then(|map| {
            Publisher::load(&program(number(map.fd()), 8, QUIET), 8)?;
            Map::open(map.id()?, size)?;
            Ok(())
        });
        tried.map_err(privileges)
    }

    fn can() -> Can {
        Can {
            payload: 65_472,
            lossless: Ok(()),
            senders: Ok(()),
            overwrite: Err("its overwrite mode is younger than libbpf, which has no reader for it"),
            receivers: Err("a BPF ring buffer has one reader"),
            sleeping: if QUIET { Err("this one never wakes its reader") } else { Ok(()) },
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let (block, data_size) = (block(setup.payload), setup.data_size);
        let how = if QUIET {
            "no wake-ups, space released in eighths"
        } else {
            "the kernel's wake-ups, each record released"
        };
        About {
            name: if QUIET { "bpf_quiet" } else { "bpf" },
            version: "kernel".into(),
            location: Location::Kernel,
            settings: format!(
                "ring of {data_size} bytes, reserve and submit by a program in the kernel, up to \
                 {block} records a system call, {how}"
            ),
            waits: Polls::or_asleep(setup, "asleep in poll"),
        }
    }

    fn kernel_bytes(setup: &Setup) -> Option<u64> {
        // The data, mapped twice but present once, and a page for itself and for each position.
        Some(setup.data_size + 3 * rustix::param::page_size() as u64)
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held, CompareError> {
        let map = Map::create(setup.data_size)?;
        std::fs::write(path, map.id()?.to_string())?;
        Ok(Held { _map: map, path: path.to_owned() })
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<BpfSender, CompareError> {
        let map = open(path, setup)?;
        let code = program(number(map.fd()), setup.payload, QUIET);
        Ok(BpfSender { publisher: Publisher::load(&code, setup.payload)?, payload: setup.payload })
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<BpfReceiver, CompareError> {
        let map = open(path, setup)?;
        let reader = if QUIET { Reader::new(map) } else { Reader::handing_back_each(map) };
        Ok(BpfReceiver { reader, waits: Waits::new(setup.pace) })
    }
}

/// The writing end. The program fills the records.
pub struct BpfSender {
    publisher: Publisher,
    payload: usize,
}

impl Sender for BpfSender {
    #[inline]
    fn send<const N: usize>(
        &mut self,
        numbers: Range<u64>,
        _fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<(), CompareError> {
        if N != self.payload {
            return Err(CompareError::Cannot("send records of another length"));
        }
        self.publisher.send(numbers)
    }

    #[inline]
    fn offer<const N: usize>(
        &mut self,
        number: u64,
        _fill: impl FnMut(&mut [u8; N], u64),
    ) -> Result<bool, CompareError> {
        if N != self.payload {
            return Err(CompareError::Cannot("send records of another length"));
        }
        Ok(self.publisher.try_send(number..number + 1)? > 0)
    }
}

/// The reading end.
pub struct BpfReceiver {
    reader: Reader,
    waits: Waits,
}

impl Receiver for BpfReceiver {
    #[inline(always)]
    fn drain<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<u64, CompareError> {
        Ok(self.reader.drain(visit))
    }

    #[inline(always)]
    fn next<const N: usize>(&mut self, visit: impl FnMut(&[u8; N])) -> Result<bool, CompareError> {
        Ok(self.reader.show(1, visit) > 0)
    }

    #[inline]
    fn wait(&mut self) {
        let reader = &self.reader;
        self.waits.wait(|| reader.is_behind());
    }

    fn sleep(&mut self, timeout: Duration) -> Result<(), CompareError> {
        sleep_until_readable([self.reader.map().fd()].into_iter(), timeout)
    }
}
