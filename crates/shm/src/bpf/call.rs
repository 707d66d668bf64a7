//! The three commands of `bpf(2)` that find a map. None of them changes anything.
//!
//! Descriptors may always write, because the kernel maps no map by a read-only descriptor: it takes such a mapping for a
//! private mapping.

use nix::libc;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const OBJ_GET: libc::c_long = 7;
const MAP_GET_FD_BY_ID: libc::c_long = 14;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;

#[repr(C)]
struct ObjGet {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

#[repr(C)]
struct GetFdById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

#[repr(C)]
struct GetInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// `struct bpf_map_info`, as far as it is used here: kernels write as much as is asked for.
#[repr(C)]
#[derive(Default)]
pub(super) struct Info {
    pub(super) kind: u32,
    pub(super) id: u32,
    key_size: u32,
    value_size: u32,
    pub(super) max_entries: u32,
    pub(super) flags: u32,
    pub(super) name: [u8; 16],
}

/// # Safety
/// Addresses in `attributes` must lead to memory that the command may read or write as it does.
unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    let size = size_of::<T>();
    // SAFETY: the kernel reads and writes `size` bytes there and, as the caller ensures, behind the addresses in them.
    let returned = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *mut T, size) };
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(returned as i32)
}

/// Opens the object that is pinned at a path.
pub(super) fn pinned(path: &CStr) -> io::Result<OwnedFd> {
    let pathname = path.as_ptr() as u64;
    let mut attributes = ObjGet { pathname, bpf_fd: 0, file_flags: 0 };
    // SAFETY: the kernel reads the string, which ends with a zero byte and outlives the call.
    let fd = unsafe { bpf(OBJ_GET, &mut attributes) }?;
    // SAFETY: a descriptor that was just opened, without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens the map with an id.
pub(super) fn by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attributes = GetFdById { id, next_id: 0, open_flags: 0 };
    // SAFETY: there is no address in them.
    let fd = unsafe { bpf(MAP_GET_FD_BY_ID, &mut attributes) }?;
    // SAFETY: a descriptor that was just opened, without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the properties of a map.
pub(super) fn info(map: BorrowedFd<'_>) -> io::Result<Info> {
    let mut info = Info::default();
    let mut attributes = GetInfo {
        bpf_fd: map.as_raw_fd().unsigned_abs(),
        info_len: size_of::<Info>() as u32,
        info: &raw mut info as u64,
    };
    // SAFETY: the kernel writes at most `info_len` bytes to `info`, which outlives the call. Any bits are valid there.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attributes) }?;
    Ok(info)
}

/// Makes a map of a kind, with entries of so many bytes.
#[cfg(test)]
pub(super) fn create(kind: u32, entry: [u32; 2], entries: u32, flags: u32) -> io::Result<OwnedFd> {
    const MAP_CREATE: libc::c_long = 0;
    let mut attributes = [kind, entry[0], entry[1], entries, flags];
    // SAFETY: there is no address in them.
    let fd = unsafe { bpf(MAP_CREATE, &mut attributes) }?;
    // SAFETY: a descriptor that was just opened, without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
