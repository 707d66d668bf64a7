//! Where a sink's ring is, and what is needed to attach to a ring there again.

use crate::attached::Attached;
use crate::signals::ALL;
use perfring_producer::types::{Entries, Schema};
use perfring_producer::{
    AttachError, CpuProducer, Location, OpenError, Options, ReserveError, SharedProducer,
    create_dir,
    error::{CpuSetError, CreateError},
    files::create_if_missing,
};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use thiserror::Error;

perfring_producer::debug_by_display!(SinkError);

/// Why a sink cannot be opened, or cannot attach again.
#[derive(Error)]
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
    /// The directory of rings per CPU cannot be made, or used.
    #[error(transparent)]
    Cpu(CpuSetError),
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

/// The name of the shared ring in a directory for rings per CPU.
const SHARED: &str = "shared";

/// A place that has, or had, the sink's ring or rings.
#[derive(Debug)]
pub(crate) struct Place {
    /// A directory, if there is a ring for each CPU.
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
    /// What has them.
    by: Has,
}

/// What has the types that the sink has declared.
#[derive(Debug)]
enum Has {
    /// The shared ring of this id.
    Ring([u8; 16]),
    /// The rings of this producer, which this process has made.
    Cpu(Arc<CpuProducer>, u32),
}

impl Place {
    /// Returns the place of a shared ring that has just been attached to, after registering the built-in types there.
    pub(crate) fn of_ring(first: SharedProducer) -> Result<(Self, Attached), SinkError> {
        let options = first.options().map_err(SinkError::Attach)?;
        let (location, by) = (first.location().clone(), Has::Ring(first.layout().uuid));
        Self::with(location, options, by, Attached::Shared(Box::new(first)))
    }

    /// Returns the place of the rings per CPU of this directory.
    pub(crate) fn of_cpus(dir: &Path, options: &Options) -> Result<(Self, Attached), SinkError> {
        let first = Arc::new(CpuProducer::open_or_create(dir, options).map_err(SinkError::Cpu)?);
        let by = Has::Cpu(Arc::clone(&first), std::process::id());
        Self::with(Location::File(dir.to_owned()), *options, by, Attached::Cpu(first))
    }

    /// Returns the place of a shared ring in this directory, for a process that can have no rings per CPU.
    pub(crate) fn in_dir(dir: &Path, options: &Options) -> Result<(Self, Attached), SinkError> {
        let mode = options.mode | (options.mode & 0o444) >> 2;
        let made = create_dir(dir, mode);
        if let Err(source) = made
            && source.kind() != io::ErrorKind::AlreadyExists
        {
            let dir = dir.to_owned();
            return Err(SinkError::Cpu(CpuSetError::Io { dir, step: "making it", source }));
        }
        let ring = SharedProducer::open_or_create(dir.join(SHARED), options)?;
        Self::of_ring(ring)
    }

    fn with(
        location: Location,
        options: Options,
        by: Has,
        first: Attached,
    ) -> Result<(Self, Attached), SinkError> {
        let entries: Vec<_> = ALL.iter().map(Schema::to_entry).collect();
        register(&first, &entries)?;
        let declared = Mutex::new(Declared { entries, by });
        let (owner, dropped) = (std::process::id(), AtomicU64::new(0));
        Ok((Place { location, options, declared, owner, dropped }, first))
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

    /// Attaches one more handle to the ring or rings. `None` if a shared ring has no free slot.
    ///
    /// # Errors
    /// See [`Place::attach_again`].
    pub(crate) fn attach(
        &self,
        began: impl FnOnce(&Attached),
    ) -> Result<Option<Attached>, SinkError> {
        let declared = self.lock().map_err(SinkError::First)?;
        let uuid = match &declared.by {
            Has::Ring(uuid) => *uuid,
            // A new handle looks at the files before its first record.
            Has::Cpu(producer, pid) if *pid == std::process::id() => {
                return Ok(Some(Attached::Cpu(Arc::clone(producer))));
            }
            Has::Cpu(..) => {
                drop(declared);
                return self.attach_again(None, began).map(Some);
            }
        };
        drop(declared);
        match SharedProducer::attach(self.location.clone()) {
            Ok(producer) if producer.layout().uuid == uuid => {
                Ok(Some(Attached::Shared(Box::new(producer))))
            }
            Ok(_) | Err(AttachError::NotFound { .. } | AttachError::Removed { .. }) => {
                self.attach_again(None, began).map(Some)
            }
            Err(_) => Ok(None),
        }
    }

    /// Attaches to the ring or rings that the place has by now, and makes what is missing. The first handle of a process that
    /// does so registers all types; then it calls `began`, before any other handle attaches. `gone` is what the caller had.
    ///
    /// # Errors
    /// See [`SinkError`].
    pub(crate) fn attach_again(
        &self,
        gone: Option<&Attached>,
        began: impl FnOnce(&Attached),
    ) -> Result<Attached, SinkError> {
        let mut declared = self.lock().map_err(SinkError::First)?;
        if let Has::Cpu(producer, pid) = &declared.by {
            let is_gone = matches!(gone, Some(Attached::Cpu(gone)) if Arc::ptr_eq(gone, producer));
            if !is_gone && *pid == std::process::id() {
                return Ok(Attached::Cpu(Arc::clone(producer)));
            }
            let Location::File(dir) = &self.location else { return Err(self.lost()) };
            let by = Arc::new(self.open_cpus(dir).map_err(SinkError::Cpu)?);
            let made = Attached::Cpu(Arc::clone(&by));
            register(&made, &declared.entries)?;
            declared.by = Has::Cpu(by, std::process::id());
            began(&made);
            return Ok(made);
        }
        drop(declared);
        match create_if_missing(self.location.clone(), &self.options) {
            // Another size is no reason to lose records. A record that was begun has a timestamp, or has none.
            Err(OpenError::Differs { option, .. }) if option != "time" => {}
            done => done?,
        }
        let producer = SharedProducer::attach(self.location.clone()).map_err(SinkError::Attach)?;
        let (uuid, time) = (producer.layout().uuid, producer.layout().time);
        if time != self.options.time {
            return Err(self.lost()); // another one since then
        }
        let producer = Attached::Shared(Box::new(producer));
        let mut declared = self.lock().map_err(SinkError::First)?;
        if !matches!(declared.by, Has::Ring(its) if its == uuid) {
            register(&producer, &declared.entries)?;
            declared.by = Has::Ring(uuid);
            began(&producer);
        }
        Ok(producer)
    }

    /// Opens the rings per CPU that are there by now. Another size is no reason to lose records.
    fn open_cpus(&self, dir: &Path) -> Result<CpuProducer, CpuSetError> {
        match CpuProducer::open_or_create(dir, &self.options) {
            Err(CpuSetError::Ring(OpenError::Differs { option, .. })) if option != "time" => {
                let Options { mode, any_owner, trust, .. } = self.options;
                let theirs = *CpuProducer::attach(dir)?.options();
                CpuProducer::open_or_create(dir, &Options { mode, any_owner, trust, ..theirs })
            }
            opened => opened,
        }
    }

    fn lost(&self) -> SinkError {
        SinkError::Attach(AttachError::Removed { location: self.location.clone() })
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
fn register(producer: &Attached, entries: &[Vec<u64>]) -> Result<(), SinkError> {
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
        let (mut place, _first) = Place::of_ring(first).unwrap();
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
