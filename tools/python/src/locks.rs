//! Locks, and what a thread leaves to the one that has one.
//!
//! With the interpreter's lock a thread must not wait for a lock whose owner may wait for the
//! interpreter. So it says that something is left to do, and tries the lock once; who has it looks
//! after it has given it back. Each does its store before its look, and a fence between them sees to
//! it that one of the two finds the other.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A panic leaves nothing half done behind a lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`]; `None` if another thread has it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Whether something is left to do.
#[derive(Default)]
pub(crate) struct Leftover(AtomicBool);

impl Leftover {
    /// Something is, from now on. Before a try at the lock.
    pub(crate) fn leave(&self) {
        self.0.store(true, Ordering::Release);
        between();
    }

    /// Whether something is. After the lock was given back.
    pub(crate) fn is_left(&self) -> bool {
        between();
        self.0.load(Ordering::Acquire)
    }

    /// All that was left up to now is done by the caller, who has the lock.
    pub(crate) fn take(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A store before it, and a load or a try at a lock after it, keep their order.
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
