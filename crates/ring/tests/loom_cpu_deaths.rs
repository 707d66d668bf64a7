//! Rings per CPU under loom: a producer dies at each of its stores, on the way to an open ring, under
//! the lock and in a sequence, beside a live one; and its successor at each of its own.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p perfring-ring --test ring loom_cpu_deaths::
//! ```
//!
//! A killed process leaves its stores, see `loom_shared.rs`. In a sequence a thread that is aborted
//! leaves the same.
#![cfg(loom)]

use crate::cpu_loom::{World, spawn};
use crate::loom_model::model;
use perfring_abi::Policy;
use perfring_abi::atomic::death;
use perfring_ring::{RingTotals, SharedWriter, close, recover};
use std::sync::atomic::{AtomicU64 as Plain, Ordering::Relaxed};

/// What a producer does while it dies, or after another one's death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// A sequence, or the slow path, as it comes.
    Publish,
    Reserve,
    Discard,
    /// Under the lock, whoever has closed the ring.
    UnderLock,
    Recover,
}

impl World {
    fn act(&self, writer: &mut SharedWriter, act: Act, id: u64) -> bool {
        match act {
            Act::Publish => self.publish(writer, id).is_ok(),
            Act::Recover => recover(self.at(), id, &self.liveness).is_ok(),
            Act::UnderLock => {
                self.on_cpu(|ring| close(ring, writer.index()));
                self.under_lock(writer, id).is_some_and(|done| done.is_ok())
            }
            Act::Reserve => match self.reserve(writer) {
                Ok(reserved) => {
                    self.commit(writer, reserved, id);
                    true
                }
                Err(_) => false,
            },
            Act::Discard => match self.reserve(writer) {
                Ok(reserved) => {
                    let _ = writer.discard(self.at(), &self.liveness, reserved);
                    true
                }
                Err(_) => false,
            },
        }
    }

    /// The producers in slots 0 and 1 are dead or done. The next one on the CPU goes on, and opens the
    /// ring to sequences again. Returns how many records they have published.
    fn goes_on(&self, policy: Policy) -> u64 {
        self.liveness.dies(0);
        self.liveness.dies(1);
        let mut next = self.attach(2);
        let mut mine = 0;
        for _ in 0..2 {
            mine += u64::from(self.publish(&mut next, 99).is_ok());
        }
        let mut reader = (policy == Policy::Drop).then(|| self.reader());
        while let Some(reader) = &mut reader
            && self.read(reader).is_some()
        {
            let _ = reader.release(self.heap.ring());
        }
        assert!(self.publish(&mut next, 99).is_ok(), "there is room, and nobody in the way");
        assert!(self.is_open(), "and no use for the lock");
        let totals = RingTotals::of(self.at(), policy, |_| true).unwrap();
        let sums = totals.producer;
        assert_eq!((sums.pos, totals.stranded.records), (self.heap.ring().head(), 0));
        assert_eq!(sums.pos, sums.written.bytes + sums.discarded.bytes + sums.reclaimed.bytes);
        let gone = totals.consumer.read.plus(totals.overwritten);
        assert_eq!(gone.plus(totals.present), sums.written);
        let seats = perfring_ring::producer_seats(self.at());
        assert_eq!(
            seats.iter().map(|seat| seat.figures.reclaimed.records).sum::<u64>(),
            sums.reclaimed.records
        );
        assert_eq!(
            seats.iter().map(|seat| seat.figures.discarded.records).sum::<u64>(),
            sums.discarded.records
        );
        assert!(seats.iter().all(|seat| seat.figures.open.records == 0));
        sums.written.records - mine - 1
    }
}

/// A producer dies at each of its stores while another publishes beside it.
fn deaths(name: &str, policy: Policy, act: Act) {
    let died = std::sync::Arc::new(Plain::new(0));
    let (mut at, started) = (0, std::time::Instant::now());
    loop {
        let deaths = std::sync::Arc::clone(&died);
        died.store(0, Relaxed);
        model("", 1, move |_| {
            let world = World::new(if policy == Policy::Drop { 128 } else { 64 }, policy);
            let (mut victim, mut survivor) = (world.attach(0), world.attach(1));
            let full = if policy == Policy::Drop { 1 } else { 2 };
            let before =
                (7..7 + full).filter(|id| world.publish(&mut survivor, *id).is_ok()).count();
            let killed = spawn(&world, move |world| {
                let lived = death::after(at, || world.act(&mut victim, act, 1));
                world.liveness.dies(0);
                lived
            });
            let granted = u64::from(world.publish(&mut survivor, 2).is_ok());
            let lived = killed.join().unwrap();
            let mine = u64::from(act != Act::Discard);
            let written = world.goes_on(policy) - before as u64 - granted;
            match lived {
                Some(done) => assert_eq!(written, if done { mine } else { 0 }),
                None => {
                    deaths.fetch_add(1, Relaxed);
                    assert!(written <= mine);
                }
            }
        });
        if died.load(Relaxed) == 0 {
            break;
        }
        at += 1;
    }
    println!("{name}: dies at each of {at} stores, {:?}", started.elapsed());
    assert!(at > 10, "{name}: too few stores to be true");
}

#[test]
fn a_death_on_the_way_to_an_open_ring_costs_no_other_record() {
    deaths("publish, drop", Policy::Drop, Act::Publish);
}

#[test]
fn a_death_on_the_way_to_an_open_overwrite_ring_costs_no_other_record() {
    deaths("publish, overwrite", Policy::Overwrite, Act::Publish);
}

#[test]
fn a_death_with_a_reservation_in_a_ring_per_cpu_costs_no_other_record() {
    deaths("reserve, drop", Policy::Drop, Act::Reserve);
}

/// A producer stops at each of its stores. Others go on while it is there, as far as that is possible,
/// and then it is killed. Its successor dies at each of its stores as well.
fn heirs(policy: Policy, act: Act, successors: &[Act]) {
    let (mut pairs, mut most, started) = (0, 0, std::time::Instant::now());
    for successor in successors {
        for first in 0.. {
            let mut died = false;
            for second in 0.. {
                pairs += 1;
                let (acts, stores) = ([act, *successor], [first, second]);
                let both = one_after_another(policy, acts, stores);
                died = both.0;
                if !both.1 {
                    break;
                }
            }
            if !died {
                most = most.max(first);
                break;
            }
        }
    }
    println!(
        "{act:?}, {policy:?}: {pairs} pairs of deaths, {most} stores, {:?}",
        started.elapsed()
    );
    assert!(most > 10 && pairs > 300);
}

/// Returns whether each of the two died.
fn one_after_another(policy: Policy, acts: [Act; 2], stores: [u64; 2]) -> (bool, bool) {
    let died = std::sync::Arc::new(Plain::new(0));
    let out = std::sync::Arc::clone(&died);
    // One execution: nothing runs at the same time.
    model("", 0, move |_| {
        let world = World::new(if policy == Policy::Drop { 128 } else { 64 }, policy);
        let (mut victim, mut other) = (world.attach(0), world.attach(1));
        let mut before = 0;
        for id in [10, 11] {
            before += u64::from(world.publish(&mut other, id).is_ok());
        }
        let lived = death::after(stores[0], || world.act(&mut victim, acts[0], 1));
        // It is stopped for now.
        let meanwhile = u64::from(world.publish(&mut other, 2).is_ok());
        world.liveness.dies(0);
        let successor = death::after(stores[1], || world.act(&mut other, acts[1], 3));
        if successor.is_none() {
            world.liveness.dies(if acts[1] == Act::Recover { 3 } else { 1 });
        }
        let written = world.goes_on(policy) - before - meanwhile;
        let of = |act, lived| match lived {
            _ if matches!(act, Act::Discard | Act::Recover) => 0..=0,
            Some(done) => u64::from(done)..=u64::from(done),
            None => 0..=1,
        };
        let (one, other) = (of(acts[0], lived), of(acts[1], successor));
        assert!((one.start() + other.start()..=one.end() + other.end()).contains(&written));
        let died = u64::from(lived.is_none()) | u64::from(successor.is_none()) << 1;
        out.store(died, Relaxed);
    });
    let died = died.load(Relaxed);
    (died & 1 != 0, died & 2 != 0)
}

#[test]
fn whoever_stops_or_dies_publishing_the_next_goes_on() {
    heirs(Policy::Drop, Act::Publish, &[Act::Publish, Act::Recover]);
}

#[test]
fn whoever_stops_or_dies_overwriting_the_next_goes_on() {
    heirs(Policy::Overwrite, Act::Publish, &[Act::Publish]);
}

#[test]
fn whoever_stops_or_dies_under_the_lock_the_next_goes_on() {
    heirs(Policy::Drop, Act::UnderLock, &[Act::Reserve]);
}

#[test]
fn whoever_stops_or_dies_overwriting_under_the_lock_the_next_goes_on() {
    heirs(Policy::Overwrite, Act::UnderLock, &[Act::Publish]);
}

#[test]
fn whoever_stops_or_dies_with_a_reservation_the_next_goes_on() {
    heirs(Policy::Drop, Act::Reserve, &[Act::Publish]);
}

#[test]
fn whoever_stops_or_dies_at_a_discard_the_next_goes_on() {
    heirs(Policy::Drop, Act::Discard, &[Act::Recover]);
}
