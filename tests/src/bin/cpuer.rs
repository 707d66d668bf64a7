//! A producer of a set of rings per CPU, to be driven, stopped inside its sequences, and killed.
//!
//! `cpuer drive NAME DIR` obeys each line on its stdin, and answers with a line.
//! `cpuer traced NAME DIR` does the same, and stops itself before and after each call.
//! `cpuer forks SOCKET DIR` is traced; another thread forks, or holds a reservation, for each connection to that socket.
//! `cpuer reads RING` sleeps for records, and answers with a line for each: its producer, its number, and the time.
//! `cpuer storm WHO SEED CALLS LOG DIR` publishes by all methods at random, see [`storm`].

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use perfring_consumer::{Consumer, Item};
use perfring_producer::{CpuProducer, Reservation, ReserveError};
use perfring_testkit::rng::Rng;
use perfring_tests::NUMBERED;
use perfring_tests::shared::{answer, reporter, said};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::ffi::c_int;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// For the signal handler and for all threads.
static PRODUCER: OnceLock<CpuProducer> = OnceLock::new();

fn main() -> Outcome {
    // It does not outlive a test that is killed.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["drive", name, dir] => drive(attach(name, dir)?, false),
        ["traced", name, dir] => {
            nix::sys::ptrace::traceme()?;
            drive(attach(name, dir)?, true)
        }
        ["forks", socket, dir] => {
            nix::sys::ptrace::traceme()?;
            let producer = attach("forks", dir)?;
            let listener = UnixListener::bind(socket)?;
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    stream.map_err(Into::into).and_then(|s| serve(producer, s)).expect("an answer");
                }
            });
            drive(producer, true)
        }
        ["reads", ring] => reads(ring),
        ["storm", who, seed, calls, log, dir] => {
            storm(who.parse()?, seed.parse()?, calls.parse()?, log, dir)
        }
        _ => Err(format!("unknown arguments: {args:?}").into()),
    }
}

/// Reads a ring until the process is killed, asleep wherever it is empty.
fn reads(ring: &str) -> Outcome {
    let mut consumer = Consumer::attach(ring)?;
    say("attached")?;
    loop {
        consumer.wait(Duration::from_secs(600));
        let now = clock_gettime(ClockId::Monotonic);
        while let Some(item) = consumer.read()? {
            if let Item::Record(record) = item {
                let (who, seq) = reporter(record.bytes);
                say(&format!("{who} {seq} {} {}", now.tv_sec, now.tv_nsec))?;
            }
        }
    }
}

fn attach(name: &str, dir: &str) -> Result<&'static CpuProducer, Box<dyn std::error::Error>> {
    let producer = CpuProducer::attach_as(dir, name)?;
    // A ring of another CPU is attached to by the first record there, which no handler should do.
    for cpu in cpus()? {
        producer.attach_to(cpu as u32)?;
    }
    let action = SigAction::new(SigHandler::Handler(handler), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler neither allocates nor locks; what it publishes with allows it.
    unsafe { sigaction(Signal::SIGUSR1, &action) }?;
    Ok(PRODUCER.get_or_init(|| producer))
}

/// The CPUs that this process may run on.
fn cpus() -> nix::Result<Vec<usize>> {
    let may = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|cpu| may.is_set(*cpu).unwrap_or(false)).collect())
}

fn say(what: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush())
}

fn said_of<T>(outcome: Result<T, ReserveError>) -> String {
    outcome.map_or_else(answer, |_| "ok".to_owned())
}

/// The number that the handler publishes next, and the word in which it notes whether the record was accepted.
static HANDLER_NEXT: AtomicU64 = AtomicU64::new(u64::MAX);
/// 0 before a signal, 1 for an accepted record, 2 for a refused record.
static HANDLER_DONE: AtomicU64 = AtomicU64::new(0);
static LOG: OnceLock<File> = OnceLock::new();
/// Length of the handler's payloads.
const HANDLER_LEN: usize = 40;

/// Publishes one record where the signal has interrupted this process.
extern "C" fn handler(_: c_int) {
    let errno = nix::errno::Errno::last_raw();
    let number = HANDLER_NEXT.fetch_add(1, Ordering::Relaxed);
    let mut payload = [0; HANDLER_LEN];
    payload[..8].copy_from_slice(&number.to_le_bytes());
    for (at, byte) in payload.iter_mut().enumerate().skip(8) {
        *byte = (number as usize).wrapping_mul(31).wrapping_add(at) as u8;
    }
    let outcome = PRODUCER.get().map(|producer| producer.publish_as(NUMBERED, &payload));
    let noted = if outcome == Some(Ok(())) { ACCEPTED } else { REFUSED };
    HANDLER_DONE.store(noted.into(), Ordering::Relaxed);
    if let Some(log) = LOG.get() {
        // Signals beyond the log are noted nowhere, and published as any others.
        let seq = number & u64::from(u32::MAX);
        if seq < LOG_HALF {
            let _ = log.write_at(&[noted], LOG_HALF + seq);
        }
    }
    nix::errno::Errno::set_raw(errno);
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe extern "C" {
    static __start___rseq_cs: u8;
    static __stop___rseq_cs: u8;
}

/// Where the descriptors of this program's sequences are.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn descriptors() -> (usize, usize) {
    ((&raw const __start___rseq_cs).addr(), (&raw const __stop___rseq_cs).addr())
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn descriptors() -> (usize, usize) {
    (0, 0)
}

/// `publish WHO SEQ LEN`, `record WHO SEQ LEN` (reserved and committed), `reserve ID WHO SEQ LEN`,
/// `commit ID`, `discard ID`; `signals WHO SEQ` is the number of the handler's next record, and
/// `signalled` the result of it.
fn drive(producer: &'static CpuProducer, traced: bool) -> Outcome {
    let (from, to) = descriptors();
    say(&format!("attached {from} {to}"))?;
    let stop = || if traced { raise(Signal::SIGSTOP) } else { Ok(()) };
    let mut open: HashMap<u64, Reservation<'_, CpuProducer>> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let what = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>()?;
        let answer = match (what, &numbers[..]) {
            ("publish", &[who, seq, len]) => {
                let payload = said(who, seq, len as usize);
                stop()?;
                let done = producer.publish_as(NUMBERED, &payload[..len as usize]);
                stop()?;
                said_of(done)
            }
            ("record", &[who, seq, len]) => {
                let payload = said(who, seq, len as usize);
                stop()?;
                let done = producer.reserve(NUMBERED, payload.len()).map(|mut record| {
                    record.copy_from_slice(&payload);
                    record.commit();
                });
                stop()?;
                said_of(done)
            }
            ("reserve", &[id, who, seq, len]) => match producer.reserve(NUMBERED, len as usize) {
                Ok(mut record) => {
                    record.copy_from_slice(&said(who, seq, len as usize));
                    open.insert(id, record);
                    "ok".to_owned()
                }
                Err(error) => answer(error),
            },
            ("commit" | "discard", &[id]) => {
                let record = open.remove(&id).ok_or("no such reservation")?;
                stop()?;
                if what == "commit" {
                    record.commit()
                } else {
                    record.discard()
                }
                stop()?;
                "ok".to_owned()
            }
            ("signals", &[who, seq]) => {
                HANDLER_NEXT.store(who << 32 | seq, Ordering::Relaxed);
                HANDLER_DONE.store(0, Ordering::Relaxed);
                "ok".to_owned()
            }
            ("signalled", []) => HANDLER_DONE.load(Ordering::Relaxed).to_string(),
            _ => return Err(format!("unknown: {line}").into()),
        };
        say(&answer)?;
    }
    Ok(())
}

/// Executes a line: `hold`, or the number of a CPU for [`fork_for`].
fn serve(producer: &CpuProducer, stream: UnixStream) -> Outcome {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    match lines.next().ok_or("a line")?? {
        line if line == "hold" => hold(producer, stream, || Ok(lines.next().ok_or("a line")??)),
        line => fork_for(producer, stream, &line),
    }
}

/// Reserves space, and holds it until the next line. Says how much in it somebody else has written.
fn hold(
    producer: &CpuProducer,
    mut stream: UnixStream,
    next: impl FnOnce() -> Result<String, Box<dyn std::error::Error>>,
) -> Outcome {
    let mut record = producer.reserve(NUMBERED, 64)?;
    record.fill(HELD);
    writeln!(stream, "held")?;
    next()?;
    let others = record.iter().filter(|byte| **byte != HELD).count();
    record.discard();
    Ok(writeln!(stream, "{others} bytes of another")?)
}

/// The byte that fills a held reservation.
const HELD: u8 = 0xaa;

/// Forks, and returns the child's result of a publish on the CPU that the line names.
fn fork_for(producer: &CpuProducer, mut stream: UnixStream, line: &str) -> Outcome {
    let mut only = CpuSet::new();
    only.set(line.trim().parse()?)?;
    // SAFETY: the child only uses what libc and std keep usable in one: it writes a line, and ends.
    if let ForkResult::Parent { child } = unsafe { fork() }? {
        return match waitpid(child, None)? {
            WaitStatus::Exited(_, 0) => Ok(()),
            other => Err(format!("the child: {other:?}").into()),
        };
    }
    let moved = sched_setaffinity(Pid::from_raw(0), &only);
    let published = said_of(producer.publish_as(NUMBERED, &[0xaa; 24]));
    let reserved = said_of(producer.reserve(NUMBERED, 40).map(drop));
    let written = writeln!(stream, "{published} {reserved}");
    // SAFETY: ends the child, and runs nothing of the parent's.
    unsafe { nix::libc::_exit(i32::from(moved.is_err() || written.is_err())) }
}

/// In the log of a storm: the byte of a record that was accepted.
const ACCEPTED: u8 = 1;
const REFUSED: u8 = 2;
/// Where the handler's half of the log begins.
const LOG_HALF: u64 = 1 << 14;
/// How many reservations it has open at a time.
const OPEN_MOST: usize = 3;

/// Makes so many calls, each for the next record, and notes in the log's byte of the record whether it
/// was accepted. Records of a signal handler have separate numbers. Another thread forks.
/// After every few calls it prints a line.
fn storm(who: u64, seed: u64, calls: u64, log: &str, dir: &str) -> Outcome {
    let cpus = cpus()?;
    let log = File::options().read(true).write(true).open(log)?;
    let log = LOG.get_or_init(|| log);
    HANDLER_NEXT.store((who + HANDLERS) << 32, Ordering::Relaxed);
    let attached = attach("storm", dir).and_then(|producer| {
        // To those too that this process may not run on now: no handler should attach to a ring.
        for ring in std::fs::read_dir(dir)? {
            let name = ring?.file_name();
            let cpu = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
            cpu.map_or(Ok(()), |cpu| producer.attach_to(cpu))?;
        }
        Ok(producer)
    });
    let producer = match attached {
        // The holder of the lock is stopped.
        Err(error) if error.to_string().contains("held up") => {
            return Ok(say(&format!("end {who}"))?);
        }
        attached => attached?,
    };
    let note = |seq: u64, noted: u8| log.write_all_at(&[noted], seq);
    let forker = std::thread::spawn(move || forks(producer, calls / 256));
    let mut rng = Rng::new(seed);
    let mut open: Vec<(u64, Reservation<'_, CpuProducer>)> = Vec::new();
    for seq in 0..calls.min(LOG_HALF) {
        if seq % 16 == 0 {
            say(&format!("on {who}"))?;
        }
        if rng.below(24) == 0 {
            let mut only = CpuSet::new();
            only.set(cpus[rng.index(cpus.len())])?;
            sched_setaffinity(Pid::from_raw(0), &only)?;
        }
        if rng.below(64) == 0 {
            raise(Signal::SIGUSR1)?;
        }
        let len =
            if rng.below(8) == 0 { 513 + rng.below(900) } else { 8 + rng.below(300) } as usize;
        let payload = said(who, seq, len);
        let reserve = |more: usize| {
            producer.reserve(NUMBERED, len + more).map(|mut record| {
                record[..len].copy_from_slice(&payload);
                record
            })
        };
        let limit = Duration::from_millis(2);
        let outcome = match rng.below(16) {
            0 => reserve(0).map(Reservation::commit),
            1 => reserve(rng.index(100)).map(|record| record.commit_len(len)),
            2 => producer.publish_timeout(NUMBERED, &payload, limit),
            3 => {
                if let Ok(record) = reserve(0) {
                    record.discard();
                }
                continue;
            }
            4 if open.len() < OPEN_MOST => {
                if let Ok(record) = reserve(0) {
                    open.push((seq, record));
                }
                continue;
            }
            5 | 6 if !open.is_empty() => {
                let (seq, record) = open.swap_remove(rng.index(open.len()));
                record.commit();
                note(seq, ACCEPTED)?;
                producer.publish_as(NUMBERED, &payload)
            }
            _ => producer.publish_as(NUMBERED, &payload),
        };
        match outcome {
            Ok(()) => note(seq, ACCEPTED)?,
            Err(
                ReserveError::Full
                | ReserveError::Pending { .. }
                | ReserveError::Contended { .. }
                | ReserveError::NoRing { .. },
            ) => note(seq, REFUSED)?,
            Err(error) => return Err(error.into()),
        }
    }
    // Left open.
    std::mem::forget(open);
    forker.join().map_err(|_| "the thread that forks")??;
    say(&format!("end {who}"))?;
    Ok(())
}

/// The handler of a process publishes by this much higher a number than the process.
const HANDLERS: u64 = 1 << 20;

/// For each fork.
const SIGNALS: u64 = 16;

/// Forks: no child can publish with its inherited producer.
fn forks(producer: &CpuProducer, times: u64) -> Result<(), String> {
    let text = |error: nix::Error| error.to_string();
    for _ in 0..times {
        // SAFETY: the child publishes, which is refused, and ends.
        match unsafe { fork() }.map_err(text)? {
            ForkResult::Child => {
                let refused = producer.publish_as(NUMBERED, &[0xaa; 24]);
                let code = i32::from(refused != Err(ReserveError::Forked));
                // SAFETY: as in `fork_for`.
                unsafe { nix::libc::_exit(code) }
            }
            ForkResult::Parent { child } => match waitpid(child, None) {
                Ok(WaitStatus::Exited(_, 0)) => {}
                other => return Err(format!("a child: {other:?}")),
            },
        }
        for _ in 0..SIGNALS {
            // To the process: whichever thread it interrupts.
            nix::sys::signal::kill(Pid::this(), Signal::SIGUSR1).map_err(text)?;
            std::thread::yield_now();
        }
    }
    Ok(())
}
