//! Opening a sink: on a directory with a ring for each CPU, or on a shared ring.

use crate::place::{Place, SinkError};
use crate::resource::Resource;
use crate::ring::{Ring, Threads};
use crate::severity::Severity;
use crate::sink::Sink;
use perfring_producer::{
    Location, Options, Policy, SharedProducer,
    error::{CpuSetError, NoRseq},
    files::create,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the options of a ring for telemetry: shared by many producers, overwriting, with timestamps,
/// 4 MiB, and a type table of 1 MiB, which holds some 1500 types.
///
/// ```
/// use perfring_telemetry::{options, producer::Options};
/// let small = Options { size: 1 << 18, ..options() };
/// # let _ = small;
/// ```
#[must_use]
pub fn options() -> Options {
    let (size, policy, types_size) = (4 << 20, Policy::Overwrite, 1 << 20);
    Options { size, policy, types_size, time: true, ..Options::many() }
}

impl Sink {
    /// Creates a shared ring, whatever `options.producers` is, and attaches to it.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn create(
        location: impl Into<Location>,
        options: &Options,
        resource: Resource,
    ) -> Result<Self, SinkError> {
        let location = location.into();
        let options = Options { producers: perfring_producer::Producers::Many, ..*options };
        create(&location, &options).map_err(SinkError::Create)?;
        Sink::attach(location, resource)
    }

    /// Opens a directory with a ring for each CPU, and makes it if there is none: what a process with several threads, and many
    /// processes together, write to at the least cost. No thread waits for another one, or takes a slot. Readers of the directory
    /// merge the rings by time (`perfring_set::Merge`, the sidecar, `perfring tail DIR`). The rings have timestamps, whatever
    /// `options.time` is, and each of them has the size and the table of `options`.
    ///
    /// Restartable sequences (rseq) are needed for that. If the process has none, the sink writes to a shared ring in the
    /// directory, `shared`, and [`Sink::no_cpu_rings`] returns the reason.
    ///
    /// A ring gets the resource before the process's first record there, and again after each quarter of it that any process has
    /// written. So an overwrite ring loses the resource only together with the process's last records before it.
    ///
    /// ```
    /// use perfring_set::Merge;
    /// use perfring_telemetry::{Log, Resource, Severity, Sink, options};
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path().join("shop");
    /// let sink = Sink::open(&dir, &options(), Resource::here())?;
    /// sink.emit(&Log { severity: Some(Severity::Info), body: "ready".into(), ..Log::default() })?;
    ///
    /// let mut merge = Merge::follow(&dir)?; // in another process
    /// # let mut bodies = Vec::new();
    /// while merge.wait(Duration::from_millis(200)) {
    ///     while let Some(item) = merge.read() {
    ///         let Some(fields) = item.decode().transpose()? else { continue };
    ///         println!("{:?} {fields}", item.wall());
    /// #       bodies.extend(fields.get("body").map(ToString::to_string));
    ///     }
    ///     merge.acknowledge();
    /// }
    /// # assert_eq!(bodies, ["ready"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn open(
        dir: impl Into<PathBuf>,
        options: &Options,
        resource: Resource,
    ) -> Result<Self, SinkError> {
        let dir = dir.into();
        // A ring may be made after the program has changed its working directory.
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        let options = Options { time: true, ..*options };
        let (place, missing) = match Place::of_cpus(&dir, &options) {
            Err(SinkError::Cpu(CpuSetError::Rseq { source })) => {
                (Place::in_dir(&dir, &options)?, Some(source))
            }
            place => (place?, None),
        };
        let ring = Self::begin(Ring::new(Threads::Each, place, resource)?);
        Ok(Sink { no_cpu_rings: missing, ..Self::of(ring) })
    }

    /// Returns why a sink that was opened on a directory writes to a shared ring there; `None` if it writes to rings per CPU, or was
    /// made for a shared ring.
    ///
    /// ```
    /// # use perfring_telemetry::{Resource, Sink, options};
    /// # let dir = tempfile::tempdir()?;
    /// let sink = Sink::open(dir.path().join("rings"), &options(), Resource::here())?;
    /// if let Some(reason) = sink.no_cpu_rings() {
    ///     eprintln!("telemetry takes a lock for each record: {reason}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn no_cpu_rings(&self) -> Option<NoRseq> {
        self.no_cpu_rings
    }

    /// Attaches to a shared ring, registers the built-in types and publishes the resource.
    ///
    /// # Errors
    /// See [`SinkError`]. It is no error if a full drop ring refuses the resource: it is
    /// published later.
    pub fn attach(location: impl Into<Location>, resource: Resource) -> Result<Self, SinkError> {
        Self::attach_for(Threads::Each, location.into(), resource)
    }

    /// Attaches to a shared ring with one producer, and so one slot, for all threads, behind a lock: for
    /// callers that have a lock, such as Python's `logging`, or more threads than the ring has slots.
    ///
    /// In an overwrite ring it waits up to 20 ms for another process that was interrupted while it held
    /// the ring's lock, and does not lose the record. In a child of `fork(2)` it refuses every record with
    /// [`ReserveError::Forked`](perfring_producer::ReserveError::Forked): attach again there.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn attach_one(
        location: impl Into<Location>,
        resource: Resource,
    ) -> Result<Self, SinkError> {
        Self::attach_for(Threads::Together, location.into(), resource)
    }

    fn attach_for(
        threads: Threads,
        location: Location,
        resource: Resource,
    ) -> Result<Self, SinkError> {
        Self::attach_ring(threads, location, resource).map(Self::of)
    }

    fn of(ring: Arc<Ring>) -> Self {
        Sink {
            ring,
            priority: None,
            no_cpu_rings: None,
            #[cfg(feature = "context")]
            thread_context: false,
        }
    }

    fn attach_ring(
        threads: Threads,
        location: Location,
        resource: Resource,
    ) -> Result<Arc<Ring>, SinkError> {
        // A thread may attach after the program has changed its working directory.
        let location = match location {
            Location::File(path) => Location::File(std::path::absolute(&path).unwrap_or(path)),
            other => other,
        };
        let spare = SharedProducer::attach(location).map_err(SinkError::Attach)?;
        Ok(Self::begin(Ring::new(threads, Place::of_ring(spare)?, resource)?))
    }

    fn begin(ring: Arc<Ring>) -> Arc<Ring> {
        let _ = ring.report_resource(); // if the ring is full now, it is published later
        ring.publish_context();
        ring
    }

    /// Has records of at least this severity published into another shared ring, one with priority: a flood of others
    /// cannot fill it, or overwrite them there, and the sidecar reads it first. [`Severity::Error`] suits most programs;
    /// many warn so often that their warnings would drown the errors in turn.
    ///
    /// These are records that [`Sink::emit`] or [`Sink::write_at`] is given with their severity. The sink attaches to the
    /// ring as it did to its own, and publishes its resource there, too. Each thread takes a slot in it when it
    /// first writes such a record.
    ///
    /// ```
    /// use perfring_set::RingSet;
    /// use perfring_telemetry::{Log, Resource, Severity, Sink, options};
    /// # let dir = tempfile::tempdir()?;
    /// let set = RingSet::open(dir.path().join("rings"))?;
    /// let ring = set.ring_path("shop", &options())?;
    /// let errors = set.ring_path(&RingSet::priority_name("shop"), &options())?;
    /// let sink = Sink::attach(ring, Resource::here())?.with_priority(Severity::Error, errors)?;
    /// let error = Log { severity: Some(Severity::Error), body: "out of memory".into(), ..Log::default() };
    /// sink.emit(&error)?; // in shop.priority
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn with_priority(
        mut self,
        least: Severity,
        location: impl Into<Location>,
    ) -> Result<Self, SinkError> {
        let ring =
            Self::attach_ring(self.ring.threads(), location.into(), self.ring.resource().clone())?;
        self.priority = Some((least, ring));
        Ok(self)
    }
}
