//! `perfring demo`: producers, a sidecar and a kill -9, in a few seconds.
//!
//! The first process makes the rings, starts the sidecar, and cleans up. The sidecar starts a
//! producer for each ring, follows all rings, writes their records to files, kills a producer in
//! mid-stream, and ends the others in order. Each process runs this program.

mod common;
mod live;
mod producer;
mod records;
mod report;
mod screen;
mod watch;
mod why;

use crate::args;
#[cfg(feature = "view")]
use crate::commands::view;
use crate::failure::Failure;
use crate::stop::{POLL, Stop};
use crate::verbosity::Style;
use common::{FILES, METRICS, STATIONS, Station, failed, spawn};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use perfring_producer::{Options, files::create};
use screen::Screen;
use std::fs::{Permissions, create_dir_all, remove_dir, remove_file};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::{Builder, TempDir};

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
    #[cfg_attr(feature = "view", arg(long))]
    #[cfg_attr(not(feature = "view"), arg(skip))]
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
    let (out, fresh) = out(args.out.as_deref())?;
    // On a tmpfs if there is one.
    let mut builder = Builder::new();
    let builder = builder.prefix("perfring-demo.");
    let rings = builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir());
    let hint = "set TMPDIR to a directory that you may write to";
    let rings = rings.map_err(|error| no_directory(&std::env::temp_dir(), &error, hint))?;
    let dir = rings.path();
    for &Station { name, policy, size } in &STATIONS {
        let shape = if name == METRICS { Options::many() } else { Options::default() };
        create(dir.join(name), &Options { size, policy, time: true, ..shape })?;
    }
    let time = Duration::from_secs(if args.view { 60 } else { 8 });
    let time = args.time.unwrap_or(time);
    let text = format!(
        "{} processes publish what this host is doing, each into a ring of its own, in\n{}\n\
         A sidecar process follows all of them, in one order of time, and writes a trace and JSON \
         lines. One producer makes bursts that are larger than its ring: it must lose some, and \
         count them. In the middle, kill -9 hits another. {}.\n",
        STATIONS.len(),
        dir.display(),
        humantime::format_duration(time),
    );
    Screen::new().say(Style::Plain, &text)?;
    #[cfg(feature = "view")]
    let _page = args.view.then(|| page(dir)).transpose()?;
    let mut sidecar = spawn(dir, |command| {
        command.arg("--out").arg(&out).arg("--ms").arg(time.as_millis().to_string());
        command.args(fresh.as_ref().map(|_| "--fresh")).stdin(Stdio::null());
    })?;
    let status = loop {
        if let Err(signal) = stop.check() {
            // Fails only if it has ended. Its producers end with it.
            let _ = sidecar.kill();
            let _ = sidecar.wait();
            return Err(signal);
        }
        match sidecar.try_wait() {
            Ok(None) => std::thread::sleep(POLL),
            Ok(Some(status)) => break status,
            Err(error) => return Err(failed(format!("cannot wait for a process: {error}"))),
        }
    };
    let code = status.code().ok_or_else(|| failed(format!("the sidecar ended with {status}")))?;
    // Without a report, the sidecar has removed it.
    let _ = fresh.map(TempDir::keep);
    // The sidecar prints itself what is wrong.
    if code == 0 { Ok(()) } else { Err(Failure::Reported(code as u8)) }
}

/// Serves a page with the rings, and opens it.
#[cfg(feature = "view")]
fn page(dir: &Path) -> Result<perfring_view::serve::Server, Failure> {
    let server = view::serve(vec![dir.to_owned()], "127.0.0.1:0")?;
    Screen::new().line(&format!("The page: {}\n", server.url()))?;
    view::open(server.url());
    Ok(server)
}

/// Makes the directory of the files: one that was asked for, or a fresh one, which stays only if
/// the demo comes to its end.
fn out(asked: Option<&Path>) -> Result<(PathBuf, Option<TempDir>), Failure> {
    let failed = |dir: &Path, error| {
        no_directory(dir, &error, "name a directory that you may write to with --out")
    };
    let whole = |dir: &Path| dir.canonicalize().map_err(|error| failed(dir, error));
    let Some(asked) = asked else {
        // Figures of this host are for its owner only.
        let private = Permissions::from_mode(0o700);
        let fresh = Builder::new().prefix("perfring-demo-").permissions(private).tempdir();
        let fresh = fresh.map_err(|error| failed(&std::env::temp_dir(), error))?;
        return Ok((whole(fresh.path())?, Some(fresh)));
    };
    create_dir_all(asked).map_err(|error| failed(asked, error))?;
    let dir = whole(asked)?;
    match FILES.map(|name| dir.join(name)).iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => {
            let hint = "remove it, or name another directory with --out";
            Err(Failure::General(format!("{} already exists: {hint}", path.display())))
        }
        None => Ok((dir, None)),
    }
}

fn no_directory(dir: &Path, error: &io::Error, hint: &str) -> Failure {
    Failure::General(format!("cannot make a directory in {}: {error}: {hint}", dir.display()))
}

/// A process of the demo
#[derive(Debug, clap::Args)]
pub(crate) struct ChildArgs {
    /// The directory of the rings.
    dir: PathBuf,
    /// The process that started this one.
    parent: i32,
    /// The ring of a producer; the sidecar has none.
    #[arg(long)]
    ring: Option<String>,
    /// The directory for the sidecar's files.
    #[arg(long, default_value = ".")]
    out: PathBuf,
    /// Whether that directory is removed if there is no report.
    #[arg(long)]
    fresh: bool,
    /// How long the demo runs, in milliseconds.
    #[arg(long, default_value_t)]
    ms: u64,
}

pub(crate) fn child(args: &ChildArgs) -> Result<(), Failure> {
    let is_orphaned = || getppid().as_raw() != args.parent;
    if let Some(ring) = &args.ring {
        set_pdeathsig(Signal::SIGKILL).map_err(|errno| failed(format!("prctl: {errno}")))?;
        // The parent may have ended before that call.
        return if is_orphaned() { Ok(()) } else { producer::run(ring, &args.dir) };
    }
    let time = Duration::from_millis(args.ms);
    let ended = live::run(args.parent, &args.dir, &args.out, time);
    // It cleans up after a parent that was killed.
    if is_orphaned() {
        remove(&args.dir, STATIONS.iter().map(|station| station.name));
    }
    if args.fresh && (ended.is_err() || is_orphaned()) {
        remove(&args.out, FILES);
    }
    ended.and_then(|balance| balance)
}

/// Removes these files, and their directory if nothing else is in it. What is removed already is no
/// error.
fn remove(dir: &Path, names: impl IntoIterator<Item = &'static str>) {
    for name in names {
        let _ = remove_file(dir.join(name));
    }
    let _ = remove_dir(dir);
}
