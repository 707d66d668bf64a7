//! Publishing telemetry into a ring.

use crate::place::SinkError;
use crate::ring::Ring;
use crate::severity::Severity;
use crate::signals::{COMMON, Signal};
use crate::threads::{give_buffer, take_buffer};
use perfring_producer::types::tagged::TaggedWriter;
use perfring_producer::types::{Class, Encoding, Field, Schema};
use perfring_producer::{
    Location, RecordType, ReserveError,
    error::{NoRseq, TypeError},
};
use std::sync::Arc;

/// Publishes telemetry, from any thread: into a directory with a ring for each CPU ([`Sink::open`]), or into a shared ring. Clones
/// are the same sink.
///
/// In a shared ring, each thread attaches to the ring when it first writes, and frees its slot when it ends. Threads that
/// find no free slot share one producer of the sink, behind a lock. A child of `fork(2)` attaches again at its first
/// record. It has no such producer: its threads that find no free slot lose their records, and try again after some
/// thousands.
///
/// In a shared ring, the sink publishes the resource each time that the process has filled a quarter of the ring. It counts
/// only the process's own bytes: if other processes write more than three times as much into an overwrite
/// ring, they may overwrite the resource before it is published again, and the records then have only
/// `process.pid`. A reader that follows the ring has seen it. For a complete dump, give such a process a
/// ring of its own.
///
/// The ring's file may be removed: by a cleaner of temporary files, by systemd at the user's logout (`RemoveIPC`), by a
/// colleague. Each thread looks at the file before its first record, and then about once a second if it has a record. If the
/// file was removed, replaced or cut off, the sink attaches again: to the ring that has the name by now, or to a new one with
/// the options of the first. All types are registered there, and the resource is published. [`Sink::dropped`] counts each
/// record that was published since its thread last found the file: only readers that have the removed file open got it.
/// While the sink cannot attach, it refuses records with [`ReserveError::Detached`], and tries again once a second.
/// [`Sink::check`] looks now, and says why the sink cannot attach.
///
/// With rings per CPU all of this holds, and a look is at all of them: two system calls for each. If one was removed, the sink
/// counts what it published in any of them since the last look, though readers get the records of those that were not removed.
/// A child of `fork(2)` opens the directory again at its first record.
///
/// [`Sink::emit`] and [`Sink::write`] do not wait, except for a shared ring's lock and for that one
/// producer's lock; with rings per CPU, for the lock of one that is full, is new, or gets more than 512 bytes. [`Sink::declare`], and so the first record of a call site or instrument, takes the
/// lock of the ring's type table: it waits for up to 0.1 s while another process holds it. The ring and
/// [`Sink::dropped`] count what cannot be published.
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
    pub(crate) ring: Arc<Ring>,
    /// The ring with priority, and the least severity of its records.
    pub(crate) priority: Option<(Severity, Arc<Ring>)>,
    /// Why there is a shared ring in place of rings per CPU.
    pub(crate) no_cpu_rings: Option<NoRseq>,
    /// Whether log records get trace and span of their thread's context.
    #[cfg(feature = "context")]
    pub(crate) thread_context: bool,
}

impl Sink {
    /// Returns the ring for records of this severity.
    #[inline]
    fn ring_for(&self, severity: Option<Severity>) -> &Arc<Ring> {
        if self.priority.is_none() { &self.ring } else { self.ring_by_priority(severity) }
    }

    /// Apart, so that without priorities the ring's address depends on no severity: the clock waits for it.
    #[inline(never)]
    fn ring_by_priority(&self, severity: Option<Severity>) -> &Arc<Ring> {
        match &self.priority {
            Some((least, ring)) if severity >= Some(*least) => ring,
            _ => &self.ring,
        }
    }

    /// Gives each [`Log`](crate::Log) without a trace the trace and span that its thread works for, from the tracing
    /// library's thread context of OTEP 4947 (`otel_thread_ctx_v1`).
    ///
    /// ```
    /// # use perfring_telemetry::{Resource, Sink, options};
    /// # let dir = tempfile::tempdir()?;
    /// let sink = Sink::create(dir.path().join("ring"), &options(), Resource::here())?.with_thread_context();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "context")]
    #[must_use]
    pub fn with_thread_context(mut self) -> Self {
        self.thread_context = true;
        self
    }

    /// Publishes a record of a built-in type.
    ///
    /// # Errors
    /// See [`ReserveError`]. The loss is counted, so the result may be ignored.
    #[inline]
    pub fn emit<S: Signal>(&self, signal: &S) -> Result<(), ReserveError> {
        self.write_into(self.ring_for(signal.severity()), S::SCHEMA.id, |_, writer| {
            #[cfg(feature = "context")]
            if self.thread_context
                && signal.may_have_trace()
                && let Some(context) = perfring_context::ThreadContext::current()
            {
                return signal.fill_within((context.trace_id, context.span_id), writer);
            }
            signal.fill(writer);
        })
    }

    /// Registers a type, for one call site or one instrument. Fields that are always the same are
    /// constants in the type; the others are numbered from [`FIRST`](crate::FIRST) on.
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
    /// [`ReserveError::Type`] if the table is full: then use the built-in type of the class, with the names
    /// in the records. [`Sink::may_declare_later`] says whether to try again.
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
        if let Some((_, ring)) = &self.priority {
            ring.register(&schema)?;
        }
        self.ring.register(&schema).map(|()| schema.id)
    }

    /// Returns whether [`Sink::declare`] may succeed later: another process held the table's lock for too
    /// long, or no slot was free. A full table stays full.
    #[must_use]
    pub fn may_declare_later(error: &ReserveError) -> bool {
        use ReserveError::{Detached, Forked, Type};
        use TypeError::{Busy, Lock};
        matches!(error, Forked | Detached | Type(Busy | Lock { .. }))
    }

    /// Publishes a record of a type that [`Sink::declare`] returned. The sink writes the
    /// [`COMMON`](crate::COMMON) fields, the closure the others. If the closure panics, what it has
    /// written is published, and the panic continues.
    ///
    /// # Errors
    /// See [`ReserveError`]. The loss is counted.
    #[inline]
    pub fn write(
        &self,
        kind: RecordType,
        fill: impl FnOnce(&mut TaggedWriter<'_>),
    ) -> Result<(), ReserveError> {
        self.write_into(&self.ring, kind, |_, writer| fill(writer))
    }

    /// Publishes a record as [`Sink::write`] does, one of this severity: see [`Sink::with_priority`].
    ///
    /// # Errors
    /// See [`ReserveError`]. The loss is counted.
    #[inline]
    pub fn write_at(
        &self,
        severity: Severity,
        kind: RecordType,
        fill: impl FnOnce(&mut TaggedWriter<'_>),
    ) -> Result<(), ReserveError> {
        self.write_into(self.ring_for(Some(severity)), kind, |_, writer| fill(writer))
    }

    /// Publishes a record as [`Sink::write`] does. The closure also gets the record's time, which the clock is read for once:
    /// ns of `CLOCK_BOOTTIME`. (A timed ring may raise the timestamp to that of the record before.)
    ///
    /// # Errors
    /// See [`ReserveError`]. The loss is counted.
    #[inline]
    pub fn write_timed(
        &self,
        kind: RecordType,
        fill: impl FnOnce(u64, &mut TaggedWriter<'_>),
    ) -> Result<(), ReserveError> {
        self.write_into(&self.ring, kind, fill)
    }

    #[inline]
    fn write_into(
        &self,
        ring: &Arc<Ring>,
        kind: RecordType,
        fill: impl FnOnce(u64, &mut TaggedWriter<'_>),
    ) -> Result<(), ReserveError> {
        let now = ring.now();
        let mut buffer = take_buffer();
        let draft = Draft { ring, kind, now, bytes: &mut buffer.bytes };
        let mut writer = ring.writer(draft.bytes);
        ring.begin(&mut writer);
        fill(now, &mut writer);
        std::mem::forget(draft);
        let done = ring.publish(kind, &mut buffer.bytes, now);
        give_buffer(buffer);
        match done {
            Ok(0) => Ok(()),
            Ok(bytes) => {
                ring.count(bytes);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns its rings.
    fn rings(&self) -> impl Iterator<Item = &Arc<Ring>> {
        [&self.ring].into_iter().chain(self.priority.as_ref().map(|(_, ring)| ring))
    }

    /// Looks at the files of its rings now, and attaches again where one was removed, replaced or cut off. Other threads follow
    /// at their next records. Three system calls for each ring.
    ///
    /// ```
    /// # use perfring_telemetry::{Log, Resource, Sink, options};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("ring");
    /// let sink = Sink::create(&path, &options(), Resource::here())?;
    /// std::fs::remove_file(&path)?;
    /// sink.check()?; // makes it again
    /// sink.emit(&Log { body: "ready".into(), ..Log::default() })?;
    /// assert!(path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SinkError`] says why it cannot attach again: records are lost until it can.
    pub fn check(&self) -> Result<(), SinkError> {
        self.rings().try_for_each(|ring| ring.check())
    }

    /// Returns how many records this process could not publish, or published into a file that was removed, in all of its rings.
    /// The rings' counters have the refused ones by cause. A thread counts what it lost in a removed file at its next record
    /// or at its end.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.rings().map(|ring| ring.place.dropped()).sum()
    }

    /// Returns the longest record in bytes. Longer text is truncated, and ends with an ellipsis.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.rings().map(|ring| ring.max_len()).min().unwrap_or(0)
    }

    /// Returns whether its rings write timestamps. In one that does not, the sink does.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.rings().all(|ring| ring.place.is_timed())
    }

    /// Returns where the ring is, or the directory of the rings per CPU: not the one with priority.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.ring.place.location
    }
}

/// A record under construction. If a panic drops it, it is published: it may be the last one.
struct Draft<'a> {
    ring: &'a Arc<Ring>,
    kind: RecordType,
    now: u64,
    bytes: &'a mut Vec<u8>,
}

impl Drop for Draft<'_> {
    #[cold]
    fn drop(&mut self) {
        let _ = self.ring.publish(self.kind, self.bytes, self.now);
    }
}
