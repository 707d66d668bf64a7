//! The real binary, run and followed by the tests of this folder.
#![allow(dead_code, reason = "each file of tests uses what it needs")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use tempfile::TempDir;

/// A directory with room for rings.
pub(crate) struct Place(pub(crate) TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Creates a ring with these options and returns its path.
    pub(crate) fn ring(&self, options: &[&str]) -> String {
        let path = self.path("ring").to_str().unwrap().to_owned();
        let mut args = vec!["create", &path];
        args.extend(options);
        let made = run(&args, b"");
        assert_eq!(made.code(), 0, "{}", made.err());
        path
    }
}

/// How a command ended.
pub(crate) struct Done(pub(crate) Output);

impl Done {
    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// Checks for one sentence on stderr with the prefix, nothing on stdout, and this code.
    #[track_caller]
    pub(crate) fn refuses(&self, code: i32, says: &str) {
        let (out, err) = (self.out(), self.err());
        assert_eq!(self.code(), code, "{err}");
        assert_eq!(out, "");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(err.starts_with("perfring: ") && err.contains(says), "{err}");
    }
}

pub(crate) fn perfring(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfring"));
    // Lines are not wrapped, whatever the terminal of the tests.
    command.env_remove("COLUMNS").args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn run(args: &[&str], input: &[u8]) -> Done {
    let mut child = perfring(args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A command that reads no stdin closes it.
        scope.spawn(move || stdin.write_all(input));
        Done(child.wait_with_output().unwrap())
    })
}

/// Returns the subcommands that `--help` lists.
#[track_caller]
pub(crate) fn subcommands() -> Vec<String> {
    let help = run(&["--help"], b"").out();
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap().to_owned();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

pub(crate) fn publish(ring: &str, input: &[u8]) {
    let done = run(&["publish", ring], input);
    assert_eq!(done.code(), 0, "{}", done.err());
}

/// Prints why a test does not run; fails where it must run.
pub(crate) fn skipped(why: &str) {
    assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "should run here, but {why}");
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
}

/// A running command whose output is read line by line.
pub(crate) struct Live {
    pub(crate) child: Child,
    pub(crate) out: BufReader<ChildStdout>,
}

impl Live {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::of(perfring(args))
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Live { child, out }
    }

    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        self.line_or_end().unwrap_or_else(|| {
            let mut said = String::new();
            self.child.stderr.take().map(|mut from| from.read_to_string(&mut said));
            panic!("it said no more: {said}")
        })
    }

    /// Returns the next line, or `None` once there are no more.
    pub(crate) fn line_or_end(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.out.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Returns the rest of stdout, stderr, and the exit code.
    pub(crate) fn end(mut self) -> (String, String, i32) {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (out, err, self.child.wait().unwrap().code().unwrap_or(-1))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Closes the reading end of a command's stdout.
pub(crate) fn close_and_wait(mut live: Live) -> (String, i32) {
    let (empty, _) = std::io::pipe().unwrap();
    live.out = BufReader::new(ChildStdout::from(OwnedFd::from(empty)));
    let mut err = String::new();
    live.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (err, live.child.wait().unwrap().code().unwrap_or(-1))
}

/// Returns one check of `perfring doctor --json`: the level, and the message with the advice.
#[track_caller]
pub(crate) fn check(done: &Done, subject: &str, check: &str) -> (String, String) {
    let lines = json_lines(&done.out());
    let line = lines
        .iter()
        .find(|line| line["subject"] == subject && line["check"] == check)
        .unwrap_or_else(|| panic!("no {check} of {subject}: {}", done.out()));
    let advice = line["advice"].as_str().map_or(String::new(), |advice| format!(": {advice}"));
    let says = line["message"].as_str().unwrap();
    (line["level"].as_str().unwrap().to_owned(), format!("{says}{advice}"))
}

/// The losses of a ring by cause, as JSON has them. Those that came twice count once: their sums say which they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    summed: BTreeMap<String, Vec<(u64, u64)>>,
    /// Those that no producer counts: by their cause and position.
    others: BTreeMap<(String, u64), u64>,
}

impl Losses {
    /// Adds the member `lost` of a line.
    pub(crate) fn add(&mut self, lost: &Value) {
        let records = lost["records"].as_u64().unwrap();
        let cause = lost["cause"].as_str().unwrap().to_owned();
        let Some(sum) = lost["sum"].as_u64() else {
            self.others.insert((cause, lost["pos"].as_u64().unwrap()), records);
            return;
        };
        let all = self.summed.entry(cause).or_default();
        all.push((sum - records, sum));
        all.sort_unstable();
        // Those that touch become one.
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in all.drain(..) {
            match joined.last_mut().filter(|(_, end)| from <= *end) {
                Some((_, end)) => *end = to.max(*end),
                None => joined.push((from, to)),
            }
        }
        *all = joined;
    }

    /// Returns the number of records.
    pub(crate) fn records(&self) -> u64 {
        let summed: u64 = self.summed.values().flatten().map(|(from, to)| to - from).sum();
        summed + self.others.values().sum::<u64>()
    }
}

/// Returns an address, and the socket that keeps its port for this test. A server of the test can listen on it, too,
/// because no socket does.
#[cfg(feature = "prometheus")]
pub(crate) fn held_port() -> (std::os::fd::OwnedFd, String) {
    use nix::sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, setsockopt, socket,
        sockopt,
    };
    use std::os::fd::AsRawFd as _;
    let port = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&port, sockopt::ReuseAddr, &true).unwrap();
    bind(port.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    let address = getsockname::<SockaddrIn>(port.as_raw_fd()).unwrap().to_string();
    (port, address)
}
