//! Registering record types in a ring's type table.

use crate::file::open::RingFile;
use crate::sys::ofd_lock::ByteLock;
use perfring_abi::RecordType;
use perfring_ring::{TableFull, TypeTable, TypeTableWriter};
use perfring_types::{ENTRY_MAX, Entries, Entry, Schema};
use std::cell::{Cell, RefCell};
use std::time::Duration;
use thiserror::Error;

/// Tries to take the table's lock, and the sleep between them: a tenth of a second in all, which is
/// a thousand times what a registration takes.
const TRIES: u32 = 1000;
const NAP: Duration = Duration::from_micros(100);

/// Why a type could not be registered. What the table held before is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TypeError {
    /// The ring was made without a type table.
    #[error(
        "this ring has no type table: make it with types_size above 0 (`perfring create --types-size`)"
    )]
    NoTable,
    /// The table has no room for the entry.
    #[error(
        "the type table is full: the entry takes {needed} bytes and {left} are left; make the ring \
         with a larger one (`perfring create --types-size`)"
    )]
    Full {
        /// Bytes of the entry.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// No reader takes so long an entry.
    #[error("the type's entry takes {len} bytes, and at most {ENTRY_MAX} can be: shorten its help")]
    TooLong {
        /// Bytes of the entry.
        len: usize,
    },
    /// Another type has the same number.
    #[error(
        "record type {id} is taken in this ring by a type with another name or layout: give one of \
         them another id, or raise its version"
    )]
    Taken {
        /// The number.
        id: u32,
    },
    /// Another process holds the table's lock for longer than a registration takes.
    #[error("another process holds the type table's lock and does not go on: try again")]
    Busy,
    /// An entry of the table cannot be one: somebody wrote into it.
    #[error("the type table is damaged {at} bytes after its first entry: nothing can be added")]
    Damaged {
        /// Where, from the first entry on.
        at: u64,
    },
    /// The system refused the table's lock.
    #[error("the type table cannot be locked: {}", std::io::Error::from_raw_os_error(*.errno))]
    Lock {
        /// What the system said.
        errno: i32,
    },
}

/// The types that a producer knows to be in its ring's table, by [`Schema::key`], so that a record
/// of one costs a load and a comparison.
#[derive(Debug)]
pub(crate) struct Known {
    /// Each type has one place; it may share it with others.
    places: [Cell<u64>; Known::PLACES],
    /// All of them, in order.
    all: RefCell<Vec<u64>>,
    /// The last that could not be registered, how long the table was, and why: as long as it does
    /// not grow, the answer is the same. (It never shrinks.)
    failed: Cell<Option<(u64, u64, TypeError)>>,
}

impl Known {
    const PLACES: usize = 64;

    pub(crate) fn new() -> Self {
        // A type whose key is 0 would never be registered: one of 2^64.
        let places = std::array::from_fn(|_| Cell::new(0));
        Known { places, all: RefCell::default(), failed: Cell::new(None) }
    }

    #[inline(always)]
    pub(crate) fn has(&self, key: u64) -> bool {
        self.places[key as usize % Self::PLACES].get() == key
    }

    /// Makes sure that the type is in the table.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_up(
        &self,
        ring: &RingFile,
        table: TypeTableWriter<'_>,
        schema: &Schema<'_>,
    ) -> Result<(), TypeError> {
        let (key, mut all) = (schema.key(), self.all.borrow_mut());
        if let Err(at) = all.binary_search(&key) {
            let end = table.table().end();
            if let Some((failed, then, error)) = self.failed.get()
                && (failed, then) == (key, end)
            {
                return Err(error);
            }
            if let Err(error) = register(ring, table, schema) {
                // Others may be better the next time.
                if !matches!(error, TypeError::Busy | TypeError::Lock { .. }) {
                    self.failed.set(Some((key, end, error)));
                }
                return Err(error);
            }
            all.insert(at, key);
        }
        self.places[key as usize % Self::PLACES].set(key);
        Ok(())
    }
}

fn register(
    ring: &RingFile,
    table: TypeTableWriter<'_>,
    schema: &Schema<'_>,
) -> Result<(), TypeError> {
    put(ring, table, (schema.id, schema.layout()), || schema.to_entry())
}

/// Makes sure that another ring's entry is in the table.
pub(crate) fn put_entry(
    ring: &RingFile,
    table: TypeTableWriter<'_>,
    entry: &Entry<'_>,
) -> Result<(), TypeError> {
    put(ring, table, (entry.id, entry.layout), || entry.to_words())
}

fn put(
    ring: &RingFile,
    table: TypeTableWriter<'_>,
    kind: (RecordType, u64),
    entry: impl FnOnce() -> Vec<u64>,
) -> Result<(), TypeError> {
    if !table.table().exists() {
        return Err(TypeError::NoTable);
    }
    // Most of the time it is there, from the producer before this one.
    if find(table.table(), kind)? {
        return Ok(());
    }
    let _lock = lock(ring)?;
    if find(table.table(), kind)? {
        return Ok(());
    }
    let entry = entry();
    if entry.len() > ENTRY_MAX / 8 {
        return Err(TypeError::TooLong { len: 8 * entry.len() });
    }
    table.append(&entry).map_err(|TableFull { needed, left }| TypeError::Full { needed, left })
}

/// Whether the table has the type; or something else under its number.
fn find(table: TypeTable<'_>, (id, layout): (RecordType, u64)) -> Result<bool, TypeError> {
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

/// A lock that the kernel drops when its holder dies, so nothing is ever left half done for good.
fn lock(ring: &RingFile) -> Result<ByteLock, TypeError> {
    for _ in 0..TRIES {
        match ByteLock::take(&ring.file, ring.layout.types_offset()) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) => std::thread::sleep(NAP),
            Err(error) => {
                return Err(TypeError::Lock { errno: error.raw_os_error().unwrap_or_default() });
            }
        }
    }
    Err(TypeError::Busy)
}
