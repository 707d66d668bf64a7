//! What a witness looks at of the whole machine: time that the hypervisor took, suspends, and a wall clock that is set.

use perfring_why::witness::{Clock, Steal, Suspend};
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::fs;

/// A wall clock that differs by less than this from what it was is adjusted by its daemon, or was read slowly, ns.
const STEP: i128 = 1_000_000;
/// A daemon makes a wall clock faster or slower by a twelfth at most: a difference below this part of the time is no step.
const SLEW: i128 = 8;
/// The same of the two clocks of which one stands still while the machine is suspended.
const SLEEP: i128 = 1_000_000;
/// The limit of time that the reading of three clocks takes, ns: after a longer one it says nothing.
const READING: i128 = 200_000;

/// The machine at the last look.
#[derive(Debug)]
pub(crate) struct Machine {
    looked: u64,
    stolen: HashMap<u32, u64>,
    /// The last reading of the clocks, and the look that succeeded in it.
    clocks: Option<(u64, Clocks)>,
}

/// What has changed since the look before.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) steals: Vec<Steal>,
    pub(crate) suspend: Option<Suspend>,
    pub(crate) clock: Option<Clock>,
}

/// How far two clocks are ahead of `CLOCK_MONOTONIC`, ns.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    boot: i128,
    wall: i128,
}

impl Clocks {
    /// Reads the clocks. `None` if something came between.
    fn read() -> Option<Self> {
        let now = |id| {
            let time = clock_gettime(id);
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        let before = now(ClockId::Monotonic);
        let (boot, wall) = (now(ClockId::Boottime), now(ClockId::Realtime));
        let after = now(ClockId::Monotonic);
        let middle = (before + after) / 2;
        (after - before <= READING).then_some(Clocks { boot: boot - middle, wall: wall - middle })
    }

    /// Returns by how much the wall clock was set since then, this many ns of `CLOCK_BOOTTIME` ago, and for how long the machine
    /// was suspended.
    fn since(self, then: Clocks, elapsed: u64) -> (Option<i64>, Option<u64>) {
        let slept = self.boot - then.boot;
        // What the machine slept, both have.
        let set = self.wall - then.wall - if slept >= SLEEP { slept } else { 0 };
        // A clock is slewed while the machine runs.
        let step = STEP.max((i128::from(elapsed) - slept.max(0)) / SLEW);
        let set = (set.abs() >= step).then(|| i64::try_from(set).ok());
        let slept = (slept >= SLEEP).then(|| u64::try_from(slept).ok());
        (set.flatten(), slept.flatten())
    }
}

impl Machine {
    pub(crate) fn new(now: u64) -> Self {
        let clocks = Clocks::read().map(|clocks| (now, clocks));
        Machine { looked: now, stolen: stolen().collect(), clocks }
    }

    /// Looks; `now` was read before.
    pub(crate) fn look(&mut self, now: u64) -> Changes {
        let mut changes = Changes::default();
        let before = std::mem::replace(&mut self.looked, now);
        let ticks = clock_ticks_per_second().max(1);
        for (cpu, total) in stolen() {
            let known = self.stolen.insert(cpu, total).unwrap_or(total);
            let added = total.saturating_sub(known).saturating_mul(1_000_000_000 / ticks);
            if added > 0 {
                let tick = (1_000_000 / ticks) as u32;
                changes.steals.push(Steal { cpu, tick, before, added });
            }
        }
        if let Some(clocks) = Clocks::read()
            && let Some((before, then)) = self.clocks.replace((now, clocks))
        {
            let (set, slept) = clocks.since(then, now.saturating_sub(before));
            changes.clock = set.map(|by| Clock { before, by });
            changes.suspend = slept.map(|added| Suspend { before, added });
        }
        changes
    }
}

/// Returns for how long the hypervisor had each CPU for others so far, in ticks.
fn stolen() -> impl Iterator<Item = (u32, u64)> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let lines: Vec<_> = stat.lines().filter_map(steal).collect();
    lines.into_iter()
}

/// Reads a line of `/proc/stat`, if it is of a CPU.
fn steal(line: &str) -> Option<(u32, u64)> {
    let (cpu, times) = line.strip_prefix("cpu")?.split_once(' ')?;
    Some((cpu.parse().ok()?, times.split_whitespace().nth(7)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_and_a_suspend_are_told_from_what_is_always_so() {
        assert_eq!(steal("cpu1 1 2 3 4 5 6 7 88 9 10"), Some((1, 88)));
        assert_eq!((steal("cpu  1 2 3 4 5 6 7 88 9 10"), steal("intr 7")), (None, None));
        let at = |boot, wall| Clocks { boot, wall };
        let then = at(5, 1_000);
        assert_eq!(at(100, 20_000).since(then, 20_000_000), (None, None), "the clock is slewed");
        assert_eq!(at(5, -3_199_999_000).since(then, 20_000_000), (Some(-3_200_000_000), None));
        let woke = |wall| at(9_000_000_005, wall).since(then, 9_020_000_000);
        assert_eq!(woke(9_000_001_000), (None, Some(9_000_000_000)));
        // chrony makes a clock faster by a twelfth at most, and a look may be late.
        assert_eq!(at(5, 1_600_000).since(then, 20_000_000), (None, None));
        assert_eq!(at(5, 2_600_000).since(then, 20_000_000), (Some(2_599_000), None));
        assert_eq!(at(5, 80_000_000).since(then, 1_000_000_000), (None, None));
        assert_eq!(woke(19_000_001_000), (Some(10_000_000_000), Some(9_000_000_000)));
        assert_eq!(woke(9_003_501_000), (Some(3_500_000), Some(9_000_000_000)), "of 20 ms awake");
        assert_eq!(woke(9_001_501_000), (None, Some(9_000_000_000)));
        let changes = Machine::new(0).look(20_000_000);
        assert!(changes.clock.is_none() && changes.suspend.is_none(), "{changes:?}");
    }
}
