//! The system call and the commands used here: maps and programs.

use crate::error::{BenchError, Result};
use nix::errno::Errno;
use nix::libc;
use std::ffi::{CStr, c_long};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands of `bpf(2)`.
const MAP_CREATE: c_long = 0;
const PROG_LOAD: c_long = 5;
const OBJ_PIN: c_long = 6;
const PROG_TEST_RUN: c_long = 10;
const MAP_GET_FD_BY_ID: c_long = 14;
const OBJ_GET_INFO_BY_FD: c_long = 15;
const MAP_FREEZE: c_long = 22;
/// The type of a program that gets a few numbers and may use any map.
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;

/// The attributes of each command, as the kernel lays them out; omitted ones are zero.
#[repr(C)]
#[derive(Default)]
struct CreateMap {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct LoadProgram {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size: [u32; 2],
    data: [u64; 2],
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
}

#[repr(C)]
#[derive(Default)]
struct GetById {
    id: u32,
}

#[repr(C)]
#[derive(Default)]
struct Pin {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct GetInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// # Safety
/// Addresses in `attributes` must point to memory that the command may read or write as it does.
unsafe fn bpf<T>(what: &'static str, command: c_long, attributes: &mut T) -> Result<i32> {
    let size = size_of::<T>();
    // SAFETY: the kernel reads and writes `size` bytes there and, as the caller ensures, behind the
    // addresses in them.
    let returned = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *mut T, size) };
    let source = || BenchError::System { what, source: Errno::last() };
    if returned < 0 { Err(source()) } else { i32::try_from(returned).map_err(|_| source()) }
}

/// # Safety
/// The requirement of [`bpf`], and the command must return a descriptor.
unsafe fn bpf_fd<T>(what: &'static str, command: c_long, attributes: &mut T) -> Result<OwnedFd> {
    // SAFETY: ensured by the caller.
    let fd = unsafe { bpf(what, command, attributes) }?;
    // SAFETY: it was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Creates a map of any type, with entries of so many bytes, and flags like `BPF_F_RB_OVERWRITE`.
pub fn create_map(
    map_type: u32,
    [key_size, value_size]: [u32; 2],
    max_entries: u32,
    map_flags: u32,
) -> Result<OwnedFd> {
    let mut attributes = CreateMap { map_type, key_size, value_size, max_entries, map_flags };
    // SAFETY: there are no addresses in them, and the command returns a descriptor.
    unsafe { bpf_fd("making a BPF map", MAP_CREATE, &mut attributes) }
}

/// Opens the map that another process has created, by its id.
pub fn open_map(id: u32) -> Result<OwnedFd> {
    let mut attributes = GetById { id };
    // SAFETY: there are no addresses in them, and the command returns a descriptor.
    unsafe { bpf_fd("opening a BPF map", MAP_GET_FD_BY_ID, &mut attributes) }
}

/// Pins a map or a program at a path of a BPF file system, until the file is removed.
pub fn pin(object: BorrowedFd<'_>, path: &CStr) -> Result<()> {
    let pathname = path.as_ptr() as u64;
    let mut attributes = Pin { pathname, bpf_fd: number(object), file_flags: 0 };
    // SAFETY: the kernel reads the string, which outlives the call.
    unsafe { bpf("pinning a BPF object", OBJ_PIN, &mut attributes) }.map(drop)
}

/// Keeps user space from changing a map from now on.
pub fn freeze(map: BorrowedFd<'_>) -> Result<()> {
    let mut attributes = number(map);
    // SAFETY: there is no address in them.
    unsafe { bpf("freezing a BPF map", MAP_FREEZE, &mut attributes) }.map(drop)
}

/// Returns the id that [`open_map`] takes.
pub fn map_id(map: BorrowedFd<'_>) -> Result<u32> {
    let mut info = [0u32; 32];
    let mut attributes = GetInfo {
        bpf_fd: number(map),
        info_len: size_of_val(&info) as u32,
        info: info.as_mut_ptr() as u64,
    };
    // SAFETY: the kernel writes at most `info_len` bytes to `info`, which outlives the call.
    unsafe { bpf("asking for a BPF map's number", OBJ_GET_INFO_BY_FD, &mut attributes) }?;
    Ok(info[1])
}

/// A loaded program, to be run by [`Program::run`].
pub struct Program(OwnedFd);

impl Program {
    /// Loads these instructions as a raw tracepoint program. The kernel verifies them.
    pub fn load(instructions: &[u64]) -> Result<Self> {
        // Some functions are only for programs with this licence.
        let license = c"Dual MIT/GPL";
        let mut attributes = LoadProgram {
            prog_type: PROG_TYPE_RAW_TRACEPOINT,
            insn_cnt: instructions.len() as u32,
            insns: instructions.as_ptr() as u64,
            license: license.as_ptr() as u64,
        };
        // SAFETY: the kernel reads so many instructions and the string, which both outlive the
        // call; the command returns a descriptor.
        unsafe { bpf_fd("loading a BPF program", PROG_LOAD, &mut attributes) }.map(Program)
    }

    /// Runs it with these numbers. Returns its result.
    #[inline]
    pub fn run(&self, context: &[u64]) -> Result<u32> {
        let mut attributes = TestRun {
            prog_fd: number(self.0.as_fd()),
            ctx_size_in: size_of_val(context) as u32,
            ctx_in: context.as_ptr() as u64,
            ..TestRun::default()
        };
        // SAFETY: the kernel reads `ctx_size_in` bytes of `context`, which outlives the call.
        unsafe { bpf("running a BPF program", PROG_TEST_RUN, &mut attributes) }?;
        Ok(attributes.retval)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns a descriptor as it is used in instructions and attributes.
pub fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().unsigned_abs()
}

/// Encodes one instruction.
pub const fn insn(code: u8, dst: u8, src: u8, offset: i16, imm: i32) -> u64 {
    let regs = ((src as u64) << 4 | dst as u64) << 8;
    (imm as u32 as u64) << 32 | (offset as u16 as u64) << 16 | regs | code as u64
}
