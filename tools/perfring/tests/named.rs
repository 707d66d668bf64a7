//! Named consumers as a user sees them: each by its name, how it is, and how far behind; and whatever stands in their seats.

use crate::command::{Live, Place, json_lines, publish, run};
use nix::sys::signal::Signal;
use perfring_abi::{FIELDS, SEAT_SIZE};
use perfring_consumer::{Consumer, stat::Stat};
use perfring_producer::Producer;
use perfring_testkit::image::word;
use perfring_testkit::rng::Rng;
use perfring_testkit::size::cases;
use perfring_testkit::wait::until;
use std::fs;
use std::path::Path;

/// Returns the line that begins with this, after blanks.
fn line(text: &str, begins: &str) -> String {
    let found = text.lines().find(|line| line.trim_start().starts_with(begins));
    found.unwrap_or_else(|| panic!("no line with {begins:?}: {text}")).trim().to_owned()
}

#[test]
fn each_is_shown_by_its_name_with_how_it_is_and_how_far_behind() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K", "--consumers", "4"]);
    let dir = place.0.path().to_str().unwrap();
    let ls = || run(&["ls", dir], b"").out();
    let stat = || run(&["stat", &ring], b"").out();
    let doctor = || json_lines(&run(&["doctor", "--json", &ring], b"").out());
    assert!(line(&ls(), "ring").contains("0 of 4 named"), "{}", ls());
    let mut gone = Consumer::attach_as(Path::new(&ring), "gone").unwrap();
    let mut fast = Consumer::attach_as(Path::new(&ring), "fast").unwrap();
    let slow = Live::start(&["consume", "-f", "--name", "slow", &ring]);
    // Not only in their seats: one that is stopped there would not be waited for yet.
    let all = |stat: &Stat| stat.consumers.iter().filter(|one| one.figures.waited_for).count() == 3;
    until("all to attach", || all(&Stat::read(Path::new(&ring)).unwrap()));
    slow.signal(Signal::SIGSTOP);
    until("it to stop", || stat().contains("stopped: slow"));
    let pid = slow.child.id();
    publish(&ring, &b"seven b\n".repeat(10)); // 16 bytes each
    for consumer in [&mut gone, &mut fast] {
        while consumer.read().unwrap().is_some() {}
        consumer.release();
    }
    drop(gone);
    let text = stat();
    assert!(line(&text, "consumers").contains("named ones: 3 of 4 seats"), "{text}");
    let slow_line = line(&text, "seat 2");
    let who = format!("stopped: slow, pid {pid}, ");
    assert!(slow_line.contains(&who), "{slow_line}");
    let behind = "read 0, 10 records and 160 bytes behind, the slowest: a full ring waits for it";
    assert!(slow_line.ends_with(behind), "{slow_line}");
    assert!(line(&text, "seat 1").contains("alive: fast, pid "), "{text}");
    assert!(line(&text, "seat 1").ends_with("read 10, caught up"), "{text}");
    assert!(line(&text, "seat 0").contains("detached: gone, "), "{text}");
    assert!(line(&text, "seat 0").ends_with("caught up; not waited for"), "{text}");
    let text = ls();
    assert!(line(&text, "ring").contains("2 of 4 named"), "{text}");
    let behind = "10 records and 160 bytes behind, the slowest: a full ring waits for it";
    assert_eq!(line(&text, "slow"), format!("slow, pid {pid}, stopped: {behind}"));
    let me = std::process::id();
    assert_eq!(line(&text, "fast"), format!("fast, pid {me}, alive: caught up"));
    let of = |report: &[serde_json::Value], name: &str| {
        let checks = report.iter().filter(|line| line["check"] == "consumers");
        let mut found = checks.filter(|line| line["message"].as_str().unwrap().starts_with(name));
        found.next().unwrap_or_else(|| panic!("no {name}: {report:?}"))["level"].clone()
    };
    assert_eq!([of(&doctor(), "2 of 4 seats"), of(&doctor(), "slow")], ["ok", "ok"]);
    // Full, and one that is stopped has to read on first.
    publish(&ring, &b"seven b\n".repeat(300));
    assert_eq!(of(&doctor(), "slow"), "warn");
    while fast.read().unwrap().is_some() {}
    fast.release();
    // Who is dead and not yet dropped is waited for until somebody needs the room.
    drop(slow);
    let text = stat();
    assert!(line(&text, "seat 2").contains("dead: slow"), "{text}");
    assert!(line(&text, "size").contains("99."), "{text}");
    assert_eq!(of(&doctor(), "slow"), "note");
    let recovered = run(&["recover", &ring], b"");
    let said = format!("the consumer slow, pid {pid}, is dead: no longer waited for\n");
    assert_eq!((recovered.code(), recovered.out()), (0, said));
    let text = stat();
    assert!(line(&text, "seat 2").contains("dead: slow"), "{text}");
    // It has room, though no producer has needed it yet.
    assert!(line(&text, "size").contains(" 0.0% full"), "{text}");
}

#[test]
fn a_consumer_that_returns_shows_what_was_overwritten_and_fails_on_it() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K", "--consumers", "2"]);
    let mut reads = Consumer::attach_as(Path::new(&ring), "reads").unwrap();
    let consume = |more: &[&str]| run(&[&["consume", "--name", "away", &ring], more].concat(), b"");
    assert_eq!(consume(&[]).code(), 0);
    for _ in 0..10 {
        publish(&ring, &b"seven b\n".repeat(100)); // 16 bytes each
        while reads.read().unwrap().is_some() {}
        reads.release();
    }
    let back = consume(&["--json", "--fail-on-loss"]);
    let lines = json_lines(&back.out());
    let lost = lines[0]["lost"]["records"].as_u64().unwrap();
    assert_eq!((lost + lines.len() as u64 - 1, back.code()), (1000, 5), "{}", back.err());
    assert!(lost > 700, "{lost}");
}

/// Any bytes where the seats and the tails are: each command ends, and says what it sees in printable lines.
#[test]
fn seats_with_any_bytes_end_no_command() {
    let (place, mut rng) = (Place::new(), Rng::from_env());
    let ring = place.ring(&["--size", "4K", "--consumers", "3"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    let mut consumers =
        ["a", "b", "c"].map(|name| Consumer::attach_as(Path::new(&ring), name).unwrap());
    for _ in 0..20 {
        producer.publish(&[b'x'; 56]).unwrap();
    }
    consumers[0].read().unwrap();
    consumers[0].release();
    let bytes = fs::read(&ring).unwrap();
    drop((producer, consumers));
    let dir = place.0.path().to_str().unwrap().to_owned();
    let seats = word(&bytes, "consumers_offset") as usize;
    let tails = FIELDS.iter().find(|field| field.name == "named_tails").unwrap();
    let commands = [
        &["stat", &ring][..],
        &["stat", "--json", &ring],
        &["ls", &dir],
        &["doctor", "--json", &ring],
        &["tail", &ring],
        &["dump", &ring],
        &["publish", &ring],
        &["consume", &ring, "--name", "b"],
        &["recover", &ring],
        &["doctor", &ring],
    ];
    let mut codes = std::collections::BTreeMap::new();
    for round in 0..cases(12, 300) {
        let mut changed = bytes.clone();
        for (start, len) in [(seats, 3 * SEAT_SIZE as usize), (tails.offset, tails.size)] {
            if round % 3 == 0 {
                changed[start..start + len].copy_from_slice(&rng.bytes(len));
            } else {
                for _ in 0..1 + rng.index(6) {
                    let at = start + 8 * rng.index(len / 8);
                    changed[at..at + 8].copy_from_slice(&rng.bytes(8));
                }
            }
        }
        fs::write(&ring, &changed).unwrap();
        for args in commands {
            let done = run(args, b"one more\n");
            let (out, err) = (String::from_utf8_lossy(&done.0.stdout).into_owned(), done.err());
            assert!(
                (0..=4).contains(&done.code()),
                "{args:?}, round {round}: {} {err}",
                done.code()
            );
            assert!(!err.contains("panicked") && err.lines().count() <= 3, "{args:?}: {err}");
            if args.contains(&"--json") {
                json_lines(&out);
            } else {
                let said = out.chars().chain(err.chars()).find(|c| c.is_control() && *c != '\n');
                assert_eq!(said, None, "{args:?}, round {round}: {out}");
            }
            *codes.entry((args[0], done.code())).or_insert(0) += 1;
        }
    }
    println!("{codes:?}");
}
