//! The types of the demo's records: plain structs written in place, and rkyv archives serialised
//! into the reservation. Each has a sequence number and a time. The rings' type tables describe all
//! of them, so every output of the sidecar has names. (The ring `metrics` has OpenTelemetry's
//! signals instead.)

use bytemuck::{Pod, Zeroable};
use perfring_producer::RecordType;
use perfring_types::Record;
use rkyv::api::low;
use rkyv::rancor;
use rkyv::{Archive, Serialize};

const CPU: RecordType = Cpu::SCHEMA.id;
const IO: RecordType = Io::SCHEMA.id;
const PROCESSES: RecordType = Processes::SCHEMA.id;
const PULSE: RecordType = Pulse::SCHEMA.id;

/// The record's number in its ring, and its time.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, Record)]
pub(super) struct Stamp {
    /// Counts from 0, including the records that a full ring refused.
    pub(super) seq: u64,
    /// `CLOCK_BOOTTIME`, ns: the clock of the ring's own timestamps.
    #[record(unit = "ns")]
    pub(super) time_ns: u64,
}

/// What one processor has done since boot, in clock ticks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, Record)]
#[record(name = "demo.Cpu", id = 7001)]
pub(super) struct Cpu {
    pub(super) stamp: Stamp,
    /// Its number, or [`Cpu::ALL`].
    pub(super) cpu: u64,
    #[record(unit = "{tick}")]
    pub(super) user: u64,
    #[record(unit = "{tick}")]
    pub(super) nice: u64,
    #[record(unit = "{tick}")]
    pub(super) system: u64,
    #[record(unit = "{tick}")]
    pub(super) idle: u64,
    #[record(unit = "{tick}")]
    pub(super) iowait: u64,
    #[record(unit = "{tick}")]
    pub(super) irq: u64,
    #[record(unit = "{tick}")]
    pub(super) softirq: u64,
    #[record(unit = "{tick}")]
    pub(super) steal: u64,
    /// Context switches of the whole system.
    pub(super) switches: u64,
}

impl Cpu {
    /// The sum over all processors.
    pub(super) const ALL: u64 = u64::MAX;

    pub(super) fn busy(&self) -> u64 {
        self.user + self.nice + self.system + self.irq + self.softirq + self.steal
    }

    pub(super) fn total(&self) -> u64 {
        self.busy() + self.idle + self.iowait
    }
}

/// One reading of the clock: a long time between two of them was taken by the scheduler.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, Record)]
#[record(name = "demo.Pulse", id = 7005)]
pub(super) struct Pulse {
    pub(super) stamp: Stamp,
    /// Since the previous reading, ns.
    #[record(unit = "ns")]
    pub(super) gap_ns: u64,
    /// How much later than requested the last sleep ended, ns.
    #[record(unit = "ns")]
    pub(super) late_ns: u64,
}

/// What went through disks and network interfaces since boot.
#[derive(Debug, Default, Archive, Serialize, Record)]
#[record(rkyv, name = "demo.Io", id = 7003)]
pub(super) struct Io {
    pub(super) seq: u64,
    #[record(unit = "ns")]
    pub(super) time_ns: u64,
    pub(super) disks: Vec<Disk>,
    pub(super) nets: Vec<Net>,
}

#[derive(Debug, Default, Archive, Serialize, Record)]
#[record(rkyv)]
pub(super) struct Disk {
    pub(super) name: String,
    #[record(unit = "By")]
    pub(super) read_bytes: u64,
    #[record(unit = "By")]
    pub(super) written_bytes: u64,
}

#[derive(Debug, Default, Archive, Serialize, Record)]
#[record(rkyv)]
pub(super) struct Net {
    pub(super) name: String,
    #[record(unit = "By")]
    pub(super) received_bytes: u64,
    #[record(unit = "By")]
    pub(super) sent_bytes: u64,
}

/// The processes of the host, with the busiest by name.
#[derive(Debug, Default, Archive, Serialize, Record)]
#[record(rkyv, name = "demo.Processes", id = 7004)]
pub(super) struct Processes {
    pub(super) seq: u64,
    #[record(unit = "ns")]
    pub(super) time_ns: u64,
    pub(super) count: u32,
    pub(super) busiest: Vec<Process>,
}

#[derive(Debug, Default, Archive, Serialize, Record)]
#[record(rkyv)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) name: String,
    /// Of one processor, since the last sample.
    pub(super) cpu_permille: u32,
    #[record(unit = "By")]
    pub(super) rss_bytes: u64,
}

/// A record, read in place.
#[derive(Clone, Copy)]
pub(super) enum Sample<'a> {
    Cpu(&'a Cpu),
    Io(&'a ArchivedIo),
    Processes(&'a ArchivedProcesses),
    Pulse(&'a Pulse),
}

impl<'a> Sample<'a> {
    /// Reads a payload by its type; `None` if it does not match. Archives are validated.
    pub(super) fn decode(kind: u32, bytes: &'a [u8]) -> Option<Self> {
        match RecordType::new(kind)? {
            CPU => bytemuck::try_from_bytes(bytes).ok().map(Sample::Cpu),
            PULSE => bytemuck::try_from_bytes(bytes).ok().map(Sample::Pulse),
            IO => low::access::<ArchivedIo, rancor::Failure>(bytes).ok().map(Sample::Io),
            PROCESSES => {
                low::access::<ArchivedProcesses, rancor::Failure>(bytes).ok().map(Sample::Processes)
            }
            _ => None,
        }
    }

    pub(super) fn seq(&self) -> u64 {
        match self {
            Sample::Cpu(sample) => sample.stamp.seq,
            Sample::Pulse(sample) => sample.stamp.seq,
            Sample::Io(io) => io.seq.to_native(),
            Sample::Processes(all) => all.seq.to_native(),
        }
    }
}
