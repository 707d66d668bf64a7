//! A Unix domain socket of bytes: as with a pipe, many records are written by one `write`.

use crate::contest::handed::{self, Held, Whose};
use crate::contest::stream::{CHUNK, Outbox, StreamReceiver};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, connect, getsockopt,
    listen, setsockopt, socket, sockopt,
};
use perfring_bench::contestant::{About, Can, Contestant, Fill, Location, Sender, Setup};
use perfring_bench::error::system;
use perfring_bench::{BenchError, Result};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Up to this many bytes, the kernel takes a `write` completely or not at all.
const WHOLE: usize = 32 << 10;

/// A byte socket; each sender has one of its own.
pub struct UnixStream;

fn make(kind: SockType) -> Result<OwnedFd> {
    socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).map_err(system("socket"))
}

/// Listens at a path for as many senders; leaves the socket to the first receiver.
fn listen_at(path: &Path, setup: &Setup, kind: SockType) -> Result<Held> {
    let address = UnixAddr::new(path).map_err(system("a socket's path"))?;
    let listener = make(kind)?;
    bind(listener.as_raw_fd(), &address).map_err(system("bind"))?;
    let backlog = i32::try_from(setup.senders).unwrap_or(i32::MAX).max(1);
    listen(&listener, Backlog::new(backlog).map_err(system("listen"))?)
        .map_err(system("listen"))?;
    let held = Held::new(path);
    held.lay(Whose::Receiver(0), listener);
    Ok(held)
}

/// Accepts a connection from every sender. Waits for them.
fn accept_all(path: &Path, setup: &Setup, index: usize) -> Result<Vec<OwnedFd>> {
    let listener: OwnedFd = handed::take(path, Whose::Receiver(index))?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    (0..setup.senders)
        .map(|_| {
            let fd = accept4(listener.as_raw_fd(), flags).map_err(system("accept"))?;
            // SAFETY: it was just created and has no other owner.
            Ok(unsafe { OwnedFd::from_raw_fd(fd) })
        })
        .collect()
}

/// Connects, with room for so many bytes.
fn connect_to(path: &Path, setup: &Setup, kind: SockType) -> Result<OwnedFd> {
    let socket = make(kind)?;
    widen(&socket, setup)?;
    let address = UnixAddr::new(path).map_err(system("a socket's path"))?;
    connect(socket.as_raw_fd(), &address).map_err(system("connect"))?;
    fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(system("O_NONBLOCK"))?;
    Ok(socket)
}

fn widen(socket: &OwnedFd, setup: &Setup) -> Result<usize> {
    let size = usize::try_from(setup.data_size).unwrap_or(usize::MAX);
    // The former exceeds the limit for unprivileged users, and takes privileges.
    if setsockopt(socket, sockopt::SndBufForce, &size).is_err() {
        setsockopt(socket, sockopt::SndBuf, &size).map_err(system("SO_SNDBUF"))?;
    }
    getsockopt(socket, sockopt::SndBuf).map_err(system("SO_SNDBUF"))
}

/// Returns what `SO_SNDBUF` becomes for all senders together. A local socket's bytes are accounted
/// to the sender: the receiver has no buffer of its own.
fn rooms(setup: &Setup) -> Option<u64> {
    let size = make(SockType::Stream).and_then(|socket| widen(&socket, setup)).ok()?;
    Some((size * setup.senders) as u64)
}

/// Describes what `SO_SNDBUF` becomes.
fn room(setup: &Setup) -> String {
    make(SockType::Stream).and_then(|socket| widen(&socket, setup)).map_or_else(
        |error| error.to_string(),
        |size| format!("SO_SNDBUF {size} (as the kernel counts)"),
    )
}

impl Contestant for UnixStream {
    type Sender = StreamSender;
    type Receiver = StreamReceiver;
    type Held = Held;

    fn can() -> Can {
        Can {
            payload: usize::MAX,
            lossless: Ok(()),
            senders: Ok(()),
            overwrite: Err("a full socket makes its writers wait"),
            receivers: Err("a connection has one reader"),
            sleeping: Ok(()),
            refuses: Ok(()),
        }
    }

    fn about(setup: &Setup) -> About {
        let batch = (CHUNK / setup.payload.max(1)).max(1);
        About {
            name: "unix_stream",
            version: "kernel".into(),
            location: Location::Processes,
            settings: format!(
                "{}, O_NONBLOCK, up to {batch} records a write, reads of {CHUNK} bytes",
                room(setup)
            ),
            waits: setup.polls_or("asleep in poll"),
        }
    }

    fn kernel_bytes(setup: &Setup) -> Option<u64> {
        rooms(setup)
    }

    fn create(path: &Path, setup: &Setup) -> Result<Held> {
        listen_at(path, setup, SockType::Stream)
    }

    fn sender(path: &Path, setup: &Setup, _index: usize) -> Result<StreamSender> {
        let socket = connect_to(path, setup, SockType::Stream)?;
        Ok(StreamSender { socket, outbox: Outbox::new(CHUNK, setup.payload) })
    }

    fn receiver(path: &Path, setup: &Setup, index: usize) -> Result<StreamReceiver> {
        Ok(StreamReceiver::new(accept_all(path, setup, index)?, setup))
    }
}

/// The writing end.
pub struct StreamSender {
    socket: OwnedFd,
    outbox: Outbox,
}

impl Sender for StreamSender {
    #[inline(always)]
    fn send<const N: usize>(&mut self, numbers: Range<u64>, fill: impl Fill<N>) -> Result<()> {
        self.outbox.send(&self.socket, numbers, fill).map_err(system("writing to a socket"))
    }

    fn offer<const N: usize>(&mut self, number: u64, fill: impl Fill<N>) -> Result<bool> {
        if N > WHOLE {
            return Err(BenchError::Cannot("refuse records over 32 KiB: part of one may fit"));
        }
        self.outbox.offer(&self.socket, number, fill).map_err(system("writing to a socket"))
    }
}
