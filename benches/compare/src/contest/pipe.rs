//! A named pipe. It carries bytes, so both ends agree on the length of a record, and many records
//! are written by one `write` and read by one `read`.

use crate::contest::stream::{CHUNK, Outbox, StreamReceiver};
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::{mkfifo, unlink};
use perfring_bench::contestant::{About, Can, Contestant, Fill, Location, Sender, Setup};
use perfring_bench::error::system;
use perfring_bench::{BenchError, Result};
use rustix::io::ioctl_fionread;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A pipe, many records a `write`.
pub struct Pipe;

const PAGE: usize = 4096;

/// Makes a pipe hold as much as was requested, or as the user may have. Returns its size.
fn widen(pipe: &impl AsFd, data_size: u64) -> Result<i32> {
    let wanted = i32::try_from(data_size).unwrap_or(i32::MAX);
    let most = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap_or_default();
    let most: i32 = most.trim().parse().unwrap_or(wanted);
    for size in [wanted, wanted.min(most)] {
        if fcntl(pipe, FcntlArg::F_SETPIPE_SZ(size)).is_ok() {
            break;
        }
    }
    fcntl(pipe, FcntlArg::F_GETPIPE_SZ).map_err(system("F_GETPIPE_SZ"))
}

/// Returns the size that a pipe gets here, by `F_GETPIPE_SZ`.
fn size(setup: &Setup) -> Result<i32> {
    let (read, _write) = nix::unistd::pipe().map_err(system("pipe"))?;
    widen(&read, setup.data_size)
}

/// Bytes of one `write`: longer ones of several senders may be interleaved.
fn chunk(setup: &Setup) -> usize {
    if setup.senders > 1 { libc::PIPE_BUF } else { CHUNK }
}

/// The pipe, held open, so that it never reports its end.
pub struct Held {
    path: PathBuf,
    _pipe: OwnedFd,
}

impl Drop for Held {
    fn drop(&mut self) {
        // The pipe is removed already if the directory was.
        let _ = unlink(&self.path);
    }
}

impl Contestant for Pipe {
    type Sender = PipeSender;
    type Receiver = StreamReceiver;
    type Held = Held;

    fn can() -> Can {
        Can {
            overwrite: Err("a full pipe makes its writers wait"),
            receivers: Err("each byte of a pipe goes to one reader"),
            ..Can::all(usize::MAX)
        }
    }

    fn about(setup: &Setup) -> About {
        let size = size(setup);
        let size = size.map_or_else(|error| error.to_string(), |size| format!("{size} bytes"));
        let batch = (chunk(setup) / setup.payload.max(1)).max(1);
        About {
            version: "kernel".into(),
            location: Location::Processes,
            settings: format!(
                "FIFO of {size}, O_NONBLOCK, up to {batch} records a write, reads of {CHUNK} bytes"
            ),
            waits: setup.polls_or("asleep in poll"),
        }
    }

    fn kernel_bytes(setup: &Setup) -> Option<u64> {
        u64::try_from(size(setup).ok()?).ok()
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held> {
        if setup.senders > 1 && setup.payload > libc::PIPE_BUF {
            return Err(BenchError::Cannot(
                "keep records over 4096 bytes of several senders whole",
            ));
        }
        mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).map_err(system("mkfifo"))?;
        let pipe = open(path, OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(system("opening a pipe"))?;
        let held = Held { path: path.to_owned(), _pipe: pipe };
        widen(&held._pipe, setup.data_size)?;
        Ok(held)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<PipeSender> {
        let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let pipe = open(path, flags, Mode::empty()).map_err(system("opening a pipe"))?;
        let size = fcntl(&pipe, FcntlArg::F_GETPIPE_SZ).map_err(system("F_GETPIPE_SZ"))?;
        let outbox = Outbox::new(chunk(setup), setup.payload);
        Ok(PipeSender { pipe, outbox, pages: size as usize / PAGE })
    }

    fn receiver(path: &Path, setup: &Setup, _index: usize) -> Result<StreamReceiver> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let pipe = open(path, flags, Mode::empty()).map_err(system("opening a pipe"))?;
        Ok(StreamReceiver::new(pipe, setup))
    }
}

/// The writing end.
pub struct PipeSender {
    pipe: OwnedFd,
    outbox: Outbox,
    /// Pages of the pipe.
    pages: usize,
}

impl Sender for PipeSender {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, fill: impl Fill<N>) -> Result<()> {
        self.outbox.send(&self.pipe, numbers, fill).map_err(system("writing to a pipe"))
    }

    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        // A short one is written completely or not at all. A longer one might be written in part:
        // it is only begun if there is room however the earlier ones are spread over their pages.
        if N > libc::PIPE_BUF {
            let unread = ioctl_fionread(&self.pipe).map_err(std::io::Error::from)? as usize;
            if (unread.div_ceil(N) + 1) * N.div_ceil(PAGE) > self.pages {
                return Ok(false);
            }
        }
        self.outbox.offer(&self.pipe, number, fill).map_err(system("writing to a pipe"))
    }
}
