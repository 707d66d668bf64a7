//! The parameters of an event for the kernel: `perf_event_attr`.

use bytemuck::{Pod, Zeroable};
use nix::libc;

/// Records to request from the kernel besides an event's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Also {
    /// Threads that start, end, or change their name.
    pub tasks: bool,
    /// Files that are mapped with execute permission.
    pub mappings: bool,
    /// Context switches of threads.
    pub switches: bool,
}

/// A request for one of the kernel's software events.
///
/// Each sample is `identifier, ip, pid tid, time, addr, cpu, period`, and each other record ends
/// with `pid tid, time, cpu, identifier`: 64-bit words, `pid tid` two halves of one. All times are
/// of `CLOCK_BOOTTIME` in the initial time namespace, like perfring's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEventSpec {
    /// `enum perf_sw_ids`.
    pub config: u64,
    /// The number of events per sample; for the clocks, ns. 0: no samples.
    pub period: u64,
    /// Records to request besides samples.
    pub also: Also,
    /// Leaves out what happens in the kernel itself, as most systems require of most users.
    pub user_only: bool,
    /// Waiting readers are woken after so many bytes.
    pub wakeup_bytes: u32,
    /// Writes the ring from its end to its beginning, for a
    /// [`MappedRecorder`](crate::MappedRecorder).
    pub overwrite: bool,
}

/// The scope of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A thread, and the threads and processes that it starts, while on this processor.
    Thread {
        /// Its id, as this process sees it.
        tid: i32,
        /// The processor.
        cpu: i32,
    },
    /// All that happens on a processor.
    Cpu(i32),
}

/// `struct perf_event_attr` up to `clockid`: the part that Linux 4.1 knows, and all later kernels
/// accept.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Attr {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup_watermark: u32,
    pub(crate) bp_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    pub(crate) clockid: i32,
}

pub(crate) const TYPE_SOFTWARE: u32 = 1;
/// `IP | TID | TIME | ADDR | CPU | PERIOD | IDENTIFIER`.
pub(crate) const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 7 | 1 << 8 | 1 << 16;
/// Since Linux 6.0.
pub(crate) const FORMAT_LOST: u64 = 1 << 4;

/// The bits of `perf_event_attr`, in their order.
mod flag {
    pub(super) const DISABLED: u64 = 1;
    pub(super) const INHERIT: u64 = 1 << 1;
    pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub(super) const EXCLUDE_HV: u64 = 1 << 6;
    pub(super) const MMAP: u64 = 1 << 8;
    pub(super) const COMM: u64 = 1 << 9;
    pub(super) const TASK: u64 = 1 << 13;
    pub(super) const WATERMARK: u64 = 1 << 14;
    pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub(super) const MMAP2: u64 = 1 << 23;
    pub(super) const COMM_EXEC: u64 = 1 << 24;
    pub(super) const USE_CLOCKID: u64 = 1 << 25;
    pub(super) const CONTEXT_SWITCH: u64 = 1 << 26;
    pub(super) const WRITE_BACKWARD: u64 = 1 << 27;
}

impl KernelEventSpec {
    pub(crate) fn attr(&self, whose: Whose, read_format: u64) -> Attr {
        let mut flags = flag::DISABLED | flag::WATERMARK | flag::SAMPLE_ID_ALL | flag::USE_CLOCKID;
        for (wanted, bits) in [
            (matches!(whose, Whose::Thread { .. }), flag::INHERIT),
            (self.user_only, flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV),
            (self.also.tasks, flag::TASK | flag::COMM | flag::COMM_EXEC),
            (self.also.mappings, flag::MMAP | flag::MMAP2),
            (self.also.switches, flag::CONTEXT_SWITCH),
            (self.overwrite, flag::WRITE_BACKWARD),
        ] {
            flags |= if wanted { bits } else { 0 };
        }
        Attr {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attr>() as u32,
            config: self.config,
            sample_period: self.period,
            sample_type: SAMPLE_TYPE,
            read_format,
            // C's bit fields begin at the other end there.
            flags: if cfg!(target_endian = "big") { flags.reverse_bits() } else { flags },
            wakeup_watermark: self.wakeup_bytes,
            clockid: libc::CLOCK_BOOTTIME,
            ..Attr::zeroed()
        }
    }
}
