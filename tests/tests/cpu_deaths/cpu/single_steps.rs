//! A call whose sequences are all aborted: it is single-stepped, as by a debugger.

use super::stage::*;
use perfring_consumer::{Policy, advanced::Lead};
use perfring_tests::ring_dir;

/// More steps than any such call takes: 256 aborts, and the count of the refusal.
const STEPS_MOST: usize = 100_000;

/// Steps through calls with and without room in the ring, and through a reservation.
pub(crate) fn stepped() {
    with_cpus(|cpus| {
        let closing = scenes_closing(Policy::Overwrite);
        for scene in closing.into_iter().chain([
            Scene::of(Policy::Drop, Lead::None, "publish", 64, true),
            Scene::of(Policy::Drop, Lead::SampleId, "publish", 24, true),
        ]) {
            let dir = ring_dir();
            let mut stage = Stage::new(&scene, cpus, &["traced", "victim"], dir.path());
            for round in 0..2 {
                let (seq, call) = stage.next();
                stage.victim().begin(&call);
                let mut steps = 0;
                while !stage.victim().step() {
                    steps += 1;
                    assert!(steps < STEPS_MOST, "{}: it never ends", scene.name);
                }
                let answer = stage.victim().answer();
                assert!(answer.starts_with("Contended"), "{}: {answer}", scene.name);
                assert!(!stage.is_there(seq), "{}", scene.name);
                stage.others.refused += 1;
                // The others, and the victim itself once it is not stepped.
                stage.others.publish_all(3);
                let (seq, call) = stage.next();
                assert_eq!(stage.victim().call(&call), "ok", "{}", scene.name);
                let here = stage.others.here;
                stage.others.expect(scene.entry(here, seq));
                stage.others.check(&scene.name);
                println!("{}, {round}: {answer} after {steps} steps", scene.name);
            }
            stage.settle();
        }
    });
}
