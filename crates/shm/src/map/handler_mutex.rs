//! A mutex that a signal handler does not wait for if it has interrupted the thread that has it.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// The bits of the mutexes that this thread has, or waits for.
    static HAS: Cell<u32> = const { Cell::new(0) };
}

/// A mutex for data that signal handlers also use. All mutexes with one `BIT` count as one: a handler is refused all of
/// them while its thread has any.
#[derive(Debug, Default)]
pub struct HandlerMutex<T, const BIT: u32>(Mutex<T>);

impl<T, const BIT: u32> HandlerMutex<T, BIT> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        HandlerMutex(Mutex::new(value))
    }

    /// Waits asleep for the thread that has it: it may be off this very core. Not to be called by a signal
    /// handler, which may have interrupted that thread.
    pub fn lock(&self) -> HandlerGuard<'_, T, BIT> {
        let noted = Noted::note();
        HandlerGuard { guard: self.0.lock().unwrap_or_else(PoisonError::into_inner), _noted: noted }
    }

    /// As [`HandlerMutex::lock`], unless this is a signal handler that has interrupted its thread while that had it,
    /// or was about to: it would wait for itself.
    pub fn lock_unless_interrupted(&self) -> Option<HandlerGuard<'_, T, BIT>> {
        (HAS.get() & BIT == 0).then(|| self.lock())
    }
}

/// Notes a bit of [`HAS`] while it lives.
#[derive(Debug)]
struct Noted<const BIT: u32> {
    before: u32,
}

impl<const BIT: u32> Noted<BIT> {
    fn note() -> Self {
        let before = HAS.get();
        HAS.set(before | BIT);
        // A handler of this thread sees it before the mutex is taken.
        compiler_fence(Ordering::SeqCst);
        Noted { before: before & BIT }
    }
}

impl<const BIT: u32> Drop for Noted<BIT> {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        HAS.set(HAS.get() & !BIT | self.before);
    }
}

/// The value of a [`HandlerMutex`], for one thread.
#[derive(Debug)]
pub struct HandlerGuard<'a, T, const BIT: u32> {
    guard: MutexGuard<'a, T>,
    /// Dropped last.
    _noted: Noted<BIT>,
}

impl<T, const BIT: u32> Deref for HandlerGuard<'_, T, BIT> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, const BIT: u32> DerefMut for HandlerGuard<'_, T, BIT> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::HandlerMutex;

    #[test]
    fn a_thread_that_has_one_is_refused_it_and_not_others() {
        let (one, other) = (HandlerMutex::<_, 1>::new(1), HandlerMutex::<_, 2>::new(2));
        let has = one.lock();
        assert!(one.lock_unless_interrupted().is_none());
        assert!(other.lock_unless_interrupted().is_some_and(|value| *value == 2));
        // Another thread would wait.
        let refused = || one.lock_unless_interrupted().is_none();
        assert!(refused());
        // A second mutex with the same bit, which no other test uses.
        drop(HandlerMutex::<_, 1>::new(3).lock());
        assert!(refused(), "the first is still had");
        drop(has);
        assert!(one.lock_unless_interrupted().is_some());
    }
}
