//! A producer of a shared ring, to be driven, stepped, stopped and killed.
//!
//! `sharer drive NAME RING` obeys each line on its stdin, and answers with a line.
//! `sharer step SCENARIO RING` stops itself, takes one step, stops itself again.
//! `sharer storm WHO SEED LOG RING` publishes by all methods at random until the log says to end.
//! `sharer fork KIND RING` forks while it has a ring of that kind.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use perfring_abi::record_size;
use perfring_consumer::{Consumer, ConsumerOptions};
use perfring_producer::{AttachError, Producer, Reservation, ReserveError, SharedProducer};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::NUMBERED;
use perfring_tests::shared::{answer, said};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["drive", name, ring] => drive(name, ring),
        ["step", scenario, ring] => step(scenario, ring),
        ["storm", who, seed, log, ring] => storm(who.parse()?, seed.parse()?, log, ring),
        ["fork", "shared", ring] => fork_shared(ring),
        ["fork", "exclusive", ring] => fork_exclusive(ring),
        _ => Err(format!("unknown arguments: {args:?}").into()),
    }
}

fn say(what: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush())
}

fn said_of<T>(outcome: Result<T, ReserveError>) -> String {
    outcome.map_or_else(answer, |_| "ok".to_owned())
}

/// `publish WHO SEQ LEN`, `wait MS WHO SEQ LEN`, `reserve ID WHO SEQ LEN`, `batch COUNT WHO SEQ
/// LEN`, `commit ID`, `short ID LEN`, `discard ID`, `detach`.
fn drive(name: &str, ring: &str) -> Outcome {
    let producer = match SharedProducer::attach_as(ring, name) {
        Ok(producer) => producer,
        Err(error) => return Ok(say(&format!("refused: {error}"))?),
    };
    say(&format!("attached {}", producer.slot()))?;
    let mut open: HashMap<u64, Reservation<'_, SharedProducer>> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let what = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>()?;
        let answer = match (what, &numbers[..]) {
            ("publish", &[who, seq, len]) => {
                said_of(producer.publish_as(NUMBERED, &said(who, seq, len as usize)))
            }
            ("wait", &[ms, who, seq, len]) => {
                let limit = Duration::from_millis(ms);
                said_of(producer.publish_timeout(NUMBERED, &said(who, seq, len as usize), limit))
            }
            ("reserve", &[id, who, seq, len]) => match producer.reserve(NUMBERED, len as usize) {
                Ok(mut record) => {
                    record.copy_from_slice(&said(who, seq, len as usize));
                    open.insert(id, record);
                    "ok".to_owned()
                }
                Err(error) => answer(error),
            },
            ("batch", &[count, who, seq, len]) => {
                match producer.reserve_batch((count * record_size(len as usize)) as usize) {
                    Ok(mut batch) => {
                        for seq in seq..seq + count {
                            batch.push_as(NUMBERED, &said(who, seq, len as usize))?;
                        }
                        "ok".to_owned()
                    }
                    Err(error) => answer(error),
                }
            }
            ("commit" | "short" | "discard", &[id, ..]) => {
                let record = open.remove(&id).ok_or("no such reservation")?;
                match what {
                    "commit" => record.commit(),
                    "short" => record.commit_len(numbers[1] as usize),
                    _ => record.discard(),
                }
                "ok".to_owned()
            }
            ("detach", []) => break,
            _ => return Err(format!("unknown: {line}").into()),
        };
        say(&answer)?;
    }
    drop(open);
    drop(producer);
    say("detached")?;
    Ok(())
}

/// The number in the payloads of the producer that steps.
const VICTIM: u64 = 9;

/// Takes one step between two stops, as the producer with number 9, whose records are numbered from 0.
fn step(scenario: &str, ring: &str) -> Outcome {
    nix::sys::ptrace::traceme()?;
    // Made before the first stop: only the steps in the ring count.
    let payloads: Vec<Vec<u8>> = (0..3).map(|seq| said(VICTIM, seq, 100)).collect();
    let large = said(VICTIM, 0, 1500);
    if scenario == "attach" {
        raise(Signal::SIGSTOP)?;
        let producer = SharedProducer::attach_as(ring, "victim")?;
        raise(Signal::SIGSTOP)?;
        drop(producer);
        return Ok(());
    }
    let producer = SharedProducer::attach_as(ring, "victim")?;
    // The ring is full, or held up: a loss that must be reported as soon as there is space.
    if matches!(scenario, "tell" | "detach") {
        assert_ne!(producer.publish_as(NUMBERED, &payloads[0]), Ok(()));
    }
    if scenario == "refused again" {
        // From the third in a row on, only changed words are stored.
        for _ in 0..3 {
            assert_ne!(producer.publish_as(NUMBERED, &payloads[0]), Ok(()));
        }
    }
    raise(Signal::SIGSTOP)?;
    match scenario {
        "publish" | "tell" | "refused again" => {
            let _ = std::hint::black_box(producer.publish_as(NUMBERED, &payloads[0]));
        }
        "large" => {
            let _ = std::hint::black_box(producer.publish_as(NUMBERED, &large));
        }
        // A range of the AUX area.
        "range" => {
            if let Ok(mut record) = producer.reserve(NUMBERED, 9000) {
                record[..100].copy_from_slice(&payloads[0]);
                record.commit_len(100);
            }
        }
        "range discard" => {
            if let Ok(mut record) = producer.reserve(NUMBERED, 9000) {
                record[..100].copy_from_slice(&payloads[0]);
                record.discard();
            }
        }
        "commit" => {
            if let Ok(mut record) = producer.reserve(NUMBERED, 100) {
                record.copy_from_slice(&payloads[0]);
                record.commit();
            }
        }
        "shorter" => {
            if let Ok(mut record) = producer.reserve(NUMBERED, 300) {
                record[..100].copy_from_slice(&payloads[0]);
                record.commit_len(100);
            }
        }
        "discard" => {
            if let Ok(mut record) = producer.reserve(NUMBERED, 100) {
                record.copy_from_slice(&payloads[0]);
                record.discard();
            }
        }
        "batch" => {
            // Space for one more than there are.
            if let Ok(mut batch) = producer.reserve_batch(4 * record_size(100) as usize) {
                for payload in &payloads {
                    let _ = std::hint::black_box(batch.push_as(NUMBERED, payload));
                }
                drop(batch);
            }
        }
        "detach" => {
            drop(producer);
            raise(Signal::SIGSTOP)?;
            return Ok(());
        }
        _ => return Err("unknown scenario".into()),
    }
    raise(Signal::SIGSTOP)?;
    Ok(())
}

/// Ends a forked child: it prints its result, and lives on until its parent's driver closes their
/// input, which it does not read.
fn end_of_child(outcome: Outcome) -> ! {
    let failed = outcome.is_err();
    let line = outcome.map_or_else(|error| format!("child failed: {error}"), |()| "child".into());
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
    let done = say(&line).is_ok() && poll(&mut fds, PollTimeout::NONE).is_ok();
    std::process::exit(i32::from(failed || !done));
}

/// Checks that all refusals say that this process was forked.
fn all_forked(answers: &[Option<ReserveError>]) -> Outcome {
    if answers.iter().all(|answer| *answer == Some(ReserveError::Forked)) {
        return Ok(());
    }
    Err(format!("{answers:?}").into())
}

/// Lowers the limit of descriptors to those in use, so that a forked child gets none to detach
/// itself with; or restores it.
fn tighten(tight: bool) -> Outcome {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let free = File::open("/dev/null")?.as_raw_fd() as u64;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, if tight { free } else { hard }, hard)?)
}

/// Holds two reservations, a batch and the consumer's seat, and forks; the child tries everything
/// with its inherited values, drops them, and attaches again. The parent then publishes and commits on
/// command.
fn fork_shared(ring: &str) -> Outcome {
    let producer = SharedProducer::attach_as(ring, "parent")?;
    let mut consumer = Consumer::attach_with(ring, &ConsumerOptions::named("parent"))?;
    say(&format!("attached {}", producer.slot()))?;
    let mut one = producer.reserve(NUMBERED, 100)?;
    one.copy_from_slice(&said(1, 0, 100));
    let mut two = producer.reserve(NUMBERED, 100)?;
    two.copy_from_slice(&said(1, 1, 100));
    let mut batch = producer.reserve_batch(record_size(100) as usize)?;
    batch.push_as(NUMBERED, &said(1, 2, 100))?;
    let tight = std::env::var_os("PERFRING_NO_FILES").is_some();
    if tight {
        tighten(true)?;
    }
    // SAFETY: this process has one thread.
    if let ForkResult::Child = unsafe { fork() }? {
        let mut tried = || -> Outcome {
            if tight {
                tighten(false)?;
            }
            let limit = WATCHDOG;
            all_forked(&[
                batch.push_as(NUMBERED, &[0xaa; 8]).err(),
                batch.push_in_place(NUMBERED, 8).err(),
                producer.publish(&said(1, 3, 100)).err(),
                producer.publish_as(NUMBERED, &said(1, 3, 100)).err(),
                producer.publish_as(NUMBERED, &said(1, 3, 1000)).err(),
                producer.reserve(NUMBERED, 100).err(),
                producer.reserve_timeout(NUMBERED, 100, limit).err(),
                producer.publish_timeout(NUMBERED, &said(1, 3, 100), limit).err(),
                producer.offer_timeout(NUMBERED, 100, limit).err(),
                producer.reserve_batch(100).err(),
                producer.offer_batch(100).err(),
                producer.reserve_batch(usize::MAX).err(),
            ])
        };
        let tried = tried();
        one.fill(0xaa);
        one.commit();
        two.fill(0xaa);
        two.discard();
        drop(batch);
        // It may find anything except the parent's ring.
        let _ = std::hint::black_box(consumer.read());
        consumer.release();
        consumer.sleep(Duration::from_millis(1));
        drop((consumer, producer));
        let anew = || -> Outcome {
            let producer = SharedProducer::attach_as(ring, "child")?;
            producer.publish_as(NUMBERED, &said(2, 0, 100))?;
            // It lives on, attached.
            std::mem::forget(producer);
            Ok(())
        };
        end_of_child(tried.and_then(|()| anew()));
    }
    if tight {
        tighten(false)?;
    }
    let (mut one, mut two, mut batch) = (Some(one), Some(two), Some(batch));
    let mut seq = 3;
    for line in std::io::stdin().lock().lines() {
        match line?.as_str() {
            "publish" => {
                producer.publish_as(NUMBERED, &said(1, seq, 100))?;
                seq += 1;
            }
            // The oldest last.
            "commit" => {
                drop(batch.take());
                two.take().into_iter().chain(one.take()).for_each(Reservation::commit);
            }
            other => return Err(other.into()),
        }
        say("ok")?;
    }
    Ok(())
}

/// Forks as the one producer of a ring: one child drops its inherited producer and ends, another child keeps
/// it and stays alive.
fn fork_exclusive(ring: &str) -> Outcome {
    let mut producer = Producer::attach_as(ring, "parent")?;
    say("attached")?;
    for keeps in [false, true] {
        // SAFETY: this process has one thread.
        match unsafe { fork() }? {
            ForkResult::Child => {
                let payload = said(1, 9, 100);
                let pushed = producer.batch().push_as(NUMBERED, &payload).err();
                let offered = producer.batch().offer(NUMBERED, &payload).err();
                let tried = all_forked(&[
                    pushed,
                    offered,
                    producer.publish(&payload).err(),
                    producer.publish_as(NUMBERED, &payload).err(),
                    producer.reserve(NUMBERED, 100).err(),
                    producer.reserve_timeout(NUMBERED, 100, WATCHDOG).err(),
                    producer.offer_timeout(NUMBERED, 100, WATCHDOG).err(),
                    producer.reserve(NUMBERED, usize::MAX).err(),
                ]);
                if keeps {
                    std::mem::forget(producer);
                } else {
                    drop(producer);
                }
                let refused = match Producer::attach(ring) {
                    Ok(_) => Err("the parent's seat was free".into()),
                    Err(AttachError::Busy { .. }) => Ok(()),
                    Err(other) => Err(other.into()),
                };
                let tried = tried.and(refused);
                if keeps {
                    end_of_child(tried);
                }
                std::process::exit(i32::from(tried.is_err()));
            }
            ForkResult::Parent { child } if !keeps => match waitpid(child, None)? {
                WaitStatus::Exited(_, 0) => {}
                other => return Err(format!("the first child: {other:?}").into()),
            },
            ForkResult::Parent { .. } => {}
        }
    }
    for (line, seq) in std::io::stdin().lock().lines().zip(0..) {
        line?;
        producer.publish_as(NUMBERED, &said(1, seq, 100))?;
        say("ok")?;
    }
    Ok(())
}

/// Publishes by every method, at random. After each accepted call, the first word of `log` has the
/// number of committed records; a second word other than 0 ends it.
fn storm(who: u64, seed: u64, log: &str, ring: &str) -> Outcome {
    // It does not outlive a test that is killed.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let log = File::options().read(true).write(true).open(log)?;
    let producer = SharedProducer::attach_as(ring, "storm")?;
    let mut rng = Rng::new(seed);
    let (mut seq, mut round) = (0, 0u64);
    let long = producer.layout().aux_size / 16;
    loop {
        let len = match rng.below(4) {
            // In the AUX area.
            0 if long > 0 && rng.below(2) == 0 => 65_521 + rng.below(long),
            0 => 513 + rng.below(1500),
            _ => 8 + rng.below(400),
        } as usize;
        let payload = said(who, seq, len);
        let outcome = match rng.below(8) {
            0..=2 => producer.publish_as(NUMBERED, &payload).map(|()| 1),
            3 => producer.publish_timeout(NUMBERED, &payload, Duration::from_millis(2)).map(|()| 1),
            4 => producer.reserve(NUMBERED, len + rng.below(100) as usize).map(|mut record| {
                record[..len].copy_from_slice(&payload);
                record.commit_len(len);
                1
            }),
            5 => producer.reserve(NUMBERED, len).map(|mut record| {
                record.copy_from_slice(&payload);
                record.discard();
                0
            }),
            6 => {
                let (count, len) = (2 + rng.below(16), 8 + rng.below(60) as usize);
                let room = (count + rng.below(2)) * record_size(len);
                producer.reserve_batch(room as usize).and_then(|mut batch| {
                    for seq in seq..seq + count {
                        batch.push_as(NUMBERED, &said(who, seq, len))?;
                    }
                    Ok(count)
                })
            }
            // Two at a time, the younger first; nothing is noted before both have ended.
            _ => producer.reserve(NUMBERED, len).map(|mut elder| {
                let other = said(who, seq + 1, 100);
                let younger = producer.reserve(NUMBERED, other.len()).map(|mut younger| {
                    younger.copy_from_slice(&other);
                    younger.commit();
                });
                elder.copy_from_slice(&payload);
                elder.commit();
                1 + u64::from(younger.is_ok())
            }),
        };
        match outcome {
            Ok(records) => {
                seq += records;
                log.write_all_at(&seq.to_ne_bytes(), 0)?;
            }
            Err(
                ReserveError::Full | ReserveError::Pending { .. } | ReserveError::Contended { .. },
            ) => std::thread::yield_now(),
            Err(error) => return Err(error.into()),
        }
        round += 1;
        if round.is_multiple_of(16) {
            let mut end = [0; 8];
            log.read_exact_at(&mut end, 8)?;
            if end != [0; 8] {
                return Ok(());
            }
        }
    }
}
