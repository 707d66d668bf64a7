//! The evidence of causes, while a rule wants snapshots with it.

use crate::engine::Engine;
use perfring_consumer::{Location, advanced::MachineClock};
use perfring_export::later;
use perfring_witness::{Followed, FrozenRing, Recent, WitnessError};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The interval at which the witness learns which rings there are.
const RINGS: Duration = Duration::from_millis(100);

/// A witness in a thread: its looks delay no reading, and an output that writes delays no look.
#[derive(Debug)]
pub(super) struct Causes {
    shared: Arc<Shared>,
    /// The thread ends when this is dropped.
    _stop: Sender<()>,
    clock: MachineClock,
    next: Instant,
}

#[derive(Debug)]
struct Shared {
    recent: Mutex<Recent>,
    rings: Mutex<Arc<[Followed]>>,
    /// What this user may not observe.
    missing: Mutex<Vec<String>>,
}

impl Shared {
    fn rings(&self) -> impl Iterator<Item = Followed> {
        let rings = lock(&self.rings).clone();
        (0..rings.len()).filter_map(move |at| rings.get(at).cloned())
    }

    fn look(&self) -> Duration {
        let mut recent = lock(&self.recent);
        let wait = recent.look(self.rings());
        *lock(&self.missing) = recent.missing().collect();
        wait
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the witness has of the time before a snapshot.
#[derive(Debug)]
pub(super) struct Evidence {
    shared: Arc<Shared>,
    until: u64,
}

impl Evidence {
    /// Returns the evidence as rings of a recording; the first one gets this number. The call takes some time.
    pub(super) fn freeze(self, first: u32) -> Result<Vec<FrozenRing>, WitnessError> {
        lock(&self.shared.recent).freeze(self.shared.rings(), self.until, first)
    }
}

impl Causes {
    /// Begins to watch the rings' processes.
    pub(super) fn begin() -> Result<Self, String> {
        let clock = MachineClock::find().map_err(|error| error.to_string())?;
        let recent = Recent::begin([]).map_err(|error| error.to_string())?;
        let missing = Mutex::new(recent.missing().collect());
        let rings = Mutex::new(Arc::from([]));
        let shared = Arc::new(Shared { recent: Mutex::new(recent), rings, missing });
        let (stop, stopped) = channel();
        let own = Arc::clone(&shared);
        let look =
            move || while stopped.recv_timeout(own.look()) == Err(RecvTimeoutError::Timeout) {};
        let spawned = thread::Builder::new().name("witness".into()).spawn(look);
        spawned.map_err(|error| format!("no thread can be started for it: {error}"))?;
        Ok(Causes { shared, _stop: stop, clock, next: Instant::now() })
    }

    /// Returns which permissions are missing, and what is evidence nevertheless.
    pub(super) fn missing(&self) -> Vec<String> {
        lock(&self.shared.missing).clone()
    }

    /// Returns the clock of its times.
    pub(super) fn clock(&self) -> &MachineClock {
        &self.clock
    }

    /// To be called at intervals: follows the engine's rings.
    pub(super) fn poll(&mut self, engine: &Engine, now: Instant) {
        if now >= self.next {
            self.next = later(now, RINGS);
            self.follow(engine);
        }
    }

    fn follow(&self, engine: &Engine) {
        let rings = engine.rings().filter(|ring| ring.origin.policy.is_some() && !ring.removed);
        let followed = |ring: crate::engine::RingStatus<'_>| Followed {
            location: Location::from(ring.location()),
            uuid: ring.origin.uuid,
        };
        *lock(&self.shared.rings) = rings.map(followed).collect();
    }

    /// Returns the evidence about the engine's rings, of which there are copies with all records up to a time.
    pub(super) fn evidence(&self, engine: &Engine, until: u64) -> Evidence {
        self.follow(engine);
        Evidence { shared: Arc::clone(&self.shared), until }
    }
}
