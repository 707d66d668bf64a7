//! The promises of `perfring sidecar` while it is killed, gets signals, and lacks resources.

use crate::command::{Live, Place, close_and_wait, json_lines, perfring, run, until};
use nix::sys::signal::Signal;
use perfring_consumer::Stat;
use perfring_producer::{CpuProducer, Options, Policy, Producer};
use perfring_telemetry::{Gauge, Log, Resource, Severity, Sink, options};
use perfring_testkit::rng::Rng;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A directory for rings, one for the outputs, and the stderr of the sidecar.
struct Rings {
    place: Place,
}

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

impl Rings {
    fn new() -> Self {
        let place = Place::new();
        fs::create_dir(place.path("rings")).unwrap();
        Rings { place }
    }

    fn dir(&self) -> String {
        self.path("rings")
    }

    fn path(&self, name: &str) -> String {
        self.place.path(name).to_str().unwrap().to_owned()
    }

    fn ring(&self, name: &str, policy: Policy) -> Producer {
        let options = Options { size: 64 << 10, policy, time: true, ..Options::default() };
        Producer::create(self.place.path("rings").join(name), &options).unwrap()
    }

    /// A sidecar whose stderr goes to the file `said`.
    fn sidecar(&self, args: &[&str]) -> Live {
        let said = File::options().append(true).create(true).open(self.path("said")).unwrap();
        let dir = self.dir();
        let mut all = vec!["sidecar", &dir];
        all.extend(args);
        let mut command = perfring(&all);
        command.stderr(Stdio::from(said));
        Live::of(command)
    }

    /// A disk with room for 512 KiB, if one may be mounted.
    fn disk(&self) -> Option<Disk> {
        let disk = self.path("disk");
        fs::create_dir(&disk).unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=512k", "none", &disk])
            .output()
            .is_ok_and(|done| done.status.success());
        if !mounted {
            let why = "only root may mount a small disk to fill";
            assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "{why}");
            eprintln!("SKIPPED: {why}");
        }
        mounted.then_some(Disk(disk))
    }

    /// A ring with room for some hundred thousand records.
    fn large_ring(&self, name: &str) -> Producer {
        let options = Options { size: 16 << 20, time: true, ..Options::default() };
        Producer::create(self.place.path("rings").join(name), &options).unwrap()
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    /// Returns all lines of a file and of the finished files before it.
    fn lines(&self, stem: &str) -> Vec<Value> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.place.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(stem))
            .collect();
        files.sort();
        let whole = |path: &PathBuf| {
            // The last line may be incomplete.
            let text = fs::read_to_string(path).unwrap();
            json_lines(text.rsplit_once('\n').map_or("", |(whole, _)| whole))
        };
        files.iter().flat_map(whole).collect()
    }
}

/// A small disk, unmounted at the end.
struct Disk(String);

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn publish(producer: &mut Producer, from: u64, to: u64) {
    for n in from..to {
        producer.publish(text(n).as_bytes()).unwrap();
    }
}

fn text(n: u64) -> String {
    format!("record {n:08}")
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

/// Returns the number of records that were reported as lost, each report counted once.
fn lost(lines: &[Value], ring: &str) -> u64 {
    let mut found = BTreeMap::new();
    for line in lines.iter().filter(|line| line["ring"] == ring) {
        if let Some(pos) = line["lost"]["pos"].as_u64() {
            found.insert(pos, line["lost"]["records"].as_u64().unwrap());
        }
    }
    found.values().sum()
}

fn len(path: &str) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
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
        let totals = Stat::read(rings.place.path("rings").join(name)).unwrap().totals.unwrap();
        let reported = lost(&lines, name) + totals.unreported().records;
        assert_eq!(reported, committed.refused, "{name}");
    }
    let all = lines.iter().filter(|line| line["lost"].is_null()).count();
    let unique: usize = committed.iter().map(|committed| committed.texts.len()).sum();
    eprintln!("{unique} records, {} of them twice", all - unique);
}

/// The rest of stdout, and the code.
fn rings_end(mut live: Live) -> (String, String, i32) {
    let mut out = String::new();
    std::io::Read::read_to_string(&mut live.out, &mut out).unwrap();
    let code = live.child.wait().unwrap().code().unwrap_or(-1);
    (out, String::new(), code)
}

#[test]
fn sigterm_delivers_what_was_read_and_the_next_one_continues_there() {
    let rings = Rings::new();
    let mut drops = rings.ring("drops", Policy::Drop);
    let mut flight = rings.ring("flight", Policy::Overwrite);
    let (out, state) = (format!("json:{}", rings.path("out.jsonl")), rings.path("state.json"));
    let args = ["--output", &*out, "--state", &*state];
    publish(&mut drops, 0, 10);
    publish(&mut flight, 0, 10);
    let first = rings.sidecar(&args);
    until("twenty come", || rings.lines("out").len() == 20);
    publish(&mut drops, 10, 15);
    until("five more come", || rings.lines("out").len() == 25);
    first.signal(Signal::SIGTERM);
    assert_eq!(rings_end(first).2, 0);
    // While no process reads, the overwrite ring wraps several times.
    publish(&mut drops, 15, 20);
    publish(&mut flight, 10, 10_000);
    let second = rings.sidecar(&args);
    until("the last come", || {
        let lines = rings.lines("out");
        let last = |ring: &str| records(&lines, ring).values().last().cloned();
        last("drops") == Some(text(19)) && last("flight") == Some(text(9_999))
    });
    second.signal(Signal::SIGINT);
    assert_eq!(rings_end(second).2, 130);
    let lines = rings.lines("out");
    assert_eq!(records(&lines, "drops").len(), 20);
    // Exactly: each record arrived once, or is counted as lost.
    let came = lines.iter().filter(|line| line["ring"] == "flight" && line["lost"].is_null());
    let (came, lost) = (came.count() as u64, lost(&lines, "flight"));
    assert!(lost > 0);
    assert_eq!(came + lost, 10_000, "came {came}, lost {lost}");
    assert_eq!(lines.iter().filter(|line| line["ring"] == "drops").count(), 20);
}

#[test]
fn an_output_on_a_full_disk_holds_up_no_other_and_sighup_repairs_it() {
    const ALL: u64 = 100_000;
    let rings = Rings::new();
    let Some(Disk(disk)) = &rings.disk() else { return };
    let mut producer = rings.large_ring("one");
    let (stuck, healthy, config) =
        (format!("{disk}/stuck.jsonl"), rings.path("healthy.jsonl"), rings.path("sidecar.toml"));
    let write_config = |stuck: &str| {
        let output =
            |name, path| format!("[[output]]\ntype = \"json\"\nname = {name:?}\npath = {path:?}\n");
        fs::write(&config, output("stuck", stuck) + &output("healthy", &healthy)).unwrap();
    };
    write_config(&stuck);
    let live = rings.sidecar(&["--config", &config]);
    publish(&mut producer, 0, ALL / 2);
    let count = |name: &str| rings.lines(name).len() as u64;
    until("the healthy one has half", || count("healthy") == ALL / 2);
    until("the disk is full", || rings.said().contains("No space left on device"));
    publish(&mut producer, ALL / 2, ALL);
    until("the healthy one has all", || count("healthy") == ALL);
    let mended = rings.path("mended.jsonl");
    write_config(&mended);
    live.signal(Signal::SIGHUP);
    until("it is applied", || rings.said().contains("was reloaded"));
    let path = rings.place.path("rings").join("one");
    until("all is released", || {
        let totals = Stat::read(path.clone()).unwrap().totals.unwrap();
        totals.tail == totals.head
    });
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0, "{}", rings.said());
    let before = fs::read_to_string(&stuck).unwrap();
    assert!(before.ends_with('\n') && before.len() > 400 << 10, "it is truncated to whole lines");
    let before = json_lines(&before);
    let after = rings.lines("mended");
    eprintln!("{} lines before, {} after", before.len(), after.len());
    assert_eq!((before.len() + after.len()) as u64, ALL, "none is lost, and none doubled");
    let texts = |lines: &[Value]| -> Vec<String> {
        lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<String> = [texts(&before), texts(&after)].concat();
    assert!(all.iter().cloned().eq((0..ALL).map(text)) && texts(&rings.lines("healthy")) == all);
}

#[test]
fn a_buffer_takes_what_a_stuck_output_lacks_and_a_small_ring_goes_on() {
    const ALL: u64 = 50_000;
    let rings = Rings::new();
    let Some(Disk(disk)) = &rings.disk() else { return };
    let (mut producer, config) = (rings.ring("one", Policy::Drop), rings.path("sidecar.toml"));
    let (stuck, healthy) = (format!("{disk}/stuck.jsonl"), rings.path("healthy.jsonl"));
    let buffer = rings.path("buffer");
    let text_of = format!(
        "[[output]]\ntype = \"json\"\nname = \"stuck\"\npath = {stuck:?}\n\
         buffer = {{ path = {buffer:?} }}\n\
         [[output]]\ntype = \"json\"\nname = \"healthy\"\npath = {healthy:?}\n"
    );
    fs::write(&config, text_of).unwrap();
    let live = rings.sidecar(&["--config", &config]);
    // The ring has room for some two thousand of them.
    for n in 0..ALL {
        until("there is room", || producer.publish(text(n).as_bytes()).is_ok());
    }
    until("the healthy one has all", || {
        records(&rings.lines("healthy"), "one").len() as u64 == ALL
    });
    assert!(rings.said().contains("No space left on device"), "{}", rings.said());
    let path = rings.place.path("rings").join("one");
    until("the ring is empty", || {
        let totals = Stat::read(path.clone()).unwrap().totals.unwrap();
        totals.tail == totals.head
    });
    let written = json_lines(fs::read_to_string(&stuck).unwrap().rsplit_once('\n').unwrap().0);
    assert!((written.len() as u64) < ALL / 2, "{}", written.len());
    // Killed, the disk mended: the rest comes out of the buffer.
    let mut live = live;
    live.child.kill().unwrap();
    live.child.wait().unwrap();
    let more = std::process::Command::new("mount")
        .args(["-o", "remount,size=64m", disk])
        .status()
        .unwrap();
    assert!(more.success());
    let live = rings.sidecar(&["--config", &config]);
    let texts = || -> Vec<String> {
        let whole = fs::read_to_string(&stuck).unwrap();
        let lines = json_lines(whole.rsplit_once('\n').map_or("", |(whole, _)| whole));
        records(&lines, "one").into_values().collect()
    };
    until("it has all", || texts().len() as u64 == ALL);
    assert!(texts().into_iter().eq((0..ALL).map(text)));
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0);
}

#[test]
fn sigterm_reads_what_the_rings_hold_and_a_second_one_ends_at_once() {
    const ALL: u64 = 200_000;
    let rings = Rings::new();
    let mut producer = rings.large_ring("one");
    publish(&mut producer, 0, ALL);
    let out = format!("json:{}", rings.path("out.jsonl"));
    let live = rings.sidecar(&["--output", &out]);
    until("it reads", || len(&rings.path("out.jsonl")) > 0);
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0);
    assert_eq!(rings.lines("out").len() as u64, ALL, "{}", rings.said());
    let said = rings.said();
    let last = said.lines().next_back().unwrap();
    assert!(
        last.contains("200000 records, 0 lost") && last.ends_with("nothing is left\""),
        "{said}"
    );
    // One that cannot deliver takes its time, if it is let.
    publish(&mut producer, ALL, ALL + 100_000);
    let mut live = rings.sidecar(&["--output", "json:-", "--drain", "1h"]);
    assert!(live.line().contains(&text(ALL)));
    live.signal(Signal::SIGTERM);
    until("it has the first", || rings.said().contains("for at most 1h"));
    live.signal(Signal::SIGTERM);
    until("it ends", || live.child.try_wait().unwrap().is_some());
    assert_eq!(live.child.wait().unwrap().code(), Some(143));
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
    assert!(lines.iter().all(|line| line["ring"].as_str().unwrap().starts_with("cpu")));
    let texts: BTreeSet<_> = lines.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts, (0..200).map(text).collect::<Vec<_>>().iter().map(|text| &**text).collect());
}

#[test]
fn sighup_applies_changes_and_refuses_an_invalid_configuration() {
    let rings = Rings::new();
    let mut producer = rings.ring("one", Policy::Drop);
    let config = rings.path("sidecar.toml");
    let output = |name: &str| {
        format!("[[output]]\ntype = \"json\"\nname = {name:?}\npath = {:?}\n", rings.path(name))
    };
    fs::write(&config, output("a.jsonl")).unwrap();
    let live = rings.sidecar(&["--config", &config]);
    publish(&mut producer, 0, 1);
    until("the first comes", || rings.lines("a.jsonl").len() == 1);
    fs::write(&config, output("a.jsonl") + "paht = \"x\"\n").unwrap();
    live.signal(Signal::SIGHUP);
    until("it is refused", || rings.said().contains("the old configuration stays"));
    assert!(rings.said().contains("line 5: unknown field `paht`"), "{}", rings.said());
    publish(&mut producer, 1, 2);
    until("the second comes", || rings.lines("a.jsonl").len() == 2);
    fs::write(&config, output("a.jsonl") + &output("b.jsonl")).unwrap();
    live.signal(Signal::SIGHUP);
    until("it is applied", || rings.said().contains("was reloaded"));
    publish(&mut producer, 2, 3);
    until("both have it", || {
        rings.lines("b.jsonl").len() == 1 && rings.lines("a.jsonl").len() == 3
    });
    fs::write(&config, output("b.jsonl")).unwrap();
    live.signal(Signal::SIGHUP);
    until("it is applied", || rings.said().matches("was reloaded").count() == 2);
    publish(&mut producer, 3, 4);
    until("one has it", || rings.lines("b.jsonl").len() == 2);
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0);
    assert_eq!(rings.lines("a.jsonl").len(), 3);
}

#[test]
fn sigusr2_keeps_what_overwrite_rings_hold() {
    let rings = Rings::new();
    let mut flight = rings.ring("flight", Policy::Overwrite);
    let mut other = rings.ring("other", Policy::Overwrite);
    let snapshots = rings.path("snapshots");
    publish(&mut flight, 0, 5);
    publish(&mut other, 5, 8);
    let out = format!("json:{}", rings.path("out.jsonl"));
    let live = rings.sidecar(&["--output", &out, "--snapshots", &snapshots]);
    until("both are read", || rings.lines("out").len() == 8);
    live.signal(Signal::SIGUSR1);
    until("the figures are printed", || rings.said().contains("2 rings: 8 records, 0 lost"));
    live.signal(Signal::SIGUSR2);
    until("it is written", || rings.said().contains("8 records in"));
    live.signal(Signal::SIGTERM);
    rings_end(live);
    let files: Vec<PathBuf> =
        fs::read_dir(&snapshots).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let file = files[0].to_str().unwrap();
    assert!(file.ends_with("Z-signal.perfrec"), "{file}");
    let shown = run(&["export", file, "--to", "json", "-o", "-"], b"");
    assert_eq!(shown.code(), 0, "{}", shown.err());
    let lines = json_lines(&shown.out());
    let mut texts: Vec<&str> = lines.iter().filter_map(|line| line["text"].as_str()).collect();
    texts.sort_unstable();
    let expected: Vec<String> = (0..8).map(text).collect();
    assert_eq!(texts, expected);
}

#[test]
fn each_rule_keeps_what_flight_recorders_hold_when_it_is_triggered() {
    let rings = Rings::new();
    let mut flight = rings.ring("flight", Policy::Overwrite);
    publish(&mut flight, 0, 5);
    let rules = [("type perfring.Gauge", "by-type"), ("severity>=17", "by-severity")];
    let rules = rules.into_iter().chain([("producer death", "by-death")]);
    let text =
        rules.map(|(on, dir)| format!("[[snapshot]]\non = {on:?}\ndir = {:?}\n", rings.path(dir)));
    let config = rings.path("sidecar.toml");
    fs::write(&config, text.collect::<String>()).unwrap();
    let kept = || {
        ["by-type", "by-severity", "by-death"].map(|dir| {
            let files = fs::read_dir(rings.path(dir)).into_iter().flatten();
            let names = files.map(|file| file.unwrap().file_name());
            names.filter(|name| name.to_str().unwrap().ends_with(".perfrec")).count()
        })
    };
    let log = rings.place.path("rings").join("log");
    let sink = Sink::create(&log, &options(), Resource::default()).unwrap();
    let say = |severity| sink.emit(&Log { severity: Some(severity), ..Log::default() }).unwrap();
    let out = format!("json:{}", rings.path("out.jsonl"));
    let live = rings.sidecar(&["--config", &config, "--output", &out]);
    say(Severity::Warn);
    until("the warning is read", || rings.lines("out").len() == 5 + 2); // and its resource
    assert_eq!(kept(), [0, 0, 0]);
    sink.emit(&Gauge::new("depth", 1u64)).unwrap();
    until("the type is seen", || kept() == [1, 0, 0]);
    say(Severity::Error);
    until("the error is seen", || kept() == [1, 1, 0]);
    drop(flight);
    until("the end is seen", || kept() == [1, 1, 1]);
    live.signal(Signal::SIGTERM);
    rings_end(live);
}

#[test]
fn a_closed_pipe_ends_it_quietly_and_the_rest_stays_in_the_ring() {
    let rings = Rings::new();
    let mut producer = rings.ring("one", Policy::Drop);
    publish(&mut producer, 0, 3);
    let dir = rings.dir();
    let mut live = Live::start(&["sidecar", &dir, "--output", "json:-"]);
    for n in 0..3 {
        assert!(live.line().contains(&text(n)));
    }
    let path = rings.place.path("rings").join("one");
    until("three are released", || {
        let totals = Stat::read(path.clone()).unwrap().totals.unwrap();
        totals.tail == totals.head
    });
    // A closed pipe is noticed at once, and not at the next line.
    let (err, code) = close_and_wait(live);
    assert_eq!((code, &*err), (0, ""));
    publish(&mut producer, 3, 5);
    let rest = run(&["sidecar", &dir, "--output", "json:-", "--once"], b"");
    assert_eq!(rest.code(), 0, "{}", rest.err());
    let lines = json_lines(&rest.out());
    assert_eq!(records(&lines, "one").into_values().collect::<Vec<_>>(), [text(3), text(4)]);
}

#[test]
fn a_slow_reader_of_stdout_does_not_delay_the_end() {
    let rings = Rings::new();
    let mut producer = rings.ring("one", Policy::Drop);
    let config = rings.path("sidecar.toml");
    let status = rings.path("status");
    let says = format!(
        "drain = \"0s\"\nshutdown = \"0\"\nstatus = {status:?}\nstatus_interval = \"0\"\n\
         [[output]]\ntype = \"json\"\n"
    );
    fs::write(&config, says).unwrap();
    let path = rings.place.path("rings").join("one");
    let live = rings.sidecar(&["--config", &config]);
    // More than a pipe holds, and it is not read.
    publish(&mut producer, 0, 10);
    until("the first are delivered", || Stat::read(path.clone()).unwrap().totals.unwrap().tail > 0);
    publish(&mut producer, 10, 1500);
    until("all are read", || {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let status: Value = serde_json::from_str(&status).unwrap_or_default();
        status["rings"][0]["records"] == 1500
    });
    live.signal(Signal::SIGTERM);
    let Live { child, .. } = &mut { live };
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let last = rings.said().lines().rfind(|line| line.contains("left:")).map(str::to_owned);
    let stat = Stat::read(path.clone()).unwrap().totals.unwrap();
    let left = format!(
        "1 rings: 1500 records, 0 lost, {0} bytes to deliver; json:",
        stat.head - stat.tail
    );
    assert!(last.is_some_and(|last| last.contains(&left) && last.ends_with(" bytes in one\"")));
    assert!(rings.said().contains("could not be written before the deadline"), "{}", rings.said());
    // What was not written is still in the ring, to the last record.
    let rest = run(&["sidecar", &rings.dir(), "--output", "json:-", "--once"], b"");
    let rest = records(&json_lines(&rest.out()), "one");
    assert!(rest.len() < 1500 && rest.into_values().next_back() == Some(text(1499)));
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
    until("the second reports it", || rings.said().contains("retrying"));
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

#[test]
fn rings_come_and_go_and_are_removed_once_they_are_read() {
    let rings = Rings::new();
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
    let live = Live::of(command);
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

#[test]
fn a_full_disk_is_reported_and_nothing_is_lost() {
    let rings = Rings::new();
    let Some(Disk(disk)) = &rings.disk() else { return };
    let filler = format!("{disk}/filler");
    fs::write(&filler, vec![0; 480 << 10]).unwrap();
    let mut producer = rings.ring("one", Policy::Drop);
    let out = format!("{disk}/out.jsonl");
    let live = rings.sidecar(&["--output", &format!("json:{out}")]);
    let mut sent = 0;
    until("the disk is full", || {
        if sent < 1000 && producer.publish(text(sent).as_bytes()).is_ok() {
            sent += 1;
        }
        rings.said().contains("No space left on device")
    });
    fs::remove_file(&filler).unwrap();
    publish(&mut producer, sent, sent + 1);
    until("it continues", || rings.said().contains("level=info output=json msg=recovered"));
    until("all are present", || {
        let whole = fs::read_to_string(&out).unwrap();
        whole.ends_with('\n') && records(&json_lines(&whole), "one").len() as u64 == sent + 1
    });
    live.signal(Signal::SIGTERM);
    assert_eq!(rings_end(live).2, 0);
    let lines = json_lines(&fs::read_to_string(&out).unwrap());
    assert_eq!(lines.len() as u64, sent + 1, "none twice, none torn");
}

#[test]
fn after_sigkill_outputs_that_write_files_go_on_beside_their_last_ones() {
    let rings = Rings::new();
    let mut producer = rings.ring("one", Policy::Drop);
    let outputs = [("recording", "run.perfrec"), ("perfetto", "run.pftrace"), ("ctf", "run")];
    let flags = outputs.map(|(kind, name)| format!("{kind}:{}", rings.path(name)));
    let args: Vec<&str> = flags.iter().flat_map(|flag| ["--output", flag]).collect();
    let path = rings.place.path("rings").join("one");
    for life in 0..3 {
        let mut live = rings.sidecar(&args);
        publish(&mut producer, 1000 * life, 1000 * (life + 1));
        until("all is delivered", || {
            let totals = Stat::read(path.clone()).unwrap().totals.unwrap();
            totals.tail == totals.head
        });
        live.child.kill().unwrap();
        live.child.wait().unwrap();
        // As if the machine had died in the middle of a write.
        let last = rings.path(if life == 0 { "run.perfrec" } else { "run.000002.perfrec" });
        if life < 2 {
            let mut torn = fs::read(&last).unwrap();
            torn.extend(b"PFRB half a block");
            fs::write(&last, torn).unwrap();
        }
    }
    let mut came = Vec::new();
    for name in ["run.perfrec", "run.000002.perfrec", "run.000003.perfrec"] {
        let mut reader =
            perfring_export::recording::Reader::open(rings.path(name).as_ref()).unwrap();
        while let Ok(Some(event)) = reader.next() {
            if let perfring_export::What::Record(record) = event.what {
                came.push(String::from_utf8(record.bytes.to_vec()).unwrap());
            }
        }
    }
    came.dedup();
    assert_eq!(came, (0..3000).map(text).collect::<Vec<_>>());
    for name in ["run.pftrace", "run.000002.pftrace", "run.000003.pftrace", "run.000003"] {
        assert!(Path::new(&rings.path(name)).exists(), "{name}: {}", rings.said());
    }
}

#[test]
fn wrong_usage_has_a_message_and_the_example_is_right() {
    run(&["sidecar", "/nowhere", "--output", "fax:1"], b"")
        .refuses(2, "\"fax\" is not a type of output");
    run(&["sidecar", "/nowhere"], b"").refuses(2, "there is no output");
    let bare = run(&["sidecar", "/nowhere", "-o", "json:-", "--drain", "10"], b"");
    bare.refuses(2, "write it with a unit, like 10s");
    run(&["sidecar", "/nowhere", "-o", "json:/nowhere/x.jsonl"], b"")
        .refuses(2, "json: the directory /nowhere of /nowhere/x.jsonl does not exist: create it");
    let place = Place::new();
    let file = place.path("x.jsonl");
    let other = place.0.path().join(".").join("x.jsonl");
    let [file, other] = [&file, &other].map(|path| format!("json:{}", path.display()));
    run(&["sidecar", "/nowhere", "-o", &file, "-o", &other, "--check"], b"")
        .refuses(2, "the outputs \"json\" and \"json-2\" both write to");
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
    // With all of its outputs: each kind is among them.
    let (before, rest) = text.split_once("Remove the first `# ` of each line.\n").unwrap();
    let (others, after) = rest.split_once("\n# Records that outputs are not given").unwrap();
    let others: Vec<&str> =
        others.lines().map(|line| line.strip_prefix("# ").unwrap_or(line)).collect();
    let all = format!("{before}\n{}\n#{after}", others.join("\n"));
    fs::write(&example, all).unwrap();
    let done = check();
    assert_eq!(done.code(), 0, "{}", done.err());
    let help = run(&["sidecar", "--help"], b"").out();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for kind in perfring_export::registry::KINDS {
        assert!(done.err().contains(&format!("({})", kind.name)), "{}: {}", kind.name, done.err());
        assert!(help.contains(&kind.flag()), "{}: {help}", kind.name);
    }
}
