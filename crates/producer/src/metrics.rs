//! The metrics area: counters, gauges and histograms, whose values are words in the ring's file. [`Metrics`] registers them.

use crate::known_types::lock;
pub use crate::metrics_error::MetricsError;
use crate::reserve_error::TypeError;
use crate::shared_producer::SharedProducer;
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{RecordType, TYPES_FIRST};
pub use perfring_ring::{BadArea, BadPart, Buckets, MetricKind, MetricsFill};
use perfring_ring::{BlockOwner, NoBlock, TableFull, add, add_f64, adjust, measure, raise, set};
use perfring_shm::{Attached, Location, MetricBlock, MetricsMap, RingOptions};
use perfring_types::{Entries, Schema};
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicU32};

/// The instruments of a process in the metrics area of a ring: counters, gauges and histograms, as words that readers sample.
///
/// An update is one or a few relaxed atomic operations: no lock, no record, no system call. The values are in the ring's file,
/// so they are there after `kill -9`; that the process has died is known by its slot, which it holds as a [`SharedProducer`] does.
/// Each process has its own values of an instrument: a reader adds them up, or tells them apart. Clones are the same instruments.
///
/// The ring's type table describes an instrument, by a type whose constants have name, unit, description and attributes.
/// `perfring_telemetry::meter` writes them with OpenTelemetry's names.
///
/// ```
/// use perfring_producer::{Options, metrics::{MetricKind, Metrics}, types::{Encoding, Schema}};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// let options = Options { metrics_size: 1 << 20, ..Options::many() };
/// let metrics = Metrics::open_or_create(&path, &options)?;
/// let requests = Schema::new("demo.requests", Encoding::Tagged).with_hashed_id();
/// let requests = metrics.register(&requests, MetricKind::CounterU64, 1)?;
/// requests.add(1); // some ns
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Forks
/// A forked child has its own values, which begin at nothing: it attaches when it first updates an instrument, and
/// takes a slot. Nothing is counted twice. An instrument from before the fork costs a look-up by its type for each update in
/// the child; an instrument that the child registers costs none.
#[derive(Clone)]
pub struct Metrics {
    home: Arc<Home>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("location", &self.home.location).finish_non_exhaustive()
    }
}

/// A record that describes the process: its type, and what makes its payload.
struct Description {
    schema: Schema<'static>,
    payload: Box<dyn Fn() -> Vec<u8> + Send + Sync>,
}

struct Home {
    location: Location,
    description: OnceLock<Description>,
    life: Life,
    /// Updates of forked children that could not attach.
    lost: AtomicU64,
}

/// The attachment of one process.
struct Life {
    /// Holds the slot.
    producer: Mutex<SharedProducer>,
    map: Arc<MetricsMap>,
    owner: BlockOwner,
    known: Mutex<KnownInstruments>,
    /// The state of a forked child.
    next: OnceLock<Result<Box<Life>, MetricsError>>,
}

/// The types in the table, and the blocks of this process.
#[derive(Default)]
struct KnownInstruments {
    blocks: HashMap<RecordType, (MetricKind, MetricBlock)>,
    /// The layouts of types, and up to where the table was read.
    types: HashMap<RecordType, u64>,
    end: u64,
}

impl Metrics {
    /// Attaches to a shared ring with a metrics area, and takes one of its slots.
    ///
    /// # Errors
    /// [`MetricsError::NoArea`]; see [`AttachError`](crate::AttachError).
    pub fn attach(location: impl Into<Location>) -> Result<Self, MetricsError> {
        let location = location.into();
        Self::of(SharedProducer::attach(location.clone())?, location)
    }

    /// Attaches to a shared ring, and makes it first if there is none.
    ///
    /// # Errors
    /// [`MetricsError::Open`]; [`MetricsError::NoArea`] if the options have no `metrics_size`.
    pub fn open_or_create(
        location: impl Into<Location>,
        options: &RingOptions,
    ) -> Result<Self, MetricsError> {
        let location = location.into();
        let producer = SharedProducer::open_or_create(location.clone(), options);
        Self::of(producer.map_err(|error| MetricsError::Open(Arc::new(error)))?, location)
    }

    fn of(producer: SharedProducer, location: Location) -> Result<Self, MetricsError> {
        // A child may attach after the program has changed its working directory.
        let location = match location {
            Location::File(path) => Location::File(std::path::absolute(&path).unwrap_or(path)),
            other => other,
        };
        let life = Life::new(producer)?;
        Ok(Metrics {
            home: Arc::new(Home {
                location,
                description: OnceLock::new(),
                life,
                lost: AtomicU64::new(0),
            }),
        })
    }

    /// Puts a record beside the values that describes their process, such as its resource. `payload` makes it: here, and in each
    /// forked child that attaches. The first description stays.
    ///
    /// # Errors
    /// [`MetricsError`]: there is no room for it.
    pub fn with_description(
        self,
        schema: Schema<'static>,
        payload: impl Fn() -> Vec<u8> + Send + Sync + 'static,
    ) -> Result<Self, MetricsError> {
        let description = Description { schema, payload: Box::new(payload) };
        self.home.life()?.describe(&description)?;
        let _ = self.home.description.set(description);
        Ok(self)
    }

    /// Returns the instrument of this type in this process: a new one at the first call, and the same one at all others. `stripes`
    /// is for how many threads that update it all the time it has separate words: 1 to 128, rounded up to a power of two. Each
    /// takes as much room as the first. A gauge has one.
    ///
    /// A cold call: it takes the lock of the type table, which another process may hold for up to 0.1 s.
    ///
    /// # Errors
    /// See [`MetricsError`].
    pub fn register(
        &self,
        schema: &Schema<'_>,
        kind: MetricKind,
        stripes: u32,
    ) -> Result<Metric, MetricsError> {
        let entry: Arc<[u64]> = schema.to_entry().into();
        let what = What { id: schema.id, layout: schema.layout(), kind, stripes, entry };
        let block = self.home.life()?.block(&what)?;
        Ok(Metric { block, home: Arc::clone(&self.home), what })
    }

    /// Returns how many updates no file has: those of a forked child that could not attach.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.home.lost.load(Ordering::Relaxed)
    }

    /// Returns how full the area is, of all processes.
    #[must_use]
    pub fn fill(&self) -> MetricsFill {
        let life = self.home.life().unwrap_or(&self.home.life); // without one, an area of zeros
        life.map.area().fill()
    }

    /// Returns whether the ring's file was removed, or another took its name: only readers that have it open see the values.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.home.life().is_ok_and(|life| guard(&life.producer).is_removed())
    }

    /// Returns where the ring is.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.home.location
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner) // whole after a panic
}

impl Home {
    /// Returns the attachment of this process.
    fn life(&self) -> Result<&Life, MetricsError> {
        let mut life = &self.life;
        while life.map.forked() {
            let next = life.next.get_or_init(|| {
                let life = Life::new(SharedProducer::attach(self.location.clone())?)?;
                if let Some(description) = self.description.get() {
                    life.describe(description)?;
                }
                Ok(Box::new(life))
            });
            life = next.as_deref().map_err(MetricsError::clone)?;
        }
        Ok(life)
    }
}

impl Life {
    fn new(producer: SharedProducer) -> Result<Self, MetricsError> {
        let attached: &Attached = &producer.window;
        let no_area = || MetricsError::NoArea { location: attached.file().location().clone() };
        let map = attached.map_metrics()?.ok_or_else(no_area)?;
        let owner = attached.block_owner(producer.slot()).ok_or_else(no_area)?;
        let known = KnownInstruments { end: TYPES_FIRST, ..KnownInstruments::default() };
        let (producer, known) = (Mutex::new(producer), Mutex::new(known));
        Ok(Life { producer, map, owner, known, next: OnceLock::new() })
    }

    fn describe(&self, of: &Description) -> Result<(), MetricsError> {
        let payload = (of.payload)();
        let kind = MetricKind::Record(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        let (id, layout, entry) = (of.schema.id, of.schema.layout(), of.schema.to_entry().into());
        self.take(&What { id, layout, kind, stripes: 1, entry }, &payload).map(|_| ())
    }

    fn block(&self, what: &What) -> Result<MetricBlock, MetricsError> {
        self.take(what, &[])
    }

    fn take(&self, what: &What, payload: &[u8]) -> Result<MetricBlock, MetricsError> {
        let mut known = guard(&self.known);
        if let Some((present, block)) = known.blocks.get(&what.id)
            && known.types.get(&what.id) == Some(&what.layout)
        {
            return match (*present, what.kind) {
                (present, wanted) if present == wanted => Ok(block.clone()),
                (present, wanted) => Err(MetricsError::OtherKind { present, wanted }),
            };
        }
        let producer = guard(&self.producer);
        let attached: &Attached = &producer.window;
        let locked = lock(attached)?;
        known.read(attached)?;
        match known.types.get(&what.id) {
            Some(layout) if *layout == what.layout => {}
            Some(_) => return Err(TypeError::Taken { id: what.id.get() }.into()),
            None => {
                let append = locked.append(&what.entry);
                append.map_err(|TableFull { needed, left }| TypeError::Full { needed, left })?;
                known.types.insert(what.id, what.layout);
            }
        }
        let stripes = match what.kind {
            MetricKind::GaugeI64 | MetricKind::GaugeF64 => 1,
            _ => what.stripes,
        };
        let wanted = (what.id, what.kind, stripes);
        let taken = self.map.take(attached, &locked, self.owner, wanted, payload);
        let location = || attached.file().location().clone();
        let block = taken.map_err(|no| match no {
            NoBlock::Full { needed, left } => {
                MetricsError::Full { location: location(), needed, left }
            }
            NoBlock::Damaged(damage) => MetricsError::Damaged { location: location(), damage },
        })?;
        known.blocks.insert(what.id, (what.kind, block.clone()));
        Ok(block)
    }
}

impl KnownInstruments {
    /// Reads what was added to the table since the last time.
    fn read(&mut self, ring: &Attached) -> Result<(), TypeError> {
        let table = ring.types();
        if !table.exists() {
            return Err(TypeError::NoTable);
        }
        let words = table.entries_after(self.end);
        for entry in Entries::new(&words) {
            let entry = entry.map_err(|damage| TypeError::Damaged { at: damage.at })?;
            self.types.insert(entry.id, entry.layout);
        }
        self.end = self.end.saturating_add(8 * words.len() as u64);
        Ok(())
    }
}

/// What was registered.
#[derive(Clone)]
struct What {
    id: RecordType,
    layout: u64,
    kind: MetricKind,
    stripes: u32,
    entry: Arc<[u64]>,
}

/// An instrument of a process: what [`Metrics::register`] returns. Any thread may update it; clones are the same instrument.
#[derive(Clone)]
pub struct Metric {
    block: MetricBlock,
    home: Arc<Home>,
    what: What,
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let What { id, kind, .. } = &self.what;
        f.debug_struct("Metric").field("type", id).field("kind", kind).finish_non_exhaustive()
    }
}

thread_local! {
    /// The number of this thread, which chooses its stripe; 0: not drawn yet.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

static THREADS: AtomicU32 = AtomicU32::new(1);

#[inline(always)]
fn stripe(mask: u32) -> u32 {
    if mask == 0 { 0 } else { thread() & mask }
}

#[inline(always)]
fn thread() -> u32 {
    let known = THREAD.try_with(Cell::get).unwrap_or(1);
    if known != 0 { known } else { draw_thread() }
}

#[cold]
fn draw_thread() -> u32 {
    let drawn = THREADS.fetch_add(1, Ordering::Relaxed).max(1);
    let _ = THREAD.try_with(|thread| thread.set(drawn));
    drawn
}

impl Metric {
    /// Updates the block of this process.
    #[inline(always)]
    fn update(&self, update: impl Fn(&[AtomicU64], u32)) {
        if self.block.forked() {
            return self.update_elsewhere(update);
        }
        update(self.block.words(), stripe(self.block.mask()));
    }

    #[cold]
    #[inline(never)]
    fn update_elsewhere(&self, update: impl Fn(&[AtomicU64], u32)) {
        match self.home.life().and_then(|life| life.block(&self.what)) {
            Ok(block) => update(block.words(), stripe(block.mask())),
            Err(_) => drop(self.home.lost.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Adds to a sum of whole numbers; a negative number as its two's complement. Wraps.
    #[inline]
    pub fn add(&self, value: u64) {
        self.update(|words, stripe| add(words, stripe, value));
    }

    /// Adds to a sum.
    #[inline]
    pub fn add_f64(&self, value: f64) {
        self.update(|words, stripe| add_f64(words, stripe, value));
    }

    /// Raises a sum of whole numbers, of one stripe, to this, unless it is greater.
    #[inline]
    pub fn raise(&self, value: u64) {
        self.update(|words, _| raise(words, value));
    }

    /// Sets a gauge to these bits: those of an `f64` or of an `i64`, whichever its kind has.
    #[inline]
    pub fn set(&self, bits: u64) {
        self.update(|words, _| set(words, bits));
    }

    /// Adds to a gauge that is an `f64`. One that was not set has 0.
    #[inline]
    pub fn adjust(&self, by: f64) {
        self.update(|words, _| adjust(words, by));
    }

    /// Counts a measurement in a histogram of these buckets, those that it was registered with.
    #[inline]
    pub fn record(&self, buckets: Buckets, value: f64) {
        self.update(|words, stripe| measure(words, buckets, stripe, value));
    }
}
