//! `perfring record --why` and `perfring why`, on the running kernel and by hand.

mod blind;
mod flight;
mod looks;
mod shop;
mod stranger;

use crate::command::{Done, Live, Place, json_lines, run, skipped};
use nix::sys::signal::Signal;
use perfring_consumer::{Consumer, stat::Stat};
use perfring_kernel::{EventKind, Options as KernelOptions, Target};
use perfring_testkit::wait::{Watchdog, until};
use serde_json::Value;
use shop::Shop;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Returns whether this machine forbids it to watch all tasks.
fn is_forbidden() -> bool {
    let options =
        KernelOptions { events: vec![EventKind::Switches], ..KernelOptions::of(Target::System) };
    match perfring_kernel::open(&options) {
        Err(error) if error.is_forbidden() => {
            skipped(&error.to_string());
            true
        }
        _ => false,
    }
}

/// A recording while it is made.
struct Recorded {
    place: Place,
    live: Option<Live>,
}

impl Recorded {
    /// Begins to record a ring, and waits until the kernel's switches are recorded: the file says so.
    fn begin(place: Place, ring: &str) -> Self {
        let mut recorded = Recorded { place, live: None };
        let file = recorded.file();
        recorded.live = Some(Live::start(&["record", ring, "--why", "-o", &file]));
        recorded.until("the watch has begun", |line| {
            line["summary"]["covered_ns"].as_u64().is_some_and(|ns| ns > 0)
        });
        recorded
    }

    fn path(&self) -> PathBuf {
        self.place.path("run.perfrec")
    }

    fn file(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    /// Returns what `perfring why` says of what is recorded so far.
    fn so_far(&self) -> Vec<Value> {
        match self.path().exists() {
            true => {
                json_lines(&run(&["why", &self.file(), "--json", "--top", "100000"], b"").out())
            }
            false => Vec::new(),
        }
    }

    fn until(&self, what: &str, is_it: impl Fn(&Value) -> bool) {
        until(what, || self.so_far().iter().any(&is_it));
    }

    /// Ends the recording.
    fn end(&mut self) -> Done {
        let live = self.live.take().unwrap();
        live.signal(Signal::SIGINT);
        let (_, err, code) = live.end();
        assert_eq!(code, 130, "{err}");
        let done = run(&["why", &self.file(), "--json", "--top", "100000"], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        done
    }
}

/// A line of `perfring publish`, which another process drives.
struct Lines(Live);

impl Lines {
    /// Starts to publish into a ring.
    fn start(mut command: Command) -> Self {
        Lines(Live::of({
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        }))
    }

    /// Publishes a line, and waits until rings in this directory, or this ring, have that many records.
    fn say(&mut self, at: &str, number: u64) {
        writeln!(self.0.child.stdin.as_mut().unwrap(), "a line").unwrap();
        let at = std::path::Path::new(at);
        until("the record is in the ring", || {
            let rings = match at.is_dir() {
                true => fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect(),
                false => vec![at.to_owned()],
            };
            let totals = rings.into_iter().filter_map(|ring| Stat::read(ring).ok()?.totals);
            totals.map(|totals| totals.producer.written.records).sum::<u64>() >= number
        });
    }
}

/// A ring with timestamps, and its process.
fn shop(place: &Place) -> (String, Shop) {
    let ring = place.ring(&["--time", "--size", "64K"]);
    let shop = Shop::start(&ring);
    (ring, shop)
}

/// Returns the gap between two records whose times the process has returned.
#[track_caller]
fn gap<'a>(lines: &'a [Value], pid: u32, answer: &Value) -> &'a Value {
    let times: Vec<u64> =
        answer["times"].as_array().unwrap().iter().map(|time| time.as_u64().unwrap()).collect();
    let of = |line: &&Value| {
        let (time, length) = (line["time_ns"].as_u64(), line["duration_ns"].as_u64());
        line["what"] == "gap"
            && line["attributes"]["process.pid"] == pid
            && time.zip(length).is_some_and(|(time, length)| {
                // The first record was written a little before its time was read; likewise the second.
                time <= times[0] && time + length > times[0] && time + length <= times[1]
            })
    };
    let mut found = lines.iter().filter(of);
    let gap = found.next().unwrap_or_else(|| panic!("no gap of {pid} at {times:?}: {lines:#?}"));
    assert_eq!(found.next(), None);
    gap
}

fn part(gap: &Value, name: &str) -> u64 {
    gap["parts"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {gap}"))
}

/// Checks the rule that names the cause: the part that is more than half. (Stops and throttling are parts of others.)
#[track_caller]
fn is_consistent(gap: &Value) {
    let length = gap["duration_ns"].as_u64().unwrap();
    let (ran, faulting) = (part(gap, "ran_ns"), part(gap, "faulting_ns"));
    let faulting_or_own = part(gap, "faulting_or_own_ns");
    let own = ran - faulting - faulting_or_own;
    let parts = [
        ("preempted", part(gap, "preempted_ns")),
        ("kept waiting", part(gap, "kept_ns")),
        ("blocked", part(gap, "waited_ns")),
        ("page faults", faulting),
        ("own code", own),
        ("own code or page faults", if faulting_or_own > 0 { ran } else { 0 }),
    ];
    let most = parts.iter().find(|(_, ns)| *ns > length / 2).map_or("several", |(cause, _)| cause);
    let cause = gap["cause"].as_str().unwrap();
    let special = ["stopped", "stopped briefly", "throttled", "run delay", "system call", "stolen"]
        .contains(&cause);
    assert!(special || cause == most, "{gap}");
    // The two clocks differ by some µs at either end.
    let sum: u64 = ran + parts[..3].iter().map(|(_, ns)| ns).sum::<u64>();
    assert!(sum.abs_diff(length) < 100_000, "{sum} of {length}: {gap}");
}

/// Each is what the process did, by its own clocks and counters. What other programs of the machine add is in other parts.
#[test]
fn what_a_process_does_between_two_records_is_told_apart() {
    if is_forbidden() {
        return;
    }
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    let mut recorded = Recorded::begin(place, &ring);
    let did: Vec<(&str, Value)> = ["sleep=20000", "spin=20000", "fault=4096"]
        .into_iter()
        .map(|what| (what, shop.ask(&format!("write {what} write"))))
        .collect();
    let lines = json_lines(&recorded.end().out());
    for (what, answer) in did {
        let gap = gap(&lines, shop.pid(), &answer);
        println!("{what}: {}", gap["sentence"].as_str().unwrap());
        assert_ne!(gap["cause"], "unknown", "{gap}");
        assert_eq!(
            gap["attributes"]["thread.id"].as_u64().unwrap() as u32,
            thread_of(shop.pid(), gap)
        );
        is_consistent(gap);
        let counted = |name: &str| answer[name].as_u64().unwrap();
        assert!(part(gap, "waits") <= counted("waits"), "{answer} {gap}");
        assert!(part(gap, "preemptions") <= counted("preemptions"), "{answer} {gap}");
        match what {
            "sleep=20000" => assert!(part(gap, "waited_ns") >= 19_900_000, "{gap}"),
            "spin=20000" => assert!(part(gap, "ran_ns") >= 19_500_000, "{gap}"),
            _ => {
                let (seen, faults) = (part(gap, "page_faults"), counted("faults"));
                assert!(seen > 2_000 && seen <= faults, "{seen} of {faults}");
            }
        }
    }
}

/// The thread of the process that runs the tests' function: not its first one.
fn thread_of(pid: u32, gap: &Value) -> u32 {
    let tid = gap["attributes"]["thread.id"].as_u64().unwrap() as u32;
    assert!(std::fs::exists(format!("/proc/{pid}/task/{tid}")).unwrap(), "{gap}");
    tid
}

#[test]
fn a_process_that_is_preempted_names_the_task_that_ran_in_its_place() {
    if is_forbidden() {
        return;
    }
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU)
        .find(|cpu| rustix::thread::sched_getaffinity(None).unwrap().is_set(*cpu))
        .unwrap();
    let hog = Shop::hog(cpu);
    // Of the lowest priority: the hog has nearly all of the CPU.
    shop.ask(&format!("pin={cpu} nice=19"));
    let mut recorded = Recorded::begin(place, &ring);
    let answer = shop.ask("write spin=20000 write");
    let lines = json_lines(&recorded.end().out());
    let gap = gap(&lines, shop.pid(), &answer);
    println!("{}", gap["sentence"].as_str().unwrap());
    is_consistent(gap);
    let by = gap["preempted_by"].as_array().unwrap();
    let hogs = by.iter().find(|by| by["process.pid"] == hog.pid());
    assert!(hogs.is_some_and(|by| by["duration_ns"].as_u64().unwrap() > 1_000_000), "{gap}");
    assert_eq!((&gap["cause"], &gap["certainty"]), (&"preempted".into(), &"certain".into()));
    assert!(gap["sentence"].as_str().unwrap().contains("it was preempted by "));
    assert_eq!(gap["by"]["process.pid"], by[0]["process.pid"]);
}

#[test]
fn a_stopped_process_and_a_killed_one_are_found_as_that() {
    if is_forbidden() {
        return;
    }
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    let mut recorded = Recorded::begin(place, &ring);
    let begun = Instant::now();
    assert_eq!(shop.ask("write await write")["awaits"], true);
    shop.0.signal(Signal::SIGSTOP);
    let is = |cause: &'static str| move |line: &Value| line["cause"] == cause;
    recorded.until("the stop is seen", is("owner stopped"));
    // So that the stop is most of the gap.
    let (so_far, dog) = (begun.elapsed(), Watchdog::default());
    while begun.elapsed() < so_far * 3 + Duration::from_millis(200) {
        dog.pause("it has been stopped for long enough");
    }
    shop.0.signal(Signal::SIGCONT);
    shop.say("");
    let answer = shop.answer();
    shop.0.child.kill().unwrap();
    shop.0.child.wait().unwrap();
    recorded.until("the death is seen", is("owner dead"));
    let lines = json_lines(&recorded.end().out());
    let gap = gap(&lines, shop.pid(), &answer);
    println!("{}", gap["sentence"].as_str().unwrap());
    let (length, stopped) =
        (gap["duration_ns"].as_u64().unwrap(), gap["stopped_ns"].as_u64().unwrap());
    assert!(stopped > 0 && stopped <= part(gap, "waited_ns"), "{gap}");
    // A machine that is busy may continue it late.
    assert_eq!(gap["cause"] == "stopped", stopped > length / 2, "{gap}");
    for (cause, says) in
        [("owner stopped", "was stopped by a signal"), ("owner dead", "was killed or has crashed")]
    {
        let owner = lines.iter().find(|line| line["cause"] == cause).unwrap();
        let sentence = owner["sentence"].as_str().unwrap();
        let begins = format!("producer shop ({}) of ring ring {says}", shop.pid());
        assert!(sentence.starts_with(&begins), "{sentence}");
    }
}

#[test]
fn a_refusal_names_the_consumer_or_that_there_is_none() {
    if is_forbidden() {
        return;
    }
    for (attach, cause) in [(true, "slow consumer"), (false, "no consumer")] {
        let place = Place::new();
        let (ring, mut shop) = shop(&place);
        let consumer = attach.then(|| Consumer::attach(&*ring).unwrap());
        let mut recorded = Recorded::begin(place, &ring);
        assert_eq!(shop.ask("fill=40")["refused"], 40);
        recorded.until("the loss is recorded", |line| line["what"] == "loss");
        let lines = json_lines(&recorded.end().out());
        let losses: Vec<&Value> = lines.iter().filter(|line| line["what"] == "loss").collect();
        let records: u64 = losses.iter().map(|loss| loss["records"].as_u64().unwrap()).sum();
        println!("{}", losses[0]["sentence"].as_str().unwrap());
        assert_eq!(records, 40);
        assert!(losses.iter().all(|loss| loss["cause"] == cause), "{losses:?}");
        drop(consumer);
    }
}

/// The ring of many producers names the thread of each record, and the recording begins again in each of its files.
#[test]
fn records_that_name_their_thread_are_joined_and_each_file_of_a_recording_has_what_it_needs() {
    if is_forbidden() {
        return;
    }
    let place = Place::new();
    let set = place.path("set").to_str().unwrap().to_owned();
    let made = run(&["create", &set, "--producers", "cpu", "--time", "--sample-id"], b"");
    assert_eq!(made.code(), 0, "{}", made.err());
    let mut lines = Lines::start(crate::command::perfring(&["publish", &set]));
    lines.say(&set, 1);
    let file = place.path("run.perfrec");
    let mut args = vec!["record", &set, "--why", "--max-age", "2s"];
    args.extend(["-o", file.to_str().unwrap()]);
    let live = Live::start(&args);
    let of = |file: &PathBuf| {
        json_lines(&run(&["why", file.to_str().unwrap(), "--json", "--top", "1000"], b"").out())
    };
    let covers = |file: &PathBuf| {
        file.exists()
            && of(file).iter().any(|line| line["summary"]["covered_ns"].as_u64() > Some(0))
    };
    until("the watch has begun", || covers(&file));
    // A later file, which has nothing of the first one.
    let later = |nth: u32| place.path(&format!("run.{nth:06}.perfrec"));
    let pid = lines.0.child.id();
    let has_gap = |file: &PathBuf| {
        let is = |line: &Value| {
            line["what"] == "gap"
                && line["cause"] != "unknown"
                && line["attributes"]["process.pid"] == pid
        };
        of(file).into_iter().rfind(is)
    };
    let (mut number, dog) = (1, Watchdog::default());
    let gap = loop {
        dog.check("a file after the first one explains a gap");
        for _ in 0..50 {
            number += 1;
            lines.say(&set, number);
        }
        let files = (2..).map(later).take_while(|file| file.exists());
        if let Some(gap) = files.filter_map(|file| has_gap(&file)).last() {
            break gap;
        }
    };
    println!("{number} lines, {}", gap["sentence"].as_str().unwrap());
    assert_eq!(gap["attributes"]["thread.id"], pid, "{gap}");
    let sentence = gap["sentence"].as_str().unwrap();
    // The kernel's name, where the file names the seat only later.
    let names = ["perfring publish", "perfring"].map(|name| format!("{name} ({pid}) wrote "));
    assert!(names.iter().any(|begin| sentence.starts_with(begin)), "{sentence}");
    is_consistent(&gap);
    live.signal(Signal::SIGINT);
    assert_eq!(live.end().2, 130);
}

/// Without the permission to watch all tasks, the command says which one is missing, and records what it may.
#[test]
fn a_user_without_privileges_is_told_what_is_missing_and_gets_the_rest() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user to try");
    }
    if is_forbidden() {
        return;
    }
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let paranoid: i32 = paranoid.trim().parse().unwrap();
    if paranoid < 1 {
        return skipped("every user of this machine may watch all tasks");
    }
    let place = Place::new();
    fs::set_permissions(place.0.path(), Permissions::from_mode(0o777)).unwrap();
    let exe = place.path("perfring");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_perfring")).arg(&exe).status();
    assert!(copied.unwrap().success());
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new(&exe);
        command.args(args).uid(65534).gid(65534).current_dir(place.0.path());
        command
    };
    let made = as_nobody(&["create", "ring", "--time"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let ring = place.path("ring").to_str().unwrap().to_owned();
    let mut lines = Lines::start(as_nobody(&["publish", "ring"]));
    lines.say(&ring, 1);
    let mut command = as_nobody(&["record", "ring", "--why", "-o", "run.perfrec"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let live = Live::of(command);
    let file = place.path("run.perfrec").to_str().unwrap().to_owned();
    let so_far = || json_lines(&run(&["why", &file, "--json"], b"").out());
    // The first record is read once the watch has begun.
    until("it records", || so_far().iter().any(|line| line["summary"]["records"] == 1));
    lines.say(&ring, 2);
    lines.say(&ring, 3);
    until("it has recorded", || so_far().iter().any(|line| line["summary"]["records"] == 3));
    live.signal(Signal::SIGINT);
    let (_, err, code) = live.end();
    assert_eq!(code, 130);
    for says in [
        "--why: this user may not observe switches of the whole machine",
        "CAP_PERFMON",
        "perf_event_paranoid",
        "without that, the recording has",
    ] {
        assert!(err.contains(says), "{err}");
    }
    let done = run(&["why", &file, "--json"], b"");
    let found = json_lines(&done.out());
    let gap = found.iter().rfind(|line| line["what"] == "gap").unwrap();
    println!("{}", gap["sentence"].as_str().unwrap());
    match paranoid {
        // It may watch its own processes, and waited for the second line.
        ..=2 => is_consistent(gap),
        _ => assert!(
            gap["sentence"].as_str().unwrap().contains("unknown: no kernel events"),
            "{gap}"
        ),
    }
    assert!(gap["preempted_by"].as_array().unwrap().is_empty());
    let said = run(&["why", &file], b"").out();
    let says = match paranoid {
        ..=2 => {
            "only the context switches of some processes were recorded: those of all need CAP_PERFMON"
        }
        _ => "context switches of all threads were not recorded in these ",
    };
    // The lines are wrapped.
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(says), "{said}");
}

/// Live rings have seats and losses, and no kernel events.
#[test]
fn live_rings_tell_of_owners_and_say_how_to_learn_more() {
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    shop.ask("write spin=1000 write fill=7");
    shop.0.signal(Signal::SIGSTOP);
    let stat = format!("/proc/{}/status", shop.pid());
    until("it is stopped", || fs::read_to_string(&stat).unwrap().contains("\nState:\tT"));
    let done = run(&["why", &ring], b"");
    assert_eq!((done.code(), &*done.err()), (0, ""));
    let out = done.out();
    println!("{out}");
    let pid = shop.pid();
    let lines: Vec<&str> = out.lines().collect();
    let says = |nth: usize, certainty: &str, text: &str| {
        let line = lines[nth];
        assert!(line.contains(&format!("  {certainty}  ")) && line.contains(text), "{line}");
    };
    says(
        0,
        "certain",
        &format!("producer shop ({pid}) of ring ring is stopped by a signal or a debugger"),
    );
    says(1, "unknown", "7 records were lost in ring ring: the ring says \"full\"");
    assert!(lines.last().unwrap().starts_with(
        "1 owner in trouble (owner stopped 1), 1 loss (unknown 1), 0 gaps; the context switches"
    ));
    // Once it is dead, it is that; its records name no thread, as nothing says which threads it had.
    shop.0.child.kill().unwrap();
    shop.0.child.wait().unwrap();
    let dir = place.0.path().to_str().unwrap();
    let lines = json_lines(&run(&["why", dir, "--json"], b"").out());
    let causes: Vec<&str> = lines.iter().filter_map(|line| line["cause"].as_str()).collect();
    assert_eq!(causes, ["owner dead", "unknown"]);
    let summary = &lines.last().unwrap()["summary"];
    assert_eq!((&summary["findings"], &summary["unknown"]), (&2.into(), &1.into()));
    // Its copy has the same seats.
    fs::copy(&ring, place.path("ring.copy")).unwrap();
    let copied = json_lines(&run(&["why", dir, "--json"], b"").out());
    assert_eq!(copied.len(), lines.len(), "{copied:?}");
    for (one, other) in copied.iter().zip(&lines) {
        assert_eq!((&one["cause"], &one["sentence"]), (&other["cause"], &other["sentence"]));
    }
    fs::remove_file(place.path("ring.copy")).unwrap();
    // A process of one thread is known by its number, and each gap says how to learn its cause.
    let other = place.path("other").to_str().unwrap().to_owned();
    assert_eq!(run(&["create", &other, "--time"], b"").code(), 0);
    let mut lines = Lines::start(crate::command::perfring(&["publish", &other]));
    lines.say(&other, 1);
    lines.say(&other, 2);
    let found = json_lines(&run(&["why", &other, "--json", "--slower-than", "1us"], b"").out());
    assert_eq!((&found[0]["what"], &found[0]["cause"]), (&"gap".into(), &"unknown".into()));
    assert_eq!(found[0]["attributes"]["process.pid"], lines.0.child.id());
    let sentence = found[0]["sentence"].as_str().unwrap();
    assert!(
        sentence.ends_with(
            "unknown: no kernel events of that time; `perfring record DIR --why` records them"
        ),
        "{sentence}"
    );
}

#[test]
fn the_worst_come_first_and_errors_have_their_codes() {
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    shop.ask("write sleep=3000 write sleep=9000 write fill=3");
    let recording = place.path("run.perfrec").to_str().unwrap().to_owned();
    let recorded = run(&["export", &ring, "--to", "recording", "-o", &recording], b"");
    assert_eq!(recorded.code(), 0, "{}", recorded.err());
    // A recording without evidence: its only producer is not known as the writer.
    let done = run(&["why", &recording], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let out = done.out();
    assert!(out.contains("records name no thread, so gaps between them are not known"), "{out}");
    assert!(out.contains("`perfring record DIR --why` records it"), "{out}");
    assert_eq!(run(&["why", &recording, "--top", "0"], b"").out().lines().count(), 1);
    assert!(run(&["why", &recording, "--top", "0"], b"").out().contains("; 1 not shown"));
    run(&["why", place.path("none").to_str().unwrap()], b"").refuses(3, "does not exist");
    run(&["why", &ring, "--slower-than", "0s"], b"").refuses(2, "it must be longer than 0s");
    run(&["why", &ring, "--last", "5"], b"").refuses(2, "write it with its unit");
    run(&["why", &recording, &ring], b"").refuses(2, "name one recording alone");
    let untimed = place.path("untimed").to_str().unwrap().to_owned();
    assert_eq!(run(&["create", &untimed], b"").code(), 0);
    let empty = run(&["why", &untimed, "--last", "1s"], b"");
    assert_eq!((empty.code(), empty.err().contains("untimed is empty: --last")), (0, true));
    let large = [vec![b'x'; 70_000], vec![b'\n']].concat();
    let _ = run(&["publish", &untimed], &large);
    let lost = run(&["why", &untimed], b"").out();
    assert!(
        lost.starts_with("at an unknown time  certain  1 record was lost in ring untimed: "),
        "{lost}"
    );
    assert!(lost.contains("larger than the ring takes"), "{lost}");
    // What precedes damage is explained.
    let bytes = fs::read(&recording).unwrap();
    fs::write(&recording, &bytes[..bytes.len() - 1]).unwrap();
    let cut = run(&["why", &recording], b"");
    assert_eq!(cut.code(), 4, "{}", cut.err());
    assert!(cut.out().lines().last().unwrap().contains("gaps"), "{}", cut.out());
}
