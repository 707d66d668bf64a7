//! Every command that reads a ring to its end, and every output of the sidecar, reports each loss once, whether or not a
//! record follows.

use crate::command::{Losses, Place, json_lines, publish, run};
use serde_json::Value;
use std::fs;

/// Lines that are offered to a ring of 4 KiB.
const OFFERED: u64 = 1000;

struct Ring {
    path: String,
    written: u64,
}

/// A ring of 4 KiB, in a new directory. Most of the lines did not fit.
fn ring(place: &Place, dir: &str) -> Ring {
    let dir = place.path(dir);
    fs::create_dir(&dir).unwrap();
    let path = dir.join("ring").to_str().unwrap().to_owned();
    assert_eq!(run(&["create", &path, "--size", "4K", "--time"], b"").code(), 0);
    let lines: String = (0..OFFERED).map(|n| format!("{n}\n")).collect();
    publish(&path, lines.as_bytes());
    let stat = &json_lines(&run(&["stat", "--format", "json", &path], b"").out())[0];
    let written = stat["written_records"].as_u64().unwrap();
    assert!(0 < written && written < OFFERED);
    Ring { path, written }
}

impl Ring {
    /// Checks that lines have all records and all losses, each once.
    fn check(&self, lines: &[Value], what: &str) {
        let lost = |line: &&Value| line["lost"].is_object();
        let records = lines.iter().filter(|line| !lost(line)).count() as u64;
        let lost: u64 =
            lines.iter().filter(lost).map(|it| it["lost"]["records"].as_u64().unwrap()).sum();
        println!("{what}: {records} records, {lost} lost");
        assert!(lines.iter().all(|line| line["lost"].is_null() || line["lost"]["at_end"] == true));
        assert_eq!((records, records + lost), (self.written, OFFERED), "{what}");
    }

    /// Checks that nothing is left of it.
    fn is_told(&self, what: &str) {
        let done = run(&["consume", "--format", "json", &self.path], b"");
        assert_eq!((done.code(), done.out().as_str()), (0, ""), "{what}");
    }
}

fn file(place: &Place, name: &str) -> String {
    place.path(name).to_str().unwrap().to_owned()
}

#[test]
fn every_command_that_reads_a_ring_shows_the_losses_at_its_end() {
    let place = Place::new();
    let ring = ring(&place, "a");
    let dir = file(&place, "a");
    for command in ["tail", "dump"] {
        for path in [&ring.path, &dir] {
            let done = run(&[command, "--format", "json", path], b"");
            ring.check(&json_lines(&done.out()), &format!("{command} {path}"));
            let text = run(&[command, path], b"");
            let lost = OFFERED - ring.written;
            assert!(text.err().contains(&format!("LOST {lost} records")), "{}", text.err());
        }
    }
    for path in [&ring.path, &dir] {
        let done = run(&["tail", "--timeout", "2s", "--format", "json", path], b"");
        ring.check(&json_lines(&done.out()), &format!("tail --timeout {path}"));
        let done = run(&["export", path, "--to", "json", "-o", "-"], b"");
        ring.check(&json_lines(&done.out()), &format!("export {path}"));
    }
    // `--fail-on-loss` counts them whether or not the reader comes to the end.
    for (count, path) in ["0", "1", "10000"].iter().flat_map(|n| [(n, &ring.path), (n, &dir)]) {
        for (which, wait) in ["-n", "--first"]
            .iter()
            .flat_map(|which| [&[][..], &["--timeout", "1ms"]].map(|wait| (which, wait)))
        {
            let args = [&["tail", which, count, "--fail-on-loss"], wait, &[path]].concat();
            let done = run(&args, b"");
            let lost = format!("{} records", OFFERED - ring.written);
            assert!(done.code() == 5 && done.err().contains(&lost), "{args:?}: {}", done.err());
        }
    }
    let done = run(&["consume", "--format", "json", &ring.path], b"");
    ring.check(&json_lines(&done.out()), "consume");
    ring.is_told("consume");
    let done = run(&["consume", "-n", "0", "--fail-on-loss", &ring.path], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
}

#[test]
fn a_recording_has_the_losses_at_the_end_of_a_ring() {
    let place = Place::new();
    for consume in [false, true] {
        let ring = ring(&place, &consume.to_string());
        let recording = file(&place, &format!("{consume}.perfrec"));
        let dir = file(&place, &consume.to_string());
        // A recording of the first record alone has no losses, and says that the ring counts some.
        let few = file(&place, &format!("{consume}-few.perfrec"));
        let args = ["record", &*dir, "-o", &few, "-n", "1", "--fail-on-loss"];
        let (done, lost) = (run(&args, b""), OFFERED - ring.written);
        let more = format!("{lost} more lost records are counted by the rings");
        assert!(done.code() == 5 && done.err().contains(&more), "{}", done.err());
        let mut args = vec!["record", &*dir, "-o", &recording, "--for", "300ms"];
        args.extend(consume.then_some("--consume"));
        let done = run(&args, b"");
        let lost = OFFERED - ring.written;
        assert!(done.err().contains(&format!("lost {lost}: full {lost}")), "{}", done.err());
        assert!(!done.err().contains("more lost records"), "{}", done.err());
        for to in ["json", "ctf", "perf-data", "perfetto"] {
            let out = file(&place, &format!("{consume}.{to}"));
            let done = run(&["export", &recording, "--to", to, "-o", &out, "--fail-on-loss"], b"");
            assert_eq!(done.code(), 5, "{to}: {}", done.err());
            assert!(done.err().contains(&format!("lost {lost}: full {lost}")), "{}", done.err());
        }
        let json = fs::read_to_string(file(&place, &format!("{consume}.json"))).unwrap();
        ring.check(&json_lines(&json), "the recording");
        if consume {
            ring.is_told("record --consume");
        }
    }
}

#[test]
fn every_output_of_a_sidecar_has_the_losses_before_it_ends() {
    let place = Place::new();
    for how in ["once", "drained"] {
        let ring = ring(&place, how);
        let (dir, lines) = (file(&place, how), file(&place, &format!("{how}.jsonl")));
        let recording = file(&place, &format!("{how}.perfrec"));
        let outputs = [format!("json:{lines}"), format!("recording:{recording}")];
        let mut args = vec!["sidecar", &*dir, "--output", &outputs[0], "--output", &outputs[1]];
        if how == "once" {
            args.push("--once");
            let done = run(&args, b"");
            assert_eq!(done.code(), 0, "{}", done.err());
        } else {
            args.extend(["--drain", "5m"]);
            let live = crate::command::Live::start(&args);
            live.signal(nix::sys::signal::Signal::SIGTERM);
            let (_, err, code) = live.end();
            // It may be asked before it can hear.
            if code != 0 {
                let done = run(&[&args[..6], &["--once"]].concat(), b"");
                assert_eq!(done.code(), 0, "{}", done.err());
            } else {
                let lost = OFFERED - ring.written;
                let said = format!("{} records, {lost} lost, 0 bytes to deliver", ring.written);
                assert!(err.contains(&said) && err.contains("nothing is left"), "{err}");
            }
        }
        ring.check(&json_lines(&fs::read_to_string(&lines).unwrap()), "its lines");
        let done = run(&["export", &recording, "--to", "json", "-o", "-"], b"");
        ring.check(&json_lines(&done.out()), "its recording");
        ring.is_told(how);
    }
}

/// What pyarrow reads in the files of losses.
#[cfg(feature = "parquet")]
const PARQUET: &str = "import sys, pyarrow.parquet as pq
print(sum(sum(pq.read_table(f).column('records').to_pylist()) for f in sys.argv[1:]))";

#[cfg(all(feature = "otlp", feature = "parquet", feature = "prometheus"))]
#[test]
fn what_other_programs_receive_has_the_losses_at_the_end_of_a_ring() {
    use crate::command::held_port;
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use perfring_testkit::wait::until;
    use perfring_testrig::otlp::Server;
    use std::io::{Read as _, Write as _};
    let place = Place::new();
    let ring = ring(&place, "rings");
    let lost = OFFERED - ring.written;
    let (server, parquet) = (Server::start(), file(&place, "parquet"));
    let (_port, address) = held_port();
    let config = file(&place, "sidecar.toml");
    let text = format!(
        "[[input]]\ndir = {:?}\n[[output]]\ntype = \"otlp\"\nendpoint = {:?}\nbatch_delay = \"0\"\n\
         [[output]]\ntype = \"prometheus\"\nlisten = \"{address}\"\n\
         [[output]]\ntype = \"parquet\"\npath = {parquet:?}\n",
        file(&place, "rings"),
        server.endpoint(),
    );
    fs::write(&config, text).unwrap();
    let live = crate::command::Live::start(&["sidecar", "--config", &config]);
    let scraped = || {
        let mut stream = std::net::TcpStream::connect(&address).ok()?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok()?;
        let is_it = |line: &&str| line.starts_with("perfring_ring_lost_records_total{");
        let line = page.lines().find(is_it)?;
        assert!(line.contains("cause=\"full\"") && line.contains("ring=\"ring\""), "{line}");
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    until("Prometheus has them", || scraped() == Some(lost as f64));
    let mut records = Vec::new();
    until("OTLP has them", || {
        let requests = std::mem::take(&mut server.got.lock().unwrap().logs);
        let scopes =
            requests.into_iter().flat_map(|it| it.resource_logs).flat_map(|it| it.scope_logs);
        records.extend(scopes.flat_map(|it| it.log_records));
        records.iter().any(|it| it.event_name == "perfring.loss")
    });
    let losses: Vec<_> = records.iter().filter(|it| it.event_name == "perfring.loss").collect();
    let said = |name: &str| {
        let pair = losses[0].attributes.iter().find(|pair| pair.key == name);
        pair.and_then(|pair| pair.value.clone()).and_then(|value| value.value)
    };
    assert_eq!(losses.len(), 1);
    assert_eq!(said("perfring.lost.records"), Some(Any::IntValue(lost as i64)));
    assert_eq!(said("perfring.lost.at_end"), Some(Any::BoolValue(true)));
    live.signal(nix::sys::signal::Signal::SIGTERM);
    let (_, err, code) = live.end();
    assert_eq!(code, 0, "{err}");
    let files = fs::read_dir(&parquet).unwrap().map(|it| it.unwrap().path());
    let files = files.filter(|path| path.file_name().unwrap().to_str().unwrap().contains("losses"));
    let read = std::process::Command::new("python3").args(["-c", PARQUET]).args(files).output();
    let read = read.unwrap();
    if String::from_utf8_lossy(&read.stderr).contains("No module named 'pyarrow'") {
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "Python has no pyarrow");
        println!("SKIPPED: Python has no pyarrow (pip: pyarrow)");
        return;
    }
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), lost.to_string(), "{read:?}");
}

#[test]
fn what_a_consumer_was_told_is_not_told_to_the_next_one() {
    let place = Place::new();
    let ring = ring(&place, "a");
    let mut all = Vec::new();
    let mut losses = Losses::default();
    for count in ["10", "0", "20", "1000", "1000"] {
        all.extend(json_lines(&run(&["consume", "--json", "-n", count, &ring.path], b"").out()));
    }
    ring.check(&all, "five consumers");
    // It is full again, and its producer attaches and ends twice.
    for _ in 0..2 {
        let lines: String = (0..OFFERED).map(|n| format!("{n}\n")).collect();
        publish(&ring.path, lines.as_bytes());
    }
    let more = json_lines(&run(&["consume", "--json", &ring.path], b"").out());
    let lost = |line: &Value| line["lost"]["records"].as_u64().unwrap_or(0);
    let read = more.iter().filter(|line| line["lost"].is_null()).count() as u64;
    assert_eq!(read + more.iter().map(lost).sum::<u64>(), 2 * OFFERED);
    ring.is_told("the last");
    // An observer is told all, from the beginning on what is still in the stream.
    let exported = json_lines(&run(&["export", &ring.path, "--to", "json", "-o", "-"], b"").out());
    exported
        .iter()
        .filter(|line| line["lost"].is_object())
        .for_each(|line| losses.add(&line["lost"]));
    let stat = &json_lines(&run(&["stat", "--format", "json", &ring.path], b"").out())[0];
    assert!(losses.records() <= stat["full_records"].as_u64().unwrap());
}
