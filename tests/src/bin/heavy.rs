//! Producers and consumers of payloads of every length, including those in the AUX area.
//!
//! `heavy produce one|many WHO SEED COUNT RING`, `heavy consume STOP RING`,
//! `heavy wait one|many COUNT LEN RING`, `heavy fork one|many RING`: see their functions.

use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use perfring_consumer::{Consumer, Item};
use perfring_producer::{Producer, ReserveError, SharedProducer};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::NUMBERED;
use perfring_tests::large::{END, LARGE, heavy, len_of, weigh};
use std::io::Write;
use std::time::Duration;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    // It does not outlive a test that is killed.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["produce", "one", who, seed, count, ring] => {
            one(ring, who.parse()?, Rng::new(seed.parse()?), count.parse()?)
        }
        ["produce", "many", who, seed, count, ring] => {
            many(ring, who.parse()?, Rng::new(seed.parse()?), count.parse()?)
        }
        ["consume", stop, ring] => consume(stop.parse()?, ring),
        ["wait", kind, count, len, ring] => wait(kind, count.parse()?, len.parse()?, ring),
        ["fork", "one", ring] => fork_one(ring),
        ["fork", "many", ring] => fork_many(ring),
        _ => Err(format!("unknown arguments: {args:?}").into()),
    }
}

/// Retries a refused record under the same number, so that readers find no gap in the numbers.
fn goes_on(outcome: Result<u64, ReserveError>) -> Result<u64, ReserveError> {
    match outcome {
        Err(ReserveError::Full | ReserveError::Pending { .. } | ReserveError::Contended { .. }) => {
            std::thread::yield_now();
            Ok(0)
        }
        other => other,
    }
}

/// Publishes records by every method, large and small, and reports the end of its numbers.
fn one(ring: &str, who: u64, mut rng: Rng, count: u64) -> Outcome {
    let mut producer = Producer::attach(ring)?;
    let mut seq = 0;
    while seq < count {
        let payload = heavy(who, seq, len_of(&mut rng));
        let len = payload.len();
        let outcome = match rng.below(6) {
            0 | 1 => producer.publish_as(NUMBERED, &payload).map(|()| 1),
            2 => producer.publish_timeout(NUMBERED, &payload, WATCHDOG).map(|()| 1),
            3 => producer.reserve(NUMBERED, len + rng.below(500) as usize).map(|mut space| {
                space[..len].copy_from_slice(&payload);
                space.commit_len(len);
                1
            }),
            4 => producer.reserve(NUMBERED, len).map(|mut space| {
                space.fill(0xdd);
                space.discard();
                0
            }),
            _ => {
                let next = heavy(who, seq + 1, len_of(&mut rng));
                let mut batch = producer.batch();
                let both = batch.push_as(NUMBERED, &payload).and_then(|()| {
                    // A batch whose second record is refused has the first.
                    goes_on(batch.push_as(NUMBERED, &next).map(|()| 1)).map(|second| 1 + second)
                });
                drop(batch);
                both
            }
        };
        seq += goes_on(outcome)?;
    }
    Ok(writeln!(std::io::stdout(), "{seq}")?)
}

/// Publishes records into a shared ring by every method.
fn many(ring: &str, who: u64, mut rng: Rng, count: u64) -> Outcome {
    let producer = SharedProducer::attach(ring)?;
    let mut seq = 0;
    while seq < count {
        let payload = heavy(who, seq, len_of(&mut rng));
        let len = payload.len();
        let outcome = match rng.below(6) {
            0 | 1 => producer.publish_as(NUMBERED, &payload).map(|()| 1),
            2 => producer.publish_timeout(NUMBERED, &payload, WATCHDOG).map(|()| 1),
            3 => producer.reserve(NUMBERED, len + rng.below(500) as usize).map(|mut space| {
                space[..len].copy_from_slice(&payload);
                space.commit_len(len);
                1
            }),
            4 => producer.reserve(NUMBERED, len).map(|mut space| {
                space.fill(0xdd);
                space.discard();
                0
            }),
            // Two at a time, the younger first.
            _ => producer.reserve(NUMBERED, len).map(|mut elder| {
                let next = heavy(who, seq + 1, len_of(&mut rng));
                let younger = producer.reserve(NUMBERED, next.len()).map(|mut younger| {
                    younger.copy_from_slice(&next);
                    younger.commit();
                });
                elder.copy_from_slice(&payload);
                elder.commit();
                1 + u64::from(younger.is_ok())
            }),
        };
        seq += goes_on(outcome)?;
    }
    Ok(writeln!(std::io::stdout(), "{seq}")?)
}

/// Reads and prints a line for each item; releases now and then, and ends after the record of
/// [`END`]. Stops itself after so many records, with the last one read and not released.
fn consume(stop: u64, ring: &str) -> Outcome {
    let mut consumer = Consumer::attach(ring)?;
    let mut left = stop;
    let mut out = std::io::stdout().lock();
    for turn in 1u64.. {
        let (who, seq) = match consumer.read()? {
            None => {
                // The producer waits for the held records.
                consumer.release();
                consumer.wait(Duration::MAX);
                continue;
            }
            Some(Item::Record(record)) => weigh(record.bytes),
            Some(Item::Lost(lost)) => {
                writeln!(out, "lost {}", lost.records)?;
                continue;
            }
        };
        writeln!(out, "{who} {seq}")?;
        left -= 1;
        if left == 0 && who != END {
            raise(Signal::SIGSTOP)?;
        }
        if turn.is_multiple_of(5) {
            consumer.release();
        }
        if who == END {
            break;
        }
    }
    consumer.release();
    Ok(())
}

/// Publishes records of one length, waiting for space for each.
fn wait(kind: &str, count: u64, len: usize, ring: &str) -> Outcome {
    match kind {
        "one" => {
            let mut producer = Producer::attach(ring)?;
            for seq in 0..count {
                producer.publish_timeout(NUMBERED, &heavy(1, seq, len), WATCHDOG)?;
            }
        }
        _ => {
            let producer = SharedProducer::attach(ring)?;
            for seq in 0..count {
                producer.publish_timeout(NUMBERED, &heavy(1, seq, len), WATCHDOG)?;
            }
        }
    }
    Ok(())
}

/// Ends the child of a fork; its status says whether everything was refused.
fn judge(answers: [Option<ReserveError>; 3]) -> ! {
    let refused = answers.iter().all(|answer| *answer == Some(ReserveError::Forked));
    std::process::exit(i32::from(!refused))
}

fn check_exit(status: WaitStatus) -> Outcome {
    match status {
        WaitStatus::Exited(_, 0) => Ok(()),
        other => Err(format!("the child: {other:?}").into()),
    }
}

/// Forks while a large reservation is open: nothing that the child does with it affects the ring.
/// For both kinds of producer, whose reservations are of two types.
macro_rules! fork_with_one_open {
    ($producer:expr) => {{
        #[allow(unused_mut, reason = "a shared ring's is not changed by a publish")]
        let mut producer = $producer;
        let payload = heavy(1, 0, LARGE);
        let mut open = producer.reserve(NUMBERED, LARGE)?;
        open.copy_from_slice(&payload);
        // SAFETY: this process has one thread.
        match unsafe { fork() }? {
            ForkResult::Child => {
                open.fill(0xaa);
                open.commit();
                judge([
                    producer.publish_as(NUMBERED, &payload).err(),
                    producer.reserve(NUMBERED, LARGE).err(),
                    producer.reserve_timeout(NUMBERED, LARGE, WATCHDOG).err(),
                ])
            }
            ForkResult::Parent { child } => check_exit(waitpid(child, None)?)?,
        }
        open.commit();
        producer.publish_as(NUMBERED, &heavy(1, 1, LARGE))?;
        Ok(())
    }};
}

fn fork_one(ring: &str) -> Outcome {
    fork_with_one_open!(Producer::attach(ring)?)
}

fn fork_many(ring: &str) -> Outcome {
    fork_with_one_open!(SharedProducer::attach(ring)?)
}
