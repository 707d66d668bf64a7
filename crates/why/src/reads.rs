//! Records that a consumer reads late: what looks at its position say.

use crate::evidence::Thread;
use crate::gap::{Gap, Parts};
use std::collections::{HashMap, VecDeque};

/// The limit of records that are remembered until they are read; beyond it the oldest are forgotten.
const MOST: usize = 1 << 16;

/// Consumers that are followed.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// By their rings, and the numbers of their seats.
    readers: HashMap<u32, HashMap<u32, Follower>>,
    /// The time between two records that are remembered, ns: half of what counts as late.
    grain: u64,
    late: u64,
}

#[derive(Debug, Default)]
struct Follower {
    /// Some of the records that are not read yet: their positions and times.
    unread: VecDeque<(u64, u64)>,
    late: Option<Late>,
}

/// A time for which records were read late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) ring: u32,
    pub(crate) number: u32,
    pub(crate) pid: u32,
    /// When the first such record was published.
    pub(crate) from: u64,
    /// The last look that found such a record unread.
    pub(crate) until: u64,
    /// The time of the record that waited longest, and for how long it did, at least.
    pub(crate) worst: (u64, u64),
    /// What the consumer's only thread did, since then.
    pub(crate) parts: Option<(u64, Parts)>,
}

impl Late {
    /// Returns the time of which the parts are, as a gap of the thread.
    pub(crate) fn watched(&self, thread: Thread) -> Option<Gap> {
        let (from, parts) = self.parts.clone()?;
        let (ring, until) = (self.ring, self.until);
        Some(Gap { thread, ring, from, until, cpu: None, is_open: false, parts })
    }
}

impl Reads {
    /// Returns the followers of consumers that read a record later than this.
    pub(crate) fn new(late: u64) -> Self {
        Reads { readers: HashMap::new(), grain: late / 2, late }
    }

    /// A record was published.
    pub(crate) fn record(&mut self, ring: u32, pos: u64, time: u64) {
        for follower in self.readers.get_mut(&ring).into_iter().flat_map(HashMap::values_mut) {
            let last = follower.unread.back().map_or(0, |(_, time)| *time);
            if time.saturating_sub(last) >= self.grain {
                if follower.unread.len() >= MOST {
                    follower.unread.pop_front();
                }
                follower.unread.push_back((pos, time));
            }
        }
    }

    /// A look found that the consumer has released all before a position. `did` is what its only thread did since the look
    /// before. Returns the time that has ended for which it read late.
    pub(crate) fn look(
        &mut self,
        (ring, number, pid): (u32, u32, u32),
        pos: u64,
        look: u64,
        did: Option<(u64, Parts)>,
    ) -> Option<Late> {
        let follower = self.readers.entry(ring).or_default().entry(number).or_default();
        while follower.unread.front().is_some_and(|(at, _)| *at < pos) {
            follower.unread.pop_front();
        }
        let oldest = follower.unread.front().map(|(_, time)| *time);
        let waited = oldest.map_or(0, |time| look.saturating_sub(time));
        let Some(oldest) = oldest.filter(|_| waited >= self.late) else {
            return follower.late.take();
        };
        match &mut follower.late {
            Some(late) if oldest <= late.until && late.pid == pid => {
                late.until = look;
                if waited > late.worst.1 {
                    late.worst = (oldest, waited);
                }
                late.parts = match (late.parts.take(), did) {
                    (Some((since, mut parts)), Some((_, later))) => {
                        parts.add(later);
                        Some((since, parts))
                    }
                    _ => None,
                };
                None
            }
            late => {
                let worst = (oldest, waited);
                let new = Late { ring, number, pid, from: oldest, until: look, worst, parts: did };
                late.replace(new)
            }
        }
    }

    /// Returns the times that last up to the end.
    pub(crate) fn end(&mut self) -> Vec<Late> {
        let followers = self.readers.values_mut().flat_map(HashMap::values_mut);
        let mut all: Vec<Late> = followers.filter_map(|follower| follower.late.take()).collect();
        all.sort_by_key(|late| (late.from, late.ring, late.number));
        all
    }
}
