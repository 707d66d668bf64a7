//! A producer of a shared ring is killed by SIGKILL, or stopped and left standing, wherever what it
//! does changes the ring, while three other producers are at it: no hook, the very code that ships.
//!
//! The victim is stepped, instruction by instruction, from a stop of its own to the next, and the
//! ring file is compared after each: a death between two changes is a death after the first of
//! them, so every state that a death can leave is played, and some deaths in between. What attaching
//! does before it first writes to the ring is played call by call of the system.
//!
//! With `PERFRING_ALL=1`, each death is found by every kind of finder: it takes three times as long.
//!
//! Tried by breaking the library on purpose: each of these fails here. Never asking who lives; taking
//! all for dead; taking over without sweeping, or without mending `producer_pos`; not settling a
//! slot's counts; publishing a reservation before its header word; counting a record after its
//! commit; leaving the ledger believed after a death; moving `data_tail` before its mark; not asking
//! after an owner that records are published behind; counting a contended call as another cause; a
//! sleeping consumer that recovers nothing; reclaiming uncounted; ending a reservation without moving
//! `data_head`; telling a loss under a count that is not tied to its place.
#![allow(clippy::unwrap_used, clippy::panic)]

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use perfring_consumer::{AttachError, Consumer, Count, Item, Policy, Snapshot, Stat, recover};
use perfring_producer::{
    Evict, Options, ReserveError, SharedProducer, SharedReservation, create, record_size,
};
use perfring_tests::shared::{Raw, Told, balance, said, sum, teller};
use perfring_tests::{NUMBERED, actor, ring_dir};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Enough for the longest scenario; one that never stops is a failure.
const STEPS_MAX: usize = 200_000;
/// Deaths of a scene that are spread over its steps, besides those after each change.
const SPREAD: usize = 8;
/// Who steps, as its payloads say.
const VICTIM: u64 = 9;
/// The others promise to be done within this, and nearly always are; the machine may be busy.
const SOON: Duration = Duration::from_millis(100);
/// No call may take longer, however busy the machine.
const BOUND: Duration = Duration::from_secs(2);

struct Stepped {
    child: Child,
    pid: Pid,
}

impl Stepped {
    /// A victim at its first stop.
    fn start(scenario: &str, ring: &Path) -> Self {
        let mut command = actor(env!("CARGO_BIN_EXE_sharer"), &["step", scenario], ring);
        // Not a step for the dynamic linker.
        command.env("LD_BIND_NOW", "1");
        let child = command.stdin(Stdio::null()).spawn().expect("a victim");
        let pid = Pid::from_raw(child.id() as i32);
        let stepped = Stepped { child, pid };
        assert!(stepped.stopped(), "the victim should have stopped itself");
        stepped
    }

    /// Waits for a stop. Returns whether it is one of its own.
    fn stopped(&self) -> bool {
        match waitpid(self.pid, None).expect("a stop") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => false,
            WaitStatus::Stopped(_, Signal::SIGSTOP) => true,
            other => panic!("the victim should have stopped, but {other:?}"),
        }
    }

    /// One instruction on. Returns whether it has reached its second stop.
    fn step(&self) -> bool {
        ptrace::step(self.pid, None).expect("a step");
        self.stopped()
    }

    /// To the beginning or the end of the next system call. Returns as [`Stepped::step`].
    fn call(&self) -> bool {
        ptrace::syscall(self.pid, None).expect("a step");
        self.stopped()
    }

    fn kill(mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("a death");
    }

    /// Lets it go on to its end.
    fn go_on(self, done: bool) {
        ptrace::cont(self.pid, None).expect("it goes on");
        if !done {
            assert!(self.stopped());
            ptrace::cont(self.pid, None).expect("it goes on");
        }
        match waitpid(self.pid, None).expect("an end") {
            WaitStatus::Exited(_, 0) => {}
            other => panic!("the victim should have ended well, but {other:?}"),
        }
    }
}

/// Where the victim stands still.
#[derive(Clone, Copy, Debug)]
enum At {
    /// After so many beginnings and ends of system calls.
    Call(usize),
    /// After so many changes of the ring.
    Change(usize),
    /// After so many instructions.
    Step(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Death,
    Stop,
}

/// What is done to a ring, and what was done to it before.
struct Scene {
    name: &'static str,
    scenario: &'static str,
    options: Options,
    /// Records of the victim if it is not hindered.
    records: u64,
    /// Another has a reservation open before the victim's.
    before: bool,
    /// Before anybody else attaches.
    template: fn(&Path),
    /// Before the victim is started.
    prepare: fn(&mut Others<'_>),
    /// When the victim stands at its first stop.
    ready: fn(&mut Others<'_>),
    /// The victim gets the slot of one that died.
    heir: bool,
}

/// The other producers, numbered 1 to 3, and a consumer if there is one already.
struct Others<'a> {
    ring: &'a Path,
    producers: &'a [SharedProducer; 3],
    /// Records of each that are committed, or will be when its reservation is.
    seqs: [u64; 3],
    before: Option<SharedReservation<'a>>,
    after: Option<SharedReservation<'a>>,
    told: Told,
    consumer: Option<Consumer>,
    /// Calls that were refused, by the first word of the reason.
    refused: BTreeMap<String, u64>,
    longest: Duration,
}

impl<'a> Others<'a> {
    fn count<T>(
        &mut self,
        who: usize,
        records: u64,
        outcome: Result<T, ReserveError>,
    ) -> Result<T, ReserveError> {
        match &outcome {
            Ok(_) => self.seqs[who] += records,
            Err(error) => {
                let word = format!("{error:?}");
                let word = word.split(' ').next().unwrap_or_default().to_owned();
                *self.refused.entry(word).or_default() += 1;
            }
        }
        outcome
    }

    fn timed<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let done = call();
        self.longest = self.longest.max(since.elapsed());
        done
    }

    fn publish(&mut self, who: usize, len: usize) -> Result<(), ReserveError> {
        let payload = said(who as u64 + 1, self.seqs[who], len);
        let producers = self.producers;
        let outcome = self.timed(|| producers[who].publish(NUMBERED, &payload));
        self.count(who, 1, outcome)
    }

    fn reserve(&mut self, who: usize, len: usize) -> Result<SharedReservation<'a>, ReserveError> {
        let payload = said(who as u64 + 1, self.seqs[who], len);
        let producers = self.producers;
        let outcome = self.timed(|| producers[who].reserve(NUMBERED, len));
        let mut record = self.count(who, 1, outcome)?;
        record.copy_from_slice(&payload);
        Ok(record)
    }

    fn batch(&mut self, who: usize) -> Result<(), ReserveError> {
        let producers = self.producers;
        let first = self.seqs[who];
        let outcome = self.timed(|| {
            let mut batch = producers[who].batch(2 * record_size(50) as usize)?;
            for seq in first..first + 2 {
                assert!(batch.push(NUMBERED, &said(who as u64 + 1, seq, 50)));
            }
            Ok(())
        });
        self.count(who, 2, outcome)
    }

    fn discard(&mut self, who: usize) -> Result<(), ReserveError> {
        let producers = self.producers;
        let outcome =
            self.timed(|| producers[who].reserve(NUMBERED, 30).map(SharedReservation::discard));
        self.count(who, 0, outcome)
    }

    fn end_open(&mut self) {
        let open = [self.before.take(), self.after.take()];
        self.timed(|| open.into_iter().flatten().for_each(SharedReservation::commit));
    }

    fn drain(&mut self) {
        let consumer = self
            .consumer
            .get_or_insert_with(|| Consumer::attach(self.ring).expect("the place is free"));
        self.told.drain(consumer);
    }
}

// What the rings have behind them.

fn few(ring: &Path) {
    let producer = SharedProducer::attach(ring).unwrap();
    for seq in 0..10 {
        producer.publish(NUMBERED, &said(0, seq, 40)).unwrap();
    }
}

/// The book is due with the next record.
fn nearly_a_quarter(ring: &Path) {
    let producer = SharedProducer::attach(ring).unwrap();
    for seq in 0..42 {
        producer.publish(NUMBERED, &said(0, seq, 40)).unwrap();
    }
}

/// Gone round several times.
fn lapped(ring: &Path) {
    let producer = SharedProducer::attach(ring).unwrap();
    for seq in 0..500 {
        producer.publish(NUMBERED, &said(0, seq, 8 + seq as usize % 90)).unwrap();
    }
    producer.reserve(NUMBERED, 50).unwrap().discard();
}

/// The AUX area has gone round; of its ranges no record stands any more.
fn rounds(ring: &Path) {
    let producer = SharedProducer::attach(ring).unwrap();
    for seq in 0..500 {
        let len = if seq < 10 { 9000 } else { 8 + seq as usize % 90 };
        producer.publish(NUMBERED, &said(0, seq, len)).unwrap();
    }
}

fn nothing(_: &mut Others<'_>) {}

/// To the brim.
fn fill(others: &mut Others<'_>) {
    while others.publish(2, 40).is_ok() {}
}

fn make_room(others: &mut Others<'_>) {
    others.drain();
}

fn end_before(others: &mut Others<'_>) {
    others.end_open();
}

/// The victim's slot was another's, which died under the lock, or with its reservation open.
fn predecessor(others: &mut Others<'_>, dies: fn(&Raw) -> bool) {
    let stepped = Stepped::start("commit", others.ring);
    let (file, mut raw) = (File::open(others.ring).unwrap(), Raw::read(others.ring));
    while !dies(&raw) {
        assert!(!stepped.step(), "the predecessor comes there");
        raw.again(&file);
    }
    stepped.kill();
}

fn dead_locked(others: &mut Others<'_>) {
    predecessor(others, |raw| raw.locked_by() == Some(HEIR_SLOT));
}

fn dead_open(others: &mut Others<'_>) {
    predecessor(others, |raw| raw.open(HEIR_SLOT) == 1 && raw.locked_by().is_none());
}

/// The fourth attaches to a ring of four slots in which nobody was before.
const HEIR_SLOT: u32 = 3;

fn scene(
    name: &'static str,
    scenario: &'static str,
    options: Options,
    template: fn(&Path),
) -> Scene {
    let records = match scenario {
        "batch" => 3,
        "discard" | "range discard" | "attach" | "detach" => 0,
        _ => 1,
    };
    Scene {
        name,
        scenario,
        options,
        records,
        before: false,
        template,
        prepare: nothing,
        ready: nothing,
        heir: false,
    }
}

fn drop_scenes() -> Vec<Scene> {
    let o = Options { size: 8192, slots: 8, ..Options::many() };
    let four = Options { slots: 4, ..o };
    let plain = vec![
        scene("publish", "publish", o, few),
        scene("publish, with the book", "publish", o, nearly_a_quarter),
        scene("publish in two steps", "large", o, few),
        scene("reserve and commit", "commit", o, few),
        scene("reserve and commit shorter", "shorter", o, few),
        scene("discard", "discard", o, few),
        scene("batch", "batch", o, few),
        Scene { records: 0, prepare: fill, ..scene("refused", "publish", o, few) },
        Scene { prepare: fill, ready: make_room, ..scene("telling a loss", "tell", o, few) },
        scene("attach", "attach", o, few),
        Scene {
            prepare: fill,
            ready: make_room,
            ..scene("detach, telling a loss", "detach", o, few)
        },
    ];
    let mut scenes = with_and_without(plain);
    let heir = |name, prepare| Scene { prepare, heir: true, ..scene(name, "attach", four, |_| {}) };
    scenes.push(heir("attach after a death under the lock", dead_locked));
    scenes.push(heir("attach after a death with one open", dead_open));
    scenes
}

fn overwrite_scenes() -> Vec<Scene> {
    let o = Options { size: 8192, slots: 8, policy: Policy::Overwrite, ..Options::many() };
    let half = Options { evict: Evict::Half, ..o };
    let plain = vec![
        scene("publish", "publish", o, lapped),
        scene("publish in two steps", "large", o, lapped),
        scene("reserve and commit", "commit", o, lapped),
        scene("reserve and commit shorter", "shorter", o, lapped),
        scene("discard", "discard", o, lapped),
        scene("batch", "batch", o, lapped),
        scene("attach", "attach", o, lapped),
        scene("by halves, publish", "publish", half, lapped),
        scene("by halves, publish in two steps", "large", half, lapped),
        scene("by halves, batch", "batch", half, lapped),
    ];
    let mut scenes = with_and_without(plain);
    let held = |name, scenario| Scene {
        before: true,
        prepare: fill,
        ready: end_before,
        ..scene(name, scenario, o, |_| {})
    };
    scenes.push(held("telling a loss", "tell"));
    scenes.push(held("detach, telling a loss", "detach"));
    scenes.push(Scene {
        records: 0,
        ready: nothing,
        ..held("refused behind an open one", "publish")
    });
    scenes
}

/// Of reservations in the AUX area.
fn large_scenes() -> Vec<Scene> {
    let o = Options { size: 8192, aux_size: 64 << 10, slots: 8, ..Options::many() };
    let over = Options { policy: Policy::Overwrite, ..o };
    with_and_without(vec![
        scene("reserve a range and commit", "range", o, few),
        scene("discard a range", "range discard", o, few),
        scene("overwrite, reserve a range and commit", "range", over, rounds),
        scene("overwrite, discard a range", "range discard", over, rounds),
    ])
}

fn with_and_without(plain: Vec<Scene>) -> Vec<Scene> {
    plain.into_iter().flat_map(|scene| [Scene { before: true, ..scene }, scene]).collect()
}

/// A stop is looked at with the one before open, and then without.
fn with_one_before(scenes: Vec<Scene>) -> Vec<Scene> {
    scenes.into_iter().filter(|scene| scene.before || scene.heir).collect()
}

/// How a play ended.
struct Played {
    /// Records of the victim in the stream.
    records: u64,
    /// Its reservations that became holes.
    reclaimed: u64,
    took: Duration,
    refused: BTreeMap<String, u64>,
}

/// The steps of a scene.
struct Walk {
    /// Beginnings and ends of system calls before the first change.
    calls: usize,
    /// Instructions from there on.
    steps: usize,
    /// After which of them the ring had changed, and where.
    changes: Vec<(usize, &'static str)>,
}

struct Stage<'a> {
    scene: &'a Scene,
    template: PathBuf,
    ring: PathBuf,
}

impl Stage<'_> {
    /// Sets everything up to the victim's first stop, then has `act` do the rest.
    fn with<T>(&self, act: impl FnOnce(Others<'_>, Stepped, u32) -> T) -> T {
        let _ = std::fs::remove_file(&self.ring);
        std::fs::copy(&self.template, &self.ring).unwrap();
        let attach = || SharedProducer::attach(&self.ring).unwrap();
        let producers = [attach(), attach(), attach()];
        let mut others = Others {
            ring: &self.ring,
            producers: &producers,
            seqs: [0; 3],
            before: None,
            after: None,
            told: Told::default(),
            consumer: None,
            refused: BTreeMap::new(),
            longest: Duration::ZERO,
        };
        if self.scene.before {
            others.before = Some(others.reserve(0, 60).unwrap());
        }
        (self.scene.prepare)(&mut others);
        let victim = Stepped::start(self.scene.scenario, &self.ring);
        (self.scene.ready)(&mut others);
        // Fresh slots come first, in order.
        let slot = producers[2].slot() + 1;
        assert!(!self.scene.heir || slot == HEIR_SLOT);
        act(others, victim, slot)
    }

    fn walk(&self) -> Walk {
        let calls = self.with(|_, victim, _| {
            let (file, before) = (File::open(&self.ring).unwrap(), Raw::read(&self.ring));
            let (mut now, mut calls) = (before.clone(), 0);
            while now == before && !victim.call() {
                calls += 1;
                now.again(&file);
            }
            victim.kill();
            if now == before { 0 } else { calls - 1 }
        });
        self.with(|_, victim, _| {
            (0..calls).for_each(|_| assert!(!victim.call()));
            let (file, mut last) = (File::open(&self.ring).unwrap(), Raw::read(&self.ring));
            let (mut now, mut steps, mut changes) = (last.clone(), 0, Vec::new());
            while !victim.step() {
                steps += 1;
                assert!(steps < STEPS_MAX, "{}: never reaches its second stop", self.scene.name);
                now.again(&file);
                if now != last {
                    let at = now.bytes.iter().zip(&last.bytes).position(|(a, b)| a != b);
                    changes.push((steps, now.part(at.unwrap())));
                    std::mem::swap(&mut now, &mut last);
                }
            }
            victim.kill();
            Walk { calls, steps, changes }
        })
    }

    /// Brings the victim there. Returns whether it is at its second stop.
    fn bring(&self, victim: &Stepped, walk: &Walk, at: At) -> bool {
        if let At::Call(calls) = at {
            return (0..calls).any(|_| victim.call());
        }
        if (0..walk.calls).any(|_| victim.call()) {
            return true;
        }
        let (file, mut last) = (File::open(&self.ring).unwrap(), Raw::read(&self.ring));
        let mut now = last.clone();
        let mut left = match at {
            At::Call(left) | At::Change(left) | At::Step(left) => left,
        };
        while left > 0 {
            if victim.step() {
                return true;
            }
            if matches!(at, At::Change(_)) {
                now.again(&file);
                if now == last {
                    continue;
                }
                std::mem::swap(&mut now, &mut last);
            }
            left -= 1;
        }
        false
    }

    /// One death, or stop. `round` varies who finds it.
    fn play(&self, walk: &Walk, at: At, fate: Fate, round: usize) -> Played {
        let scene = self.scene;
        let drop_ring = scene.options.policy == Policy::Drop;
        self.with(|mut others, victim, slot| {
            let pre = Raw::read(&self.ring).open(slot);
            let done = self.bring(&victim, walk, at);
            let raw = Raw::read(&self.ring);
            let locked = raw.locked_by();
            // Refusals that are right while the victim lives and stands.
            let alive_before = others.before.is_some().then(|| others.producers[0].slot());
            let may = |error: ReserveError| match error {
                ReserveError::Contended { slot: by } => locked == Some(by),
                ReserveError::Pending { slot: by } => Some(by) == alive_before || by == slot,
                ReserveError::Full => drop_ring,
                _ => false,
            };
            // Another reservation after the victim's, if the victim has not the lock.
            match others.reserve(1, 60) {
                Ok(record) => others.after = Some(record),
                Err(error) => assert!(may(error), "{error:?} {at:?} {locked:?}"),
            }
            if fate == Fate::Stop {
                self.stand(&mut others, slot, may, round);
                victim.go_on(done);
                return self.finish(others, slot, None, Duration::ZERO);
            }
            victim.kill();
            let raw = Raw::read(&self.ring);
            let open = raw.open(slot);
            if round.is_multiple_of(4) {
                self.inspect(&raw, slot);
            }
            let since = Instant::now();
            match round % 3 {
                // Whoever publishes.
                0 => {
                    let kept = others.before.as_ref().map(|_| others.producers[0].slot());
                    match others.publish(2, 40) {
                        Ok(()) => {}
                        Err(ReserveError::Full) if drop_ring => {}
                        Err(ReserveError::Pending { slot: by }) if Some(by) == kept => {}
                        Err(error) => panic!("{at:?}: {error:?}"),
                    }
                    others.end_open();
                    self.publish_past(&mut others, slot);
                }
                // Whoever consumes: asleep, with nobody else to act.
                1 => {
                    others.end_open();
                    self.read_asleep(&mut others, slot, at);
                }
                // Somebody by hand.
                _ => {
                    let recovered = recover(&self.ring).unwrap();
                    let lock = raw.locked_by().filter(|_| locked.is_some());
                    assert_eq!(recovered.lock, lock, "{at:?}");
                    let swept = (open > 0).then_some((slot, open));
                    assert_eq!(recovered.swept, swept.into_iter().collect::<Vec<_>>(), "{at:?}");
                    others.end_open();
                }
            }
            let took = since.elapsed();
            self.finish(others, slot, Some(open + if scene.heir { pre - open } else { 0 }), took)
        })
    }

    /// Nobody needs the space, nobody sleeps: the ring goes on all the same, soon.
    fn publish_past(&self, others: &mut Others<'_>, slot: u32) {
        let mut calls = 0;
        while Raw::read(&self.ring).open(slot) > 0 {
            let published = others.publish(2, 8);
            assert!(matches!(published, Ok(()) | Err(ReserveError::Full)), "{published:?}");
            calls += 1;
            assert!(calls <= 64, "{}: still held up", self.scene.name);
        }
    }

    /// What the file of the dead tells before anybody has acted.
    fn inspect(&self, raw: &Raw, slot: u32) {
        let snapshot = Snapshot::take(&self.ring).unwrap();
        let mut found = 0;
        for item in &snapshot {
            if let Item::Record(record) = item.unwrap() {
                let _ = teller(record.bytes);
                found += 1;
            }
        }
        let totals = *snapshot.totals();
        let p = totals.producer;
        assert_eq!(found, totals.present.records + totals.stranded.records);
        assert_eq!(
            p.pos,
            p.written.bytes + p.discarded.bytes + p.reclaimed.bytes + 32 * p.lost_markers
        );
        let gone = match self.scene.options.policy {
            Policy::Drop => totals.consumer.read,
            Policy::Overwrite => totals.overwritten,
        };
        assert_eq!(p.written, gone.plus(totals.present));
        let stat = Stat::read(&self.ring).unwrap();
        if !self.scene.heir {
            // The slots count what is committed and not yet published as well: single records, by
            // their words, and of the victim's batch either nothing or all.
            let beyond =
                raw.beyond().iter().filter(|(_, w)| w.is_data() && w.owner().is_none()).count()
                    as u64;
            let sum: u64 = stat.producers.iter().map(|one| one.figures.written.records).sum();
            assert_eq!(sum, p.written.records + beyond, "{stat:#?}");
        }
        let held =
            raw.locked_by().or_else(|| raw.beyond().first().and_then(|(_, word)| word.owner()));
        assert_eq!(
            stat.held_up.as_ref().map(|held| held.slot),
            held,
            "{raw:?}",
            raw = raw.beyond()
        );
        if let Some(held) = stat.held_up {
            assert_eq!(held.alive, held.slot != slot);
        }
    }

    /// The consumer sleeps; all that is committed comes to it.
    fn read_asleep(&self, others: &mut Others<'_>, slot: u32, at: At) {
        let raw = Raw::read(&self.ring);
        assert!(raw.beyond().iter().all(|(_, word)| word.owner().is_none_or(|by| by == slot)));
        let behind =
            raw.beyond().iter().filter(|(_, w)| w.is_data() && w.owner().is_none()).count() as u64;
        others.drain();
        let Some(consumer) = &mut others.consumer else { return };
        let want = others.told.records
            + if consumer.position() >= raw.field("producer_pos") { 0 } else { behind };
        while others.told.records < want {
            assert!(
                consumer.wait(Duration::from_secs(5)),
                "{}: {at:?}: {behind} committed records are not seen: {:?}",
                self.scene.name,
                raw.beyond()
            );
            others.told.drain(consumer);
        }
    }

    /// The victim stands. Everybody else gets an answer, and nobody robs it.
    fn stand(
        &self,
        others: &mut Others<'_>,
        slot: u32,
        may: impl Fn(ReserveError) -> bool,
        round: usize,
    ) {
        let mut answers = Vec::new();
        for call in 0..2 {
            answers.push(others.publish(2, 40));
            if call == 0 {
                others.end_open();
            }
            answers.push(others.publish(1, 600));
            answers.push(others.batch(0));
            answers.push(others.discard(2));
        }
        let since = Instant::now();
        let producers = others.producers;
        let payload = said(1, others.seqs[0], 40);
        let waited = producers[0].publish_timeout(NUMBERED, &payload, Duration::from_millis(2));
        assert!(since.elapsed() < BOUND);
        answers.push(others.count(0, 1, waited));
        for error in answers.iter().filter_map(|answer| answer.err()) {
            assert!(may(error), "{error:?}");
        }
        assert!(others.longest < BOUND, "{:?}", others.longest);
        // Counted by cause.
        let refused = sum(producers.iter().map(SharedProducer::refused));
        let counted = |cause: &str| others.refused.get(cause).copied().unwrap_or_default();
        assert_eq!(refused.full.records, counted("Full"));
        assert_eq!(refused.pending.records, counted("Pending"));
        assert_eq!(refused.contended.records, counted("Contended"));
        let raw = Raw::read(&self.ring);
        let first = raw.beyond().first().and_then(|(_, word)| word.owner());
        let held = raw.locked_by().or(first);
        assert!(held.is_none_or(|by| by == slot), "the others have nothing open");
        if round.is_multiple_of(3) || held.is_none() {
            let stat = Stat::read(&self.ring).unwrap();
            // Before an heir has taken the slot it is its predecessor's, who is dead.
            let found = stat.held_up.as_ref();
            assert_eq!(found.map(|held| held.slot), held);
            assert!(found.is_none_or(|held| held.alive || self.scene.heir));
            if let Some(held) = stat.held_up {
                assert_eq!(held.locked, raw.locked_by() == Some(slot));
            }
            if self.scene.heir {
                return; // there is something to recover
            }
            assert_eq!(stat.totals.unwrap().producer.reclaimed, Count::default());
            match recover(&self.ring) {
                Ok(recovered) => assert!(recovered.swept.is_empty() && recovered.lock.is_none()),
                Err(error) => assert!(
                    matches!(error, AttachError::HeldUp { slot: by, .. } if raw.locked_by() == Some(by)),
                    "{error}"
                ),
            }
        }
    }

    /// Everybody goes on, and the sums are drawn.
    fn finish(
        &self,
        mut others: Others<'_>,
        slot: u32,
        open: Option<u64>,
        took: Duration,
    ) -> Played {
        let scene = self.scene;
        let drop_ring = scene.options.policy == Policy::Drop;
        others.drain();
        for who in 0..3 {
            // The last in the AUX area, where there is one.
            let lens =
                if scene.options.aux_size > 0 { &[100, 1000, 9000][..] } else { &[100, 1000] };
            for &len in lens {
                // At the first call.
                others.publish(who, len).unwrap();
            }
            others.discard(who).unwrap();
            others.batch(who).unwrap();
            others.drain();
        }
        let (seqs, ring, refused) = (others.seqs, others.ring, std::mem::take(&mut others.refused));
        let Others { mut told, consumer, .. } = others;
        let mut consumer = consumer.unwrap();
        // One more, and what it finds.
        SharedProducer::attach(ring).map_or_else(
            |error| assert!(scene.heir && matches!(error, AttachError::Slots { .. }), "{error}"),
            |more| more.publish(NUMBERED, &said(4, 0, 40)).unwrap(),
        );
        told.drain(&mut consumer);
        for (who, seqs) in (1..).zip(seqs) {
            // All of them; in an overwrite ring the newest of them.
            let found = told.by(who);
            let first = if drop_ring { 0 } else { seqs - found.len() as u64 };
            assert!(found.iter().copied().eq(first..seqs), "{who}: {found:?} of {seqs}");
        }
        let prepared = told.by(0);
        assert!(prepared.is_sorted_by(|a, b| a + 1 == *b), "{prepared:?}");
        drop(consumer);

        let stat = balance(ring, !scene.heir);
        let totals = stat.totals.unwrap();
        let told_lost: u64 = told.lost.values().sum();
        let lapped = told.lost(perfring_consumer::Cause::Lapped);
        assert_eq!(told_lost - lapped, totals.producer.told.total().records);
        assert_eq!(told.records + lapped, totals.producer.written.records);
        // If it died before it had signed, its slot is another's now.
        let victim =
            stat.producers.iter().map(|one| &one.figures).find(|one| one.who.name == "victim");
        let reclaimed = totals.producer.reclaimed.records;
        let records = victim.map_or(0, |figures| figures.written.records);
        // Who was to be refused may have waited until it no longer was.
        let all = if open.is_none() { scene.records.max(records.min(1)) } else { scene.records };
        assert!(records == 0 || records == all, "all or nothing");
        let found = told.by(VICTIM);
        let first = if drop_ring { 0 } else { records - found.len() as u64 };
        assert!(found.iter().copied().eq(first..records), "{found:?} of {records}");
        if !scene.heir {
            let figures = victim.cloned().unwrap_or_default();
            assert_eq!(figures.reclaimed.records, reclaimed);
            assert!(reclaimed <= 1);
            assert_eq!(reclaimed, open.unwrap_or(0), "exactly what it had open");
            // All that is untold is the dead one's.
            let untold = figures.refused.total().records - figures.told.total().records;
            assert_eq!(totals.untold().records, untold + others_untold(&stat, slot));
        }
        Played { records, reclaimed, took, refused }
    }
}

/// A processor for one test: a victim that is stepped on the one where its tracer runs is stepped
/// many times as fast as on another.
struct OneCpu(usize);

static TAKEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl OneCpu {
    fn take() -> Option<Self> {
        let may = sched_getaffinity(Pid::from_raw(0)).ok()?;
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let free = |cpu: &usize| may.is_set(*cpu).unwrap_or(false) && !taken.contains(cpu);
        let cpu = (0..CpuSet::count()).find(free)?;
        taken.push(cpu);
        let mut one = CpuSet::new();
        one.set(cpu).ok()?;
        sched_setaffinity(Pid::from_raw(0), &one).ok()?;
        Some(OneCpu(cpu))
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|cpu| *cpu != self.0);
    }
}

/// What living producers have still to tell.
fn others_untold(stat: &Stat, slot: u32) -> u64 {
    let others = stat.producers.iter().filter(|one| one.figures.slot != slot);
    others.map(|one| one.figures.refused.total().records - one.figures.told.total().records).sum()
}

fn run(scenes: &[Scene], fate: Fate) {
    let refusals = run_of(scenes, fate, &PARTS);
    assert!(refusals.contains_key("Contended"), "nobody ever met the lock: {refusals:?}");
}

/// What a walk through all of a scene's steps changes, some of them at least.
const PARTS: [&str; 9] = [
    "shared_lock",
    "producer_pos",
    "data_head",
    "slot written",
    "slot losses",
    "slot holder",
    "data",
    "ledger_written",
    "ledger",
];

/// Returns what was refused, by the first word of the reason.
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
        // Payload bytes are nobody's before the record ends: of a run of them the first and last.
        let is_data = |at: usize| {
            walk.changes.get(at).is_none_or(|(_, part)| matches!(*part, "data" | "aux"))
        };
        let inside = |at: usize| is_data(at - 2) && is_data(at - 1) && is_data(at);
        let distinct = (1..=changes).filter(|at| *at < 2 || *at == changes || !inside(*at));
        let finders = if fate == Fate::Death && all { 0..3 } else { 0..1 };
        let mut plays_of: Vec<(At, usize)> = Vec::new();
        // Who finds it: the sleeping consumer when nothing but `data_head` is behind.
        for at in distinct.clone() {
            let round = changes - at + usize::from(scene.before);
            plays_of.extend(finders.clone().map(|finder| (At::Change(at), round + finder)));
        }
        let calls = (0..=walk.calls).step_by(walk.calls / 16 + 1).map(At::Call);
        let steps = (1..=walk.steps).step_by(walk.steps / SPREAD + 1).map(At::Step);
        plays_of.extend(calls.chain(steps).chain([At::Step(walk.steps)]).zip(0..));
        let (mut reclaimed, mut committed) = (0, None);
        let since = Instant::now();
        let count = plays_of.len();
        for (at, round) in plays_of {
            let played = stage.play(&walk, at, fate, round);
            late += usize::from(played.took > SOON);
            longest = longest.max(played.took);
            reclaimed += played.reclaimed;
            if let (At::Change(change), true) = (at, played.records > 0) {
                committed = committed.or(Some(change));
            }
            if let (At::Change(_), 0, Some(change)) = (at, played.records, committed) {
                assert_eq!(fate, Fate::Stop, "committed at change {change}, and gone at {at:?}");
            }
            for (cause, count) in played.refused {
                *refusals.entry(cause).or_default() += count;
            }
        }
        plays += count;
        reclaimed_all += if scene.heir { 0 } else { reclaimed };
        println!(
            "{}{}: {} calls, {} steps, {changes} distinct states, {} of them not in the midst of a payload; {count} plays in {:.1?}; committed at {committed:?}, {reclaimed} reclaimed",
            scene.name,
            if scene.before { ", one open before" } else { "" },
            walk.calls,
            walk.steps,
            distinct.count(),
            since.elapsed(),
        );
    }
    println!(
        "{plays} plays of {fate:?}: {late} took longer than {SOON:?}, the longest {longest:?}"
    );
    println!("changes by place: {parts:?}");
    println!("refused, with what was to be told: {refusals:?}");
    // The machine may be busy; the library is not to blame for one in a hundred.
    assert!(late <= plays / 50, "{late} of {plays}");
    for part in wanted {
        assert!(parts.contains_key(part), "no step changes {part}: {parts:?}");
    }
    assert_eq!(reclaimed_all > 0, fate == Fate::Death);
    refusals
}

/// Another has published behind the victim's reservation before it ends it and dies of it, and
/// nobody does anything any more but for a consumer that sleeps.
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
                let victim = Stepped::start(scenario, &ring);
                let file = File::open(&ring).unwrap();
                let mut now = Raw::read(&ring);
                while now.open(1) == 0 || now.locked_by().is_some() {
                    assert!(!victim.step());
                    now.again(&file);
                }
                other.publish(NUMBERED, &said(1, 0, 40)).unwrap();
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
                let mut told = Told::default();
                while told.by(1).is_empty() {
                    let seen = consumer.wait(Duration::from_secs(5));
                    assert!(
                        seen,
                        "{scenario}, {deaths}: not read: {:?}",
                        Raw::read(&ring).beyond()
                    );
                    told.drain(&mut consumer);
                }
                drop((other, consumer));
                let stat = balance(&ring, true);
                assert_eq!(stat.totals.unwrap().producer.written.records, told.records);
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
fn who_stands_still_with_a_range_is_not_robbed() {
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
