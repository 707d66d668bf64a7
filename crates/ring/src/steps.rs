//! Counters for tests: records that are stepped over, in all and while the lock of a shared ring is held.

use alloc::boxed::Box;
use core::cell::{Cell, RefCell};

type Hook = Box<dyn FnMut(u64)>;

std::thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
    static LOCKED_AT: Cell<u64> = const { Cell::new(0) };
    static MOST: Cell<u64> = const { Cell::new(0) };
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// A record was stepped over by this thread.
pub(crate) fn step() {
    let steps = STEPS.get() + 1;
    STEPS.set(steps);
    // Not for the steps of the hook itself.
    if let Some(mut hook) = HOOK.take() {
        hook(steps);
        HOOK.set(Some(hook));
    }
}

pub(crate) fn locked() {
    LOCKED_AT.set(STEPS.get());
}

pub(crate) fn unlocked() {
    MOST.set(MOST.get().max(STEPS.get() - LOCKED_AT.get()));
}

/// Returns the most steps of this thread under one hold of the lock, and forgets them.
pub(crate) fn most_locked() -> u64 {
    MOST.replace(0)
}

/// Calls a function at each step of this thread, with the step's number. The function does what other processes may do
/// meanwhile.
pub(crate) fn at_each(hook: impl FnMut(u64) + 'static) {
    STEPS.set(0);
    HOOK.set(Some(Box::new(hook)));
}
