//! Decoding the kernel's bytes to typed records.
//!
//! Without a general parser: the request is always the same (`perfring_shm::KernelEventSpec`), so a
//! sample is seven words at fixed offsets, and a parser for all of perf's options would handle more
//! than can occur.

use crate::event::EventKind;
use crate::records as r;
use bytemuck::Zeroable;
use perfring_consumer::{Cause, RecordType};
use perfring_ring::KernelFrame;
use perfring_types::PodRecord;
use perfring_types::tagged::TaggedWriter;

/// `enum perf_event_type`.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const EXIT: u32 = 4;
    pub(super) const THROTTLE: u32 = 5;
    pub(super) const UNTHROTTLE: u32 = 6;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const MMAP2: u32 = 10;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const SWITCH: u32 = 14;
    pub(super) const SWITCH_CPU_WIDE: u32 = 15;
}

const MISC_MODE: u16 = 7;
/// `PERF_RECORD_MISC_SWITCH_OUT`, and of another type `PERF_RECORD_MISC_COMM_EXEC`.
const MISC_13: u16 = 1 << 13;
const MISC_PREEMPTED: u16 = 1 << 14;

/// The decoded content of a kernel record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "fuzz"), allow(unreachable_pub))]
pub enum What {
    /// A record of this type, whose payload was written.
    Record(RecordType),
    /// This many records were lost.
    Lost(u64, Cause),
}

/// Splits a word into its two halves, in memory's order.
fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

/// Decodes the record of this frame: its time and its content, where a sample belongs to `event`.
/// (The identifier does not show it: the kernel gives all observers of one event of a task the
/// identifier of the first of them, since it prepares a sample once.) The payload replaces the
/// content of `payload`. `None` if the record is shorter than such a record can be.
#[cfg_attr(not(feature = "fuzz"), allow(unreachable_pub))]
pub fn decode(
    frame: &KernelFrame,
    body: &[u64],
    event: EventKind,
    payload: &mut Vec<u8>,
) -> Option<(u64, What)> {
    payload.clear();
    if frame.kind == kind::SAMPLE {
        let &[_identifier, ip, task, time, addr, cpu, period] = body.first_chunk()?;
        let ((pid, tid), (cpu, _)) = (halves(task), halves(cpu));
        let kind = sample([pid, tid, cpu], frame.misc, [period, ip, addr], event, payload);
        return Some((time, What::Record(kind)));
    }
    let (body, &[task, time, cpu, _identifier]) = body.split_last_chunk()?;
    let ((pid, tid), (cpu, _)) = (halves(task), halves(cpu));
    Some((time, other(frame, body, [pid, tid, cpu], payload)?))
}

fn pod<T: PodRecord>(record: &T, payload: &mut Vec<u8>) -> RecordType {
    payload.extend_from_slice(bytemuck::bytes_of(record));
    T::SCHEMA.id
}

macro_rules! sample {
    ($name:ident, $payload:ident, $($field:ident),*) => {
        pod(&r::$name { $($field),* }, $payload)
    };
}

fn sample(
    [pid, tid, cpu]: [u32; 3],
    misc: u16,
    [period, ip, addr]: [u64; 3],
    event: EventKind,
    payload: &mut Vec<u8>,
) -> RecordType {
    use EventKind as E;
    let mode = match misc & MISC_MODE {
        1 => r::Mode::Kernel,
        2 => r::Mode::User,
        3 => r::Mode::Hypervisor,
        4 => r::Mode::GuestKernel,
        5 => r::Mode::GuestUser,
        _ => r::Mode::Unknown,
    };
    let mode = mode.into();
    match event {
        E::CpuClock => sample!(CpuClock, payload, pid, tid, cpu, mode, period, ip),
        E::TaskClock => sample!(TaskClock, payload, pid, tid, cpu, mode, period, ip),
        E::ContextSwitches => {
            sample!(ContextSwitch, payload, pid, tid, cpu, mode, period)
        }
        E::CpuMigrations => sample!(CpuMigration, payload, pid, tid, cpu, mode, period),
        E::CgroupSwitches => sample!(CgroupSwitch, payload, pid, tid, cpu, mode, period),
        E::PageFaults => sample!(PageFault, payload, pid, tid, cpu, mode, period, ip, addr),
        E::MinorFaults => sample!(MinorFault, payload, pid, tid, cpu, mode, period, ip, addr),
        E::MajorFaults => sample!(MajorFault, payload, pid, tid, cpu, mode, period, ip, addr),
        E::AlignmentFaults => {
            sample!(AlignmentFault, payload, pid, tid, cpu, mode, period, ip, addr)
        }
        E::EmulationFaults => {
            sample!(EmulationFault, payload, pid, tid, cpu, mode, period, ip, addr)
        }
        E::Switches | E::Tasks | E::Mappings => {
            sample!(Sample, payload, pid, tid, cpu, mode, period, ip, addr)
        }
    }
}

/// Decodes a record that is not a sample, without the words that all such records end with.
fn other(
    frame: &KernelFrame,
    body: &[u64],
    [pid, tid, cpu]: [u32; 3],
    payload: &mut Vec<u8>,
) -> Option<What> {
    let switched = match (frame.misc & MISC_13 != 0, frame.misc & MISC_PREEMPTED != 0) {
        (false, _) => r::Switched::In,
        (true, false) => r::Switched::Out,
        (true, true) => r::Switched::Preempted,
    };
    let switched = switched.into();
    let kind = match frame.kind {
        // The kernel reports this only for records that did not fit in its ring (or, of a recorder, came during a
        // snapshot).
        kind::LOST => return Some(What::Lost(*body.get(1)?, Cause::Full)),
        // Records that a processor itself lost, before the kernel saw them.
        kind::LOST_SAMPLES => return Some(What::Lost(*body.first()?, Cause::Foreign)),
        kind::SWITCH => pod(&r::Switch { pid, tid, cpu, switched }, payload),
        kind::SWITCH_CPU_WIDE => {
            let (other_pid, other_tid) = halves(*body.first()?);
            pod(&r::SwitchCpuWide { pid, tid, cpu, switched, other_pid, other_tid }, payload)
        }
        kind::COMM => {
            let (task, text) = body.split_first()?;
            let (pid, tid) = halves(*task);
            let exec = u32::from(frame.misc & MISC_13 != 0);
            let mut comm = r::Comm { pid, tid, cpu, exec, comm: <[u8; 16]>::zeroed() };
            let text = text_of(bytemuck::cast_slice(text));
            let len = text.len().min(comm.comm.len());
            comm.comm[..len].copy_from_slice(&text[..len]);
            pod(&comm, payload)
        }
        kind::FORK | kind::EXIT => {
            let &[processes, threads, _time] = body.first_chunk()?;
            let ((pid, parent_pid), (tid, parent_tid)) = (halves(processes), halves(threads));
            match frame.kind {
                kind::FORK => pod(&r::Fork { pid, tid, parent_pid, parent_tid, cpu }, payload),
                _ => pod(&r::Exit { pid, tid, parent_pid, parent_tid, cpu }, payload),
            }
        }
        kind::THROTTLE => pod(&r::Throttle { pid, tid, cpu }, payload),
        kind::UNTHROTTLE => pod(&r::Unthrottle { pid, tid, cpu }, payload),
        kind::MMAP2 => {
            let (&[task, addr, len, pgoff, _device, inode, _, access], name) =
                body.split_first_chunk()?;
            let ((pid, tid), (prot, flags)) = (halves(task), halves(access));
            let name = text_of(bytemuck::cast_slice(name));
            let mut writer = TaggedWriter::new(payload);
            writer.u64(r::mmap::PID, pid.into());
            writer.u64(r::mmap::TID, tid.into());
            writer.u64(r::mmap::CPU, cpu.into());
            writer.u64(r::mmap::ADDR, addr);
            writer.u64(r::mmap::LEN, len);
            writer.u64(r::mmap::PGOFF, pgoff);
            writer.u64(r::mmap::PROT, prot.into());
            writer.u64(r::mmap::FLAGS, flags.into());
            writer.u64(r::mmap::INODE, inode);
            writer.text(r::mmap::FILENAME, &String::from_utf8_lossy(name));
            r::MMAP.id
        }
        unknown => {
            let mut writer = TaggedWriter::new(payload);
            writer.u64(r::other::TYPE, unknown.into());
            writer.u64(r::other::MISC, frame.misc.into());
            writer.u64(r::other::PID, pid.into());
            writer.u64(r::other::TID, tid.into());
            writer.u64(r::other::CPU, cpu.into());
            writer.bytes(r::other::BODY, bytemuck::cast_slice(body));
            r::OTHER.id
        }
    };
    Some(What::Record(kind))
}

/// Returns the text up to the first zero.
fn text_of(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
