//! Where a sink's ring is, and what is needed to attach to a ring there again.

use crate::signals::ALL;
use perfring_producer::types::{Entries, Schema};
use perfring_producer::{
    AttachError, CreateError, Location, OpenError, Options, ReserveError, SharedProducer,
    files::create_if_missing,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use thiserror::Error;

/// Why a sink cannot be opened, or cannot attach again.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The ring cannot be created.
    #[error(transparent)]
    Create(CreateError),
    /// The ring cannot be attached to.
    #[error(transparent)]
    Attach(AttachError),
    /// The ring refuses the built-in types, or one that the program declared.
    #[error(transparent)]
    First(ReserveError),
    /// Another ring has the name of the sink's ring, and the sink does not write there: it belongs to another user, lets more
    /// users in, or differs in whether it has timestamps.
    #[error(transparent)]
    Other(OpenError),
}

impl From<OpenError> for SinkError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Create(error) => SinkError::Create(error),
            OpenError::Attach(error) => SinkError::Attach(error),
            error => SinkError::Other(error),
        }
    }
}

/// How often a thread of a forked child tries to take the lock, and its sleep between two tries: a tenth of a second in all.
/// Another thread of the child has the lock, or a thread of the parent had it during the fork.
const TRIES: u32 = 1000;
const NAP: Duration = Duration::from_micros(100);

/// A place that has, or had, the sink's ring.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) location: Location,
    /// Those that the first ring was made with.
    options: Options,
    declared: Mutex<Declared>,
    /// The process that may wait for that lock without a limit: in a forked child it may be held for ever.
    owner: u32,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Declared {
    /// The entries of all types for the ring's table.
    entries: Vec<Vec<u64>>,
    /// The id of the ring that has them.
    uuid: [u8; 16],
}

impl Place {
    /// Returns the place of a ring that has just been attached to, after registering the built-in types there.
    pub(crate) fn new(first: &SharedProducer) -> Result<Self, SinkError> {
        let options = first.options().map_err(SinkError::Attach)?;
        let entries: Vec<_> = ALL.iter().map(Schema::to_entry).collect();
        register(first, &entries)?;
        let declared = Mutex::new(Declared { entries, uuid: first.layout().uuid });
        let location = first.location().clone();
        Ok(Place {
            location,
            options,
            declared,
            owner: std::process::id(),
            dropped: AtomicU64::new(0),
        })
    }

    /// Returns whether the ring has timestamps: each ring that this place has.
    pub(crate) fn is_timed(&self) -> bool {
        self.options.time
    }

    /// Counts lost records.
    #[inline]
    pub(crate) fn lose(&self, records: u64) {
        self.dropped.fetch_add(records, Ordering::Relaxed);
    }

    /// Returns how many records were lost.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Adds a type to those that each ring gets. To be called before the type is registered, and then by an alarm's number
    /// that was loaded later: a handle that is not of this ring any more follows it.
    pub(crate) fn declare(&self, entry: Vec<u64>) -> Result<(), ReserveError> {
        let mut declared = self.lock()?;
        if !declared.entries.contains(&entry) {
            declared.entries.push(entry);
        }
        Ok(())
    }

    /// Takes back a type that the ring's table refuses.
    pub(crate) fn forget(&self, entry: &[u64]) {
        if let Ok(mut declared) = self.lock() {
            declared.entries.retain(|other| other != entry);
        }
    }

    /// Attaches one more producer to the ring. `None` if it has no free slot.
    ///
    /// # Errors
    /// See [`Place::attach_again`].
    pub(crate) fn attach(
        &self,
        began: impl FnOnce(&SharedProducer),
    ) -> Result<Option<SharedProducer>, SinkError> {
        match SharedProducer::attach(self.location.clone()) {
            Ok(producer) if self.knows(&producer) => Ok(Some(producer)),
            Ok(_) | Err(AttachError::NotFound { .. } | AttachError::Removed { .. }) => {
                self.attach_again(began).map(Some)
            }
            Err(_) => Ok(None),
        }
    }

    fn knows(&self, producer: &SharedProducer) -> bool {
        self.lock().is_ok_and(|declared| declared.uuid == producer.layout().uuid)
    }

    /// Attaches to the ring that the place has by now, and makes it if there is none. The first handle of a process that
    /// does so registers all types; then it calls `began`, before any other handle attaches.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub(crate) fn attach_again(
        &self,
        began: impl FnOnce(&SharedProducer),
    ) -> Result<SharedProducer, SinkError> {
        match create_if_missing(self.location.clone(), &self.options) {
            // Another size is no reason to lose records. A record that was begun has a timestamp, or has none.
            Err(OpenError::Differs { option, .. }) if option != "time" => {}
            done => done?,
        }
        let producer = SharedProducer::attach(self.location.clone()).map_err(SinkError::Attach)?;
        if producer.layout().time != self.options.time {
            let location = self.location.clone();
            return Err(SinkError::Attach(AttachError::Removed { location })); // another one since then
        }
        let mut declared = self.lock().map_err(SinkError::First)?;
        if declared.uuid != producer.layout().uuid {
            register(&producer, &declared.entries)?;
            declared.uuid = producer.layout().uuid;
            began(&producer);
        }
        Ok(producer)
    }

    fn lock(&self) -> Result<MutexGuard<'_, Declared>, ReserveError> {
        self.lock_within(TRIES)
    }

    fn lock_within(&self, mut tries: u32) -> Result<MutexGuard<'_, Declared>, ReserveError> {
        loop {
            match self.declared.try_lock() {
                Ok(declared) => return Ok(declared),
                // No change of the list panics half way.
                Err(TryLockError::Poisoned(declared)) => return Ok(declared.into_inner()),
                Err(TryLockError::WouldBlock) if std::process::id() == self.owner => {
                    return Ok(self.declared.lock().unwrap_or_else(PoisonError::into_inner));
                }
                Err(TryLockError::WouldBlock) if tries == 0 => return Err(ReserveError::Forked),
                Err(TryLockError::WouldBlock) => {
                    tries -= 1;
                    std::thread::sleep(NAP);
                }
            }
        }
    }
}

/// Puts types into a ring's table.
fn register(producer: &SharedProducer, entries: &[Vec<u64>]) -> Result<(), SinkError> {
    for entry in entries.iter().flat_map(|words| Entries::new(words)).flatten() {
        producer.register_entry(&entry).map_err(SinkError::First)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use perfring_testkit::wait::{sleeps, until};
    use std::sync::mpsc;

    #[test]
    fn a_thread_of_a_forked_child_waits_for_another_one_and_not_for_one_of_the_parent() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { types_size: 1 << 16, ..Options::many() };
        let first = SharedProducer::create(dir.path().join("ring"), &options).unwrap();
        let mut place = Place::new(&first).unwrap();
        place.owner = 0; // as seen by a child
        let held = place.declared.lock().unwrap();
        assert!(
            matches!(place.lock_within(3), Err(ReserveError::Forked)),
            "a thread of the parent has it"
        );
        std::thread::scope(|scope| {
            let (say, said) = mpsc::channel();
            let place = &place;
            let thread = scope.spawn(move || {
                let tid = std::fs::read_link("/proc/thread-self").unwrap();
                say.send(tid.file_name().unwrap().to_str().unwrap().to_owned()).unwrap();
                place.lock_within(u32::MAX).is_ok()
            });
            let tid = said.recv().unwrap();
            until("the thread tries", || sleeps(&tid));
            drop(held);
            assert!(thread.join().unwrap());
        });
    }
}
