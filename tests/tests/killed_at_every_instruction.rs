//! A process is killed by SIGKILL between every two instructions of its work on a ring: without
//! hooks or a special build, the very code that ships.
//!
//! The actor stops itself before and after; this test, its tracer, steps it `k` instructions on and
//! kills it, for every `k` (attaching takes tens of thousands of instructions, most of them the
//! kernel's and the loader's: there only every few dozenth). Then the file alone must contain
//! everything that was committed, all records must be accounted for, and the next producer,
//! consumer and observer must continue.

use perfring_consumer::{
    Cause, Consumer, Item, Observer, Policy, Snapshot, Start, advanced::Saved, stat::Stat,
};
use perfring_producer::{Evict, Options, Producer, ReserveError};
use perfring_testkit::size::cases;
use perfring_tests::foreign::{Build, c_peer};
use perfring_tests::stepped::{OneCpu, Stepped};
use perfring_tests::{
    NUMBERED, NUMBERED_TYPE, OTHER_TYPE, number_of, numbered, ring_dir, types_in,
};
use std::path::{Path, PathBuf};

/// Enough for the longest scenario; more steps are a failure.
const STEPS_MAX: usize = 500_000;
/// Steps that one scene may take for all its deaths together: a scene of too many instructions is
/// killed at every n-th.
const STEPS_ALL: u64 = 60_000;
/// With `PERFRING_LONG`.
const STEPS_LONG: u64 = 300_000;
/// For a program in C, where most scenes are then killed at every second instruction.
const STEPS_ALL_C: u64 = 20_000;
/// Deaths of a scene with an AUX area, at most.
const DEATHS_LARGE: u64 = 80;

/// A ring prepared for a scenario.
struct Scene {
    name: &'static str,
    scenario: &'static str,
    options: Options,
    /// The ring's history.
    prepare: fn(&Path),
}

/// With one type in its table.
fn prepare_typed(ring: &Path) {
    prepare_few(ring);
    Producer::attach(ring).unwrap().register(&NUMBERED_TYPE).unwrap();
}

fn prepare_few(ring: &Path) {
    let mut producer = Producer::attach(ring).unwrap();
    for number in 0..10 {
        producer.publish_as(NUMBERED, &numbered(number, 40)).unwrap();
    }
}

/// Full, with losses that are counted and not reported.
fn prepare_full(ring: &Path) {
    let mut producer = Producer::attach(ring).unwrap();
    let mut number = 0;
    while producer.publish_as(NUMBERED, &numbered(number, 40)) != Err(ReserveError::Full) {
        number += 1;
    }
    std::mem::forget(producer);
}

/// With losses that are counted and not reported, and space again: the next record brings the
/// marker.
fn prepare_lossy(ring: &Path) {
    prepare_full(ring);
    let mut consumer = Consumer::attach(ring).unwrap();
    for _ in 0..40 {
        assert!(consumer.read().unwrap().is_some());
    }
}

/// Wrapped several times.
fn prepare_lapped(ring: &Path) {
    let mut producer = Producer::attach(ring).unwrap();
    for number in 0..300 {
        producer.publish_as(NUMBERED, &numbered(number, 8 + number as usize % 90)).unwrap();
    }
    producer.reserve(NUMBERED, 50).unwrap().discard();
}

/// As many as the AUX area takes, and a loss of one more that is counted and not reported.
fn prepare_ranges(ring: &Path) {
    let mut producer = Producer::attach(ring).unwrap();
    for number in 0..12 {
        producer.publish_as(NUMBERED, &numbered(number, 5000)).unwrap();
    }
    assert!(producer.publish_as(NUMBERED, &numbered(12, 10_000)).is_err());
    std::mem::forget(producer);
}

/// Short payloads, some of them in the AUX area: few instructions each.
fn prepare_shorter(ring: &Path) {
    let mut producer = Producer::attach(ring).unwrap();
    for number in 0..14 {
        let mut record =
            producer.reserve(NUMBERED, if number % 3 == 0 { 100 } else { 9000 }).unwrap();
        record[..100].copy_from_slice(&numbered(number, 100));
        record.commit_len(100);
    }
}

/// Prepares so few records that none is released before all are.
fn prepare_two(ring: &Path) {
    let mut producer = Producer::attach(ring).unwrap();
    for (number, len) in [(0, 40), (1, 5000), (2, 40)] {
        producer.publish_as(NUMBERED, &numbered(number, len)).unwrap();
    }
}

/// The AUX area has wrapped, and the data area has not: the oldest records have no ranges.
fn prepare_rounds(ring: &Path) {
    let mut producer = Producer::attach(ring).unwrap();
    for number in 0..40 {
        let len = if number % 2 == 0 { 40 } else { 5000 };
        producer.publish_as(NUMBERED, &numbered(number, len)).unwrap();
    }
}

fn scene(
    name: &'static str,
    scenario: &'static str,
    options: Options,
    prepare: fn(&Path),
) -> Scene {
    Scene { name, scenario, options, prepare }
}

fn drop_scenes() -> Vec<Scene> {
    let drop = Options { size: 4096, ..Options::default() };
    let timed = Options { time: true, ..drop };
    vec![
        scene("drop, publish", "publish", drop, prepare_few),
        scene("drop, reserve and commit shorter", "reserve", drop, prepare_few),
        scene("drop, discard", "discard", drop, prepare_few),
        scene("drop, batch", "batch", drop, prepare_few),
        scene("drop, refused by a full ring", "publish", drop, prepare_full),
        scene("drop, refused again", "refused again", drop, prepare_full),
        scene("drop, reporting a loss", "publish", drop, prepare_lossy),
        scene("drop, batch reporting a loss", "batch", drop, prepare_lossy),
        scene("drop, attach", "attach", drop, prepare_lossy),
        scene("drop, register a type", "register", drop, prepare_typed),
        scene("drop, detach", "detach", drop, prepare_lossy),
        scene("drop with time, publish", "publish", timed, prepare_few),
        scene("drop with time, batch reporting a loss", "batch", timed, prepare_lossy),
        scene("drop with time, attach", "attach", timed, prepare_lossy),
        scene("drop, consume", "consume", drop, prepare_full),
        // Records, and the loss behind them: none of it is released before the program comes back for more.
        scene("drop, hand out", "hand out", drop, prepare_full),
    ]
}

/// Scenes with an AUX area.
fn large_scenes() -> Vec<Scene> {
    let drop = Options { size: 4096, aux_size: 64 << 10, ..Options::default() };
    let timed = Options { time: true, ..drop };
    let over = Options { policy: Policy::Overwrite, ..drop };
    let timed_over = Options { time: true, ..over };
    vec![
        scene("drop, publish a large one", "large", drop, prepare_few),
        scene("drop, a large one shorter", "large shorter", drop, prepare_few),
        scene("drop with time, a large one shorter", "large shorter", timed, prepare_few),
        scene("drop, discard a large one", "large discard", drop, prepare_few),
        scene("drop, large ones in a batch", "large batch", drop, prepare_few),
        scene("drop, refused by a full AUX area", "large", drop, prepare_ranges),
        scene("drop with ranges, attach", "attach", drop, prepare_ranges),
        scene("drop with ranges, consume", "consume", drop, prepare_shorter),
        // Between the two tails as well.
        scene("drop with ranges, release", "release", drop, prepare_two),
        scene("overwrite, a large one shorter", "large shorter", over, prepare_rounds),
        scene("overwrite with time, a large one", "large shorter", timed_over, prepare_rounds),
        scene("overwrite, large ones in a batch", "large batch", over, prepare_rounds),
        scene("overwrite with ranges, attach", "attach", over, prepare_rounds),
        scene("overwrite with ranges, consume", "consume", over, prepare_rounds),
    ]
}

fn overwrite_scenes() -> Vec<Scene> {
    let overwrite = Options { size: 4096, policy: Policy::Overwrite, ..Options::default() };
    let half = Options { evict: Evict::Half, ..overwrite };
    let timed = Options { time: true, ..overwrite };
    vec![
        scene("overwrite, publish", "publish", overwrite, prepare_lapped),
        scene("overwrite, reserve and commit shorter", "reserve", overwrite, prepare_lapped),
        scene("overwrite, discard", "discard", overwrite, prepare_lapped),
        scene("overwrite, batch", "batch", overwrite, prepare_lapped),
        scene("overwrite, attach", "attach", overwrite, prepare_lapped),
        scene("overwrite, consume", "consume", overwrite, prepare_lapped),
        scene("overwrite by halves, publish", "publish", half, prepare_lapped),
        scene("overwrite by halves, batch", "batch", half, prepare_lapped),
        scene("overwrite with time, publish", "publish", timed, prepare_lapped),
    ]
}

/// The content of the file after a death.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Reported {
    written: u64,
    full: u64,
    discarded: u64,
    /// In the type table, each once.
    types: usize,
}

/// Reads a dead ring by every method and checks that all agree. Returns its content.
fn inspect(ring: &Path) -> Reported {
    let snapshot = Snapshot::take(ring).expect("a dead ring can be opened");
    // A record whose range was overwritten stays, and has no number.
    let mut found = Vec::new();
    for item in &snapshot {
        match item.unwrap() {
            Item::Record(record) => found.push(Some(number_of(record.bytes))),
            Item::Lost(lost) if lost.cause == Cause::Lapped => found.push(None),
            Item::Lost(_) => {}
        }
    }
    let totals = *snapshot.totals();
    let written = totals.producer.written;
    // Everything from the oldest to the newest, nothing missing, nothing twice.
    let gone = written.records - found.len() as u64;
    let all = (gone..written.records).zip(&found);
    assert!(
        all.clone().all(|(number, found)| found.is_none_or(|found| found == number)),
        "{found:?}"
    );
    assert_ranges(ring, &found);
    // written = read (or overwritten) + present.
    assert_eq!(totals.present.records, found.len() as u64);
    match snapshot.layout().policy {
        Policy::Drop => {
            assert_eq!(totals.consumer.read.records, gone);
            assert_eq!(totals.overwritten.records, 0);
        }
        Policy::Overwrite => assert_eq!(totals.overwritten.records, gone),
    }
    // Positions consist of records, holes and markers alone.
    let p = totals.producer;
    assert_eq!(p.pos, written.bytes + p.discarded.bytes + 32 * p.lost_markers);

    let mut observer = Observer::attach(ring, Start::Oldest).unwrap();
    let (mut seen, mut times) = (Vec::new(), Vec::new());
    while let Some(item) = observer.read().unwrap() {
        match item {
            Item::Record(record) => {
                seen.push(Some(number_of(record.bytes)));
                times.extend(record.time);
            }
            Item::Lost(lost) if lost.cause == Cause::Lapped => seen.push(None),
            Item::Lost(_) => {}
        }
    }
    assert!(times.is_sorted(), "{times:?}");
    let whole = seen.iter().flatten().count();
    assert_eq!(times.len(), if snapshot.layout().time { whole } else { 0 });
    assert_eq!(seen, found);
    assert_eq!(observer.saved().before, written);
    let types = types_in(&snapshot);
    assert!(types.values().all(|&times| times == 1), "{types:?}");
    Reported {
        written: written.records,
        full: p.refused.full.records,
        discarded: p.discarded.records,
        types: types.len(),
    }
}

/// Checks that the newest records are whole, that a death does not leak space of the AUX area, and
/// that only overwritten ranges are lost.
fn assert_ranges(ring: &Path, found: &[Option<u64>]) {
    let stat = Stat::read(ring).unwrap();
    let totals = stat.totals.unwrap();
    assert!(totals.aux_tail <= totals.aux_head.max(stat.layout.aux_size));
    let gone = found.iter().filter(|number| number.is_none()).count();
    match stat.layout.policy {
        // The oldest alone, if a consumer died that had stored `aux_tail`, and not `data_tail`.
        Policy::Drop => {
            let last = found.iter().rposition(Option::is_none).map_or(0, |last| last + 1);
            assert!(gone == 0 || last <= 14 && totals.aux_tail > 0, "{found:?}");
        }
        // Of 5000 bytes, or less.
        Policy::Overwrite if stat.layout.aux_size > 0 => {
            let whole = found.iter().flatten().count();
            assert!(whole >= 12, "{found:?}");
        }
        Policy::Overwrite => assert_eq!(gone, 0),
    }
}

/// Continues with a ring whose producer and consumer are dead. Returns how many refused records the next consumer returns.
fn go_on(ring: &Path, reported: Reported, start: Saved) -> u64 {
    let mut producer = Producer::attach(ring).expect("a dead producer's seat is free");
    assert_eq!(producer.totals().written.records, reported.written);
    let policy = producer.layout().policy;
    for schema in [&OTHER_TYPE, &NUMBERED_TYPE, &OTHER_TYPE] {
        producer
            .register(schema)
            .expect("a dead holder's lock is free, and half an entry does not count");
    }
    let mut consumer = Consumer::attach(ring).expect("a dead consumer's seat is free");
    let already = consumer.read_count().records + consumer.lapped().records;
    let (mut read, mut lapped, mut lost) = (Vec::new(), 0, 0);
    let mut drain = |consumer: &mut Consumer| {
        while let Some(item) = consumer.read().unwrap() {
            match item {
                Item::Record(record) => read.push(number_of(record.bytes)),
                Item::Lost(reported) if reported.cause == perfring_consumer::Cause::Lapped => {
                    lapped += reported.records;
                }
                Item::Lost(reported) => lost += reported.records,
            }
        }
        consumer.release();
    };
    drain(&mut consumer);
    let has_ranges = producer.layout().aux_size > 0;
    for number in reported.written..reported.written + 100 {
        let len = match number - reported.written {
            // All that was read was released: there is as much space as there can be.
            0 if has_ranges && policy == Policy::Drop => producer.max_len(),
            nth if has_ranges && nth % 9 == 1 => 6000,
            _ => 60,
        };
        producer.publish_as(NUMBERED, &numbered(number, len)).unwrap();
        if policy == Policy::Drop {
            drain(&mut consumer);
        }
    }
    drain(&mut consumer);
    let end = reported.written + 100;
    assert_eq!(already + lapped + read.len() as u64, end, "nothing lost, nothing read twice");
    assert!(read.is_sorted_by(|a, b| a < b) && read.last() == Some(&(end - 1)));
    if policy == Policy::Drop {
        assert!(read.iter().copied().eq(already..end));
        let totals = producer.totals();
        assert_eq!(totals.reported, totals.refused, "every loss is reported");
        assert_eq!(totals.refused.full.records, reported.full);
    }
    // An observer that saved its position before the death counts exactly the records that it missed.
    let mut observer = Observer::attach(ring, Start::At(start)).unwrap();
    let (mut seen, mut time) = (start.before.records, None);
    while let Some(item) = observer.read().unwrap() {
        match item {
            Item::Record(record) => {
                assert!(record.time >= time, "time does not go back from one producer to the next");
                time = record.time;
                assert_eq!(number_of(record.bytes), seen);
                seen += 1;
            }
            Item::Lost(reported) if reported.cause == perfring_consumer::Cause::Lapped => {
                seen += reported.records;
            }
            Item::Lost(_) => {}
        }
    }
    assert_eq!(seen, end);
    let types = types_in(&Snapshot::take(ring).unwrap());
    assert_eq!(types, [(NUMBERED_TYPE.id.get(), 1), (OTHER_TYPE.id.get(), 1)].into());
    lost
}

#[test]
fn a_death_at_any_instruction_costs_no_committed_record_of_a_drop_ring() {
    play(env!("CARGO_BIN_EXE_actor"), &drop_scenes(), STEPS_ALL);
}

#[test]
fn a_death_at_any_instruction_costs_no_committed_record_of_an_overwrite_ring() {
    play(env!("CARGO_BIN_EXE_actor"), &overwrite_scenes(), STEPS_ALL);
}

#[test]
fn a_death_at_any_instruction_costs_no_committed_payload_of_an_aux_area() {
    play(env!("CARGO_BIN_EXE_actor"), &large_scenes(), STEPS_ALL);
}

/// A producer and a consumer by the C headers, which know no batches.
#[test]
fn a_death_at_any_instruction_of_a_c_program_costs_no_committed_record() {
    let dir = ring_dir();
    let exe = c_peer(Build::C11, dir.path()).expect("a C compiler: install gcc");
    let mut scenes = drop_scenes();
    scenes.extend(overwrite_scenes());
    scenes.retain(|scene| scene.scenario != "batch");
    let timed = scenes.iter().filter(|scene| scene.options.time).count();
    assert_eq!(timed, 3, "with and without timestamps");
    play(exe.to_str().unwrap(), &scenes, STEPS_ALL_C);
}

fn play(exe: &str, scenes: &[Scene], steps_all: u64) {
    let steps_all = cases(steps_all, STEPS_LONG) as usize;
    let deaths_large = cases(DEATHS_LARGE, 400) as usize;
    let _cpu = OneCpu::take();
    let dir = ring_dir();
    let mut deaths = 0;
    for (at, scene) in scenes.iter().enumerate() {
        let template: PathBuf = dir.path().join(format!("template-{at}"));
        perfring_producer::files::create(&template, &scene.options).unwrap();
        (scene.prepare)(&template);
        let ring = dir.path().join("ring");
        let fresh = || {
            std::fs::copy(&template, &ring).unwrap();
        };
        fresh();
        Stepped::start(exe, &["kill", scene.scenario], &ring).kill();
        let before = inspect(&ring);
        let start = Observer::attach(&ring, Start::Latest).unwrap().saved();
        assert_eq!(start.before.records, before.written);

        fresh();
        let whole = Stepped::start(exe, &["kill", scene.scenario], &ring);
        let mut steps = 0;
        while !whole.step() {
            steps += 1;
            assert!(steps < STEPS_MAX, "{}: never reaches its second stop", scene.name);
        }
        whole.kill();
        let after = inspect(&ring);

        let mut changes = Vec::new();
        let (mut last, mut released) = (before, false);
        let mut stride = steps * steps / 2 / steps_all + 1;
        if scene.options.aux_size > 0 {
            // Its files are larger, and other scenes step through the code outside the AUX area.
            stride = stride.max(steps / deaths_large + 1);
        }
        // The last step is always among them.
        for steps in (0..=steps).rev().step_by(stride).collect::<Vec<_>>().into_iter().rev() {
            fresh();
            let actor = Stepped::start(exe, &["kill", scene.scenario], &ring);
            for _ in 0..steps {
                if actor.step() {
                    break; // a clock that was read quickly this time
                }
            }
            actor.kill();
            let reported = inspect(&ring);
            // All or nothing. Each death is in another process, and the same number of steps need
            // not lead to the same point: a clock is read again if the first reading took long, and the machine
            // may count two steps as one.
            let within = |of: fn(&Reported) -> u64| {
                assert!(
                    (of(&before)..=of(&after)).contains(&of(&reported)),
                    "{}, {steps} steps: {reported:?}, not from {before:?} to {after:?}",
                    scene.name
                );
            };
            within(|reported| reported.written);
            within(|reported| reported.full);
            within(|reported| reported.discarded);
            within(|reported| reported.types as u64);
            if reported != last {
                changes.push(steps);
            }
            last = reported;
            let lost = go_on(&ring, reported, start);
            // A consumer that died before it released leaves the loss to the next one.
            released |= lost < reported.full;
            let told = if released { 0 } else { reported.full };
            assert_eq!(lost, told, "{}, {steps} steps", scene.name);
            deaths += 1;
        }
        let takes = scene.scenario == "consume" && after.full > 0;
        assert_eq!(released, takes, "{}: losses are released by a consumer", scene.name);
        assert!(last == after || scene.options.time, "{}: {last:?}, {after:?}", scene.name);
        println!(
            "{}: {steps} steps, killed at every {stride}., changes at {changes:?}, {before:?} -> {after:?}",
            scene.name
        );
    }
    println!("{deaths} deaths, each survived");
}
