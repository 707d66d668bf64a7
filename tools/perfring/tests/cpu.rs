//! The promises of the command line for a directory with a ring per CPU.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod command;

use command::{Place, json_lines, run};
use std::fs;

#[test]
fn a_directory_with_a_ring_per_cpu_is_made_published_to_and_read() {
    let place = Place::new();
    let set = place.path("set");
    let set = set.to_str().unwrap();
    let create = ["create", set, "--producers", "cpu", "--time"];
    assert_eq!(run(&create, b"").code(), 0);
    run(&create, b"").refuses(1, "has rings per CPU already");

    for word in ["first", "second"] {
        let done = run(&["publish", set], format!("{word}\nline\n").as_bytes());
        assert_eq!(
            (done.code(), done.err()),
            (0, "perfring: published 2 records, lost 0\n".into())
        );
    }
    let rings: Vec<_> = fs::read_dir(set)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(rings.iter().all(|ring| ring.starts_with("cpu")), "{rings:?}");

    // By time, whichever CPUs they ran on.
    let shown = json_lines(&run(&["export", "--to", "json", set], b"").out());
    let texts: Vec<_> = shown.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["first", "line", "second", "line"]);

    let ring = format!("{set}/{}", rings[0]);
    let stat = run(&["stat", &ring], b"").out();
    for part in ["the producers of CPU ", "by lock", "balance"] {
        assert!(stat.contains(part), "{stat}");
    }
    let json = json_lines(&run(&["stat", "--json", &ring], b"").out());
    assert_eq!(json[0]["producers"], "cpu", "{json:?}");
    let doctor = run(&["doctor", &ring], b"").out();
    assert!(doctor.contains("up to 64 processes on CPU "), "{doctor}");
}

#[test]
fn what_is_no_such_directory_is_refused() {
    let place = Place::new();
    let named = run(&["create", "shm:perfring-no-set", "--producers", "cpu"], b"");
    named.refuses(2, "need a directory");
    let empty = place.path("empty");
    fs::create_dir(&empty).unwrap();
    run(&["publish", empty.to_str().unwrap()], b"").refuses(3, "has no ring per CPU");
}
