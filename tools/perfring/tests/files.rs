//! What `perfring record`, `export` and `replay` promise, tried on the real binary.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod command;
mod kinds;

use command::{Live, Place, json_lines, perfring, publish, run, until};
use nix::sys::signal::Signal;
use perfring_consumer::{Consumer, Item, Snapshot, Stat};
use perfring_producer::{Options, Producer, RecordType};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn timed() -> Options {
    Options { time: true, ..Options::default() }
}

/// The records of a file, as `perfring export` has them.
#[track_caller]
fn exported(file: &str, options: &[&str]) -> Vec<Value> {
    let done = run(&[&["export", file, "--to", "json"], options].concat(), b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    json_lines(&done.out())
}

fn texts(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["text"].as_str().unwrap()).collect()
}

/// Types and payloads, in order.
fn contents(ring: &Path) -> Vec<(u32, Vec<u8>)> {
    let snapshot = Snapshot::take(ring).unwrap();
    let record = |item| match item {
        Ok(Item::Record(record)) => Some((record.kind, record.bytes.to_vec())),
        _ => None,
    };
    snapshot.iter().filter_map(record).collect()
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn live_producers_are_recorded_in_the_order_of_time_until_ctrl_c() {
    const EACH: u64 = 2000;
    let place = Place::new();
    let (dir, file) = (place.path("rings"), text(&place.path("run.perfrec")));
    fs::create_dir(&dir).unwrap();
    let producer = |name: &str| Producer::create(dir.join(name), &timed()).unwrap();
    let mut early = [producer("a"), producer("b")];
    early[0].publish(RecordType::BYTES, b"before").unwrap();
    let live = Live::start(&["record", &text(&dir), "-o", &file]);
    until("the file is there", || Path::new(&file).is_file());
    // Two that are there, and one that comes later.
    let mut late = producer("c");
    std::thread::scope(|scope| {
        for producer in early.iter_mut().chain([&mut late]) {
            scope.spawn(|| {
                for n in 0..EACH {
                    producer.publish(RecordType::BYTES, n.to_string().as_bytes()).unwrap();
                }
            });
        }
    });
    // It has come to the last ring, which it finds by itself; what was published is there then.
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
    // Nobody can tell that they were observed.
    let stat = Stat::read(dir.join("a")).unwrap();
    assert_eq!((stat.consumer.who.epoch, stat.totals.unwrap().consumer.read.records), (0, 0));
}

fn has(file: &[u8], what: &[u8]) -> bool {
    file.windows(what.len()).any(|window| window == what)
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
    let live = Live::start(&["record", &ring, "-o", &file("gone")]);
    until("it records", || Path::new(&file("gone")).is_file());
    assert_eq!(run(&["rm", &ring], b"").code(), 0);
    let (_, err, code) = live.end();
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("all rings were removed"), "{err}");
    assert_eq!(texts(&exported(&file("gone"), &[])), ["1", "2", "3"]);
    run(&["record", &ring, "-o", &file("none")], b"").refuses(3, "perfring create");
    assert!(!Path::new(&file("none")).exists());
}

#[test]
fn a_file_that_is_there_is_refused_unless_it_may_go_or_be_gone_on_with() {
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
    assert_eq!(record(&["--append"]).code(), 0);
    assert_eq!(texts(&exported(&file, &[])), ["1", "1"]);
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
fn a_consumer_takes_what_is_in_the_file_and_nothing_else() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n2\n3\n");
    let file = text(&place.path("file"));
    // A disk that is full takes nothing, and nothing is gone.
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
    // The system refuses what goes beyond 4 KiB, as a full disk does.
    let said = format!(
        "trap '' XFSZ; ulimit -f 8; exec {} record --consume {ring} -o {file}",
        env!("CARGO_BIN_EXE_perfring")
    );
    let ended = Command::new("sh").args(["-c", &said]).stdin(Stdio::null()).output().unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{err}");
    assert!(err.contains("cannot write") && err.contains("first 0 records are whole"), "{err}");
    assert_eq!(run(&["consume", &ring], b"").out().lines().count(), 500);
    let done = run(&["export", &file, "--to", "json"], b"");
    assert_eq!((done.code(), done.out().as_str()), (4, ""), "{}", done.err());
}

#[test]
fn a_damaged_ring_is_used_up_to_there_and_the_others_go_on() {
    let place = Place::new();
    let dir = place.path("rings");
    fs::create_dir(&dir).unwrap();
    for name in ["bad", "good"] {
        let mut producer = Producer::create(dir.join(name), &timed()).unwrap();
        (0..100u8).for_each(|n| producer.publish(RecordType::BYTES, &[n; 8]).unwrap());
    }
    let bad = fs::File::options().write(true).open(dir.join("bad")).unwrap();
    bad.write_all_at(&[0xff; 8], 4096 + 24 * 50).unwrap();
    let file = text(&place.path("file"));
    let done = run(&["record", &text(&dir), "--for", "50ms", "-o", &file], b"");
    assert_eq!(done.code(), 4, "{}", done.err());
    assert!(done.err().contains("damaged at position 1200"), "{}", done.err());
    assert!(done.err().contains("recorded 150 records"), "{}", done.err());
    assert_eq!(exported(&file, &[]).len(), 150);
    let done = run(&["export", &text(&dir), "--to", "json"], b"");
    assert_eq!((done.code(), done.out().lines().count()), (4, 150), "{}", done.err());
    assert!(done.err().contains("damaged at position 1200"), "{}", done.err());
}

#[test]
fn losses_are_told_by_cause_from_end_to_end() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K"]);
    let path = Path::new(&ring);
    let mut producer = Producer::attach(path).unwrap();
    while producer.publish(RecordType::BYTES, &[b'x'; 100]).is_ok() {}
    for _ in 0..2 {
        producer.publish(RecordType::BYTES, &[b'x'; 100]).unwrap_err();
    }
    let mut consumer = Consumer::attach(path).unwrap();
    (0..8).for_each(|_| assert!(consumer.read().unwrap().is_some()));
    consumer.release();
    drop(consumer);
    producer.publish(RecordType::BYTES, b"told").unwrap();
    let told = Stat::read(path).unwrap().totals.unwrap().producer.told.full.records;
    assert!(told >= 3);

    let file = text(&place.path("file"));
    let done = run(&["record", &ring, "--for", "10ms", "-o", &file, "--fail-on-loss"], b"");
    assert_eq!(done.code(), 5, "{}", done.err());
    assert!(done.err().contains(&format!("lost {told}: full {told}")), "{}", done.err());
    for input in [&file, &ring] {
        let done = run(&["export", input, "--to", "json", "--fail-on-loss"], b"");
        assert_eq!(done.code(), 5, "{}", done.err());
        assert!(done.err().contains(&format!("lost {told}: full {told}")), "{}", done.err());
        let lines = json_lines(&done.out());
        let lost: Vec<&Value> = lines.iter().filter_map(|line| line.get("lost")).collect();
        assert_eq!(lost.len(), 1);
        assert_eq!((&lost[0]["records"], &lost[0]["cause"]), (&told.into(), &"full".into()));
    }
    // Those that the stream does not tell yet are told beside it.
    while producer.publish(RecordType::BYTES, &[b'x'; 100]).is_ok() {}
    let untold = Stat::read(path).unwrap().totals.unwrap().untold().records;
    let done =
        run(&["record", &ring, "--for", "10ms", "-o", &file, "--force", "--fail-on-loss"], b"");
    assert_eq!(done.code(), 5, "{}", done.err());
    assert!(done.err().contains(&format!("; {untold} more that are lost")), "{}", done.err());
}

#[test]
fn what_is_not_asked_for_is_left_out() {
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
    assert!(done.err().contains(&format!("{left} others were not asked for")), "{}", done.err());
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
    done.refuses(2, "time stamp");
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
        producers[n % 3 % 2].publish(RecordType::BYTES, n.to_string().as_bytes()).unwrap();
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
fn what_is_replayed_is_the_same_byte_for_byte_with_its_types() {
    let place = Place::new();
    let ring = kinds::all_kinds_in(place.ring(&["--time"]));
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    let max = producer.max_len();
    producer.publish(RecordType::BYTES, &vec![b'm'; max]).unwrap();
    producer.publish(RecordType::BYTES, b"").unwrap();
    producer.publish(RecordType::new(9999).unwrap(), &[0, 255, 7]).unwrap();
    let (file, again) = (text(&place.path("file")), place.path("again"));
    assert_eq!(run(&["record", &ring, "--for", "10ms", "-o", &file], b"").code(), 0);
    let done = run(&["replay", &file, &text(&again), "--rate", "max"], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    assert!(done.err().contains("stamped them anew"), "{}", done.err());
    let wanted = contents(Path::new(&ring));
    assert_eq!(contents(&again), wanted);
    let types = |ring: &Path| Snapshot::take(ring).unwrap().types().words().to_vec();
    assert!(types(&again) == types(Path::new(&ring)) && !types(&again).is_empty());
    // Into one that is there, and shared; and again through a pipe.
    let shared = text(&place.path("shared"));
    assert_eq!(run(&["create", &shared, "--producers", "many"], b"").code(), 0);
    assert_eq!(run(&["replay", &file, &shared, "--rate", "max", "--of", "ring"], b"").code(), 0);
    assert_eq!(contents(Path::new(&shared)), wanted);
    let done = run(&["replay", &file, &shared, "--rate", "max", "--of", "other"], b"");
    assert!(done.err().contains("published 0 records"), "{}", done.err());
}

#[test]
fn a_replay_keeps_distances_in_time() {
    let place = Place::new();
    let ring = place.ring(&["--time"]);
    publish(&ring, b"one\n");
    std::thread::sleep(Duration::from_millis(200)); // the distance that is to be kept
    publish(&ring, b"two\n");
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "--for", "1ms", "-o", &file], b"").code(), 0);
    let distance = |ring: &Path| {
        let snapshot = Snapshot::take(ring).unwrap();
        let times: Vec<u64> = snapshot
            .iter()
            .filter_map(|item| match item {
                Ok(Item::Record(record)) => record.time,
                _ => None,
            })
            .collect();
        times[1] - times[0]
    };
    let was = distance(Path::new(&ring));
    for (rate, parts) in [("1", 1), ("4", 4), ("20/s", was / 50_000_000)] {
        let again = place.path(&format!("again{}", parts));
        let done = run(&["replay", &file, &text(&again), "--rate", rate], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        // Stamps are a little wrong; and the first record may be published late, never early.
        let (least, now) = (was / parts.max(1), distance(&again));
        println!("{was} ns, at rate {rate}: {now} ns");
        assert!(now + 20_000_000 > least, "{rate}: {now} of {least}");
    }
    run(&["replay", &file, &ring, "--rate", "0"], b"").refuses(2, "max");
}

#[test]
fn a_full_ring_counts_what_it_refuses_or_is_waited_for() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, &b"some line\n".repeat(1000));
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "-n", "1000", "-o", &file], b"").code(), 0);
    let small = text(&place.path("small"));
    let replay = ["replay", &file, &small, "--rate", "max", "--size", "4K"];
    let done = run(&[&replay[..], &["--fail-on-loss"]].concat(), b"");
    assert_eq!(done.code(), 5, "{}", done.err());
    let totals = Stat::read(Path::new(&small)).unwrap().totals.unwrap();
    let (written, full) = (totals.producer.written.records, totals.producer.refused.full.records);
    assert_eq!(written + full, 1000);
    assert!(done.err().contains(&format!("published {written} records, lost {full}: full")));
    // A consumer makes room.
    assert_eq!(run(&["consume", &small], b"").code(), 0);
    let reader = Live::start(&["consume", "-f", "-n", "1000", &small]);
    let done = run(&[&replay[..], &["--wait", "20", "--fail-on-loss"]].concat(), b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    assert_eq!(reader.end().0, "some line\n".repeat(1000));
}

#[test]
fn a_loop_goes_on_until_ctrl_c() {
    let place = Place::new();
    let ring = place.ring(&["--policy", "overwrite"]);
    publish(&ring, b"1\n2\n");
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "-n", "2", "-o", &file], b"").code(), 0);
    let again = place.path("again");
    let live = Live::start(&["replay", "--loop", "--rate", "max", &file, &text(&again)]);
    let written = || Some(Stat::read(&again).ok()?.totals?.producer.written.records);
    until("it was replayed often", || written().is_some_and(|written| written > 100));
    live.signal(Signal::SIGINT);
    let (_, err, code) = live.end();
    assert_eq!(code, 130, "{err}");
    let said: u64 = err.split(' ').nth(2).unwrap().parse().unwrap();
    assert_eq!(said, written().unwrap(), "{err}");
}

#[test]
fn a_recording_that_was_cut_off_or_damaged_is_used_up_to_there() {
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
    // As a recorder leaves it that was killed, or is still at it: what it wrote is there.
    let live = Live::start(&["record", &ring, "--force", "-o", &file]);
    until("it has written", || fs::read(&file).is_ok_and(|bytes| bytes.len() >= whole.len() - 60));
    live.signal(Signal::SIGKILL);
    live.end();
    let done = run(&["export", &file, "--to", "json"], b"");
    assert_eq!((done.code(), texts(&json_lines(&done.out()))), (4, vec!["1", "2", "3"]));
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    fs::write(&file, damaged).unwrap();
    run(&["export", &file, "--to", "json"], b"").refuses(4, "damaged at byte 16");
    fs::write(&file, &whole[..20]).unwrap();
    run(&["export", &file, "--to", "json"], b"").refuses(4, "cut off");
}

#[test]
fn commands_for_rings_say_what_a_recording_is() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, b"1\n");
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "-n", "1", "-o", &file], b"").code(), 0);
    for command in ["dump", "types", "stat", "tail", "consume"] {
        run(&[command, &file], b"").refuses(4, "is a recording");
    }
    run(&["record", &file, "-o", &text(&place.path("x"))], b"").refuses(2, "is a recording");
    run(&["export", &file, &ring, "--to", "json"], b"").refuses(2, "by itself");
    run(&["replay", &ring, &ring], b"").refuses(4, "no recording");
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
    // Whoever reads goes away: no error, as of head.
    for to in ["json", "recording"] {
        let mut child = perfring(&["export", &file, "--to", to]).spawn().unwrap();
        drop(child.stdout.take());
        let done = command::Done(child.wait_with_output().unwrap());
        assert_eq!((done.code(), done.err().as_str()), (0, ""), "{to}");
    }
    // Nobody reads: Ctrl-C ends it.
    let child = perfring(&["export", &file, "--to", "json"]).spawn().unwrap();
    let live = Live { out: std::io::BufReader::new(dup(&child)), child };
    until("the pipe is full", || state(live.child.id()) == Some('S'));
    live.signal(Signal::SIGINT);
    until("it has ended", || matches!(state(live.child.id()), Some('Z') | None));
    let full =
        |to: &str| run(&["export", &file, "--to", to, "-o", "/dev/full", "--patience", "0.2"], b"");
    for to in ["recording", "json"] {
        let done = full(to);
        assert_eq!(done.code(), 1, "{to}: {}", done.err());
        assert!(done.err().contains("No space left"), "{to}: {}", done.err());
    }
    run(&["export", &file, "--to", "perfetto"], b"").refuses(2, "-o OUT");
    run(&["export", &file, "--to", "perfetto", "-o", "-"], b"").refuses(2, "no stream");
    run(&["export", &file, "--to", "json", "--option", "pth=1"], b"").refuses(2, "unknown field");
}

/// A second descriptor of its stdout, which keeps the pipe open.
fn dup(child: &std::process::Child) -> std::process::ChildStdout {
    use std::os::fd::AsFd;
    child.stdout.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap().into()
}

/// What the kernel says a process does.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

#[test]
fn a_collector_that_is_not_there_is_told_of() {
    let place = Place::new();
    let ring = kinds::all_kinds_in(place.ring(&["--time"]));
    let args = ["export", &ring, "--to", "otlp", "-o", "http://127.0.0.1:9", "--patience", "0.3"];
    let done = run(&args, b"");
    if done.code() == 2 {
        assert!(done.err().contains("--features otlp"), "{}", done.err());
        println!("SKIPPED: built without otlp");
        return;
    }
    assert_eq!(done.code(), 1, "{}", done.err());
    println!("{}", done.err());
}

/// Runs a reader of others; `None` if there is none here.
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
fn every_format_says_how_it_is_opened_and_can_be() {
    let place = Place::new();
    let ring = kinds::all_kinds_in(place.ring(&["--time"]));
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "--for", "10ms", "-o", &file], b"").code(), 0);
    let records = exported(&file, &[]).len();
    for (format, how) in [
        ("perfetto", "ui.perfetto.dev"),
        ("ctf", "babeltrace2"),
        ("parquet", "pyarrow"),
        ("perf-data", "perf script"),
        ("recording", "perfring export"),
    ] {
        let out = text(&place.path(format));
        let done = run(&["export", &file, "--to", format, "-o", &out], b"");
        if format == "parquet" && done.code() == 2 {
            assert!(done.err().contains("--features parquet"), "{}", done.err());
            println!("SKIPPED: built without parquet");
            continue;
        }
        assert_eq!(done.code(), 0, "{format}: {}", done.err());
        let said = done.err();
        assert!(
            said.contains(how) && said.contains(&format!("exported {records} records")),
            "{said}"
        );
        // Not twice without being told.
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
fn a_terminal_shows_how_far_it_is_on_one_line_however_narrow() {
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
    // Nothing of it where nobody looks.
    let done = run(&["record", &ring, "-o", &file, "--force", "--for", "300ms"], b"");
    assert_eq!(done.err().lines().count(), 1, "{}", done.err());
}

/// A line without what steers a terminal.
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
