//! The process that waits by descriptor.
//!
//! `poller read BY COUNT RING` reads that many numbered records, asleep in `poll(2)` between them.
//! `poller arm BY RING` stops itself, arms, stops itself again, then waits for the descriptor.
//! `poller many BY COUNT DIR` waits for the rings 0 to COUNT of a directory at once.
//! `poller forbidden WHAT RING` is `read any 10`, where the kernel refuses some system calls.
//! `poller refused RING` arms where the kernel refuses the first call of a wait, and then where it does not.
//! `poller short DIR` waits for the rings 0 and 1 where memory is too short to wait for both at once.
//! `poller fork BY RING` uses a descriptor in a forked child.
//! `poller survived HOW RING` forks a child that lives on with all that it inherited.
//! `poller crowd COUNT DIR` does the same with the rings 0 to COUNT of a directory.
//! `poller storm COUNT DIR` attaches to the rings 0 to COUNT while another thread forks children that live on.

use nix::libc;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use perfring_consumer::{
    Consumer, Item,
    poll::{PollBy, PollError, Pollable},
};
use perfring_producer::{Producer, SharedProducer};
use perfring_testkit::wait::{WATCHDOG, Watchdog};
use perfring_tests::number_of;
use perfring_tests::seccomp::{install, step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["read", how, count, ring] => read(by(how)?, count.parse()?, ring),
        ["arm", how, ring] => arm(by(how)?, ring),
        ["many", how, count, dir] => many(by(how)?, count.parse()?, Path::new(dir)),
        ["forbidden", what, ring] => {
            forbid(what)?;
            read(PollBy::Any, 10, ring)
        }
        ["refused", ring] => refused(ring),
        ["short", dir] => short(Path::new(dir)),
        ["fork", how, ring] => forked(by(how)?, ring),
        ["survived", how, ring] => survived(how, ring),
        ["crowd", count, dir] => crowd(count.parse()?, Path::new(dir)),
        ["storm", count, dir] => storm(count.parse()?, Path::new(dir)),
        _ => Err(format!("unknown arguments: {args:?}").into()),
    }
}

fn by(how: &str) -> Result<PollBy, String> {
    match how {
        "any" => Ok(PollBy::Any),
        "io_uring" => Ok(PollBy::IoUring),
        "thread" => Ok(PollBy::Thread),
        _ => Err(format!("by {how}?")),
    }
}

/// Waits until one is readable.
fn readable(pollables: &[&Pollable]) -> std::io::Result<Vec<usize>> {
    let mut fds: Vec<_> = pollables.iter().map(|p| PollFd::new(*p, PollFlags::IN)).collect();
    loop {
        match poll(&mut fds, Timespec::try_from(WATCHDOG).ok().as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(0) => return Err(std::io::Error::other("it is not woken")),
            Ok(_) => break,
        }
    }
    let readable = fds.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty());
    Ok(readable.map(|(at, _)| at).collect())
}

fn numbers(consumer: &mut Consumer) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
    let mut numbers = Vec::new();
    while let Some(item) = consumer.read()? {
        if let Item::Record(record) = item {
            numbers.push(number_of(record.bytes));
        }
    }
    Ok(numbers)
}

/// Waits for records by an armed descriptor. It may be readable without one, at a producer's attach or
/// when the clock's next second begins: then it is armed again.
fn awaited(
    consumer: &mut Consumer,
    pollable: &mut Pollable,
) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
    loop {
        readable(&[&*pollable])?;
        consumer.disarm(pollable)?;
        let found = numbers(consumer)?;
        if !found.is_empty() {
            return Ok(found);
        }
        if !consumer.arm(pollable, Duration::MAX)? {
            return numbers(consumer);
        }
    }
}

fn read(by: PollBy, count: usize, ring: &str) -> Outcome {
    let mut consumer = Consumer::attach(ring)?;
    let mut pollable = consumer.pollable(by)?;
    println!("attached, by {:?}", pollable.by());
    let (mut found, mut empty) = (0, 0);
    while found < count {
        let numbers = numbers(&mut consumer)?;
        empty += usize::from(numbers.is_empty());
        for number in numbers {
            println!("{number}");
            found += 1;
        }
        if found < count && consumer.arm(&mut pollable, Duration::MAX)? {
            readable(&[&pollable])?;
            consumer.disarm(&mut pollable)?;
        }
    }
    println!("done, {empty} spurious wakes");
    Ok(())
}

fn arm(by: PollBy, ring: &str) -> Outcome {
    nix::sys::ptrace::traceme()?;
    let mut consumer = Consumer::attach(ring)?;
    let mut pollable = consumer.pollable(by)?;
    // Lazy binding and the start of the thread happen before this.
    if consumer.arm(&mut pollable, Duration::from_millis(1))? {
        readable(&[&pollable])?;
    }
    consumer.disarm(&mut pollable)?;
    raise(Signal::SIGSTOP)?;
    let armed = consumer.arm(&mut pollable, Duration::MAX)?;
    raise(Signal::SIGSTOP)?;
    let found =
        if armed { awaited(&mut consumer, &mut pollable)? } else { numbers(&mut consumer)? };
    println!("armed {armed}, then {found:?}");
    Ok(())
}

/// Returns the number of this process's threads.
fn threads() -> std::io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

fn many(by: PollBy, count: u64, dir: &Path) -> Outcome {
    let mut rings = Vec::new();
    for number in 0..count {
        let mut consumer = Consumer::attach(dir.join(number.to_string()))?;
        let mut pollable = consumer.pollable(by)?;
        assert!(consumer.arm(&mut pollable, Duration::MAX)?, "there is nothing to read");
        rings.push((consumer, pollable));
    }
    println!("armed, {} threads", threads()?);
    // One record in each, in any order.
    let mut left = count;
    while left > 0 {
        let pollables: Vec<_> = rings.iter().map(|(_, pollable)| pollable).collect();
        for at in readable(&pollables)? {
            let (consumer, pollable) = &mut rings[at];
            consumer.disarm(pollable)?;
            let mut found = numbers(consumer)?;
            // Readable without a record: the producer's attach, or the clock's next second.
            if found.is_empty() && !consumer.arm(pollable, Duration::MAX)? {
                found = numbers(consumer)?;
            }
            if !found.is_empty() {
                assert_eq!(found, [at as u64], "not the record of this ring");
                left -= 1;
            }
        }
    }
    drop(rings);
    println!("done, each when its own was published");
    Ok(())
}

/// Makes the kernel refuse, for this thread, io_uring's first call; or that and the wait for
/// several futexes; or the submission to an io_uring.
fn forbid(what: &str) -> Outcome {
    let calls = match what {
        "io_uring" => vec![libc::SYS_io_uring_setup],
        "both" => vec![libc::SYS_io_uring_setup, libc::SYS_futex_waitv],
        "enter" => vec![libc::SYS_io_uring_enter],
        _ => return Err(format!("forbid {what}?").into()),
    };
    // The number; then for each call a comparison and a refusal.
    let mut filter = vec![step(0x20, 0, 0, 0)];
    for call in calls {
        filter.push(step(0x15, 0, 1, u32::try_from(call)?));
        filter.push(step(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    }
    filter.push(step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW));
    install(filter);
    Ok(())
}

/// Checks that the thread waits again once it can, and does not poll for ever.
fn short(dir: &Path) -> Outcome {
    // The thread's own futex, and the futexes of two rings.
    let low_half = 24 + if cfg!(target_endian = "big") { 4 } else { 0 };
    install(vec![
        step(0x20, 0, 0, 0),
        step(0x15, 0, 3, u32::try_from(libc::SYS_futex_waitv)?),
        step(0x20, 0, 0, low_half),
        step(0x15, 0, 1, 3),
        step(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOMEM as u32),
        step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]);
    let attach = |number| -> Result<_, Box<dyn std::error::Error>> {
        let mut consumer = Consumer::attach(dir.join(number))?;
        let mut pollable = consumer.pollable(PollBy::Thread)?;
        assert!(consumer.arm(&mut pollable, Duration::MAX)?);
        Ok((consumer, pollable))
    };
    let mut rings = [attach("0")?, attach("1")?];
    println!("armed");
    for (at, (consumer, pollable)) in rings.iter_mut().enumerate().rev() {
        if at == 0 {
            until_waiting()?;
            println!("waiting");
        }
        println!("{:?}", awaited(consumer, pollable)?);
    }
    Ok(())
}

/// Waits until the thread is in the system call that waits for several futexes.
fn until_waiting() -> Outcome {
    let waits = format!("{} ", libc::SYS_futex_waitv);
    let dog = Watchdog::default();
    loop {
        for task in std::fs::read_dir("/proc/self/task")? {
            let task = task?.path();
            if std::fs::read_to_string(task.join("comm"))?.trim() == "perfring-poll"
                && std::fs::read_to_string(task.join("syscall"))?.starts_with(&waits)
            {
                return Ok(());
            }
        }
        dog.pause("the thread waits, and does not poll");
    }
}

/// A thread that is refused gets the error each time, and another one, which is not, waits.
fn refused(ring: &str) -> Outcome {
    let mut consumer = Consumer::attach(ring)?;
    let mut pollable = consumer.pollable(PollBy::IoUring)?;
    let reported = std::thread::scope(|scope| {
        let (consumer, pollable) = (&mut consumer, &mut pollable);
        let thread = scope.spawn(move || {
            forbid("enter").map_err(|error| error.to_string())?;
            let arm = |_| consumer.arm(pollable, Duration::MAX).map_err(|error| error.to_string());
            Ok::<_, String>((0..3).map(arm).collect::<Vec<_>>())
        });
        thread.join()
    });
    for reported in reported.map_err(|_| "it panicked")?? {
        println!("{reported:?}");
    }
    println!("{:?}", consumer.arm(&mut pollable, Duration::MAX)?);
    println!("{:?}", awaited(&mut consumer, &mut pollable)?);
    Ok(())
}

/// Checks that a child that uses its inherited descriptors is refused, and takes no wake from its parent.
fn forked(by: PollBy, ring: &str) -> Outcome {
    let mut consumer = Consumer::attach(ring)?;
    let mut pollable = consumer.pollable(by)?;
    assert!(consumer.arm(&mut pollable, Duration::MAX)?);
    // SAFETY: the child takes no lock of another thread, as there is none that matters: the thread
    // of the descriptors holds only its own.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let armed = consumer.arm(&mut pollable, Duration::ZERO);
            let disarmed = consumer.disarm(&mut pollable);
            let refused = matches!(armed, Err(PollError::Forked { .. }))
                && matches!(disarmed, Err(PollError::Forked { .. }));
            drop((consumer, pollable));
            // The child's own descriptor works.
            let own = format!("{ring}-child");
            let mut own = Consumer::attach(own.as_str())?;
            let mut pollable = own.pollable(by)?;
            let works =
                own.arm(&mut pollable, Duration::from_millis(1))? && readable(&[&pollable])? == [0];
            drop((own, pollable));
            std::process::exit(if refused && works { 0 } else { 1 });
        }
        ForkResult::Parent { child } => println!("child {:?}", waitpid(child, None)?),
    }
    println!("{:?}", awaited(&mut consumer, &mut pollable)?);
    Ok(())
}

/// Forks. The child prints a line, and lives until its input ends, with all that it has of its
/// parent's; the parent lives until it is killed.
fn fork_and_stay() -> Outcome {
    // SAFETY: the child takes no lock of another thread: it prints, as the parent has not, and
    // reads.
    if let ForkResult::Child = unsafe { fork() }? {
        println!("child");
        std::io::stdin().read_line(&mut String::new())?;
        std::process::exit(0);
    }
    loop {
        nix::unistd::pause();
    }
}

/// Forks with a consumer, and a handle that waits for it.
fn survived(how: &str, ring: &str) -> Outcome {
    let mut consumer = Consumer::attach(ring)?;
    if how == "sleeper" {
        let _sleeper = consumer.advanced().sleeper()?;
        return fork_and_stay();
    }
    let mut pollable = consumer.pollable(by(how)?)?;
    assert!(consumer.arm(&mut pollable, Duration::MAX)?);
    fork_and_stay()
}

fn crowd(count: u64, dir: &Path) -> Outcome {
    let attach = |number: u64| Consumer::attach(dir.join(number.to_string()));
    let _consumers = (0..count).map(attach).collect::<Result<Vec<_>, _>>()?;
    fork_and_stay()
}

/// Attaches to one ring after the other, even rings with one producer and odd rings with many,
/// while another thread forks. The children live until their input ends; the parent until it is killed.
fn storm(count: u64, dir: &Path) -> Outcome {
    let (forks, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..500 {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                // SAFETY: the child makes system calls and nothing else.
                if let Ok(ForkResult::Child) = unsafe { fork() } {
                    let mut byte = 0u8;
                    // SAFETY: one byte of its own. It ends with its input.
                    while unsafe { libc::read(0, (&raw mut byte).cast(), 1) } > 0 {}
                    // SAFETY: as `exit`, without the parent's handlers.
                    unsafe { libc::_exit(0) };
                }
                forks.store(true, Ordering::Relaxed);
            }
        });
        // On a busy machine all would be attached before the other thread runs.
        while !forks.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let (mut one, mut many, mut read) = (vec![], vec![], vec![]);
        for number in 0..count {
            let ring = dir.join(number.to_string());
            match number % 2 {
                0 => one.push(Producer::attach(&ring)),
                _ => many.push(SharedProducer::attach(&ring)),
            }
            read.push(Consumer::attach(&ring));
            // Opens and locks the ring, and is done with it at once.
            let _ = perfring_consumer::files::recover(&ring);
        }
        done.store(true, Ordering::Relaxed);
        let attached = one.iter().filter(|done| done.is_ok()).count()
            + many.iter().filter(|done| done.is_ok()).count()
            + read.iter().filter(|done| done.is_ok()).count();
        println!("{attached}");
        loop {
            nix::unistd::pause();
        }
    })
}
