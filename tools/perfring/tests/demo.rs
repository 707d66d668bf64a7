//! The promises of the demo, tested on the real binary.

use crate::command::{Done, Live, Place, close_and_wait, json_lines, perfring};
use nix::sys::signal::Signal;
use perfring_testkit::wait::until;
use prost::Message;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const RINGS: [&str; 6] = ["metrics", "cpu", "io", "processes", "burst", "flight"];

/// The demo, with temporary files in a directory of its own.
fn demo(place: &Place, args: &[&str]) -> Command {
    let mut command = perfring(&[&["demo"], args].concat());
    command.env("TMPDIR", place.0.path());
    command
}

/// Returns the names in a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Returns the directory of the rings.
fn rings(out: &str) -> PathBuf {
    PathBuf::from(out.lines().find(|line| line.contains("perfring-demo.")).unwrap())
}

/// Returns the number after `word` in a ring's report; it may be in its second line.
fn figure(out: &str, ring: &str, word: &str) -> u64 {
    let totals = &out[out.find("The account").unwrap()..];
    let of = &totals[totals.find(&format!("\n{ring} ")).unwrap()..];
    number(&of[of.find(word).unwrap() + word.len()..])
}

/// Returns the sum of the numbers after `word` in all rings' reports.
fn all_figures(out: &str, word: &str) -> u64 {
    let totals = &out[out.find("The account").unwrap()..];
    totals.split(word).skip(1).map(number).sum()
}

fn number(from: &str) -> u64 {
    let digits: String =
        from.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    digits.replace(',', "").parse().unwrap()
}

#[test]
fn the_demo_ends_in_time_with_all_records_accounted_for_and_leaves_two_files_with_them() {
    let place = Place::new();
    let unwritable = Place::new();
    fs::set_permissions(unwritable.0.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let done = Done(demo(&place, &[]).current_dir(unwritable.0.path()).output().unwrap());
    let out = done.out();
    assert_eq!((done.code(), done.err().as_str()), (0, ""), "{out}");
    assert!(out.contains("hits another. 8s."), "{out}");
    assert!(out.contains("All records accounted for") && !out.contains("DOES NOT"), "{out}");
    assert!(out.contains("kill -9 hit the producer of flight"), "{out}");
    assert!(out.contains("producer dead"), "{out}");
    let (_, why) = out.split_once("Why, as `perfring why` says").unwrap();
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(why.contains(" of ring flight was killed or has crashed"), "{why}");
    assert!(
        why.contains(" records were lost in ring burst: the ring was full: its consumer"),
        "{why}"
    );
    assert!(!out.contains('\x1b'), "a file is no terminal");
    let mut all = 0;
    for ring in RINGS {
        let read = figure(&out, ring, "= read ");
        // How many depends on how busy the machine is.
        assert!(read > 0, "{ring} was idle: {out}");
        all += read;
    }
    assert!(figure(&out, "burst", "+ refused ") > 0, "{out}");
    assert!(!rings(&out).exists());

    let [fresh] = &names(place.0.path())[..] else { panic!("{:?}", names(place.0.path())) };
    let dir = place.path(fresh).canonicalize().unwrap();
    assert_eq!(names(&dir), ["demo.jsonl", "demo.pftrace"]);
    let (lines, trace) = (dir.join("demo.jsonl"), dir.join("demo.pftrace"));
    for path in [&lines, &trace] {
        let line = out.lines().find(|line| line.starts_with(path.to_str().unwrap())).unwrap();
        let size = fs::metadata(path).unwrap().len() as f64 / 1e6;
        assert!(line.ends_with(&format!("  {size:.1} MB")), "{line}");
    }
    let (records, losses, lost) = check_lines(&fs::read_to_string(&lines).unwrap(), &out);
    assert_eq!(records, all);
    // On a busy machine, other rings lose records as well.
    assert!(lost > 0);
    assert_eq!(lost, all_figures(&out, "+ refused ") + all_figures(&out, "+ lapped "), "{out}");
    check_trace(&fs::read(&trace).unwrap(), &out, losses, lost);
    run_as_printed(&out, losses);
    println!("{records} records, {losses} losses of {lost} records");
}

/// Each ring has as many lines as its totals say, in the order of time. Returns the records, the
/// losses, and how many records were lost.
fn check_lines(text: &str, out: &str) -> (u64, u64, u64) {
    let (mut counts, mut losses, mut lost, mut newest) = (HashMap::new(), 0, 0, 0);
    for line in json_lines(text) {
        if line["lost"].is_object() {
            losses += 1;
            lost += line["lost"]["records"].as_u64().unwrap();
            continue;
        }
        *counts.entry(line["ring"].as_str().unwrap().to_owned()).or_insert(0u64) += 1;
        assert!(line["fields"].is_object(), "{line}");
        let time = line["time_ns"].as_u64().unwrap();
        match line["late_ns"].as_u64() {
            None => assert!(time >= newest, "{line} is not in its place"),
            Some(late) => assert_eq!(time + late, newest),
        }
        newest = newest.max(time);
    }
    for ring in RINGS {
        assert_eq!(counts[ring], figure(out, ring, "= read "), "{ring}");
    }
    (counts.values().sum(), losses, lost)
}

/// The subset of Perfetto's messages that is checked here.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "11")]
    event: Option<Event>,
    #[prost(message, optional, tag = "60")]
    track: Option<Track>,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    count: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Track {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<Process>,
    #[prost(uint64, optional, tag = "5")]
    parent: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Process {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    name: Option<String>,
}

const KINDS: [&str; 5] = ["", "begin", "end", "instant", "counter"];

/// Each producer is a process with a name, and its records are on tracks of its own.
fn check_trace(bytes: &[u8], out: &str, losses: u64, lost: u64) {
    let trace = Trace::decode(bytes).unwrap();
    // The last description of a track counts: a resource renames its process.
    let described = trace.packet.iter().filter_map(|packet| packet.track.as_ref());
    let tracks: HashMap<u64, &Track> = described.map(|track| (track.uuid(), track)).collect();
    let mut counts = HashMap::new();
    // On an overloaded machine not only `burst` loses records: the observer of `flight` is lapped.
    let mut newest = HashMap::new();
    for event in trace.packet.iter().filter_map(|packet| packet.event.as_ref()) {
        let track = tracks[&event.track()];
        let process = tracks[&track.parent()].process.as_ref().unwrap();
        assert!(process.pid() > 0, "{track:?}");
        let process = process.name().strip_prefix("demo ").unwrap().to_owned();
        let kind = KINDS[usize::try_from(event.kind()).unwrap()];
        let name = if event.name().starts_with("LOST ") { "LOST" } else { track.name() };
        if name.ends_with(": lost records") {
            newest.insert(name, event.count().unsigned_abs());
        }
        *counts.entry((process, name, kind)).or_insert(0u64) += 1;
    }
    let mut count =
        |process: &str, name, kind| counts.remove(&(process.to_owned(), name, kind)).unwrap_or(0);
    for ring in RINGS.iter().filter(|ring| **ring != "metrics") {
        assert_eq!(count(ring, ring, "instant"), figure(out, ring, "= read "), "{ring}");
    }
    let spans = count("metrics", "spans", "begin");
    assert_eq!(count("metrics", "spans", "end"), spans);
    let mut metrics = 2 * spans + count("metrics", "metrics", "instant");
    for name in [
        "system.cpu.utilization",
        "system.memory.available",
        "system.memory.cached",
        "system.load_average.1m",
    ] {
        let samples = count("metrics", name, "counter");
        assert!(samples > 0, "{name}");
        metrics += samples;
    }
    assert_eq!(metrics, figure(out, "metrics", "= read "));
    assert!(newest["burst: lost records"] > 0);
    assert_eq!(newest.values().sum::<u64>(), lost);
    let mut all = |is_so: &dyn Fn(&str, &str) -> bool| {
        let of_losses = counts.extract_if(|(ring, name, _), _| is_so(ring, name));
        of_losses.map(|(_, count)| count).sum::<u64>()
    };
    assert_eq!(all(&|_, name| name == "LOST"), losses);
    assert_eq!(all(&|ring, name| *name == format!("{ring}: lost records")), losses);
    assert!(counts.is_empty(), "{counts:?}");
}

/// Runs the commands of the report as printed.
fn run_as_printed(out: &str, losses: u64) {
    for (program, says) in [("head", 3), ("jq", losses)] {
        let line = out.lines().find(|line| line.trim().starts_with(program)).unwrap();
        if !Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output()
            .unwrap()
            .status
            .success()
        {
            assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "there is no {program}");
            println!("SKIPPED: there is no {program}");
            continue;
        }
        let ran = Done(Command::new("sh").args(["-c", line.trim()]).output().unwrap());
        assert_eq!((ran.code(), ran.err().as_str()), (0, ""), "{line}");
        assert_eq!(json_lines(&ran.out()).len() as u64, says, "{line}");
    }
}

#[test]
fn the_named_directory_gets_the_files_and_nothing_is_overwritten() {
    let place = Place::new();
    let asked = place.path("deep/it's here");
    let out_dir = asked.to_str().unwrap();
    let done = Done(demo(&place, &["--for", "2s", "--out", out_dir]).output().unwrap());
    assert_eq!((done.code(), done.err().as_str()), (0, ""), "{}", done.out());
    assert_eq!(names(&asked), ["demo.jsonl", "demo.pftrace"]);
    assert_eq!(names(place.0.path()), ["deep"]);
    let out = done.out();
    let head = out.lines().find(|line| line.trim().starts_with("head")).unwrap();
    let ran = Done(Command::new("sh").args(["-c", head.trim()]).output().unwrap());
    assert_eq!(ran.out().lines().count(), 3, "{head}: {}", ran.err());

    let before = fs::read(asked.join("demo.pftrace")).unwrap();
    fs::remove_file(asked.join("demo.jsonl")).unwrap();
    let done = Done(demo(&place, &["--out", out_dir]).output().unwrap());
    done.refuses(1, "demo.pftrace already exists: remove it");
    assert_eq!(fs::read(asked.join("demo.pftrace")).unwrap(), before);
    assert_eq!(names(&asked), ["demo.pftrace"]);
}

#[test]
fn a_demo_that_is_stopped_leaves_nothing() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGKILL, -1)] {
        let place = Place::new();
        let mut live = Live::of(demo(&place, &[]));
        let mut head = String::new();
        // In the middle: after the first line of figures.
        while !head.contains(" s  metrics ") {
            head += &live.line();
            head.push('\n');
        }
        let dir = rings(&head);
        assert!(dir.exists());
        assert_eq!(names(place.0.path()).len(), 1);
        let processes = || {
            let all = fs::read_dir("/proc").unwrap().flatten();
            let name = dir.to_str().unwrap().as_bytes().to_owned();
            all.filter(|entry| {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                line.split(|byte| *byte == 0).any(|arg| arg == name)
            })
            .count()
        };
        assert_eq!(processes(), 7, "six producers and a sidecar");
        live.signal(signal);
        let (_, _, ended) = live.end();
        assert_eq!(ended, code);
        until("every process of the demo has ended", || processes() == 0);
        until("its directory is removed", || !dir.exists());
        until("its files are removed", || names(place.0.path()).is_empty());
    }
}

#[test]
fn a_demo_without_an_audience_ends() {
    let place = Place::new();
    let mut live = Live::of(demo(&place, &[]));
    let dir = {
        live.line();
        rings(&live.line())
    };
    let (err, code) = close_and_wait(live);
    assert_eq!((err.as_str(), code), ("", 0));
    assert!(!dir.exists());
    assert_eq!(names(place.0.path()), [""; 0]);
}
