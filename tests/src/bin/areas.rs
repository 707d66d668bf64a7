//! A producer of a set of rings per CPU in a process whose libc registers no thread for restartable sequences: with
//! `GLIBC_TUNABLES=glibc.pthread.rseq=0`.
//!
//! `areas new threads WHO THREADS RECORDS DIR` publishes from threads that start and end, and at the end of each of them; a
//! forked child also publishes, under the number of the last thread plus one.
//! `areas new taken DIR` registers a thread like another library would, and prints the error that the thread gets.
//! `areas new length DIR` publishes a record, and prints how its thread is registered.
//! With `old` instead of `new`, the kernel takes only an area of the original length, like before Linux 6.3.

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use perfring_producer::CpuProducer;
use perfring_shm::CpuThread;
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::NUMBERED;
use perfring_tests::seccomp::{install, step};
use perfring_tests::shared::{answer, said};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

type Outcome = Result<(), Box<dyn std::error::Error>>;

static PRODUCER: OnceLock<CpuProducer> = OnceLock::new();
/// The number that a thread's signal handler publishes before the thread has published anything, and the number that the
/// thread publishes at its end, before and after its registration has ended.
const FIRST: u64 = 1 << 29;
const LAST: u64 = 1 << 30;
const AFTER: u64 = 1 << 31;
/// How often a thread was free of any registration at its end.
static FREE: AtomicU64 = AtomicU64::new(0);
static KEY: AtomicU32 = AtomicU32::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

fn main() -> Outcome {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args.first() == Some(&"old") {
        refuse_other_lengths()?;
    }
    match args[1..] {
        ["threads", who, threads, records, dir] => {
            come_and_go(who.parse()?, threads.parse()?, records.parse()?, Path::new(dir))
        }
        ["taken", dir] => taken(Path::new(dir)),
        ["length", dir] => length(Path::new(dir)),
        _ => Err(format!("unknown arguments: {args:?}").into()),
    }
}

/// Makes the kernel refuse areas that are not 32 bytes long.
fn refuse_other_lengths() -> Outcome {
    // The lower half of the second argument.
    let len = 24 + if cfg!(target_endian = "big") { 4 } else { 0 };
    install(vec![
        step(0x20, 0, 0, 0),
        step(0x15, 0, 3, u32::try_from(libc::SYS_rseq)?),
        step(0x20, 0, 0, len),
        step(0x15, 1, 0, 32),
        step(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]);
    Ok(())
}

/// `struct rseq` of another library.
#[repr(C, align(32))]
struct Area([u32; 8]);

thread_local! {
    static OTHER: Cell<Area> = const { Cell::new(Area([0, u32::MAX, 0, 0, 0, 0, 0, 0])) };
    static WHO: Cell<u64> = const { Cell::new(0) };
    static AT_THE_END: AtTheEnd = const { AtTheEnd };
}

const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };

/// Registers the present thread with another area, or ends that.
fn other_library(flags: c_int) -> Result<(), Errno> {
    let area = OTHER.with(Cell::as_ptr);
    // SAFETY: the area is the present thread's, as long as it lives, and only the kernel uses it.
    let done = unsafe { libc::syscall(libc::SYS_rseq, area, size_of::<Area>(), flags, SIGNATURE) };
    Errno::result(done).map(drop)
}

fn publish(seq: u64) {
    let bytes = said(WHO.get(), seq, 40);
    let done = PRODUCER.get().map(|set| set.publish_timeout(NUMBERED, &bytes, WATCHDOG));
    if done != Some(Ok(())) {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Publishes as the thread ends.
struct AtTheEnd;

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        publish(LAST);
    }
}

/// Publishes in a thread that has not done so.
extern "C" fn handler(_: c_int) {
    publish(FIRST);
}

/// The destructor of a key that is made after the producer's key: the producer's registration has ended before. If
/// it publishes nevertheless, libc calls both destructors again.
extern "C" fn end_of_thread(round: *mut c_void) {
    if other_library(0).is_ok() && other_library(1).is_ok() {
        FREE.fetch_add(1, Ordering::Relaxed);
    }
    if round.addr() == 1 {
        publish(AFTER);
        visit_end(2);
    }
}

/// Has [`end_of_thread`] called at the end of the present thread.
fn visit_end(round: usize) {
    let value = std::ptr::without_provenance(round);
    // SAFETY: the key was made; its value is only compared.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), value) };
}

fn cpus() -> nix::Result<Vec<usize>> {
    let may = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|cpu| may.is_set(*cpu).unwrap_or(false)).collect())
}

fn attach(dir: &Path) -> Result<CpuProducer, Box<dyn std::error::Error>> {
    let producer = CpuProducer::attach(dir)?;
    for cpu in cpus()? {
        producer.attach_to(cpu as u32)?;
    }
    Ok(producer)
}

fn work(who: u64, nth: u64, records: u64, cpus: &[usize]) -> nix::Result<()> {
    WHO.set(who);
    visit_end(1);
    AT_THE_END.with(|_| {});
    raise(Signal::SIGUSR1)?;
    for seq in 0..records {
        if seq % 61 == 0 {
            let mut only = CpuSet::new();
            only.set(cpus[(seq / 61 + nth) as usize % cpus.len()])?;
            sched_setaffinity(Pid::from_raw(0), &only)?;
        }
        publish(seq);
    }
    Ok(())
}

fn come_and_go(who: u64, threads: u64, records: u64, dir: &Path) -> Outcome {
    let nobody = other_library(0).and_then(|()| other_library(1));
    nobody.map_err(|error| format!("libc has registered this thread: {error}"))?;
    let producer = PRODUCER.get_or_init(|| attach(dir).expect("it attaches"));
    let action = SigAction::new(SigHandler::Handler(handler), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler publishes, which a handler may, and its payload's allocation interrupts `raise` alone.
    unsafe { sigaction(Signal::SIGUSR1, &action) }?;
    let mut key = 0;
    // SAFETY: stores a number, which is ours; the destructor is a function of this program.
    Errno::result(unsafe { libc::pthread_key_create(&raw mut key, Some(end_of_thread)) })?;
    KEY.store(key, Ordering::Relaxed);
    let cpus = cpus()?;
    // At most four at a time.
    for begin in (0..threads).step_by(4) {
        let work = |thread: u64| {
            let cpus = cpus.clone();
            move || work(who + thread, thread, records, &cpus)
        };
        let threads: Vec<_> =
            (begin..threads.min(begin + 4)).map(|nth| std::thread::spawn(work(nth))).collect();
        for thread in threads {
            // With its destructors.
            thread.join().map_err(|_| "a thread")??;
        }
    }
    // SAFETY: the child is of a process with one thread by now.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let forked = producer.publish_as(NUMBERED, &[1; 40]).map_err(answer);
            let own = attach(dir)
                .map(|own| own.publish_as(NUMBERED, &said(who + threads, 0, 40)))
                .is_ok_and(|done| done.is_ok());
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!own || forked != Err("Forked".to_owned()))) }
        }
        ForkResult::Parent { child } => {
            if waitpid(child, None)? != WaitStatus::Exited(child, 0) {
                return Err("the forked child".into());
            }
        }
    }
    let (refused, free) = (REFUSED.load(Ordering::Relaxed), FREE.load(Ordering::Relaxed));
    println!("{refused} refused, {free} free, {} without a ring", producer.lost_without_ring());
    Ok(())
}

fn taken(dir: &Path) -> Outcome {
    // A thread without a registration.
    let (own, dir) = (attach(dir)?, dir.to_owned());
    own.publish_as(NUMBERED, &said(1, 0, 40))?;
    let said = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let registered = other_library(0).map_err(|error| error.to_string());
            let attached = CpuProducer::attach(&dir).map(drop).map_err(|error| error.to_string());
            let published = own.publish(b"refused").map_err(answer);
            let why = own.attach_to(0).map_err(|error| error.to_string());
            (registered, attached, published, why)
        });
        other.join()
    });
    let (registered, attached, published, why) = said.map_err(|_| "the other thread")?;
    registered?;
    for refused in [attached, published, why] {
        println!("{}", refused.err().unwrap_or_default());
    }
    println!("{}", own.lost_without_ring());
    Ok(())
}

fn length(dir: &Path) -> Outcome {
    attach(dir)?.publish_as(NUMBERED, &said(1, 0, 40))?;
    let found = CpuThread::registration()?;
    println!("{} {} {}", found.by_libc, found.len, found.kernel_len);
    Ok(())
}
