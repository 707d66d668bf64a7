//! Descriptors by a thread, which waits on the futexes of up to 127 rings in one call and writes to
//! their eventfds.

use crate::poll::front_page::FrontPage;
use crate::sys::fork;
use crate::sys::futex::{on_the_clock, wait_for};
use nix::libc;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::thread::futex::{self, WaitFlags, WaitvFlags};
use rustix::thread::{ClockId, Timespec};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `FUTEX_WAITV_MAX`, less one for the thread's own futex.
const LINES: usize = 127;
/// How often the thread polls where it cannot wait for several futexes.
const POLL: Duration = Duration::from_millis(5);

/// The wake for which a descriptor is armed.
#[derive(Debug)]
struct Asked {
    value: u32,
    until: Option<Instant>,
}

/// One ring that the thread waits for.
#[derive(Debug)]
struct WaitedRing {
    page: Arc<FrontPage>,
    bell: OwnedFd,
    asked: Mutex<Option<Asked>>,
}

impl WaitedRing {
    fn ring(&self, asked: &mut Option<Asked>) {
        *asked = None;
        // The counter is far from its maximum, at which a write would fail.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Signals the eventfd if the futex word has changed. The page is not read: the kernel
    /// compares.
    fn poll(&self) {
        let mut asked = lock(&self.asked);
        let Some(Asked { value, .. }) = *asked else { return };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let waited = futex::wait(self.page.word(), futex::Flags::empty(), value, Some(&zero));
        if waited != Err(Errno::TIMEDOUT) {
            self.ring(&mut asked);
        }
    }

    fn check_time(&self, now: Instant) {
        let mut asked = lock(&self.asked);
        if asked.as_ref().and_then(|asked| asked.until).is_some_and(|until| until <= now) {
            self.ring(&mut asked);
        }
    }
}

/// Up to 127 rings and, while it has any, a thread.
#[derive(Debug, Default)]
struct Shard {
    /// Incremented to make the thread reload its list of rings.
    news: AtomicU32,
    lines: Mutex<WaitedRings>,
}

#[derive(Debug, Default)]
struct WaitedRings {
    all: Vec<Arc<WaitedRing>>,
    runs: bool,
}

/// The shards of this process, and not of its parent: a forked child has no copy of the threads,
/// and the parent's locks may be held for ever.
struct Pool {
    generation: u32,
    shards: Mutex<Vec<Arc<Shard>>>,
}

fn pool() -> &'static Pool {
    static POOL: AtomicPtr<Pool> = AtomicPtr::new(null_mut());
    let generation = fork::generation();
    loop {
        let now = POOL.load(Ordering::Acquire);
        // SAFETY: null, or a pool that was leaked below and is changed only under its lock.
        if let Some(pool) = unsafe { now.as_ref() }
            && pool.generation == generation
        {
            return pool;
        }
        // One pool for each fork with its own rings. It is never freed, because other threads may use it.
        let new = Box::into_raw(Box::new(Pool { generation, shards: Mutex::default() }));
        if POOL.compare_exchange(now, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made two lines above; there is no other reference to it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

/// Locks a mutex, also after a panic: under these locks a panic leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(crate) struct ThreadWaiter {
    line: Arc<WaitedRing>,
    shard: Arc<Shard>,
    generation: u32,
}

impl ThreadWaiter {
    pub(crate) fn new(page: Arc<FrontPage>) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let line = Arc::new(WaitedRing { page, bell, asked: Mutex::new(None) });
        let pool = pool();
        let mut shards = lock(&pool.shards);
        let free = shards.iter().find(|shard| lock(&shard.lines).all.len() < LINES).cloned();
        let shard = free.unwrap_or_else(|| {
            let new = Arc::<Shard>::default();
            shards.push(Arc::clone(&new));
            new
        });
        let mut lines = lock(&shard.lines);
        if !lines.runs {
            let shard = Arc::clone(&shard);
            std::thread::Builder::new()
                .name("perfring-poll".to_owned())
                .spawn(move || shard.serve())?;
            lines.runs = true;
        }
        lines.all.push(Arc::clone(&line));
        drop(lines);
        Ok(ThreadWaiter { line, shard, generation: pool.generation })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.line.bell.as_fd()
    }

    pub(crate) fn listen(&mut self, value: u32, limit: Duration) -> io::Result<()> {
        let until = Instant::now().checked_add(limit);
        let mut asked = lock(&self.line.asked);
        self.empty();
        // As with io_uring: an earlier arming that is still valid is kept.
        let no_longer = |old: Option<Instant>| old.is_some_and(|o| until.is_none_or(|n| o <= n));
        if asked.as_ref().is_some_and(|old| old.value == value && no_longer(old.until)) {
            return Ok(());
        }
        *asked = Some(Asked { value, until });
        drop(asked);
        self.shard.report();
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        let _asked = lock(&self.line.asked);
        self.empty();
    }

    fn empty(&self) {
        // It is fine if there is nothing to read.
        let _ = rustix::io::read(&self.line.bell, &mut [0; 8]);
    }
}

impl Drop for ThreadWaiter {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            lock(&self.shard.lines).all.retain(|line| !Arc::ptr_eq(line, &self.line));
            self.shard.report();
        }
    }
}

impl Shard {
    /// Makes the thread reload its list of rings.
    fn report(&self) {
        self.news.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.news, futex::Flags::PRIVATE, 1);
    }

    /// Waits for a report or, with `poll`, for the next poll.
    fn pause(&self, news: u32, poll: bool) {
        let pause = Timespec { tv_sec: 0, tv_nsec: POLL.subsec_nanos().into() };
        let _ = futex::wait(&self.news, futex::Flags::PRIVATE, news, poll.then_some(&pause));
    }

    fn serve(&self) {
        no_signals();
        let mut can_wait = true;
        loop {
            let news = self.news.load(Ordering::Acquire);
            let all = {
                let mut lines = lock(&self.lines);
                if lines.all.is_empty() {
                    lines.runs = false;
                    return;
                }
                lines.all.clone()
            };
            let mut first = None;
            let mut waits = vec![wait_for(self.news.as_ptr(), news, WaitFlags::PRIVATE)];
            let mut listening = Vec::new();
            for line in &all {
                if let Some(asked) = &*lock(&line.asked) {
                    let word = line.page.word().as_ptr();
                    waits.push(wait_for(word, asked.value, WaitFlags::empty()));
                    first = [first, asked.until].into_iter().flatten().min();
                    listening.push(line);
                }
            }
            let woken = if can_wait {
                let until = first.map(on_the_clock);
                futex::waitv(&waits, WaitvFlags::empty(), until.as_ref(), ClockId::Monotonic)
            } else {
                self.pause(news, !listening.is_empty());
                Err(Errno::AGAIN)
            };
            match woken {
                Ok(0) | Err(Errno::TIMEDOUT | Errno::INTR) => {}
                // Woken, perhaps with the word unchanged: by a thread that ends a sleep from
                // outside.
                Ok(at) => {
                    if let Some(line) = listening.get(at - 1) {
                        line.ring(&mut lock(&line.asked));
                    }
                }
                Err(Errno::AGAIN | Errno::FAULT) => listening.iter().for_each(|line| line.poll()),
                // Before Linux 5.16, or forbidden.
                Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => can_wait = false,
                // Out of memory, which passes.
                Err(_) => {
                    self.pause(news, true);
                    listening.iter().for_each(|line| line.poll());
                }
            }
            let now = Instant::now();
            listening.iter().for_each(|line| line.check_time(now));
        }
    }
}

/// Blocks all signals: they are for the program's own threads, which may rely on having blocked
/// them.
fn no_signals() {
    // SAFETY: a signal set is plain data, for which zeros are valid.
    let mut all = unsafe { std::mem::zeroed() };
    // SAFETY: fills the set.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: for this thread alone, which runs nothing but the loop above.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, null_mut()) };
}
