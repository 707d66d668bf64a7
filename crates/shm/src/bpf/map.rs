//! Finding a BPF ring-buffer map.

use crate::bpf::call::{by_id, info, pinned};
use nix::libc;
use nix::sys::statfs::{Statfs, statfs};
use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `BPF_MAP_TYPE_RINGBUF`.
const RINGBUF: u32 = 27;
/// `BPF_F_RB_OVERWRITE`, since Linux 6.19.
const OVERWRITE: u32 = 1 << 19;
/// `BPF_FS_MAGIC`.
const BPF_FS: u32 = 0xcafe_4a11;

/// Where a map is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BpfPlace {
    /// A path at which it is pinned.
    Pinned(PathBuf),
    /// The kernel's number for it.
    Id(u32),
}

impl fmt::Display for BpfPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BpfPlace::Pinned(path) => write!(f, "{}", path.display()),
            BpfPlace::Id(id) => write!(f, "id:{id}"),
        }
    }
}

/// Why a map could not be opened or mapped.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoBpfMap {
    /// The path, or a map with this id, does not exist.
    NotFound,
    /// The path is not on a BPF file system.
    NotPinned,
    /// The pinned object is no map, but of this kind.
    NotMap(&'static str),
    /// A map of another kind: `enum bpf_map_type`.
    Kind(u32),
    /// This user lacks a capability, or a sandbox forbids `bpf(2)`.
    Forbidden,
    /// The mode of the pinned file does not let this user read and write it.
    Denied,
    /// The map was frozen: no process can write its consumer's page any more.
    Frozen,
    /// The kernel lacks the system call, or the command.
    Missing,
    /// The process has reached its limit of descriptors.
    Descriptors,
    /// Another reason.
    Other {
        /// The step that failed.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl NoBpfMap {
    /// Sorts the error of a step. `EACCES` has two causes where an object is opened: see [`NoBpfMap::of_path`].
    fn of(step: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => NoBpfMap::NotFound,
            Some(libc::EPERM) => NoBpfMap::Forbidden,
            Some(libc::EACCES) => NoBpfMap::Denied,
            Some(libc::ENOSYS | libc::EINVAL) => NoBpfMap::Missing,
            Some(libc::EMFILE | libc::ENFILE) => NoBpfMap::Descriptors,
            _ => NoBpfMap::Other { step, source },
        }
    }

    /// The kernel's answer to a path on another file system, and to a directory, is `EACCES`, too.
    fn of_path(path: &Path, source: io::Error) -> Self {
        // The number has 32 bits, with or without a sign.
        let is_elsewhere = |found: Statfs| found.filesystem_type().0 as u32 != BPF_FS;
        match NoBpfMap::of("opening the pinned map", source) {
            NoBpfMap::Denied if path.is_dir() || statfs(path).is_ok_and(is_elsewhere) => {
                NoBpfMap::NotPinned
            }
            other => other,
        }
    }
}

/// An open BPF ring-buffer map.
#[derive(Debug)]
pub struct BpfMap {
    fd: OwnedFd,
    id: u32,
    name: String,
    data_size: u64,
    overwrites: bool,
}

impl BpfMap {
    /// Opens a map.
    ///
    /// # Errors
    /// See [`NoBpfMap`].
    pub fn open(place: &BpfPlace) -> Result<Self, NoBpfMap> {
        let fd = match place {
            BpfPlace::Id(id) => {
                by_id(*id).map_err(|source| NoBpfMap::of("opening it by its id", source))?
            }
            BpfPlace::Pinned(path) => {
                let text =
                    CString::new(path.as_os_str().as_bytes()).map_err(|_| NoBpfMap::NotFound)?;
                pinned(&text).map_err(|source| NoBpfMap::of_path(path, source))?
            }
        };
        Self::of(fd)
    }

    /// Takes the descriptor of a map.
    ///
    /// # Errors
    /// See [`NoBpfMap`].
    pub fn of(fd: OwnedFd) -> Result<Self, NoBpfMap> {
        if let Some(what) = other_object(&fd) {
            return Err(NoBpfMap::NotMap(what));
        }
        let info =
            info(fd.as_fd()).map_err(|source| NoBpfMap::of("asking for its properties", source))?;
        if info.kind != RINGBUF {
            return Err(NoBpfMap::Kind(info.kind));
        }
        let name = info.name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(BpfMap {
            fd,
            id: info.id,
            name: String::from_utf8_lossy(name).into_owned(),
            data_size: info.max_entries.into(),
            overwrites: info.flags & OVERWRITE != 0,
        })
    }

    /// Returns the kernel's number for it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the name that its maker gave it: up to 15 bytes, or none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the bytes of its data area.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.data_size
    }

    /// Returns whether the kernel overwrites the oldest records when it is full.
    #[must_use]
    pub fn overwrites(&self) -> bool {
        self.overwrites
    }
}

impl AsFd for BpfMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the kind of a BPF object, if the kernel names it and it is no map. `bpf(2)` would take a program's properties for
/// a map's properties.
fn other_object(fd: &OwnedFd) -> Option<&'static str> {
    let link = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
    let name = link.to_string_lossy();
    [("bpf-prog", "program"), ("bpf_link", "link"), ("bpf-link", "link"), ("btf", "type table")]
        .into_iter()
        .find_map(|(mark, what)| name.contains(mark).then_some(what))
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
