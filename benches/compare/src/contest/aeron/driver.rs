//! The media driver, which works only when it is called.

use super::frame::{MTU, NAME, subscribed};
use perfring_bench::Result;
use perfring_bench::contestant::failed;
use perfring_bench::error::failed;
use rusteron_media_driver::{AeronDriver, AeronDriverContext, bindings, cformat};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval of the keeper's calls until the subscriber has begun.
const SETTING_UP: Duration = Duration::from_micros(100);
const KEEPING: Duration = Duration::from_millis(10);

/// A driver that runs for as long as this lives.
pub struct Driver {
    path: PathBuf,
    receivers: usize,
    inner: Option<Arc<Invoked>>,
    keeper: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

/// A driver and its settings, which it needs to the end.
struct Running {
    driver: AeronDriver,
    _context: AeronDriverContext,
}

/// A driver that works only when it is called.
pub(super) struct Invoked {
    running: Mutex<Alone>,
    calls: AtomicU64,
}

struct Alone(Running);

// SAFETY: the driver is called by one thread at a time, under the mutex around it; it keeps no
// thread-local state but the text of its last error.
unsafe impl Send for Alone {}

impl Invoked {
    /// One round of its duties.
    pub(super) fn call(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // Errors in it are counted and logged in its directory; a stream that stops shows them.
        let _ = running.0.driver.main_do_work();
        drop(running);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// Drivers that are invoked in this process, by directory.
static INVOKED: Mutex<Vec<(PathBuf, Weak<Invoked>)>> = Mutex::new(Vec::new());

/// Returns the driver in this directory, if this process has it and calls it.
pub(super) fn invoked(path: &Path) -> Option<Arc<Invoked>> {
    let all = INVOKED.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().find(|(at, _)| at == path).and_then(|(_, driver)| driver.upgrade())
}

impl Driver {
    pub(super) fn launch(path: &Path, term: usize, receivers: usize) -> Result<Self> {
        let context = AeronDriverContext::new().map_err(failed(NAME))?;
        let mode = bindings::aeron_threading_mode_t::AERON_THREADING_MODE_INVOKER;
        (|| {
            context.set_dir(&cformat!("{}", path.display()))?;
            context.set_dir_delete_on_start(true)?;
            context.set_dir_delete_on_shutdown(true)?;
            context.set_threading_mode(mode)?;
            context.set_ipc_term_buffer_length(term)?;
            context.set_ipc_mtu_length(MTU)?;
            context.set_term_buffer_sparse_file(false)
        })()
        .map_err(failed(NAME))?;
        let driver = AeronDriver::new(&context).map_err(failed(NAME))?;
        let running = Running { driver, _context: context };
        running.driver.start(true).map_err(failed(NAME))?;
        let inner =
            Arc::new(Invoked { running: Mutex::new(Alone(running)), calls: AtomicU64::new(0) });
        let mut all = INVOKED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, driver)| driver.strong_count() > 0);
        all.push((path.to_owned(), Arc::downgrade(&inner)));
        drop(all);
        let keeper = Some(keep(&inner)?);
        Ok(Driver { path: path.to_owned(), receivers, inner: Some(inner), keeper })
    }
}

/// Calls the driver while no other thread does: while ends are opened, and between samples.
fn keep(inner: &Arc<Invoked>) -> Result<(Arc<AtomicBool>, JoinHandle<()>)> {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, driver) = (Arc::clone(&stop), Arc::clone(inner));
    let thread = std::thread::Builder::new().name("aeron keeper".to_owned()).spawn(move || {
        let (mut ours, mut seen) = (0, 0);
        while !stopped.load(Ordering::Acquire) {
            let calls = driver.calls.load(Ordering::Relaxed);
            if calls == seen {
                driver.call();
                ours += 1;
            }
            seen = driver.calls.load(Ordering::Relaxed);
            std::thread::park_timeout(if seen == ours { SETTING_UP } else { KEEPING });
        }
    })?;
    Ok((stop, thread))
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.keeper.take() {
            stop.store(true, Ordering::Release);
            thread.thread().unpark();
            let _ = thread.join();
        }
        drop(self.inner.take());
        for index in 0..self.receivers {
            let _ = std::fs::remove_file(subscribed(&self.path, index));
        }
    }
}
