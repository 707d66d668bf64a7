//! A summary of the records' contents for the live table.

use super::records::{Cpu, Sample};
use super::screen::{Bytes, Nanos};
use indicatif::HumanCount;

/// A summary of a ring's records.
#[derive(Debug, Default)]
pub(super) struct Says {
    cpu: Option<Cpu>,
    cpu_before: Option<Cpu>,
    io: Option<IoSum>,
    io_before: Option<IoSum>,
    gap_ns: u64,
    late_ns: u64,
    line: String,
}

#[derive(Clone, Copy, Debug)]
struct IoSum {
    time_ns: u64,
    disk: u64,
    net: u64,
}

impl Says {
    pub(super) fn take(&mut self, sample: &Sample<'_>) {
        match *sample {
            Sample::Cpu(sample) if sample.cpu == Cpu::ALL => self.cpu = Some(*sample),
            Sample::Cpu(_) => {}
            Sample::Io(io) => {
                let disks = io.disks.iter();
                let disk = disks
                    .map(|disk| disk.read_bytes.to_native() + disk.written_bytes.to_native())
                    .sum();
                let nets = io.nets.iter();
                let net = nets
                    .map(|net| net.received_bytes.to_native() + net.sent_bytes.to_native())
                    .sum();
                self.io = Some(IoSum { time_ns: io.time_ns.to_native(), disk, net });
            }
            Sample::Processes(all) => {
                self.line = format!("{} run", all.count);
                if let Some(first) = all.busiest.first() {
                    let percent = first.cpu_permille.to_native() / 10;
                    self.line += &format!(", {} {percent}%", first.name);
                }
            }
            Sample::Pulse(pulse) => {
                self.gap_ns = self.gap_ns.max(pulse.gap_ns);
                self.late_ns = self.late_ns.max(pulse.late_ns);
            }
        }
    }

    pub(super) fn log(&mut self, body: &str) {
        body.clone_into(&mut self.line);
    }

    /// Returns the summary of the time since the last call.
    pub(super) fn line(&mut self) -> String {
        if let Some(now) = self.cpu {
            let before = self.cpu_before.replace(now).unwrap_or_default();
            let total = now.total().saturating_sub(before.total());
            let busy = now.busy().saturating_sub(before.busy());
            // Less than a clock tick may have passed: the last summary stays.
            if let Some(percent) = (busy * 100).checked_div(total) {
                let switches = now.switches.saturating_sub(before.switches) * 1_000_000_000;
                let time = now.stamp.time_ns.saturating_sub(before.stamp.time_ns).max(1);
                self.line = match before.stamp.time_ns {
                    0 => format!("{percent}% busy since boot"),
                    _ => format!("{percent}% busy, {} cs/s", HumanCount(switches / time)),
                };
            }
        }
        if let (Some(now), Some(before)) = (self.io, self.io_before)
            && now.time_ns > before.time_ns
        {
            let seconds = (now.time_ns - before.time_ns) as f64 / 1e9;
            let rate =
                |now: u64, before: u64| Bytes((now.saturating_sub(before) as f64 / seconds) as u64);
            self.line = format!(
                "disk {}/s, net {}/s",
                rate(now.disk, before.disk),
                rate(now.net, before.net)
            );
        }
        self.io_before = self.io.or(self.io_before);
        if self.gap_ns > 0 {
            let (gap, late) = (Nanos(self.gap_ns), Nanos(self.late_ns));
            self.line = format!("gap {gap}, late {late}");
            (self.gap_ns, self.late_ns) = (0, 0);
        }
        self.line.clone()
    }
}
