//! The commands of the guide do what it says: those for a dead process are run.

use crate::command::{Place, publish};
use std::path::Path;
use std::process::Command;

/// Returns the shell blocks of a page.
fn blocks(page: &str) -> Vec<String> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/perfring/src/guide").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let parts = text.split("```sh\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_commands_of_the_night_page_work() {
    type_all(&["--time"]);
    type_all(&[]);
}

/// Runs them on a ring with timestamps, and on one without.
fn type_all(time: &[&str]) {
    let place = Place::new();
    let ring = place.ring(&[&["--producers", "many", "--policy", "overwrite"], time].concat());
    publish(&ring, b"one\ntwo\nlast words\n");
    let saved = place.path("saved");
    let bin = Path::new(env!("CARGO_BIN_EXE_perfring")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let all = blocks("at_night.md");
    assert!(all.len() >= 3);
    let mut reported = String::new();
    for block in all {
        let done = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &block])
            .envs([("PATH", path.as_str()), ("RING", ring.as_str())])
            .env("SAVED", &saved)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{block}\n{error}");
        reported.push_str(&String::from_utf8_lossy(&done.stdout));
    }
    assert!(reported.contains("last words") && reported.contains("present"), "{reported}");
    assert!(place.path("saved.pftrace").exists());
}
