//! Removing rings that nobody needs any more.

use crate::dir::SetError;
use crate::entry::{RingEntry, list};
use perfring_consumer::{
    AttachError, Count, Identity, Idle, Layout, OwnerInfo, Policy, RingFile, RingTotals, Role, Seat,
};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Which rings go.
///
/// Only one goes that no process is attached to, as the kernel's locks say, and that has been read
/// to its end: of those the oldest first, as the fields say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneRule {
    /// How long a ring stays after it was last alive. Zero: it goes at once. Default an hour.
    ///
    /// No clock tells when a process died. Counted is the time since the last sign of life: when
    /// the ring was made, when somebody attached to it, the stamp of its newest record; and the
    /// last time that this [`Pruner`] saw somebody attached.
    pub dead_for: Duration,
    /// How many of those that may go stay all the same, the newest of them. Default 0.
    pub keep: usize,
    /// Bytes that all rings of the directory may take together. Beyond that, rings that may go do
    /// so however young they are, and whatever [`keep`](PruneRule::keep) says. Default no limit.
    pub max_bytes: Option<u64>,
    /// Whether an overwrite ring may go although it has records: they are a dead program's last
    /// words. Default no.
    pub flight_recorders: bool,
}

impl Default for PruneRule {
    fn default() -> Self {
        PruneRule {
            dead_for: Duration::from_secs(3600),
            keep: 0,
            max_bytes: None,
            flight_recorders: false,
        }
    }
}

/// What becomes of a ring.
#[derive(Debug)]
pub enum Fate {
    /// It is gone; in a plan: it would go.
    Removed {
        /// Since its last sign of life.
        dead_for: Duration,
        /// Its books, to the end.
        totals: Box<RingTotals>,
    },
    /// It stays.
    Kept(Kept),
    /// It could go, and the system refuses.
    Failed(AttachError),
}

/// Why a ring stays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// A live process is attached as a producer.
    Producer(OwnerInfo),
    /// A live process is attached as the consumer.
    Consumer(OwnerInfo),
    /// Not all was read. Zero records: a loss that was not told yet.
    Unread(Count),
    /// Records wait behind what dead producers left open: `perfring recover` publishes them.
    Stranded(Count),
    /// A flight recorder's last words.
    LastWords(Count),
    /// Its books are damaged.
    Damaged,
    /// It has shown life this time ago.
    Young(Duration),
    /// It is one of the newest.
    Newest,
    /// Another ring has its name by now, or none.
    Changed,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = |owner: &OwnerInfo| match &owner.name[..] {
            "" => format!("unnamed, pid {}", owner.pid),
            name => format!("{}, pid {}", name.escape_default(), owner.pid),
        };
        match self {
            Kept::Producer(by) => write!(f, "has a producer ({})", owner(by)),
            Kept::Consumer(by) => write!(f, "has a consumer ({})", owner(by)),
            Kept::Unread(Count { records: 0, .. }) => f.write_str("not read to its end"),
            Kept::Unread(Count { records: 1, .. }) => f.write_str("1 record is not read"),
            Kept::Unread(count) => write!(f, "{} records are not read", count.records),
            Kept::Stranded(count) => {
                write!(f, "{} behind what dead producers left open: recover it", count.records)
            }
            Kept::LastWords(Count { records: 1, .. }) => {
                f.write_str("flight recorder with 1 record")
            }
            Kept::LastWords(count) => write!(f, "flight recorder with {} records", count.records),
            Kept::Damaged => f.write_str("its books are damaged"),
            Kept::Young(time) => write!(f, "alive {} s ago", time.as_secs()),
            Kept::Newest => f.write_str("one of the newest"),
            Kept::Changed => f.write_str("changed meanwhile"),
        }
    }
}

/// A ring, and what becomes of it.
#[derive(Debug)]
pub struct Verdict {
    /// The ring.
    pub ring: RingEntry,
    /// Bytes of its file.
    pub bytes: u64,
    /// What becomes of it.
    pub fate: Fate,
}

/// Removes rings of a directory by a rule, once or again and again.
///
/// A ring is looked at once more, and removed, with all its places locked: a producer that comes
/// back at that moment keeps it, or finds it gone and makes another, and publishes nothing into a
/// ring without a name.
///
/// ```
/// use perfring_set::{Fate, Kept, PruneRule, Pruner, RingSet};
/// use std::time::Duration;
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("rings");
/// let set = RingSet::open(&dir)?;
/// set.producer("quiet")?; // and gone again
/// set.producer("told")?.publish(b"something")?;
///
/// let rule = PruneRule { dead_for: Duration::ZERO, ..PruneRule::default() };
/// let verdicts = Pruner::new(&dir, rule).prune()?;
/// assert!(matches!(verdicts[0].fate, Fate::Removed { .. }));
/// assert!(matches!(verdicts[1].fate, Fate::Kept(Kept::Unread(_))));
/// assert!(!dir.join("quiet").exists() && dir.join("told").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pruner {
    dir: PathBuf,
    rule: PruneRule,
    /// When somebody was last seen attached to a ring that is there.
    alive: HashMap<Identity, Instant>,
}

impl Pruner {
    /// For this directory.
    pub fn new(dir: impl Into<PathBuf>, rule: PruneRule) -> Self {
        Pruner { dir: dir.into(), rule, alive: HashMap::new() }
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The rule.
    #[must_use]
    pub fn rule(&self) -> &PruneRule {
        &self.rule
    }

    /// Goes by another rule from now on.
    pub fn set_rule(&mut self, rule: PruneRule) {
        self.rule = rule;
    }

    /// What [`Pruner::prune`] would do, of all rings by name. Needs read permission.
    ///
    /// # Errors
    /// [`SetError::Dir`] if the directory is missing, or cannot be read.
    pub fn plan(&mut self) -> Result<Vec<Verdict>, SetError> {
        let (rings, _) = list(&self.dir)?;
        let now = Now::new();
        let mut alive = HashMap::new();
        let mut verdicts = Vec::with_capacity(rings.len());
        for (ring, file) in rings {
            let seen = self.alive.get(&ring.identity).copied();
            let judged = || -> Result<Fate, AttachError> {
                let totals = match judge_open(&file, &self.rule)? {
                    Ok(totals) => Box::new(totals),
                    Err(kept) => return Ok(Fate::Kept(kept)),
                };
                let dead_for = now.since(file.last_sign_of_life()?, seen);
                Ok(Fate::Removed { dead_for, totals })
            };
            let fate = judged().unwrap_or_else(Fate::Failed);
            let in_use = matches!(fate, Fate::Kept(Kept::Producer(_) | Kept::Consumer(_)));
            if let Some(seen) = if in_use { Some(now.monotonic) } else { seen } {
                alive.insert(ring.identity, seen);
            }
            let bytes = ring.layout.file_size();
            verdicts.push(Verdict { ring, bytes, fate });
        }
        self.alive = alive;
        choose(&mut verdicts, &self.rule);
        Ok(verdicts)
    }

    /// Removes what is to go. Returns what became of all rings, by name.
    ///
    /// # Errors
    /// [`SetError::Dir`] if the directory is missing, or cannot be read. What becomes of one ring
    /// is told with it.
    pub fn prune(&mut self) -> Result<Vec<Verdict>, SetError> {
        let mut verdicts = self.plan()?;
        for verdict in &mut verdicts {
            if let Fate::Removed { dead_for, .. } = verdict.fate {
                verdict.fate = self.remove(&verdict.ring, dead_for);
            }
        }
        Ok(verdicts)
    }

    /// Removes a ring if it is still as it was.
    fn remove(&self, ring: &RingEntry, dead_for: Duration) -> Fate {
        let removed = || -> Result<Fate, AttachError> {
            let idle = Idle::hold(&ring.path)?;
            if idle.file().identity()? != ring.identity {
                return Ok(Fate::Kept(Kept::Changed));
            }
            let totals = match judge(idle.file().layout(), idle.file().totals()?, &self.rule) {
                Ok(totals) => totals,
                Err(kept) => return Ok(Fate::Kept(kept)),
            };
            // Somebody may have come and gone since the first look.
            let quiet = Now::new().since(idle.file().last_sign_of_life()?, None);
            if quiet < dead_for {
                return Ok(Fate::Kept(Kept::Young(quiet)));
            }
            idle.remove()?;
            Ok(Fate::Removed { dead_for, totals: Box::new(totals) })
        };
        match removed() {
            Ok(fate) => fate,
            Err(AttachError::Busy { role, holder, .. }) => Fate::Kept(match role {
                Role::Producer => Kept::Producer(holder),
                Role::Consumer => Kept::Consumer(holder),
            }),
            Err(AttachError::NotFound { .. } | AttachError::Removed { .. }) => {
                Fate::Kept(Kept::Changed)
            }
            Err(error) => Fate::Failed(error),
        }
    }
}

/// Of those that may go: which do.
fn choose(verdicts: &mut [Verdict], rule: &PruneRule) {
    let mut all: u64 = verdicts.iter().map(|verdict| verdict.bytes).sum();
    let mut may_go: Vec<(Duration, &mut Verdict)> = verdicts
        .iter_mut()
        .filter_map(|verdict| match verdict.fate {
            Fate::Removed { dead_for, .. } => Some((dead_for, verdict)),
            _ => None,
        })
        .collect();
    may_go.sort_by_key(|(dead_for, _)| *dead_for); // the newest first
    let mut stay: Vec<(Kept, &mut Verdict)> = Vec::new();
    for (nth, (dead_for, verdict)) in may_go.into_iter().enumerate() {
        if dead_for < rule.dead_for {
            stay.push((Kept::Young(dead_for), verdict));
        } else if nth < rule.keep {
            stay.push((Kept::Newest, verdict));
        } else {
            all -= verdict.bytes;
        }
    }
    for (kept, verdict) in stay.into_iter().rev() {
        if rule.max_bytes.is_some_and(|max| all > max) {
            all -= verdict.bytes;
        } else {
            verdict.fate = Fate::Kept(kept);
        }
    }
}

/// Whether a ring may go, as far as the file tells: its books, or why not.
fn judge_open(file: &RingFile, rule: &PruneRule) -> Result<Result<RingTotals, Kept>, AttachError> {
    let producers = (0..file.layout().slots).map(Seat::Producer);
    for seat in producers.chain([Seat::Consumer]) {
        if file.is_held(seat)? {
            let owner = file.holder(seat)?;
            return Ok(Err(match seat {
                Seat::Producer(_) => Kept::Producer(owner),
                Seat::Consumer => Kept::Consumer(owner),
            }));
        }
    }
    Ok(judge(file.layout(), file.totals()?, rule))
}

/// As [`judge_open`], of a ring that nobody holds.
fn judge(
    layout: &Layout,
    totals: Option<RingTotals>,
    rule: &PruneRule,
) -> Result<RingTotals, Kept> {
    let totals = totals.ok_or(Kept::Damaged)?;
    if totals.stranded.records > 0 {
        return Err(Kept::Stranded(totals.stranded));
    }
    match layout.policy {
        // What stands there without records is what a loss is told by, or a hole.
        Policy::Drop if totals.tail != totals.head => Err(Kept::Unread(totals.present)),
        Policy::Overwrite if totals.present.records > 0 && !rule.flight_recorders => {
            Err(Kept::LastWords(totals.present))
        }
        _ => Ok(totals),
    }
}

/// One moment, by both clocks.
struct Now {
    monotonic: Instant,
    wall_ns: u64,
}

impl Now {
    fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        Now { monotonic: Instant::now(), wall_ns }
    }

    /// The time since the later of the two.
    fn since(&self, signs_ns: u64, seen: Option<Instant>) -> Duration {
        // A sign of the future, after the clock was set back, is one of now.
        let signs = Duration::from_nanos(self.wall_ns.saturating_sub(signs_ns));
        let seen = seen.map(|seen| self.monotonic.saturating_duration_since(seen));
        seen.map_or(signs, |seen| seen.min(signs))
    }
}
