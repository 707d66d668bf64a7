//! Waiting by descriptor, with an io_uring and with the thread: no wake is lost at any step of
//! either side, producers make no system call for a consumer that is not asleep, and no ring has its own
//! thread.

use nix::sys::ptrace;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use perfring_abi::FIELDS;
use perfring_consumer::{
    Consumer, ConsumerOptions, Item, WakeAt,
    poll::{PollBy, PollError, Pollable},
};
use perfring_producer::{Options, Policy, Producer, files::create};
use perfring_testkit::wait::{WATCHDOG, Watchdog};
use perfring_tests::{
    NUMBERED, actor, number_of, numbered, ring_dir, second, skip, within_a_second,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

const POLLER: &str = env!("CARGO_BIN_EXE_poller");
const ACTOR: &str = env!("CARGO_BIN_EXE_actor");

/// Returns both mechanisms, or the mechanism that this machine allows.
fn mechanisms() -> Vec<(&'static str, PollBy)> {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    create(&path, &Options::default()).unwrap();
    match Consumer::attach(&path).unwrap().pollable(PollBy::IoUring) {
        Ok(_) => vec![("io_uring", PollBy::IoUring), ("thread", PollBy::Thread)],
        Err(error) => {
            skip(&format!("descriptors by io_uring: {error}"));
            vec![("thread", PollBy::Thread)]
        }
    }
}

fn field(ring: &File, name: &str) -> u32 {
    let field = FIELDS.iter().find(|field| field.name == name).expect("a field of that name");
    let mut bytes = [0; 4];
    ring.read_exact_at(&mut bytes, field.offset as u64).expect("a header");
    u32::from_ne_bytes(bytes)
}

fn until_armed(ring: &File) {
    while field(ring, "wait_armed") == 0 {
        std::thread::yield_now();
    }
}

/// Returns whether it is readable within this time.
fn readable_within(fd: &impl AsFd, limit: Duration) -> bool {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            found => return found.unwrap() > 0,
        }
    }
}

/// Returns whether it is readable now.
fn is_readable(fd: &impl AsFd) -> bool {
    readable_within(fd, Duration::ZERO)
}

/// Returns whether it becomes readable.
fn becomes_readable(fd: &impl AsFd) -> bool {
    readable_within(fd, WATCHDOG)
}

fn start(args: &[&str], ring: &Path) -> (Child, impl FnMut() -> String + use<>) {
    let mut child = actor(POLLER, args, ring).stdout(Stdio::piped()).spawn().expect("a poller");
    let mut from = BufReader::new(child.stdout.take().expect("its words"));
    let line = move || {
        let mut line = String::new();
        from.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    };
    (child, line)
}

#[test]
fn a_process_in_poll_is_woken_for_every_record() {
    const ROUNDS: u64 = 1000;
    for (mechanism, by) in mechanisms() {
        let dir = ring_dir();
        let path = dir.path().join("ring");
        create(&path, &Options::default()).unwrap();
        let ring = File::open(&path).unwrap();
        let (mut child, mut line) = start(&["read", mechanism, &ROUNDS.to_string()], &path);
        assert_eq!(line(), format!("attached, by {by:?}"));
        let mut producer = Producer::attach(&path).unwrap();
        let (mut certain, mut last) = (0, i64::MIN);
        for number in 0..ROUNDS {
            let (began, wakes) = (second(), field(&ring, "wait_seq"));
            if number % 2 == 0 {
                until_armed(&ring);
            }
            producer.publish_as(NUMBERED, &numbered(number, 24)).unwrap();
            let woken = field(&ring, "wait_seq") - wakes;
            assert_eq!(line(), number.to_string());
            // From the record before this one on, it has not woken by itself.
            if number % 2 == 0 && second() == last {
                assert_eq!(woken, 1, "{mechanism}: for record {number}");
                certain += 1;
            }
            last = began;
        }
        let wakes = u64::from(field(&ring, "wait_seq"));
        println!("{mechanism}: {ROUNDS} records, {wakes} wakes, {certain} looked at, {}", line());
        assert!(child.wait().unwrap().success());
        assert!(certain > 0, "a second passed in each round");
        assert!(wakes <= ROUNDS, "one wake for each record at most");
    }
}

/// The poller is asleep or about to be, and the producer is at every instruction of its publish in
/// turn.
#[test]
fn no_wake_is_lost_at_any_step_of_a_publish() {
    for (mechanism, by) in mechanisms() {
        let dir = ring_dir();
        let mut dog = Watchdog::default();
        // Every second instruction: each mechanism tries the instructions that the other leaves out.
        let mut after = usize::from(by == PollBy::Thread);
        loop {
            let path = dir.path().join(format!("{after}"));
            let _ = std::fs::remove_file(&path);
            create(&path, &Options { size: 4096, ..Options::default() }).unwrap();
            let mut child = actor(ACTOR, &["kill", "publish"], &path)
                .env("LD_BIND_NOW", "1")
                .stdin(Stdio::null())
                .spawn()
                .unwrap();
            let pid = Pid::from_raw(child.id() as i32);
            assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(_, Signal::SIGSTOP))));
            let mut over = false;
            for _ in 0..after {
                ptrace::step(pid, None).unwrap();
                over = matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)));
                if over {
                    break;
                }
            }
            let mut consumer = Consumer::attach(&path).unwrap();
            let mut pollable = consumer.pollable(by).unwrap();
            let began = second();
            let armed = consumer.arm(&mut pollable, Duration::MAX).unwrap();
            while !over {
                ptrace::cont(pid, None).unwrap();
                over = matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)));
            }
            assert!(!armed || becomes_readable(&pollable), "{mechanism}: after {after} steps");
            consumer.disarm(&mut pollable).unwrap();
            let still = is_readable(&pollable);
            // At a full second it is readable without a wake.
            let woken = second() == began;
            assert!(!woken || !still, "{mechanism}: readable after it was disarmed");
            assert!(matches!(consumer.read().unwrap(), Some(Item::Record(_))));
            child.kill().unwrap();
            child.wait().unwrap();
            if !armed {
                break; // it was published before, as for every later step
            }
            if woken {
                (after, dog) = (after + 2, Watchdog::default());
            }
            dog.check(format!("{mechanism}: a wake of a publish, armed after {after} steps of it"));
        }
        println!("{mechanism}: {after} instructions up to the publish");
        assert!(after > 20);
    }
}

/// The other side: a record comes before, in or after each system call of arming.
#[test]
fn no_wake_is_lost_at_any_step_of_arming() {
    for (mechanism, _) in mechanisms() {
        let dir = ring_dir();
        let (mut stops, mut awake) = (0, 0);
        for after in 0.. {
            let path = dir.path().join(format!("{after}"));
            let mut producer =
                Producer::create(&path, &Options { size: 4096, ..Options::default() }).unwrap();
            let mut child =
                actor(POLLER, &["arm", mechanism], &path).stdout(Stdio::piped()).spawn().unwrap();
            let pid = Pid::from_raw(child.id() as i32);
            let stopped = || waitpid(pid, None).expect("a stop");
            // The exec stops it as well.
            while !matches!(stopped(), WaitStatus::Stopped(_, Signal::SIGSTOP)) {
                ptrace::cont(pid, None).unwrap();
            }
            ptrace::setoptions(pid, ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap();
            let mut over = false;
            for _ in 0..after {
                ptrace::syscall(pid, None).unwrap();
                over = matches!(stopped(), WaitStatus::Stopped(_, Signal::SIGSTOP));
                if over {
                    break;
                }
            }
            producer.publish_as(NUMBERED, &numbered(after, 24)).unwrap();
            ptrace::detach(pid, None).unwrap();
            if !over {
                // It stops itself once more, untraced.
                while !matches!(
                    waitpid(pid, Some(nix::sys::wait::WaitPidFlag::WUNTRACED)),
                    Ok(WaitStatus::Stopped(_, Signal::SIGSTOP))
                ) {}
            }
            nix::sys::signal::kill(pid, Signal::SIGCONT).unwrap();
            let mut reported = String::new();
            child.stdout.take().unwrap().read_to_string(&mut reported).unwrap();
            assert!(child.wait().unwrap().success(), "{mechanism}, stop {after}");
            assert!(
                reported.ends_with(&format!("then [{after}]\n")),
                "{mechanism}, stop {after}: {reported}"
            );
            awake += u64::from(reported.starts_with("armed false"));
            stops = after;
            if over {
                break;
            }
        }
        println!("{mechanism}: {stops} stops, {awake} times it saw the record before it slept");
        assert!(stops >= 4 && awake >= 1);
    }
}

#[test]
fn a_disarmed_descriptor_costs_the_producer_nothing() {
    for (mechanism, by) in mechanisms() {
        // At a full second it is readable without a wake.
        let seen = within_a_second(|| {
            let dir = ring_dir();
            let path = dir.path().join("ring");
            let mut producer = Producer::create(&path, &Options::default()).unwrap();
            let ring = File::open(&path).unwrap();
            let mut consumer = Consumer::attach(&path).unwrap();
            let mut pollable = consumer.pollable(by).unwrap();
            let wakes = || field(&ring, "wait_seq");
            producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap();
            assert!(consumer.read().unwrap().is_some());
            assert!(consumer.arm(&mut pollable, Duration::MAX).unwrap());
            consumer.disarm(&mut pollable).unwrap();
            producer.publish_as(NUMBERED, &numbered(1, 8)).unwrap();
            // Only a thread that raises the word makes a system call.
            let disarmed = wakes();
            assert!(consumer.read().unwrap().is_some());
            // Armed twice, and again while it is readable: still one wake, and it is reported.
            let early = [(); 3].map(|()| {
                assert!(consumer.arm(&mut pollable, Duration::MAX).unwrap());
                is_readable(&pollable)
            });
            for number in 2..100 {
                producer.publish_as(NUMBERED, &numbered(number, 8)).unwrap();
            }
            let armed = wakes();
            let level = [becomes_readable(&pollable), is_readable(&pollable)];
            assert!(!consumer.arm(&mut pollable, Duration::MAX).unwrap(), "there is a record");
            let after = is_readable(&pollable);
            for number in 2..100 {
                assert!(matches!(consumer.read().unwrap(),
                    Some(Item::Record(record)) if number_of(record.bytes) == number));
            }
            ((disarmed, early), (armed, level), after)
        });
        assert_eq!(seen, ((0, [false; 3]), (1, [true; 2]), false), "{mechanism}");
    }
}

#[test]
fn thresholds_limits_losses_and_an_end_of_the_arming_thread_make_it_readable() {
    for (mechanism, by) in mechanisms() {
        // At a full second it is readable without a wake.
        within_a_second(|| {
            let began = second();
            let early = |pollable: &Pollable| is_readable(pollable) && second() == began;
            let dir = ring_dir();
            let path = dir.path().join("ring");
            let options = Options { policy: Policy::Overwrite, size: 4096, ..Options::default() };
            let mut producer = Producer::create(&path, &options).unwrap();
            let options =
                ConsumerOptions { wake_at: WakeAt::Records(3), ..ConsumerOptions::default() };
            let mut consumer = Consumer::attach_with(&path, &options).unwrap();
            let mut pollable = consumer.pollable(by).unwrap();
            // The limit alone.
            assert!(consumer.arm(&mut pollable, Duration::from_millis(1)).unwrap());
            assert!(becomes_readable(&pollable), "{mechanism}: at its limit");
            // Three records, and not before.
            assert!(consumer.arm(&mut pollable, Duration::MAX).unwrap());
            producer.publish_as(NUMBERED, &numbered(0, 8)).unwrap();
            producer.publish_as(NUMBERED, &numbered(1, 8)).unwrap();
            assert!(!early(&pollable), "{mechanism}: two are not three");
            producer.publish_as(NUMBERED, &numbered(2, 8)).unwrap();
            assert!(becomes_readable(&pollable), "{mechanism}: three");
            while consumer.read().unwrap().is_some() {}
            // A ring that wrapped reports a loss.
            assert!(consumer.arm(&mut pollable, Duration::MAX).unwrap());
            for number in 3..1001 {
                producer.publish_as(NUMBERED, &numbered(number, 40)).unwrap();
            }
            assert!(becomes_readable(&pollable), "{mechanism}: wrapped");
            assert!(matches!(consumer.read().unwrap(), Some(Item::Lost(_))));
            while consumer.read().unwrap().is_some() {}
            // The thread that armed has ended before the record comes.
            drop((consumer, pollable));
            let consumer = Consumer::attach(&path).unwrap();
            let pollable = consumer.pollable(by).unwrap();
            let armed = |mut consumer: Consumer, mut pollable| {
                assert!(consumer.arm(&mut pollable, Duration::MAX).unwrap());
                (consumer, pollable)
            };
            let (mut consumer, mut pollable) =
                std::thread::spawn(move || armed(consumer, pollable)).join().unwrap();
            producer.publish_as(NUMBERED, &numbered(1001, 40)).unwrap();
            assert!(becomes_readable(&pollable), "{mechanism}: not lost with its thread");
            consumer.disarm(&mut pollable).unwrap();
            assert!(consumer.read().unwrap().is_some());
        });
    }
}

#[test]
fn hundreds_of_descriptors_have_no_thread_or_one_for_127() {
    const RINGS: u64 = 300;
    for (mechanism, by) in mechanisms() {
        let dir = ring_dir();
        let small = Options { size: 4096, types_size: 0, ..Options::default() };
        for number in 0..RINGS {
            create(dir.path().join(number.to_string()), &small).unwrap();
        }
        let (mut child, mut line) = start(&["many", mechanism, &RINGS.to_string()], dir.path());
        let threads = if by == PollBy::IoUring { 1 } else { 1 + RINGS.div_ceil(127) };
        assert_eq!(line(), format!("armed, {threads} threads"));
        for number in (0..RINGS).map(|n| n * 7 % RINGS) {
            let mut producer = Producer::attach(dir.path().join(number.to_string())).unwrap();
            producer.publish_as(NUMBERED, &numbered(number, 8)).unwrap();
        }
        assert_eq!(line(), "done, each when its own was published");
        assert!(child.wait().unwrap().success());
        println!("{mechanism}: {RINGS} rings, {threads} threads in all");
    }
}

#[test]
fn where_the_kernel_refuses_the_other_mechanism_is_used() {
    for what in ["io_uring", "both"] {
        let dir = ring_dir();
        let path = dir.path().join("ring");
        create(&path, &Options::default()).unwrap();
        let ring = File::open(&path).unwrap();
        let (mut child, mut line) = start(&["forbidden", what], &path);
        assert_eq!(line(), "attached, by Thread");
        let mut producer = Producer::attach(&path).unwrap();
        for number in 0..10 {
            until_armed(&ring);
            producer.publish_as(NUMBERED, &numbered(number, 24)).unwrap();
            assert_eq!(line(), number.to_string());
        }
        println!("{what} refused: {}", line());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_refused_wait_is_an_error_each_time_until_it_is_allowed() {
    if !mechanisms().iter().any(|(_, by)| *by == PollBy::IoUring) {
        return;
    }
    let dir = ring_dir();
    let path = dir.path().join("ring");
    create(&path, &Options::default()).unwrap();
    let (mut child, mut line) = start(&["refused"], &path);
    for _ in 0..3 {
        let reported = line();
        assert!(reported.contains("arming its descriptor: Operation not permitted"), "{reported}");
    }
    assert_eq!(line(), "true");
    Producer::attach(&path).unwrap().publish_as(NUMBERED, &numbered(7, 8)).unwrap();
    assert_eq!(line(), "[7]");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_thread_that_was_short_of_memory_waits_again() {
    let dir = ring_dir();
    for number in ["0", "1"] {
        create(dir.path().join(number), &Options::default()).unwrap();
    }
    let (mut child, mut line) = start(&["short"], dir.path());
    let publish = |ring| {
        let mut producer = Producer::attach(dir.path().join(ring)).unwrap();
        producer.publish_as(NUMBERED, &numbered(7, 8)).unwrap();
    };
    assert_eq!(line(), "armed");
    publish("1");
    assert_eq!(line(), "[7]");
    assert_eq!(line(), "waiting");
    publish("0");
    assert_eq!(line(), "[7]");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_fork_has_no_part_in_its_parents_descriptor() {
    for (mechanism, _) in mechanisms() {
        let dir = ring_dir();
        let path = dir.path().join("ring");
        create(&path, &Options::default()).unwrap();
        create(dir.path().join("ring-child"), &Options::default()).unwrap();
        let (mut child, mut line) = start(&["fork", mechanism], &path);
        let reported = line();
        assert!(
            reported.contains("Exited") && reported.contains(", 0)"),
            "{mechanism}: {reported}"
        );
        Producer::attach(&path).unwrap().publish_as(NUMBERED, &numbered(7, 8)).unwrap();
        assert_eq!(line(), "[7]");
        assert!(child.wait().unwrap().success());
    }
}

/// Kills a parent while its child lives. Returns a function that ends the child.
fn orphan(args: &[&str], ring: &Path) -> impl FnOnce() + use<> {
    let mut parent = actor(POLLER, args, ring)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a poller");
    let mut words = BufReader::new(parent.stdout.take().expect("its words"));
    let input = parent.stdin.take();
    let mut line = String::new();
    words.read_line(&mut line).unwrap();
    assert_eq!(line, "child\n");
    parent.kill().unwrap();
    parent.wait().unwrap();
    move || {
        drop(input);
        // It had the pipe to itself, and is dead.
        assert_eq!(words.read_line(&mut String::new()).unwrap(), 0);
    }
}

#[test]
fn a_child_that_lives_on_keeps_no_dead_consumer_alive() {
    for mechanism in mechanisms().into_iter().map(|(mechanism, _)| mechanism).chain(["sleeper"]) {
        let dir = ring_dir();
        let path = dir.path().join("ring");
        create(&path, &Options::default()).unwrap();
        let end = orphan(&["survived", mechanism], &path);
        let mut consumer =
            Consumer::attach(&path).unwrap_or_else(|busy| panic!("{mechanism}: {busy}"));
        Producer::attach(&path).unwrap().publish_as(NUMBERED, &numbered(7, 8)).unwrap();
        assert!(matches!(consumer.read().unwrap(), Some(Item::Record(_))), "{mechanism}");
        end();
    }
}

/// More than the initial capacity of the table for forks.
#[test]
fn a_child_keeps_none_of_many_dead_consumers_alive() {
    const RINGS: u64 = 1100;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let dir = ring_dir();
    let small = Options { size: 4096, types_size: 0, ..Options::default() };
    for number in 0..RINGS {
        create(dir.path().join(number.to_string()), &small).unwrap();
    }
    let end = orphan(&["crowd", &RINGS.to_string()], dir.path());
    let attach = |number: u64| Consumer::attach(dir.path().join(number.to_string()));
    let busy = (0..RINGS).filter(|number| attach(*number).is_err()).count();
    assert_eq!(busy, 0, "of {RINGS} that nobody reads");
    end();
}

#[test]
fn a_descriptor_of_another_ring_is_refused() {
    let dir = ring_dir();
    let paths = ["one", "other"].map(|name| dir.path().join(name));
    let [mut one, mut other] = paths.map(|path| {
        create(&path, &Options::default()).unwrap();
        Consumer::attach(&path).unwrap()
    });
    let mut pollable = one.pollable(PollBy::Any).unwrap();
    let refused = other.arm(&mut pollable, Duration::MAX).unwrap_err();
    assert!(matches!(refused, PollError::OtherRing { .. }), "{refused}");
    assert!(refused.to_string().contains("make one for each consumer"), "{refused}");
    one.arm(&mut pollable, Duration::MAX).unwrap();
}
