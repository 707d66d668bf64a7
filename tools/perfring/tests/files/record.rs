//! `perfring record`.

use crate::command::skipped;
use crate::command::{Live, Losses, Place, json_lines, publish, run};
use crate::files::{exported, has, text, texts, timed};
use nix::sys::signal::Signal;
use perfring_consumer::{Consumer, stat::Stat};
use perfring_export::What;
use perfring_export::recording::Reader;
use perfring_producer::Producer;
use perfring_testkit::wait::until;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_recording_tells_two_containers_apart_that_have_one_pid_and_one_name() {
    let place = Place::new();
    let (dir, file) = (place.path("rings"), text(&place.path("run.perfrec")));
    fs::create_dir(&dir).unwrap();
    let container = |name: &str| {
        let ring = dir.join(name);
        drop(Producer::create(&ring, &timed()).unwrap());
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", env!("CARGO_BIN_EXE_perfring"), "publish"]);
        let mut child = command.arg(ring).stdin(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "from {name}").unwrap();
        child
    };
    let can =
        Command::new("unshare").args(["--pid", "--fork", "true"]).stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        return skipped("namespaces of pids cannot be had here (util-linux: unshare)");
    }
    let mut containers = ["a", "b"].map(container);
    for name in ["a", "b"] {
        let published =
            || Stat::read(dir.join(name)).unwrap().totals.is_some_and(|totals| totals.head > 0);
        until("the container has published", published);
    }
    assert_eq!(run(&["record", &text(&dir), "--for", "10ms", "-o", &file], b"").code(), 0);
    for container in &mut containers {
        drop(container.stdin.take());
        assert!(container.wait().unwrap().success());
    }
    // After their end, only the recording says that they were two.
    let mut reader = Reader::open(Path::new(&file)).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        if matches!(event.what, What::Record(_)) {
            let producer = &event.origin.producer;
            seen.push((producer.pid, producer.name.clone(), event.origin.birth.unwrap().namespace));
        }
    }
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[0].0, &seen[0].1), (seen[1].0, &seen[1].1));
    assert_ne!(seen[0].2, seen[1].2, "two namespaces of pids");
    // So they are two in a trace.
    let trace = text(&place.path("trace"));
    assert_eq!(run(&["export", &file, "--to", "perfetto", "-o", &trace], b"").code(), 0);
    let synthetic = b"pid 1, as another process of this trace";
    let count = |name: &[u8]| {
        fs::read(&trace).unwrap().windows(name.len()).filter(|part| *part == name).count()
    };
    assert_eq!((count(synthetic), count(b"perfring publish")), (1, 2));
}

#[test]
fn live_producers_are_recorded_in_the_order_of_time_until_ctrl_c() {
    const EACH: u64 = 2000;
    let place = Place::new();
    let (dir, file) = (place.path("rings"), text(&place.path("run.perfrec")));
    fs::create_dir(&dir).unwrap();
    let producer = |name: &str| Producer::create(dir.join(name), &timed()).unwrap();
    let mut early = [producer("a"), producer("b")];
    early[0].publish(b"before").unwrap();
    let live = Live::start(&["record", &text(&dir), "-o", &file]);
    until("the file is there", || Path::new(&file).is_file());
    // Two rings that exist, and one that is created later.
    let mut late = producer("c");
    std::thread::scope(|scope| {
        for producer in early.iter_mut().chain([&mut late]) {
            scope.spawn(|| {
                for n in 0..EACH {
                    producer.publish(n.to_string().as_bytes()).unwrap();
                }
            });
        }
    });
    // It has found the last ring by itself; what was published until then is in the file.
    until("all rings are found", || fs::read(&file).is_ok_and(|file| has(&file, b"/rings/c")));
    live.signal(Signal::SIGINT);
    let (out, err, code) = live.end();
    assert_eq!((out.as_str(), code), ("", 130), "{err}");
    assert!(err.contains("recorded 6001 records, lost 0, of 3 rings"), "{err}");

    let lines = exported(&file, &[]);
    let times: Vec<u64> = lines.iter().map(|line| line["time_ns"].as_u64().unwrap()).collect();
    let late: Vec<&Value> = lines.iter().filter(|line| line.get("late_ns").is_some()).collect();
    println!("{} records, {} of them late", lines.len(), late.len());
    assert!(times.is_sorted() || !late.is_empty());
    for ring in ["a", "b", "c"] {
        let of: Vec<&str> = texts(&lines)
            .into_iter()
            .zip(&lines)
            .filter(|(_, line)| line["ring"] == ring)
            .map(|(text, _)| text)
            .collect();
        let mut wanted: Vec<String> = (0..EACH).map(|n| n.to_string()).collect();
        if ring == "a" {
            wanted.insert(0, "before".to_owned());
        }
        assert_eq!(of, wanted, "{ring}");
    }
    // Observing leaves no trace in the rings.
    let stat = Stat::read(dir.join("a")).unwrap();
    assert_eq!((stat.consumer.owner.epoch, stat.totals.unwrap().consumer.read.records), (0, 0));
}

#[test]
fn a_recording_ends_with_its_rings_with_its_time_or_with_its_records() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n2\n3\n");
    let file = |name: &str| text(&place.path(name));
    let done = run(&["record", &ring, "-n", "2", "-o", &file("n")], b"");
    assert_eq!(
        (done.code(), texts(&exported(&file("n"), &[]))),
        (0, vec!["1", "2"]),
        "{}",
        done.err()
    );
    let done = run(&["record", &ring, "--for", "10ms", "-o", &file("for")], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    assert_eq!(texts(&exported(&file("for"), &[])), ["1", "2", "3"]);
    let live = Live::start(&["record", &ring, "-o", &file("removed")]);
    until("it records", || Path::new(&file("removed")).is_file());
    assert_eq!(run(&["rm", &ring], b"").code(), 0);
    let (_, err, code) = live.end();
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("all rings were removed"), "{err}");
    assert_eq!(texts(&exported(&file("removed"), &[])), ["1", "2", "3"]);
    run(&["record", &ring, "-o", &file("none")], b"").refuses(3, "perfring create");
    assert!(!Path::new(&file("none")).exists());
}

#[test]
fn an_existing_file_is_refused_unless_it_may_be_replaced_or_appended_to() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n");
    let file = text(&place.path("file"));
    let record =
        |more: &[&str]| run(&[&["record", &ring, "-n", "1", "-o", &file], more].concat(), b"");
    assert_eq!(record(&[]).code(), 0);
    let before = fs::read(&file).unwrap();
    record(&[]).refuses(1, "--force");
    assert_eq!(fs::read(&file).unwrap(), before);
    publish(&ring, b"2\n");
    assert_eq!(record(&["--append"]).code(), 0);
    assert_eq!(texts(&exported(&file, &[])), ["1", "2"]);
    assert_eq!(record(&["--force"]).code(), 0);
    assert_eq!(texts(&exported(&file, &[])), ["1"]);

    let out = text(&place.path("out"));
    for format in ["json", "perfetto", "perf-data", "recording"] {
        fs::write(&out, "mine").unwrap();
        run(&["export", &file, "--to", format, "-o", &out], b"").refuses(1, "--force");
        assert_eq!(fs::read(&out).unwrap(), b"mine", "{format}");
        let done = run(&["export", &file, "--to", format, "-o", &out, "--force"], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        assert!(fs::read(&out).unwrap() != b"mine", "{format}");
    }
}

#[test]
fn a_consumer_takes_exactly_what_is_in_the_file() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n2\n3\n");
    let file = text(&place.path("file"));
    // A full disk takes nothing, and nothing is consumed.
    let done = run(&["record", &ring, "--consume", "-o", "/dev/full"], b"");
    done.refuses(1, "No space left");
    assert_eq!(run(&["dump", &ring], b"").out(), "1\n2\n3\n");
    let done = run(&["record", &ring, "--consume", "-n", "2", "-o", &file], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    assert_eq!(texts(&exported(&file, &[])), ["1", "2"]);
    assert_eq!(run(&["consume", &ring], b"").out(), "3\n");
    // A ring has one consumer.
    let _mine = Consumer::attach(Path::new(&ring)).unwrap();
    let done = run(&["record", &ring, "--consume", "-o", &text(&place.path("other"))], b"");
    done.refuses(1, "consumer");
}

#[test]
fn what_a_disk_did_not_take_stays_in_the_ring() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, &b"a line of this length or so\n".repeat(500));
    let file = text(&place.path("file"));
    // The system refuses what exceeds 4 KiB, as a full disk does.
    let said = format!(
        "trap '' XFSZ; ulimit -f 8; exec {} record --consume {ring} -o {file}",
        env!("CARGO_BIN_EXE_perfring")
    );
    let ended = Command::new("sh").args(["-c", &said]).stdin(Stdio::null()).output().unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{err}");
    assert!(err.contains("cannot write") && err.contains("nothing was recorded"), "{err}");
    assert_eq!(run(&["consume", &ring], b"").out().lines().count(), 500);
    let done = run(&["export", &file, "--to", "json"], b"");
    assert_eq!((done.code(), done.out().as_str()), (4, ""), "{}", done.err());
}

#[test]
fn a_damaged_ring_is_used_up_to_there_and_the_others_continue() {
    let place = Place::new();
    let dir = place.path("rings");
    fs::create_dir(&dir).unwrap();
    for name in ["bad", "good"] {
        let mut producer = Producer::create(dir.join(name), &timed()).unwrap();
        (0..100u8).for_each(|n| producer.publish(&[n; 8]).unwrap());
    }
    let bad = fs::File::options().write(true).open(dir.join("bad")).unwrap();
    bad.write_all_at(&[0xff; 8], 4096 + 24 * 50).unwrap();
    let file = text(&place.path("file"));
    let done = run(&["record", &text(&dir), "--for", "50ms", "-o", &file], b"");
    assert_eq!(done.code(), 4, "{}", done.err());
    assert!(done.err().contains("damaged at position 1200"), "{}", done.err());
    // The producer of a ring that is followed may write on: the number of what follows is unknown.
    let said = "recorded 150 records, lost an unknown number: ring damaged";
    assert!(done.err().contains(said), "{}", done.err());
    let of_damage = |lines: Vec<Value>| -> Vec<Value> {
        let lost = lines.into_iter().filter(|line| line["lost"].is_object());
        lost.map(|line| line["lost"].clone()).collect()
    };
    let lines = exported(&file, &[]);
    assert_eq!(lines.len(), 151);
    let lost = json!([{"pos": 1200, "records": null, "bytes": 0, "cause": "ring damaged"}]);
    assert_eq!(Value::from(of_damage(lines)), lost);
    let done = run(&["export", &text(&dir), "--to", "json"], b"");
    assert_eq!((done.code(), done.out().lines().count()), (4, 151), "{}", done.err());
    let lost = json!([{"pos": 1200, "records": 50, "bytes": 1200, "cause": "ring damaged"}]);
    assert_eq!(Value::from(of_damage(json_lines(&done.out()))), lost);
    assert!(done.err().contains("damaged at position 1200"), "{}", done.err());
}

#[test]
fn losses_are_reported_by_cause_from_end_to_end() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K"]);
    let path = Path::new(&ring);
    let mut producer = Producer::attach(path).unwrap();
    while producer.publish(&[b'x'; 100]).is_ok() {}
    for _ in 0..2 {
        producer.publish(&[b'x'; 100]).unwrap_err();
    }
    let mut consumer = Consumer::attach(path).unwrap();
    (0..8).for_each(|_| assert!(consumer.read().unwrap().is_some()));
    consumer.release();
    drop(consumer);
    producer.publish(b"told").unwrap();
    let reported = Stat::read(path).unwrap().totals.unwrap().producer.reported.full.records;
    assert!(reported >= 3);

    let file = text(&place.path("file"));
    let done = run(&["record", &ring, "--for", "10ms", "-o", &file, "--fail-on-loss"], b"");
    assert_eq!(done.code(), 5, "{}", done.err());
    assert!(done.err().contains(&format!("lost {reported}: full {reported}")), "{}", done.err());
    for input in [&file, &ring] {
        let done = run(&["export", input, "--to", "json", "--fail-on-loss"], b"");
        assert_eq!(done.code(), 5, "{}", done.err());
        assert!(
            done.err().contains(&format!("lost {reported}: full {reported}")),
            "{}",
            done.err()
        );
        let lines = json_lines(&done.out());
        let lost: Vec<&Value> = lines.iter().filter_map(|line| line.get("lost")).collect();
        assert_eq!(lost.len(), 1);
        assert_eq!((&lost[0]["records"], &lost[0]["cause"]), (&reported.into(), &"full".into()));
    }
    // So are those that the stream does not report yet, at its end.
    while producer.publish(&[b'x'; 100]).is_ok() {}
    let lost = Stat::read(path).unwrap().totals.unwrap().producer.refused.total().records;
    assert!(lost > reported);
    let done =
        run(&["record", &ring, "--for", "10ms", "-o", &file, "--force", "--fail-on-loss"], b"");
    assert_eq!(done.code(), 5, "{}", done.err());
    assert!(done.err().contains(&format!("lost {lost}: full {lost}")), "{}", done.err());
    for input in [&file, &ring] {
        let done = run(&["export", input, "--to", "json"], b"");
        let mut losses = Losses::default();
        let lines = json_lines(&done.out());
        lines.iter().filter_map(|line| line.get("lost")).for_each(|lost| losses.add(lost));
        assert_eq!(losses.records(), lost, "{input}");
        assert_eq!(lines.last().unwrap()["lost"]["records"], lost - reported, "{input}");
    }
}

#[test]
fn a_terminal_shows_the_progress_on_one_line_however_narrow() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n2\n3\n");
    let file = text(&place.path("file"));
    let binary = env!("CARGO_BIN_EXE_perfring");
    for columns in [20, 80] {
        // A terminal of its own.
        let said = format!(
            "stty cols {columns} rows 24; exec {binary} record {ring} -o {file} --force --for 500ms"
        );
        let shown =
            Command::new("script").args(["-qec", &said, "/dev/null"]).stdin(Stdio::null()).output();
        let Ok(shown) = shown else {
            assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "there is no script(1)");
            println!("SKIPPED: there is no script(1)");
            return;
        };
        let shown = String::from_utf8(shown.stdout).unwrap();
        let lines: Vec<&str> = shown.split(['\r', '\n']).collect();
        let progress: Vec<String> = lines.iter().map(|line| plain(line)).collect();
        assert!(progress.iter().any(|line| line.contains("3 rec")), "{shown:?}");
        for line in progress.iter().filter(|line| !line.starts_with("perfring:")) {
            assert!(line.chars().count() <= columns, "{columns}: {line:?}");
        }
        assert!(shown.contains("recorded 3 records"), "{shown:?}");
    }
    // No progress without a terminal.
    let done = run(&["record", &ring, "-o", &file, "--force", "--for", "300ms"], b"");
    assert_eq!(done.err().lines().count(), 1, "{}", done.err());
}

/// Removes control sequences from a line.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().skip(1).find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

#[test]
fn a_recording_goes_on_in_the_next_file_and_keeps_the_newest() {
    let place = Place::new();
    let ring = place.ring(&["--time"]);
    let lines: String = (0..4000).map(|n| format!("{n:04} and more\n")).collect();
    publish(&ring, lines.as_bytes());
    let file = text(&place.path("run.perfrec"));
    let record =
        |more: &[&str]| run(&[&["record", &ring, "-o", &file, "-n", "4000"], more].concat(), b"");
    // A file ends at the end of a turn of 1024 records.
    let done = record(&["--max-bytes", "1K", "--keep", "1"]);
    assert_eq!(done.code(), 0, "{}", done.err());
    let files = || {
        let names = fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<String> =
            names.map(|path| text(&path)).filter(|path| *path != ring).collect();
        names.sort();
        names
    };
    let all = files();
    println!("{all:?}: {}", done.err());
    assert_eq!(all.len(), 2, "one that is finished, and the last");
    assert!(done.err().contains("recorded 4000 records, lost 0"), "{}", done.err());
    assert!(done.err().contains(" of that were removed"), "{}", done.err());
    let came: Vec<String> = all
        .iter()
        .flat_map(|file| exported(file, &[]))
        .map(|line| line["text"].as_str().unwrap().to_owned())
        .collect();
    let newest: Vec<&str> = lines.lines().skip(4000 - came.len()).collect();
    assert!(!came.is_empty() && came.len() < 4000 && came == newest, "{} came", came.len());
    // What exists is not replaced, and is gone on with if that is asked for.
    fs::write(&file, "").unwrap();
    record(&["--max-bytes", "1K"]).refuses(1, "already exists");
    record(&["--max-bytes", "1K", "--force"]).refuses(2, "cannot be used with");
    fs::remove_file(&file).unwrap();
    let last = all.last().unwrap();
    let before = exported(last, &[]).len();
    publish(&ring, b"1\n2\n3\n");
    let done = run(&["record", &ring, "-o", &file, "-n", "3", "--append", "--max-age", "1h"], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    assert_eq!((files(), exported(last, &[]).len()), (all, before + 3));
    // No limit of age, as in a sidecar's configuration: one file.
    for none in ["0", "0s"] {
        let done = run(&["record", &ring, "-o", "-", "-n", "3", "--max-age", none], b"");
        assert_eq!(done.code(), 0, "{none}: {}", done.err());
    }
    let stdout = run(&["record", &ring, "-o", "-", "--max-bytes", "1K"], b"");
    stdout.refuses(2, "stdout is no file that another one can follow");
    let dir = text(place.0.path());
    let to_dir = run(&["record", &ring, "-o", &dir, "--max-bytes", "1K"], b"");
    to_dir.refuses(1, "is a directory: name a file in it");
    let odd = record(&["--max-bytes", "2M", "--keep-bytes", "1M"]);
    odd.refuses(2, "it must be at least max_bytes");
}

#[test]
fn a_recording_that_is_appended_to_has_each_loss_once() {
    let place = Place::new();
    let (ring, file) = (place.ring(&["--time", "--size", "64K"]), text(&place.path("run.perfrec")));
    let mut producer = Producer::attach(&*ring).unwrap();
    let (mut published, mut refused) = (0, 1);
    while producer.publish(&[0; 1000]).is_ok() {
        published += 1;
    }
    // One file, and a series with a file for each run.
    let series = text(&place.path("series.perfrec"));
    for more in [6, 0, 3] {
        (0..more).for_each(|_| assert!(producer.publish(&[0; 1000]).is_err()));
        refused += more;
        for (file, limit) in [(&file, &[][..]), (&series, &["--max-bytes", "1"])] {
            let args = ["record", &ring, "-o", file, "--append", "--for", "10ms"];
            let done = run(&[&args[..], limit].concat(), b"");
            assert_eq!(done.code(), 0, "{}", done.err());
            let lines = all_of(file);
            assert_eq!(lines.iter().filter(|line| line["lost"].is_null()).count(), published);
            let lost = lines.iter().filter_map(|line| line["lost"].as_object());
            let (records, bytes) = lost.fold((0, 0), |(records, bytes), lost| {
                let of = |name: &str| lost[name].as_u64().unwrap();
                (records + of("records"), bytes + of("bytes"))
            });
            let full = Stat::read(&*ring).unwrap().totals.unwrap().producer.refused.full;
            let all = (records, records, bytes);
            assert_eq!(all, (refused, full.records, full.bytes), "{file}: {}", done.err());
        }
    }
}

/// Returns the lines of all files of a series.
fn all_of(file: &str) -> Vec<Value> {
    let path = Path::new(file);
    let all = perfring_export::series(path).unwrap();
    all.iter().flat_map(|file| exported(&text(file), &[])).collect()
}

#[test]
fn a_recording_continues_where_it_ended_and_has_what_was_overwritten_since_then_as_lost() {
    let place = Place::new();
    let ring = place.ring(&["--time", "--size", "4K", "--policy", "overwrite"]);
    let file = text(&place.path("run.perfrec"));
    let numbers =
        |some: std::ops::Range<u64>| -> String { some.map(|n| format!("{n}\n")).collect() };
    let record = |more: &[&str]| {
        run(&[&["record", &ring, "-o", &file, "--append", "--for", "10ms"], more].concat(), b"")
    };
    let (mut published, mut all) = (0, Vec::new());
    // The last number is more than the ring holds.
    for more in [20, 0, 5, 1000] {
        publish(&ring, numbers(published..published + more).as_bytes());
        published += more;
        let done = record(&["--fail-on-loss"]);
        all = exported(&file, &[]);
        let lost: u64 = all.iter().filter_map(|line| line["lost"]["records"].as_u64()).sum();
        let records: Vec<u64> =
            all.iter().filter_map(|line| line["text"].as_str()?.parse().ok()).collect();
        println!("{} records, {lost} lost: {}", records.len(), done.err().trim());
        assert!(records.is_sorted_by(|one, next| one < next), "{records:?}");
        assert_eq!(records.len() as u64 + lost, published, "{}", done.err());
        assert_eq!((lost > 0, done.code()), if more < 1000 { (false, 0) } else { (true, 5) });
    }
    let lost: Vec<&Value> = all.iter().filter(|line| line["lost"].is_object()).collect();
    assert_eq!((lost.len(), &lost[0]["lost"]["cause"]), (1, &"lapped".into()));
    // A recorder that was killed has not noted its position: it repeats nothing, and does not know how many are missing.
    let killed = Live::start(&["record", &ring, "-o", &file, "--append"]);
    publish(&ring, b"last\n");
    let is_there = || fs::read(&file).is_ok_and(|file| has(&file, b"last"));
    until("the record is in the file", is_there);
    drop(killed);
    let before = all.len() + 1;
    let done = record(&["--fail-on-loss"]);
    assert_eq!((done.code(), exported(&file, &[]).len()), (0, before), "{}", done.err());
    // The next killed one notes nothing either.
    let killed = Live::start(&["record", &ring, "-o", &file, "--append"]);
    publish(&ring, b"very last\n");
    let is_there = || fs::read(&file).is_ok_and(|file| has(&file, b"very last"));
    until("the record is in the file", is_there);
    drop(killed);
    publish(&ring, numbers(0..1000).as_bytes());
    let done = record(&["--fail-on-loss"]);
    assert_eq!(done.code(), 5, "{}", done.err());
    assert!(done.err().contains("lost an unknown number: lapped"), "{}", done.err());
    let lines = exported(&file, &[]);
    let lost = &lines[before + 1]["lost"];
    assert!(lost["records"].is_null() && lost["bytes"].as_u64() > Some(0), "{lost}");
}

#[test]
fn only_a_file_is_appended_to_and_not_while_another_process_writes_it() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n");
    let pipe = text(&place.path("pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for to in [&*pipe, "/dev/null"] {
        let done = run(&["record", &ring, "-o", to, "--append"], b"");
        done.refuses(2, "is not a regular file");
    }
    let done = run(&["record", &ring, "-o", "-", "--append"], b"");
    done.refuses(2, "stdout has nothing to append to");
    // The file is locked before it is read, and read before a ring is attached to.
    let file = text(&place.path("run.perfrec"));
    let live = Live::start(&["record", &ring, "-o", &file]);
    until("the record is in the file", || exported_so_far(&file) == 1);
    let none = text(&place.path("none"));
    let append = ["record", &none, "-o", &file, "--append"];
    run(&append, b"").refuses(1, "is being written by another process");
    live.signal(Signal::SIGINT);
    assert_eq!(live.end().2, 130);
    // A ring that is missing leaves a file that can be read, and no new file.
    run(&append, b"").refuses(3, "perfring create");
    assert_eq!(texts(&exported(&file, &[])), ["1"]);
    let new = text(&place.path("new.perfrec"));
    run(&["record", &none, "-o", &new, "--append"], b"").refuses(3, "perfring create");
    assert!(!Path::new(&new).exists());
}

fn exported_so_far(file: &str) -> usize {
    let mut records = 0;
    if let Ok(mut reader) = Reader::open(Path::new(file)) {
        while let Ok(Some(event)) = reader.next() {
            records += usize::from(matches!(event.what, What::Record(_)));
        }
    }
    records
}

#[test]
fn an_older_copy_of_a_ring_is_recorded_from_its_oldest_record() {
    let place = Place::new();
    let (ring, file) = (place.ring(&[]), text(&place.path("run.perfrec")));
    publish(&ring, b"1\n");
    let old = text(&place.path("old"));
    fs::copy(&ring, &old).unwrap();
    publish(&ring, b"2\n3\n");
    let record = |ring: &str| run(&["record", ring, "-o", &file, "--append", "--for", "10ms"], b"");
    assert_eq!(record(&ring).code(), 0);
    let done = record(&old);
    assert!(done.err().contains("ends before the recording does"), "{}", done.err());
    assert_eq!(texts(&exported(&file, &[])), ["1", "2", "3", "1"]);
}

#[test]
fn a_ring_that_is_named_twice_or_copied_is_recorded_once() {
    let place = Place::new();
    let (dir, ring) = (place.path("rings"), place.path("rings/ring"));
    fs::create_dir(&dir).unwrap();
    drop(Producer::create(&ring, &timed()).unwrap());
    let (dir, ring, copy) = (text(&dir), text(&ring), text(&place.path("a-copy")));
    fs::copy(&ring, &copy).unwrap();
    publish(&ring, b"1\n2\n");
    let file = text(&place.path("run.perfrec"));
    for (inputs, copies) in [
        (&[&*ring, &ring][..], 0),
        (&[&copy, &ring], 1),
        (&[&ring, &copy], 1),
        (&[&dir, &ring], 0),
        (&[&dir, &copy], 1),
        (&[&ring, &dir], 0),
    ] {
        let args = [&["record"], inputs, &["-o", &file, "--force", "--for", "10ms"]].concat();
        let done = run(&args, b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        assert_eq!(texts(&exported(&file, &[])), ["1", "2"], "{inputs:?}");
        assert_eq!(done.err().matches("is left out: a copy of").count(), copies, "{}", done.err());
    }
    let args = ["record", &ring, &ring, "-o", &file, "--force", "--for", "10ms", "--consume"];
    assert_eq!(run(&args, b"").code(), 0);
    assert_eq!(texts(&exported(&file, &[])), ["1", "2"]);
}
