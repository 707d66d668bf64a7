//! Tables that a signal handler can read at any moment: they need no lock, and only grow.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Entries in one block. There are as many blocks as were ever needed at a time.
pub(crate) const ENTRIES: usize = 256;

/// The entry of a table: made of atomics, because handlers read it while it is filled.
pub(crate) trait TableEntry: 'static {
    /// A free entry.
    const FREE: Self;
    /// Claims a free entry for the caller to fill. Returns whether it was free.
    fn claim(&self) -> bool;
}

/// The first block of a table, or one after it.
pub(crate) struct Block<E> {
    entries: [E; ENTRIES],
    next: AtomicPtr<Block<E>>,
}

impl<E: TableEntry> Block<E> {
    pub(crate) const fn new() -> Self {
        Block { entries: [const { E::FREE }; ENTRIES], next: AtomicPtr::new(null_mut()) }
    }

    fn next(&self) -> Option<&'static Block<E>> {
        // SAFETY: null, or a block that `next_or_new` leaked before it was stored here: it is whole,
        // and never freed.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    fn next_or_new(&self) -> &'static Block<E> {
        if let Some(next) = self.next() {
            return next;
        }
        let new = Box::into_raw(Box::new(Block::new()));
        match self.next.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: made above, and never freed from here on.
            Ok(_) => unsafe { &*new },
            Err(others) => {
                // SAFETY: made above; there is no other reference to it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: as in `next`, and not null: that is why ours was refused.
                unsafe { &*others }
            }
        }
    }

    /// Returns all entries, including free entries. Async-signal-safe.
    pub(crate) fn entries(&'static self) -> impl Iterator<Item = &'static E> {
        std::iter::successors(Some(self), |block| block.next()).flat_map(|block| &block.entries)
    }

    /// Returns a free entry, which the caller fills from now on.
    pub(crate) fn claim(&'static self) -> &'static E {
        let mut block = self;
        loop {
            match block.entries.iter().find(|entry| entry.claim()) {
                Some(entry) => return entry,
                None => block = block.next_or_new(),
            }
        }
    }
}
