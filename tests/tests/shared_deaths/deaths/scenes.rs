//! The actions on a shared ring, and their processes.

use perfring_abi::record_size;
use perfring_consumer::{Consumer, Policy};
use perfring_producer::{Evict, Options, Reservation, ReserveError, SharedProducer};
use perfring_tests::NUMBERED;
use perfring_tests::shared::{Raw, Reported, answer, said};
use perfring_tests::stepped::Stepped;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// Enough for the longest scenario; more steps are a failure.
pub(crate) const STEPS_MAX: usize = 200_000;
/// Deaths of a scene that are spread over its steps, besides those after each change.
pub(crate) const SPREAD: usize = 8;
/// The number in the payloads of the producer that steps.
pub(crate) const VICTIM: u64 = 9;

/// Starts a victim and waits for its first stop.
pub(crate) fn start(scenario: &str, ring: &Path) -> Stepped {
    Stepped::start(env!("CARGO_BIN_EXE_sharer"), &["step", scenario], ring)
}

/// Where the victim stops.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    /// After so many beginnings and ends of system calls.
    Call(usize),
    /// After so many changes of the ring.
    Change(usize),
    /// After so many instructions.
    Step(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Death,
    Stop,
}

/// The actions on a ring, and its state before.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) options: Options,
    /// Records of the victim if it is not hindered.
    pub(crate) records: u64,
    /// Another producer has a reservation open before the victim's.
    pub(crate) before: bool,
    /// Runs before any other process attaches.
    pub(crate) template: fn(&Path),
    /// Runs before the victim is started.
    pub(crate) prepare: fn(&mut Others<'_>),
    /// Runs when the victim is at its first stop.
    pub(crate) ready: fn(&mut Others<'_>),
    /// The victim gets the slot of a dead producer.
    pub(crate) successor: bool,
}

/// The other producers, numbered 1 to 3, and a consumer if there is one already.
pub(crate) struct Others<'a> {
    pub(crate) ring: &'a Path,
    pub(crate) producers: &'a [SharedProducer; 3],
    /// Records of each that are committed, or will be when its reservation is.
    pub(crate) seqs: [u64; 3],
    pub(crate) before: Option<Reservation<'a, SharedProducer>>,
    pub(crate) after: Option<Reservation<'a, SharedProducer>>,
    pub(crate) reported: Reported,
    pub(crate) consumer: Option<Consumer>,
    /// Refused calls, by the first word of the reason.
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) longest: Duration,
}

impl<'a> Others<'a> {
    pub(crate) fn count<T>(
        &mut self,
        who: usize,
        records: u64,
        outcome: Result<T, ReserveError>,
    ) -> Result<T, ReserveError> {
        match &outcome {
            Ok(_) => self.seqs[who] += records,
            Err(error) => {
                let word = answer(*error);
                let word = word.split(' ').next().unwrap_or_default().to_owned();
                *self.refused.entry(word).or_default() += 1;
            }
        }
        outcome
    }

    pub(crate) fn timed<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let done = call();
        self.longest = self.longest.max(since.elapsed());
        done
    }

    pub(crate) fn publish(&mut self, who: usize, len: usize) -> Result<(), ReserveError> {
        let payload = said(who as u64 + 1, self.seqs[who], len);
        let producers = self.producers;
        let outcome = self.timed(|| producers[who].publish_as(NUMBERED, &payload));
        self.count(who, 1, outcome)
    }

    pub(crate) fn reserve(
        &mut self,
        who: usize,
        len: usize,
    ) -> Result<Reservation<'a, SharedProducer>, ReserveError> {
        let payload = said(who as u64 + 1, self.seqs[who], len);
        let producers = self.producers;
        let outcome = self.timed(|| producers[who].reserve(NUMBERED, len));
        let mut record = self.count(who, 1, outcome)?;
        record.copy_from_slice(&payload);
        Ok(record)
    }

    pub(crate) fn batch(&mut self, who: usize) -> Result<(), ReserveError> {
        let producers = self.producers;
        let first = self.seqs[who];
        let outcome = self.timed(|| {
            let mut batch = producers[who].reserve_batch(2 * record_size(50) as usize)?;
            for seq in first..first + 2 {
                batch.push_as(NUMBERED, &said(who as u64 + 1, seq, 50))?;
            }
            Ok(())
        });
        self.count(who, 2, outcome)
    }

    pub(crate) fn discard(&mut self, who: usize) -> Result<(), ReserveError> {
        let producers = self.producers;
        let outcome = self.timed(|| producers[who].reserve(NUMBERED, 30).map(Reservation::discard));
        self.count(who, 0, outcome)
    }

    pub(crate) fn end_open(&mut self) {
        let open = [self.before.take(), self.after.take()];
        self.timed(|| open.into_iter().flatten().for_each(Reservation::commit));
    }

    pub(crate) fn drain(&mut self) {
        let consumer = self
            .consumer
            .get_or_insert_with(|| Consumer::attach(self.ring).expect("the seat is free"));
        self.reported.drain(consumer);
    }
}

// The rings' histories.

pub(crate) fn few(ring: &Path) {
    let producer = SharedProducer::attach(ring).unwrap();
    for seq in 0..10 {
        producer.publish_as(NUMBERED, &said(0, seq, 40)).unwrap();
    }
}

/// The producer's totals are due with the next record.
pub(crate) fn nearly_a_quarter(ring: &Path) {
    let producer = SharedProducer::attach(ring).unwrap();
    for seq in 0..42 {
        producer.publish_as(NUMBERED, &said(0, seq, 40)).unwrap();
    }
}

/// Wrapped several times.
pub(crate) fn lapped(ring: &Path) {
    let producer = SharedProducer::attach(ring).unwrap();
    for seq in 0..500 {
        producer.publish_as(NUMBERED, &said(0, seq, 8 + seq as usize % 90)).unwrap();
    }
    producer.reserve(NUMBERED, 50).unwrap().discard();
}

/// The AUX area has wrapped; no record with a range in it is present any more.
pub(crate) fn rounds(ring: &Path) {
    let producer = SharedProducer::attach(ring).unwrap();
    for seq in 0..500 {
        let len = if seq < 10 { 9000 } else { 8 + seq as usize % 90 };
        producer.publish_as(NUMBERED, &said(0, seq, len)).unwrap();
    }
}

pub(crate) fn nothing(_: &mut Others<'_>) {}

/// Fills the ring completely.
pub(crate) fn fill(others: &mut Others<'_>) {
    while others.publish(2, 40).is_ok() {}
}

pub(crate) fn make_room(others: &mut Others<'_>) {
    others.drain();
}

pub(crate) fn end_before(others: &mut Others<'_>) {
    others.end_open();
}

/// The victim's slot belonged to another producer, which died under the lock, or with its
/// reservation open.
pub(crate) fn predecessor(others: &mut Others<'_>, dies: fn(&Raw) -> bool) {
    let stepped = start("commit", others.ring);
    let (file, mut raw) = (File::open(others.ring).unwrap(), Raw::read(others.ring));
    while !dies(&raw) {
        assert!(!stepped.step(), "the predecessor gets there");
        raw.again(&file);
    }
    stepped.kill();
}

pub(crate) fn dead_locked(others: &mut Others<'_>) {
    predecessor(others, |raw| raw.locked_by() == Some(SUCCESSOR_SLOT));
}

pub(crate) fn dead_open(others: &mut Others<'_>) {
    predecessor(others, |raw| raw.open(SUCCESSOR_SLOT) == 1 && raw.locked_by().is_none());
}

/// Slot of the fourth producer of a ring of four fresh slots.
pub(crate) const SUCCESSOR_SLOT: u32 = 3;

pub(crate) fn scene(
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
        successor: false,
    }
}

pub(crate) fn drop_scenes() -> Vec<Scene> {
    let o = Options { size: 8192, slots: 8, ..Options::many() };
    let four = Options { slots: 4, ..o };
    let plain = vec![
        scene("publish", "publish", o, few),
        scene("publish, with the totals", "publish", o, nearly_a_quarter),
        scene("publish in two steps", "large", o, few),
        scene("reserve and commit", "commit", o, few),
        scene("reserve and commit shorter", "shorter", o, few),
        scene("discard", "discard", o, few),
        scene("batch", "batch", o, few),
        Scene { records: 0, prepare: fill, ..scene("refused", "publish", o, few) },
        Scene { records: 0, prepare: fill, ..scene("refused again", "refused again", o, few) },
        Scene { prepare: fill, ready: make_room, ..scene("reporting a loss", "tell", o, few) },
        scene("attach", "attach", o, few),
        Scene {
            prepare: fill,
            ready: make_room,
            ..scene("detach, reporting a loss", "detach", o, few)
        },
    ];
    let mut scenes = with_and_without(plain);
    let successor =
        |name, prepare| Scene { prepare, successor: true, ..scene(name, "attach", four, |_| {}) };
    scenes.push(successor("attach after a death under the lock", dead_locked));
    scenes.push(successor("attach after a death with one open", dead_open));
    scenes
}

pub(crate) fn overwrite_scenes() -> Vec<Scene> {
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
    scenes.push(held("reporting a loss", "tell"));
    scenes.push(held("detach, reporting a loss", "detach"));
    scenes.push(Scene {
        records: 0,
        ready: nothing,
        ..held("refused behind an open one", "publish")
    });
    scenes
}

/// Scenes with reservations in the AUX area.
pub(crate) fn large_scenes() -> Vec<Scene> {
    let o = Options { size: 8192, aux_size: 64 << 10, slots: 8, ..Options::many() };
    let over = Options { policy: Policy::Overwrite, ..o };
    with_and_without(vec![
        scene("reserve a range and commit", "range", o, few),
        scene("discard a range", "range discard", o, few),
        scene("overwrite, reserve a range and commit", "range", over, rounds),
        scene("overwrite, discard a range", "range discard", over, rounds),
    ])
}

pub(crate) fn with_and_without(plain: Vec<Scene>) -> Vec<Scene> {
    plain.into_iter().flat_map(|scene| [Scene { before: true, ..scene }, scene]).collect()
}

/// Plays stops with another reservation open before the victim's, and then without.
pub(crate) fn with_one_before(scenes: Vec<Scene>) -> Vec<Scene> {
    scenes.into_iter().filter(|scene| scene.before || scene.successor).collect()
}
