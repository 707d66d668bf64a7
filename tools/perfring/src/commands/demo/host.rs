//! Figures of this host from `/proc`. What a container hides is zero or empty.

use super::records::{Cpu, Disk, Net, Process, Stamp};
use procfs::{Current, CurrentSI};
use std::collections::HashMap;
use std::time::Instant;

/// Lists are truncated to this length, so that an archive fits its reservation.
const MOST: usize = 32;

/// One sample of each processor and one of all together.
pub(super) fn cpus() -> Vec<Cpu> {
    let Ok(stats) = procfs::KernelStats::current() else { return Vec::new() };
    let of = |cpu, time: &procfs::CpuTime| Cpu {
        stamp: Stamp::default(),
        cpu,
        user: time.user,
        nice: time.nice,
        system: time.system,
        idle: time.idle,
        iowait: time.iowait.unwrap_or(0),
        irq: time.irq.unwrap_or(0),
        softirq: time.softirq.unwrap_or(0),
        steal: time.steal.unwrap_or(0),
        switches: stats.ctxt,
    };
    let mut cpus: Vec<Cpu> = (0..).zip(&stats.cpu_time).map(|(n, time)| of(n, time)).collect();
    cpus.push(of(Cpu::ALL, &stats.total));
    cpus
}

/// The host's memory, in bytes, and its load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) available: u64,
    pub(super) cached: u64,
    /// The load average over a minute.
    pub(super) load: f64,
}

pub(super) fn memory() -> Memory {
    let Ok(info) = procfs::Meminfo::current() else { return Memory::default() };
    Memory {
        total: info.mem_total,
        available: info.mem_available.unwrap_or(info.mem_free),
        cached: info.cached,
        load: procfs::LoadAverage::current().map_or(0.0, |load| f64::from(load.one)),
    }
}

/// Whole disks that were ever used. Partitions would count their disk's bytes twice.
pub(super) fn disks() -> Vec<Disk> {
    const SECTOR: u64 = 512;
    let disks = procfs::diskstats().unwrap_or_default();
    let mut seen: Vec<Disk> = Vec::new();
    for disk in disks {
        let part_of_last = seen.last().is_some_and(|last| disk.name.starts_with(&last.name));
        if part_of_last || disk.reads + disk.writes == 0 || seen.len() == MOST {
            continue;
        }
        seen.push(Disk {
            name: disk.name,
            read_bytes: disk.sectors_read * SECTOR,
            written_bytes: disk.sectors_written * SECTOR,
        });
    }
    seen
}

/// Interfaces that were ever used.
pub(super) fn nets() -> Vec<Net> {
    let nets = procfs::net::dev_status().unwrap_or_default();
    let mut nets: Vec<Net> = nets
        .into_values()
        .filter(|net| net.recv_bytes + net.sent_bytes > 0)
        .map(|net| Net {
            name: net.name,
            received_bytes: net.recv_bytes,
            sent_bytes: net.sent_bytes,
        })
        .collect();
    nets.sort_by(|a, b| a.name.cmp(&b.name));
    nets.truncate(MOST);
    nets
}

/// Remembers what each process had used, to compute what it used since.
#[derive(Debug)]
pub(super) struct ProcessTable {
    ticks: HashMap<i32, u64>,
    at: Instant,
}

impl ProcessTable {
    const NAMED: usize = 8;

    pub(super) fn new() -> Self {
        ProcessTable { ticks: HashMap::new(), at: Instant::now() }
    }

    /// Returns the number of processes, and the busiest since the last sample.
    pub(super) fn peek(&mut self) -> (u32, Vec<Process>) {
        let elapsed = self.at.elapsed().as_secs_f64();
        self.at = Instant::now();
        let mut ticks = HashMap::new();
        let mut all = Vec::new();
        // Processes that end during the scan are no error.
        for stat in procfs::process::all_processes().into_iter().flatten().flatten() {
            let Ok(stat) = stat.stat() else { continue };
            let used = stat.utime + stat.stime;
            let before = self.ticks.get(&stat.pid).copied().unwrap_or(used);
            let seconds = used.saturating_sub(before) as f64 / procfs::ticks_per_second() as f64;
            ticks.insert(stat.pid, used);
            all.push(Process {
                pid: stat.pid,
                name: stat.comm,
                cpu_permille: (seconds / elapsed * 1000.0) as u32,
                rss_bytes: stat.rss * procfs::page_size(),
            });
        }
        self.ticks = ticks;
        let count = all.len() as u32;
        all.sort_by_key(|process| std::cmp::Reverse((process.cpu_permille, process.rss_bytes)));
        all.truncate(Self::NAMED);
        (count, all)
    }
}
