//! A process that is stepped instruction by instruction, and the processor that it is stepped on.
#![allow(clippy::panic)]

use crate::actor;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};

/// A process that stops itself before and after the tested operation.
#[derive(Debug)]
pub struct Stepped {
    child: Child,
    pid: Pid,
}

impl Stepped {
    /// Starts a process and waits for its first stop.
    ///
    /// # Panics
    /// If it does not get there.
    #[must_use]
    pub fn start(exe: &str, args: &[&str], ring: &Path) -> Self {
        let mut command = actor(exe, args, ring);
        // No step for the dynamic linker.
        command.env("LD_BIND_NOW", "1");
        let child = command.stdin(Stdio::null()).spawn().expect("a process");
        let pid = Pid::from_raw(child.id() as i32);
        let stepped = Stepped { child, pid };
        assert!(stepped.stopped(), "the process should have stopped itself");
        stepped
    }

    /// Waits for a stop. Returns whether it is one of the process's own.
    fn stopped(&self) -> bool {
        match waitpid(self.pid, None).expect("a stop") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => false,
            WaitStatus::Stopped(_, Signal::SIGSTOP) => true,
            other => panic!("the process should have stopped, but {other:?}"),
        }
    }

    /// Executes one instruction. Returns whether the second stop is reached.
    ///
    /// # Panics
    /// If it ends.
    #[must_use]
    pub fn step(&self) -> bool {
        ptrace::step(self.pid, None).expect("a step");
        self.stopped()
    }

    /// Runs to the beginning or the end of the next system call. Returns whether the second stop is
    /// reached.
    ///
    /// # Panics
    /// If it ends.
    #[must_use]
    pub fn call(&self) -> bool {
        ptrace::syscall(self.pid, None).expect("a step");
        self.stopped()
    }

    /// Ends it by SIGKILL.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill(mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("a death");
    }

    /// Lets it run to its end; `done` if it is at its second stop.
    ///
    /// # Panics
    /// If it ends with an error.
    pub fn go_on(self, done: bool) {
        ptrace::cont(self.pid, None).expect("it goes on");
        if !done {
            assert!(self.stopped());
            ptrace::cont(self.pid, None).expect("it goes on");
        }
        match waitpid(self.pid, None).expect("an end") {
            WaitStatus::Exited(_, 0) => {}
            other => panic!("the process should have ended well, but {other:?}"),
        }
    }
}

/// A processor for one test: a process that is stepped on the processor of its tracer is stepped
/// many times as fast as on another. Tests take one each, in this process and in others.
#[derive(Debug)]
pub struct OneCpu {
    _taken: File,
}

impl OneCpu {
    /// Binds this thread, and the processes that it starts, to a processor that no other test has.
    #[must_use]
    pub fn take() -> Option<Self> {
        let may = sched_getaffinity(Pid::from_raw(0)).ok()?;
        for cpu in (0..CpuSet::count()).filter(|cpu| may.is_set(*cpu).unwrap_or(false)) {
            let path = std::env::temp_dir().join(format!("perfring-tests-cpu-{cpu}"));
            let Ok(file) = File::options().create(true).append(true).open(path) else { continue };
            if file.try_lock().is_err() {
                continue;
            }
            let mut one = CpuSet::new();
            one.set(cpu).ok()?;
            sched_setaffinity(Pid::from_raw(0), &one).ok()?;
            return Some(OneCpu { _taken: file });
        }
        None
    }
}
