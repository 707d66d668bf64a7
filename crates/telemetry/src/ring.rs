//! A process's attachment to a ring, and per thread: a producer of each ring that the thread writes to,
//! and buffers for records under construction.

use crate::ids;
use crate::resource::Resource;
use crate::signals::{self, RESOURCE};
use perfring_producer::types::Schema;
use perfring_producer::types::tagged::TaggedWriter;
use perfring_producer::{Layout, Location, Policy, RecordType, ReserveError, SharedProducer};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

/// How long a sink with one producer waits for another process that holds the ring's lock: some time
/// slices of the scheduler.
const PATIENCE: Duration = Duration::from_millis(20);

/// Bytes of a numbered field that holds one word, and the offset of the word in them.
const VALUE: usize = 16;
const WORD: usize = 8;

/// A process's attachment to a ring.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) location: Location,
    pub(crate) layout: Layout,
    pub(crate) max_len: usize,
    resource: Resource,
    threads: Threads,
    /// For threads that have no producer of their own.
    spare: Mutex<Handle>,
    spare_slot: u32,
    /// The process that may wait for that lock: in a forked child it may be held for ever.
    owner: u32,
    /// The pid in records.
    pid: AtomicU32,
    /// The time that the process's sums count from.
    started: AtomicU64,
    /// Bytes since the resource was last published.
    traffic: AtomicU64,
    /// A thread adds its bytes to `traffic` once it has this many.
    chunk: u64,
    /// Bytes after which the resource is published again.
    interval: u64,
    pub(crate) dropped: AtomicU64,
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
        location: Location,
        threads: Threads,
        spare: SharedProducer,
        resource: Resource,
    ) -> Arc<Self> {
        let (layout, max_len, pid) = (*spare.layout(), spare.max_len(), std::process::id());
        let (interval, spare_slot) = (layout.data_size / 4, spare.slot());
        Arc::new(Ring {
            location,
            layout,
            max_len,
            resource,
            threads,
            spare: Mutex::new(Handle::new(spare)),
            spare_slot,
            owner: pid,
            pid: AtomicU32::new(pid),
            started: AtomicU64::new(ids::started()),
            traffic: AtomicU64::new(0),
            chunk: interval / 256,
            interval,
            dropped: AtomicU64::new(0),
        })
    }

    pub(crate) fn threads(&self) -> Threads {
        self.threads
    }

    pub(crate) fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Puts a type into the ring's table.
    pub(crate) fn register(self: &Arc<Self>, schema: &Schema<'_>) -> Result<(), ReserveError> {
        let register = |handle: &Handle| handle.producer.register(schema);
        let mut done = self.with_producer(register);
        if done == Err(ReserveError::Forked) {
            self.renew();
            done = self.with_producer(register);
        }
        done
    }

    /// Begins a record with the common fields.
    #[inline]
    pub(crate) fn begin<'b>(&self, buffer: &'b mut Vec<u8>) -> TaggedWriter<'b> {
        let mut writer = TaggedWriter::new(buffer).with_limit(self.max_len);
        if !self.layout.time {
            writer.u64(0, ids::nanos());
        }
        writer.u64(1, self.pid.load(Ordering::Relaxed).into());
        writer
    }

    /// Returns how many bytes the sink is to count.
    pub(crate) fn publish(
        self: &Arc<Self>,
        kind: RecordType,
        payload: &mut [u8],
    ) -> Result<u64, ReserveError> {
        let mut done = self.try_publish(kind, payload);
        if done == Err(ReserveError::Forked) {
            self.renew();
            done = self.try_publish(kind, payload);
        }
        if done.is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    #[inline]
    fn try_publish(
        self: &Arc<Self>,
        kind: RecordType,
        payload: &mut [u8],
    ) -> Result<u64, ReserveError> {
        // The pid is written again: a record that was begun before the fork was noticed has the parent's.
        // (Formatting one of its values may have published a record, or another thread may have.)
        let pid = self.pid.load(Ordering::Relaxed);
        let at = if self.layout.time { WORD } else { VALUE + WORD };
        if let Some(attachment) = payload.get_mut(at..at + WORD) {
            attachment.copy_from_slice(&u64::from(pid).to_ne_bytes());
        }
        self.with_producer_of(pid, |handle| handle.publish(kind, payload, self))
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
            Threads::Together => self.with_spare(act),
            Threads::Each => with(self, pid, &act).unwrap_or_else(|| self.with_spare(act)),
        }
    }

    /// Attaches anew in a forked child, and publishes its resource.
    #[cold]
    fn renew(self: &Arc<Self>) {
        if self.threads == Threads::Together {
            return;
        }
        forget(self);
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
        let before = self.traffic.fetch_add(bytes, Ordering::Relaxed);
        if before < self.interval && before + bytes >= self.interval {
            let _ = self.report_resource();
        }
    }

    /// Publishes the resource by the sink's own producer, so that a thread that does only this takes no slot.
    pub(crate) fn report_resource(self: &Arc<Self>) -> Result<(), ReserveError> {
        let mut buffer = take_buffer();
        let mut writer = self.begin(&mut buffer);
        signals::started(self.started.load(Ordering::Relaxed), &mut writer);
        self.resource.fill(&mut writer);
        let report = |handle: &Handle| handle.publish(RESOURCE.id, &buffer, self).map(|_| ());
        let mut reported = self.with_spare(report);
        if reported == Err(ReserveError::Forked) {
            reported = self.with_producer(report);
        }
        give_buffer(buffer);
        // If the ring refused it, it is tried again after the next bytes.
        let rest = if reported.is_ok() { 0 } else { self.interval - 1 };
        self.traffic.store(rest, Ordering::Relaxed);
        reported
    }

    /// Attaches one more producer; `None` if all slots are taken, or the path is another ring's now.
    fn attach(&self) -> Option<SharedProducer> {
        let producer = SharedProducer::attach(self.location.clone()).ok()?;
        (producer.layout().uuid == self.layout.uuid).then_some(producer)
    }

    fn with_spare<R>(
        &self,
        act: impl Fn(&Handle) -> Result<R, ReserveError>,
    ) -> Result<R, ReserveError> {
        // A thread that has the lock comes here again from a panic hook: it must not wait for itself.
        if IN_SPARE.get() {
            return Err(ReserveError::Contended { slot: self.spare_slot });
        }
        let _inside = InSpare::enter();
        // In a forked child it may be held for ever. If it is free, the producer itself detects the fork.
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
        sweep();
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

/// A producer and how many bytes it has published that the sink has not counted.
#[derive(Debug)]
struct Handle {
    producer: SharedProducer,
    bytes: Cell<u64>,
    /// Another producer held the ring's lock for too long when this one last published.
    held_up: Cell<bool>,
}

impl Handle {
    fn new(producer: SharedProducer) -> Self {
        Handle { producer, bytes: Cell::new(0), held_up: Cell::new(false) }
    }

    /// Publishes a record. Returns how many bytes the sink is to count.
    #[inline]
    fn publish(&self, kind: RecordType, bytes: &[u8], ring: &Ring) -> Result<u64, ReserveError> {
        // Only in an overwrite ring: in a drop ring this would wait for the reader.
        if ring.threads == Threads::Together && ring.layout.policy == Policy::Overwrite {
            self.publish_patiently(kind, bytes)?;
        } else {
            self.producer.publish_as(kind, bytes)?;
        }
        let sum = self.bytes.get().saturating_add(ring.layout.record_size(bytes.len()));
        let due = sum >= ring.chunk;
        self.bytes.set(if due { 0 } else { sum });
        Ok(if due { sum } else { 0 })
    }

    /// Publishes a record, and waits for another producer that was interrupted while it held the lock. For
    /// a stopped one it waits once, and not again until that one continues.
    fn publish_patiently(&self, kind: RecordType, bytes: &[u8]) -> Result<(), ReserveError> {
        let limit = if self.held_up.get() { Duration::ZERO } else { PATIENCE };
        let done = self.producer.publish_timeout(kind, bytes, limit);
        let held_up =
            matches!(done, Err(ReserveError::Contended { .. } | ReserveError::Pending { .. }));
        self.held_up.set(held_up);
        done
    }
}

/// A thread's attachment to a sink.
struct Attachment {
    /// Keeps the address from being reused for another sink.
    ring: Weak<Ring>,
    /// `None` if no slot was free: then the sink's own producer publishes.
    handle: Option<Handle>,
    /// Without a handle: calls until the next attempt to get one.
    patience: Cell<u32>,
    /// The process that made the last attempt.
    pid: u32,
}

/// Calls between two attempts to get a slot when none was free: an attempt costs some 100 µs.
const TRIES: u32 = 4096;
/// Buffers that a thread keeps. It needs more than one if formatting a value publishes another record.
const BUFFERS: usize = 8;
/// A buffer's initial capacity; most records fit.
const BUFFER: usize = 1024;

struct Local {
    attachments: RefCell<Vec<Attachment>>,
    buffers: RefCell<Vec<Vec<u8>>>,
}

thread_local! {
    // At the thread's end its producers are dropped, which frees their slots.
    static LOCAL: Local =
        const { Local { attachments: RefCell::new(Vec::new()), buffers: RefCell::new(Vec::new()) } };
}

/// Returns an empty buffer.
pub(crate) fn take_buffer() -> Vec<u8> {
    let kept = LOCAL.try_with(|local| local.buffers.try_borrow_mut().ok()?.pop());
    kept.ok().flatten().unwrap_or_else(|| Vec::with_capacity(BUFFER))
}

/// Returns a buffer to the thread.
pub(crate) fn give_buffer(mut buffer: Vec<u8>) {
    buffer.clear();
    let _ = LOCAL.try_with(|local| {
        if let Ok(mut buffers) = local.buffers.try_borrow_mut()
            && buffers.len() < BUFFERS
        {
            buffers.push(buffer);
        }
    });
}

/// Calls `act` with the thread's own producer. `None` if it has none, or no longer; `Forked` if it would
/// get one now, and this is not the process with this pid.
fn with<R>(
    ring: &Arc<Ring>,
    pid: u32,
    act: impl Fn(&Handle) -> Result<R, ReserveError>,
) -> Option<Result<R, ReserveError>> {
    LOCAL.try_with(|local| local.with(ring, pid, act)).ok().flatten()
}

/// Drops the thread's producer: in a forked child it is the parent's. Keeps the note that this process
/// found no slot, or else each record would try again.
fn forget(ring: &Arc<Ring>) {
    let _ = LOCAL.try_with(|local| {
        if let Ok(mut attachments) = local.attachments.try_borrow_mut() {
            let stays = |attachment: &Attachment| {
                attachment.handle.is_none() && attachment.pid == std::process::id()
            };
            attachments.retain(|attachment| !attachment.is_of(ring) || stays(attachment));
        }
    });
}

/// Frees the thread's slots of dropped sinks. Other threads do so when they next attach to a sink, or end.
fn sweep() {
    let _ = LOCAL.try_with(|local| {
        if let Ok(mut attachments) = local.attachments.try_borrow_mut() {
            attachments.retain(|attachment| attachment.ring.strong_count() > 0);
        }
    });
}

impl Attachment {
    #[inline(always)]
    fn is_of(&self, ring: &Arc<Ring>) -> bool {
        Weak::as_ptr(&self.ring) == Arc::as_ptr(ring)
    }
}

impl Local {
    #[inline(always)]
    fn with<R>(
        &self,
        ring: &Arc<Ring>,
        pid: u32,
        act: impl Fn(&Handle) -> Result<R, ReserveError>,
    ) -> Option<Result<R, ReserveError>> {
        let attachments = self.attachments.try_borrow().ok()?;
        if let Some(attachment) = attachments.iter().find(|attachment| attachment.is_of(ring)) {
            if let Some(handle) = &attachment.handle {
                return Some(act(handle));
            }
            if let Some(left) = attachment.patience.get().checked_sub(1) {
                attachment.patience.set(left);
                return None;
            }
        }
        drop(attachments);
        // A thread without a producer notices a fork only here.
        if std::process::id() != pid {
            return Some(Err(ReserveError::Forked));
        }
        self.attach(ring)?;
        let attachments = self.attachments.try_borrow().ok()?;
        let attachment = attachments.iter().find(|attachment| attachment.is_of(ring))?;
        attachment.handle.as_ref().map(act)
    }

    #[cold]
    #[inline(never)]
    fn attach(&self, ring: &Arc<Ring>) -> Option<()> {
        let handle = ring.attach().map(Handle::new);
        let (patience, pid) = (Cell::new(TRIES), std::process::id());
        let attachment = Attachment { ring: Arc::downgrade(ring), handle, patience, pid };
        let mut attachments = self.attachments.try_borrow_mut().ok()?;
        attachments
            .retain(|attachment| attachment.ring.strong_count() > 0 && !attachment.is_of(ring));
        attachments.push(attachment);
        Some(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use perfring_producer::Options;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;

    #[test]
    fn a_thread_that_has_the_lock_of_the_sinks_own_producer_does_not_wait_for_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        perfring_producer::create(&path, &Options::many()).unwrap();
        let spare = SharedProducer::attach(&path).unwrap();
        let ring = Ring::new(spare.location().clone(), Threads::Together, spare, Resource::here());
        let (done, is_done) = mpsc::channel();
        let nested = std::thread::spawn(move || {
            let again = ring.with_spare(|_| Ok(ring.with_spare(|_| Ok(()))));
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                ring.with_spare(|_| -> Result<(), _> { std::panic::resume_unwind(Box::new(())) })
            }));
            let after = ring.with_spare(|_| Ok(()));
            done.send((again, panicked.is_err(), after)).unwrap();
        });
        let (again, panicked, after) =
            is_done.recv_timeout(perfring_testkit::wait::WATCHDOG).unwrap();
        assert!(matches!(again.unwrap(), Err(ReserveError::Contended { .. })));
        assert!(panicked);
        assert_eq!(after, Ok(()));
        nested.join().unwrap();
    }
}
