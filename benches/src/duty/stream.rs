//! Streams: one end sends as fast as it can, the other one reads and verifies.

use super::patience::Patience;
use crate::audit::{Seen, first_number};
use crate::contestant::{Receiver, Sender};
use crate::drive::{self, Limit};
use crate::error::{BenchError, Result};
use crate::part::{Audience, Found, Part};
use crate::payload::{Check, Pool, fill, sized};
use crate::stage::{Stage, now_ns};
use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// Interval between two polls of a slow reader.
const SLOW: Duration = Duration::from_millis(1);

/// Sends records until the limit.
#[inline(never)]
pub fn send<const N: usize>(
    sender: &mut impl Sender,
    part: &Part,
    limit: Limit,
    stage: &Stage<'_>,
) -> Result<Found> {
    // The clock is read once per block: often enough, at no cost.
    let block = if N <= 1024 { 1024 } else { 64 };
    let pool = part.pool.then(Pool::<N>::new);
    let first = if part.setup.senders > 1 { first_number(part.index) } else { 0 };
    let start_ns = stage.ready()?;
    let start = Instant::now();
    let time = Duration::from_secs_f64(limit.seconds);
    let mut sent = 0u64;
    loop {
        let from = first + sent;
        match &pool {
            Some(pool) => sender.send_from(from..from + block, pool)?,
            None => sender.send::<N>(from..from + block, fill)?,
        }
        sent += block;
        if start.elapsed() >= time || sent >= limit.records {
            break;
        }
    }
    let end_ns = now_ns()?;
    stage.sent(part.index, sent);
    Ok(Found { records: sent, start_ns, end_ns, ..Found::default() })
}

/// Verifies the records: of one sender, or of many.
enum Verifier {
    One(Check),
    Many(Box<Seen>),
}

/// Reads and verifies until all senders have ended and nothing is left.
#[inline(never)]
pub fn receive<const N: usize>(
    receiver: &mut impl Receiver,
    part: &Part,
    polling: (Audience, bool),
    stage: &Stage<'_>,
) -> Result<Found> {
    let senders = part.setup.senders;
    let mut verifier = if senders > 1 {
        Verifier::Many(Box::default())
    } else if part.pool {
        Verifier::One(Check::of_pool::<N>())
    } else {
        Verifier::One(Check::default())
    };
    let start_ns = stage.ready()?;
    let end_ns = match &mut verifier {
        Verifier::One(check) => follow(receiver, polling, senders, stage, |receiver| {
            // A copy of its own stays in registers.
            let mut seen = *check;
            let count = receiver.drain::<N>(|bytes| seen.see(bytes))?;
            *check = seen;
            Ok(count)
        })?,
        Verifier::Many(seen) => follow(receiver, polling, senders, stage, |receiver| {
            receiver.drain::<N>(|bytes| seen.see(bytes))
        })?,
    };
    let sent: Vec<u64> = (0..senders).map(|index| stage.sent_by(index)).collect();
    let (records, lost, bad) = match verifier {
        Verifier::One(mut check) => {
            check.finish(sent.iter().sum());
            (check.good(), check.lost, check.bad)
        }
        Verifier::Many(seen) => seen.settle(&sent),
    };
    let (reported_lost, late) = (receiver.reported_lost(), receiver.late());
    Ok(Found { records, start_ns, end_ns, lost, reported_lost, bad, late, ..Found::default() })
}

/// Drains until the end. Returns the time of the end.
#[inline(always)]
fn follow<R: Receiver>(
    receiver: &mut R,
    (audience, yields): (Audience, bool),
    senders: usize,
    stage: &Stage<'_>,
    mut drain: impl FnMut(&mut R) -> Result<u64>,
) -> Result<u64> {
    if audience == Audience::None {
        drive::poll_until(|| stage.all_sent(senders));
    }
    let mut patience = Patience::default();
    loop {
        // Read before draining: what was sent before the signal is then seen.
        let last = stage.all_sent(senders);
        let count = drain(receiver)?;
        if audience == Audience::Slow && !last {
            pause(SLOW);
        } else if count > 0 {
            patience.regain();
        } else if last {
            return now_ns();
        } else {
            receiver.wait();
            if yields {
                patience.give_up();
            } else {
                patience.lose();
            }
        }
    }
}

/// Spins for so long.
fn pause(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
}

/// Offers records until one is refused, and then continues, to measure the cost of a refusal.
#[inline(never)]
pub fn offer<const N: usize>(
    sender: &mut impl Sender,
    part: &Part,
    limit: Limit,
    stage: &Stage<'_>,
) -> Result<Found> {
    const BLOCK: u64 = 256;
    let start_ns = stage.ready()?;
    let start = Instant::now();
    let time = Duration::from_secs_f64(limit.seconds);
    // Far more than it can hold: it does not refuse at all.
    let most = 64 * (part.setup.data_size / N as u64).max(1024);
    let mut sent = 0;
    while sender.offer::<N>(sent, fill)? {
        sent += 1;
        if sent == most {
            return Err(BenchError::Cannot("refuse: it took 64 times what it should hold"));
        }
    }
    let (mut refused, mut refused_ns) = (0, 0);
    while start.elapsed() < time && refused < limit.records {
        let (before, first) = (Instant::now(), sent);
        for _ in 0..BLOCK {
            sent += u64::from(sender.offer::<N>(sent, fill)?);
        }
        let ns = before.elapsed().as_nanos() as u64;
        // A block in which something found room after all is not counted.
        if sent == first {
            refused += BLOCK;
            refused_ns += ns;
        }
    }
    let end_ns = now_ns()?;
    stage.sent(part.index, sent);
    Ok(Found { records: sent, start_ns, end_ns, refused, refused_ns, ..Found::default() })
}

/// Copies payloads: bytes are moved within one process and nothing is published.
pub fn copy(part: &Part, limit: Limit, stage: &Stage<'_>) -> Result<Found> {
    let mut buffer = vec![0; usize::try_from(part.setup.data_size).unwrap_or(1 << 20)];
    let start_ns = stage.ready()?;
    let (records, ns) = sized!(part.setup.payload, N => Ok(drive::copy::<N>(&mut buffer, limit)))?;
    Ok(Found { records, start_ns, end_ns: start_ns + ns, ..Found::default() })
}
