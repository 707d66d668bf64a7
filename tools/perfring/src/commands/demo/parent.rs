//! The demo's parent: creates the rings, starts the processes, kills one, ends the others, cleans
//! up.

use super::files::Place;
use super::screen::{Screen, Style};
use super::stations::{STATIONS, Topic, VICTIM, now_ns};
use crate::args;
#[cfg(feature = "view")]
use crate::commands::view;
use crate::failure::Failure;
use crate::stop::Stop;
use perfring_consumer::{Policy, Stat};
use perfring_producer::{Options, files::create};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time between two checks of the children and the signals.
const POLL: Duration = Duration::from_millis(10);
/// Longer than any child takes to answer, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// See rings at work: producers, a sidecar that follows them all, and one kill -9
///
/// Six processes publish what this machine is doing, and each process has its own ring. A sidecar reads
/// all rings in the order of time, shows a line each second, and writes two files: a trace for
/// https://ui.perfetto.dev, and JSON lines. One producer loses records on purpose. Another one is killed
/// by kill -9, and its last records are read from the file of its ring. At the end, a table compares
/// what was written with what was read: each record is read, counted as lost, or still in a ring.
///
/// The demo needs no other program, no privileges and no configuration. It removes the rings at its end.
/// The two files stay: the last lines say where the files are, and how to open them.
///
/// Example: perfring demo --for 20s --out traces
///
/// Example: perfring demo --view
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run for this long, from 2s to 1h: by default 8s, or 1m with --view
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    time: Option<Duration>,
    /// Open a page in the default browser that shows the rings while the demo runs, as `perfring view` does
    #[cfg(feature = "view")]
    #[arg(long)]
    view: bool,
    /// The directory for the two files, which is made if it does not exist: by default a new temporary directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn time(text: &str) -> Result<Duration, String> {
    match args::parse_duration(text).map_err(|error| error.to_string())? {
        time if (2..=3600).contains(&time.as_secs()) => Ok(time),
        _ => Err("2s to 1h".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::patient()?;
    let out = Place::new(args.out.as_deref())?;
    let dir = directory()?;
    for station in &STATIONS {
        let (size, policy) = (station.size, station.policy);
        let shape = match station.topic {
            Topic::Metrics => Options::many(),
            _ => Options::default(),
        };
        create(dir.path().join(station.name), &Options { size, policy, time: true, ..shape })?;
    }
    let time = args.time();
    introduce(dir.path(), time)?;
    let _page = args.page(dir.path())?;
    let mut family =
        Family { stop, dir: dir.path().to_owned(), out, sidecar: None, producers: vec![] };
    let ended = family.live(time);
    family.end();
    drop(dir);
    ended
}

#[cfg(feature = "view")]
impl Args {
    fn time(&self) -> Duration {
        self.time.unwrap_or(Duration::from_secs(if self.view { 60 } else { 8 }))
    }

    /// Serves the page, and opens it, if that was asked for.
    fn page(&self, dir: &Path) -> Result<Option<perfring_view::serve::Server>, Failure> {
        if !self.view {
            return Ok(None);
        }
        let server = view::serve(vec![dir.to_owned()], "127.0.0.1:0")?;
        Screen::new().line(&format!("The page: {}\n", server.url()))?;
        view::open(server.url());
        Ok(Some(server))
    }
}

#[cfg(not(feature = "view"))]
impl Args {
    fn time(&self) -> Duration {
        self.time.unwrap_or(Duration::from_secs(8))
    }

    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature view")]
    fn page(&self, _: &Path) -> Result<Option<()>, Failure> {
        Ok(None)
    }
}

/// Creates a directory on a tmpfs if there is one.
fn directory() -> Result<TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("perfring-demo.");
    builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir()).map_err(|error| {
        let place = std::env::temp_dir();
        let hint = "set TMPDIR to a directory that you may write to";
        Failure::General(format!("cannot make a directory in {}: {error}: {hint}", place.display()))
    })
}

fn introduce(dir: &Path, time: Duration) -> Result<(), Failure> {
    let text = format!(
        "{} processes publish what this host is doing, each into a ring of its own, in\n{}\n\
         A sidecar process follows all of them, in one order of time, and writes a trace and JSON \
         lines. One producer makes bursts that are larger than its ring: it must lose some, and \
         count them. In the middle, kill -9 hits another. {}.\n",
        STATIONS.len(),
        dir.display(),
        humantime::format_duration(time),
    );
    Screen::new().say(Style::Plain, &text)
}

/// The child processes. All have ended when this is dropped.
struct Family {
    stop: Stop,
    dir: PathBuf,
    out: Place,
    sidecar: Option<Child>,
    producers: Vec<(&'static str, Child)>,
}

impl Family {
    fn live(&mut self, time: Duration) -> Result<(), Failure> {
        // Producers start first, so that the sidecar finds their names, and publish once it is
        // attached.
        for station in &STATIONS {
            let child = self.spawn("producer", &[station.name.as_ref()], Stdio::piped())?;
            self.producers.push((station.name, child));
        }
        if self.until(PATIENCE, Self::producers_are_attached)?.is_none() {
            return Err(Failure::General("demo: a producer does not attach".to_owned()));
        }
        let out = self.out.dir.clone();
        let mut args: Vec<&OsStr> = vec!["--out".as_ref(), out.as_ref()];
        args.extend(self.out.fresh.is_some().then_some::<&OsStr>("--fresh".as_ref()));
        self.sidecar = Some(self.spawn("sidecar", &args, Stdio::inherit())?);
        if self.until(PATIENCE, Self::consumers_are_attached)?.is_none() {
            return Err(Failure::General("demo: the sidecar does not attach".to_owned()));
        }
        for (_, child) in &mut self.producers {
            // One that is dead has no count, and the account says so.
            let _ = child.stdin.as_mut().map(|stdin| writeln!(stdin, "go"));
        }
        let began = Instant::now();
        if self.ended_early(time / 2)? {
            return Ok(());
        }
        self.kill_the_victim()?;
        if self.ended_early(time.saturating_sub(began.elapsed()))? {
            return Ok(());
        }
        let counts = self.end_producers()?;
        for (name, count) in counts {
            self.order(&format!("own {name} {}", count.trim()))?;
        }
        self.order("finish")?;
        match self.until(PATIENCE, Self::sidecar_exit)? {
            Some(status) => {
                self.out.keep();
                judge(status)
            }
            None => Err(Failure::General("demo: the sidecar does not end".to_owned())),
        }
    }

    fn spawn(&self, role: &str, args: &[&OsStr], out: Stdio) -> Result<Child, Failure> {
        let failed = |error| Failure::General(format!("demo: cannot start a process: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        Command::new(program)
            .arg("demo-child")
            .arg(role)
            .arg(&self.dir)
            .arg(std::process::id().to_string())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(out)
            .spawn()
            .map_err(failed)
    }

    /// Polls until there is an answer, for at most `limit`.
    fn until<T>(
        &mut self,
        limit: Duration,
        mut ask: impl FnMut(&mut Self) -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        let began = Instant::now();
        loop {
            self.stop.check()?;
            if let Some(answer) = ask(self)? {
                return Ok(Some(answer));
            }
            if began.elapsed() >= limit {
                return Ok(None);
            }
            std::thread::sleep(POLL.min(limit.saturating_sub(began.elapsed())));
        }
    }

    /// Waits for `time`. Returns whether the sidecar ended meanwhile, as it does when stdout is
    /// closed.
    fn ended_early(&mut self, time: Duration) -> Result<bool, Failure> {
        match self.until(time, Self::sidecar_exit)? {
            Some(status) => judge(status).map(|()| true),
            None => Ok(false),
        }
    }

    fn sidecar_exit(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let failed = |error| Failure::General(format!("demo: cannot wait for a process: {error}"));
        self.sidecar.as_mut().map_or(Ok(None), |child| child.try_wait().map_err(failed))
    }

    /// Returns whether each producer has attached under its name, by which the trace names
    /// processes.
    fn producers_are_attached(&mut self) -> Result<Option<()>, Failure> {
        for (name, child) in &self.producers {
            let producer = Stat::read(self.dir.join(name))?.producer;
            if !producer.is_alive() || producer.owner.pid != child.id() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn consumers_are_attached(&mut self) -> Result<Option<()>, Failure> {
        if let Some(status) = self.sidecar_exit()? {
            judge(status)?;
            return Ok(Some(()));
        }
        for station in STATIONS.iter().filter(|station| station.policy == Policy::Drop) {
            if !Stat::read(self.dir.join(station.name))?.consumer.is_alive() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn kill_the_victim(&mut self) -> Result<(), Failure> {
        let failed = |error| Failure::General(format!("demo: cannot kill a process: {error}"));
        if let Some((_, child)) = self.producers.iter_mut().find(|(name, _)| *name == VICTIM) {
            let pid = child.id();
            child.kill().map_err(failed)?;
            let at = now_ns();
            child.wait().map_err(failed)?;
            self.producers.retain(|(name, _)| *name != VICTIM);
            self.order(&format!("killed {VICTIM} {pid} {at}"))?;
        }
        Ok(())
    }

    /// Closes the producers' stdin, which ends them, and collects their own counts.
    fn end_producers(&mut self) -> Result<Vec<(&'static str, String)>, Failure> {
        for (_, child) in &mut self.producers {
            child.stdin = None;
        }
        let mut counts = Vec::new();
        for (name, child) in &mut self.producers {
            let mut count = String::new();
            // A producer that was killed from outside has no count; the account does without it.
            if let Some(out) = &mut child.stdout {
                let _ = out.read_to_string(&mut count);
            }
            let _ = child.wait();
            counts.push((*name, count));
        }
        self.stop.check()?;
        Ok(counts)
    }

    fn order(&mut self, line: &str) -> Result<(), Failure> {
        let stdin: Option<&mut ChildStdin> =
            self.sidecar.as_mut().and_then(|child| child.stdin.as_mut());
        match stdin.map(|stdin| writeln!(stdin, "{line}")) {
            // It is dead: the next check finds out why.
            Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Some(Err(error)) => {
                Err(Failure::General(format!("demo: cannot speak to the sidecar: {error}")))
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self) {
        let sidecar = self.sidecar.take();
        for mut child in self.producers.drain(..).map(|(_, child)| child).chain(sidecar) {
            // Fails only if it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.end();
    }
}

/// The sidecar prints itself what is wrong.
fn judge(status: ExitStatus) -> Result<(), Failure> {
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::Reported(code as u8)),
        None => Err(Failure::General(format!("demo: the sidecar ended with {status}"))),
    }
}
