//! Removing rings that are no longer needed.

use crate::dir::SetError;
use crate::entry::{RingEntry, list};
use perfring_consumer::{
    AttachError, Policy,
    files::{Identity, Idle, RingFile, Role, SeatId},
    stat::{Count, OwnerInfo, RingTotals},
};
use perfring_producer::files::remove_dead_drafts;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Which rings are removed.
///
/// A ring is removed only if no process is attached to it, by the kernel's locks, and it was read to its
/// end: the oldest first, within the limits of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneRule {
    /// How long a ring stays after its last sign of life. Zero: it is removed at once. Default an hour.
    ///
    /// When a process died is not recorded. The last sign of life is the latest of these: the ring was
    /// created, a process attached to it, its newest record has this timestamp, this [`Pruner`] saw a
    /// process attached.
    pub dead_for: Duration,
    /// The number of removable rings that are kept, from the newest on. Default 0.
    pub keep: usize,
    /// The most bytes of all rings together. Beyond that, removable rings are removed regardless of their age and
    /// [`keep`](PruneRule::keep). Default no limit.
    pub max_bytes: Option<u64>,
    /// Whether an overwrite ring with records may be removed: they are a dead program's last records. The same of values in a
    /// metrics area.
    /// Default no.
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

/// The fate of a ring.
#[derive(Debug)]
pub enum Fate {
    /// It was removed; in a plan: it would be.
    Removed {
        /// The time since its last sign of life.
        dead_for: Duration,
        /// Its final totals.
        totals: Box<RingTotals>,
    },
    /// It is kept.
    Kept(Kept),
    /// Removing it failed.
    Failed(AttachError),
}

/// Why a ring is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// A live process is attached as a producer.
    Producer(OwnerInfo),
    /// A live process is attached as the consumer.
    Consumer(OwnerInfo),
    /// It is not read to its end. Zero records: a loss is not reported yet.
    Unread(Count),
    /// It has records behind open reservations of dead producers: `perfring recover` publishes them.
    Stranded(Count),
    /// It is a flight recorder with records.
    LastRecords(Count),
    /// The number of instruments of dead programs with values in its metrics area.
    LastValues(u64),
    /// Its totals are damaged.
    Damaged,
    /// Its last sign of life was this time ago.
    Young(Duration),
    /// It is one of the newest.
    Newest,
    /// Its path has another ring by now, or none.
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
            Kept::LastRecords(Count { records: 1, .. }) => {
                f.write_str("flight recorder with 1 record")
            }
            Kept::LastRecords(count) => write!(f, "flight recorder with {} records", count.records),
            Kept::LastValues(1) => f.write_str("the values of 1 instrument"),
            Kept::LastValues(count) => write!(f, "the values of {count} instruments"),
            Kept::Damaged => f.write_str("its totals are damaged"),
            Kept::Young(time) => write!(f, "alive {} s ago", time.as_secs()),
            Kept::Newest => f.write_str("one of the newest"),
            Kept::Changed => f.write_str("changed meanwhile"),
        }
    }
}

/// A ring, and its treatment.
#[derive(Debug)]
pub struct Verdict {
    /// The ring.
    pub ring: RingEntry,
    /// Bytes of its file.
    pub bytes: u64,
    /// Its fate.
    pub fate: Fate,
}

/// Removes rings of a directory by a rule, once or repeatedly.
///
/// It checks a ring again and removes it with all its seats locked: a producer that attaches at that moment
/// keeps the ring, or finds it removed and creates another. No producer publishes into a removed ring.
///
/// ```
/// use perfring_set::{Fate, Kept, PruneRule, Pruner, RingSet};
/// use std::time::Duration;
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("rings");
/// let set = RingSet::open(&dir)?;
/// set.producer("empty")?; // and dropped
/// set.producer("unread")?.publish(b"something")?;
///
/// let rule = PruneRule { dead_for: Duration::ZERO, ..PruneRule::default() };
/// let verdicts = Pruner::new(&dir, rule).prune()?;
/// assert!(matches!(verdicts[0].fate, Fate::Removed { .. }));
/// assert!(matches!(verdicts[1].fate, Fate::Kept(Kept::Unread(_))));
/// assert!(!dir.join("empty").exists() && dir.join("unread").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pruner {
    dir: PathBuf,
    rule: PruneRule,
    /// When a process was last seen attached, for each ring in the directory.
    alive: HashMap<Identity, Instant>,
}

impl Pruner {
    /// Creates a pruner for this directory.
    pub fn new(dir: impl Into<PathBuf>, rule: PruneRule) -> Self {
        Pruner { dir: dir.into(), rule, alive: HashMap::new() }
    }

    /// Returns the directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the rule.
    #[must_use]
    pub fn rule(&self) -> &PruneRule {
        &self.rule
    }

    /// Sets the rule.
    pub fn set_rule(&mut self, rule: PruneRule) {
        self.rule = rule;
    }

    /// Returns the verdicts of [`Pruner::prune`] without executing them, for all rings by name. It needs read permission only.
    ///
    /// # Errors
    /// [`SetError::Dir`] if the directory is missing, or cannot be read.
    pub fn plan(&mut self) -> Result<Vec<Verdict>, SetError> {
        let (rings, _) = list(&self.dir)?;
        let now = Now::new();
        let mut alive = HashMap::new();
        let mut verdicts = Vec::with_capacity(rings.len());
        for ring in rings {
            let seen = self.alive.get(&ring.identity).copied();
            let judged = || -> Result<Fate, AttachError> {
                let file = RingFile::inspect(&ring.path)?;
                if file.identity()? != ring.identity {
                    return Ok(Fate::Kept(Kept::Changed));
                }
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

    /// Removes rings by the rule. Returns the verdicts of all rings, by name. Also removes files of rings that were
    /// never finished: see [`remove_dead_drafts`].
    ///
    /// # Errors
    /// [`SetError::Dir`] if the directory is missing, or cannot be read. An error of
    /// one ring is in its verdict.
    pub fn prune(&mut self) -> Result<Vec<Verdict>, SetError> {
        let mut verdicts = self.plan()?;
        crate::paths::dirs(&self.dir).unwrap_or_default().iter().for_each(remove_dead_drafts);
        for verdict in &mut verdicts {
            if let Fate::Removed { dead_for, .. } = verdict.fate {
                verdict.fate = self.remove(&verdict.ring, dead_for);
            }
        }
        Ok(verdicts)
    }

    /// Removes a ring if nothing has changed.
    fn remove(&self, ring: &RingEntry, dead_for: Duration) -> Fate {
        let removed = || -> Result<Fate, AttachError> {
            let idle = Idle::hold(&ring.path)?;
            if idle.file().identity()? != ring.identity {
                return Ok(Fate::Kept(Kept::Changed));
            }
            let totals = match judge(idle.file(), &self.rule)? {
                Ok(totals) => totals,
                Err(kept) => return Ok(Fate::Kept(kept)),
            };
            // A process may have attached and detached since the first check.
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

/// Chooses which of the removable rings are kept.
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

/// Returns a ring's totals if it is removable, or why not, from the file and its locks.
fn judge_open(file: &RingFile, rule: &PruneRule) -> Result<Result<RingTotals, Kept>, AttachError> {
    for seat in file.seats() {
        if file.is_held(seat)? {
            let owner = file.holder(seat)?;
            return Ok(Err(match seat {
                SeatId::Producer(_) => Kept::Producer(owner),
                SeatId::Consumer | SeatId::Named(_) => Kept::Consumer(owner),
            }));
        }
    }
    judge(file, rule)
}

/// Returns a ring's totals if it is removable, or why not. No process is attached to it.
fn judge(file: &RingFile, rule: &PruneRule) -> Result<Result<RingTotals, Kept>, AttachError> {
    let Some(totals) = file.totals()? else { return Ok(Err(Kept::Damaged)) };
    if totals.stranded.records > 0 {
        return Ok(Err(Kept::Stranded(totals.stranded)));
    }
    match file.layout().policy {
        // Space without records there is an unreported loss, or a hole.
        Policy::Drop if totals.tail != totals.head => {
            return Ok(Err(Kept::Unread(totals.present)));
        }
        Policy::Overwrite if totals.present.records > 0 && !rule.flight_recorders => {
            return Ok(Err(Kept::LastRecords(totals.present)));
        }
        _ => {}
    }
    Ok(match file.metrics_fill()?.instruments {
        count if count > 0 && !rule.flight_recorders => Err(Kept::LastValues(count)),
        _ => Ok(totals),
    })
}

/// The present time, by two clocks.
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

    /// Returns the time since the later of the two.
    fn since(&self, signs_ns: u64, seen: Option<Instant>) -> Duration {
        // A time of the future, after the clock was set back, counts as now.
        let signs = Duration::from_nanos(self.wall_ns.saturating_sub(signs_ns));
        let seen = seen.map(|seen| self.monotonic.saturating_duration_since(seen));
        seen.map_or(signs, |seen| seen.min(signs))
    }
}
