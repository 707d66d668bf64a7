//! What the threads of the server share.

use super::clock::{Clock, worked};
use super::frozen::Frozen;
use super::meters::Meters;
use super::model::Model;
use super::taps::Taps;
use crate::watch::Watch;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: Clock,
    /// What is watched.
    pub(super) paths: Vec<String>,
    watch: Mutex<Watch>,
    model: Mutex<Model>,
    taps: Mutex<Taps>,
    frozen: Mutex<Frozen>,
    meters: Mutex<Meters>,
    /// Whoever takes a snapshot.
    freezing: Mutex<()>,
    /// The model's version.
    pub(super) changed: watch::Sender<u64>,
    /// Pages that are open.
    clients: AtomicUsize,
    stop: Mutex<bool>,
    stopped: Condvar,
}

/// An open page.
#[derive(Debug)]
pub(super) struct Client<'a>(&'a Shared);

impl Drop for Client<'_> {
    fn drop(&mut self) {
        // Relaxed: nothing else is published with it.
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a thread left is consistent, even if it panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(watch: Watch, paths: Vec<String>) -> Self {
        Shared {
            clock: Clock::new(),
            paths,
            watch: Mutex::new(watch),
            model: Mutex::new(Model::default()),
            taps: Mutex::new(Taps::default()),
            frozen: Mutex::new(Frozen::default()),
            meters: Mutex::new(Meters::default()),
            freezing: Mutex::new(()),
            changed: watch::Sender::new(0),
            clients: AtomicUsize::new(0),
            stop: Mutex::new(false),
            stopped: Condvar::new(),
        }
    }

    pub(super) fn watch(&self) -> MutexGuard<'_, Watch> {
        lock(&self.watch)
    }

    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        lock(&self.model)
    }

    pub(super) fn taps(&self) -> MutexGuard<'_, Taps> {
        lock(&self.taps)
    }

    pub(super) fn frozen(&self) -> MutexGuard<'_, Frozen> {
        lock(&self.frozen)
    }

    pub(super) fn meters(&self) -> MutexGuard<'_, Meters> {
        lock(&self.meters)
    }

    /// Waits until nobody else takes a snapshot.
    pub(super) fn freezing(&self) -> MutexGuard<'_, ()> {
        lock(&self.freezing)
    }

    pub(super) fn client(&self) -> Client<'_> {
        self.clients.fetch_add(1, Ordering::Relaxed);
        Client(self)
    }

    pub(super) fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Waits for so long. Returns whether the server goes on.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let stop = lock(&self.stop);
        let waited = self.stopped.wait_timeout_while(stop, time, |stop| !*stop);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Looks again and again until the server is stopped: after `between`, or after `idle` where a look says that nobody asks,
    /// and rarer if looks would take more of a core than one part of so many.
    pub(super) fn look(
        &self,
        between: Duration,
        idle: Duration,
        part: u32,
        look: impl Fn() -> bool,
    ) {
        loop {
            let began = worked();
            let rest = if look() { idle } else { between };
            if !self.pause(rest.max((worked() - began) * part)) {
                return;
            }
        }
    }

    pub(super) fn stop(&self) {
        *lock(&self.stop) = true;
        self.stopped.notify_all();
    }
}
