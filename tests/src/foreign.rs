//! The programs in `tests/foreign`, built by the test that runs them: both ends of a ring with the
//! C headers.

use crate::workspace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perfring_testkit::wait::{state, until};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

/// How a C program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// C11, optimised, every warning an error.
    C11,
    /// C11, not optimised.
    C11O0,
    /// C11, optimised the most: the compiler warns of more.
    C11O3,
    /// The same source as C++17.
    Cxx17,
    /// C11, with the address and undefined-behaviour sanitizers.
    Sanitized,
}

/// Builds `c_peer.c` into a directory. `None` if this machine lacks the compiler.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn c_peer(build: Build, dir: &Path) -> Option<PathBuf> {
    c_program(build, "tests/foreign/c_peer.c", dir)
}

/// Builds a C program, named by its path in the repository, with the headers in `proto` and in `dir`, into
/// `dir`. `None` if this machine lacks the compiler.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn c_program(build: Build, source: &str, dir: &Path) -> Option<PathBuf> {
    let source = workspace().join(source);
    let name = source.file_stem().expect("a file's name").to_string_lossy();
    let to = dir.join(format!("{name}_{build:?}"));
    let (compiler, flags): (_, &[&str]) = match build {
        Build::C11 => ("cc", &["-std=c11", "-O2"]),
        Build::C11O0 => ("cc", &["-std=c11", "-O0"]),
        Build::C11O3 => ("cc", &["-std=c11", "-O3"]),
        Build::Cxx17 => ("g++", &["-std=c++17", "-O2", "-x", "c++"]),
        Build::Sanitized => (
            "cc",
            &["-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
        ),
    };
    Command::new(compiler).arg("--version").stdout(Stdio::null()).status().ok()?;
    let status = Command::new(compiler)
        .args(["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(workspace().join("proto"))
        .arg("-I")
        .arg(dir)
        .args(flags)
        .args([source.as_path(), "-o".as_ref(), to.as_path()])
        .status()
        .expect("a compiler that says its version");
    assert!(status.success(), "{build:?} of {name} does not compile");
    Some(to)
}

impl Build {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Build::C11, Build::C11O0, Build::C11O3, Build::Cxx17, Build::Sanitized];
}

/// A running `c_peer`, driven line by line.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(exe: &Path, args: &[&str], ring: &Path) -> Self {
        let mut command = Command::new(exe);
        command.args(args).arg(ring).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program that was just built");
        let (stdin, stdout) = (child.stdin.take().expect("stdin"), child.stdout.take());
        Peer { child, stdin, stdout: BufReader::new(stdout.expect("stdout")) }
    }

    /// Sends a line.
    ///
    /// # Panics
    /// If it is dead.
    pub fn send(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("it lives");
    }

    /// Returns its next line: empty once it is dead.
    ///
    /// # Panics
    /// If the line is not text.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// Sends a line and returns the answer.
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.line()
    }

    /// Stops it, and continues it after `then`.
    ///
    /// # Panics
    /// If it cannot be stopped.
    pub fn while_stopped(&self, then: impl FnOnce()) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, Signal::SIGSTOP).expect("it lives");
        until("it is stopped", || state(pid) == Some('T'));
        then();
        kill(pid, Signal::SIGCONT).expect("it lives");
    }

    /// Kills it by SIGKILL.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill(mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("a death");
    }

    /// Returns its last line, after which it must succeed.
    ///
    /// # Panics
    /// If it fails.
    pub fn end(mut self) -> String {
        drop(self.stdin);
        let (mut line, mut last) = (String::new(), String::new());
        while self.stdout.read_line(&mut line).expect("text") > 0 {
            last = std::mem::take(&mut line);
        }
        let status = self.child.wait().expect("an end");
        assert!(status.success(), "{status}, after {last:?}");
        last.trim_end().to_owned()
    }
}

/// Runs it to its end, which must be a failure, and returns its message.
///
/// # Panics
/// If it succeeds, or is killed.
#[must_use]
pub fn refused(exe: &Path, args: &[&str], ring: &Path) -> String {
    let Output { status, stderr, .. } =
        Command::new(exe).args(args).arg(ring).output().expect("the program");
    assert_eq!(status.code(), Some(1), "{args:?} {ring:?}");
    String::from_utf8_lossy(&stderr).into_owned()
}

/// Runs it to its end, which must be a success, and returns its lines.
///
/// # Panics
/// If it fails.
#[must_use]
pub fn lines(exe: &Path, args: &[&str], ring: &Path) -> Vec<String> {
    let Output { status, stdout, stderr } =
        Command::new(exe).args(args).arg(ring).output().expect("the program");
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{args:?} {ring:?}: {status}: {said}");
    String::from_utf8_lossy(&stdout).lines().map(str::to_owned).collect()
}
