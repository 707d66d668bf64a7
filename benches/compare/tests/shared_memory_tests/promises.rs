//! The promises of the contestants.

use crate::ends::{RECORDS, Turns, place, read_all, send_all, setup, spawn_child};
use perfring_bench::BenchError;
use perfring_bench::contestant::{Contestant, Receiver, Sender, Setup};
use perfring_bench::cores::{Pinned, two_cores};
use perfring_bench::payload::{Check, fill, sized, verify};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) fn streams<C: Contestant>(name: &str) {
    for payload in [8, 64, 4096, 65_472] {
        if payload > C::can().payload {
            continue;
        }
        let count = if payload > 4096 { RECORDS / 20 } else { RECORDS };
        let setup = setup(payload);
        let (_dir, path) = place();
        let held = C::create(&path, &setup).expect("created");
        let mut child = spawn_child(name, &path, &setup, count);
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        let mut check = sized!(payload, N => Ok::<_, BenchError>(
            read_all::<_, N>(&mut receiver, count)
        ))
        .expect("a payload");
        check.finish(count);
        assert_eq!((check.lost, check.bad), (0, 0), "{payload} bytes");
        std::fs::write(path.with_extension("done"), b"").expect("done");
        assert!(child.wait().expect("its status").success());
        drop(receiver);
        drop(held);
    }
}

/// Sends 64-byte records until it is refused, reads them, and can send again. Does so several
/// times, so that it happens at different positions of the ring.
pub(crate) fn refuses<C: Contestant>() {
    let setup = setup(64);
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let turns = Turns::default();
    let room = (1 << 20) / 64;
    thread::scope(|scope| {
        scope.spawn(|| {
            let _watch = turns.watch();
            let mut sender = C::sender(&path, &setup, 0).expect("a sender");
            let mut sent = 0;
            for round in 0..5 {
                let first = sent;
                // A sender that was refused may have to wait until a third one has seen the room.
                while !sender.offer::<64>(sent, fill).expect("an answer") {
                    assert!(round > 0 && !turns.broken.load(Ordering::Acquire), "refused first");
                    thread::yield_now();
                }
                sent += 1;
                while sender.offer::<64>(sent, fill).expect("an answer") {
                    sent += 1;
                    assert!(sent - first < 64 * room, "never full");
                }
                // As many as fit, whatever the headers use: those of a socket are the longest.
                assert!(sent - first >= room / 64, "full after {}", sent - first);
                assert!(!sender.offer::<64>(sent, fill).expect("an answer"), "still full");
                turns.meet(2 * round + 1);
                turns.meet(2 * round + 2);
            }
            turns.meet(11);
        });
        let _watch = turns.watch();
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        let (mut check, mut seen) = (Check::default(), 0);
        for round in 0..5 {
            turns.meet(2 * round + 1);
            loop {
                let found = receiver.drain::<64>(|bytes| check.see(bytes)).expect("drained");
                seen += found;
                if found == 0 {
                    break;
                }
            }
            turns.meet(2 * round + 2);
        }
        check.finish(seen);
        assert_eq!((check.lost, check.bad), (0, 0));
        turns.meet(11);
        drop(receiver);
    });
    drop(held);
}

/// Sends five rings' worth without a reader: what is left is intact, in order and the newest.
pub(crate) fn overwrites<C: Contestant>() {
    let setup = Setup { overwrite: true, ..setup(64) };
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let follows = C::can().follow.is_ok();
    let count = 5 * (1 << 20) / 64;
    let turns = Turns::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _watch = turns.watch();
            // Rings of one per processor keep only the order of a sender that stays on one.
            let cores = two_cores().expect("the cores");
            let _pinned = cores.map(|[core, _]| Pinned::to(core).expect("pinned"));
            let mut sender = C::sender(&path, &setup, 0).expect("a sender");
            turns.meet(1);
            sender.send::<64>(0..count, fill).expect("sent");
            match follows {
                true => assert!(sender.offer::<64>(count, fill).expect("an answer"), "never full"),
                // A flight recorder need not offer.
                false => sender.send::<64>(count..count + 1, fill).expect("sent"),
            }
            turns.meet(2);
            turns.meet(3);
        });
        let _watch = turns.watch();
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        // Some contestants learn of receivers only once these have polled.
        if follows {
            assert_eq!(receiver.drain::<64>(|_| {}).expect("drained"), 0);
        }
        turns.meet(1);
        turns.meet(2);
        let (mut check, mut seen, mut last) = (Check::default(), 0, 0);
        loop {
            let found = receiver
                .drain::<64>(|bytes| {
                    last = number_of(bytes);
                    check.see(bytes);
                })
                .expect("drained");
            seen += found;
            if found == 0 {
                break;
            }
        }
        assert_eq!(last, count, "the newest is there");
        check.finish(count + 1);
        assert_eq!(check.bad, 0);
        assert_eq!(check.lost + seen, count + 1);
        assert!(check.lost >= count / 2, "only {} lost", check.lost);
        if let Some(reported) = receiver.reported_lost() {
            assert_eq!(reported, check.lost, "what it reports");
        }
        turns.meet(3);
        drop(receiver);
    });
    drop(held);
}

pub(crate) fn number_of(bytes: &[u8; 64]) -> u64 {
    bytes.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first))
}

/// A receiver that reads while it is overtaken sees only intact records, in order.
pub(crate) fn overtaken<C: Contestant>() {
    let setup = Setup { overwrite: true, data_size: 1 << 16, ..setup(256) };
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let turns = Turns::default();
    let done = AtomicBool::new(false);
    let count = 1_000_000;
    thread::scope(|scope| {
        scope.spawn(|| {
            let _watch = turns.watch();
            let mut sender = C::sender(&path, &setup, 0).expect("a sender");
            sender.send::<256>(0..count, fill).expect("sent");
            done.store(true, Ordering::Release);
            turns.meet(1);
        });
        let _watch = turns.watch();
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        let mut check = Check::default();
        loop {
            let last = done.load(Ordering::Acquire) || turns.broken.load(Ordering::Acquire);
            let found = receiver.drain::<256>(|bytes| check.see(bytes)).expect("drained");
            if found == 0 && last {
                break;
            }
        }
        check.finish(count);
        assert_eq!(check.bad, 0);
        assert_eq!(check.good() + check.lost, count);
        turns.meet(1);
        drop(receiver);
    });
    drop(held);
}

/// Three senders, each in its own order, nothing lost where that is promised.
pub(crate) fn many_send<C: Contestant>() {
    const EACH: u64 = 50_000;
    let lossless = C::can().lossless.is_ok();
    let setup = Setup { senders: 3, overwrite: !lossless, ..setup(64) };
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let sent = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for index in 0..3 {
            let (path, setup, sent, done) = (&path, &setup, &sent, &done);
            scope.spawn(move || {
                let mut sender = C::sender(path, setup, index).expect("a sender");
                let base = (index as u64) << 32;
                for start in (0..EACH).step_by(50) {
                    sender.send::<64>(base + start..base + start + 50, fill).expect("sent");
                }
                sent.fetch_add(1, Ordering::AcqRel);
                while !done.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            });
        }
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        let (mut next, mut seen, mut bad) = ([0; 3], 0, 0);
        loop {
            let last = sent.load(Ordering::Acquire) == 3;
            let found = receiver
                .drain::<64>(|bytes| {
                    let number = number_of(bytes);
                    let (from, number) = ((number >> 32) as usize, number & 0xffff_ffff);
                    if from > 2
                        || !verify(bytes, ((from as u64) << 32) + number)
                        || number < next[from]
                    {
                        bad += 1;
                    } else {
                        next[from] = number + 1;
                        seen += 1;
                    }
                })
                .expect("drained");
            if found == 0 {
                receiver.wait();
                if last && (!lossless || seen + bad >= 3 * EACH) {
                    break;
                }
            }
        }
        assert_eq!(bad, 0);
        if lossless {
            assert_eq!(seen, 3 * EACH);
        } else {
            assert!(seen > 0);
        }
        done.store(true, Ordering::Release);
        drop(receiver);
    });
    drop(held);
}

/// Three receivers, each of which gets everything.
pub(crate) fn many_receive<C: Contestant>() {
    let setup = Setup { receivers: 3, ..setup(64) };
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let finished = AtomicU64::new(0);
    thread::scope(|scope| {
        for index in 0..3 {
            let (path, setup, finished) = (&path, &setup, &finished);
            scope.spawn(move || {
                let mut receiver = C::receiver(path, setup, index).expect("a receiver");
                let mut check = read_all::<_, 64>(&mut receiver, RECORDS);
                check.finish(RECORDS);
                assert_eq!((check.lost, check.bad), (0, 0));
                if finished.fetch_add(1, Ordering::AcqRel) == 2 {
                    std::fs::write(path.with_extension("done"), b"").expect("done");
                }
                while finished.load(Ordering::Acquire) < 3 {
                    // The first of them may have to serve the others.
                    receiver.drain::<64>(|_| {}).expect("drained");
                    receiver.wait();
                    thread::yield_now();
                }
            });
        }
        send_all::<C, 64>(&path, &setup, RECORDS);
    });
    drop(held);
}

/// A receiver sleeps before each record. One that is not woken sleeps for far longer than this test
/// may take.
pub(crate) fn sleeps<C: Contestant>() {
    const COUNT: u64 = 200;
    let setup = Setup { sleeping: true, overwrite: C::can().lossless.is_err(), ..setup(64) };
    let (_dir, path) = place();
    let held = C::create(&path, &setup).expect("created");
    let seen = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = C::sender(&path, &setup, 0).expect("a sender");
            for number in 0..COUNT {
                sender.send::<64>(number..number + 1, fill).expect("sent");
                while seen.load(Ordering::Acquire) <= number {
                    thread::yield_now();
                }
            }
        });
        let mut receiver = C::receiver(&path, &setup, 0).expect("a receiver");
        let mut check = Check::default();
        for number in 0..COUNT {
            let mut sleeps = 0;
            while !receiver.next::<64>(|bytes| check.see(bytes)).expect("read") {
                receiver.sleep(Duration::from_secs(600)).expect("slept");
                sleeps += 1;
                assert!(sleeps < 10_000, "it does not sleep");
            }
            seen.store(number + 1, Ordering::Release);
        }
        check.finish(COUNT);
        assert_eq!((check.lost, check.bad), (0, 0));
    });
    drop(held);
}
