//! The promises of `perfring sidecar` while it is killed, gets signals, and lacks resources.

mod disks;
mod signals;
mod stage;

use crate::command::{Live, Losses, Place, perfring, run};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::signal::Signal;
use perfring_abi::CONSUMER_LOCK_BYTE;
use perfring_producer::{CpuProducer, Options, Policy, Producer};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::until;
use serde_json::{Value, json};
use stage::{Rings, len, publish, rings_end, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Stops the threads also when a test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A producer's committed records and what its ring refused.
struct Committed {
    texts: BTreeSet<String>,
    refused: u64,
}

/// Returns the texts of records by their keys; duplicates must be equal.
fn records(lines: &[Value], ring: &str) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    for line in lines.iter().filter(|line| line["ring"] == ring && line["lost"].is_null()) {
        let (pos, text) = (line["pos"].as_u64().unwrap(), line["text"].as_str().unwrap());
        let before = found.insert(pos, text.to_owned());
        assert!(before.is_none_or(|before| before == text), "two records at {pos}");
    }
    found
}

/// Returns the number of records that were reported as lost, each counted once.
fn lost(lines: &[Value], ring: &str) -> u64 {
    let mut losses = Losses::default();
    let of_ring = lines.iter().filter(|line| line["ring"] == ring && line["lost"].is_object());
    of_ring.for_each(|line| losses.add(&line["lost"]));
    losses.records()
}

/// Publishes in bursts until it is asked to stop: more than a starting sidecar takes from the ring,
/// and less than would fill the disk.
fn storm(mut producer: Producer, stop: &AtomicBool) -> Committed {
    let mut texts = BTreeSet::new();
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if producer.publish(text(n).as_bytes()).is_ok() {
            texts.insert(text(n));
        }
        if n % 32 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    let refused = producer.totals().refused.full.records;
    Committed { texts, refused }
}

#[test]
fn killed_at_random_nothing_is_lost_except_reported_losses() {
    let rings = Rings::new();
    let out = rings.path("out.jsonl");
    let config = rings.path("sidecar.toml");
    let text =
        format!("[[output]]\ntype = \"json\"\npath = {out:?}\nmax_bytes = 400_000\nkeep = 0\n");
    fs::write(&config, text).unwrap();
    let names = ["one", "two", "three"];
    let stop = AtomicBool::new(false);
    let committed: Vec<Committed> = thread::scope(|scope| {
        let storms: Vec<_> = names
            .iter()
            .map(|name| {
                let producer = rings.ring(name, Policy::Drop);
                let stop = &stop;
                scope.spawn(move || storm(producer, stop))
            })
            .collect();
        let stop = StopOnDrop(&stop);
        // The same numbers in every run, at varying moments of the turns of a process that takes
        // its own time.
        let mut rng = Rng::new(1);
        for _ in 0..8 {
            let before = rings.lines("out").len() as u64;
            let more = rng.below(2000);
            let mut live = rings.sidecar(&["--config", &config]);
            until("some lines come", || {
                // An estimate of the number of lines: 200 bytes each.
                let all: u64 = fs::read_dir(rings.place.0.path())
                    .unwrap()
                    .map(|entry| entry.unwrap().path())
                    .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
                    .map(|path| len(path.to_str().unwrap()))
                    .sum();
                all / 200 > before + more
            });
            live.child.kill().unwrap();
            live.child.wait().unwrap();
        }
        drop(stop);
        storms.into_iter().map(|storm| storm.join().unwrap()).collect()
    });
    let (_, _, code) = rings_end(rings.sidecar(&["--config", &config, "--once"]));
    assert_eq!(code, 0, "{}", rings.said());
    let lines = rings.lines("out");
    for (name, committed) in names.iter().zip(&committed) {
        let came = records(&lines, name);
        let texts: BTreeSet<String> = came.values().cloned().collect();
        assert_eq!(texts, committed.texts, "{name}");
        assert_eq!(came.len(), texts.len(), "{name}: one record under two keys");
        assert_eq!(lost(&lines, name), committed.refused, "{name}");
    }
    let all = lines.iter().filter(|line| line["lost"].is_null()).count();
    let unique: usize = committed.iter().map(|committed| committed.texts.len()).sum();
    eprintln!("{unique} records, {} of them twice", all - unique);
}

#[test]
fn rings_per_cpu_are_forwarded_like_any_others() {
    let rings = Rings::new();
    let options = Options { time: true, ..Options::per_cpu() };
    let producer = CpuProducer::create(rings.dir(), &options).unwrap();
    let publish = |from: u64, to: u64| {
        (from..to).for_each(|n| producer.publish(text(n).as_bytes()).unwrap());
    };
    publish(0, 100);
    let out = format!("json:{}", rings.path("out.jsonl"));
    let sidecar = rings.sidecar(&["--output", &*out]);
    until("a hundred come", || rings.lines("out").len() == 100);
    publish(100, 200);
    until("a hundred more come", || rings.lines("out").len() == 200);
    sidecar.signal(Signal::SIGTERM);
    assert_eq!(rings_end(sidecar).2, 0);
    let lines = rings.lines("out");
    assert!(lines.iter().all(|line| line["ring"].as_str().unwrap().contains("/cpu")));
    let texts: BTreeSet<_> = lines.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts, (0..200).map(text).collect::<Vec<_>>().iter().map(|text| &**text).collect());
}

#[test]
fn the_second_of_two_on_one_directory_reports_it_and_takes_over() {
    let rings = Rings::new();
    let mut producer = rings.ring("one", Policy::Drop);
    let first_out = format!("json:{}", rings.path("first.jsonl"));
    let mut first = rings.sidecar(&["--output", &first_out]);
    publish(&mut producer, 0, 2);
    until("the first has two", || rings.lines("first").len() == 2);
    let second_out = format!("json:{}", rings.path("second.jsonl"));
    let second = rings.sidecar(&["--output", &second_out]);
    until("the second reports it", || rings.said().contains("tried again"));
    let both = rings.sidecar(&["--output", &first_out]);
    assert_eq!(rings_end(both).2, 1, "the file is the first one's");
    assert!(rings.said().contains("another process writes to"), "{}", rings.said());
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    publish(&mut producer, 2, 4);
    until("the second has the rest", || !records(&rings.lines("second"), "one").is_empty());
    until("all are present", || {
        let mut all = records(&rings.lines("first"), "one");
        all.extend(records(&rings.lines("second"), "one"));
        all.len() == 4
    });
    second.signal(Signal::SIGTERM);
    assert_eq!(rings_end(second).2, 0);
}

/// A sidecar that removes each ring once it is read.
fn pruning(rings: &Rings) -> Live {
    let config = rings.path("sidecar.toml");
    let text = format!(
        "[[input]]\ndir = {:?}\nprune_after = \"0\"\n[[output]]\ntype = \"json\"\npath = {:?}\n",
        rings.dir(),
        rings.path("out.jsonl"),
    );
    fs::write(&config, text).unwrap();
    let said = File::create(rings.path("said")).unwrap();
    let mut command = perfring(&["sidecar", "--config", &config]);
    command.stderr(Stdio::from(said));
    Live::of(command)
}

#[test]
fn rings_come_and_go_and_are_removed_once_they_are_read() {
    let rings = Rings::new();
    let live = pruning(&rings);
    for turn in 0..3 {
        // Dead before it was read, or after.
        let mut producer = rings.ring("worker", Policy::Drop);
        publish(&mut producer, 10 * turn, 10 * turn + 10);
        drop(producer);
        let path = rings.place.path("rings").join("worker");
        until("it is removed", || !Path::exists(&path));
    }
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0);
    assert_eq!(rings.lines("out").len(), 30, "{}", rings.said());
    assert_eq!(rings.said().matches("was read, and its producers ended: removed").count(), 3);
}

/// Locks the first `len` bytes of a ring's file for reading, all for 0, as a program might that knows nothing of rings.
fn read_lock(file: &File, len: i64) {
    let lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: len,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
}

/// Creates a ring with one record, whose producer has detached, and locks it.
fn locked(rings: &Rings, len: i64) -> File {
    let mut producer = rings.ring("kept", Policy::Drop);
    publish(&mut producer, 0, 1);
    let file = File::open(rings.path("rings/kept")).unwrap();
    drop(producer);
    read_lock(&file, len);
    file
}

#[test]
fn a_ring_that_could_not_be_removed_is_read_again() {
    let rings = Rings::new();
    // The consumer's seat is free, the others are not.
    let lock = locked(&rings, CONSUMER_LOCK_BYTE as i64);
    let live = pruning(&rings);
    until("the removal fails", || rings.said().contains("cannot be removed"));
    drop(lock);
    let path = rings.path("rings/kept");
    until("a producer attaches", || {
        let Ok(mut producer) = Producer::attach(&path) else { return false };
        publish(&mut producer, 1, 2);
        true
    });
    until("the second record comes", || rings.lines("out").len() == 2);
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0);
    assert_eq!(rings.said().matches("cannot be removed").count(), 1, "{}", rings.said());
    assert!(rings.said().contains("nothing is left\""), "{}", rings.said());
}

/// A copy has the uuid of its ring, so that only one of the two can be read.
#[test]
fn copies_of_a_ring_do_not_hide_it() {
    let rings = Rings::new();
    let at = |name: &str| rings.place.path("rings").join(name);
    let elsewhere = rings.place.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut producer = rings.ring("m", Policy::Drop);
    publish(&mut producer, 0, 100);
    fs::copy(at("m"), at("a")).unwrap();
    fs::copy(at("m"), elsewhere.join("m")).unwrap();
    let output = format!("json:{}", rings.path("all.jsonl"));
    let other = elsewhere.to_str().unwrap();
    let control = rings.path("control");
    let live = rings.sidecar(&["--output", &output, &format!("--control={control}"), other]);
    let status = |how: &[&str]| {
        run(&[&["sidecar", "status", "--control", &control], how].concat(), b"").out()
    };
    let read = |count: usize| {
        until("all are delivered", || rings.lines("all").len() >= count);
        let lines = rings.lines("all");
        assert_eq!((lines.len(), records(&lines, "m").len()), (count, count));
    };
    read(100);
    fs::copy(at("m"), at("z")).unwrap();
    until("it is reported", || rings.said().contains("rings/z is not read"));
    let of = at("m").to_str().unwrap().to_owned();
    let copies = [elsewhere.join("m"), at("a"), at("z")].map(|path| path.display().to_string());
    let listed = copies.each_ref().map(|path| json!({ "path": path, "of": of, "ring": "m" }));
    let all = || serde_json::from_str::<Value>(&status(&["--json"])).unwrap();
    assert_eq!(all()["copies"], json!(listed));
    let told = status(&[]);
    assert!(told.lines().nth(1).unwrap().contains(", 3 copies of rings;"), "{told}");
    for path in &copies {
        assert!(
            told.contains(&format!("{path} is a copy of {of}, which is read as m\n")),
            "{told}"
        );
    }
    publish(&mut producer, 100, 200);
    read(200);
    // A copy that is removed does not end the ring, ...
    for copy in [at("a"), at("z"), elsewhere.join("m")] {
        fs::remove_file(copy).unwrap();
        publish(&mut producer, 0, 1);
    }
    until("they are delivered", || rings.lines("all").len() == 203);
    until("no copy is listed", || !status(&[]).contains("cop"));
    // ... and one that has another name now is the same.
    fs::rename(at("m"), elsewhere.join("m")).unwrap();
    publish(&mut producer, 0, 1);
    until("it is delivered", || rings.lines("all").len() == 204);
    let (now, late) = (elsewhere.join("m"), at("late"));
    until("its new name is known", || all()["rings"][0]["location"] == json!(now));
    fs::copy(&now, &late).unwrap();
    until("it is reported", || rings.said().contains("rings/late is a copy of"));
    drop(producer);
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0, "{}", rings.said());
    let said = rings.said();
    for copy in ["a", "z"] {
        let why = format!("{} is not read: the same ring as m, which is read", at(copy).display());
        assert_eq!(said.matches(&why).count(), 1, "{said}");
    }
    let why = format!("elsewhere/m is a copy of {}, which is read", at("m").display());
    assert_eq!(said.matches(&why).count(), 1, "{said}");
    let (last, now, late) = (said.lines().last().unwrap(), now.display(), late.display());
    let why = format!("; nothing is left; copies, which are not read: {late} of {now}\"");
    assert!(last.contains("level=info") && last.ends_with(&why), "{last}");
}

#[test]
fn a_ring_that_is_not_read_is_in_the_last_line() {
    let rings = Rings::new();
    let _lock = locked(&rings, 0);
    let live = pruning(&rings);
    until("an attach fails", || rings.said().contains("tried again"));
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0);
    let said = rings.said();
    let last = said.lines().last().unwrap();
    assert!(last.contains("level=warn") && last.contains("not read: "), "{last}");
    assert!(last.contains("rings/kept") && !last.contains("nothing is left\""), "{last}");
}

#[test]
fn a_file_that_holds_records_until_its_end_ends_before_it_fills_a_ring() {
    const ALL: u64 = 5_000;
    let kinds = ["perf-data"].into_iter().chain(cfg!(feature = "parquet").then_some("parquet"));
    for kind in kinds {
        let rings = Rings::new();
        let mut producer = rings.ring("one", Policy::Drop);
        let live = rings.sidecar(&["--output", &format!("{kind}:{}", rings.path("out"))]);
        for n in 0..ALL {
            // It is full for a moment when the sidecar is slow, and for ever if the file never ends.
            until("there is room", || producer.publish(text(n).as_bytes()).is_ok());
        }
        live.signal(Signal::SIGTERM);
        assert_eq!(rings_end(live).2, 0);
        let said = rings.said();
        assert!(said.contains(&format!("{kind}: {ALL} delivered; nothing is left")), "{said}");
        let files = fs::read_dir(rings.place.0.path()).unwrap();
        let of_it = |name: &str| name.starts_with("out");
        let files =
            files.filter(|file| of_it(file.as_ref().unwrap().file_name().to_str().unwrap()));
        // A ring of 64 KiB has room for about 1,600 of the records.
        let files = files.count();
        assert!((3..40).contains(&files), "{files} files of {kind}");
    }
}

#[test]
fn wrong_usage_has_a_message_and_the_example_is_right() {
    run(&["sidecar", "/nowhere", "--output", "fax:1"], b"")
        .refuses(2, "\"fax\" is not a type of output");
    run(&["sidecar", "/nowhere"], b"").refuses(2, "there is no output");
    let before = run(&["sidecar", "--control=/nowhere", "snapshot"], b"");
    before.refuses(2, "stand behind it: write `perfring sidecar snapshot --control=PATH`");
    let bare = run(&["sidecar", "/nowhere", "-o", "json:-", "--drain", "10"], b"");
    bare.refuses(2, "write it with its unit, like 250ms, 10s");
    run(&["sidecar", "/nowhere", "-o", "json:/nowhere/x.jsonl"], b"")
        .refuses(2, "json: the directory /nowhere of /nowhere/x.jsonl does not exist: create it");
    let place = Place::new();
    let file = place.path("x.jsonl");
    let other = place.0.path().join(".").join("x.jsonl");
    let [file, other] = [&file, &other].map(|path| format!("json:{}", path.display()));
    run(&["sidecar", "/nowhere", "-o", &file, "-o", &other, "--check"], b"")
        .refuses(2, "the output \"json\" and the output \"json-2\" both write to");
    // The example, with directories that are there.
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../sidecar.toml");
    let root = place.0.path().to_str().unwrap();
    let text = fs::read_to_string(example).unwrap();
    let text = text
        .replace("\"/var", &format!("\"{root}/var"))
        .replace("\"/run", &format!("\"{root}/run"));
    for dir in ["var/log/perfring", "var/lib/perfring", "run/perfring"] {
        fs::create_dir_all(place.path(dir)).unwrap();
    }
    let example = place.path("sidecar.toml");
    fs::write(&example, &text).unwrap();
    let check = || run(&["sidecar", "--config", example.to_str().unwrap(), "--check"], b"");
    let done = check();
    assert_eq!(done.code(), 0, "{}", done.err());
    assert!(done.err().contains("reads all rings in"), "{}", done.err());
    // A copy of it leaves nothing out.
    assert!(!text.contains("\n[[rule]]") && !done.err().contains("rule"), "{}", done.err());
    // With all of its outputs and rules: each kind of output is among them.
    let (before, rest) = text.split_once("Remove the first `# ` of each line.\n").unwrap();
    let (others, after) = rest.split_once("\n# Records that outputs are not given").unwrap();
    let (_, rules) = after.split_once("Remove the first `# ` of each line.\n").unwrap();
    let (rules, after) = rules.split_once("\n# Keep what overwrite rings").unwrap();
    let active = |lines: &str| -> String {
        let lines = lines.lines().map(|line| line.strip_prefix("# ").unwrap_or(line));
        lines.collect::<Vec<&str>>().join("\n")
    };
    let all = format!("{before}\n{}\n{}\n#{after}", active(others), active(rules));
    fs::write(&example, all).unwrap();
    let done = check();
    assert_eq!(done.code(), 0, "{}", done.err());
    assert!(done.err().contains("rule"), "{}", done.err());
    let help = run(&["sidecar", "--help"], b"").out();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for kind in perfring_export::registry::KINDS {
        assert!(done.err().contains(&format!("({})", kind.name)), "{}: {}", kind.name, done.err());
        assert!(help.contains(&kind.flag()), "{}: {help}", kind.name);
    }
}
