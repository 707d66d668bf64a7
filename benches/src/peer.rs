//! The other process: how it is started, given its tasks, and synchronized.
//!
//! A step is one JSON line on the child's standard input. From there on the two synchronize by
//! words of a shared page: the child sets `READY` once it is attached, the parent then sets `GO`,
//! and the child sets `DONE` when it has finished, all to the number of the step. Neither sleeps.

use crate::contest::ring::{Contestant, Ring, Setup};
use crate::contest::ringed;
use crate::cores::Pinned;
use crate::drive::{Limit, answer, answer_line, ask_line, poll_until, produce, tick_ns};
use crate::error::BenchError;
use crate::many::produce::{Ran, run as produce_race};
use crate::many::race::Race;
use crate::options::{Options, SMALL};
use crate::payload::{Pool, sized};
use crate::raw::Mapping;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// The first argument of a child process; the following ones are for `child`.
pub const CHILD_ARG: &str = "__bench-child";

/// Words of the shared page, each on a cache line of its own except the last ones, which the child
/// writes together.
const READY: usize = 0;
const GO: usize = 16;
const LINE: usize = 32;
const DONE: usize = 48;
const RESULTS: usize = 49;
/// The page's mapping has a data area, which is unused.
const UNUSED: u64 = 1 << 16;
/// Round trips of one measurement of the hop: batches, of which the median is taken, so that an
/// interrupt has no effect; and the most in a batch.
const BATCHES: u32 = 33;
const TRIPS: u32 = 64;

/// The tasks of the child.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Produce into a ring.
    Produce { contestant: Contestant, setup: Setup, limit: Limit, path: PathBuf },
    /// Answer every record of one ring by one in another.
    Answer { contestant: Contestant, setup: Setup, trips: u32, ping: PathBuf, pong: PathBuf },
    /// Send a bare cache line back.
    Line { trips: u32 },
    /// Act as one of many producers.
    Race(Race),
}

/// The child's result of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) records: u64,
    pub(crate) ns: u64,
    pub(crate) bad: u64,
}

/// The words of it, or of [`Ran`], on the shared page.
type Results = [u64; 7];

impl Done {
    fn words(self) -> Results {
        [self.records, self.ns, self.bad, 0, 0, 0, 0]
    }
}

impl From<Results> for Done {
    fn from([records, ns, bad, ..]: Results) -> Self {
        Done { records, ns, bad }
    }
}

/// A page on which many producers see when to start: the number of the race, and the time.
pub(crate) struct StartLine {
    page: Mapping,
}

impl StartLine {
    /// Creates the page.
    pub(crate) fn create(path: &Path) -> Result<Self, BenchError> {
        Mapping::create(path, UNUSED)?;
        Self::open(path)
    }

    fn open(path: &Path) -> Result<Self, BenchError> {
        Ok(StartLine { page: Mapping::open(path, UNUSED)? })
    }

    /// Announces when this race starts.
    pub(crate) fn start(&self, race: u64, at_ns: u64) {
        let words = self.page.words();
        words[LINE].store(at_ns, Ordering::Relaxed);
        words[GO].store(race, Ordering::Release);
    }

    /// Waits until the start is announced.
    fn wait(&self, race: u64) -> Result<u64, BenchError> {
        let words = self.page.words();
        poll_until(|| words[GO].load(Ordering::Acquire) == race, &mut || Ok(()))?;
        Ok(words[LINE].load(Ordering::Relaxed))
    }
}

/// Returns a closure that tells whether all of these have finished their steps, and one that checks
/// whether they are alive.
pub(crate) fn watch(
    peers: &mut [Peer],
) -> (impl Fn() -> bool + '_, impl FnMut() -> Result<(), BenchError> + '_) {
    let (ends, mut children): (Vec<_>, Vec<_>) = peers
        .iter_mut()
        .map(|Peer { child, control, step, .. }| ((&control.words()[DONE], *step), child))
        .unzip();
    (
        move || ends.iter().all(|(done, step)| done.load(Ordering::Acquire) == *step),
        move || children.iter_mut().try_for_each(|child| alive(child)),
    )
}

/// A child process; it is killed when this is dropped.
pub(crate) struct Peer {
    child: Child,
    stdin: ChildStdin,
    control: Mapping,
    step: u64,
    rings: u64,
    tick_ns: f64,
    dir: TempDir,
}

impl Peer {
    /// Starts the child on this core.
    pub(crate) fn start(core: Option<usize>) -> Result<Self, BenchError> {
        // In memory, where there is such a file system: the disk is not to be measured.
        let memory = Path::new("/dev/shm");
        let builder = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix("perfring-bench-");
            builder
        };
        let dir = builder().tempdir_in(memory).or_else(|_| builder().tempdir())?;
        let page = dir.path().join("control");
        Mapping::create(&page, UNUSED)?;
        let control = Mapping::open(&page, UNUSED)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(CHILD_ARG).arg(&page).arg(std::process::id().to_string());
        command.args(core.map(|core| core.to_string()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let stdin = child.stdin.take().ok_or_else(|| io::Error::other("no pipe to the child"))?;
        Ok(Peer { child, stdin, control, step: 0, rings: 0, tick_ns: tick_ns(), dir })
    }

    /// Returns nanoseconds per tick of [`crate::raw::ticks`].
    pub(crate) fn tick_ns(&self) -> f64 {
        self.tick_ns
    }

    /// Returns a path that no ring has had yet.
    pub(crate) fn new_path(&mut self) -> PathBuf {
        self.rings += 1;
        self.dir.path().join(format!("ring-{}", self.rings))
    }

    /// Requests a step and waits until the child is ready for it.
    pub(crate) fn ask(&mut self, step: &Step) -> Result<(), BenchError> {
        self.control.words()[LINE].store(0, Ordering::Relaxed);
        self.step += 1;
        let mut line = serde_json::to_vec(step)?;
        line.push(b'\n');
        if let Err(error) = self.stdin.write_all(&line) {
            // The exit status of a dead child says more than its pipe does.
            return Err(self.alive().err().unwrap_or(error.into()));
        }
        let Peer { child, control, step, .. } = self;
        let ready = &control.words()[READY];
        poll_until(|| ready.load(Ordering::Acquire) == *step, &mut || alive(child))
    }

    /// Lets the child begin. Returns a closure that tells whether it has finished, and one that
    /// checks whether it is alive.
    pub(crate) fn go(
        &mut self,
    ) -> (impl Fn() -> bool + '_, impl FnMut() -> Result<(), BenchError> + '_, &AtomicU64) {
        let Peer { child, control, step, .. } = self;
        let words = control.words();
        words[GO].store(*step, Ordering::Release);
        let step = *step;
        (move || words[DONE].load(Ordering::Acquire) == step, move || alive(child), &words[LINE])
    }

    /// Waits until the child has finished the step.
    pub(crate) fn done(&mut self) -> Result<Done, BenchError> {
        self.results().map(Done::from)
    }

    /// Like [`Peer::done`], for a race.
    pub(crate) fn ran(&mut self) -> Result<Ran, BenchError> {
        self.results().map(Ran::from)
    }

    fn results(&mut self) -> Result<Results, BenchError> {
        let Peer { child, control, step, .. } = self;
        let words = control.words();
        poll_until(|| words[DONE].load(Ordering::Acquire) == *step, &mut || alive(child))?;
        let mut results = Results::default();
        for (result, word) in results.iter_mut().zip(&words[RESULTS..]) {
            *result = word.load(Ordering::Relaxed);
        }
        Ok(results)
    }

    /// Returns the nanoseconds that a cache line takes from one process to the other: half the
    /// median round trip. With few `round_trips`, a batch has few trips as well.
    pub(crate) fn hop_ns(&mut self, options: &Options) -> Result<f64, BenchError> {
        let of_batch = (options.round_trips / BATCHES).clamp(1, TRIPS);
        self.ask(&Step::Line { trips: BATCHES * of_batch })?;
        let mut batches = Vec::with_capacity(BATCHES as usize);
        let (mut ticks, mut trips) = (0, 0);
        let (_, mut alive, line) = self.go();
        ask_line(line, BATCHES * of_batch, &mut alive, |trip| {
            ticks += trip;
            trips += 1;
            if trips == of_batch {
                batches.push(ticks);
                (ticks, trips) = (0, 0);
            }
        })?;
        drop(alive);
        self.done()?;
        batches.sort_unstable();
        let median = batches.get(batches.len() / 2).copied().unwrap_or_default();
        Ok(median as f64 * self.tick_ns / f64::from(2 * of_batch))
    }

    fn alive(&mut self) -> Result<(), BenchError> {
        alive(&mut self.child)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already; nothing else can fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn alive(child: &mut Child) -> Result<(), BenchError> {
    match child.try_wait()? {
        None => Ok(()),
        Some(status) => Err(BenchError::ChildDied(status)),
    }
}

/// Has the kernel kill this process when the one with this id ends, also while it spins. Returns
/// `false` if that one has ended already.
///
/// # Errors
/// If the kernel does not support that.
pub fn die_with_parent(parent: &str) -> Result<bool, BenchError> {
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|source| BenchError::System { what: "prctl", source })?;
    // It may have ended before the line above.
    Ok(nix::unistd::getppid().to_string() == parent)
}

/// Runs the child. Arguments: the shared page, the parent's process id, and optionally a core.
pub(crate) fn child(args: &[String]) -> Result<(), BenchError> {
    let usage = || BenchError::Usage(format!("{CHILD_ARG} is for the harness itself"));
    let [page, parent, core @ ..] = args else { return Err(usage()) };
    if !die_with_parent(parent)? {
        return Ok(());
    }
    let _pinned = match core.first() {
        Some(core) => Some(Pinned::to(core.parse().map_err(|_| usage())?)?),
        None => None,
    };
    let control = Mapping::open(Path::new(page), UNUSED)?;
    for (step, line) in (1..).zip(io::stdin().lock().lines()) {
        let meeting = Meeting { control: &control, step };
        let results = meeting.take(serde_json::from_str(&line?)?)?;
        let words = control.words();
        for (word, value) in words[RESULTS..].iter().zip(results) {
            word.store(value, Ordering::Relaxed);
        }
        words[DONE].store(step, Ordering::Release);
    }
    Ok(())
}

/// One step, on the child's side.
struct Meeting<'a> {
    control: &'a Mapping,
    step: u64,
}

impl Meeting<'_> {
    /// Signals that it is ready, and waits for the parent.
    fn begin(&self) -> Result<(), BenchError> {
        let words = self.control.words();
        words[READY].store(self.step, Ordering::Release);
        poll_until(|| words[GO].load(Ordering::Acquire) == self.step, &mut || Ok(()))
    }

    /// Like [`Meeting::begin`], for one of many. Returns when the race starts.
    fn line_up(&self, line: &StartLine, race: u64) -> Result<u64, BenchError> {
        self.control.words()[READY].store(self.step, Ordering::Release);
        line.wait(race)
    }

    fn take(&self, step: Step) -> Result<Results, BenchError> {
        let done = match step {
            Step::Race(race) => {
                let _pinned = race.core.map(Pinned::to).transpose()?;
                let line = StartLine::open(&race.line)?;
                let ran = produce_race(&race, || self.line_up(&line, race.number))?;
                return Ok(ran.words());
            }
            Step::Produce { contestant, setup, limit, path } => ringed!(contestant, R => {
                let mut sender = R::sender(&path, &setup)?;
                let (records, ns) = sized!(setup.payload, N => {
                    let pool = setup.has_pool().then(Pool::<N>::new);
                    self.begin()?;
                    produce(&mut sender, pool.as_ref(), limit)
                })?;
                Ok(Done { records, ns, bad: 0 })
            }),
            Step::Answer { contestant, setup, trips, ping, pong } => ringed!(contestant, R => {
                let mut receiver = R::receiver(&ping, &setup)?;
                let mut sender = R::sender(&pong, &setup)?;
                self.begin()?;
                let check =
                    answer::<SMALL>(&mut receiver, &mut sender, trips, &mut || Ok(()))?;
                Ok(Done { records: check.good(), ns: 0, bad: check.bad + check.lost })
            }),
            Step::Line { trips } => {
                self.begin()?;
                answer_line(&self.control.words()[LINE], trips, &mut || Ok(()))?;
                Ok(Done { records: u64::from(trips), ns: 0, bad: 0 })
            }
        };
        done.map(Done::words)
    }
}
