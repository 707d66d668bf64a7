//! Waiting for something to read. A thread that sleeps does not have the source: other threads read
//! and release records meanwhile.

use crate::errors;
use crate::locks::lock;
use crate::pins::Pins;
use crate::source::Source;
use crate::wait::{self, Until};
use perfring_consumer::advanced::Sleeper;
use perfring_consumer::{AttachError, Consumer};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a waiting reader spins before it sleeps, and the longest pause between two polls of an
/// observer.
const SPIN: Duration = Duration::from_micros(50);
const OBSERVE: Duration = Duration::from_millis(10);

/// The handle that sleeps for a consumer, once a thread has waited, and the number of threads that
/// do.
#[derive(Default)]
pub(super) struct Waiting {
    sleeper: Mutex<Option<Arc<Sleeper>>>,
    sleeping: AtomicUsize,
}

impl Waiting {
    /// Ends all waits.
    pub(super) fn wake(&self) {
        if let Some(sleeper) = &*lock(&self.sleeper) {
            sleeper.wake();
        }
    }

    /// Waits until there may be something to read.
    pub(super) fn wait(&self, pins: &Pins, py: Python<'_>, until: Until) -> PyResult<bool> {
        pins.process.check(py)?;
        let mut pause = SPIN;
        let there = wait::slices(py, until, |slice| {
            let (ticket, sleeper) = {
                let mut turn = pins.turn();
                if turn.source().is_some_and(|source| source.fill().unread > 0) {
                    return Some(Ok(true));
                }
                let Some(source) = turn.source() else {
                    return Some(Ok(false)); // closed, also by another thread
                };
                pins.make_room(source);
                if spin(source, slice) {
                    return Some(Ok(true));
                }
                match source {
                    // It cannot ask to be woken, and polls less and less often.
                    Source::Observer(_) => (None, None),
                    Source::Consumer(consumer) => match self.sleeper(consumer) {
                        Err(error) => return Some(Err(error)),
                        Ok(sleeper) => match consumer.advanced().prepare_sleep() {
                            None => {
                                // This cleared the sleep flag, and another thread may sleep.
                                if self.sleeping.load(Ordering::Acquire) > 0 {
                                    sleeper.wake();
                                }
                                return Some(Ok(true));
                            }
                            ticket => {
                                self.sleeping.fetch_add(1, Ordering::AcqRel);
                                (ticket, Some(sleeper))
                            }
                        },
                    },
                }
            };
            let (Some(ticket), Some(sleeper)) = (ticket, sleeper) else {
                std::thread::sleep(pause.min(slice));
                pause = (pause * 2).min(OBSERVE);
                return None;
            };
            sleeper.sleep(ticket, slice); // ends for a signal, too
            let mut turn = pins.turn();
            let last = self.sleeping.fetch_sub(1, Ordering::AcqRel) == 1;
            match turn.source() {
                Some(Source::Consumer(consumer)) => {
                    if last {
                        consumer.advanced().end_sleep();
                    }
                    (consumer.fill().unread > 0).then_some(Ok(true))
                }
                _ => Some(Ok(false)),
            }
        })?;
        match there {
            None => Ok(false),
            Some(Ok(true)) => Ok(true),
            Some(Ok(false)) => Err(pins.closed(py)),
            Some(Err(error)) => Err(errors::attach(py, &error)),
        }
    }

    fn sleeper(&self, consumer: &mut Consumer) -> Result<Arc<Sleeper>, AttachError> {
        let mut kept = lock(&self.sleeper);
        if let Some(sleeper) = &*kept {
            return Ok(Arc::clone(sleeper));
        }
        let sleeper = Arc::new(consumer.advanced().sleeper()?);
        *kept = Some(Arc::clone(&sleeper));
        Ok(sleeper)
    }
}

/// Spins for a moment. Returns whether there is something to read.
fn spin(source: &mut Source, slice: Duration) -> bool {
    match source {
        Source::Consumer(consumer) => consumer.spin(SPIN.min(slice)),
        Source::Observer(observer) => observer.wait(SPIN.min(slice)),
    }
}
