//! The conductor, which measures nothing: it starts the measuring processes, keeps time, and ends
//! them.
//!
//! Every sample has processes of its own, so that whatever a library leaves behind, and whatever
//! hangs, ends with them.

mod actor;
mod directory;
mod hop;
mod memory;

pub use directory::{memory_dir, sweep};
pub use hop::farthest_hop_ns;

use crate::error::BenchError;
use crate::part::{Found, Order, Part, Word};
use crate::stage::Page;
use actor::Actor;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Set by a signal: the run ends at the next check.
pub static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// How long processes may take to end once everything is reported.
const FAREWELL: Duration = Duration::from_secs(5);

/// Why there is no sample.
#[derive(Debug)]
pub enum Failure {
    /// The contestant failed: the run continues without it.
    Contestant {
        /// Its error, or how it ended.
        reason: String,
        /// It did not end by itself.
        hung: bool,
    },
    /// The harness failed, or the user interrupted it: the run ends.
    Run(BenchError),
}

impl<E: Into<BenchError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Run(error.into())
    }
}

fn contestant(reason: impl Into<String>) -> Failure {
    Failure::Contestant { reason: reason.into(), hung: false }
}

/// The results of a sample's processes.
#[derive(Debug)]
pub struct Performance {
    /// In the order of the processes.
    pub found: Vec<Found>,
    /// Bytes by which the memory of all processes grew between their first message and their last.
    pub grown: i64,
}

/// What is to be performed: the part of each process, built with the directory of the sample.
pub struct Play<'a> {
    /// The contestant.
    pub contestant: &'a str,
    /// The part of each process.
    pub processes: Vec<Part>,
    /// How long all of it may take.
    pub patience: Duration,
    /// Whether memory is measured.
    pub weigh: bool,
}

/// Performs it. The paths of all parts are within `dir`.
///
/// # Errors
/// See [`Failure`]. All processes have ended.
pub fn perform(play: &Play<'_>, dir: &Path) -> Result<Performance, Failure> {
    let page_path: PathBuf = dir.join("page");
    let page = Page::create(&page_path)?;
    let deadline = (Instant::now(), play.patience);
    let mut cast = Vec::new();
    for (number, part) in play.processes.iter().enumerate() {
        let order = Order {
            contestant: play.contestant.to_owned(),
            page: page_path.clone(),
            part: part.clone(),
        };
        cast.push(Actor::start(&order, dir, number)?);
    }
    gather(&mut cast, deadline, |word| matches!(word, Word::Created))?;
    let before = if play.weigh { memory::of(&cast)? } else { 0 };
    prompt(&mut cast)?;
    gather(&mut cast, deadline, |word| matches!(word, Word::Ready))?;
    page.go();
    let words = gather(&mut cast, deadline, |word| matches!(word, Word::Done(_)))?;
    let after = if play.weigh { memory::of(&cast)? } else { 0 };
    prompt(&mut cast)?;
    // Processes that do not end now are killed; everything that matters was reported.
    let reported = Instant::now();
    while cast.iter_mut().any(|actor| actor.lives()) && reported.elapsed() < FAREWELL {
        std::thread::sleep(Duration::from_micros(200));
    }
    drop(cast);
    let found = words
        .into_iter()
        .filter_map(|word| match word {
            Word::Done(found) => Some(*found),
            _ => None,
        })
        .collect();
    Ok(Performance { found, grown: after as i64 - before as i64 })
}

fn prompt(cast: &mut [Actor]) -> Result<(), Failure> {
    cast.iter_mut().try_for_each(|actor| match actor.prompt() {
        Ok(()) => Ok(()),
        Err(_) => Err(contestant(actor.last_words())),
    })
}

/// Waits for the next message of every process, in their order.
fn gather(
    cast: &mut [Actor],
    (start, patience): (Instant, Duration),
    wanted: impl Fn(&Word) -> bool,
) -> Result<Vec<Word>, Failure> {
    loop {
        for actor in &mut *cast {
            if let Some(reason) = actor.failure() {
                return Err(contestant(reason));
            }
        }
        if cast.iter().all(Actor::has_spoken) {
            let words: Vec<Word> = cast.iter_mut().filter_map(Actor::take_word).collect();
            return match words.iter().find(|word| !wanted(word)) {
                Some(word) => Err(contestant(format!("unexpected {word:?}"))),
                None => Ok(words),
            };
        }
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted.into());
        }
        let left = patience.saturating_sub(start.elapsed());
        if left.is_zero() {
            let silent = cast.iter().filter(|actor| !actor.has_spoken()).count();
            let reason = format!("hangs: {silent} of {} processes did not go on", cast.len());
            return Err(Failure::Contestant { reason, hung: true });
        }
        let ready: Vec<bool> = {
            let mut fds: Vec<PollFd<'_>> = cast
                .iter()
                .map(|actor| PollFd::new(actor.socket().as_fd(), PollFlags::POLLIN))
                .collect();
            let timeout = left.min(Duration::from_secs(1));
            match poll(&mut fds, PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX)) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(source) => return Err(BenchError::System { what: "poll", source }.into()),
            }
            fds.iter().map(|fd| fd.any().unwrap_or(false)).collect()
        };
        for (actor, ready) in cast.iter_mut().zip(ready) {
            // A process whose messages have all arrived is read later.
            if ready && !actor.has_spoken() {
                actor.listen()?;
            }
        }
    }
}
