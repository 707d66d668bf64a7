//! The engine: passes records from rings through the merge to outputs, and releases delivered
//! records.

mod bucket;
mod checkpoint;
pub(crate) mod files;
mod lane;
mod lanes;
mod mark;
mod merges;
mod metrics;
mod metrics_source;
mod outlet;
mod outlets;
pub(crate) mod overdue;
mod pending;
mod place;
mod places;
mod randomness;
mod record_rules;
mod refused;
mod reporting;
mod ring;
mod rings;
pub(crate) mod shown;
pub(crate) mod turn;
mod unmet;
mod untold;

pub use merges::RingId;
pub use outlet::{Dropped, OutputStatus};
pub use places::Removed;
pub use record_rules::RuleStatus;
pub(crate) use ring::Idle;
pub use ring::{AttachFailure, Note, RingFigures, RingStatus};

use crate::config::filter::Filter;
use crate::config::record_rule::RecordRule;
use crate::config::snapshot_rule::SnapshotRule;
use crate::config::{Delivery, Input, METRICS_INTERVAL};
use checkpoint::Run;
use merges::Merges;
use metrics_source::Watch;
use outlet::Outlet;
use outlets::Outlets;
use pending::Pending;
use perfring_consumer::{
    Location, Start,
    advanced::{MachineClock, Saved},
    error::ClockError,
};
use perfring_export::{Origin, Output, OutputError, Shapes};
use perfring_set::{MergeFigures, Source};
use ring::{Ring, Stage};
use rings::Rings;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The limit of damaged rings that are counted separately.
const DAMAGED_MAX: usize = 65_536;

/// Reads many rings in the order of time, passes what it reads to outputs, and releases records in
/// their rings once every output that promises delivery has delivered them.
///
/// Rings with priority are read first in each turn: three quarters of it, at most, while others have something.
///
/// Each such output has its own place in each ring. One without room falls behind, and the others go
/// on; what it lacks is still in the rings, and is read there once more when it has room.
///
/// It never waits and uses no files except rings: [`Sidecar`](crate::Sidecar) drives it. Its memory
/// is bounded: it holds one record for each output that has no room for it.
///
/// ```
/// use perfring_export::Null;
/// use perfring_sidecar::{Engine, Turn, config::{Delivery, Input, InputSource}};
/// # use perfring_producer::{Options, Producer};
/// # use std::time::Duration;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # let mut producer = Producer::create(&path, &Options::default())?;
/// let mut engine = Engine::new(Duration::from_millis(1))?;
/// engine.add_output("null", Delivery::Required, Default::default(), Box::new(Null::default()))?;
/// let location = path.into();
/// engine.attach(&location, &Input::new(InputSource::Ring(location.clone())), None, |_| None)?;
/// producer.publish(b"a record")?;
/// while engine.rings().any(|ring| ring.figures.records == 0) {
///     if engine.turn() != Turn::More {
///         engine.wait(Duration::from_millis(10));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Engine {
    merges: Merges,
    rings: Rings,
    by_uuid: HashMap<[u8; 16], RingId>,
    outlets: Outlets,
    snapshots: Vec<SnapshotRule>,
    record_rules: Vec<RecordRule>,
    clock: MachineClock,
    turn: u64,
    /// Rings of which something was read in this turn.
    touched: Vec<RingId>,
    /// The events of this turn.
    runs: Vec<Run<RingId>>,
    /// Rings in which some output's place has moved since the last release.
    moved: Vec<RingId>,
    /// The event that an output lacks while no other goes on, and the output.
    pending: Option<(usize, Pending)>,
    /// Rings that are not in [`Stage::Reading`].
    leaving: Vec<RingId>,
    /// Rings of the kernel.
    kernel: Vec<RingId>,
    /// The metrics areas that are sampled, by their rings.
    metrics: HashMap<[u8; 16], RingId>,
    areas: HashMap<RingId, Arc<Watch>>,
    metrics_interval: Duration,
    /// The number of the next ring.
    id: u32,
    notes: Vec<Note>,
    /// Rings with a problem that ended their reading.
    damaged: u64,
    /// Those of them that have an id, to count each once.
    damaged_ids: HashSet<[u8; 16]>,
    /// What rings counted that are not read any more.
    ended: RingFigures,
    /// The rules that records triggered, a bit each.
    met: u64,
}

impl Engine {
    /// Creates an engine without rings and outputs; records are held back for at most `delay`.
    ///
    /// # Errors
    /// [`ClockError`].
    pub fn new(delay: Duration) -> Result<Self, ClockError> {
        Ok(Engine {
            merges: Merges::new(delay)?,
            rings: Rings::default(),
            by_uuid: HashMap::new(),
            outlets: Outlets::default(),
            snapshots: Vec::new(),
            record_rules: Vec::new(),
            clock: MachineClock::find()?,
            turn: 0,
            touched: Vec::new(),
            runs: Vec::new(),
            moved: Vec::new(),
            pending: None,
            leaving: Vec::new(),
            kernel: Vec::new(),
            metrics: HashMap::new(),
            areas: HashMap::new(),
            metrics_interval: METRICS_INTERVAL,
            id: 0,
            notes: Vec::new(),
            damaged: 0,
            damaged_ids: HashSet::new(),
            ended: RingFigures::default(),
            met: 0,
        })
    }

    /// Adds an output. All rings are announced to it before the first record.
    ///
    /// # Errors
    /// [`OutputError`]: there are too many.
    pub fn add_output(
        &mut self,
        name: &str,
        delivery: Delivery,
        filter: Filter,
        output: Box<dyn Output>,
    ) -> Result<(), OutputError> {
        let bit = self.outlets.add(name, delivery, filter, output)?;
        self.rings.iter_mut().for_each(|(_, ring)| ring.began &= !bit);
        self.apply_record_rules();
        Ok(())
    }

    /// Sets the rules by which outputs are not given records. A rule that stays the same for an output goes on, with its
    /// figures.
    pub fn set_record_rules(&mut self, rules: Vec<RecordRule>) {
        self.record_rules = rules;
        self.report_left_out();
        self.apply_record_rules();
    }

    fn apply_record_rules(&mut self) {
        for outlet in self.outlets.iter_mut() {
            outlet.set_rules(&self.record_rules);
        }
    }

    /// Reports what rules left out, without further delay.
    fn report_left_out(&mut self) {
        self.outlets.iter_mut().for_each(|outlet| outlet.rules.hurry());
        self.flush();
    }

    /// Sets the rules by which records trigger snapshots.
    pub fn set_snapshots(&mut self, rules: Vec<SnapshotRule>) {
        self.snapshots = rules;
    }

    /// Attaches to a ring as its input says, if it is the one with this id. `start` returns where an
    /// observer starts, if that is not where the input says.
    ///
    /// # Errors
    /// [`AttachFailure`].
    pub fn attach(
        &mut self,
        location: &Location,
        input: &Input,
        uuid: Option<[u8; 16]>,
        start: impl FnOnce(&[u8; 16]) -> Option<Start>,
    ) -> Result<RingId, AttachFailure> {
        let (mut ring, source) = Ring::attach(location, input, self.id, uuid, start)?;
        self.name(&mut ring);
        let metrics = ring.shapes.observer().is_some_and(|ring| ring.layout().metrics_size > 0);
        let name = ring.shapes.origin().name.clone();
        let id = self.insert(ring, source);
        if metrics && let Err(error) = self.add_metrics(location, name, input) {
            self.detach(id);
            return Err(error.into());
        }
        Ok(id)
    }

    /// Adds a ring of the kernel, which is read until what it observes ends.
    pub fn add_kernel(&mut self, name: &str, source: Box<dyn Source>, input: &Input) -> RingId {
        let about = source.about();
        let (anchors, data_size) = (source.anchors(), about.data_size);
        let origin = Origin { anchors, data_size, ..Origin::of_kernel(self.id, name, about.uuid) };
        let shapes = Shapes::of(origin, source.types());
        let mut ring = Ring::new(shapes, None, input.clone(), false);
        self.name(&mut ring);
        let id = self.insert(ring, source);
        self.kernel.push(id);
        self.leave(id);
        id
    }

    /// Updates the anchors of the kernel's rings, which have none of their own, as the clock may be
    /// set.
    fn anchor(&mut self) {
        for id in &self.kernel {
            if let (Some(ring), Some(source)) = (self.rings.get_mut(*id), self.merges.source(*id)) {
                ring.shapes.origin_mut().anchors = source.anchors();
            }
        }
    }

    fn insert(&mut self, mut ring: Ring, source: Box<dyn Source>) -> RingId {
        ring.first = source.resume_point();
        ring.read = ring.first;
        self.id = self.id.wrapping_add(1);
        let id = self.merges.add(ring.class(), source, self.rings.vacant());
        self.by_uuid.insert(ring.uuid(), id);
        let ring = self.rings.add(id, ring);
        // At once, also for a ring that stays empty; a busy output is notified later.
        self.outlets.begin(&mut ring.began, ring.shapes.origin());
        id
    }

    fn leave(&mut self, id: RingId) {
        if !self.leaving.contains(&id) {
            self.leaving.push(id);
        }
    }

    /// Stops reading the rings of an input: what was read is delivered, the rest stays.
    pub fn drop_input(&mut self, input: &Input) {
        for (id, ring) in self.rings.iter_mut() {
            if ring.input == *input && ring.stage == Stage::Reading {
                ring.stage = Stage::Ending;
                self.leaving.push(id);
            }
        }
    }

    /// Takes the rules that records triggered, a bit each.
    pub(crate) fn met(&mut self) -> u64 {
        std::mem::take(&mut self.met)
    }

    /// Takes the error of an output with required delivery that cannot continue, if there is one.
    pub(crate) fn take_failed(&mut self) -> Option<OutputError> {
        let mut outlets = self.outlets.iter_mut().filter(|outlet| outlet.is_required());
        outlets.find_map(|outlet| outlet.failed.take())
    }

    /// Returns whether an output with required delivery cannot continue.
    pub(crate) fn has_failed(&self) -> bool {
        self.outlets.iter().any(|outlet| outlet.is_required() && outlet.failed.is_some())
    }

    /// Takes the notes since the last call.
    pub fn notes(&mut self) -> Vec<Note> {
        self.note_trouble();
        std::mem::take(&mut self.notes)
    }

    /// Waits until there may be something to read.
    pub fn wait(&mut self, timeout: Duration) {
        self.merges.wait(timeout);
    }

    /// Stops reading this ring, which stays as it is: what was read is delivered.
    pub(crate) fn detach(&mut self, id: RingId) {
        if let Some(ring) = self.rings.get_mut(id)
            && ring.stage == Stage::Reading
        {
            ring.stage = Stage::Ending;
            self.leave(id);
        }
    }

    /// Returns whether everything that was read is delivered.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_level() && self.outlets.iter().all(|outlet| outlet.places.is_settled())
    }

    /// Returns how many rings are attached to.
    pub(crate) fn attached(&self) -> usize {
        self.rings.len()
    }

    /// Returns the status of all rings.
    pub fn rings(&self) -> impl Iterator<Item = RingStatus<'_>> {
        let rings = self.rings.iter().map(|(_, ring)| ring);
        rings.filter(|ring| ring.stage != Stage::Gone).map(Ring::status)
    }

    /// Returns the sums of what all rings counted, those included that are not read any more.
    #[must_use]
    pub fn ring_figures(&self) -> RingFigures {
        let mut sum = self.ended.clone();
        self.rings().for_each(|ring| sum.add(ring.figures));
        sum
    }

    /// Returns what those counted that are not read any more.
    pub(crate) fn ended_figures(&self) -> &RingFigures {
        &self.ended
    }

    /// Returns the shapes of all rings.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = &Shapes> {
        self.rings.iter().map(|(_, ring)| &ring.shapes)
    }

    /// Returns the rings that may be removed, as their inputs say.
    pub(crate) fn idle(&mut self, now: Instant) -> Vec<(RingId, Idle)> {
        let merges = &mut self.merges;
        let may_go = |(id, ring): (RingId, &mut Ring)| {
            let after = ring.input.prune_after?;
            // An output may not have the last values of its instruments yet.
            ring.shapes.observer().filter(|ring| ring.layout().metrics_size == 0)?;
            let since = ring.idle_since(now, || merges.is_drained(id))?;
            if now.saturating_duration_since(since) < after {
                return None;
            }
            let refused = ring.shapes.totals()?.producer.refused;
            // All of these were read, too.
            ring.idle_since(now, || merges.is_drained(id))?;
            let of = Idle { location: ring.location.clone()?, uuid: ring.uuid(), refused };
            Some((id, of))
        };
        self.rings.iter_mut().filter_map(may_go).collect()
    }

    /// Checks which rings have a producer. Returns the names of those that had one at the last
    /// call.
    pub(crate) fn deaths(&mut self) -> Vec<String> {
        let died = |(_, ring): (RingId, &mut Ring)| {
            let had = std::mem::replace(&mut ring.produced, ring.shapes.has_producer());
            (had && !ring.produced).then(|| ring.shapes.origin().name.clone())
        };
        self.rings.iter_mut().filter_map(died).collect()
    }

    /// Returns the status of all outputs.
    pub fn outputs(&self) -> impl Iterator<Item = OutputStatus<'_>> {
        self.outlets.iter().map(Outlet::status)
    }

    /// Counts a damaged ring once; without an id, the caller ensures that.
    pub(crate) fn count_damaged(&mut self, uuid: Option<[u8; 16]>) {
        // Counting one twice is better than unbounded memory.
        if self.damaged_ids.len() >= DAMAGED_MAX {
            self.damaged_ids.clear();
        }
        self.damaged += u64::from(uuid.is_none_or(|uuid| self.damaged_ids.insert(uuid)));
    }

    /// Returns how many rings could not be read, or read on, because they were damaged or
    /// truncated.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Returns the figures of the merge: sums over rings with priority and others.
    #[must_use]
    pub fn merge_figures(&self) -> MergeFigures {
        self.merges.figures()
    }

    /// Returns the positions in observed rings up to which all is delivered.
    pub fn saved(&self) -> HashMap<[u8; 16], Saved> {
        let newest =
            self.by_uuid.iter().filter_map(|(uuid, id)| Some((uuid, self.rings.get(*id)?)));
        let observed = newest.filter(|(_, ring)| ring.observed);
        observed.map(|(uuid, ring)| (*uuid, ring.delivered().saved())).collect()
    }

    /// Returns whether everything up to the positions of a call of [`Engine::heads`] is read, with the losses until then.
    #[must_use]
    pub fn is_past(&mut self, heads: &HashMap<RingId, u64>) -> bool {
        heads.iter().all(|(id, head)| match (self.areas.get(id), self.merges.resume_point(*id)) {
            (_, None) => true,
            (Some(area), _) => area.has_sampled_since(*head) && self.merges.is_drained(*id),
            // A loss after the last record is found by a poll.
            (None, Some(here)) if here.pos() == *head => self.merges.is_drained(*id),
            (None, Some(here)) => here.pos() > *head,
        })
    }

    /// Returns the present heads of all rings; of a metrics area the time, as of its samples.
    #[must_use]
    pub fn heads(&self) -> HashMap<RingId, u64> {
        let time = |id| self.areas.get(&id).map(|_| self.clock.now_ns());
        let head = |(id, ring): (RingId, &Ring)| (id, time(id).unwrap_or(ring.shapes.head()));
        self.rings.iter().map(head).collect()
    }
}
