//! `perfring export`.

use crate::command::{self, Live, Place, json_lines, perfring, publish, run};
use crate::files::{exported, has, text, texts, timed};
use crate::kinds;
use nix::sys::signal::Signal;
use perfring_producer::Producer;
use perfring_testkit::wait::{sleeps, state, until};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn records_that_are_not_selected_are_left_out() {
    let place = Place::new();
    let ring = kinds::all_kinds_in(place.ring(&["--time"]));
    let (file, some) = (text(&place.path("file")), text(&place.path("some")));
    assert_eq!(run(&["record", &ring, "--for", "10ms", "-o", &file], b"").code(), 0);
    let all = exported(&file, &[]);
    let of =
        |lines: &[Value], name: &str| lines.iter().filter(|line| line["type_name"] == name).count();
    let orders = of(&all, "demo.Order");
    assert!(orders > 0 && orders < all.len());
    let chosen = exported(&file, &["--type", "demo.Order"]);
    assert_eq!((chosen.len(), of(&chosen, "demo.Order")), (orders, orders));
    let done = run(&["record", &ring, "--for", "10ms", "-o", &some, "--type", "demo.Order"], b"");
    assert_eq!(done.code(), 0);
    let left = all.len() - orders;
    assert!(done.err().contains(&format!("{left} others were not selected")), "{}", done.err());
    assert_eq!(exported(&some, &[]), chosen);
    assert_eq!(
        exported(&file, &["--where", "severity_number>=13"]).len(),
        of(&all, "demo.checkout")
    );
    assert_eq!(exported(&file, &["--since", "1h"]), all);
    assert_eq!(exported(&file, &["--since", "2000-01-01T00:00:00Z"]), all);
    assert_eq!(exported(&file, &["--since", "2200-01-01T00:00:00Z"]).len(), 0);
    let newest = exported(&file, &["--since", "0s"]);
    assert_eq!(newest.last(), all.last());
    let bare = place.path("bare");
    publish(&place_ring(&bare), b"1\n");
    let done = run(&["export", &text(&bare), "--to", "json", "--since", "5s"], b"");
    done.refuses(2, "timestamp");
}

fn place_ring(path: &Path) -> String {
    let path = text(path);
    assert_eq!(run(&["create", &path], b"").code(), 0);
    path
}

#[test]
fn rings_are_exported_without_a_recording_dead_or_alive() {
    let place = Place::new();
    let dir = place.path("rings");
    fs::create_dir(&dir).unwrap();
    let mut producers = ["a", "b"].map(|name| Producer::create(dir.join(name), &timed()).unwrap());
    for n in 0..100 {
        producers[n % 3 % 2].publish(n.to_string().as_bytes()).unwrap();
    }
    let [alive, dead] = producers;
    std::mem::forget(dead);
    let before = [fs::read(dir.join("a")).unwrap(), fs::read(dir.join("b")).unwrap()];
    let lines = exported(&text(&dir), &[]);
    let wanted: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(texts(&lines), wanted);
    let both = [text(&dir.join("a")), text(&dir.join("b"))];
    let done = run(&["export", &both[0], &both[1], "--to", "json"], b"");
    assert_eq!(json_lines(&done.out()), lines);
    assert!([fs::read(&both[0]).unwrap(), fs::read(&both[1]).unwrap()] == before);
    drop(alive);
    fs::write(dir.join("note"), "no ring").unwrap();
    let done = run(&["export", &text(&dir), "--to", "json"], b"");
    assert!(done.err().contains("note is left out"), "{}", done.err());
    assert_eq!(json_lines(&done.out()), lines);
}

#[test]
fn a_truncated_or_damaged_recording_is_used_up_to_there() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n2\n3\n");
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "-n", "3", "-o", &file], b"").code(), 0);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let again = text(&place.path("again"));
    for (name, wanted) in [("export", ""), ("replay", "")] {
        let args: Vec<&str> = match name {
            "export" => vec!["export", &file, "--to", "json"],
            _ => vec!["replay", &file, &again],
        };
        let done = run(&args, b"");
        assert_eq!(done.code(), 4, "{}", done.err());
        assert!(done.err().contains("no end"), "{}", done.err());
        assert!(done.out().contains(wanted));
    }
    // As a recorder leaves it that was killed, or is still running: what it wrote is present.
    fs::remove_file(&file).unwrap(); // otherwise its records would be taken for the next one's
    let live = Live::start(&["record", &ring, "-o", &file]);
    let written = || json_lines(&run(&["export", &file, "--to", "json"], b"").out()).len();
    until("it has written", || written() == 3);
    live.signal(Signal::SIGKILL);
    live.end();
    let done = run(&["export", &file, "--to", "json"], b"");
    assert_eq!((done.code(), texts(&json_lines(&done.out()))), (4, vec!["1", "2", "3"]));
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    fs::write(&file, damaged).unwrap();
    run(&["export", &file, "--to", "json"], b"").refuses(4, "damaged at byte 16");
    fs::write(&file, &whole[..20]).unwrap();
    run(&["export", &file, "--to", "json"], b"").refuses(4, "truncated");
}

#[test]
fn commands_for_rings_recognise_a_recording() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n");
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "-n", "1", "-o", &file], b"").code(), 0);
    for command in ["dump", "types", "stat", "tail", "consume"] {
        run(&[command, &file], b"").refuses(4, "is a recording");
    }
    run(&["record", &file, "-o", &text(&place.path("x"))], b"").refuses(2, "is a recording");
    run(&["export", &file, &ring, "--to", "json"], b"").refuses(2, "alone");
    run(&["replay", &ring, &ring], b"").refuses(4, "not a recording");
    let missing = text(&place.path("missing"));
    run(&["replay", &missing, &ring], b"").refuses(3, "No such file");
    run(&["export", &missing, "--to", "json"], b"").refuses(3, "does not exist");
}

#[test]
fn pipes_that_close_and_disks_that_are_full() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4M"]);
    publish(&ring, &b"a line that is not short\n".repeat(50_000));
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "-n", "50000", "-o", &file], b"").code(), 0);
    // The reader closes the pipe, as head does: no error.
    for to in ["json", "recording"] {
        let mut child = perfring(&["export", &file, "--to", to]).spawn().unwrap();
        drop(child.stdout.take());
        let done = command::Done(child.wait_with_output().unwrap());
        assert_eq!((done.code(), done.err().as_str()), (0, ""), "{to}");
    }
    // The pipe is not read: Ctrl-C ends it.
    let child = perfring(&["export", &file, "--to", "json"]).spawn().unwrap();
    let live = Live { out: std::io::BufReader::new(dup(&child)), child };
    until("the pipe is full", || sleeps(live.child.id()));
    live.signal(Signal::SIGINT);
    until("it has ended", || matches!(state(live.child.id()), Some('Z') | None));
    let full = |to: &str| {
        run(&["export", &file, "--to", to, "-o", "/dev/full", "--patience", "200ms"], b"")
    };
    for to in ["recording", "json"] {
        let done = full(to);
        assert_eq!(done.code(), 1, "{to}: {}", done.err());
        assert!(done.err().contains("No space left"), "{to}: {}", done.err());
    }
    run(&["export", &file, "--to", "perfetto"], b"").refuses(2, "-o OUT");
    run(&["export", &file, "--to", "perfetto", "-o", "-"], b"")
        .refuses(2, "cannot be written to a pipe");
    run(&["export", &file, "--to", "json", "--option", "pth=1"], b"").refuses(2, "unknown field");
}

/// A second descriptor of its stdout, which keeps the pipe open.
fn dup(child: &std::process::Child) -> std::process::ChildStdout {
    use std::os::fd::AsFd;
    child.stdout.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap().into()
}

#[test]
fn an_unreachable_collector_is_reported() {
    let place = Place::new();
    let ring = kinds::all_kinds_in(place.ring(&["--time"]));
    let args = ["export", &ring, "--to", "otlp", "-o", "http://127.0.0.1:9", "--patience", "300ms"];
    let done = run(&args, b"");
    if done.code() == 2 {
        assert!(done.err().contains("--features full"), "{}", done.err());
        println!("SKIPPED: built without otlp");
        return;
    }
    assert_eq!(done.code(), 1, "{}", done.err());
    println!("{}", done.err());
}

/// Runs a reader of another project; `None` if it is not installed.
fn reader(program: &str, args: &[&str]) -> Option<String> {
    let Ok(read) = Command::new(program).args(args).stdin(Stdio::null()).output() else {
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "there is no {program}");
        println!("SKIPPED: there is no {program}");
        return None;
    };
    let err = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{program}: {err}");
    Some(String::from_utf8(read.stdout).unwrap())
}

#[test]
fn every_format_prints_how_to_open_it_and_can_be_opened() {
    let place = Place::new();
    let ring = kinds::all_kinds_in(place.ring(&["--time"]));
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "--for", "10ms", "-o", &file], b"").code(), 0);
    let records = exported(&file, &[]).len();
    for (format, how) in [
        ("perfetto", "ui.perfetto.dev"),
        ("ctf", "babeltrace2"),
        ("ctf2", "version 2.1"),
        ("parquet", "pyarrow"),
        ("perf-data", "perf script"),
        ("recording", "perfring export"),
    ] {
        let out = text(&place.path(format));
        let done = run(&["export", &file, "--to", format, "-o", &out], b"");
        if format == "parquet" && done.code() == 2 {
            assert!(done.err().contains("--features full"), "{}", done.err());
            println!("SKIPPED: built without parquet");
            continue;
        }
        assert_eq!(done.code(), 0, "{format}: {}", done.err());
        let said = done.err();
        assert!(
            said.contains(how) && said.contains(&format!("exported {records} records")),
            "{said}"
        );
        // An existing file is replaced only with --force.
        let again = run(&["export", &file, "--to", format, "-o", &out], b"");
        again.refuses(1, "--force");
        let again = run(&["export", &file, "--to", format, "-o", &out, "--force"], b"");
        assert_eq!(again.code(), 0, "{format}: {}", again.err());
        let of = |needle: &str, text: String| text.matches(needle).count();
        match format {
            "perfetto" => assert!(has(&fs::read(&out).unwrap(), b"demo.Order")),
            "ctf" => {
                let shown = reader("babeltrace2", &[&out]);
                assert!(shown.is_none_or(|shown| of("demo.Order", shown) >= 2));
            }
            "ctf2" => {
                assert!(fs::read(Path::new(&out).join("metadata")).unwrap().starts_with(b"\x1e"))
            }
            "perf-data" => {
                let shown = reader("perf", &["script", "-i", &out]);
                assert!(shown.is_none_or(|shown| of("demo:Order", shown) >= 2));
            }
            "parquet" => assert!(fs::read_dir(&out).unwrap().count() > 1),
            _ => assert_eq!(exported(&out, &[]), exported(&file, &[])),
        }
    }
}

#[test]
fn otlp_as_json_has_all_records_of_a_recording_and_goes_to_a_pipe_too() {
    let place = Place::new();
    let ring = kinds::all_kinds_in(place.ring(&["--time"]));
    let (file, out) = (text(&place.path("file")), text(&place.path("telemetry.jsonl")));
    assert_eq!(run(&["record", &ring, "--for", "10ms", "-o", &file], b"").code(), 0);
    let records = exported(&file, &[]).len();
    let done = run(&["export", &file, "--to", "otlp-json", "-o", &out], b"");
    if done.code() == 2 {
        assert!(done.err().contains("--features full"), "{}", done.err());
        println!("SKIPPED: built without otlp");
        return;
    }
    let said = done.err();
    assert_eq!(done.code(), 0, "{said}");
    assert!(
        said.contains("otlp_json_file") && said.contains(&format!("exported {records} records"))
    );
    let keys = |lines: &str| {
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let keys = lines.map(|line| line.to_string().matches("\"perfring.key\"").count());
        keys.sum::<usize>()
    };
    assert_eq!(keys(&fs::read_to_string(&out).unwrap()), records);
    let piped = run(&["export", &file, "--to", "otlp-json"], b"");
    assert_eq!((piped.code(), keys(&piped.out())), (0, records), "{}", piped.err());
}

/// Code 2 is for the command line, and code 1 for the place.
#[test]
fn a_wrong_option_is_wrong_usage_and_changes_no_file() {
    let place = Place::new();
    let ring = place.ring(&["--time"]);
    publish(&ring, b"one\n");
    let [out, none] = [text(&place.path("out")), text(&place.path("none/out"))];
    let export = |to: &str, out: &str, option: &str| {
        let args = ["export", &ring, "--to", to, "-o", out, "--force", "--option", option];
        let done = run(&args, b"");
        let is_missing = done.err().contains("--features full");
        (!is_missing).then_some(done)
    };
    fs::write(&out, "old").unwrap();
    for (to, option, says) in [
        ("json", "pth=1", "unknown field `pth`"),
        ("json", "integers=1", "invalid type: integer `1`"),
        ("perfetto", "max_age=1", "write it with its unit"),
        ("otlp-json", "integers=text", "remove `integers`"),
    ] {
        let Some(done) = export(to, &out, option) else { continue };
        done.refuses(2, says);
        assert_eq!(fs::read_to_string(&out).unwrap(), "old", "{to} {option}");
    }
    for (to, at, option, says) in [
        (
            "otlp",
            "http://localhost:1",
            "endpoint=nowhere",
            "it must begin with http:// or https://",
        ),
        ("nats", "127.0.0.1:1", "servers=[]", "`servers` is empty"),
        ("parquet", &text(&place.path("dir")), "memory=0", "memory"),
    ] {
        export(to, at, option).into_iter().for_each(|done| done.refuses(2, says));
    }
    for to in ["json", "perfetto", "ctf"] {
        let done = run(&["export", &ring, "--to", to, "-o", &none], b"");
        done.refuses(1, "does not exist: create it");
    }
}

#[test]
fn an_export_with_causes_says_that_there_is_no_evidence_for_them() {
    let place = Place::new();
    let ring = place.ring(&["--time"]);
    publish(&ring, b"one\n");
    let [file, out] = ["run.perfrec", "run.pftrace"].map(|name| text(&place.path(name)));
    let export = |from: &str| {
        let done = run(&["export", from, "--to", "perfetto", "--why", "-o", &out, "--force"], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        let said = done.err();
        said.lines().filter(|line| line.contains("there is no evidence for --why")).count()
    };
    assert_eq!(export(&ring), 1);
    let record = |more: &[&str]| {
        let args = ["record", &ring, "-o", &file, "--for", "10ms", "--force"];
        assert_eq!(run(&[&args[..], more].concat(), b"").code(), 0);
    };
    record(&[]);
    assert_eq!(export(&file), 1);
    // The witness writes into the recording, whatever the kernel forbids.
    record(&["--why"]);
    assert_eq!(export(&file), 0);
}

#[test]
fn an_empty_ring_is_said_to_be_empty_where_the_newest_record_is_needed() {
    let place = Place::new();
    let ring = place.ring(&[]);
    for args in [
        ["export", &ring, "--since", "1s", "--to", "json"],
        ["why", &ring, "--last", "1s", "--top", "1"],
    ] {
        let (done, option) = (run(&args, b""), args[2]);
        assert_eq!(done.code(), 0, "{}", done.err());
        let says = format!("{ring} is empty: {option} has no newest record to count back from");
        assert!(done.err().contains(&says), "{}", done.err());
    }
    publish(&ring, b"one\n");
    let done = run(&["export", &ring, "--since", "1s", "--to", "json"], b"");
    done.refuses(2, "none of the records has a timestamp");
}

#[test]
fn a_copy_of_a_ring_is_exported_once_and_named() {
    let place = Place::new();
    let ring = place.ring(&["--time"]);
    publish(&ring, b"one\ntwo\n");
    let copy = text(&place.path("copy"));
    fs::copy(&ring, &copy).unwrap();
    let dir = text(place.0.path());
    for inputs in [&[&*ring, &copy, &ring][..], &[&*copy, &ring], &[&dir]] {
        // The newest record is found in a first pass: the note is one.
        let args = [&["export"], inputs, &["--to", "json", "--since", "1h"]].concat();
        let done = run(&args, b"");
        assert_eq!((done.code(), done.out().lines().count()), (0, 2), "{}", done.err());
        let says = format!("{copy} is left out: a copy of {ring}");
        assert_eq!(done.err().matches("is left out: ").count(), 1, "{}", done.err());
        assert!(done.err().contains(&says), "{}", done.err());
    }
}

#[test]
fn of_a_ring_and_its_copy_the_one_with_more_records_is_read() {
    let place = Place::new();
    let ring = place.ring(&["--time"]);
    publish(&ring, b"one\n");
    let copy = text(&place.path("a-copy"));
    fs::copy(&ring, &copy).unwrap();
    publish(&ring, b"two\n");
    let dir = text(place.0.path());
    for inputs in [&[&*ring, &copy][..], &[&*copy, &ring], &[&dir]] {
        let done = run(&[&["export"], inputs, &["--to", "json"]].concat(), b"");
        assert_eq!(texts(&json_lines(&done.out())), ["one", "two"], "{}", done.err());
        let says = format!("{copy} is left out: a copy of {ring}");
        assert!(done.err().contains(&says), "{}", done.err());
        let done = run(&[&["why", "--json"], inputs].concat(), b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        assert!(done.err().contains(&says), "{}", done.err());
        let summary = &json_lines(&done.out()).pop().unwrap()["summary"];
        assert_eq!(summary["records"], 2, "{summary}");
    }
}

#[test]
fn records_behind_damage_are_lost_records() {
    let place = Place::new();
    let ring = place.path("ring");
    let mut producer = Producer::create(&ring, &timed()).unwrap();
    (0..100u8).for_each(|n| producer.publish(&[n; 8]).unwrap());
    drop(producer);
    let bad = fs::File::options().write(true).open(&ring).unwrap();
    bad.write_all_at(&[0xff; 8], 4096 + 24 * 50).unwrap();
    let export =
        |more: &[&str]| run(&[&["export", &text(&ring), "--to", "json"], more].concat(), b"");
    let done = export(&["-q"]);
    assert_eq!((done.code(), done.out().lines().count()), (4, 51), "{}", done.err());
    assert!(done.err().contains("lost 50: ring damaged 50"), "{}", done.err());
    let lost = &json_lines(&done.out())[50]["lost"];
    assert_eq!((&lost["records"], &lost["bytes"]), (&50.into(), &1200.into()));
    let done = export(&["--fail-on-loss"]);
    assert_eq!(done.code(), 5, "{}", done.err());
    for says in ["damaged at position 1200", "50 records are lost"] {
        assert!(done.err().contains(says), "{}", done.err());
    }
}
