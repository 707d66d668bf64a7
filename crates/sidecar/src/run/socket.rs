//! Unix sockets with a path.

use super::lock_file;
use rustix::fs::{Mode, chmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The limit of connections that wait to be accepted.
const BACKLOG: i32 = 16;
/// The limit of waiting for another sidecar that listens at the same path: it takes a moment.
const LOCKED: Duration = Duration::from_secs(5);
/// The interval of trying.
const AGAIN: Duration = Duration::from_millis(10);

/// A listening socket, whose file is removed with this, if it is still its own.
#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Its device and inode.
    identity: Option<(u64, u64)>,
}

impl Socket {
    /// Listens at this path, with this mode. Replaces a socket at which no process listens, as after SIGKILL. `None` if
    /// another process listens.
    pub(super) fn bind(path: &Path, mode: Mode) -> io::Result<Option<Self>> {
        let address = SocketAddrUnix::new(path)?;
        // Only one of two sidecars replaces a stale socket. The lock ends with this function.
        let _lock = lock(path)?;
        let socket = socket()?;
        if let Err(error) = bind(&socket, &address) {
            if error != Errno::ADDRINUSE {
                return Err(error.into());
            }
            if !is_socket(path) {
                return Err(io::Error::other("there is a file that is no socket"));
            }
            // Without waiting: a process that does not accept would let it wait for ever.
            match connect(self::socket()?, &address) {
                Err(Errno::CONNREFUSED) => fs::remove_file(path)?,
                Err(Errno::NOENT) => {}
                Ok(()) | Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            bind(&socket, &address)?;
        }
        // No process can connect before it listens.
        chmod(path, mode)?;
        listen(&socket, BACKLOG)?;
        Ok(Some(Socket { listener: socket.into(), file: SocketFile::of(path) }))
    }

    /// Returns the listener, and what removes its file.
    pub(super) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

impl SocketFile {
    fn of(path: &Path) -> Self {
        SocketFile { path: path.to_owned(), identity: identity(path) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Locks a file beside the socket that only this process's user can open. A process that may only read the directory could
/// hold a lock of the directory for ever.
fn lock(path: &Path) -> io::Result<File> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".lock");
    let path = path.with_file_name(name);
    let failed = |why: String| io::Error::other(format!("its lock {} {why}", path.display()));
    let file = lock_file::open(&path).map_err(|error| failed(error.to_string()))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCKED => sleep(AGAIN),
            Err(TryLockError::WouldBlock) => {
                return Err(failed(
                    "is held by another process, which `lslocks` names: end that process".into(),
                ));
            }
            // The file system has no locks.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}
