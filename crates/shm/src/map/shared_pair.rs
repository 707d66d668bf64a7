//! A mapping of a shared ring and the writer that says which bytes of it are this producer's: a pair that
//! must not come apart, as the writer's positions are bytes of this mapping.

use crate::file::peers::Kernel;
use crate::map::mirror::Mirror;
use crate::sys::fork::NotForChildren;
use crate::sys::futex;
use perfring_ring::{Shared, SharedWriter};
use std::cell::{Ref, RefCell, RefMut};

#[derive(Debug)]
pub(super) struct SharedPair {
    // In the order in which they are to go: first what a forked child is cut off from.
    children: NotForChildren,
    map: Mirror,
    writer: RefCell<SharedWriter>,
    peers: Kernel,
}

impl SharedPair {
    /// The writer is attached to the ring that is mapped here.
    pub(super) fn new(
        children: NotForChildren,
        map: Mirror,
        writer: SharedWriter,
        peers: Kernel,
    ) -> Self {
        SharedPair { children, map, writer: RefCell::new(writer), peers }
    }

    #[inline(always)]
    pub(super) fn forked(&self) -> bool {
        self.children.forked()
    }

    #[inline(always)]
    pub(super) fn children(&self) -> &NotForChildren {
        &self.children
    }

    #[inline(always)]
    pub(super) fn map(&self) -> &Mirror {
        &self.map
    }

    #[inline(always)]
    pub(super) fn at(&self) -> Shared<'_> {
        self.map.shared()
    }

    #[inline(always)]
    pub(super) fn peers(&self) -> &Kernel {
        &self.peers
    }

    #[inline(always)]
    pub(super) fn writer(&self) -> Ref<'_, SharedWriter> {
        self.writer.borrow()
    }

    #[inline(always)]
    pub(super) fn writer_mut(&self) -> RefMut<'_, SharedWriter> {
        self.writer.borrow_mut()
    }

    /// Wakes the consumer, if that is owed to it.
    #[inline]
    pub(super) fn owed(&self, wake: bool) {
        if wake {
            futex::wake(self.map.ring().wait_word());
        }
    }
}
