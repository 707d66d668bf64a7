//! The atomics of every shared field, so that loom can run the real algorithm. With `--cfg loom`
//! they are loom's; the only other change is that a thread can be made to die, see `death` below.

#[cfg(not(loom))]
pub use core::hint::spin_loop;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(loom)]
pub use mortal::{AtomicU64, death};

/// Loom reorders nothing within a thread, so a compiler fence is a full one there.
#[cfg(loom)]
pub use loom::sync::atomic::fence as compiler_fence;

/// 64-bit atomics before whose stores a thread may die.
#[cfg(loom)]
mod mortal {
    extern crate std;
    use super::Ordering;
    use loom::sync::Arc;
    use std::sync::OnceLock;

    /// Death at a store: what other processes see of a killed process is the stores that it has
    /// made.
    pub mod death {
        extern crate std;
        use core::cell::Cell;
        use std::boxed::Box;
        use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

        loom::thread_local! {
            static LEFT: Cell<u64> = Cell::new(u64::MAX);
        }

        struct Killed;

        /// Runs `life` in this thread until its store number `stores` (from 0), and returns its
        /// result, or `None` if it died.
        ///
        /// # Panics
        /// If `life` panics.
        pub fn after<T>(stores: u64, life: impl FnOnce() -> T) -> Option<T> {
            LEFT.with(|left| left.set(stores));
            // What `life` leaves behind is only read by the algorithm under test.
            let lived = catch_unwind(AssertUnwindSafe(life));
            LEFT.with(|left| left.set(u64::MAX));
            match lived {
                Ok(result) => Some(result),
                Err(why) if why.is::<Killed>() => None,
                Err(why) => resume_unwind(why),
            }
        }

        pub(super) fn store() {
            let left = LEFT.with(|left| left.replace(left.get().saturating_sub(1)));
            if left == 0 {
                // Without the panic hook: nothing is printed.
                resume_unwind(Box::new(Killed));
            }
            if left == u64::MAX {
                LEFT.with(|left| left.set(u64::MAX));
            }
        }
    }

    /// Like loom's, with a possible death before each store.
    #[derive(Debug)]
    pub struct AtomicU64(loom::sync::atomic::AtomicU64, OnceLock<Arc<()>>);

    #[allow(missing_docs)]
    impl AtomicU64 {
        #[must_use]
        pub fn new(value: u64) -> Self {
            AtomicU64(loom::sync::atomic::AtomicU64::new(value), OnceLock::new())
        }

        /// From now on, has loom try both orders of any two accesses to this word.
        ///
        /// By itself loom (0.7) compares a store with the last access alone: a thread that loads a word
        /// and then stores it hides the loads that others made before, and the runs in which they come
        /// after are never tried.
        pub fn watch(&self) {
            let _ = self.1.set(Arc::new(()));
        }

        /// A step that conflicts with every other one of this word, and orders nothing in memory.
        fn turn(&self) {
            drop(self.1.get().cloned());
        }

        pub fn load(&self, order: Ordering) -> u64 {
            self.turn();
            self.0.load(order)
        }

        pub fn store(&self, value: u64, order: Ordering) {
            death::store();
            self.turn();
            self.0.store(value, order);
        }

        pub fn swap(&self, value: u64, order: Ordering) -> u64 {
            death::store();
            self.turn();
            self.0.swap(value, order)
        }

        pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            death::store();
            self.turn();
            self.0.fetch_add(value, order)
        }

        pub fn fetch_min(&self, value: u64, order: Ordering) -> u64 {
            death::store();
            self.turn();
            self.0.fetch_min(value, order)
        }

        /// Like the standard library's.
        ///
        /// # Errors
        /// The present value, if it was not `current`.
        pub fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            death::store();
            self.turn();
            self.0.compare_exchange(current, new, success, failure)
        }
    }
}
