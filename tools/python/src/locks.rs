//! Locks, and work that a thread leaves to the owner of a lock.
//!
//! A thread with the interpreter's lock must not wait for a lock whose owner may wait for the
//! interpreter. It sets a flag that work is left, and tries the lock once. The owner checks the
//! flag after unlocking. Each stores before it checks, with a fence in between, so at least one of
//! the two sees the other's store.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks; a panic leaves no inconsistent state behind a lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks; returns `None` if another thread has the lock.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A flag that work is left to do.
#[derive(Default)]
pub(crate) struct Leftover(AtomicBool);

impl Leftover {
    /// Sets the flag, before trying the lock.
    pub(crate) fn leave(&self) {
        self.0.store(true, Ordering::Release);
        between();
    }

    /// Returns the flag, after unlocking.
    pub(crate) fn is_left(&self) -> bool {
        between();
        self.0.load(Ordering::Acquire)
    }

    /// Clears the flag: the caller, which has the lock, does the work.
    pub(crate) fn take(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Keeps the order of a store before it and a load or a try at a lock after it.
#[inline]
fn between() {
    if cfg!(target_arch = "x86_64") {
        // To lock and to unlock is a locked instruction, which is a fence: only the compiler's is
        // wanted, on the way of every record.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
