//! The engine: from rings through the merge to outputs, and back, what may leave the rings.

mod turn;

use crate::checkpoint::Checkpoints;
use crate::config::{Delivery, Input};
use crate::filter::Filter;
use crate::outlet::{Dropped, Outlet, Seq};
use crate::ring::{AttachFailure, Ring, RingFigures, Rings, Stage};
use crate::rule::Rule;
use perfring_consumer::{ClockError, Home, Saved, Who};
use perfring_export::{Figures, Origin, Output, OutputError, Shapes};
use perfring_kernel::KernelRing;
use perfring_set::{Merge, MergeFigures, Source, SourceId};
use perfring_types::read::TypeTable;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use turn::Pending;

/// As many outputs there can be: a bit each.
const OUTPUTS_MAX: usize = 64;
/// Between two tries to hand the event that is held to an output that is to go.
const PENDING_PAUSE: Duration = Duration::from_millis(1);
/// As many rings wait at most until an output that need not have everything is told of their end.
const LEAVING_MAX: usize = 1024;
/// As many damaged rings are told apart.
const DAMAGED_MAX: usize = 65_536;

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There may be more.
    More,
    /// There is nothing now.
    Empty,
    /// An output that must have everything has no room: nothing is read.
    Stalled,
}

/// Something worth a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A ring cannot be read on: what is wrong.
    SetAside {
        /// The ring.
        ring: String,
        /// Where it is, if it is one of perfring's.
        home: Option<Home>,
        /// Its id.
        uuid: [u8; 16],
        /// What is wrong.
        why: String,
    },
    /// A ring was read to its end and is gone.
    Ended {
        /// The ring.
        ring: String,
        /// Its id.
        uuid: [u8; 16],
        /// What it gave.
        figures: RingFigures,
        /// Its file is gone, too, and nobody reads another of its names.
        vanished: bool,
        /// The place where an observer goes on, if it stays and is read by nobody else.
        saved: Option<Saved>,
    },
}

/// Reads many rings in the order of time, hands what it reads to outputs, and lets records go from
/// their rings once every output that promises delivery has delivered them.
///
/// It waits for nothing and knows no files but rings: [`Sidecar`](crate::Sidecar) drives it. Its
/// memory is bounded: one record is held while an output has no room for it.
///
/// ```
/// use perfring_export::Null;
/// use perfring_sidecar::{Engine, Turn, config::{Delivery, Input, Place}};
/// # use perfring_producer::{Options, Producer, RecordType};
/// # use std::time::Duration;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// # let mut producer = Producer::create(&path, &Options::default())?;
/// let mut engine = Engine::new(Duration::from_millis(1))?;
/// engine.add_output("null", Delivery::Required, Default::default(), Box::new(Null::default()))?;
/// let home = path.into();
/// engine.attach(&home, &Input::new(Place::Ring(home.clone())), None, |_| None)?;
/// producer.publish(RecordType::BYTES, b"a record")?;
/// while engine.rings().any(|ring| ring.figures.records == 0) {
///     if engine.turn() != Turn::More {
///         engine.wait(Duration::from_millis(10));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Engine {
    merge: Merge,
    rings: Rings,
    by_uuid: HashMap<[u8; 16], SourceId>,
    outlets: Vec<Option<Outlet>>,
    /// The outputs that there are, a bit each.
    all: u64,
    rules: Vec<Rule>,
    seq: Seq,
    turn: u64,
    /// Rings of which something came in this turn.
    touched: Vec<SourceId>,
    checkpoints: Checkpoints<SourceId>,
    pending: Option<Pending>,
    /// Rings that are not in [`Stage::Reading`].
    leaving: Vec<SourceId>,
    /// Rings of the kernel.
    kernel: Vec<SourceId>,
    /// The number of the next ring.
    id: u32,
    notes: Vec<Note>,
    /// Rings that could not be read on.
    damaged: u64,
    /// Those of them that have an id, to count each once.
    damaged_ids: HashSet<[u8; 16]>,
    /// The rules that records asked for, a bit each.
    met: u64,
}

/// A ring that may go.
pub(crate) struct Idle {
    pub(crate) home: Home,
    pub(crate) input: Input,
    pub(crate) uuid: [u8; 16],
}

/// A ring as it is shown.
#[derive(Debug)]
pub struct RingStatus<'a> {
    /// What outputs know of it.
    pub origin: &'a Origin,
    /// What it gave.
    pub figures: &'a RingFigures,
    /// It is looked at only.
    pub observed: bool,
    /// Its records are copied before anything looks at them.
    pub guarded: bool,
    /// Its file is gone, and it is read to its end.
    pub vanished: bool,
    /// Bytes between what is delivered and what is published.
    pub lag: u64,
}

/// An output as it is shown.
#[derive(Debug)]
pub struct OutputStatus<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it promises.
    pub delivery: Delivery,
    /// What it did.
    pub figures: Figures,
    /// What it was not given, as it was busy.
    pub dropped: Dropped,
    /// Why it gets nothing any more.
    pub failed: Option<&'a OutputError>,
}

impl Engine {
    /// Without rings and outputs; records are held back for at most `delay`.
    ///
    /// # Errors
    /// [`ClockError`].
    pub fn new(delay: Duration) -> Result<Self, ClockError> {
        Ok(Engine {
            merge: Merge::new(delay)?,
            rings: Rings::default(),
            by_uuid: HashMap::new(),
            outlets: Vec::new(),
            all: 0,
            rules: Vec::new(),
            seq: Seq::default(),
            turn: 0,
            touched: Vec::new(),
            checkpoints: Checkpoints::default(),
            pending: None,
            leaving: Vec::new(),
            kernel: Vec::new(),
            id: 0,
            notes: Vec::new(),
            damaged: 0,
            damaged_ids: HashSet::new(),
            met: 0,
        })
    }

    /// Adds an output. It is told of all rings before the first record.
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
        let free = self.outlets.iter().position(Option::is_none);
        let at = free.unwrap_or(self.outlets.len());
        if at >= OUTPUTS_MAX {
            let sentence = format!("a sidecar has at most {OUTPUTS_MAX} outputs");
            return Err(OutputError::new(name, sentence));
        }
        if at == self.outlets.len() {
            self.outlets.push(None);
        }
        if let Some(place) = self.outlets.get_mut(at) {
            *place = Some(Outlet::new(name, delivery, filter, output));
        }
        self.all |= 1 << at;
        self.rings.values_mut().for_each(|ring| ring.began &= !(1 << at));
        if let Some(pending) = &mut self.pending {
            // It is older than this output, which begins after it.
            pending.done |= 1 << at;
        }
        Ok(())
    }

    /// Takes an output out, after it has delivered what it has.
    ///
    /// One that must have everything stays as it is if it has no room for a record that is offered to
    /// it. If it could not deliver what it has, it has failed: it gets nothing more, and keeps in the
    /// rings what it did not deliver. Whoever reads them next reads that again.
    ///
    /// # Errors
    /// [`OutputError`] if it could not, until the deadline.
    pub fn remove_output(&mut self, name: &str, deadline: Instant) -> Result<(), OutputError> {
        let is_it = |outlet: &Option<Outlet>| outlet.as_ref().is_some_and(|of| of.name == name);
        let Some(at) = self.outlets.iter().position(is_it) else { return Ok(()) };
        let must = |engine: &Self| {
            engine.outlets.get(at).and_then(Option::as_ref).is_some_and(Outlet::is_required)
        };
        let lacks = |engine: &Self| {
            engine.pending.as_ref().is_some_and(|pending| pending.done & (1 << at) == 0)
        };
        // The event that is held is none of its successor's.
        while must(self) && lacks(self) && !self.try_pending() && lacks(self) {
            self.flush();
            self.undelivered();
            if Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(PENDING_PAUSE);
        }
        if must(self) && lacks(self) {
            return Err(OutputError::new(name, "it has no room for the record that waits for it"));
        }
        let Some(place) = self.outlets.get_mut(at) else { return Ok(()) };
        let Some(outlet) = place else { return Ok(()) };
        let closed = outlet.close(deadline);
        if let Err(error) = &closed
            && outlet.is_required()
        {
            outlet.failed = Some(error.clone());
            return closed;
        }
        *place = None;
        self.all &= !(1 << at);
        closed
    }

    /// Sets the rules by which records ask for snapshots.
    pub fn set_rules(&mut self, rules: Vec<Rule>) {
        self.rules = rules;
    }

    /// Reads a ring as its input says, if it is the one with this id. `saved` gives the place where
    /// an observer goes on.
    ///
    /// # Errors
    /// [`AttachFailure`].
    pub fn attach(
        &mut self,
        home: &Home,
        input: &Input,
        uuid: Option<[u8; 16]>,
        saved: impl FnOnce(&[u8; 16]) -> Option<Saved>,
    ) -> Result<SourceId, AttachFailure> {
        let (ring, source) = Ring::attach(home, input, self.id, uuid, saved)?;
        Ok(self.insert(ring, source))
    }

    /// Reads a ring of the kernel, until what it watches is over.
    pub fn add_kernel(&mut self, name: &str, ring: KernelRing, input: &Input) -> SourceId {
        let source: Box<dyn Source> = Box::new(ring);
        let about = source.about();
        let origin = Origin {
            id: self.id,
            name: name.to_owned(),
            home: name.to_owned(),
            uuid: about.uuid,
            epoch: 0,
            policy: about.policy,
            timed: about.timed,
            data_size: about.data_size,
            producer: Who::default(),
            types: TypeTable::default(),
            anchors: source.anchors(),
        };
        let shapes = Shapes::of(origin, source.types());
        let id = self.insert(Ring::new(shapes, None, input.clone(), false), source);
        self.kernel.push(id);
        self.leave(id);
        id
    }

    /// The kernel's rings have no anchors of their own: somebody may have set the clock.
    fn anchor(&mut self) {
        for id in &self.kernel {
            if let (Some(ring), Some(source)) = (self.rings.get_mut(id), self.merge.source(*id)) {
                ring.shapes.origin_mut().anchors = source.anchors();
            }
        }
    }

    fn insert(&mut self, mut ring: Ring, source: Box<dyn Source>) -> SourceId {
        ring.first = source.mark();
        self.id = self.id.wrapping_add(1);
        let id = self.merge.add(source);
        self.by_uuid.insert(ring.uuid(), id);
        let ring = self.rings.entry(id).or_insert(ring);
        if self.pending.is_none() {
            // At once, also of a ring that stays empty; who is busy is told later.
            let (began, origin) = (&mut ring.began, ring.shapes.origin());
            turn::begin(&mut self.outlets, &mut self.seq, began, origin);
        }
        id
    }

    /// The ring's file is gone: it ends once it is read and nobody writes to it.
    pub fn vanish(&mut self, uuid: &[u8; 16]) {
        let Some(id) = self.by_uuid.get(uuid) else { return };
        if let Some(ring) = self.rings.get_mut(id) {
            ring.vanished = true;
            self.leave(*id);
        }
    }

    fn leave(&mut self, id: SourceId) {
        if !self.leaving.contains(&id) {
            self.leaving.push(id);
        }
    }

    /// A ring that is read has a file again, of this name; while it has one, another of the same id
    /// is a copy. Whether it is read.
    pub fn reappear(&mut self, uuid: &[u8; 16], home: &Home) -> bool {
        let Some(id) = self.by_uuid.get(uuid) else { return false };
        let Some(ring) = self.rings.get_mut(id) else { return false };
        if ring.stage == Stage::Reading {
            if std::mem::take(&mut ring.vanished) {
                ring.home = Some(home.clone());
            }
            self.leaving.retain(|leaving| leaving != id);
        }
        ring.stage == Stage::Reading
    }

    /// Stops reading the rings of an input: what was read is delivered, the rest stays.
    pub fn drop_input(&mut self, input: &Input) {
        for (id, ring) in &mut self.rings {
            if ring.input == *input && ring.stage == Stage::Reading {
                ring.stage = Stage::Ending;
                self.leaving.push(*id);
            }
        }
    }

    /// Rules that records asked for since the last call, a bit each.
    pub(crate) fn met(&mut self) -> u64 {
        std::mem::take(&mut self.met)
    }

    /// Why an output that must have everything cannot go on, if one cannot.
    pub(crate) fn take_failed(&mut self) -> Option<OutputError> {
        let mut outlets = self.outlets.iter_mut().flatten().filter(|outlet| outlet.is_required());
        outlets.find_map(|outlet| outlet.failed.take())
    }

    /// What is worth a line, since the last call.
    pub fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Waits until there may be something to read.
    pub fn wait(&mut self, timeout: Duration) {
        self.merge.wait(timeout);
    }

    /// Stops reading this ring, which stays as it is: what was read is delivered.
    pub(crate) fn detach(&mut self, id: SourceId) {
        if let Some(ring) = self.rings.get_mut(&id)
            && ring.stage == Stage::Reading
        {
            ring.stage = Stage::Ending;
            self.leave(id);
        }
    }

    /// Whether everything that was read is delivered.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.checkpoints.is_empty() && self.pending.is_none()
    }

    /// The rings.
    pub fn rings(&self) -> impl Iterator<Item = RingStatus<'_>> {
        self.rings.values().filter(|ring| ring.stage != Stage::Gone).map(|ring| RingStatus {
            origin: ring.shapes.origin(),
            figures: &ring.figures,
            observed: ring.observed,
            guarded: ring.guarded,
            vanished: ring.vanished,
            lag: ring.shapes.head().saturating_sub(ring.delivered().pos),
        })
    }

    /// What is known of the rings, and whether each is one that overwrites.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = &Shapes> {
        self.rings.values().map(|ring| &ring.shapes)
    }

    /// Rings that may go, as their inputs say.
    pub(crate) fn idle(&mut self, now: Instant) -> Vec<(SourceId, Idle)> {
        let may_go = |(id, ring): (&SourceId, &mut Ring)| {
            let after = Duration::from_secs(ring.input.prune_after_seconds?);
            let idle = now.saturating_duration_since(ring.idle_since(now)?) >= after;
            let of =
                Idle { home: ring.home.clone()?, input: ring.input.clone(), uuid: ring.uuid() };
            idle.then_some((*id, of))
        };
        self.rings.iter_mut().filter_map(may_go).collect()
    }

    /// Looks which rings have a producer. Returns the names of those that had one at the last call.
    pub(crate) fn deaths(&mut self) -> Vec<String> {
        let died = |ring: &mut Ring| {
            let had = std::mem::replace(&mut ring.produced, ring.shapes.has_producer());
            (had && !ring.produced).then(|| ring.shapes.origin().name.clone())
        };
        self.rings.values_mut().filter_map(died).collect()
    }

    /// The outputs.
    pub fn outputs(&self) -> impl Iterator<Item = OutputStatus<'_>> {
        self.outlets.iter().flatten().map(|outlet| OutputStatus {
            name: &outlet.name,
            delivery: outlet.delivery,
            figures: outlet.figures(),
            dropped: outlet.dropped,
            failed: outlet.failed.as_ref(),
        })
    }

    /// Counts a ring that is damaged, once; of one without an id, whoever calls sees to that.
    pub(crate) fn count_damaged(&mut self, uuid: Option<[u8; 16]>) {
        // Rather one twice than ever more memory.
        if self.damaged_ids.len() >= DAMAGED_MAX {
            self.damaged_ids.clear();
        }
        self.damaged += u64::from(uuid.is_none_or(|uuid| self.damaged_ids.insert(uuid)));
    }

    /// How many rings could not be read, or read on, as they were damaged or cut short.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// What the merge did.
    #[must_use]
    pub fn merge_figures(&self) -> MergeFigures {
        self.merge.figures()
    }

    /// The places in observed rings up to which all is delivered.
    pub fn saved(&self) -> HashMap<[u8; 16], Saved> {
        let newest = self.by_uuid.iter().filter_map(|(uuid, id)| Some((uuid, self.rings.get(id)?)));
        let observed = newest.filter(|(_, ring)| ring.observed);
        observed.map(|(uuid, ring)| (*uuid, ring.delivered().saved())).collect()
    }

    /// Whether all that was there at the call of [`Engine::heads`] is read.
    #[must_use]
    pub fn is_past(&self, heads: &HashMap<SourceId, u64>) -> bool {
        heads.iter().all(|(id, head)| self.merge.mark(*id).is_none_or(|mark| mark.pos >= *head))
    }

    /// Where the rings end now.
    #[must_use]
    pub fn heads(&self) -> HashMap<SourceId, u64> {
        self.rings.iter().map(|(id, ring)| (*id, ring.shapes.head())).collect()
    }
}
