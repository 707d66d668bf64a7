//! No allocations and no system calls per record, on both sides: the actor's allocator counts the
//! former, a tracer the latter.

use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use perfring_consumer::Policy;
use perfring_producer::{Options, files::create};
use perfring_tests::{actor, ring_dir};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

/// Runs the actor under a tracer and counts system calls between its two calls of `getppid`.
/// Returns the count and the actor's output.
fn traced(policy: &str, ring: &Path) -> (u64, String) {
    let mut command = actor(env!("CARGO_BIN_EXE_actor"), &["quiet", policy], ring);
    let mut child =
        command.env("PERFRING_TRACED", "1").stdout(Stdio::piped()).spawn().expect("an actor");
    let pid = Pid::from_raw(child.id() as i32);
    assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(_, Signal::SIGSTOP))));
    ptrace::setoptions(pid, ptrace::Options::PTRACE_O_TRACESYSGOOD).expect("options");
    let (mut marks, mut entering, mut calls) = (0, true, 0);
    loop {
        ptrace::syscall(pid, None).expect("on");
        match waitpid(pid, None).expect("a stop") {
            WaitStatus::PtraceSyscall(_) => {
                if entering {
                    let call = ptrace::syscall_info(pid).expect("what it calls");
                    // SAFETY: at a stop on entry, the kernel filled in the `entry` member.
                    let number = unsafe { call.u.entry.nr };
                    if number == libc::SYS_getppid as u64 {
                        marks += 1;
                    } else if marks == 1 {
                        calls += 1;
                    }
                }
                entering = !entering;
            }
            WaitStatus::Exited(_, code) => {
                assert_eq!(code, 0);
                break;
            }
            WaitStatus::Stopped(..) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(marks, 2);
    let _ = child.wait(); // reaped above: says so
    let mut reported = String::new();
    child.stdout.take().expect("its words").read_to_string(&mut reported).expect("its words");
    (calls, reported)
}

#[test]
fn a_record_costs_no_system_call_and_no_allocation() {
    let dir = ring_dir();
    let (drop, overwrite) = (Policy::Drop, Policy::Overwrite);
    for (policy, time, mode) in [
        (drop, false, 0o600),
        (overwrite, false, 0o600),
        (drop, true, 0o600),
        // Lent reservations, and copies.
        (drop, true, 0o666),
        (overwrite, false, 0o666),
    ] {
        let ring = dir.path().join(format!("{}-{time}-{mode:o}", policy.name()));
        create(&ring, &Options { policy, time, mode, ..Options::default() }).unwrap();
        let (calls, reported) = traced(policy.name(), &ring);
        println!("{}, time {time}, mode {mode:o}, {calls} system calls", reported.trim());
        assert!(reported.contains("moved 906000 typed 302000 allocations 0"), "{reported}");
        assert_eq!(calls, 0);
    }
}
