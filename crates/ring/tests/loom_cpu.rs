//! Rings per CPU under loom: sequences of producers on one CPU, the slow path of others under the lock,
//! and a reader.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p perfring-ring --test ring loom_cpu::
//! ```
#![cfg(loom)]

use crate::cpu_loom::{World, spawn, whole};
use crate::loom_model::model;
use loom::thread;
use perfring_abi::Policy;
use perfring_ring::{CopyReader, Next, Sequence, Start, close};
use std::sync::atomic::Ordering::Relaxed;

/// What each of several did, and the ids of those that succeeded.
fn granted(done: &[(u64, bool)]) -> Vec<u64> {
    done.iter().filter(|(_, done)| *done).map(|(id, _)| *id).collect()
}

/// Two threads on one CPU: one of them finds no room before the limit, or the other has closed the
/// ring.
#[test]
fn two_on_one_cpu() {
    model("two on one CPU", 4, |hits| {
        let world = World::watched(128, Policy::Drop);
        let mut reader = world.reader();
        let (mut one, mut other) = (world.attach(0), world.attach(1));
        world.open(&mut one);
        let thread = spawn(&world, move |world| world.publish(&mut one, 1).is_ok());
        let done = world.publish(&mut other, 2).is_ok();
        let got = world.read(&mut reader);
        let done = granted(&[(1, thread.join().unwrap()), (2, done)]);
        hits.fetch_add(u64::from(got == Some(2) && done == [1, 2]), Relaxed);
        world.all_there(&mut reader, got, done);
    });
}

/// A reservation is committed from another CPU while the ring is opened and a sequence stores the
/// head.
#[test]
fn a_commit_from_elsewhere_beside_one_that_opens() {
    model("commit and open", 2, |hits| {
        let world = World::watched(128, Policy::Drop);
        let mut reader = world.reader();
        let (mut remote, mut writer) = (world.attach(0), world.attach(1));
        let reserved = world.reserve(&mut remote).unwrap();
        let thread = spawn(&world, move |world| world.commit(&mut remote, reserved, 1));
        let done = [2, 3].map(|id| (id, world.publish(&mut writer, id).is_ok()));
        let opened = world.is_open();
        let got = world.read(&mut reader);
        thread.join().unwrap();
        hits.fetch_add(u64::from(opened && done[0].1), Relaxed);
        world.all_there(&mut reader, got, [vec![1], granted(&done)].concat());
    });
}

/// One closes the ring and reserves while the other is in a sequence, or opens it again.
#[test]
fn a_reservation_beside_sequences() {
    model("reserve and sequence", 3, |hits| {
        let world = World::watched(128, Policy::Drop);
        let mut reader = world.reader();
        let (mut one, mut other) = (world.attach(0), world.attach(1));
        world.open(&mut one);
        let thread = spawn(&world, move |world| {
            let reserved = world.reserve(&mut one);
            reserved.map(|reserved| world.commit(&mut one, reserved, 1)).is_ok()
        });
        let by_sequence = world.sequence(2) == Sequence::Done;
        let done = by_sequence || world.publish(&mut other, 2).is_ok();
        let got = world.read(&mut reader);
        let done = granted(&[(1, thread.join().unwrap()), (2, done)]);
        hits.fetch_add(u64::from(by_sequence && done == [1, 2]), Relaxed);
        world.all_there(&mut reader, got, done);
    });
}

/// One publishes under the lock and then opens the ring, on any CPU: the sequence that finds it open
/// sees where it ends.
#[test]
fn a_sequence_sees_what_was_done_under_the_lock() {
    model("lock, open, sequence", 5, |hits| {
        // So large that no totals are due, whose fences order more.
        let world = World::watched(256, Policy::Drop);
        let mut reader = world.reader();
        let mut writer = world.attach(0);
        world.on_cpu(|ring| close(ring, 0));
        let thread = spawn(&world, move |world| {
            world.under_lock(&mut writer, 1).unwrap().unwrap();
            writer.open_for_sequences(world.at(), &world.liveness, 16).unwrap();
        });
        let done = world.sequence(2) == Sequence::Done;
        let got = world.read(&mut reader);
        thread.join().unwrap();
        hits.fetch_add(u64::from(done), Relaxed);
        world.all_there(&mut reader, got, granted(&[(1, true), (2, done)]));
    });
}

/// One publishes and closes the ring, and stops. Another one that finds it closed, on any CPU, goes on
/// behind that record.
#[test]
fn whoever_finds_the_ring_closed_sees_what_sequences_have_published() {
    model("sequence, close, lock", 3, |hits| {
        let world = World::watched(128, Policy::Drop);
        let mut reader = world.reader();
        let (mut one, mut other) = (world.attach(0), world.attach(1));
        world.open(&mut one);
        let thread = spawn(&world, |world| {
            let done = world.sequence(1) == Sequence::Done;
            world.on_cpu(|ring| close(ring, 0));
            done
        });
        let found = world.under_lock(&mut other, 2);
        let got = world.read(&mut reader);
        let done = found.is_some_and(|done| done.is_ok());
        hits.fetch_add(u64::from(done), Relaxed);
        world.all_there(&mut reader, got, granted(&[(1, thread.join().unwrap()), (2, done)]));
    });
}

/// One that takes the lock to publish finds the ring open, or closed, or opened since it was closed.
#[test]
fn nothing_is_published_under_the_lock_of_an_open_ring() {
    model("lock of an open ring", 4, |hits| {
        let world = World::watched(256, Policy::Drop);
        let mut reader = world.reader();
        let (mut one, mut other) = (world.attach(0), world.attach(1));
        world.open(&mut one);
        let thread = spawn(&world, move |world| world.publish(&mut one, 1).is_ok());
        let found = world.under_lock(&mut other, 2);
        let done = found.is_some_and(|done| done.is_ok());
        let next = world.sequence(3) == Sequence::Done;
        let got = world.read(&mut reader);
        let done = [(1, thread.join().unwrap()), (2, done), (3, next)];
        hits.fetch_add(u64::from(found.is_none() && next), Relaxed);
        world.all_there(&mut reader, got, granted(&done));
    });
}

/// A producer attaches while others publish and the consumer reads on.
#[test]
fn an_open_ring_can_be_attached_to() {
    model("attach to an open ring", 2, |hits| {
        let world = World::watched(128, Policy::Drop);
        let (mut reader, mut one) = (world.reader(), world.attach(0));
        world.open(&mut one);
        let thread = spawn(&world, |world| world.sequence(1));
        let consumer = spawn(&world, move |world| {
            let got = world.read(&mut reader);
            let _ = reader.release(world.heap.ring());
            (got, reader)
        });
        let _writer = world.attach(1);
        let by_sequence = thread.join().unwrap() == Sequence::Done;
        let (got, mut reader) = consumer.join().unwrap();
        hits.fetch_add(u64::from(got.is_some()), Relaxed);
        world.all_there(&mut reader, got, granted(&[(1, by_sequence)]));
    });
}

/// An overwrite ring of two records that sequences go around, and an observer that copies.
#[test]
fn an_observer_of_a_ring_per_cpu_never_sees_a_torn_record() {
    model("overwrite", 3, |laps| {
        let world = World::watched(64, Policy::Overwrite);
        let (mut one, mut other) = (world.attach(0), world.attach(1));
        for id in [1, 2] {
            world.publish(&mut one, id).unwrap();
        }
        let ring = world.heap.ring();
        let mut observer = CopyReader::new(ring, Policy::Overwrite, Start::Oldest).unwrap();
        let thread = spawn(&world, move |world| u64::from(world.publish(&mut other, 3).is_ok()));
        let (mut seen, mut lost) = (0, 0);
        let mut poll = |observer: &mut CopyReader| match observer.next(ring).unwrap() {
            Some(Next::Record((_, words))) => {
                whole(words);
                seen += 1;
            }
            Some(Next::Lost(reported)) => {
                lost += reported.records;
                laps.fetch_add(1, Relaxed);
            }
            None => thread::yield_now(),
        };
        poll(&mut observer);
        let written = thread.join().unwrap();
        for _ in 0..5 {
            poll(&mut observer);
        }
        assert_eq!(seen + lost, 2 + written);
    });
}
