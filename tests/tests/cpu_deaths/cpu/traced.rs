//! A process that is stopped at any instruction of a restartable sequence.
//!
//! Single steps do not get there: the return from each trap aborts the sequence. A breakpoint does, and
//! the thread is then inside: the kernel aborts its sequence when it continues. To count instructions,
//! the tracer clears the thread's `rseq_cs` word, so that the kernel knows of no sequence, and steps.

use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use perfring_testkit::wait::until;
use perfring_tests::shared::Driven;
use std::path::Path;

/// Offset of `rseq_cs` in `struct rseq`.
const RSEQ_CS: u64 = 8;
const INT3: i64 = 0xcc;
/// More instructions or sequences in one call are a failure.
const STEPS_MAX: usize = 200_000;

/// A sequence of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    descriptor: u64,
    pub(crate) start: u64,
    /// The address after the last store.
    pub(crate) end: u64,
}

impl Section {
    fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// An instruction that a call executes in a sequence, or the one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// From the program's first descriptor on: a program is loaded elsewhere each time.
    from: u64,
    /// How often the call has come by before.
    pub(crate) before: usize,
    /// Which of the call's sequences this is in.
    pub(crate) visit: usize,
    /// Behind the last store of that sequence.
    pub(crate) stored: bool,
}

/// Where a process has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    At(u64),
    /// At the end of its call.
    Done,
}

pub(crate) struct Traced {
    pub(crate) driven: Driven,
    pub(crate) pid: Pid,
    sections: Vec<Section>,
    /// Where the descriptors begin.
    base: u64,
    /// Of `struct rseq`.
    area: u64,
    planted: Vec<(u64, i64)>,
}

impl Traced {
    /// Starts a process, which has attached to the rings, on a CPU.
    pub(crate) fn start(args: &[&str], dir: &Path, cpu: usize) -> Self {
        let (driven, line) = Driven::start(env!("CARGO_BIN_EXE_cpuer"), args, dir);
        let words: Vec<&str> = line.split(' ').collect();
        let [_, from, to] = words[..] else { panic!("not attached: {line}") };
        let (from, to) = (from.parse::<u64>().unwrap(), to.parse::<u64>().unwrap());
        let pid = Pid::from_raw(driven.child.id() as i32);
        let (sections, planted) = (Vec::new(), Vec::new());
        let mut traced = Traced { driven, pid, sections, base: from, area: 0, planted };
        traced.move_to(cpu);
        // The needed parts of its memory can be read while it is stopped.
        traced.begin("publish 9 0 64");
        traced.area = rseq_area(pid);
        traced.sections = (from..to)
            .step_by(32)
            .map(|descriptor| {
                let word = |at| traced.read(descriptor + at);
                assert_eq!(word(0), 0, "version and flags");
                Section { descriptor, start: word(8), end: word(8) + word(16) }
            })
            .collect();
        assert_eq!(traced.finish(), "ok");
        traced
    }

    /// Moves it to a CPU.
    pub(crate) fn move_to(&self, cpu: usize) {
        let mut only = CpuSet::new();
        only.set(cpu).unwrap();
        sched_setaffinity(self.pid, &only).unwrap();
    }

    /// Has it begin a call: it stops before it.
    pub(crate) fn begin(&mut self, call: &str) {
        self.driven.send(call);
        assert_eq!(self.wait(), Stop::Done);
    }

    /// Has it end its call, and returns its answer.
    pub(crate) fn finish(&mut self) -> String {
        assert_eq!(self.go(&[]), Stop::Done);
        self.answer()
    }

    /// Returns the answer of a call that has ended.
    pub(crate) fn answer(&mut self) -> String {
        ptrace::cont(self.pid, None).unwrap();
        self.driven.line()
    }

    /// Makes one call.
    pub(crate) fn call(&mut self, call: &str) -> String {
        self.begin(call);
        self.finish()
    }

    /// Lets it run to one of these addresses, or to the end of its call.
    pub(crate) fn go(&mut self, to: &[u64]) -> Stop {
        for &address in to {
            let word = ptrace::read(self.pid, address as ptrace::AddressType).unwrap();
            self.planted.push((address, word));
            self.write(address, (word & !0xff) | INT3);
        }
        ptrace::cont(self.pid, None).unwrap();
        self.wait()
    }

    /// Injects a signal at the instruction where the process stands. `kill` would be wrong after the last system call: the
    /// SIGSTOP that ends the call is pending there for the thread, and precedes a signal for the process.
    pub(crate) fn signal(&self, signal: Signal) {
        ptrace::cont(self.pid, signal).unwrap();
    }

    /// Waits for the end of its call, after [`Traced::signal`].
    pub(crate) fn wait_for_end(&mut self, what: &str) -> String {
        let peek = WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let stopped = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | peek;
        until(format!("{what}: the handler returns"), || {
            waitid(Id::Pid(self.pid), stopped).unwrap() != WaitStatus::StillAlive
        });
        assert_eq!(self.wait(), Stop::Done);
        self.answer()
    }

    fn wait(&mut self) -> Stop {
        let stop = match waitpid(self.pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                let mut regs = ptrace::getregs(self.pid).unwrap();
                regs.rip -= 1;
                ptrace::setregs(self.pid, regs).unwrap();
                assert!(self.planted.iter().any(|(address, _)| *address == regs.rip));
                Stop::At(regs.rip)
            }
            WaitStatus::Stopped(_, Signal::SIGSTOP) => Stop::Done,
            other => panic!("the process should have stopped: {other:?}"),
        };
        // Last first: two may be in one word.
        while let Some((address, word)) = self.planted.pop() {
            self.write(address, word);
        }
        stop
    }

    /// Executes one instruction. Returns whether the end of the call is reached.
    pub(crate) fn step(&self) -> bool {
        ptrace::step(self.pid, None).unwrap();
        match waitpid(self.pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => false,
            WaitStatus::Stopped(_, Signal::SIGSTOP) => true,
            other => panic!("the process should have stopped: {other:?}"),
        }
    }

    /// Executes one instruction, also in a sequence, which continues like ordinary code.
    pub(crate) fn step_through(&self) -> bool {
        if self.is_inside() {
            self.write(self.area + RSEQ_CS, 0);
        }
        self.step()
    }

    /// Returns whether it stands in a sequence.
    pub(crate) fn is_inside(&self) -> bool {
        let at = self.at();
        self.sections.iter().any(|section| section.has(at))
    }

    fn at(&self) -> u64 {
        ptrace::read_user(self.pid, std::mem::offset_of!(libc::user, regs.rip) as _).unwrap() as u64
    }

    fn read(&self, address: u64) -> u64 {
        ptrace::read(self.pid, address as ptrace::AddressType).unwrap() as u64
    }

    fn write(&self, address: u64, word: i64) {
        ptrace::write(self.pid, address as ptrace::AddressType, word).unwrap();
    }

    /// Makes a call, and returns all instructions that it executes in sequences.
    pub(crate) fn walk(&mut self, call: &str) -> (Vec<Point>, String) {
        let starts: Vec<u64> = self.sections.iter().map(|section| section.start).collect();
        let mut points: Vec<Point> = Vec::new();
        let mut visit = 0;
        self.begin(call);
        while let Stop::At(start) = self.go(&starts) {
            let section = *self.sections.iter().find(|section| section.start == start).unwrap();
            // By itself: later it is this that says so, see `show`.
            let told = self.read(self.area + RSEQ_CS);
            assert_eq!(told, section.descriptor, "the kernel knows nothing of the sequence");
            let mut note = |address: u64, stored| {
                let from = address.wrapping_sub(self.base);
                let before = points.iter().filter(|point| point.from == from).count();
                points.push(Point { from, before, visit, stored });
            };
            let mut at = start;
            while section.has(at) {
                note(at, false);
                assert!(!self.step_through(), "the call ends in a sequence");
                at = self.at();
            }
            if at == section.end {
                note(at, true);
            }
            visit += 1;
            assert!(points.len() < STEPS_MAX);
        }
        (points, self.answer())
    }

    /// Begins a call, and brings it to a point. Returns whether it got there: it does not if it is preempted
    /// in the sequence on the way.
    pub(crate) fn reach(&mut self, call: &str, point: Point) -> bool {
        let address = point.from.wrapping_add(self.base);
        self.begin(call);
        for _ in 0..point.before {
            if self.go(&[address]) == Stop::Done {
                return false;
            }
            assert!(!self.step_through());
        }
        if self.go(&[address]) == Stop::Done {
            return false;
        }
        self.show();
        true
    }

    /// Shows the kernel the thread's sequence again, if the sequence was hidden to get here.
    pub(crate) fn show(&self) {
        let at = self.at();
        if let Some(section) = self.sections.iter().find(|section| section.has(at)) {
            self.write(self.area + RSEQ_CS, section.descriptor as i64);
        }
    }

    pub(crate) fn kill(mut self) {
        self.driven.kill();
    }
}

/// Returns the address of the `struct rseq` of a stopped process.
fn rseq_area(pid: Pid) -> u64 {
    /// `struct ptrace_rseq_configuration`.
    #[repr(C)]
    #[derive(Default)]
    struct Configuration {
        area: u64,
        size: u32,
        signature: u32,
        flags: u32,
        pad: u32,
    }
    const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
    let mut found = Configuration::default();
    let size = std::mem::size_of::<Configuration>();
    // SAFETY: the kernel writes that many bytes to `found`.
    let done =
        unsafe { libc::ptrace(PTRACE_GET_RSEQ_CONFIGURATION, pid.as_raw(), size, &raw mut found) };
    assert_eq!(done, size as i64, "ptrace tells where the area is from Linux 5.13 on");
    assert_eq!(found.signature, 0x5305_3053);
    found.area
}
