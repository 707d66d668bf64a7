//! Where records go.

use crate::resource::Resource;
use crate::ring::{Ring, Threads, give_buffer, take_buffer};
use crate::signals::{ALL, COMMON, Signal};
use perfring_producer::types::tagged::TaggedWriter;
use perfring_producer::types::{Class, Encoding, Field, Schema};
use perfring_producer::{
    AttachError, CreateError, Location, Options, Policy, RecordType, ReserveError, SharedProducer,
    TypeError, create,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thiserror::Error;

/// The shape of a ring for telemetry: shared by many, the oldest records go, each has its time, 4 MiB,
/// and a type table of 1 MiB, which holds some 1500 types.
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

/// Where telemetry goes: a shared ring, to be used from any threads. Clones are the same sink.
///
/// Each thread attaches to the ring for itself when it first writes, and gives its slot back when it
/// ends; threads that find no slot free share one producer that the sink keeps for them, behind a
/// lock. A child of `fork(2)` attaches anew by itself at its first record. It has no such producer: its
/// threads that find no slot lose their records, and try again after some thousands.
///
/// What the process is stands in the ring each time it has filled a quarter of it. A process counts only
/// its own bytes: where others write more than three times as much as it does into a ring that
/// overwrites, they may overwrite its resource before it is told again, and its records then have only
/// `process.pid`. A reader that follows the ring has seen it; for who reads a dump, give such a process
/// a ring of its own.
///
/// [`Sink::emit`] and [`Sink::write`] wait for nobody, but for what a shared ring does itself and for that
/// one producer's lock. [`Sink::declare`], and so the first record of a place or of an instrument, takes
/// the lock of the ring's type table: while another process holds it, it waits for up to 0.1 s. What cannot be published is counted
/// by the ring, and by [`Sink::dropped`].
///
/// ```
/// use perfring_telemetry::{Log, Resource, Severity, Sink, options};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// let sink = Sink::create(&path, &options(), Resource::here().with("service.name", "shop"))?;
/// let worker = sink.clone();
/// std::thread::spawn(move || {
///     worker.emit(&Log { severity: Some(Severity::Info), body: "ready".into(), ..Log::default() })
/// })
/// .join()
/// .unwrap()?;
/// assert_eq!(sink.dropped(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sink {
    ring: Arc<Ring>,
}

/// Why there is no sink.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The ring could not be made.
    #[error(transparent)]
    Create(CreateError),
    /// It could not be attached to.
    #[error(transparent)]
    Attach(AttachError),
    /// It does not take the ready types or the resource.
    #[error(transparent)]
    First(ReserveError),
}

impl Sink {
    /// Makes a shared ring, whatever `options.producers` says, and attaches to it.
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

    /// Attaches to a shared ring, registers the ready types and tells what this process is.
    ///
    /// # Errors
    /// See [`SinkError`]. A drop ring that is full refuses the resource: that is no error, it is
    /// told again.
    pub fn attach(location: impl Into<Location>, resource: Resource) -> Result<Self, SinkError> {
        Self::attach_for(Threads::Each, location.into(), resource)
    }

    /// As [`Sink::attach`], with one producer for all threads of the process, behind a lock, and so one
    /// slot: for those who have a lock already, as Python's `logging` does, or more threads than the
    /// ring has slots. In a ring that overwrites it does not lose a record because another process was
    /// interrupted with the ring's lock in its hands: it waits up to 20 ms for that one. In a child of `fork(2)` it refuses all, with [`ReserveError::Forked`]: attach
    /// anew there.
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
        // A thread may attach after the program has changed its directory.
        let location = match location {
            Location::File(path) => Location::File(std::path::absolute(&path).unwrap_or(path)),
            other => other,
        };
        let spare = SharedProducer::attach(location.clone()).map_err(SinkError::Attach)?;
        for schema in &ALL {
            spare.register(schema).map_err(SinkError::First)?;
        }
        let sink = Sink { ring: Ring::new(location, threads, spare, resource) };
        let _ = sink.ring.report_resource(); // if the ring is full now, it is told later
        Ok(sink)
    }

    /// Publishes one of the ready types.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted. One is free not to look.
    #[inline]
    pub fn emit<S: Signal>(&self, signal: &S) -> Result<(), ReserveError> {
        self.write(S::SCHEMA.id, |writer| signal.fill(writer))
    }

    /// Puts a type into the ring's table: of one place in the program, of one instrument. What is
    /// always the same stands in its fields as constants; the others are numbered from
    /// [`FIRST`](crate::FIRST) on.
    ///
    /// ```
    /// use perfring_telemetry::types::{Class, Constant, Field, Shape};
    /// use perfring_telemetry::{FIRST, Resource, Sink, names, options};
    /// # let dir = tempfile::tempdir()?;
    /// # let sink = Sink::create(dir.path().join("ring"), &options(), Resource::here())?;
    /// let fields = [
    ///     Field::new(names::VALUE, 0, Shape::ANY),
    ///     Field::constant(names::NAME, Constant::Str("queue.depth")),
    ///     Field::constant("queue", Constant::Str("mail")),
    /// ];
    /// let depth = sink.declare(Class::Gauge, "queue.depth", "", &fields)?;
    /// sink.write(depth, |values| values.u64(FIRST, 17))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReserveError::Type`] if the table is full: then use the ready type of the class, with the
    /// names in the records; [`Sink::may_declare_later`] tells whether for good.
    pub fn declare(
        &self,
        class: Class,
        name: &str,
        help: &str,
        fields: &[Field<'_>],
    ) -> Result<RecordType, ReserveError> {
        let fields: Vec<Field<'_>> = COMMON.iter().chain(fields).copied().collect();
        let schema = Schema { class, help, ..Schema::new(name, Encoding::Tagged) };
        let schema = schema.with_fields(0, &fields).with_hashed_id();
        self.ring.register(&schema).map(|()| schema.id)
    }

    /// Whether what [`Sink::declare`] refused may do another time: another process had the table's lock
    /// for too long, or there was no slot. A full table stays full.
    #[must_use]
    pub fn may_declare_later(error: &ReserveError) -> bool {
        use TypeError::{Busy, Lock};
        matches!(error, ReserveError::Forked | ReserveError::Type(Busy | Lock { .. }))
    }

    /// Publishes a record of a type that [`Sink::declare`] gave. The sink writes the
    /// [`COMMON`](crate::COMMON) fields, the closure the others. If the closure panics, what it has
    /// written until then is published, and the panic goes on.
    ///
    /// # Errors
    /// See [`ReserveError`]; the loss is counted.
    #[inline]
    pub fn write(
        &self,
        kind: RecordType,
        fill: impl FnOnce(&mut TaggedWriter<'_>),
    ) -> Result<(), ReserveError> {
        let buffer = take_buffer();
        let mut draft = Draft { ring: &self.ring, kind, buffer, done: false };
        fill(&mut self.ring.begin(&mut draft.buffer));
        let bytes = draft.publish()?;
        if bytes > 0 {
            self.ring.count(bytes);
        }
        Ok(())
    }

    /// Records that this process could not publish to this sink. The ring's own counters have them
    /// by cause; see [`ReserveError`].
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.ring.dropped.load(Ordering::Relaxed)
    }

    /// The longest record, in bytes. Text that does not fit is cut, and ends with an ellipsis.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.ring.max_len
    }

    /// Whether the ring stamps records with their time: if not, the sink does.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.ring.layout.time
    }

    /// Where the ring lives.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.ring.location
    }
}

/// A record in the making.
struct Draft<'a> {
    ring: &'a Arc<Ring>,
    kind: RecordType,
    buffer: Vec<u8>,
    done: bool,
}

impl Draft<'_> {
    #[inline]
    fn publish(mut self) -> Result<u64, ReserveError> {
        self.done = true;
        self.ring.publish(self.kind, &mut self.buffer)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.done {
            // A panic: these may be the last words.
            let _ = self.ring.publish(self.kind, &mut self.buffer);
        }
        give_buffer(std::mem::take(&mut self.buffer));
    }
}
