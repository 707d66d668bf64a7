//! Unix sockets with a path.

use rustix::fs::{FlockOperation, Mode, chmod, flock};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The limit of connections that wait to be accepted.
const BACKLOG: i32 = 16;

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
    /// Listens at this path, with this mode. Replaces a socket on which nobody listens any more, as
    /// after SIGKILL; `None` if somebody does.
    pub(super) fn bind(path: &Path, mode: Mode) -> io::Result<Option<Self>> {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Of two that find a stale socket only one replaces it. The lock ends with this function.
        let dir = File::open(dir)?;
        flock(&dir, FlockOperation::LockExclusive)?;
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        let address = SocketAddrUnix::new(path)?;
        match bind(&socket, &address) {
            Err(rustix::io::Errno::ADDRINUSE) if !is_socket(path) => {
                return Err(io::Error::other("there is a file that is no socket"));
            }
            Err(rustix::io::Errno::ADDRINUSE) => match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path)?;
                    bind(&socket, &address)?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => bind(&socket, &address)?,
                // Also one that is too busy to accept.
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            },
            bound => bound?,
        }
        // Nobody can connect before it listens.
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

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}
