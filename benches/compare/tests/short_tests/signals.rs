//! A signal ends the whole run.

use crate::Fallible;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::yield_now;

const COMPARE: &str = env!("CARGO_BIN_EXE_compare");

/// Starts a run that does not end by itself within a test, and returns it with its processes once
/// it measures. With several senders, which limits do not support: so this contestant is being
/// measured.
fn measuring(contestant: &str) -> Result<(Child, Vec<u32>), Box<dyn std::error::Error>> {
    let mut child = Command::new(COMPARE)
        .args(["--only", "producers", "--senders", "2", "--contestants", contestant])
        .args(["--seconds-per-sample", "1000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let log = child.stderr.take().ok_or("no log")?;
    let mut line = String::new();
    BufReader::new(log).read_line(&mut line)?;
    if !line.contains("round 1") {
        return Err(format!("it says {line:?}").into());
    }
    let id = child.id();
    loop {
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        let processes: Vec<u32> = text.split_whitespace().flat_map(str::parse).collect();
        // Before the start they wait for messages, and would end with the process that sends them.
        if processes.len() == 3 && processes.iter().all(|id| spins(*id)) {
            return Ok((child, processes));
        }
        if let Some(status) = child.try_wait()? {
            return Err(format!("it ended: {status}").into());
        }
        yield_now();
    }
}

/// Ctrl-C ends it and its processes, and removes its files; kill -9 ends at least its processes.
pub(crate) fn ends() -> Fallible {
    for contestant in CONTESTANTS {
        interrupted(contestant)?;
    }
    killed()
}

/// Also for contestants that have shared memory elsewhere, under names of their own.
const CONTESTANTS: &[&str] = if cfg!(feature = "iceoryx2") {
    &["perfring shared", "iceoryx2"]
} else {
    &["perfring shared"]
};

fn interrupted(contestant: &str) -> Fallible {
    let (mut child, processes) = measuring(contestant)?;
    let files = files(child.id());
    if files.is_empty() {
        return Err("no files of the run were seen".into());
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT)?;
    let status = child.wait()?;
    if status.code() != Some(130) {
        return Err(format!("after Ctrl-C: {status}").into());
    }
    if let Some(left) = processes.iter().find(|id| lives(**id)) {
        return Err(format!("process {left} outlived it").into());
    }
    if let Some(left) = files.iter().find_map(|file| left(file)) {
        return Err(format!("{contestant}: {left} is left").into());
    }
    Ok(())
}

/// Returns what is left of a directory, or beside it under its name.
fn left(file: &str) -> Option<String> {
    let name = Path::new(file).file_name()?.to_str()?;
    let names = std::fs::read_dir(Path::new(file).parent()?).ok()?.flatten();
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|other| other.starts_with(name))
}

fn killed() -> Fallible {
    let (mut child, processes) = measuring("perfring shared")?;
    let files = self::files(child.id());
    child.kill()?;
    let status = child.wait()?;
    if status.signal() != Some(9) {
        return Err(format!("after kill -9: {status}").into());
    }
    // The kernel ends them; a test that hangs here has found a failure.
    while processes.iter().any(|id| lives(*id)) {
        yield_now();
    }
    for file in files {
        std::fs::remove_dir_all(file)?;
    }
    Ok(())
}

/// Returns whether it has been busy for a while, as only measuring processes are: ticks of user
/// time.
fn spins(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split_whitespace().nth(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0) > 10
}

/// Returns whether there is such a process that has not ended.
fn lives(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Returns the directories of the run's samples, as mapped by its processes.
fn files(id: u32) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let dirs = paths.filter(|path| path.contains("perfring-bench-"));
    let mut dirs: Vec<String> =
        dirs.filter_map(|path| Some(path.rsplit_once('/')?.0.to_owned())).collect();
    dirs.dedup();
    dirs
}

/// A reader that closes the pipe after one line is no error.
pub(crate) fn closed_pipe() -> Fallible {
    let mut child = Command::new(COMPARE)
        .arg("--list")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(child.stdout.take());
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() && said.is_empty() {
        Ok(())
    } else {
        Err(format!("{}: {said}", output.status).into())
    }
}
