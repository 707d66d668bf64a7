//! Plays each instruction of the sequences.

use super::stage::*;
use super::traced::*;
use perfring_abi::FIELDS;
use perfring_consumer::{Policy, advanced::Lead, files::Recovered};
use perfring_tests::ring_dir;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Records that each of the others publishes while one stands: they overwrite all of the ring.
const MEANWHILE: u64 = 70;

fn scenes_inside() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for policy in [Policy::Drop, Policy::Overwrite] {
        scenes
            .extend([0, 8, 24, 64].map(|len| Scene::of(policy, Lead::None, "publish", len, true)));
        scenes.extend(
            [Lead::Time, Lead::SampleId].map(|lead| Scene::of(policy, lead, "publish", 24, true)),
        );
        scenes.push(Scene::of(policy, Lead::SampleId, "publish", 0, true));
        scenes.extend(scenes_closing(policy));
    }
    scenes
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
            // The others open the ring that it has closed.
            let opened = nth % 2 == 0;
            if opened {
                stage.others.publish_all(1);
            }
            assert_eq!(stage.victim().finish(), "ok", "{what}");
            stage.victim().move_to(here);
            // If it has closed the ring, it continues there under the lock.
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

/// Another thread of the victim holds a reservation, made while the victim stands before an instruction of its call, and
/// another process opens the ring, which it may not do: the victim writes somewhere else.
pub(crate) fn held() {
    with_cpus(|cpus| {
        let scene = Scene::of(Policy::Drop, Lead::None, "publish", 64, true);
        let dir = ring_dir();
        let socket = dir.path().join("socket");
        let args = ["forks", socket.to_str().unwrap()];
        let mut stage = Stage::new(&scene, cpus, &args, dir.path());
        let here = stage.others.here;
        let ring = stage.others.dir.join(format!("cpu{here}"));
        let mut before = 0;
        loop {
            let (seq, call) = stage.next();
            let victim = stage.victim();
            victim.begin(&call);
            let is_past = (0..before).any(|_| victim.step() || victim.is_inside());
            let stream = UnixStream::connect(&socket).unwrap();
            let mut answers = BufReader::new(&stream).lines().map(Result::unwrap);
            writeln!(&stream, "hold").unwrap();
            assert_eq!(answers.next().unwrap(), "held");
            // The limit first: no process finds the ring open without it.
            let peer = File::options().write(true).open(&ring).unwrap();
            for (name, value) in [("cpu_limit", u64::MAX >> 2), ("cpu_state", 0)] {
                let field = FIELDS.iter().find(|field| field.name == name).unwrap();
                peer.write_all_at(&value.to_ne_bytes(), field.offset as u64).unwrap();
            }
            stage.end_call(false, &format!("after {before} instructions"));
            stage.others.expect(scene.entry(here, seq));
            writeln!(&stream, "let go").unwrap();
            assert_eq!(answers.next().unwrap(), "0 bytes of another", "after {before}");
            stage.others.check(&format!("after {before} instructions"));
            if is_past {
                break;
            }
            before += 1;
        }
        println!("{before} instructions before the sequence");
        assert!(before > 10);
    });
}

/// Another thread of the victim forks, at each instruction of its sequences.
pub(crate) fn forked() {
    with_cpus(|cpus| {
        for room in [true, false] {
            let scene = Scene::of(Policy::Drop, Lead::None, "publish", 24, room);
            let dir = ring_dir();
            let socket = dir.path().join("socket");
            let args = ["forks", socket.to_str().unwrap()];
            let mut stage = Stage::new(&scene, cpus, &args, dir.path());
            let points = stage.walk();
            for (nth, &point) in points.iter().enumerate() {
                let seq = stage.reach(point, false);
                let mut stream = UnixStream::connect(&socket).unwrap();
                // The parent is not attached to the other ring.
                let cpu = if nth % 2 == 0 { stage.others.here } else { stage.others.there };
                writeln!(stream, "{cpu}").unwrap();
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
