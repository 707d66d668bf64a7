//! A producer of a shared ring is killed by SIGKILL, or stopped, at every point at which it changes
//! the ring, while three other producers are at work: without hooks, the very code that ships.
//!
//! The victim is stepped, instruction by instruction, from one of its own stops to the next, and the
//! ring file is compared after each: a death between two changes equals a death after the first of
//! them, so every state that a death can leave is played, and some deaths in between. The part of
//! an attach before its first write to the ring is played system call by system call.
//!
//! One point of four is played, another point in each scene; all of them with `PERFRING_LONG`. With
//! `PERFRING_ALL=1`, each death is detected by every kind of process: it takes three times as long.
//!
//! Verified by breaking the library on purpose: each of these fails here. Never checking liveness;
//! taking all for dead; taking over without sweeping, or without repairing `producer_pos`; not
//! settling a slot's counts; publishing a reservation before its header word; counting a record
//! after its commit; trusting the running totals after a death; moving `data_tail` before its mark;
//! not checking the liveness of an owner that records are published behind; counting a contended
//! call as another cause; a sleeping consumer that recovers nothing; reclaiming uncounted; ending a
//! reservation without moving `data_head`; reporting a loss under a count that is not tied to its
//! position.

mod deaths {
    pub(crate) mod scenes;
    pub(crate) mod stage;
}

use self::deaths::scenes::*;
use self::deaths::stage::*;
use perfring_consumer::{Consumer, Policy};
use perfring_producer::{Options, SharedProducer, files::create};
use perfring_testkit::size::every;
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::shared::{Raw, Reported, balance, said};
use perfring_tests::stepped::OneCpu;
use perfring_tests::{NUMBERED, ring_dir};
use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, Instant};

fn run(scenes: &[Scene], fate: Fate) {
    let refusals = run_of(scenes, fate, &PARTS);
    assert!(refusals.contains_key("Contended"), "no call ever met the lock: {refusals:?}");
}

/// The parts that a walk through all of a scene's steps changes, some of them at least.
const PARTS: [&str; 9] = [
    "shared_lock",
    "producer_pos",
    "data_head",
    "slot written",
    "slot losses",
    "slot holder",
    "data",
    "running_written",
    "running",
];

/// Returns the refused calls, by the first word of the reason.
fn run_of(scenes: &[Scene], fate: Fate, wanted: &[&str]) -> BTreeMap<String, u64> {
    let _cpu = OneCpu::take();
    let dir = ring_dir();
    let mut plays = 0;
    let (mut late, mut longest) = (0, Duration::ZERO);
    let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut refusals: BTreeMap<String, u64> = BTreeMap::new();
    let mut reclaimed_all = 0;
    let all = std::env::var_os("PERFRING_ALL").is_some();
    for (at, scene) in scenes.iter().enumerate() {
        let template = dir.path().join(format!("template-{at}"));
        create(&template, &scene.options).unwrap();
        (scene.template)(&template);
        let stage = Stage { scene, template, ring: dir.path().join(format!("ring-{at}")) };
        let walk = stage.walk();
        for (_, part) in &walk.changes {
            *parts.entry(part).or_default() += 1;
        }
        let changes = walk.changes.len();
        // Payload bytes have no effect before the record ends: of a run of them the first and last.
        let is_data = |at: usize| {
            walk.changes.get(at).is_none_or(|(_, part)| matches!(*part, "data" | "aux"))
        };
        let inside = |at: usize| is_data(at - 2) && is_data(at - 1) && is_data(at);
        let distinct = (1..=changes).filter(|at| *at < 2 || *at == changes || !inside(*at));
        let finders = if fate == Fate::Death && all { 0..3 } else { 0..1 };
        let mut plays_of: Vec<(At, usize)> = Vec::new();
        // The process that detects it: the sleeping consumer if only `data_head` is behind.
        for at in distinct.clone() {
            let round = changes - at + usize::from(scene.before);
            plays_of.extend(finders.clone().map(|finder| (At::Change(at), round + finder)));
        }
        let calls = (0..=walk.calls).step_by(walk.calls / 16 + 1).map(At::Call);
        let steps = (1..=walk.steps).step_by(walk.steps / SPREAD + 1).map(At::Step);
        plays_of.extend(calls.chain(steps).chain([At::Step(walk.steps)]).zip(0..));
        let mut taken = every(at, 4);
        plays_of.retain(|_| taken());
        let (mut reclaimed, mut committed) = (0, None);
        let since = Instant::now();
        let count = plays_of.len();
        for (at, round) in plays_of {
            let played = stage.play(&walk, at, fate, round);
            late += usize::from(played.late);
            longest = longest.max(played.longest);
            reclaimed += played.reclaimed;
            if let (At::Change(change), true) = (at, played.records > 0) {
                committed = committed.or(Some(change));
            }
            if let (At::Change(_), 0, Some(change)) = (at, played.records, committed) {
                assert_eq!(fate, Fate::Stop, "committed at change {change}, and missing at {at:?}");
            }
            for (cause, count) in played.refused {
                *refusals.entry(cause).or_default() += count;
            }
        }
        plays += count;
        reclaimed_all += if scene.successor { 0 } else { reclaimed };
        println!(
            "{}{}: {} calls, {} steps, {changes} distinct states, {} of them not within a payload; {count} plays in {:.1?}; committed at {committed:?}, {reclaimed} reclaimed",
            scene.name,
            if scene.before { ", one open before" } else { "" },
            walk.calls,
            walk.steps,
            distinct.count(),
            since.elapsed(),
        );
    }
    println!(
        "{plays} plays of {fate:?}: a full second passed in {late}, the longest call took {longest:?}"
    );
    println!("changes by part: {parts:?}");
    println!("refused, with what was to be reported: {refusals:?}");
    // Otherwise the dead are found at the full seconds alone, at which everything wakes by itself.
    assert!(late < plays / 2, "{late} of {plays}");
    for part in wanted {
        assert!(parts.contains_key(part), "no step changes {part}: {parts:?}");
    }
    assert_eq!(reclaimed_all > 0, fate == Fate::Death);
    refusals
}

/// Another producer has published behind the victim's reservation before the victim ends it and
/// dies in that, and no process acts any more except for a consumer that sleeps.
#[test]
fn what_was_published_behind_a_reservation_is_read_wherever_its_owner_dies() {
    let _cpu = OneCpu::take();
    let dir = ring_dir();
    let (template, ring) = (dir.path().join("template"), dir.path().join("ring"));
    for policy in [Policy::Drop, Policy::Overwrite] {
        let _ = std::fs::remove_file(&template);
        create(&template, &Options { size: 4096, slots: 8, policy, ..Options::many() }).unwrap();
        for scenario in ["large", "commit", "shorter", "discard", "batch"] {
            let (mut deaths, mut over) = (0, false);
            while !over {
                let _ = std::fs::remove_file(&ring);
                std::fs::copy(&template, &ring).unwrap();
                let other = SharedProducer::attach(&ring).unwrap();
                let mut consumer = Consumer::attach(&ring).unwrap();
                let victim = start(scenario, &ring);
                let file = File::open(&ring).unwrap();
                let mut now = Raw::read(&ring);
                while now.open(1) == 0 || now.locked_by().is_some() {
                    assert!(!victim.step());
                    now.again(&file);
                }
                other.publish_as(NUMBERED, &said(1, 0, 40)).unwrap();
                now.again(&file);
                let mut last = now.clone();
                let mut left = deaths;
                while left > 0 && !over {
                    over = victim.step();
                    now.again(&file);
                    let changed = now.bytes.iter().zip(&last.bytes).position(|(a, b)| a != b);
                    let Some(at) = changed else { continue };
                    left -= usize::from(now.part(at) != "data" || now.open(1) == 0);
                    std::mem::swap(&mut now, &mut last);
                }
                victim.kill();
                let mut reported = Reported::default();
                while reported.by(1).is_empty() {
                    let seen = consumer.wait(WATCHDOG);
                    assert!(
                        seen,
                        "{scenario}, {deaths}: not read: {:?}",
                        Raw::read(&ring).beyond()
                    );
                    reported.drain(&mut consumer);
                }
                drop((other, consumer));
                let stat = balance(&ring, true);
                assert_eq!(stat.totals.unwrap().producer.written.records, reported.records);
                deaths += 1;
            }
            println!("{}, {scenario}: {deaths} deaths", policy.name());
        }
    }
}

#[test]
fn a_death_anywhere_in_a_drop_ring_costs_one_open_reservation_at_most() {
    run(&drop_scenes(), Fate::Death);
}

#[test]
fn a_death_anywhere_in_an_overwrite_ring_costs_one_open_reservation_at_most() {
    run(&overwrite_scenes(), Fate::Death);
}

#[test]
fn a_death_anywhere_in_a_reservation_of_the_aux_area_costs_that_one_at_most() {
    run_of(&large_scenes(), Fate::Death, &["aux_head", "aux_tail", "aux", "data_head"]);
}

#[test]
fn a_stopped_producer_with_a_range_is_not_taken_over() {
    let stopped = with_one_before(large_scenes());
    run_of(&stopped, Fate::Stop, &["aux_head", "aux_tail", "aux", "producer_pos"]);
}

#[test]
fn who_stands_still_in_a_drop_ring_is_not_robbed_and_hinders_nobody_without_an_answer() {
    run(&with_one_before(drop_scenes()), Fate::Stop);
}

#[test]
fn who_stands_still_in_an_overwrite_ring_is_not_robbed_and_hinders_nobody_without_an_answer() {
    run(&with_one_before(overwrite_scenes()), Fate::Stop);
}
