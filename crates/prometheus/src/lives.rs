//! Which processes of rings are alive.

use super::series::ProcessId;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// The limit of processes of a ring that are remembered.
const MOST: usize = 1 << 16;

/// The processes that have published something, and since when each is known to be dead. A process is alive as long as
/// nothing says that it is dead.
#[derive(Debug, Default)]
pub(super) struct Lives {
    rings: HashMap<u32, HashMap<u64, Option<Instant>>>,
}

impl Lives {
    /// Notes that a process has published something.
    pub(super) fn seen(&mut self, (ring, pid): ProcessId) {
        let ring = self.rings.entry(ring).or_default();
        if ring.len() >= MOST && !ring.contains_key(&pid) {
            ring.clear();
        }
        ring.entry(pid).or_insert(None);
    }

    /// Learns the producers of a ring that are alive. A record without a pid is of any of them.
    pub(super) fn learn(&mut self, ring: u32, alive: &[u32], now: Instant) {
        for (pid, dead) in self.rings.get_mut(&ring).into_iter().flatten() {
            let is_alive = alive.iter().any(|its| *pid == 0 || u64::from(*its) == *pid);
            *dead = if is_alive { None } else { dead.or(Some(now)) };
        }
    }

    /// Returns since when a process is known to be dead.
    pub(super) fn dead_since(&self, (ring, pid): ProcessId) -> Option<Instant> {
        *self.rings.get(&ring)?.get(&pid)?
    }

    /// Forgets a ring.
    pub(super) fn ended(&mut self, ring: u32) {
        self.rings.remove(&ring);
    }

    /// Returns the processes that are dead for so long, and forgets them.
    pub(super) fn expire(&mut self, now: Instant, limit: Duration) -> HashSet<ProcessId> {
        let mut expired = HashSet::new();
        for (ring, processes) in &mut self.rings {
            processes.retain(|pid, dead| {
                let is_old =
                    dead.is_some_and(|since| now.saturating_duration_since(since) >= limit);
                if is_old {
                    expired.insert((*ring, *pid));
                }
                !is_old
            });
        }
        expired
    }
}
