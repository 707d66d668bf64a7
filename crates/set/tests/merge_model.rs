//! The merge against a plain model, by a clock that the test advances: what is published in time
//! comes in order and within the delay, what is not comes at once and says by how much it is late,
//! and everything comes once and in the order of its ring.

use perfring_consumer::advanced::{Front, ReaderId, ResumePoint};
use perfring_consumer::{
    Anchors, Cause, Item, Lost, ReadError, RecordRef, Types,
    stat::{Count, Fill},
};
use perfring_set::{About, Merge, Source, SourceError};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const DELAY: u64 = 1_000_000;
const START: u64 = 10 * DELAY;

/// How often it is checked how full rings are, while one fills.
const FILLS_MOST: u64 = 200_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Thing {
    Record(Option<u64>),
    Loss,
    Damage,
}

/// A model of a ring: what is published is in a queue, and known once it is polled.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<VecDeque<(u64, Thing)>>>);

struct Fake {
    script: Script,
    /// What was there at the last poll,
    there: VecDeque<(u64, Thing)>,
    /// and of that, what was copied.
    known: VecDeque<(u64, Thing)>,
    taken: u64,
    size: u64,
    /// A few at a time, as an observer does.
    copies: bool,
    /// How long each poll takes that finds a record.
    stall: Duration,
}

/// So many are copied at a time.
const COPIED: usize = 3;

impl Fake {
    fn new(script: &Script, size: u64) -> Box<Self> {
        let (there, known) = Default::default();
        let (copies, stall) = Default::default();
        Box::new(Fake { script: script.clone(), there, known, taken: 0, size, copies, stall })
    }

    fn front(&self) -> Front {
        match self.known.front() {
            None if self.copies => Front::More,
            None | Some((_, Thing::Damage)) => Front::Empty,
            Some((_, Thing::Record(Some(timestamp)))) => Front::Timestamped(*timestamp),
            Some((_, Thing::Record(None))) => Front::Plain,
            Some((_, Thing::Loss)) => Front::Lost,
        }
    }
}

impl Source for Fake {
    fn peek(&mut self) -> Result<Front, SourceError> {
        if !self.copies {
            self.known.extend(self.script.0.lock().unwrap().drain(..));
        } else if self.known.is_empty() {
            if self.there.is_empty() {
                self.there.extend(self.script.0.lock().unwrap().drain(..));
            }
            let copied = self.there.len().min(COPIED);
            self.known.extend(self.there.drain(..copied));
        }
        if !self.known.is_empty() {
            let since = Instant::now();
            while since.elapsed() < self.stall {}
        }
        match self.known.front() {
            Some((pos, Thing::Damage)) => Err(ReadError::Corrupt { pos: *pos }.into()),
            None => Ok(Front::Empty),
            _ => Ok(self.front()),
        }
    }

    fn take(&mut self) -> Result<Option<(Item<'_>, Front)>, SourceError> {
        let Some((pos, thing)) = self.known.pop_front() else { return Ok(None) };
        self.taken += 1;
        let item = match thing {
            Thing::Record(time) => {
                Item::Record(RecordRef { pos, kind: 64, bytes: &[], time, writer: None })
            }
            Thing::Loss => {
                Item::Lost(Lost { pos, records: 1, bytes: 8, cause: Cause::Full, at_end: false })
            }
            Thing::Damage => return Err(ReadError::Corrupt { pos }.into()),
        };
        Ok(Some((item, self.front())))
    }

    fn resume_point(&self) -> ResumePoint {
        ResumePoint::new(ReaderId::default(), self.taken, Count::default())
    }
    fn release(&mut self, _: &ResumePoint) {}
    fn fill(&self) -> Fill {
        let known = self.there.len() + self.known.len();
        let published = self.script.0.lock().unwrap().len() + known;
        Fill { unread: published as u64, held: 0, size: self.size }
    }
    fn about(&self) -> About {
        About { uuid: [0; 16], data_size: 64, policy: None, timed: true }
    }
    fn anchors(&self) -> Anchors {
        Anchors::default()
    }
    fn types(&self) -> Types {
        Types::default()
    }
    fn has_more_types(&self, _: &Types) -> bool {
        false
    }
    fn has_producer(&self) -> bool {
        true
    }
}

/// A record of a source: with a timestamp so long after the one before it, published so long after that.
#[derive(Clone, Copy, Debug)]
struct Step {
    source: usize,
    after: u64,
    kept: u64,
    loss: bool,
}

struct Given {
    source: usize,
    pos: u64,
    time: u64,
    late: u64,
    at: u64,
    is_loss: bool,
}

/// One record: its timestamp, and when it is published.
#[derive(Clone, Copy, Debug)]
struct Plan {
    source: usize,
    pos: u64,
    timestamp: Option<u64>,
    published: u64,
    loss: bool,
}

fn plan(steps: &[Step], sources: usize, untimed: Option<usize>) -> Vec<Plan> {
    let mut timestamps = vec![START; sources];
    let mut published = vec![START; sources];
    let mut count = vec![0; sources];
    let mut plans = Vec::new();
    for step in steps {
        let source = step.source % sources;
        timestamps[source] += step.after;
        // A ring publishes in order.
        published[source] = published[source].max(timestamps[source] + step.kept);
        let timestamp = (untimed != Some(source)).then_some(timestamps[source]);
        let (pos, published) = (count[source], published[source]);
        plans.push(Plan { source, pos, timestamp, published, loss: step.loss });
        count[source] += 1;
    }
    plans.sort_by_key(|plan| plan.published); // stable: in the order of each ring
    plans
}

/// Advances the clock in steps, publishes what is due, and asks until there is nothing.
fn run(plans: &[Plan], sources: usize, tick: u64) -> (Vec<Given>, Merge) {
    let clock = Arc::new(AtomicU64::new(START));
    let by = clock.clone();
    let mut merge =
        Merge::with_clock(Duration::from_nanos(DELAY), move || by.load(Ordering::Relaxed));
    let scripts: Vec<Script> = (0..sources).map(|_| Script::default()).collect();
    let ids: HashMap<_, _> = scripts
        .iter()
        .enumerate()
        .map(|(at, script)| (merge.add(Fake::new(script, 1 << 20)), at))
        .collect();
    let last = plans.last().map_or(START, |plan| plan.published);
    let mut given = Vec::new();
    let mut plans = plans.iter().peekable();
    let mut now = START;
    while now < last + 3 * DELAY {
        now += tick;
        // Published before the clock is read, as a poll is after it.
        while let Some(plan) = plans.next_if(|plan| plan.published <= now) {
            let thing = if plan.loss { Thing::Loss } else { Thing::Record(plan.timestamp) };
            scripts[plan.source].0.lock().unwrap().push_back((plan.pos, thing));
        }
        clock.store(now, Ordering::Relaxed);
        while let Some(merged) = merge.next().unwrap() {
            let (pos, is_loss) = match merged.item {
                Item::Record(record) => (record.pos, false),
                Item::Lost(lost) => (lost.pos, true),
            };
            let (source, time, late) = (ids[&merged.source], merged.time, merged.late);
            given.push(Given { source, pos, time, late, at: now, is_loss });
        }
    }
    (given, merge)
}

fn steps(longest: u64) -> impl Strategy<Value = Vec<Step>> {
    // Some timestamps are the same in several rings.
    let after = prop_oneof![0..DELAY / 4, (0..4u64).prop_map(|n| n * DELAY / 16)];
    let step = (0..8usize, after, 0..=longest, prop::bool::weighted(0.05))
        .prop_map(|(source, after, kept, loss)| Step { source, after, kept, loss });
    prop::collection::vec(step, 0..200)
}

fn everything_once_and_in_the_order_of_its_ring(plans: &[Plan], given: &[Given], sources: usize) {
    assert_eq!(given.len(), plans.len());
    for source in 0..sources {
        let of = given.iter().filter(|given| given.source == source);
        assert!(
            of.map(|given| given.pos)
                .eq(0..plans.iter().filter(|plan| plan.source == source).count() as u64)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn what_is_published_in_time_comes_sorted_and_within_the_delay(
        steps in steps(DELAY / 2), sources in 1..8usize, tick in 1_000..DELAY / 4,
    ) {
        let plans = plan(&steps, sources, None);
        // What is published is seen at the next tick, which is not to be too late.
        let plans: Vec<_> =
            plans.into_iter().filter(|p| p.published + tick <= p.timestamp.unwrap() + DELAY / 2).collect();
        // Positions anew, as some are left out.
        let mut count = vec![0; sources];
        let plans: Vec<_> = plans
            .into_iter()
            .map(|p| {
                count[p.source] += 1;
                Plan { pos: count[p.source] - 1, loss: false, ..p }
            })
            .collect();
        let (given, merge) = run(&plans, sources, tick);
        everything_once_and_in_the_order_of_its_ring(&plans, &given, sources);
        let mut sorted: Vec<_> =
            plans.iter().map(|p| (p.timestamp.unwrap(), p.source, p.pos)).collect();
        sorted.sort_unstable();
        let given_order: Vec<_> = given.iter().map(|g| (g.time, g.source, g.pos)).collect();
        prop_assert_eq!(given_order, sorted);
        prop_assert_eq!(merge.figures().late, 0);
        for given in &given {
            prop_assert!(given.at <= given.time + DELAY + tick, "{} ns", given.at - given.time);
        }
    }

    #[test]
    fn what_comes_too_late_says_by_how_much_and_does_not_wait(
        steps in steps(3 * DELAY), sources in 1..8usize, tick in 1_000..DELAY / 4,
        untimed in prop::option::of(0..8usize),
    ) {
        let plans = plan(&steps, sources, untimed);
        let (given, merge) = run(&plans, sources, tick);
        everything_once_and_in_the_order_of_its_ring(&plans, &given, sources);
        let find = |g: &Given| {
            *plans.iter().find(|p| (p.source, p.pos) == (g.source, g.pos)).unwrap()
        };
        let (mut newest, mut late) = (0, 0);
        let mut last = vec![0; sources];
        for given in &given {
            let plan = find(given);
            prop_assert_eq!(given.is_loss, plan.loss);
            if given.is_loss {
                prop_assert_eq!((given.time, given.late), (last[given.source], 0));
                continue;
            }
            last[given.source] = given.time;
            prop_assert_eq!(given.late, u64::saturating_sub(newest, given.time));
            late += u64::from(given.late > 0);
            newest = newest.max(given.time);
            // Within the delay of its timestamp, or of its publication if that came later; without a
            // timestamp, of the poll that finds it, which may be after all before it is given.
            let found = if plan.timestamp.is_none() { DELAY } else { 0 };
            prop_assert!(given.at <= plan.published + found + DELAY + tick);
            match plan.timestamp {
                Some(timestamp) => prop_assert_eq!(given.time, timestamp),
                None => {
                    prop_assert!((plan.published..=given.at).contains(&given.time));
                    prop_assert_eq!(given.late, 0);
                }
            }
            // In time: never late, whatever the others do.
            if plan.timestamp.is_some_and(|s| plan.published + tick <= s + DELAY / 2) {
                prop_assert_eq!(given.late, 0);
            }
        }
        prop_assert_eq!(merge.figures().late, late);
    }
}

fn merge_at(clock: &Arc<AtomicU64>) -> Merge {
    let by = clock.clone();
    Merge::with_clock(Duration::from_nanos(DELAY), move || by.load(Ordering::Relaxed))
}

fn add(merge: &mut Merge, things: &[Thing]) -> (perfring_set::SourceId, Script) {
    let script = Script::default();
    for (pos, thing) in things.iter().enumerate() {
        script.0.lock().unwrap().push_back((pos as u64, *thing));
    }
    (merge.add(Fake::new(&script, 1 << 20)), script)
}

const fn at(timestamp: u64) -> Thing {
    Thing::Record(Some(timestamp))
}

#[test]
fn the_least_is_given_at_once_while_every_source_has_something() {
    let clock = Arc::new(AtomicU64::new(START));
    let mut merge = merge_at(&clock);
    add(&mut merge, &[at(START - 3), at(START)]);
    add(&mut merge, &[at(START - 3), at(START - 2)]);
    let mut times = Vec::new();
    while let Some(merged) = merge.next().unwrap() {
        times.push(START - merged.time);
    }
    // The last one waits: the second source may have something before it.
    assert_eq!(times, [3, 3, 2]);
    clock.fetch_add(DELAY, Ordering::Relaxed);
    assert_eq!(merge.next().unwrap().map(|merged| merged.time), Some(START));
}

#[test]
fn a_source_that_copies_is_polled_until_it_has_nothing() {
    let clock = Arc::new(AtomicU64::new(START));
    let mut merge = merge_at(&clock);
    let script = Script::default();
    script.0.lock().unwrap().extend((0..20).map(|pos| (pos, at(pos))));
    merge.add(Box::new(Fake { copies: true, ..*Fake::new(&script, 1 << 20) }));
    let mut given = 0;
    // The clock stands still: each poll is near the one before.
    while merge.next().unwrap().is_some() {
        given += 1;
    }
    assert_eq!(given, 20);
}

#[test]
fn a_wait_that_a_poll_outlasts_finds_what_is_due_by_its_end() {
    const TIMEOUT: Duration = Duration::from_millis(50);
    let since = Instant::now();
    let clock = move || START + since.elapsed().as_nanos() as u64;
    let mut merge = Merge::with_clock(Duration::from_nanos(DELAY), clock);
    let scripts = [Script::default(), Script::default()];
    for script in &scripts {
        merge.add(Box::new(Fake { stall: TIMEOUT, ..*Fake::new(script, 1 << 20) }));
    }
    scripts[0].0.lock().unwrap().push_back((0, at(clock())));
    assert!(merge.wait(TIMEOUT));
    assert!(merge.next().unwrap().is_some());
}

#[test]
fn a_damaged_source_is_reported_once_and_the_others_go_on() {
    let clock = Arc::new(AtomicU64::new(START));
    let mut merge = merge_at(&clock);
    let (good, script) = add(&mut merge, &[at(1), at(3)]);
    let (bad, _) = add(&mut merge, &[at(2), Thing::Damage]);
    let mut reported = Vec::new();
    for turn in 0..20 {
        match merge.next() {
            Ok(Some(merged)) => reported.push((merged.source, Some(merged.time))),
            Ok(None) => {
                clock.fetch_add(DELAY, Ordering::Relaxed);
            }
            Err((source, error)) => {
                assert!(error.to_string().contains("damaged"), "{error}");
                reported.push((source, None));
            }
        }
        if turn == 10 {
            script.0.lock().unwrap().push_back((2, at(START)));
        }
    }
    assert_eq!(
        reported,
        [(good, Some(1)), (bad, Some(2)), (good, Some(3)), (bad, None), (good, Some(START))]
    );
    assert!(merge.is_drained(bad));
    assert!(merge.remove(bad).is_some() && merge.remove(bad).is_none());
}

#[test]
fn a_timestamp_of_the_future_waits_for_nothing_and_makes_none_late() {
    let clock = Arc::new(AtomicU64::new(START));
    let mut merge = merge_at(&clock);
    let (odd, _) = add(&mut merge, &[at(u64::MAX), at(u64::MAX), at(u64::MAX - 1), at(5)]);
    let (_, script) = add(&mut merge, &[]);
    let mut times = Vec::new();
    while let Some(merged) = merge.next().unwrap() {
        times.push(merged.time);
    }
    assert_eq!(times, [u64::MAX, u64::MAX, u64::MAX - 1, 5]);
    assert!(merge.is_drained(odd));
    clock.fetch_add(DELAY, Ordering::Relaxed);
    script.0.lock().unwrap().push_back((0, at(START)));
    let merged = merge.next().unwrap().unwrap();
    assert_eq!((merged.time, merged.late), (START, 0));
}

#[test]
fn a_ring_that_is_half_full_does_not_wait() {
    let clock = Arc::new(AtomicU64::new(START));
    let mut merge = merge_at(&clock);
    let full = Script::default();
    merge.add(Fake::new(&full, 16));
    let (idle, script) = add(&mut merge, &[]);
    let put = |script: &Script, pos, timestamp| {
        script.0.lock().unwrap().push_back((pos, at(timestamp)));
    };
    let step = || clock.fetch_add(DELAY / 100, Ordering::Relaxed) + DELAY / 100;
    step();
    while merge.next().unwrap().is_some() {}
    // Seven of sixteen wait; the eighth makes it half full, and nothing waits any longer.
    for pos in 0..8 {
        let now = step();
        put(&full, pos, now);
        if pos == 6 {
            (0..20).for_each(|_| assert!(merge.next().unwrap().is_none()));
        }
    }
    let unpublished = clock.load(Ordering::Relaxed) - 1;
    let mut given = 0;
    for _ in 0..DELAY / FILLS_MOST {
        clock.fetch_add(FILLS_MOST / 4, Ordering::Relaxed);
        while let Some(merged) = merge.next().unwrap() {
            assert_eq!(merged.late, 0);
            given += 1;
        }
        if given > 0 {
            break;
        }
    }
    assert_eq!((given, merge.figures().hurried), (8, 1));
    let since = clock.load(Ordering::Relaxed) - START;
    assert!(since < DELAY / 2, "{since}: the delay alone would have done it");
    // What has an earlier timestamp and is published now is late, and reported as late.
    put(&script, 0, unpublished);
    step();
    clock.fetch_add(DELAY, Ordering::Relaxed);
    let merged = merge.next().unwrap().unwrap();
    assert_eq!((merged.source, merged.late), (idle, 1));
}

#[test]
fn sources_come_and_go_and_ids_are_not_given_twice() {
    let clock = Arc::new(AtomicU64::new(START));
    let mut merge = merge_at(&clock);
    let mut seen = std::collections::HashSet::new();
    let mut given = 0;
    for round in 0..50u64 {
        // One that waits, one that is idle, one whose turn it is.
        let ids = [
            add(&mut merge, &[at(round), at(round), at(START + round)]).0,
            add(&mut merge, &[]).0,
            add(&mut merge, &[at(round)]).0,
        ];
        for id in ids {
            assert!(seen.insert(id), "{id} again");
        }
        clock.fetch_add(DELAY / 7, Ordering::Relaxed);
        while merge.next().unwrap().is_some() {
            given += 1;
        }
        assert_eq!(merge.sources().count(), 3 + round as usize);
        // Each in turn is removed; those of earlier rounds were removed before.
        assert!(merge.remove(ids[round as usize % 3]).is_some());
        assert!(merge.remove(ids[round as usize % 3]).is_none());
        assert!(merge.remove(ids[(round as usize + 1) % 3]).is_some());
        assert!(merge.resume_point(ids[(round as usize + 1) % 3]).is_none());
        assert!(merge.source(ids[(round as usize + 2) % 3]).is_some());
    }
    println!("{given} given, {} left", merge.sources().count());
    assert!(given >= 150);
    assert_eq!(merge.sources().count(), 50);
}

#[test]
fn a_thousand_idle_sources_are_looked_at_twice_a_delay() {
    let clock = Arc::new(AtomicU64::new(START));
    let mut merge = merge_at(&clock);
    for _ in 0..1000 {
        add(&mut merge, &[]);
    }
    let (_, script) = add(&mut merge, &[]);
    // Let them come to rest.
    for _ in 0..100 {
        clock.fetch_add(DELAY / 10, Ordering::Relaxed);
        assert!(merge.next().unwrap().is_none());
    }
    let before = merge.figures().polls;
    let mut given = 0;
    for pos in 0..1000u64 {
        let now = clock.fetch_add(DELAY / 100, Ordering::Relaxed);
        script.0.lock().unwrap().push_back((pos, at(now)));
        while merge.next().unwrap().is_some() {
            given += 1;
        }
    }
    // Ten delays: twenty polls of each, and some of the one that is busy.
    let polls = merge.figures().polls - before;
    println!("{given} given with {polls} polls of 1,001 sources in ten delays");
    assert!(given > 850, "{given}");
    assert!(polls <= 21 * 1001 + 1000, "{polls}");
}
