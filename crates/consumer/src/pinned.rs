//! Any number of records at a time.

use crate::item::{Item, item};
use perfring_ring::{Count, ReadError};
use perfring_shm::PinWindow;

/// The content of a drop ring at one moment, of which any number of records can be kept at a time.
/// Dropping it releases all taken records, in one step.
#[derive(Debug)]
pub struct Pinned<'a> {
    pub(crate) window: PinWindow<'a>,
}

impl Pinned<'_> {
    /// Returns the next item, which stays valid until the whole is dropped.
    ///
    /// # Errors
    /// See [`ReadError`].
    #[inline]
    pub fn read(&self) -> Result<Option<Item<'_>>, ReadError> {
        Ok(self.window.read()?.map(item))
    }

    /// Returns how many records were taken from it so far.
    #[must_use]
    pub fn count(&self) -> Count {
        self.window.count()
    }

    /// Leaves everything unread: the next read starts where this one did.
    pub fn put_back(self) {
        self.window.put_back();
    }
}
