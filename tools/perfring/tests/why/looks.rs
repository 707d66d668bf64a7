//! What only looks at processes can find.

use super::{Recorded, gap, is_forbidden, shop};
use crate::command::{Live, Place, json_lines, run, skipped};
use nix::sys::signal::Signal;
use perfring_testkit::wait::Watchdog;
use serde_json::Value;

/// The wait is longer than the time between two looks.
#[test]
fn a_long_wait_names_its_system_call() {
    if is_forbidden() {
        return;
    }
    if std::fs::read("/proc/self/syscall").is_err() {
        return skipped("this kernel does not say in which system call a thread is");
    }
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    let mut recorded = Recorded::begin(place, &ring);
    let (mut ms, dog) = (200, Watchdog::default());
    // A busy machine may look seldom.
    let (answer, lines) = loop {
        dog.check("a look finds the system call in which the process waits");
        let answer = shop.ask(&format!("write sleep={} write", ms * 1_000));
        let call = |line: &Value| line["system_call"] == "clock_nanosleep";
        recorded.until("the gap is recorded", |line| {
            line["what"] == "gap" && line["duration_ns"].as_u64() >= Some(ms * 1_000_000)
        });
        if recorded.so_far().iter().any(call) {
            break (answer, json_lines(&recorded.end().out()));
        }
        ms *= 2;
    };
    let gap = gap(&lines, shop.pid(), &answer);
    let sentence = gap["sentence"].as_str().unwrap();
    println!("{sentence}");
    assert_eq!((&gap["cause"], &gap["certainty"]), (&"system call".into(), &"likely".into()));
    assert!(sentence.contains("it was blocked in the system call clock_nanosleep, "), "{sentence}");
}

/// Perfetto's texts are in its file as they are.
#[test]
fn a_trace_for_perfetto_has_the_causes_on_a_lane() {
    if is_forbidden() {
        return;
    }
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    let mut recorded = Recorded::begin(place, &ring);
    let answer = shop.ask("write spin=20000 write");
    let lines = json_lines(&recorded.end().out());
    let gap = gap(&lines, shop.pid(), &answer);
    let trace = recorded.place.path("run.pftrace");
    let (file, out) = (recorded.file(), trace.to_str().unwrap());
    let done = run(&["export", &file, "--to", "perfetto", "--why", "-o", out], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    let bytes = std::fs::read(&trace).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("why: gap") && has(gap["sentence"].as_str().unwrap()), "{gap}");
    let done = run(&["export", &file, "--to", "json", "--why"], b"");
    done.refuses(2, "--why is for --to perfetto");
}

#[test]
fn records_that_a_stopped_consumer_reads_late_are_found() {
    if is_forbidden() {
        return;
    }
    let place = Place::new();
    let (ring, mut shop) = shop(&place);
    let consumer = Live::start(&["consume", &ring, "--follow"]);
    let mut recorded = Recorded::begin(place, &ring);
    consumer.signal(Signal::SIGSTOP);
    shop.ask("write");
    // Its seat is looked at ten times a second.
    recorded.until("the record is read late", |line| {
        line["what"] == "late read"
            && line["cause"] == "reader stopped"
            && line["duration_ns"].as_u64() > Some(250_000_000)
    });
    consumer.signal(Signal::SIGCONT);
    let lines = json_lines(&recorded.end().out());
    let late: Vec<&Value> = lines.iter().filter(|line| line["what"] == "late read").collect();
    let late = late.iter().find(|line| line["cause"] == "reader stopped").unwrap();
    println!("{}", late["sentence"].as_str().unwrap());
    let pid = consumer.child.id();
    assert_eq!(late["attributes"]["process.pid"], pid);
    let begins = format!("consumer perfring consume ({pid}) of ring ring read records ");
    assert!(late["sentence"].as_str().unwrap().starts_with(&begins), "{late}");
    consumer.signal(Signal::SIGINT);
    consumer.end();
}
