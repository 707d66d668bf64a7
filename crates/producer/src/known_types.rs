//! Registering record types in a ring's type table.

use crate::reserve_error::{ReserveError, TypeError};
use perfring_abi::RecordType;
use perfring_ring::{TableFull, TypeTableArea};
use perfring_shm::{Attached, LockedTypes};
use perfring_types::{ENTRY_MAX, Entries, Entry, Schema};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Attempts to take the table's lock, and the sleep between them: a tenth of a second in all, a
/// thousand times what a registration takes.
const TRIES: u32 = 1000;
const NAP: Duration = Duration::from_micros(100);

/// The types that a producer knows to be in its ring's table, by [`Schema::key`], so that a record
/// of one costs a load and a comparison.
#[derive(Debug)]
pub(crate) struct KnownTypes {
    /// Each type has one cache entry, which it may share with others.
    cached: [Cell<u64>; KnownTypes::CACHED],
    /// All of them, in order.
    all: RefCell<Vec<u64>>,
    /// The last type that could not be registered, the table's length then, and the error: it stays
    /// the same until the table grows. (It never shrinks.)
    failed: Cell<Option<(u64, u64, TypeError)>>,
}

impl KnownTypes {
    const CACHED: usize = 64;

    pub(crate) fn new() -> Self {
        // A type whose key is 0 would never be registered: one of 2^64.
        let cached = std::array::from_fn(|_| Cell::new(0));
        KnownTypes { cached, all: RefCell::default(), failed: Cell::new(None) }
    }

    /// Ensures that the type with this [`Schema::key`] is in the table. After the first time this
    /// is a load and a comparison.
    #[inline(always)]
    pub(crate) fn register(
        &self,
        ring: &Attached,
        schema: &Schema<'_>,
        key: u64,
    ) -> Result<(), ReserveError> {
        if self.cached[key as usize % Self::CACHED].get() == key {
            return Ok(()); // a forked child is refused where it reserves
        }
        self.look_up(ring, schema)
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self, ring: &Attached, schema: &Schema<'_>) -> Result<(), ReserveError> {
        let (key, mut all) = (schema.key(), self.all.borrow_mut());
        if ring.forked() {
            return Err(ReserveError::Forked);
        }
        if let Err(at) = all.binary_search(&key) {
            let end = ring.types().end();
            if let Some((failed, then, error)) = self.failed.get()
                && (failed, then) == (key, end)
            {
                return Err(ReserveError::Type(error));
            }
            if let Err(error) = add(ring, (schema.id, schema.layout()), || schema.to_entry()) {
                let refused = error_of(ring, error);
                if refused != ReserveError::Type(error) {
                    return Err(refused);
                }
                // These may succeed the next time.
                if !matches!(error, TypeError::Busy | TypeError::Lock { .. }) {
                    self.failed.set(Some((key, end, error)));
                }
                return Err(ReserveError::Type(error));
            }
            all.insert(at, key);
        }
        self.cached[key as usize % Self::CACHED].set(key);
        Ok(())
    }
}

/// Ensures that another ring's entry is in the table.
pub(crate) fn add_entry(ring: &Attached, entry: &Entry<'_>) -> Result<(), ReserveError> {
    if ring.forked() {
        return Err(ReserveError::Forked);
    }
    add(ring, (entry.id, entry.layout), || entry.to_words()).map_err(|error| error_of(ring, error))
}

/// Returns the error for a type that was not put into a table.
fn error_of(ring: &Attached, error: TypeError) -> ReserveError {
    match error {
        TypeError::Damaged { .. } => ReserveError::Type(error).damaged(ring.look()),
        error => ReserveError::Type(error),
    }
}

fn add(
    ring: &Attached,
    kind: (RecordType, u64),
    entry: impl FnOnce() -> Vec<u64>,
) -> Result<(), TypeError> {
    let table = ring.types();
    if !table.exists() {
        return Err(TypeError::NoTable);
    }
    // It is usually there, from the producer before this one.
    if find(table, kind)? {
        return Ok(());
    }
    let locked = lock(ring)?;
    if find(table, kind)? {
        return Ok(());
    }
    let entry = entry();
    if entry.len() > ENTRY_MAX / 8 {
        return Err(TypeError::TooLong { len: 8 * entry.len() });
    }
    locked.append(&entry).map_err(|TableFull { needed, left }| TypeError::Full { needed, left })
}

/// Returns whether the table has the type.
fn find(table: TypeTableArea<'_>, (id, layout): (RecordType, u64)) -> Result<bool, TypeError> {
    let words = table.entries();
    for entry in Entries::new(&words) {
        match entry {
            Ok(entry) if entry.id != id => {}
            Ok(entry) if entry.layout == layout => return Ok(true),
            Ok(_) => return Err(TypeError::Taken { id: id.get() }),
            Err(damage) => return Err(TypeError::Damaged { at: damage.at }),
        }
    }
    Ok(false)
}

/// Takes the table's lock, for up to a tenth of a second.
pub(crate) fn lock(ring: &Attached) -> Result<LockedTypes<'_>, TypeError> {
    for _ in 0..TRIES {
        match ring.lock_types() {
            Ok(Some(locked)) => return Ok(locked),
            Ok(None) => std::thread::sleep(NAP),
            Err(error) => return Err(TypeError::Lock { errno: error.raw_os_error().unwrap_or(0) }),
        }
    }
    Err(TypeError::Busy)
}
