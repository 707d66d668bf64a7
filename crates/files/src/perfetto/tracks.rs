//! Tracks: the tree of processes, rings, threads and counters in a trace.
//!
//! ```text
//! process (by its number)
//! ├── a ring: its records and logs as instants, its losses
//! ├── a thread: records that name it, and the kernel's records
//! ├── lost records of that ring: a counter
//! ├── spans: a track for each, which the UI lays beside one another
//! └── a counter for each series of a gauge or a sum
//! ```

use super::proto::{CounterDescriptor, ProcessDescriptor, ThreadDescriptor, TrackDescriptor, Unit};

/// Returns a track's number: a hash, so it is the same for the same parts in every trace.
pub(super) fn uuid(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64; // FNV-1a
    for part in parts {
        for byte in part.iter().copied().chain((part.len() as u64).to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash.max(1) // 0 is the track of the whole trace
}

/// Returns the track of a process; that of the whole trace if it is unknown.
pub(super) fn process(pid: u32) -> u64 {
    if pid == 0 { 0 } else { uuid(&[b"process", &pid.to_le_bytes()]) }
}

/// Describes a process with this number. Its pid may be another one, which then is in the description.
pub(super) fn describe_process(number: u32, pid: u32, name: &str) -> TrackDescriptor {
    let description =
        (number != pid).then(|| format!("pid {pid}, as another process of this trace"));
    TrackDescriptor {
        uuid: Some(process(number)),
        description,
        process: Some(ProcessDescriptor {
            pid: i32::try_from(number).ok(),
            process_name: (!name.is_empty()).then(|| name.to_owned()),
        }),
        ..TrackDescriptor::default()
    }
}

pub(super) fn describe_thread(pid: u32, tid: u32) -> TrackDescriptor {
    TrackDescriptor {
        uuid: Some(uuid(&[b"thread", &pid.to_le_bytes(), &tid.to_le_bytes()])),
        parent_uuid: Some(process(pid)),
        thread: Some(ThreadDescriptor {
            pid: i32::try_from(pid).ok(),
            tid: Some(tid.into()),
            thread_name: None,
        }),
        ..TrackDescriptor::default()
    }
}

/// Describes a track below another.
pub(super) fn describe(uuid: u64, parent: u64, name: &str) -> TrackDescriptor {
    TrackDescriptor {
        uuid: Some(uuid),
        parent_uuid: (parent != 0).then_some(parent),
        name: Some(name.to_owned()),
        ..TrackDescriptor::default()
    }
}

/// Converts a unit of UCUM to Perfetto's.
pub(super) fn counter(unit: &str, is_incremental: bool) -> CounterDescriptor {
    let known = match unit {
        "ns" => Some(Unit::TimeNs),
        "By" => Some(Unit::SizeBytes),
        "" | "1" => Some(Unit::Count),
        _ => None,
    };
    CounterDescriptor {
        unit: known.map(|unit| unit as i32),
        is_incremental: is_incremental.then_some(true),
        unit_name: known.is_none().then(|| unit.trim_matches(['{', '}']).to_owned()),
    }
}
