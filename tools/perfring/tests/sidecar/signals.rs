//! Signals, and the reader of what it writes.

use super::stage::{Rings, len, publish, rings_end, text};
use super::{lost, records};
use crate::command::{Done, Live, close_and_wait, json_lines, perfring, run};
use nix::sys::signal::Signal;
use perfring_consumer::stat::Stat;
use perfring_producer::Policy;
use perfring_telemetry::{Gauge, Log, Resource, Severity, Sink, options};
use perfring_testkit::wait::until;
use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Command;

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
fn a_closed_pipe_ends_it_with_a_word_and_the_rest_stays_in_the_ring() {
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
    assert!(code == 0 && err.lines().count() == 2, "{code}: {err}");
    for says in ["msg=\"started: reads all rings in ", "msg=\"the reader of stdout has closed it: "]
    {
        assert!(err.contains(says), "{err}");
    }
    publish(&mut producer, 3, 5);
    let rest = run(&["sidecar", &dir, "--output", "json:-", "--once"], b"");
    assert_eq!(rest.code(), 0, "{}", rest.err());
    let lines = json_lines(&rest.out());
    assert_eq!(records(&lines, "one").into_values().collect::<Vec<_>>(), [text(3), text(4)]);
}

/// The reader of stdout ends a pipeline. The reader of a named pipe is another program, which has failed.
#[test]
fn the_end_of_a_named_pipe_s_reader_is_an_error_with_a_sentence() {
    let rings = Rings::new();
    let mut producer = rings.ring("one", Policy::Drop);
    let (pipe, config) = (rings.path("pipe"), rings.path("sidecar.toml"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = format!("[[output]]\ntype = \"perfetto\"\noverwrite = true\npath = {pipe:?}\n");
    fs::write(&config, text).unwrap();
    let says = format!("cannot write {pipe}: the process that read this pipe has closed it");
    // Opening the pipe to write waits for a reader.
    let reader = || {
        let mut options = fs::File::options();
        let flags = rustix::fs::OFlags::NONBLOCK.bits();
        options.read(true).custom_flags(flags as i32).open(&pipe).unwrap()
    };
    let begins = |reader: &mut fs::File| reader.read(&mut [0; 100]).is_ok_and(|bytes| bytes > 0);
    let mut first = reader();
    let live = rings.sidecar(&["--config", &config]);
    publish(&mut producer, 0, 3);
    until("the pipe has the first bytes", || begins(&mut first));
    drop(first);
    until("it writes again, and ends", || {
        let _ = producer.publish(b"another");
        rings.said().contains(&says)
    });
    assert_eq!(rings_end(live).2, 1, "{}", rings.said());
    // An export of more than a pipe holds.
    publish(&mut rings.large_ring("two"), 0, 20_000);
    let (mut second, two) = (reader(), rings.dir() + "/two");
    let args = ["export", &two, "--to", "perfetto", "-o", &pipe, "--force"];
    let export = perfring(&args).spawn().unwrap();
    until("the pipe has bytes", || begins(&mut second));
    drop(second);
    Done(export.wait_with_output().unwrap()).refuses(1, &says);
}

#[test]
fn a_slow_reader_of_stdout_does_not_delay_the_end() {
    let rings = Rings::new();
    let mut producer = rings.ring("one", Policy::Drop);
    let config = rings.path("sidecar.toml");
    let status = rings.path("status");
    let says = format!(
        "shutdown = \"0\"\nstatus = {status:?}\nstatus_interval = \"0\"\n\
         [[output]]\ntype = \"json\"\n"
    );
    fs::write(&config, says).unwrap();
    let path = rings.place.path("rings").join("one");
    let live = rings.sidecar(&["--config", &config, "--drain", "0s"]);
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
    let left =
        format!("1 ring: 1500 records, 0 lost, {0} bytes to deliver; json:", stat.head - stat.tail);
    assert!(last.is_some_and(|last| last.contains(&left) && last.ends_with(" bytes in one\"")));
    assert!(rings.said().contains("could not be written before the deadline"), "{}", rings.said());
    // What was not written is still in the ring, to the last record.
    let rest = run(&["sidecar", &rings.dir(), "--output", "json:-", "--once"], b"");
    let rest = records(&json_lines(&rest.out()), "one");
    assert!(rest.len() < 1500 && rest.into_values().next_back() == Some(text(1499)));
}
