//! One scene played once: the victim is brought to a point and dies or stops, and then the others
//! continue.

use super::scenes::*;
use perfring_consumer::{
    AttachError, Item, Policy, Snapshot,
    files::recover,
    stat::{Count, Stat},
};
use perfring_producer::{ReserveError, SharedProducer};
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::shared::{Raw, Reported, balance, reporter, said, sum};
use perfring_tests::stepped::Stepped;
use perfring_tests::{NUMBERED, second};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

/// The result of a play.
pub(crate) struct Played {
    /// Records of the victim in the stream.
    pub(crate) records: u64,
    /// Its reservations that became holes.
    pub(crate) reclaimed: u64,
    /// A full second passed before the death was found.
    pub(crate) late: bool,
    /// The longest call of another producer.
    pub(crate) longest: Duration,
    pub(crate) refused: BTreeMap<String, u64>,
}

/// The steps of a scene.
pub(crate) struct Walk {
    /// Beginnings and ends of system calls before the first change.
    pub(crate) calls: usize,
    /// Instructions from there on.
    pub(crate) steps: usize,
    /// The steps after which the ring had changed, and the changed part.
    pub(crate) changes: Vec<(usize, &'static str)>,
}

pub(crate) struct Stage<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) template: PathBuf,
    pub(crate) ring: PathBuf,
}

impl Stage<'_> {
    /// Sets everything up to the victim's first stop, then calls `act`.
    pub(crate) fn with<T>(&self, act: impl FnOnce(Others<'_>, Stepped, u32) -> T) -> T {
        let _ = std::fs::remove_file(&self.ring);
        std::fs::copy(&self.template, &self.ring).unwrap();
        let attach = || {
            let producer = SharedProducer::attach(&self.ring).unwrap();
            // Long enough to find a stopped holder of the lock, in each of many plays.
            producer.set_lock_wait(Duration::from_millis(1));
            producer
        };
        let producers = [attach(), attach(), attach()];
        let mut others = Others {
            ring: &self.ring,
            producers: &producers,
            seqs: [0; 3],
            before: None,
            after: None,
            reported: Reported::default(),
            consumer: None,
            refused: BTreeMap::new(),
            longest: Duration::ZERO,
        };
        if self.scene.before {
            others.before = Some(others.reserve(0, 60).unwrap());
        }
        (self.scene.prepare)(&mut others);
        let victim = start(self.scene.scenario, &self.ring);
        (self.scene.ready)(&mut others);
        // Fresh slots are taken first, in order.
        let slot = producers[2].slot() + 1;
        assert!(!self.scene.successor || slot == SUCCESSOR_SLOT);
        act(others, victim, slot)
    }

    pub(crate) fn walk(&self) -> Walk {
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

    /// Brings the victim to that point. Returns whether it is at its second stop.
    pub(crate) fn bring(&self, victim: &Stepped, walk: &Walk, at: At) -> bool {
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

    /// Plays one death, or stop. `round` varies which process detects it.
    pub(crate) fn play(&self, walk: &Walk, at: At, fate: Fate, round: usize) -> Played {
        let scene = self.scene;
        let drop_ring = scene.options.policy == Policy::Drop;
        self.with(|mut others, victim, slot| {
            let pre = Raw::read(&self.ring).open(slot);
            let done = self.bring(&victim, walk, at);
            let raw = Raw::read(&self.ring);
            let locked = raw.locked_by();
            // Refusals that are right while the victim is alive and stopped.
            let alive_before = others.before.is_some().then(|| others.producers[0].slot());
            let may = |error: ReserveError| match error {
                ReserveError::Contended { slot: by } => locked == Some(by),
                ReserveError::Pending { slot: by } => Some(by) == alive_before || by == slot,
                ReserveError::Full => drop_ring,
                _ => false,
            };
            // Another reservation after the victim's, if the victim does not hold the lock.
            match others.reserve(1, 60) {
                Ok(record) => others.after = Some(record),
                Err(error) => assert!(may(error), "{error:?} {at:?} {locked:?}"),
            }
            if fate == Fate::Stop {
                self.stand(&mut others, slot, may, round);
                victim.go_on(done);
                return self.finish(others, slot, None, false);
            }
            victim.kill();
            let raw = Raw::read(&self.ring);
            let open = raw.open(slot);
            if round.is_multiple_of(4) {
                self.inspect(&raw, slot);
            }
            let began = second();
            match round % 3 {
                // A publisher detects it.
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
                // A consumer detects it: asleep, while no other process acts.
                1 => {
                    others.end_open();
                    self.read_asleep(&mut others, slot, at);
                }
                // A call of `recover` detects it.
                _ => {
                    let recovered = recover(&self.ring).unwrap();
                    let lock = raw.locked_by().filter(|_| locked.is_some());
                    assert_eq!(recovered.lock, lock, "{at:?}");
                    let swept = (open > 0).then_some((slot, open));
                    assert_eq!(recovered.swept, swept.into_iter().collect::<Vec<_>>(), "{at:?}");
                    others.end_open();
                }
            }
            let late = second() != began;
            self.finish(
                others,
                slot,
                Some(open + if scene.successor { pre - open } else { 0 }),
                late,
            )
        })
    }

    /// Checks that the ring continues soon, although no process needs the space and none sleeps.
    pub(crate) fn publish_past(&self, others: &mut Others<'_>, slot: u32) {
        let mut calls = 0;
        while Raw::read(&self.ring).open(slot) > 0 {
            let published = others.publish(2, 8);
            assert!(matches!(published, Ok(()) | Err(ReserveError::Full)), "{published:?}");
            calls += 1;
            assert!(calls <= 64, "{}: still held up", self.scene.name);
        }
    }

    /// Checks the file after the death, before any process has acted.
    pub(crate) fn inspect(&self, raw: &Raw, slot: u32) {
        let snapshot = Snapshot::take(&self.ring).unwrap();
        let mut found = 0;
        for item in &snapshot {
            if let Item::Record(record) = item.unwrap() {
                let _ = reporter(record.bytes);
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
        if !self.scene.successor {
            // The slots also count committed records that are not published yet: single records, by
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

    /// Checks that a sleeping consumer gets everything that is committed.
    pub(crate) fn read_asleep(&self, others: &mut Others<'_>, slot: u32, at: At) {
        let raw = Raw::read(&self.ring);
        assert!(raw.beyond().iter().all(|(_, word)| word.owner().is_none_or(|by| by == slot)));
        let behind =
            raw.beyond().iter().filter(|(_, w)| w.is_data() && w.owner().is_none()).count() as u64;
        others.drain();
        let Some(consumer) = &mut others.consumer else { return };
        let want = others.reported.records
            + if consumer.position() >= raw.field("producer_pos") { 0 } else { behind };
        while others.reported.records < want {
            assert!(
                consumer.wait(WATCHDOG),
                "{}: {at:?}: {behind} committed records are not seen: {:?}",
                self.scene.name,
                raw.beyond()
            );
            others.reported.drain(consumer);
        }
    }

    /// The victim is stopped. All other calls return, and nothing is taken over from it.
    pub(crate) fn stand(
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
        let producers = others.producers;
        let payload = said(1, others.seqs[0], 40);
        let waited = producers[0].publish_timeout(NUMBERED, &payload, Duration::from_millis(2));
        answers.push(others.count(0, 1, waited));
        for error in answers.iter().filter_map(|answer| answer.err()) {
            assert!(may(error), "{error:?}");
        }
        // Counted by cause.
        let refused = sum(producers.iter().map(|producer| producer.totals().refused));
        let counted = |cause: &str| others.refused.get(cause).copied().unwrap_or_default();
        assert_eq!(refused.full.records, counted("Full"));
        assert_eq!(refused.pending.records, counted("Pending"));
        assert_eq!(refused.contended.records, counted("Contended"));
        let raw = Raw::read(&self.ring);
        let first = raw.beyond().first().and_then(|(_, word)| word.owner());
        let held = raw.locked_by().or(first);
        assert!(held.is_none_or(|by| by == slot), "the others have no reservation open");
        if round.is_multiple_of(3) || held.is_none() {
            let stat = Stat::read(&self.ring).unwrap();
            // Until a successor takes the slot, it belongs to a dead predecessor.
            let found = stat.held_up.as_ref();
            assert_eq!(found.map(|held| held.slot), held);
            assert!(found.is_none_or(|held| held.alive || self.scene.successor));
            if let Some(held) = stat.held_up {
                assert_eq!(held.locked, raw.locked_by() == Some(slot));
            }
            if self.scene.successor {
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

    /// The others continue, and the totals are checked.
    pub(crate) fn finish(
        &self,
        mut others: Others<'_>,
        slot: u32,
        open: Option<u64>,
        late: bool,
    ) -> Played {
        let scene = self.scene;
        let drop_ring = scene.options.policy == Policy::Drop;
        others.drain();
        for who in 0..3 {
            // The last payload is in the AUX area, if the ring has one.
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
        let longest = others.longest;
        let Others { mut reported, consumer, .. } = others;
        let mut consumer = consumer.unwrap();
        // One more producer, and its result.
        SharedProducer::attach(ring).map_or_else(
            |error| {
                assert!(scene.successor && matches!(error, AttachError::Slots { .. }), "{error}")
            },
            |more| more.publish_as(NUMBERED, &said(4, 0, 40)).unwrap(),
        );
        reported.drain(&mut consumer);
        for (who, seqs) in (1..).zip(seqs) {
            // All of them; in an overwrite ring the newest of them.
            let found = reported.by(who);
            let first = if drop_ring { 0 } else { seqs - found.len() as u64 };
            assert!(found.iter().copied().eq(first..seqs), "{who}: {found:?} of {seqs}");
        }
        let prepared = reported.by(0);
        assert!(prepared.is_sorted_by(|a, b| a + 1 == *b), "{prepared:?}");
        drop(consumer);

        let stat = balance(ring, !scene.successor);
        let totals = stat.totals.unwrap();
        let reported_lost: u64 = reported.lost.values().sum();
        let lapped = reported.lost(perfring_consumer::Cause::Lapped);
        assert_eq!(reported_lost - lapped, totals.producer.refused.total().records);
        assert_eq!(reported.records + lapped, totals.producer.written.records);
        // If it died before it stored its owner info, its slot belongs to another now.
        let victim = stat.producers.iter().find(|one| one.owner.name == "victim");
        let victim = victim.map(|one| &one.figures);
        let reclaimed = totals.producer.reclaimed.records;
        let records = victim.map_or(0, |figures| figures.written.records);
        // A record that would have been refused may have waited until it was not.
        let all = if open.is_none() { scene.records.max(records.min(1)) } else { scene.records };
        assert!(records == 0 || records == all, "all or nothing");
        let found = reported.by(VICTIM);
        let first = if drop_ring { 0 } else { records - found.len() as u64 };
        assert!(found.iter().copied().eq(first..records), "{found:?} of {records}");
        if !scene.successor {
            let figures = victim.cloned().unwrap_or_default();
            assert_eq!(figures.reclaimed.records, reclaimed);
            assert!(reclaimed <= 1);
            assert_eq!(reclaimed, open.unwrap_or(0), "exactly its open reservations");
            // All that is unreported is the dead one's.
            let unreported = figures.refused.total().records - figures.reported.total().records;
            assert_eq!(totals.unreported().records, unreported + others_unreported(&stat, slot));
        }
        Played { records, reclaimed, late, longest, refused }
    }
}

/// Returns the losses that live producers still have to report.
pub(crate) fn others_unreported(stat: &Stat, slot: u32) -> u64 {
    let others = stat.producers.iter().filter(|one| one.number != slot);
    others
        .map(|one| one.figures.refused.total().records - one.figures.reported.total().records)
        .sum()
}
