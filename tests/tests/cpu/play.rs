//! The scenes, and how each is played once for every instruction.

use super::others::*;
use super::traced::*;
use nix::sys::signal::Signal;
use perfring_consumer::{Policy, Recovered};
use perfring_producer::{Options, record_size};
use perfring_testkit::size::{cases, long};
use perfring_tests::ring_dir;
use perfring_tests::shared::Raw;
use perfring_tests::stepped::OneCpu;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// What becomes of a process where it has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Death,
    Stop,
    Move,
    Signal,
}

/// Records that each of the others publishes while one stands: they overwrite all of the ring.
const MEANWHILE: u64 = 70;
/// How often one may be preempted on its way to an instruction, in one scene.
const MISSED_MOST: usize = 100;
/// However long a machine keeps a process off its core.
const LIMIT: Duration = Duration::from_secs(20);
/// Signals are no reason to wait; this is for a handler that waits for what it interrupts.
const SIGNAL_LIMIT: Duration = Duration::from_secs(20);

struct Scene {
    name: String,
    call: &'static str,
    len: usize,
    options: Options,
    /// There is room before the ring's limit: the first sequence publishes.
    room: bool,
}

impl Scene {
    fn of(policy: Policy, time: bool, call: &'static str, len: usize, room: bool) -> Self {
        let options = Options { size: 4096, slots: 8, policy, time, ..Options::per_cpu() };
        let (time, room_text) =
            (if time { " with time" } else { "" }, if room { "" } else { ", no room" });
        let name = format!("{}{time}, {call} {len}{room_text}", policy.name());
        Scene { name, call, len, options, room }
    }

    /// A sequence publishes the record; otherwise it is published under the lock.
    fn short(&self) -> bool {
        self.call == "publish" && self.len <= 512
    }

    fn size(&self) -> u64 {
        record_size(self.len) + if self.options.time { 8 } else { 0 }
    }

    fn call(&self, seq: u64) -> String {
        format!("{} {VICTIM} {seq} {}", self.call, self.len)
    }

    fn entry(&self, cpu: usize, seq: u64) -> Entry {
        (cpu, VICTIM, if self.len == 0 { EMPTY } else { seq })
    }
}

fn scenes_inside() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for policy in [Policy::Drop, Policy::Overwrite] {
        scenes.extend([0, 8, 24, 64].map(|len| Scene::of(policy, false, "publish", len, true)));
        scenes.push(Scene::of(policy, true, "publish", 24, true));
        scenes.extend(scenes_closing(policy));
    }
    scenes
}

fn scenes_closing(policy: Policy) -> [Scene; 3] {
    [
        Scene::of(policy, false, "publish", 64, false),
        Scene::of(policy, false, "publish", 600, true),
        Scene::of(policy, false, "record", 40, true),
    ]
}

/// One scene's set of rings, its victim, and the number of the victim's next record.
struct Stage<'a> {
    scene: &'a Scene,
    args: Vec<&'a str>,
    cpus: &'a [usize],
    others: Others,
    victim: Option<Traced>,
    seq: u64,
    missed: usize,
}

impl<'a> Stage<'a> {
    fn new(scene: &'a Scene, cpus: &'a [usize], args: &[&'a str], dir: &Path) -> Self {
        let others = Others::new(&dir.join("set"), cpus, &scene.options);
        let args = args.to_vec();
        Stage { scene, args, cpus, others, victim: None, seq: 0, missed: 0 }
    }

    /// Returns the victim, which is started first if there is none.
    fn victim(&mut self) -> &mut Traced {
        if self.victim.is_none() {
            // It attaches to all rings.
            may_run_on(&self.cpus[..self.cpus.len().min(2)]);
            let victim = Traced::start(&self.args, &self.others.dir, self.others.here);
            go_to(self.others.here);
            self.others.expect((self.others.here, VICTIM, 0));
            self.others.check(&self.scene.name);
            self.victim = Some(victim);
        }
        self.victim.as_mut().unwrap()
    }

    /// Prepares the rings, and returns the number and the text of the victim's next call.
    fn next(&mut self) -> (u64, String) {
        self.victim();
        self.others.ready(self.scene.size(), self.scene.room);
        self.seq += 1;
        (self.seq, self.scene.call(self.seq))
    }

    fn walk(&mut self) -> Vec<Point> {
        let (seq, call) = self.next();
        let (points, answer) = self.victim().walk(&call);
        assert_eq!(answer, "ok", "{}", self.scene.name);
        self.others.expect(self.scene.entry(self.others.here, seq));
        self.others.check(&self.scene.name);
        points
    }

    /// Brings the victim to a point of a call. Returns the number of its record.
    fn reach(&mut self, point: Point, signals: bool) -> u64 {
        loop {
            let (seq, call) = self.next();
            let victim = self.victim();
            if signals {
                assert_eq!(victim.driven.ask(&format!("signals {HANDLER} {seq}")), "ok");
            }
            if victim.reach(&call, point) {
                return seq;
            }
            assert_eq!(victim.answer(), "ok");
            self.others.expect(self.scene.entry(self.others.here, seq));
            self.others.check(&self.scene.name);
            self.missed += 1;
            assert!(self.missed < MISSED_MOST, "{}: never at {point:?}", self.scene.name);
        }
    }

    fn is_there(&mut self, seq: u64) -> bool {
        self.others.read();
        let (_, who, seq) = self.scene.entry(0, seq);
        self.others.position(who, seq).is_some()
    }

    /// Checks all losses. What was refused to a signal handler is counted by its process's next call that is no
    /// sequence.
    fn settle(&mut self) {
        self.seq += 1;
        let (seq, here) = (self.seq, self.others.here);
        assert_eq!(self.victim().call(&format!("record {VICTIM} {seq} 40")), "ok");
        self.others.expect((here, VICTIM, seq));
        self.others.check(&self.scene.name);
        self.others.check_losses();
    }

    fn kill(&mut self) {
        self.victim.take().unwrap().kill();
    }

    /// Interrupts the victim, which goes on to the end of its call. Returns whether its handler published.
    fn interrupt(&mut self, seq: u64, what: &str) -> bool {
        let victim = self.victim();
        victim.signal(Signal::SIGUSR1);
        assert_eq!(victim.wait_for_end(SIGNAL_LIMIT, what), "ok", "{what}");
        let accepted = match victim.driven.ask("signalled").as_str() {
            "1" => true,
            "2" => false,
            other => panic!("{what}: no signal came: {other}"),
        };
        let here = self.others.here;
        if accepted {
            self.others.expect((here, HANDLER, seq));
        } else {
            self.others.refused += 1;
        }
        accepted
    }
}

fn with_cpus(then: impl FnOnce(&[usize])) {
    let mut all = cpus();
    let _cpu = OneCpu::take();
    let mine = cpus()[0];
    all.sort_by_key(|cpu| *cpu != mine);
    then(&all);
}

/// Plays each instruction of the sequences of all scenes.
pub(crate) fn inside(fate: Fate) {
    let mut plays = 0;
    with_cpus(|cpus| {
        for scene in scenes_inside() {
            let dir = ring_dir();
            let mut stage = Stage::new(&scene, cpus, &["traced", "victim"], dir.path());
            let (points, since) = (stage.walk(), Instant::now());
            let last = points.iter().map(|point| point.visit).max().unwrap();
            assert_eq!(last == 0, scene.room, "{}: {points:?}", scene.name);
            assert!(points.last().unwrap().stored, "{}: {points:?}", scene.name);
            for (nth, &point) in points.iter().enumerate() {
                let seq = stage.reach(point, fate == Fate::Signal);
                let published = scene.short() && point.stored && point.visit == last;
                play(&mut stage, fate, (nth, point), seq, published);
                stage.others.check(&format!("{}, {point:?}", scene.name));
            }
            stage.settle();
            plays += points.len();
            println!(
                "{}: {} instructions of {} sequences, {} more preempted on the way, {} refused, {:.1?}",
                scene.name,
                points.len(),
                last + 1,
                stage.missed,
                stage.others.refused,
                since.elapsed()
            );
        }
    });
    println!("{plays} plays of {fate:?}");
}

/// The victim stands at a point of its sequence, and has published its record, or not.
fn play(stage: &mut Stage<'_>, fate: Fate, at: (usize, Point), seq: u64, published: bool) {
    let ((nth, point), scene) = (at, stage.scene);
    let what = format!("{}, {point:?}", scene.name);
    let (here, there) = (stage.others.here, stage.others.there);
    assert_eq!(stage.is_there(seq), published, "{what}");
    let mut cpu = here;
    match fate {
        Fate::Death => {
            stage.kill();
            if nth % 2 == 0 {
                assert_eq!(stage.others.recover(&what), Recovered::default());
            }
            stage.others.publish_all(3);
            if published {
                stage.others.expect(scene.entry(here, seq));
            }
            return;
        }
        Fate::Stop => {
            stage.others.publish_all(MEANWHILE);
            assert_eq!(stage.is_there(seq), published, "{what}");
            assert_eq!(stage.victim().finish(), "ok", "{what}");
        }
        Fate::Move => {
            stage.victim().move_to(there);
            // They open what it has closed.
            let opened = nth % 2 == 0;
            if opened {
                stage.others.publish_all(1);
            }
            assert_eq!(stage.victim().finish(), "ok", "{what}");
            stage.victim().move_to(here);
            // If it has closed the ring, it goes on there under the lock.
            if !published && (scene.short() || !point.stored || opened) {
                cpu = there;
            }
        }
        Fate::Signal => {
            let accepted = stage.interrupt(seq, &what);
            assert!(accepted || !scene.short() || !scene.room, "{what}: the handler was refused");
        }
    }
    stage.others.expect(scene.entry(cpu, seq));
}

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

/// Instructions between those that change the ring, per scene.
const SPREAD: u64 = 24;

/// Plays the instructions between closing a ring and opening it, and those of a publish under the lock.
pub(crate) fn between(fate: Fate) {
    let mut plays = 0;
    with_cpus(|cpus| {
        let timed = Scene::of(Policy::Drop, true, "publish", 64, false);
        let scenes = [Policy::Drop, Policy::Overwrite].into_iter().flat_map(scenes_closing);
        for scene in scenes.chain([timed]) {
            let dir = ring_dir();
            let mut stage = Stage::new(&scene, cpus, &["traced", "victim"], dir.path());
            let Steps { closed, steps, changes } = steps(&mut stage);
            let since = Instant::now();
            let spread = cases(SPREAD, 1 << 20) as usize;
            let some = (0..steps).step_by(steps / spread + 1).map(At::Step);
            // Where one stands with the lock, others wait for some milliseconds: not everywhere.
            let every = if fate == Fate::Stop && !long() { 2 } else { 1 };
            // The way is not as long each time: all changes there are.
            let all = some.chain((1..).map(At::Change)).step_by(every);
            let (mut published, mut longest, mut reclaimed, mut count) =
                (None, Duration::ZERO, 0, 0);
            for (nth, at) in all.enumerate() {
                let seq = stage.reach(closed, fate == Fate::Signal);
                let done = bring(&mut stage, at);
                let what = format!("{}, {at:?} of {steps}", scene.name);
                let mut reported = true;
                match fate {
                    Fate::Death => {
                        stage.kill();
                        if nth % 2 == 0 {
                            reclaimed += stage.others.recover(&what).swept.len();
                        }
                        stage.others.publish_all(3);
                        // In an open ring, nobody else takes the lock of the dead.
                        stage.others.recover(&what);
                        let there = stage.is_there(seq);
                        if let (At::Change(_), Some(before)) = (at, published) {
                            assert!(there, "{what}: published by {before:?}");
                        }
                        if there {
                            if matches!(at, At::Change(_)) {
                                published.get_or_insert(at);
                            }
                            stage.others.expect(scene.entry(stage.others.here, seq));
                        }
                    }
                    Fate::Stop | Fate::Move => {
                        let begun = Instant::now();
                        let _ = stage.others.publish(nth % 2, 40);
                        longest = longest.max(begun.elapsed());
                        assert!(longest < LIMIT, "{what}: {longest:?}");
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
                "{}: {steps} steps, {changes} of them change the ring; {} plays in {:.1?}; published first by \
                 {published:?}; \
                 {reclaimed} reclaimed, {} refused, the longest publish beside it {longest:.1?}",
                scene.name,
                count,
                since.elapsed(),
                stage.others.refused
            );
        }
    });
    println!("{plays} plays of {fate:?}");
}

impl Stage<'_> {
    /// Lets the victim end its call, if it has not.
    fn end_call(&mut self, done: bool, what: &str) {
        let victim = self.victim();
        let answer = if done { victim.answer() } else { victim.finish() };
        assert_eq!(answer, "ok", "{what}");
    }
}

/// Another thread of the victim forks, at each instruction of its sequences.
pub(crate) fn forked() {
    with_cpus(|cpus| {
        for room in [true, false] {
            let scene = Scene::of(Policy::Drop, false, "publish", 24, room);
            let dir = ring_dir();
            let socket = dir.path().join("socket");
            let args = ["forks", socket.to_str().unwrap()];
            let mut stage = Stage::new(&scene, cpus, &args, dir.path());
            let points = stage.walk();
            for &point in &points {
                let seq = stage.reach(point, false);
                let mut stream = UnixStream::connect(&socket).unwrap();
                writeln!(stream, "{}", u64::from(u32::MAX)).unwrap();
                let mut answer = String::new();
                BufReader::new(&stream).read_line(&mut answer).unwrap();
                assert_eq!(answer.trim(), "Forked Forked", "{}, {point:?}", scene.name);
                stage.others.publish_all(1);
                stage.end_call(false, &scene.name);
                stage.others.expect(scene.entry(stage.others.here, seq));
                stage.others.check(&format!("{}, {point:?}", scene.name));
            }
            println!("{}: {} forks", scene.name, points.len());
        }
    });
}
