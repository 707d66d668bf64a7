//! A malicious process damages rings while the sidecar and the command read them: the sidecar
//! continues and loses nothing of its other rings, and no command ends by a signal.
//!
//! `PERFRING_STORM_SECONDS` for longer than the few seconds, `PERFRING_STORM_SEED` for another
//! course.

use crate::command::{Place, perfring, run};
use nix::sys::signal::Signal;
use perfring_consumer::{Producers, stat::Stat};
use perfring_producer::{Options, Policy, Producer, RecordType, SharedProducer};
use perfring_testkit::size::{cases, from_env};
use perfring_testkit::spoiler::Spoiler;
use perfring_testkit::wait::{WATCHDOG, Watchdog, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NUMBERED: RecordType = RecordType::new(7001).unwrap();
/// More than a sidecar of ten small rings needs.
const MEMORY: u64 = 400 << 20;
/// What the sidecar says of a damaged ring.
const SET_ASIDE: &str = "it is set aside, and the others continue";

fn bad_rings(dir: &Path) -> Vec<PathBuf> {
    let plain = Options { size: 16 << 10, types_size: 4096, slots: 4, ..Options::default() };
    let (overwrite, many) = (Policy::Overwrite, Producers::Many);
    let kinds = [
        ("bad-drop", Options { time: true, ..plain }),
        ("bad-overwrite", Options { policy: overwrite, time: true, ..plain }),
        ("bad-shared", Options { producers: many, ..plain }),
    ];
    let made = kinds.map(|(name, options)| {
        let path = dir.join(name);
        if options.producers == Producers::One {
            let mut producer = Producer::create(&path, &options).unwrap();
            (0..100).for_each(|_| producer.publish_as(NUMBERED, &[b'b'; 60]).unwrap());
        } else {
            let producer = SharedProducer::create(&path, &options).unwrap();
            (0..100).for_each(|_| producer.publish_as(NUMBERED, &[b'b'; 60]).unwrap());
        }
        path
    });
    made.into()
}

/// Stops the threads, also when a test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn spoil(path: &Path, seed: u64, stop: &AtomicBool) -> (u64, u64) {
    let mut spoiler = Spoiler::new(path, seed).unwrap();
    while !stop.load(Ordering::Relaxed) {
        spoiler.step().unwrap();
        // The sidecar must do more than attach.
        if spoiler.steps.is_multiple_of(8) {
            thread::sleep(Duration::from_micros(500));
        }
    }
    (spoiler.steps, spoiler.rings)
}

/// Publishes numbers until it is asked to stop. Returns how many.
fn produce(path: &Path, stop: &AtomicBool) -> u64 {
    let options = Options { size: 64 << 10, time: true, ..Options::default() };
    let mut producer = Producer::create(path, &options).unwrap();
    let mut number = 0u64;
    while !stop.load(Ordering::Relaxed) {
        // Waits for the sidecar, so that nothing is lost.
        let text = format!("{number:020}");
        match producer.publish_timeout(NUMBERED, text.as_bytes(), WATCHDOG) {
            Ok(()) => number += 1,
            Err(error) => panic!("{}: {error}", path.display()),
        }
        // The sidecar's output of a minute must fit on the disk.
        if number.is_multiple_of(16) {
            thread::sleep(Duration::from_micros(500));
        }
    }
    number
}

fn resident(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_sidecar_loses_nothing_of_its_other_rings() {
    let time = Duration::from_secs(from_env("PERFRING_STORM_SECONDS", cases(4, 60)));
    let seed = from_env("PERFRING_STORM_SEED", 1);
    let place = Place::new();
    let rings = place.path("rings");
    fs::create_dir(&rings).unwrap();
    let bad = bad_rings(&rings);
    let path = |name: &str| place.path(name).to_str().unwrap().to_owned();
    let mut sidecar = Command::new(env!("CARGO_BIN_EXE_perfring"));
    sidecar.args(["sidecar", rings.to_str().unwrap(), "--trust", "nobody", "--output", "json:-"]);
    sidecar.args(["--status", &path("status")]).stdin(Stdio::null());
    sidecar.stdout(File::create(path("lines")).unwrap());
    sidecar.stderr(File::create(path("said")).unwrap());
    let mut sidecar = sidecar.spawn().unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(sidecar.id()).unwrap());
    let good: Vec<PathBuf> = (0..3).map(|n| rings.join(format!("good-{n}"))).collect();
    let (stop, bad_stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let begun = Instant::now();
    let published: Vec<u64> = thread::scope(|scope| {
        let _stop = (StopOnDrop(&stop), StopOnDrop(&bad_stop));
        let producers: Vec<_> =
            good.iter().map(|path| scope.spawn(|| produce(path, &stop))).collect();
        let spoilers: Vec<_> = (seed..)
            .zip(&bad)
            .map(|(seed, path)| {
                scope.spawn({
                    let stop = &bad_stop;
                    move || spoil(path, seed, stop)
                })
            })
            .collect();
        let mut lives = || {
            let ended = sidecar.try_wait().unwrap();
            let said = || fs::read_to_string(path("said")).unwrap();
            assert!(ended.is_none(), "the sidecar ended: {ended:?}\n{}", said());
        };
        let dog = Watchdog::default();
        let says = |text| fs::read_to_string(path("said")).unwrap().contains(text);
        let is_told = || says(SET_ASIDE);
        while begun.elapsed() < time || !is_told() {
            dog.check("a damaged ring that is set aside");
            thread::sleep(Duration::from_millis(20));
            lives();
            // It is the sum of the figures of all rings. Before the start is over, the signal would end the process.
            if says("started: ") {
                nix::sys::signal::kill(pid, Signal::SIGUSR1).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        let published = producers.into_iter().map(|one| one.join().unwrap()).collect();
        // The storm continues until all records of the intact rings are delivered.
        until("all good rings to be read", || {
            lives();
            good.iter().all(|path| {
                let totals = Stat::read(path).unwrap().totals.unwrap();
                totals.tail == totals.head
            })
        });
        bad_stop.store(true, Ordering::Relaxed);
        for (path, spoiler) in bad.iter().zip(spoilers) {
            let (steps, rings) = spoiler.join().unwrap();
            let name = path.file_name().unwrap().display();
            println!("{name}: {steps} things done to {rings} rings");
        }
        published
    });
    let most = resident(&sidecar);
    nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
    let status = sidecar.wait().unwrap();
    let said = fs::read_to_string(path("said")).unwrap();
    assert_eq!(status.code(), Some(0), "{said}");

    let mut read: BTreeMap<String, u64> = BTreeMap::new();
    let mut others = 0u64;
    for line in fs::read_to_string(path("lines")).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let ring = line["ring"].as_str().unwrap();
        if !ring.starts_with("good-") {
            others += 1;
            continue;
        }
        let next = read.entry(ring.to_owned()).or_default();
        assert_eq!(line["text"].as_str(), Some(&*format!("{next:020}")), "{ring}: {line}");
        *next += 1;
    }
    for (n, published) in published.iter().enumerate() {
        assert_eq!(read.get(&format!("good-{n}")), Some(published), "good-{n}");
    }
    let status: Value = serde_json::from_slice(&fs::read(path("status")).unwrap()).unwrap();
    let damaged = status["rings_damaged"].as_u64().unwrap();
    assert!(damaged > 0 && said.contains(SET_ASIDE), "{said}");
    println!(
        "{} records of three good rings, all there; {others} of bad ones, {damaged} of which were set \
         aside; {} MiB at most",
        published.iter().sum::<u64>(),
        most >> 20
    );
    assert!(most < MEMORY, "{most} bytes");
}

#[test]
fn no_command_ends_by_a_signal() {
    let time = Duration::from_secs(from_env("PERFRING_STORM_SECONDS", cases(4, 60)));
    let seed = from_env("PERFRING_STORM_SEED", 1);
    let place = Place::new();
    let rings = place.path("rings");
    fs::create_dir(&rings).unwrap();
    let bad = bad_rings(&rings);
    let dir = rings.to_str().unwrap();
    let out = place.path("out");
    let out = out.to_str().unwrap();
    let commands: &[&[&str]] = &[
        &["tail", "RING"],
        &["consume", "RING", "--format", "json"],
        &["dump", "RING", "--format", "json"],
        &["stat", "RING", "--json"],
        &["types", "RING"],
        &["recover", "RING"],
        &["ls", dir],
        &["doctor", dir],
        &["record", dir, "--for", "0.1s", "--force", "-o", out],
        &["export", "RING", "--to", "perfetto", "--force", "-o", out],
        &["export", "RING", "--to", "perf-data", "--force", "-o", out],
    ];
    let stop = AtomicBool::new(false);
    let mut codes: BTreeMap<(&str, i32), u64> = BTreeMap::new();
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for (seed, path) in (seed..).zip(&bad) {
            scope.spawn({
                let stop = &stop;
                move || spoil(path, seed, stop)
            });
        }
        let begun = Instant::now();
        for round in 0.. {
            let ring = bad[round % bad.len()].to_str().unwrap();
            for args in commands {
                let args: Vec<&str> =
                    args.iter().map(|arg| if *arg == "RING" { ring } else { arg }).collect();
                let done = run(&args, b"");
                let code = done.code();
                let said = String::from_utf8_lossy(&done.0.stderr);
                assert!([0, 1, 3, 4].contains(&code), "{args:?}: {:?}: {said}", done.0.status);
                assert!(code == 0 || !said.is_empty() || args[0] == "doctor", "{args:?}: {code}");
                assert!(!said.contains("panicked"), "{args:?}: {said}");
                *codes.entry((args[0], code)).or_default() += 1;
            }
            if begun.elapsed() > time {
                break;
            }
        }
    });
    for ((name, code), count) in codes {
        println!("{name} ended {count} times with {code}");
    }
}

#[cfg(feature = "top")]
#[test]
fn top_goes_on_whatever_rings_say() {
    let time = Duration::from_secs(from_env("PERFRING_STORM_SECONDS", cases(4, 60)));
    let seed = from_env("PERFRING_STORM_SEED", 1);
    let place = Place::new();
    let rings = place.path("rings");
    fs::create_dir(&rings).unwrap();
    let bad = bad_rings(&rings);
    let exe = env!("CARGO_BIN_EXE_perfring");
    let top = format!("stty cols 80 rows 24; exec {exe} top --interval 50ms {}", rings.display());
    let mut top = Command::new("script")
        .args(["-qefc", &top, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(File::create(place.path("shown")).unwrap())
        .spawn()
        .expect("script, of util-linux, which is part of every Debian");
    let shown = || String::from_utf8_lossy(&fs::read(place.path("shown")).unwrap()).into_owned();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for (seed, path) in (seed..).zip(&bad) {
            scope.spawn({
                let stop = &stop;
                move || spoil(path, seed, stop)
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < time {
            thread::sleep(Duration::from_millis(20));
            let ended = top.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {ended:?}\n{}", shown());
        }
        std::io::Write::write_all(top.stdin.as_mut().unwrap(), b"q").unwrap();
        let ended = top.wait().unwrap();
        assert!(ended.success(), "{ended:?}\n{}", shown());
    });
}

/// Truncates one ring after the other while a command reads it.
#[test]
fn a_truncated_ring_has_a_message_and_exit_code_4() {
    let place = Place::new();
    for args in [&["tail", "-f"][..], &["consume", "-f"]] {
        let ring = place.path(args[0]);
        let options = Options { size: 16 << 10, ..Options::default() };
        let mut producer = Producer::create(&ring, &options).unwrap();
        producer.publish_as(NUMBERED, b"first").unwrap();
        let mut command = perfring(args);
        let mut child = command.arg(&ring).spawn().unwrap();
        // Once it has shown the first record, it is attached.
        let mut first = [0; 1];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
        File::options().write(true).open(&ring).unwrap().set_len(0).unwrap();
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(4), "{args:?}: {:?}: {said}", done.status);
        assert!(said.contains("truncated"), "{args:?}: {said}");
        std::mem::forget(producer); // it would touch what is cut, and has no guard
    }
}
