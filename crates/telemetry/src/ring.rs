//! A process's attachment to a ring.

use crate::attached::Attached;
use crate::handle::Handle;
use crate::ids;
use crate::place::{Place, SinkError};
use crate::resource::Resource;
use crate::signals::{self, RESOURCE};
use crate::threads::{Buffer, ask, forget, give_buffer, sweep, take_buffer, with, with_own};
use perfring_producer::types::Schema;
use perfring_producer::types::tagged::TaggedWriter;
use perfring_producer::{AttachError, ProcessClock, RecordType, ReserveError};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Bytes of a numbered field that holds one word, and the offset of the word in them.
const VALUE: usize = 16;
const WORD: usize = 8;

/// A process's attachment to a ring.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) place: Arc<Place>,
    max_len: AtomicUsize,
    /// Whether the ring writes timestamps, as each ring of the place does.
    is_timed: bool,
    clock: ProcessClock,
    resource: Resource,
    threads: Threads,
    /// For threads that have no producer of their own.
    spare: Mutex<Handle>,
    /// The slot of that one, until it attaches again: for errors.
    spare_slot: u32,
    /// The process that may wait for that lock: in a forked child it may be held for ever.
    owner: u32,
    /// The pid in records.
    pid: AtomicU32,
    /// The time that the process's sums count from.
    started: AtomicU64,
    /// Bytes since the resource was last published.
    traffic: AtomicU64,
    /// Bytes after which the resource is published again.
    interval: AtomicU64,
    /// How often the place had another ring. A handle of an earlier one looks at its file before its next record.
    alarms: AtomicU32,
}

/// Which threads have a producer of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// Each of them.
    Each,
    /// None: the sink has one for all.
    Together,
}

impl Ring {
    /// `spare` is the producer of threads that have none.
    pub(crate) fn new(
        threads: Threads,
        (place, spare): (Place, Attached),
        resource: Resource,
    ) -> Result<Arc<Self>, SinkError> {
        let clock = ProcessClock::find().map_err(|source| {
            SinkError::Attach(AttachError::Clock { location: place.location.clone(), source })
        })?;
        let pid = std::process::id();
        let spare_slot = if let Attached::Shared(one) = &spare { one.slot() } else { 0 };
        Ok(Arc::new(Ring {
            is_timed: place.is_timed(),
            clock,
            max_len: AtomicUsize::new(spare.max_len()),
            interval: AtomicU64::new(spare.size() / 4),
            resource,
            threads,
            spare: Mutex::new(Handle::new(spare, threads == Threads::Together, 0)),
            spare_slot,
            owner: pid,
            pid: AtomicU32::new(pid),
            started: AtomicU64::new(ids::started()),
            traffic: AtomicU64::new(0),
            alarms: AtomicU32::new(0),
            place: Arc::new(place),
        }))
    }

    pub(crate) fn threads(&self) -> Threads {
        self.threads
    }

    pub(crate) fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the longest record in bytes.
    pub(crate) fn max_len(&self) -> usize {
        self.max_len.load(Ordering::Relaxed)
    }

    /// Puts a type into the ring's table, and into that of each ring that takes its place.
    pub(crate) fn register(self: &Arc<Self>, schema: &Schema<'_>) -> Result<(), ReserveError> {
        let entry = schema.to_entry();
        self.place.declare(entry.clone())?;
        let register = || {
            self.with_producer(|handle| {
                handle.follow(self.alarms.load(Ordering::Relaxed))?;
                handle.producer.register(schema)
            })
        };
        let done = match register() {
            Err(error) if self.mends(error) => register(),
            done => done,
        };
        if let Err(ReserveError::Type(_)) = done {
            self.place.forget(&entry);
        }
        done
    }

    /// Returns a writer for a record.
    #[inline(always)]
    pub(crate) fn writer<'b>(&self, bytes: &'b mut Vec<u8>) -> TaggedWriter<'b> {
        TaggedWriter::new(bytes).with_limit(self.max_len())
    }

    /// Begins a record with the common fields.
    #[inline(always)]
    pub(crate) fn begin(&self, writer: &mut TaggedWriter<'_>) {
        if !self.is_timed {
            writer.u64(0, ids::nanos());
        }
        writer.u64(1, self.pid.load(Ordering::Relaxed).into());
    }

    /// Returns the time of a record that begins now, on the clock of timestamps.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Publishes a record that was begun at this time. Returns how many bytes the sink is to count.
    #[inline]
    pub(crate) fn publish(
        self: &Arc<Self>,
        kind: RecordType,
        payload: &mut [u8],
        now: u64,
    ) -> Result<u64, ReserveError> {
        let pid = self.write_pid(payload);
        let alarm = self.alarms.load(Ordering::Relaxed);
        if ask(&self.place, |handle| handle.publish_at_once(kind, payload, now, alarm)) {
            return Ok(0);
        }
        self.publish_slowly(kind, payload, now, pid)
    }

    /// Writes the pid again: a record that was begun before the fork was noticed has the parent's. (Formatting one of its
    /// values may have published a record, or another thread may have.)
    #[inline]
    fn write_pid(&self, payload: &mut [u8]) -> u32 {
        let pid = self.pid.load(Ordering::Relaxed);
        let at = if self.is_timed { WORD } else { VALUE + WORD };
        if let Some(attachment) = payload.get_mut(at..at + WORD) {
            attachment.copy_from_slice(&u64::from(pid).to_ne_bytes());
        }
        pid
    }

    #[inline(never)]
    fn publish_slowly(
        self: &Arc<Self>,
        kind: RecordType,
        payload: &mut [u8],
        now: u64,
        pid: u32,
    ) -> Result<u64, ReserveError> {
        match self.try_publish(kind, payload, now, pid) {
            Ok(bytes) => Ok(bytes),
            Err(error) => self.publish_again(error, kind, payload, now),
        }
    }

    #[cold]
    fn publish_again(
        self: &Arc<Self>,
        error: ReserveError,
        kind: RecordType,
        payload: &mut [u8],
        now: u64,
    ) -> Result<u64, ReserveError> {
        let done = if self.mends(error) {
            let pid = self.write_pid(payload);
            self.try_publish(kind, payload, now, pid)
        } else {
            Err(error)
        };
        if done.is_err() {
            self.place.lose(1);
        }
        done
    }

    /// Attaches again in a forked child, and where the ring's file was removed. Returns whether to act again.
    #[cold]
    fn mends(self: &Arc<Self>, error: ReserveError) -> bool {
        match error {
            ReserveError::Forked => {
                self.renew();
                true
            }
            ReserveError::Detached => self.may_attach_again(),
            _ => false,
        }
    }

    #[inline]
    fn try_publish(
        self: &Arc<Self>,
        kind: RecordType,
        payload: &[u8],
        now: u64,
        pid: u32,
    ) -> Result<u64, ReserveError> {
        let alarm = self.alarms.load(Ordering::Relaxed);
        self.with_producer_of(pid, |handle| {
            let bytes = handle.publish(kind, payload, (now, &self.clock), alarm)?;
            handle.note_published();
            Ok(bytes)
        })
    }

    /// Attaches to the ring that is there by now, once after each look that found the file removed. Returns whether it did.
    #[cold]
    fn may_attach_again(self: &Arc<Self>) -> bool {
        self.with_gone(|handle| handle.may_try() && self.replace(handle).is_ok()) == Ok(true)
    }

    /// Looks at the ring's file now, and attaches again if it was removed or cut off.
    pub(crate) fn check(self: &Arc<Self>) -> Result<(), SinkError> {
        let look = || self.with_producer(Handle::look);
        let found = match look() {
            Err(ReserveError::Forked) if self.mends(ReserveError::Forked) => look(),
            found => found,
        };
        match found {
            Err(ReserveError::Detached) => {
                self.with_gone(|handle| self.replace(handle)).map_err(SinkError::First)?
            }
            found => found.map_err(SinkError::First),
        }
    }

    /// Acts with the handle that [`Ring::with_producer`] acts with.
    fn with_gone<R>(self: &Arc<Self>, act: impl Fn(&mut Handle) -> R) -> Result<R, ReserveError> {
        let own = match self.threads {
            Threads::Together => None,
            Threads::Each => with_own(&self.place, &act),
        };
        own.map_or_else(|| self.with_spare(|handle| Ok(act(handle))), Ok)
    }

    /// Counts the records that were lost with the file, and attaches again.
    fn replace(&self, handle: &mut Handle) -> Result<(), SinkError> {
        self.place.lose(handle.take_unsure());
        // Loaded first: an alarm in between has the new handle look once more.
        let alarm = self.alarms.load(Ordering::Relaxed);
        let began = |producer: &Attached| self.begin_ring(producer);
        let producer = self.place.attach_again(Some(&handle.producer), began)?;
        *handle = Handle::new(producer, self.threads == Threads::Together, alarm);
        Ok(())
    }

    /// Publishes the resource in a new ring, and has all other handles follow.
    fn begin_ring(&self, producer: &Attached) {
        self.max_len.store(producer.max_len(), Ordering::Relaxed);
        self.interval.store(producer.size() / 4, Ordering::Relaxed);
        let record = self.resource_record();
        self.note_reported(producer.publish_resource(RESOURCE.id, &record.bytes).is_ok());
        give_buffer(record);
        self.alarms.fetch_add(1, Ordering::Relaxed);
    }

    fn with_producer<R>(
        self: &Arc<Self>,
        act: impl Fn(&Handle) -> Result<R, ReserveError>,
    ) -> Result<R, ReserveError> {
        self.with_producer_of(self.pid.load(Ordering::Relaxed), act)
    }

    /// `Forked` if this is not the process with this pid.
    #[inline]
    fn with_producer_of<R>(
        self: &Arc<Self>,
        pid: u32,
        act: impl Fn(&Handle) -> Result<R, ReserveError>,
    ) -> Result<R, ReserveError> {
        match self.threads {
            Threads::Together => self.with_spare(|handle| act(handle)),
            Threads::Each => with(&self.place, pid, || self.attach(), &act)
                .unwrap_or_else(|| self.with_spare(|handle| act(handle))),
        }
    }

    /// Attaches again in a forked child, and publishes its resource.
    #[cold]
    fn renew(self: &Arc<Self>) {
        if self.threads == Threads::Together {
            return;
        }
        forget(&self.place);
        let pid = std::process::id();
        if self.pid.swap(pid, Ordering::Relaxed) != pid {
            self.started.store(ids::started_anew(), Ordering::Relaxed);
            let _ = self.report_resource();
            self.publish_context();
        }
    }

    /// Publishes the resource as the process's context, with the feature. A process that cannot is one without.
    pub(crate) fn publish_context(&self) {
        #[cfg(feature = "context")]
        let _ = self.resource.publish();
    }

    /// Publishes the resource again at intervals, so that an overwrite ring still has it.
    #[cold]
    pub(crate) fn count(self: &Arc<Self>, bytes: u64) {
        let interval = self.interval.load(Ordering::Relaxed);
        let before = self.traffic.fetch_add(bytes, Ordering::Relaxed);
        if before < interval && before + bytes >= interval {
            let _ = self.report_resource();
        }
    }

    /// Publishes the resource by the sink's own producer, so that a thread that does only this takes no slot.
    pub(crate) fn report_resource(self: &Arc<Self>) -> Result<(), ReserveError> {
        let record = self.resource_record();
        let (now, alarm) = (self.now(), self.alarms.load(Ordering::Relaxed));
        let report = |handle: &Handle| match &handle.producer {
            Attached::Shared(_) => {
                handle.publish(RESOURCE.id, &record.bytes, (now, &self.clock), alarm).map(|_| ())
            }
            cpu @ Attached::Cpu(_) => cpu.publish_resource(RESOURCE.id, &record.bytes),
        };
        let mut reported = self.with_spare(|handle| match report(handle) {
            Err(ReserveError::Detached) if handle.may_try() && self.replace(handle).is_ok() => {
                report(handle)
            }
            reported => reported,
        });
        if reported == Err(ReserveError::Forked) {
            reported = self.with_producer(report);
        }
        give_buffer(record);
        self.note_reported(reported.is_ok());
        reported
    }

    fn resource_record(&self) -> Box<Buffer> {
        let mut buffer = take_buffer();
        let mut writer = self.writer(&mut buffer.bytes);
        self.begin(&mut writer);
        signals::started(self.started.load(Ordering::Relaxed), &mut writer);
        self.resource.fill(&mut writer);
        buffer
    }

    /// If the ring refused the resource, it is tried again after the next bytes.
    fn note_reported(&self, done: bool) {
        let rest = if done { 0 } else { self.interval.load(Ordering::Relaxed) - 1 };
        self.traffic.store(rest, Ordering::Relaxed);
    }

    /// Attaches one more producer; `None` if all slots are taken.
    fn attach(&self) -> Option<Handle> {
        let alarm = self.alarms.load(Ordering::Relaxed);
        let producer = self.place.attach(|producer| self.begin_ring(producer)).ok()??;
        Some(Handle::new(producer, false, alarm))
    }

    fn with_spare<R>(
        &self,
        act: impl FnOnce(&mut Handle) -> Result<R, ReserveError>,
    ) -> Result<R, ReserveError> {
        // A thread that has the lock comes here again from a panic hook: it must not wait for itself.
        if IN_SPARE.get() {
            return Err(ReserveError::Contended { slot: self.spare_slot });
        }
        let _inside = InSpare::enter();
        // In a forked child it may be held for ever. If it is free, the producer itself detects the fork.
        match self.spare.try_lock() {
            Ok(mut spare) => act(&mut spare),
            // A panic between two records leaves the producer as it was.
            Err(TryLockError::Poisoned(spare)) => act(&mut spare.into_inner()),
            Err(TryLockError::WouldBlock) => act(&mut *self.wait_for_spare()?),
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
        sweep(&self.place);
    }
}

thread_local! {
    /// Whether this thread has the lock of a sink's own producer, or waits for it.
    static IN_SPARE: Cell<bool> = const { Cell::new(false) };
}

struct InSpare;

impl InSpare {
    fn enter() -> Self {
        IN_SPARE.set(true);
        InSpare
    }
}

impl Drop for InSpare {
    fn drop(&mut self) {
        IN_SPARE.set(false);
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
