//! A mapping of a shared ring and the writer that knows which bytes of it are this producer's. The
//! pair must stay together, because the writer's positions are bytes of this mapping.

use crate::file::liveness::FileLocks;
use crate::map::attached::Attached;
use crate::sys::futex;
use perfring_ring::{Owed, Shared, SharedWriter};
use std::cell::RefCell;
use std::ops::Deref;

#[derive(Debug)]
pub(super) struct SharedPair {
    pub(super) attached: Attached,
    /// Attached to the ring that is mapped here.
    pub(super) writer: RefCell<SharedWriter>,
    pub(super) liveness: FileLocks,
}

impl Deref for SharedPair {
    type Target = Attached;

    #[inline(always)]
    fn deref(&self) -> &Attached {
        &self.attached
    }
}

impl SharedPair {
    #[inline(always)]
    pub(super) fn at(&self) -> Shared<'_> {
        self.map.shared()
    }

    /// Wakes the consumer, if it is owed a wake.
    #[inline]
    pub(super) fn owed(&self, owed: Owed) {
        futex::wake_if(owed, self.map.ring().wait_word());
    }
}
