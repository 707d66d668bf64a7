//! The types of the demo's records, and how a host's figures get into them: plain structs written
//! in place, and an rkyv archive serialised into the reservation. Each has a sequence number and a
//! time. The rings' type tables describe all of them, so every output of the sidecar has names.
//! (The ring `metrics` has OpenTelemetry's signals instead.) What a container hides is zero or
//! empty.

use bytemuck::{Pod, Zeroable};
use perfring_types::Record;
use procfs::CurrentSI;
use rkyv::{Archive, Serialize};
use std::collections::HashMap;
use std::time::Instant;

/// The record's number in its ring, and its time.
#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable, Record)]
pub(super) struct Stamp {
    /// Counts from 0, including the records that a full ring refused.
    pub(super) seq: u64,
    /// `CLOCK_BOOTTIME`, ns: the clock of the ring's own timestamps.
    #[record(unit = "ns")]
    pub(super) time_ns: u64,
}

/// What one processor has done since boot, in clock ticks.
#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable, Record)]
#[record(name = "demo.Cpu", id = 7001)]
pub(super) struct Cpu {
    pub(super) stamp: Stamp,
    /// Its number, or [`Cpu::ALL`].
    pub(super) cpu: u64,
    #[record(unit = "{tick}")]
    pub(super) busy: u64,
    /// Also while a disk was waited for.
    #[record(unit = "{tick}")]
    pub(super) idle: u64,
    /// Context switches of the whole system.
    pub(super) switches: u64,
}

impl Cpu {
    /// The sum over all processors.
    pub(super) const ALL: u64 = u64::MAX;

    /// One sample of each processor, and then one of all together.
    pub(super) fn read() -> Vec<Cpu> {
        let Ok(stats) = procfs::KernelStats::current() else { return Vec::new() };
        let all = (0..).zip(&stats.cpu_time).chain([(Cpu::ALL, &stats.total)]);
        let of = |(cpu, time): (u64, &procfs::CpuTime)| {
            let rare = [time.irq, time.softirq, time.steal].map(Option::unwrap_or_default);
            Cpu {
                stamp: Stamp::default(),
                cpu,
                busy: time.user + time.nice + time.system + rare.iter().sum::<u64>(),
                idle: time.idle + time.iowait.unwrap_or_default(),
                switches: stats.ctxt,
            }
        };
        all.map(of).collect()
    }
}

/// One reading of the clock: a long time between two of them was taken by the scheduler.
#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable, Record)]
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

impl Pulse {
    /// Reads a record, if it is one of these.
    pub(super) fn of(kind: u32, bytes: &[u8]) -> Option<Pulse> {
        let is_one = kind == Pulse::SCHEMA.id.get();
        bytemuck::try_pod_read_unaligned(bytes).ok().filter(|_| is_one)
    }
}

/// What went through disks and network interfaces since boot.
#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable, Record)]
#[record(name = "demo.Io", id = 7003)]
pub(super) struct Io {
    stamp: Stamp,
    #[record(unit = "By")]
    disk_bytes: u64,
    #[record(unit = "By")]
    net_bytes: u64,
}

impl Io {
    pub(super) fn read(stamp: Stamp) -> Io {
        const SECTOR: u64 = 512;
        let (mut whole, mut disk_bytes) = (String::new(), 0);
        for disk in procfs::diskstats().unwrap_or_default() {
            // A partition would count its disk's bytes twice.
            if whole.is_empty() || !disk.name.starts_with(&whole) {
                disk_bytes += (disk.sectors_read + disk.sectors_written) * SECTOR;
                whole = disk.name;
            }
        }
        let nets = procfs::net::dev_status().unwrap_or_default().into_values();
        let net_bytes = nets.map(|net| net.recv_bytes + net.sent_bytes).sum();
        Io { stamp, disk_bytes, net_bytes }
    }
}

/// The processes of the host, with the busiest by name.
#[derive(Archive, Serialize, Record)]
#[record(rkyv, name = "demo.Processes", id = 7004)]
pub(super) struct Processes {
    seq: u64,
    #[record(unit = "ns")]
    time_ns: u64,
    count: u32,
    busiest: Vec<Process>,
}

#[derive(Archive, Serialize, Record)]
#[record(rkyv)]
struct Process {
    pid: i32,
    name: String,
    /// Of one processor, since the last sample.
    cpu_permille: u32,
    #[record(unit = "By")]
    rss_bytes: u64,
}

impl Processes {
    /// Reads them. `last` has when that was done last, and the ticks that each had used by then.
    pub(super) fn read(
        last: &mut (Instant, HashMap<i32, u64>),
        Stamp { seq, time_ns }: Stamp,
    ) -> Processes {
        const NAMED: usize = 8;
        let (then, before) = std::mem::replace(last, (Instant::now(), HashMap::new()));
        let elapsed = then.elapsed().as_secs_f64();
        let mut busiest = Vec::new();
        // Processes that end during the scan are no error.
        for stat in procfs::process::all_processes().into_iter().flatten().flatten() {
            let Ok(stat) = stat.stat() else { continue };
            let used = stat.utime + stat.stime;
            last.1.insert(stat.pid, used);
            let used = used.saturating_sub(before.get(&stat.pid).copied().unwrap_or(used));
            let seconds = used as f64 / procfs::ticks_per_second() as f64;
            busiest.push(Process {
                pid: stat.pid,
                name: stat.comm,
                cpu_permille: (seconds / elapsed * 1000.0) as u32,
                rss_bytes: stat.rss * procfs::page_size(),
            });
        }
        let count = busiest.len() as u32;
        busiest.sort_by_key(|process| std::cmp::Reverse((process.cpu_permille, process.rss_bytes)));
        busiest.truncate(NAMED);
        Processes { seq, time_ns, count, busiest }
    }
}
