//! The evidence of causes, while a rule wants snapshots with it, and their explanations.

use super::explainer::Explainer;
use crate::engine::Engine;
use crate::log::Say;
use perfring_consumer::Location;
use perfring_export::{FileMode, later};
use perfring_witness::{Followed, FrozenRing, Recent, WitnessError};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The interval at which the witness learns which rings there are.
const RINGS: Duration = Duration::from_millis(100);

/// A witness with a thread of its own: rings are read no later because of its looks, and it looks also while this process writes
/// a file.
#[derive(Debug)]
pub(super) struct Causes {
    shared: Arc<Shared>,
    /// The thread ends when this is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    explainer: Explainer,
    missing: Option<String>,
    next: Instant,
}

#[derive(Debug)]
struct Shared {
    recent: Mutex<Recent>,
    rings: Mutex<Arc<[Followed]>>,
}

impl Shared {
    fn rings(&self) -> impl Iterator<Item = Followed> {
        let rings = lock(&self.rings).clone();
        (0..rings.len()).filter_map(move |at| rings.get(at).cloned())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Causes {
    /// Begins to watch the rings' processes.
    pub(super) fn begin() -> Result<Self, String> {
        let recent = Recent::begin([]).map_err(|error| error.to_string())?;
        let missing = recent.missing().map(str::to_owned);
        let rings = Mutex::new(Arc::from([]));
        let shared = Arc::new(Shared { recent: Mutex::new(recent), rings });
        let (stop, stopped) = channel::<()>();
        let own = Arc::clone(&shared);
        let look = move || {
            loop {
                let wait = lock(&own.recent).look(own.rings());
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let spawned = thread::Builder::new().name("witness".into()).spawn(look);
        let thread = spawned.map_err(|error| error.to_string())?;
        let explainer = Explainer::start().map_err(|error| error.to_string())?;
        let (stop, thread, next) = (Some(stop), Some(thread), Instant::now());
        Ok(Causes { shared, stop, thread, explainer, missing, next })
    }

    /// Returns which permission is missing, and what is evidence nevertheless.
    pub(super) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// To be called at intervals: follows the engine's rings, and says what was found in snapshots.
    pub(super) fn poll(&mut self, engine: &Engine, now: Instant, say: &mut Say<'_>) {
        if now >= self.next {
            self.next = later(now, RINGS);
            self.follow(engine);
        }
        self.explainer.report(say);
    }

    fn follow(&self, engine: &Engine) {
        let rings = engine.rings().filter(|ring| ring.origin.policy.is_some() && !ring.removed);
        let followed = |ring: crate::engine::RingStatus<'_>| Followed {
            location: Location::from(ring.location()),
            uuid: ring.origin.uuid,
        };
        *lock(&self.shared.rings) = rings.map(followed).collect();
    }

    /// Looks at the processes now, and returns the time: what happens later is no evidence.
    pub(super) fn look_last(&self, engine: &Engine) -> u64 {
        self.follow(engine);
        lock(&self.shared.recent).look_last(self.shared.rings())
    }

    /// Returns the evidence up to a time, as rings of a recording; the first one gets this number.
    pub(super) fn freeze(&self, until: u64, first: u32) -> Result<Vec<FrozenRing>, WitnessError> {
        lock(&self.shared.recent).freeze(until, first)
    }

    /// Explains a snapshot, beside everything else.
    pub(super) fn explain(&self, snapshot: PathBuf, mode: FileMode) {
        self.explainer.explain(snapshot, mode);
    }

    /// Ends, and waits for explanations until then.
    pub(super) fn end(mut self, deadline: Instant, say: &mut Say<'_>) {
        self.explainer.end(deadline, say);
    }
}

impl Drop for Causes {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
