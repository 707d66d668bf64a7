//! Plays the instructions between closing a ring and opening it, and the instructions of a publish under the lock.

use super::stage::*;
use super::traced::*;
use perfring_abi::RecordWord;
use perfring_consumer::{Policy, advanced::Lead};
use perfring_testkit::size::{cases, long};
use perfring_tests::ring_dir;
use perfring_tests::shared::Raw;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// The steps between the close of a ring and the end of the call.
struct Steps {
    closed: Point,
    steps: usize,
    /// How many of them change the ring.
    changes: usize,
}

/// How far a victim is stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Step(usize),
    Change(usize),
}

fn steps(stage: &mut Stage<'_>) -> Steps {
    let points = stage.walk();
    // The only sequence of the others; of a short record the third of four.
    let closing = if stage.scene.short() { 2 } else { 0 };
    let is_close = |point: &&Point| point.visit == closing && point.stored;
    let closed = *points.iter().find(is_close).unwrap();
    let seq = stage.reach(closed, false);
    let mut watch = Watch::new(stage.others.ring());
    let (mut steps, mut changes) = (0, 0);
    while !stage.victim().step_through() {
        steps += 1;
        changes += usize::from(watch.has_changed());
    }
    assert_eq!(stage.victim().answer(), "ok");
    stage.others.expect(stage.scene.entry(stage.others.here, seq));
    stage.others.check(&stage.scene.name);
    Steps { closed, steps, changes }
}

/// A ring file as it was after the last step.
struct Watch {
    file: File,
    last: Raw,
    now: Raw,
}

impl Watch {
    fn new(ring: &Path) -> Self {
        let last = Raw::read(ring);
        Watch { file: File::open(ring).unwrap(), now: last.clone(), last }
    }

    fn has_changed(&mut self) -> bool {
        self.now.again(&self.file);
        let changed = self.now != self.last;
        std::mem::swap(&mut self.now, &mut self.last);
        changed
    }
}

/// Steps the victim, which has closed the ring, to a point. Returns whether its call has ended.
fn bring(stage: &mut Stage<'_>, at: At) -> bool {
    let mut watch = Watch::new(stage.others.ring());
    let (mut done, mut left) = (false, at);
    while !done && !matches!(left, At::Step(0) | At::Change(0)) {
        done = stage.victim().step_through();
        left = match left {
            At::Step(left) => At::Step(left - 1),
            At::Change(left) => At::Change(left - usize::from(watch.has_changed())),
        };
    }
    if !done {
        stage.victim().show();
    }
    done
}

/// Returns whether this is the record of a scene, ended.
fn is_of(scene: &Scene, word: RecordWord) -> bool {
    word.is_data() && word.owner().is_none() && word.size() == scene.size()
}

/// Instructions that do not change the ring, per scene.
const SPREAD: u64 = 8;

/// Plays the instructions between closing a ring and opening it, and the instructions of a publish under the lock.
pub(crate) fn between(fate: Fate) {
    let mut plays = 0;
    with_cpus(|cpus| {
        let timed = Scene::of(Policy::Drop, Lead::SampleId, "publish", 64, false);
        let scenes = [Policy::Drop, Policy::Overwrite].into_iter().flat_map(scenes_closing);
        for scene in scenes.chain([timed]) {
            let dir = ring_dir();
            let mut stage = Stage::new(&scene, cpus, &["traced", "victim"], dir.path());
            let Steps { closed, steps, changes } = steps(&mut stage);
            let since = Instant::now();
            let spread = cases(SPREAD, 1 << 20) as usize;
            let some = (0..steps).step_by(steps / spread + 1).map(At::Step);
            // A death is tried at all changes. Where one stands with the lock, others wait for some milliseconds.
            let every = match fate {
                Fate::Death => 1,
                _ if long() => 1,
                Fate::Stop => 4,
                _ => 2,
            };
            // The way is not as long each time: all changes there are.
            let all = some.chain((1..).map(At::Change)).step_by(every);
            let (mut published, mut longest, mut reclaimed, mut count) = (0, Duration::ZERO, 0, 0);
            for (nth, at) in all.enumerate() {
                let seq = stage.reach(closed, fate == Fate::Signal);
                let from = Raw::read(stage.others.ring()).end();
                let done = bring(&mut stage, at);
                let what = format!("{}, {at:?} of {steps}", scene.name);
                let mut reported = true;
                match fate {
                    Fate::Death => {
                        stage.kill();
                        let ended = Raw::read(stage.others.ring()).from(from);
                        let ended = ended.iter().any(|(_, word)| is_of(&scene, *word));
                        if nth % 2 == 0 {
                            reclaimed += stage.others.recover(&what).swept.len();
                        }
                        stage.others.publish_all(3);
                        // In an open ring, no other process takes the lock of the dead process.
                        stage.others.recover(&what);
                        // Not before it has ended, and no other death undoes that.
                        assert_eq!(stage.is_there(seq), ended, "{what}");
                        if ended {
                            published += 1;
                            stage.others.expect(scene.entry(stage.others.here, seq));
                        }
                    }
                    Fate::Stop | Fate::Move => {
                        let begun = Instant::now();
                        let _ = stage.others.publish(nth % 2, 40);
                        longest = longest.max(begun.elapsed());
                        stage.end_call(done, &what);
                        stage.others.expect(scene.entry(stage.others.here, seq));
                        stage.others.publish_all(2);
                    }
                    Fate::Signal => {
                        match done {
                            true => stage.end_call(done, &what),
                            false => {
                                if !stage.interrupt(seq, &what) {
                                    reported = false;
                                }
                            }
                        }
                        stage.others.expect(scene.entry(stage.others.here, seq));
                    }
                }
                stage.others.check(&what);
                if !reported {
                    // The next call would report it first: another way than the one walked.
                    stage.settle();
                }
                count += 1;
                if done && matches!(at, At::Change(_)) {
                    break;
                }
            }
            stage.settle();
            plays += count;
            println!(
                "{}: {steps} steps, {changes} of them change the ring; {} plays in {:.1?}; {published} published \
                 before a death, {reclaimed} reclaimed, {} refused, the longest publish beside it {longest:.1?}",
                scene.name,
                count,
                since.elapsed(),
                stage.others.refused
            );
        }
    });
    println!("{plays} plays of {fate:?}");
}
