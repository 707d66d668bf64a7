//! Rings per CPU if libc registers no thread for restartable sequences: threads register themselves, with an area that
//! is gone before they are.
//!
//! The kernel's properties of areas are in a program's auxiliary vector, where a tracer can change them. A present kernel then
//! looks like a kernel with fields for more bytes. From Linux 6.3 on it also takes longer areas.
//!
//! Seen red: with a destructor that leaves the thread registered, or that ends a registration of another length.

use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use perfring_consumer::{Consumer, Item};
use perfring_producer::{CpuProducer, Options};
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::shared::{balance, reporter, said};
use perfring_tests::{NUMBERED, actor, ring_dir, skip};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const THREADS: u64 = 24;
const RECORDS: u64 = 400;
/// As in `areas`.
const FIRST: u64 = 1 << 29;
const LAST: u64 = 1 << 30;
const AFTER: u64 = 1 << 31;

fn unregistered(args: &[&str], dir: &Path) -> Command {
    let mut command = actor(env!("CARGO_BIN_EXE_areas"), args, dir);
    command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    command
}

/// The properties of areas in the auxiliary vector: the length of the kernel's fields, and their alignment.
type Says = (i64, i64);
/// As Linux 7.0.
const LONGER: Option<Says> = Some((33, 64));

const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
const AT_RSEQ_ALIGN: libc::c_ulong = 28;

/// Starts a program. Its auxiliary vector has the kernel's properties, or changed properties.
fn start(mut command: Command, says: Option<Says>) -> Child {
    command.stdout(Stdio::piped());
    let Some((len, align)) = says else { return command.spawn().unwrap() };
    let traced = || ptrace::traceme().map_err(io::Error::from);
    // SAFETY: makes a system call.
    unsafe { command.pre_exec(traced) };
    let child = command.spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    // Before its first instruction.
    assert_eq!(waitpid(pid, None), Ok(WaitStatus::Stopped(pid, Signal::SIGTRAP)));
    let read = |at: u64| ptrace::read(pid, at as ptrace::AddressType).unwrap();
    let behind_zero = |mut at: u64| {
        while read(at) != 0 {
            at += 8;
        }
        at + 8
    };
    // `startstack`, where the number of arguments is. The arguments follow, then the environment, then the vector.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap();
    let stack: u64 = fields.split_whitespace().nth(25).unwrap().parse().unwrap();
    let vector = behind_zero(behind_zero(stack + 8));
    for at in (vector..).step_by(16) {
        let value = match read(at) as libc::c_ulong {
            libc::AT_NULL => break,
            AT_RSEQ_FEATURE_SIZE => len,
            AT_RSEQ_ALIGN => align,
            _ => continue,
        };
        ptrace::write(pid, (at + 8) as ptrace::AddressType, value).unwrap();
    }
    ptrace::detach(pid, None).unwrap();
    child
}

fn lines(args: &[&str], dir: &Path) -> Vec<String> {
    let output = unregistered(args, dir).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn threads_that_libc_has_not_registered_publish_and_come_and_go() {
    let dir = ring_dir();
    let dir = dir.path().join("set");
    let options = Options { size: 4 << 20, ..Options::per_cpu() };
    // This process has the areas that libc registered: both kinds publish in the same rings.
    let beside = CpuProducer::create(&dir, &options).unwrap();
    let (threads, records) = (THREADS.to_string(), RECORDS.to_string());
    // The kernel's length; more than the original area; and more than it if the kernel refuses this.
    let processes = [(1000, "new", None), (2000, "new", LONGER), (3000, "old", LONGER)];
    let processes = processes.map(|(who, kernel, says)| {
        let args = [kernel, "threads", &who.to_string(), &threads, &records];
        start(unregistered(&args, &dir), says)
    });
    for seq in 0..RECORDS {
        beside.publish_timeout(NUMBERED, &said(1, seq, 40), WATCHDOG).unwrap();
    }
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.trim(), format!("0 refused, {} free, 0 without a ring", 2 * THREADS));
    }
    let mut read: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for ring in std::fs::read_dir(&dir).unwrap() {
        let ring = ring.unwrap().path();
        let mut consumer = Consumer::attach(&ring).unwrap();
        while let Some(Item::Record(record)) = consumer.read().unwrap() {
            let (who, seq) = reporter(record.bytes);
            read.entry(who).or_default().push(seq);
        }
        drop(consumer);
        balance(&ring, false);
    }
    let all: Vec<u64> = (0..RECORDS).chain([FIRST, LAST, AFTER]).collect();
    assert_eq!(read.len() as u64, 1 + 3 * (THREADS + 1));
    for (who, mut seqs) in read {
        seqs.sort_unstable();
        let expected = match who % 1000 {
            1 if who == 1 => &all[..RECORDS as usize],
            THREADS => &[0], // a forked child
            _ => &all,
        };
        assert_eq!(seqs, expected, "{who}");
    }
}

#[test]
fn a_thread_that_another_library_has_registered_is_told_so() {
    let dir = ring_dir();
    let dir = dir.path().join("set");
    drop(CpuProducer::create(&dir, &Options::per_cpu()).unwrap());
    let said = lines(&["new", "taken"], &dir);
    let [attached, published, why, lost] = &said[..] else { panic!("{said:?}") };
    assert!(
        attached.contains("another library") && attached.contains("GLIBC_TUNABLES"),
        "{attached}"
    );
    assert!(attached.ends_with("; use a ring for one producer, or for many"), "{attached}");
    assert!(published.ends_with("`attach_to` says why"), "{published}");
    assert_eq!((why, &lost[..]), (attached, "1"));
}

#[test]
fn an_area_has_the_length_that_the_kernel_says_if_the_area_has_room_and_the_kernel_takes_it() {
    // SAFETY: reads a word that the kernel left for the process, or says 0.
    if unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } == 0 {
        return skip("the kernel does not say how long an area is: Linux 6.3 does");
    }
    let dir = ring_dir();
    let dir = dir.path().join("set");
    drop(CpuProducer::create(&dir, &Options::per_cpu()).unwrap());
    for (kernel, says, len) in [
        ("new", (0, 0), 32),
        ("new", (20, 32), 32),
        ("new", (28, 32), 32),
        ("new", (33, 64), 33),
        ("new", (64, 64), 64),
        ("new", (65, 128), 32),
        ("old", (28, 32), 32),
        ("old", (33, 64), 32),
    ] {
        let output = start(unregistered(&[kernel, "length"], &dir), Some(says)).wait_with_output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(text.trim(), format!("false {len} {}", says.0), "{kernel} {says:?}");
    }
}

#[test]
fn a_thread_that_libc_has_registered_is_said_to_be() {
    let dir = ring_dir();
    let dir = dir.path().join("set");
    drop(CpuProducer::create(&dir, &Options::per_cpu()).unwrap());
    let output = actor(env!("CARGO_BIN_EXE_areas"), &["new", "length"], &dir).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let [by_libc, len, _] = words[..] else { panic!("{text}") };
    assert_eq!(by_libc, "true", "glibc 2.35 registers each thread");
    assert!(len.parse::<u32>().unwrap() >= 32, "{text}");
}
