//! The commands of the guide do what it says: those for a dead process, for rings per CPU with a sidecar, and for a program that
//! comes from LTTng are run.

use crate::command::{Place, publish};
use std::io::Write;
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

/// The page has a row for each cause of the table of rules, and for no other.
#[test]
fn the_page_about_why_has_every_cause() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/perfring/src/guide/why.md");
    let page = std::fs::read_to_string(path).unwrap();
    let causes = page.split("# Causes").nth(1).unwrap().split("# Limits").next().unwrap();
    let rows = causes.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap());
    let mut has: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let mut all: Vec<&str> = perfring_why::causes().chain([perfring_why::UNKNOWN]).collect();
    has.sort_unstable();
    all.sort_unstable();
    assert!(all.len() > 20);
    assert_eq!(has, all);
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

/// Runs the shell blocks of a page, in a directory.
fn run(page: &str, place: &Place, variables: &[&str]) {
    let bin = Path::new(env!("CARGO_BIN_EXE_perfring")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let all = blocks(page);
    assert!(!all.is_empty());
    for block in all {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &block]).env("PATH", &path);
        for name in variables {
            shell.env(name, place.path(&name.to_lowercase()));
        }
        let done = shell.output().unwrap();
        let error = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{block}\n{error}");
    }
}

#[test]
fn a_sidecar_reads_a_set_of_rings_per_cpu_as_its_page_says() {
    if let Err(error) = perfring_producer::CpuProducer::create(
        Place::new().path("tried"),
        &perfring_producer::Options::per_cpu(),
    ) {
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {error}");
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.path("rings")).unwrap();
    run("per_cpu.md", &place, &["RINGS", "OUT"]);
    let lines = std::fs::read_to_string(place.path("out")).unwrap();
    assert!(lines.contains("from any CPU") && lines.contains("requests/cpu"), "{lines}");
}

#[test]
fn a_flight_recorder_becomes_a_ctf_trace_as_the_page_for_users_of_lttng_says() {
    let place = Place::new();
    run("coming_from.md", &place, &["RING", "OUT"]);
    assert!(place.path("out.ctf").join("metadata").exists());
}
