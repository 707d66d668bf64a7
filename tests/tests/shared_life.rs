//! Many producers of one ring, in threads and processes: permission to attach, the order in which reservations
//! end, waits, and the state after a death and a fork.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perfring_abi::record_size;
use perfring_consumer::{
    AttachError, Consumer, Item, Observer, Policy, Start,
    files::{Recovered, recover},
    stat::{Count, Stat},
};
use perfring_producer::{
    Options, Producer, Producers, Reservation, ReserveError, SharedProducer, files::create,
    stat::Refused,
};
use perfring_testkit::wait::{WATCHDOG, until};
use perfring_tests::shared::{Driven, Raw, Reported, balance, said};
use perfring_tests::{NUMBERED, actor, number_of, ring_dir};
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const EXE: &str = env!("CARGO_BIN_EXE_sharer");

/// A shared ring of 4,096 bytes.
fn small(policy: Policy) -> Options {
    Options { size: 4096, policy, ..Options::many() }
}

fn drive(ring: &Path, name: &str) -> (Driven, u32) {
    let (driven, line) = Driven::start(EXE, &["drive", name], ring);
    let slot = line.strip_prefix("attached ").unwrap_or_else(|| panic!("{line}"));
    (driven, slot.parse().unwrap())
}

/// Every order of `0..n`.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let shorter = orders(n - 1);
    let longer = |order: Vec<usize>| {
        (0..n).map(move |at| {
            let mut order = order.clone();
            order.insert(at, n - 1);
            order
        })
    };
    shorter.into_iter().flat_map(longer).collect()
}

fn everything(ring: &Path) -> Reported {
    let mut reported = Reported::default();
    reported.drain(&mut Consumer::attach(ring).unwrap());
    reported
}

#[test]
fn as_many_attach_as_there_are_slots_and_one_more_when_one_ends() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options::many()).unwrap();
    // Processes and threads, all at once: 64 of the 80 attach, each in its own slot.
    let barrier = Barrier::new(40);
    let (mut processes, threads) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..40)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    SharedProducer::attach(&ring)
                })
            })
            .collect();
        let start = |_| {
            let mut command = actor(EXE, &["drive", "one-of-many"], &ring);
            Driven::spawn(&mut command)
        };
        let processes: Vec<_> = (0..40).map(start).collect();
        let threads: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        (processes, threads)
    });
    let mut slots: Vec<u32> = threads.iter().flatten().map(SharedProducer::slot).collect();
    let mut inside = Vec::new();
    let mut refused = threads.iter().filter(|one| one.is_err()).count();
    for error in threads.iter().filter_map(|one| one.as_ref().err()) {
        assert!(matches!(error, AttachError::Slots { slots: 64, .. }), "{error}");
    }
    for mut process in processes.drain(..) {
        let line = process.line();
        if let Some(slot) = line.strip_prefix("attached ") {
            slots.push(slot.parse().unwrap());
            inside.push(process);
        } else {
            assert!(line.contains("has no free slot for a producer (of 64)"), "{line}");
            refused += 1;
        }
    }
    slots.sort_unstable();
    assert!(slots.iter().copied().eq(0..64), "{slots:?}");
    assert_eq!(refused, 16);
    let error = SharedProducer::attach(&ring).unwrap_err();
    println!("{error}");
    assert!(matches!(error, AttachError::Slots { slots: 64, .. }));

    // All of them publish, then one ends, and one more gets in.
    let mut threads: Vec<_> = threads.into_iter().flatten().collect();
    for producer in &threads {
        producer.publish_as(NUMBERED, &said(producer.slot().into(), 0, 40)).unwrap();
    }
    let mut ended = inside.pop().unwrap_or_else(|| panic!("no process got in"));
    ended.kill();
    let again = SharedProducer::attach(&ring).unwrap();
    assert!(SharedProducer::attach(&ring).is_err());
    let slot = threads.pop().unwrap().slot();
    assert_eq!(SharedProducer::attach(&ring).unwrap().slot(), slot);
    again.publish_as(NUMBERED, &said(99, 0, 40)).unwrap();
    assert_eq!(everything(&ring).records as usize, threads.len() + 2);
    balance(&ring, false);
}

/// Ends a reservation, and returns whether that publishes a record.
fn end(record: Reservation<'_, SharedProducer>, how: usize) -> bool {
    match how % 3 {
        0 => record.commit(),
        1 => record.commit_len(50),
        _ => record.discard(),
    }
    how % 3 != 2
}

#[test]
fn reservations_end_in_any_order_and_the_head_stands_before_the_oldest_open_one() {
    const LEN: usize = 77;
    let size = record_size(LEN);
    let dir = ring_dir();
    for policy in [Policy::Drop, Policy::Overwrite] {
        let ring = dir.path().join(policy.name());
        let producer = SharedProducer::create(&ring, &small(policy)).unwrap();
        let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
        let mut consumer = Consumer::attach(&ring).unwrap();
        let mut seq = 0;
        for order in orders(4) {
            for hows in 0..4 {
                let start = Raw::read(&ring).head();
                let mut open: Vec<_> = (0..4)
                    .map(|at| {
                        let mut record = producer.reserve(NUMBERED, LEN).unwrap();
                        assert_eq!(record.pos(), start + at * size);
                        // The first 50 bytes are valid as well.
                        record[..50].copy_from_slice(&said(1, seq + at, 50));
                        record.copy_from_slice(&said(1, seq + at, LEN));
                        Some(record)
                    })
                    .collect();
                let mut ended = [false; 4];
                let mut records = [false; 4];
                for &at in &order {
                    // 50 of 77 bytes are not a valid payload: they are checked by their first
                    // bytes.
                    let mut record = open[at].take().unwrap();
                    if (at + hows) % 3 == 1 {
                        let shorter = said(1, seq + at as u64, 50);
                        record[..50].copy_from_slice(&shorter);
                    }
                    records[at] = end(record, at + hows);
                    ended[at] = true;
                    let prefix = ended.iter().take_while(|ended| **ended).count();
                    let raw = Raw::read(&ring);
                    assert_eq!(raw.head(), start + prefix as u64 * size, "{order:?} {at}");
                    assert_eq!(
                        raw.open(producer.slot()),
                        4 - ended.iter().filter(|e| **e).count() as u64
                    );
                    let mut reported = Reported::default();
                    reported.watch(&mut observer);
                    let before = if at == prefix { 0 } else { seq };
                    assert!(
                        reported
                            .by(1)
                            .iter()
                            .all(|got| *got >= before && *got < seq + prefix as u64)
                    );
                }
                let expected: Vec<u64> =
                    (0..4).filter(|at| records[*at as usize]).map(|at| seq + at).collect();
                let mut reported = Reported::default();
                reported.drain(&mut consumer);
                assert_eq!(reported.by(1), expected, "{order:?} {hows}");
                seq += 4;
            }
        }
        drop(producer);
        let stat = balance(&ring, true);
        let p = stat.totals.unwrap().producer;
        println!("{}: {:?} written, {:?} discarded", policy.name(), p.written, p.discarded);
        assert_eq!(p.written.records + p.discarded.records, seq);
    }
}

#[test]
fn reservations_of_several_processes_end_in_any_order() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    let own = SharedProducer::create(&ring, &Options { size: 1 << 16, ..Options::many() }).unwrap();
    let mut observer = Observer::attach(&ring, Start::Oldest).unwrap();
    let mut others: Vec<Driven> = (0..3).map(|_| drive(&ring, "other").0).collect();
    let size = record_size(100);
    let mut reported = Reported::default();
    let mut own_seq = 0;
    for (round, order) in orders(3).into_iter().enumerate() {
        let round = round as u64;
        let start = Raw::read(&ring).head();
        for (other, who) in others.iter_mut().zip(1..) {
            assert_eq!(other.ask(&format!("reserve {round} {who} {round} 100")), "ok");
        }
        // Behind them all, and not published before they have ended.
        own.publish_as(NUMBERED, &said(7, own_seq, 100)).unwrap();
        own_seq += 1;
        let mut ended = [false; 3];
        for at in order {
            assert_eq!(others[at].ask(&format!("commit {round}")), "ok");
            ended[at] = true;
            let prefix = ended.iter().take_while(|ended| **ended).count() as u64;
            let expected = if prefix == 3 { 4 } else { prefix };
            assert_eq!(Raw::read(&ring).head(), start + expected * size);
            reported.watch(&mut observer);
            assert_eq!(reported.records, round * 4 + expected);
        }
    }
    for who in 1..4 {
        assert!(reported.by(who).iter().copied().eq(0..6));
    }
    assert!(reported.by(7).iter().copied().eq(0..own_seq));
    balance(&ring, true);
    others.iter_mut().for_each(Driven::end);
}

#[test]
fn several_waiting_producers_all_get_their_turn() {
    const EACH: u64 = 2000;
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &small(Policy::Drop)).unwrap();
    let mut consumer = Consumer::attach(&ring).unwrap();
    let (ready, mut reported) = (Barrier::new(5), Reported::default());
    std::thread::scope(|scope| {
        let (ring, ready) = (&ring, &ready);
        for who in 0..4 {
            scope.spawn(move || {
                let producer = SharedProducer::attach(ring).unwrap();
                ready.wait();
                for seq in 0..EACH {
                    // Small and large, both methods.
                    let payload = said(who, seq, 8 + (seq as usize * 37) % 900);
                    if seq % 2 == 0 {
                        producer.publish_timeout(NUMBERED, &payload, WATCHDOG).unwrap();
                    } else {
                        let mut record =
                            producer.reserve_timeout(NUMBERED, payload.len(), WATCHDOG).unwrap();
                        record.copy_from_slice(&payload);
                        record.commit();
                    }
                }
                let refused = producer.totals().refused;
                assert_eq!(refused, Refused::default(), "what waited is not lost");
            });
        }
        ready.wait();
        while reported.records < 4 * EACH {
            assert!(consumer.wait(WATCHDOG));
            reported.drain(&mut consumer);
        }
    });
    for who in 0..4 {
        assert!(reported.by(who).iter().copied().eq(0..EACH));
    }
    assert_eq!(reported.lost.len(), 0);
    balance(&ring, true);
}

#[test]
fn who_waits_for_an_open_reservation_goes_on_when_it_ends_and_says_who_holds_it_up() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        let slow = SharedProducer::create(&ring, &small(policy)).unwrap();
        let quick = SharedProducer::attach(&ring).unwrap();
        let mut open = slow.reserve(NUMBERED, 100).unwrap();
        let mut seq = 0;
        let refused = loop {
            match quick.publish_as(NUMBERED, &said(2, seq, 100)) {
                Ok(()) => seq += 1,
                Err(error) => break error,
            }
        };
        // The error names the open reservation, in a drop ring as well: nothing can be read.
        assert_eq!(refused, ReserveError::Pending { slot: slow.slot() });
        let since = Instant::now();
        let limit = Duration::from_millis(50);
        let waited = quick.reserve_timeout(NUMBERED, 100, limit).unwrap_err();
        assert!(since.elapsed() >= limit);
        assert_eq!(waited, refused);
        assert_eq!(quick.totals().refused.pending.records, 2, "counted once each");
        let held_up = Stat::read(&ring).unwrap().held_up.unwrap();
        assert_eq!((held_up.slot, held_up.alive, held_up.locked), (slow.slot(), true, false));
        assert!(held_up.since >= limit, "{held_up:?}");

        let mut consumer = Consumer::attach(&ring).unwrap();
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(move || quick.publish_timeout(NUMBERED, &said(2, seq, 100), WATCHDOG));
            // The read of the figures takes longer than the waiting one's first sleeps.
            assert_eq!(Stat::read(&ring).unwrap().held_up.unwrap().slot, slow.slot());
            open.copy_from_slice(&said(1, 0, 100));
            open.commit();
            let mut reported = Reported::default();
            if policy == Policy::Drop {
                reported.drain(&mut consumer);
                assert!(reported.by(2).iter().copied().eq(0..seq));
            }
            waiting.join().unwrap().unwrap();
            reported.drain(&mut consumer);
            assert_eq!(reported.by(2).last(), Some(&seq));
            assert_eq!(reported.lost(perfring_consumer::Cause::Pending), 2);
        });
        balance(&ring, true);
    }
}

#[test]
fn a_slot_that_is_used_again_starts_anew() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options { slots: 2, ..small(Policy::Drop) }).unwrap();
    let own = SharedProducer::attach_as(&ring, "stays").unwrap();
    let (mut other, slot) = drive(&ring, "dies");
    assert_eq!((own.slot(), slot), (0, 1));
    assert_eq!(other.ask("publish 1 0 100"), "ok");
    assert_eq!(other.ask("reserve 1 1 1 100"), "ok");
    assert_eq!(other.ask("discard 1"), "ok");
    assert_eq!(other.ask("publish 1 1 5000"), "TooLarge { len: 5000, max: 4080 }");
    assert_eq!(other.ask("publish 1 1 100"), "ok"); // and reports it
    assert_eq!(other.ask("reserve 2 1 2 100"), "ok");
    assert_eq!(other.ask("publish 1 3 5000"), "TooLarge { len: 5000, max: 4080 }");
    assert_eq!(own.publish_as(NUMBERED, &said(0, 0, 100)), Ok(()));
    let before = Stat::read(&ring).unwrap();
    assert_eq!(before.epoch(), 2);
    other.kill();

    let size = record_size(100);
    let one = Count { records: 1, bytes: size };
    let dead = Stat::read(&ring).unwrap();
    let figures = &dead.producers[1].figures;
    assert_eq!(
        (dead.producers[1].is_alive(), dead.producers[1].owner.name.as_str()),
        (false, "dies")
    );
    assert_eq!(figures.written, Count { records: 2, bytes: 2 * size });
    assert_eq!((figures.discarded, figures.reclaimed, figures.open), (one, Count::default(), one));
    assert_eq!((figures.refused.too_large.records, figures.reported.too_large.records), (2, 1));
    assert_eq!(dead.totals.unwrap().stranded, one);

    let (mut successor, slot) = drive(&ring, "heir");
    assert_eq!(slot, 1);
    let now = Stat::read(&ring).unwrap();
    let figures = &now.producers[1].figures;
    let owner = &now.producers[1].owner;
    assert_eq!((now.epoch(), owner.epoch, owner.name.as_str()), (3, 2, "heir"));
    assert_eq!(
        (figures.written, figures.discarded, figures.reclaimed, figures.open),
        Default::default()
    );
    assert_eq!((figures.refused, figures.reported), Default::default(), "of another producer");
    let p = now.totals.unwrap().producer;
    assert_eq!((p.reclaimed, p.discarded, p.refused.too_large.records), (one, one, 2));
    // The successor reports the refusals of the dead producer, and they do not count as the
    // successor's.
    assert_eq!(successor.ask("publish 2 0 100"), "ok");
    let now = balance(&ring, false);
    assert_eq!(now.producers[1].figures.written, one);
    assert_eq!(now.producers[1].figures.refused, Refused::default());
    assert_eq!(now.totals.unwrap().unreported(), Count::default());
    let reported = everything(&ring);
    assert_eq!((reported.by(0), reported.by(1), reported.by(2)), (&[0][..], &[0, 1][..], &[0][..]));
    assert_eq!(reported.lost(perfring_consumer::Cause::TooLarge), 2);
    successor.end();
}

#[test]
fn a_consumer_that_sleeps_reads_on_behind_a_reservation_whose_producer_died() {
    let dir = ring_dir();
    for policy in [Policy::Drop, Policy::Overwrite] {
        for rounds in 0..10u64 {
            let ring = dir.path().join(format!("{}-{rounds}", policy.name()));
            create(&ring, &small(policy)).unwrap();
            let mut consumer = Consumer::attach(&ring).unwrap();
            let (mut one, slot) = drive(&ring, "dies");
            let (mut two, _) = drive(&ring, "lives");
            assert_eq!(one.ask("reserve 1 1 0 100"), "ok");
            let sleeper = std::thread::spawn(move || {
                let mut reported = Reported::default();
                while reported.records == 0 {
                    consumer.sleep(Duration::MAX);
                    reported.drain(&mut consumer);
                }
                reported
            });
            // Killed before or after the record behind it.
            if rounds % 2 == 0 {
                assert_eq!(two.ask("publish 2 0 100"), "ok");
                one.kill();
            } else {
                one.kill();
                assert_eq!(two.ask("publish 2 0 100"), "ok");
            }
            until("the consumer reads on", || sleeper.is_finished());
            let reported = sleeper.join().unwrap();
            assert_eq!((reported.by(1), reported.by(2)), (&[][..], &[0][..]));
            let stat = balance(&ring, true);
            assert_eq!(stat.producers[slot as usize].figures.reclaimed.records, 1);
            two.end();
        }
    }
}

#[test]
fn a_ring_for_one_producer_is_refused_to_many_and_the_reverse() {
    let dir = ring_dir();
    let (one, many) = (dir.path().join("one"), dir.path().join("many"));
    create(&one, &Options::default()).unwrap();
    create(&many, &Options::many()).unwrap();
    let error = SharedProducer::attach(&one).unwrap_err();
    println!("{error}");
    assert!(matches!(error, AttachError::Kind { producers: Producers::One, .. }));
    assert!(
        error.to_string().ends_with("is made for one producer at a time: attach to it as such")
    );
    let error = Producer::attach(&many).unwrap_err();
    println!("{error}");
    assert!(matches!(error, AttachError::Kind { producers: Producers::Many, .. }));
    assert!(error.to_string().contains("many producers"));
    // A refusal leaves nothing behind.
    assert_eq!(Stat::read(&one).unwrap().producer.owner.epoch, 0);
    assert_eq!(Stat::read(&many).unwrap().producers, []);
    assert_eq!(recover(&one).unwrap(), Recovered::default());
}

#[test]
fn recovering_by_hand_says_whose_reservations_it_ended() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &small(Policy::Drop)).unwrap();
    let mut driven: Vec<_> = (0..3).map(|_| drive(&ring, "one").0).collect();
    for (id, at) in [0, 1, 0, 2].into_iter().enumerate() {
        assert_eq!(driven[at].ask(&format!("reserve {id} {at} {id} 100")), "ok");
    }
    assert_eq!(driven[2].ask("publish 2 9 100"), "ok");
    // No producer is dead: nothing is done.
    assert_eq!(recover(&ring).unwrap(), Recovered::default());
    assert_eq!(Raw::read(&ring).head(), 0);
    driven[0].kill();
    assert_eq!(recover(&ring).unwrap(), Recovered { swept: vec![(0, 2)], lock: None });
    assert_eq!(
        Raw::read(&ring).head(),
        record_size(100),
        "the next is open, and its producer lives"
    );
    driven[1].kill();
    let stranded = Stat::read(&ring).unwrap().totals.unwrap().stranded;
    assert_eq!(stranded.records, 0, "behind a live producer");
    driven[2].kill();
    assert_eq!(Stat::read(&ring).unwrap().totals.unwrap().stranded.records, 1);
    assert_eq!(recover(&ring).unwrap(), Recovered { swept: vec![(1, 1), (2, 1)], lock: None });
    assert_eq!(recover(&ring).unwrap(), Recovered::default());
    balance(&ring, true);
    assert_eq!(everything(&ring).by(2), [9]);
}

/// Returns whether the process with this id exists and is not a zombie.
fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Returns the pid of the only child of a process.
fn child_of(parent: u32) -> i32 {
    let path = format!("/proc/{parent}/task/{parent}/children");
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn a_forked_child_cannot_hurt_its_parents_ring_nor_keep_it_alive() {
    // Also a process that has no descriptor left for another file.
    for tight in [false, true] {
        let dir = ring_dir();
        let ring = dir.path().join("ring");
        create(&ring, &small(Policy::Drop)).unwrap();
        let own = SharedProducer::attach(&ring).unwrap();
        let mut command = actor(EXE, &["fork", "shared"], &ring);
        if tight {
            command.env("PERFRING_NO_FILES", "1");
        }
        let (mut parent, line) = Driven::of(&mut command);
        assert_eq!(line, "attached 1");
        // The child has tried everything, and is attached again, in its own slot.
        assert_eq!(parent.line(), "child");
        let child = child_of(parent.child.id());
        let stat = Stat::read(&ring).unwrap();
        let open = |stat: &Stat| stat.producers[1].figures.open.records;
        assert_eq!((stat.producers.len(), open(&stat)), (3, 3), "the parent's are open");
        assert!(stat.producers.iter().all(|member| member.is_alive()) && stat.consumer.is_alive());
        assert!(matches!(Consumer::attach(&ring), Err(AttachError::Busy { .. })));
        assert_eq!(Raw::read(&ring).head(), 0);
        assert_eq!(parent.ask("publish"), "ok");
        // The parent dies with its reservations open, and its child lives on.
        parent.kill();
        assert!(runs(child));
        let stat = Stat::read(&ring).unwrap();
        let alive: Vec<bool> = stat.producers.iter().map(|member| member.is_alive()).collect();
        assert_eq!((alive, stat.consumer.is_alive()), (vec![true, false, true], false));
        let mut reported = Reported::default();
        let mut consumer = Consumer::attach(&ring).unwrap();
        assert!(consumer.wait(WATCHDOG));
        reported.drain(&mut consumer);
        assert_eq!((reported.by(1), reported.by(2)), (&[3][..], &[0][..]));
        own.publish_as(NUMBERED, &said(0, 0, 100)).unwrap();
        reported.drain(&mut consumer);
        assert_eq!(reported.by(0), [0]);
        let reclaimed = balance(&ring, true).totals.unwrap().producer.reclaimed;
        assert_eq!(reclaimed.records, 3);
        drop(parent); // ends its input, and with it the child
        until("the child to end", || !runs(child));
    }
    // Its parent's reservations, committed by the parent, are whole.
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &small(Policy::Drop)).unwrap();
    let (mut parent, _) = Driven::start(EXE, &["fork", "shared"], &ring);
    assert_eq!(parent.line(), "child");
    assert_eq!(parent.ask("commit"), "ok");
    assert_eq!(parent.ask("publish"), "ok");
    parent.end();
    let reported = everything(&ring);
    assert_eq!((reported.by(1), reported.by(2)), (&[0, 1, 2, 3][..], &[0][..]));
}

#[test]
fn a_forked_child_of_the_one_producer_is_none() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options::default()).unwrap();
    let (mut parent, line) = Driven::start(EXE, &["fork", "exclusive"], &ring);
    assert_eq!(line, "attached");
    assert_eq!(parent.line(), "child");
    let child = child_of(parent.child.id());
    for _ in 0..10 {
        assert_eq!(parent.ask("publish"), "ok");
    }
    assert!(matches!(Producer::attach(&ring), Err(AttachError::Busy { .. })));
    kill(Pid::from_raw(parent.child.id() as i32), Signal::SIGKILL).unwrap();
    parent.child.wait().unwrap();
    assert!(runs(child));
    let mut producer = Producer::attach(&ring).unwrap();
    producer.publish_as(NUMBERED, &said(1, 10, 100)).unwrap();
    let mut consumer = Consumer::attach(&ring).unwrap();
    let mut found = Vec::new();
    while let Some(item) = consumer.read().unwrap() {
        if let Item::Record(record) = item {
            found.push(number_of(record.bytes) & 0xffff);
        }
    }
    assert!(found.into_iter().eq(0..=10));
    drop(parent);
    until("the child to end", || !runs(child));
}
