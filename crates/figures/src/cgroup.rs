//! What a cgroup's files say of a process: for how long its group was throttled, and for how long it waited for memory.

use std::fs;
use std::path::PathBuf;

/// The `cpu.stat` of the group that a process is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuStat {
    path: PathBuf,
    /// The version of cgroups, 1 or 2.
    pub version: u32,
}

impl CpuStat {
    /// Finds the file; `None` if the process is not visible, or its group has none: the root group has none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        places(&groups).into_iter().find(|stat| stat.throttled_ns().is_some())
    }

    /// Returns for how long the group was throttled so far, ns.
    #[must_use]
    pub fn throttled_ns(&self) -> Option<u64> {
        throttled(&fs::read_to_string(&self.path).ok()?)
    }
}

/// The memory of the group that a process is in: of version 2 of cgroups alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryStat {
    dir: PathBuf,
}

impl MemoryStat {
    /// Finds the group; `None` if the process is not visible, or its group lacks such files: the root group lacks them.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let stat = MemoryStat { dir: PathBuf::from(format!("/sys/fs/cgroup{group}")) };
        stat.high().is_some().then_some(stat)
    }

    /// Returns how often the group went over `memory.high` so far.
    #[must_use]
    pub fn high(&self) -> Option<u64> {
        high(&fs::read_to_string(self.dir.join("memory.events")).ok()?)
    }

    /// Returns for how long some task of the group waited for memory so far, ns.
    #[must_use]
    pub fn stalled_ns(&self) -> Option<u64> {
        stalled(&fs::read_to_string(self.dir.join("memory.pressure")).ok()?)
    }
}

fn high(events: &str) -> Option<u64> {
    events.lines().find_map(|line| line.strip_prefix("high "))?.trim().parse().ok()
}

/// Reads the total of the first line, which is in µs.
fn stalled(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split(' ').find_map(|word| word.strip_prefix("total="))?;
    total.trim().parse::<u64>().ok()?.checked_mul(1_000)
}

/// Returns where the file may be, by the lines of a `/proc/PID/cgroup`: version 2 first.
fn places(groups: &str) -> Vec<CpuStat> {
    let of = |root: &str, group: &str, version| CpuStat {
        path: PathBuf::from(format!("{root}{}/cpu.stat", group.trim_end_matches('/'))),
        version,
    };
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        match controllers {
            "" => found.insert(0, of("/sys/fs/cgroup", group, 2)),
            cpu if cpu.split(',').any(|name| name == "cpu") => {
                found.push(of("/sys/fs/cgroup/cpu", group, 1));
            }
            _ => {}
        }
    }
    found
}

/// Reads `throttled_usec`, or the older `throttled_time`, which is in ns.
fn throttled(stat: &str) -> Option<u64> {
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    value("throttled_usec").and_then(|us| us.checked_mul(1_000)).or_else(|| value("throttled_time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_group_is_read() {
        assert_eq!(high("low 0\nhigh 12\nmax 3\noom 0\n"), Some(12));
        assert_eq!(high("low 0\n"), None);
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=250\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!((stalled(pressure), stalled("full total=7\n")), (Some(250_000), None));
        assert_eq!(MemoryStat::of(0), None);
    }

    #[test]
    fn both_versions_of_cgroups_are_read() {
        let found = places("12:cpu,cpuacct:/a\n3:cpuset:/b\n1:name=systemd:/c\n0::/user.slice/d\n");
        let found: Vec<_> =
            found.iter().map(|stat| (stat.path.to_str().unwrap_or(""), stat.version)).collect();
        let second = ("/sys/fs/cgroup/user.slice/d/cpu.stat", 2);
        assert_eq!(found, [second, ("/sys/fs/cgroup/cpu/a/cpu.stat", 1)]);
        assert_eq!(places("2:cpu:/\n")[0].path, PathBuf::from("/sys/fs/cgroup/cpu/cpu.stat"));
        assert_eq!(throttled("usage_usec 7\nnr_throttled 1\nthrottled_usec 25\n"), Some(25_000));
        assert_eq!(throttled("nr_periods 7\nthrottled_time 25\n"), Some(25));
        assert_eq!(throttled("usage_usec 7\n"), None);
    }
}
