//! Every command that takes a directory of rings knows the sets of rings per CPU in it, by the same names.

use crate::command::{Live, Place, json_lines, run};
use nix::sys::signal::Signal;
use perfring_producer::{CpuProducer, Options};
use perfring_testkit::wait::until;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Keeps this thread on the CPU where it is, and returns the name of that CPU's rings.
fn stay() -> String {
    let cpu = sched_getcpu();
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).unwrap();
    format!("cpu{cpu}")
}

fn set_of(dir: &Path, records: &[&str]) -> CpuProducer {
    let options = Options { size: 1 << 16, time: true, ..Options::per_cpu() };
    let set = CpuProducer::create(dir, &options).unwrap();
    records.iter().for_each(|record| set.publish(record.as_bytes()).unwrap());
    set
}

/// The texts of the records, each with the name of its ring.
fn texts(lines: &str) -> Vec<String> {
    let lines = json_lines(lines);
    let records = lines.iter().filter(|line| line["text"].is_string());
    let text = |line: &Value| {
        format!("{} {}", line["ring"].as_str().unwrap(), line["text"].as_str().unwrap())
    };
    records.map(text).collect()
}

#[test]
fn all_commands_know_the_sets_of_a_directory() {
    let place = Place::new();
    let cpu = stay();
    let root = place.path("rings");
    fs::create_dir(&root).unwrap();
    let dir = root.to_str().unwrap();
    let sets = [("a", "one"), ("b", "two")].map(|(set, text)| set_of(&root.join(set), &[text]));
    // A ring with a name that an output may make of the name of a set's ring.
    let plain = format!("a_{cpu}");
    let ring = root.join(&plain);
    let ring = ring.to_str().unwrap();
    assert_eq!(run(&["create", ring, "--time"], b"").code(), 0);
    assert_eq!(run(&["publish", ring], b"three\n").code(), 0);
    fs::create_dir(root.join("foreign")).unwrap();
    fs::write(root.join("foreign/file"), "").unwrap();
    symlink("nowhere", root.join("link")).unwrap();
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    let others =
        ["a directory without rings per CPU", "symbolic link to nowhere, which", "a socket"];

    let names = [format!("a/{cpu}"), plain.clone(), format!("b/{cpu}")];
    let all = [format!("a/{cpu} one"), format!("b/{cpu} two"), format!("{plain} three")];
    let listed = run(&["ls", dir], b"");
    let rows: Vec<_> = listed
        .out()
        .lines()
        .skip(1)
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(rows, names);
    for (name, why) in ["foreign", "link", "socket"].iter().zip(others) {
        let said = listed.err();
        assert!(said.contains(&format!("{name} is left out: ")) && said.contains(why), "{said}");
    }
    let json = json_lines(&run(&["ls", "--json", dir], b"").out());
    assert_eq!(json.iter().map(|ring| ring["name"].as_str().unwrap()).collect::<Vec<_>>(), names);

    for args in [
        &["tail", dir, "--format", "json"][..],
        &["tail", dir, "--format", "json", "--timeout", "300ms"],
        &["dump", dir, "--format", "json"],
        &["export", "--to", "json", dir],
    ] {
        let done = run(args, b"");
        assert_eq!(texts(&done.out()), all, "{args:?}: {}", done.err());
        for why in others {
            assert_eq!(done.err().matches(why).count(), 1, "{args:?}: {}", done.err());
        }
    }
    let recording = place.path("recording");
    let recording = recording.to_str().unwrap();
    let recorded = run(&["record", dir, "-o", recording, "-n", "3"], b"");
    assert_eq!(recorded.code(), 0, "{}", recorded.err());
    assert_eq!(texts(&run(&["export", "--to", "json", recording], b"").out()), all);

    let json = json_lines(&run(&["stat", "--json", dir], b"").out());
    let sum = json.last().unwrap();
    assert_eq!((&sum["rings"], &sum["written_records"]), (&3.into(), &3.into()), "{sum}");
    let doctor = run(&["doctor", dir], b"").out();
    assert_eq!(doctor.matches("up to 64 processes on CPU ").count(), 2, "{doctor}");
    let plan = run(&["prune", "--dry-run", dir], b"").out();
    for name in &names {
        assert!(plan.contains(&format!("kept {name}: ")), "{plan}");
    }
    assert_eq!(run(&["recover", dir], b"").out().lines().count(), 3);

    // Nothing of a set is removed through the directory above.
    for file in ["foreign/file", "link", "socket", &plain] {
        fs::remove_file(root.join(file)).unwrap();
    }
    run(&["rm", "--force", dir], b"").refuses(2, "name the set to remove");
    drop(sets);
    let set = root.join("a");
    assert_eq!(run(&["rm", set.to_str().unwrap()], b"").code(), 0);
    let left = run(&["ls", dir], b"").out();
    assert!(!left.contains(&names[0]) && left.contains(&names[2]), "{left}");
}

#[test]
fn sets_that_come_later_are_read_by_what_follows_the_directory() {
    let place = Place::new();
    let cpu = stay();
    let root = place.path("rings");
    fs::create_dir(&root).unwrap();
    let dir = root.to_str().unwrap();
    let mut tail = Live::start(&["tail", dir, "--follow", "--format", "json"]);
    let a = set_of(&root.join("a"), &["one"]);
    assert_eq!(texts(&tail.line()), [format!("a/{cpu} one")]);
    let b = set_of(&root.join("b"), &["two"]);
    assert_eq!(texts(&tail.line()), [format!("b/{cpu} two")]);
    a.publish(b"three").unwrap();
    assert_eq!(texts(&tail.line()), [format!("a/{cpu} three")]);
    tail.signal(Signal::SIGTERM);
    tail.end();

    let out = place.path("out.jsonl");
    let output = format!("json:{}", out.display());
    let sidecar = Live::start(&["sidecar", dir, "--output", &output]);
    let written = || {
        let mut texts = texts(&fs::read_to_string(&out).unwrap_or_default());
        texts.sort();
        texts
    };
    until("the sidecar has three records", || written().len() == 3);
    let c = set_of(&root.join("c"), &["four"]);
    until("the sidecar has the fourth", || written().len() == 4);
    let all = ["a/CPU one", "a/CPU three", "b/CPU two", "c/CPU four"];
    assert_eq!(written(), all.map(|text| text.replace("CPU", &cpu)));
    sidecar.signal(Signal::SIGTERM);
    sidecar.end();
    drop((a, b, c));
}
