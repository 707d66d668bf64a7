//! The evidence of the last moments: for snapshots of rings.

use crate::error::WitnessError;
use crate::witness::{Files, Followed, Witness};
use perfring_consumer::advanced::{Front, MachineClock, SnapshotReader};
use perfring_consumer::{Item, Location, Snapshot};
use perfring_events::{Origin, Shapes};
use perfring_kernel::KernelSnapshot;
use perfring_set::Source;
use perfring_why::witness::{NAME, Of};
use std::time::{Duration, Instant};

/// How long the events of a process that has ended are kept.
const AFTER: Duration = Duration::from_secs(60);
/// How often it is found out which processes have ended.
const ENDED: Duration = Duration::from_secs(5);

/// A ring of a snapshot: what it is, and what it held.
pub type FrozenRing = (Origin, Box<dyn Source>);

/// Evidence that is there without a reader: rings in which the kernel overwrites its oldest events, and the witness's own.
///
/// ```
/// use perfring_consumer::{Location, advanced::MachineClock};
/// use perfring_witness::{Followed, Recent};
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("orders");
/// # let orders = Producer::create(&path, &Options::default())?;
/// let followed = [Followed { location: Location::from(&*path), uuid: orders.layout().uuid }];
/// let mut recent = Recent::begin(followed.clone())?;
/// let _wait = recent.look(followed.clone()); // from time to time
/// let copied = MachineClock::find()?.now_ns(); // the rings themselves
/// let evidence = recent.freeze(followed, copied, 1)?; // the numbers of its rings begin with 1
/// assert!(evidence.iter().any(|(origin, _)| origin.name == "perfring-why"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recent {
    witness: Witness,
    /// The witness's ring.
    own: Shapes,
    begun: u64,
    /// Since when which processes are known to have ended, by the names of their rings.
    ended: Vec<(String, Instant)>,
    next_ended: Instant,
}

impl Recent {
    /// Begins to watch, and looks at these rings for the first time.
    ///
    /// # Errors
    /// [`WitnessError`]. A missing permission is none: see [`Recent::missing`].
    pub fn begin(rings: impl IntoIterator<Item = Followed>) -> Result<Self, WitnessError> {
        // What the first looks find is in the witness's ring: it did not hold before.
        let begun = MachineClock::find()?.now_ns();
        let (witness, ring) = Witness::begin(Files::Snapshots, rings)?;
        let mut own = Shapes::open(ring.location(), 0)?;
        NAME.clone_into(&mut own.origin_mut().name);
        Ok(Recent { witness, own, begun, ended: Vec::new(), next_ended: Instant::now() })
    }

    /// Returns what [`Witness::missing`] does.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        self.witness.missing()
    }

    /// Looks at the processes of these rings, if it is time. Returns how long the next look may wait.
    pub fn look(&mut self, rings: impl IntoIterator<Item = Followed>) -> Duration {
        self.forget_ended();
        self.witness.look(rings)
    }

    /// Drops the rings of processes that have ended, or have left their seats, some time ago.
    fn forget_ended(&mut self) {
        let now = Instant::now();
        if now < self.next_ended {
            return;
        }
        self.next_ended = now.checked_add(ENDED).unwrap_or(now);
        let ended = &mut self.ended;
        let Some(kept) = self.witness.kept() else { return };
        kept.retain(|kept| {
            if kept.pid == 0 || !kept.ring.is_over() {
                return true;
            }
            match ended.iter().find(|(name, _)| *name == kept.name) {
                Some((_, since)) => now.duration_since(*since) < AFTER,
                None => {
                    ended.push((kept.name.clone(), now));
                    true
                }
            }
        });
        ended.retain(|(_, since)| now.duration_since(*since) <= AFTER);
    }

    /// Looks at the processes of these rings now, and returns the evidence as rings of a recording; the first one gets this
    /// number. The witness continues.
    ///
    /// In a recording of them, switches are known from the moment on from which the rings of all CPUs have them, and up to
    /// `until`. Up to that time, copies of the rings have all records. A thread that wrote none of them did not write.
    ///
    /// # Errors
    /// [`WitnessError`].
    pub fn freeze(
        &mut self,
        followed: impl IntoIterator<Item = Followed>,
        until: u64,
        first: u32,
    ) -> Result<Vec<FrozenRing>, WitnessError> {
        let mut rings: Vec<FrozenRing> = Vec::new();
        let mut number = first..;
        let mut id = || number.next().unwrap_or(u32::MAX);
        let mut watches: Vec<(Of, u32, u64)> = Vec::new();
        for kept in self.witness.kept().into_iter().flatten() {
            let (from, snapshot) = match kept.ring.snapshot() {
                Ok(mut snapshot) => (beginning(&mut snapshot), Some(snapshot)),
                Err(_) => (None, None),
            };
            let from = from.unwrap_or(u64::MAX).max(kept.since);
            match watches.iter_mut().find(|(of, pid, _)| (*of, *pid) == (kept.of, kept.pid)) {
                Some((_, _, begun)) => *begun = from.max(*begun),
                None => watches.push((kept.of, kept.pid, from)),
            }
            if let Some(snapshot) = snapshot {
                let origin = Origin::of_kernel(id(), &kept.name, snapshot.about().uuid);
                let (anchors, data_size) = (snapshot.anchors(), snapshot.about().data_size);
                let origin = Origin { anchors, data_size, ..origin };
                let shapes = Shapes::of(origin, snapshot.types());
                rings.push((shapes.origin().clone(), Box::new(snapshot)));
            }
        }
        self.witness.hurry();
        self.witness.look(followed);
        let own = self.own.snapshot()?.into_iter();
        let from = own.clone().map(|own| oldest(&own)).fold(self.begun, u64::max);
        watches.iter_mut().for_each(|(_, _, begun)| *begun = from.max(*begun));
        watches.retain(|(_, _, begun)| *begun < until);
        let standing = self.witness.standing(from, until, &watches)?;
        for snapshot in own.chain([standing]) {
            let location = Location::from(&*self.own.origin().location);
            let shapes = Shapes::of_snapshot(&snapshot, &location, id());
            let origin = Origin { name: NAME.to_owned(), ..shapes.origin().clone() };
            rings.push((origin, Box::new(SnapshotReader::new(snapshot))));
        }
        Ok(rings)
    }
}

/// Returns since when all events are there, and takes what says that older ones are not: 0 if nothing was overwritten, `None` if
/// that is not known.
fn beginning(snapshot: &mut KernelSnapshot) -> Option<u64> {
    let (mut from, mut front) = (Some(0), snapshot.peek().ok()?);
    while front == Front::Lost {
        front = snapshot.take().ok()??.1;
        from = match front {
            Front::Timestamped(time) => Some(time),
            _ => None,
        };
    }
    from
}

/// Returns the time of the oldest record, if older ones were overwritten; else 0.
fn oldest(own: &Snapshot) -> u64 {
    let first = own.iter().find_map(|item| match item {
        Ok(Item::Record(record)) => record.time,
        _ => None,
    });
    if own.span().start == 0 { 0 } else { first.unwrap_or(u64::MAX) }
}
