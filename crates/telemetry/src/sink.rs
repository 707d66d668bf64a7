//! Where records go.

use crate::local::{self, Handle};
use crate::signals::{ALL, COMMON, RESOURCE, Signal};
use crate::ids;
use crate::signals;
use crate::resource::Resource;
use perfring_producer::types::tagged::TaggedWriter;
use perfring_producer::types::{Class, Encoding, Field, Schema};
use perfring_producer::{
    AttachError, CreateError, Home, Layout, Options, Policy, RecordType, ReserveError,
    SharedProducer, TypeError, create,
};
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

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

/// How long a sink of one producer waits for another process that is in its way: some turns of the
/// scheduler.
const PATIENCE: Duration = Duration::from_millis(20);

/// Whether the ring stamps records with their time.
fn is_timed(layout: &Layout) -> bool {
    layout.time
}

/// Bytes of the value that a word of a numbered field takes, and where in them the word begins.
const VALUE: usize = 16;
const WORD: usize = 8;

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

/// A ring as a process is attached to it.
#[derive(Debug)]
pub(crate) struct Ring {
    home: Home,
    layout: Layout,
    /// As [`is_timed`] says.
    timed: bool,
    max_len: usize,
    resource: Resource,
    threads: Threads,
    /// For whoever has no producer of their own.
    spare: Mutex<Handle>,
    /// The process that may take that lock: in a child it could be held forever.
    owner: u32,
    /// The process, as it stands in records.
    pid: AtomicU32,
    /// What its sums count from.
    started: AtomicU64,
    /// Bytes since the resource was last told.
    traffic: AtomicU64,
    /// A thread counts its bytes for itself up to so many.
    chunk: u64,
    /// Bytes after which the resource is told again.
    interval: u64,
    dropped: AtomicU64,
}

/// Who has a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    /// Each thread.
    Each,
    /// The sink, for all of them.
    Together,
}

/// Why there is no sink.
#[derive(Debug)]
#[non_exhaustive]
pub enum SinkError {
    /// The ring could not be made.
    Create(CreateError),
    /// It could not be attached to.
    Attach(AttachError),
    /// It does not take the ready types or the resource.
    First(ReserveError),
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkError::Create(error) => error.fmt(f),
            SinkError::Attach(error) => error.fmt(f),
            SinkError::First(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SinkError::Create(error) => error.source(),
            SinkError::Attach(error) => error.source(),
            SinkError::First(error) => error.source(),
        }
    }
}

impl Sink {
    /// Makes a shared ring, whatever `options.producers` says, and attaches to it.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn create(
        home: impl Into<Home>,
        options: &Options,
        resource: Resource,
    ) -> Result<Self, SinkError> {
        let home = home.into();
        let options = Options { producers: perfring_producer::Producers::Many, ..*options };
        create(&home, &options).map_err(SinkError::Create)?;
        Sink::attach(home, resource)
    }

    /// Attaches to a shared ring, registers the ready types and tells what this process is.
    ///
    /// # Errors
    /// See [`SinkError`]. A drop ring that is full refuses the resource: that is no error, it is
    /// told again.
    pub fn attach(home: impl Into<Home>, resource: Resource) -> Result<Self, SinkError> {
        Self::attach_for(Threads::Each, home.into(), resource)
    }

    /// As [`Sink::attach`], with one producer for all threads of the process, behind a lock, and so one
    /// slot: for those who have a lock already, as Python's `logging` does, or more threads than the
    /// ring has slots. In a ring that overwrites it does not lose a record because another process was
    /// interrupted with the ring's lock in its hands: it waits up to 20 ms for that one. In a child of `fork(2)` it refuses all, with [`ReserveError::Forked`]: attach
    /// anew there.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub fn attach_one(home: impl Into<Home>, resource: Resource) -> Result<Self, SinkError> {
        Self::attach_for(Threads::Together, home.into(), resource)
    }

    fn attach_for(threads: Threads, home: Home, resource: Resource) -> Result<Self, SinkError> {
        // A thread may attach after the program has changed its directory.
        let home = match home {
            Home::File(path) => Home::File(std::path::absolute(&path).unwrap_or(path)),
            other => other,
        };
        let spare = SharedProducer::attach(home.clone()).map_err(SinkError::Attach)?;
        for schema in &ALL {
            spare.register(schema).map_err(SinkError::First)?;
        }
        let layout = *spare.layout();
        let pid = std::process::id();
        let interval = layout.data_size / 4;
        let ring = Ring {
            home,
            layout,
            timed: is_timed(&layout),
            max_len: spare.max_len(),
            resource,
            threads,
            spare: Mutex::new(Handle::new(spare)),
            owner: pid,
            pid: AtomicU32::new(pid),
            started: AtomicU64::new(ids::started()),
            traffic: AtomicU64::new(0),
            chunk: interval / 256,
            interval,
            dropped: AtomicU64::new(0),
        };
        let sink = Sink { ring: Arc::new(ring) };
        let _ = sink.tell_resource(); // if the ring is full now, it is told later
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
        let register = |handle: &Handle| handle.producer.register(&schema);
        let mut done = self.with_producer(register);
        if done == Err(ReserveError::Forked) {
            self.renew();
            done = self.with_producer(register);
        }
        done.map(|()| schema.id)
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
        let buffer = local::take_buffer();
        let mut draft = Draft { sink: self, kind, buffer, done: false };
        fill(&mut self.begin(&mut draft.buffer));
        match draft.publish() {
            Ok(0) => Ok(()),
            Ok(bytes) => {
                self.count(bytes);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// A record with the common fields.
    #[inline]
    fn begin<'b>(&self, buffer: &'b mut Vec<u8>) -> TaggedWriter<'b> {
        let mut writer = TaggedWriter::new(buffer).with_limit(self.ring.max_len);
        if !self.ring.timed {
            writer.u64(0, ids::nanos());
        }
        writer.u64(1, self.ring.pid.load(Ordering::Relaxed).into());
        writer
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
        self.ring.timed
    }

    /// Where the ring lives.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.ring.home
    }

    /// Returns how many bytes the sink is to count.
    fn publish(&self, kind: RecordType, payload: &mut [u8]) -> Result<u64, ReserveError> {
        let mut done = self.try_publish(kind, payload);
        if done == Err(ReserveError::Forked) {
            self.renew();
            done = self.try_publish(kind, payload);
        }
        if done.is_err() {
            self.ring.dropped.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    #[inline]
    fn try_publish(&self, kind: RecordType, payload: &mut [u8]) -> Result<u64, ReserveError> {
        // A record that was begun before the fork showed has the parent's pid: a value in it may have
        // written a record itself, or another thread.
        let pid = self.ring.pid.load(Ordering::Relaxed);
        let at = if self.ring.timed { WORD } else { VALUE + WORD };
        if let Some(place) = payload.get_mut(at..at + WORD) {
            place.copy_from_slice(&u64::from(pid).to_ne_bytes());
        }
        self.with_producer_of(pid, |handle| handle.publish(kind, payload, &self.ring))
    }

    fn with_producer<R>(
        &self,
        act: impl Fn(&Handle) -> Result<R, ReserveError>,
    ) -> Result<R, ReserveError> {
        self.with_producer_of(self.ring.pid.load(Ordering::Relaxed), act)
    }

    /// `Forked` if this is not the process with this pid.
    #[inline]
    fn with_producer_of<R>(
        &self,
        pid: u32,
        act: impl Fn(&Handle) -> Result<R, ReserveError>,
    ) -> Result<R, ReserveError> {
        match self.ring.threads {
            Threads::Together => self.ring.with_spare(act),
            Threads::Each => {
                local::with(&self.ring, pid, &act).unwrap_or_else(|| self.ring.with_spare(act))
            }
        }
    }

    /// In a forked child: attach anew, and say so.
    #[cold]
    fn renew(&self) {
        if self.ring.threads == Threads::Together {
            return;
        }
        local::forget(&self.ring);
        let pid = std::process::id();
        if self.ring.pid.swap(pid, Ordering::Relaxed) != pid {
            self.ring.started.store(ids::started_anew(), Ordering::Relaxed);
            let _ = self.tell_resource();
        }
    }

    /// Tells the resource again, now and then, so that a ring that overwrites still has it.
    #[cold]
    fn count(&self, bytes: u64) {
        let before = self.ring.traffic.fetch_add(bytes, Ordering::Relaxed);
        if before < self.ring.interval && before + bytes >= self.ring.interval {
            let _ = self.tell_resource();
        }
    }

    /// By the sink's own producer, so that a thread that does no more than this takes no slot.
    fn tell_resource(&self) -> Result<(), ReserveError> {
        let mut buffer = local::take_buffer();
        let mut writer = self.begin(&mut buffer);
        signals::started(self.ring.started.load(Ordering::Relaxed), &mut writer);
        self.ring.resource.fill(&mut writer);
        let tell = |handle: &Handle| handle.publish(RESOURCE.id, &buffer, &self.ring).map(|_| ());
        let mut told = self.ring.with_spare(tell);
        if told == Err(ReserveError::Forked) {
            told = self.with_producer(tell);
        }
        local::give_buffer(buffer);
        // Refused, for a full ring or want of a slot: after the next bytes again.
        let rest = if told.is_ok() { 0 } else { self.ring.interval - 1 };
        self.ring.traffic.store(rest, Ordering::Relaxed);
        told
    }
}

impl Handle {
    /// Publishes; says how many bytes the sink is to count.
    #[inline]
    fn publish(&self, kind: RecordType, bytes: &[u8], ring: &Ring) -> Result<u64, ReserveError> {
        // Only a ring that never fills: to wait for space would be to wait for a reader.
        if ring.threads == Threads::Together && ring.layout.policy == Policy::Overwrite {
            self.publish_patiently(kind, bytes)?;
        } else {
            self.producer.publish(kind, bytes)?;
        }
        let sum = self.bytes.get().saturating_add(ring.layout.record_size(bytes.len()));
        let due = sum >= ring.chunk;
        self.bytes.set(if due { 0 } else { sum });
        Ok(if due { sum } else { 0 })
    }

    /// Waits for a producer that was interrupted at a bad moment. For one that is stopped it waits
    /// once, and no more until it goes on.
    fn publish_patiently(&self, kind: RecordType, bytes: &[u8]) -> Result<(), ReserveError> {
        let limit = if self.held_up.get() { Duration::ZERO } else { PATIENCE };
        let done = self.producer.publish_timeout(kind, bytes, limit);
        let held_up =
            matches!(done, Err(ReserveError::Contended { .. } | ReserveError::Pending { .. }));
        self.held_up.set(held_up);
        done
    }
}

impl Ring {
    /// One more producer; none if all slots are taken, or the ring's name is another ring's now.
    pub(crate) fn attach(&self) -> Option<SharedProducer> {
        let producer = SharedProducer::attach(self.home.clone()).ok()?;
        (producer.layout().uuid == self.layout.uuid).then_some(producer)
    }

    fn with_spare<R>(
        &self,
        act: impl Fn(&Handle) -> Result<R, ReserveError>,
    ) -> Result<R, ReserveError> {
        // In a child it may be held forever. Where it is not, the producer itself knows of the fork.
        match self.spare.try_lock() {
            Ok(spare) => act(&spare),
            // A panic between two records leaves the producer as it was.
            Err(TryLockError::Poisoned(spare)) => act(&spare.into_inner()),
            Err(TryLockError::WouldBlock) => act(&*self.wait_for_spare()?),
        }
    }

    #[cold]
    fn wait_for_spare(&self) -> Result<MutexGuard<'_, Handle>, ReserveError> {
        if std::process::id() != self.owner {
            return Err(ReserveError::Forked);
        }
        Ok(self.spare.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        local::sweep();
    }
}

/// A record in the making.
struct Draft<'a> {
    sink: &'a Sink,
    kind: RecordType,
    buffer: Vec<u8>,
    done: bool,
}

impl Draft<'_> {
    #[inline]
    fn publish(mut self) -> Result<u64, ReserveError> {
        self.done = true;
        self.sink.publish(self.kind, &mut self.buffer)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.done {
            // A panic: these may be the last words.
            let _ = self.sink.publish(self.kind, &mut self.buffer);
        }
        local::give_buffer(std::mem::take(&mut self.buffer));
    }
}
