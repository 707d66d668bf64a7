//! The promises of the command line for a directory with a ring per CPU.

use crate::command::{Place, json_lines, run};
use serde_json::Value;
use std::fs;

#[test]
fn a_directory_with_a_ring_per_cpu_is_made_published_to_and_read() {
    let place = Place::new();
    let set = place.path("set");
    let set = set.to_str().unwrap();
    let create = ["create", set, "--producers", "cpu", "--time"];
    assert_eq!(run(&create, b"").code(), 0);
    run(&create, b"").refuses(1, "has rings per CPU already");

    for word in ["first", "second"] {
        let done = run(&["publish", set], format!("{word}\nline\n").as_bytes());
        assert_eq!(
            (done.code(), done.err()),
            (0, "perfring: published 2 records, lost 0\n".into())
        );
    }
    let rings: Vec<_> = fs::read_dir(set)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(rings.iter().all(|ring| ring.starts_with("cpu")), "{rings:?}");

    // By time, whichever CPUs they ran on.
    let shown = json_lines(&run(&["export", "--to", "json", set], b"").out());
    let texts: Vec<_> = shown.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["first", "line", "second", "line"]);

    let ring = format!("{set}/{}", rings[0]);
    let stat = run(&["stat", &ring], b"").out();
    for part in ["the producers of CPU ", "by lock", "balance"] {
        assert!(stat.contains(part), "{stat}");
    }
    let json = json_lines(&run(&["stat", "--json", &ring], b"").out());
    assert_eq!(json[0]["producers"], "cpu", "{json:?}");
    let doctor = run(&["doctor", &ring], b"").out();
    assert!(doctor.contains("up to 64 processes on CPU "), "{doctor}");
}

#[test]
fn a_set_is_counted_checked_recovered_and_removed_as_a_whole() {
    let place = Place::new();
    let set = place.path("set");
    let set = set.to_str().unwrap();
    assert_eq!(run(&["create", set, "--producers", "cpu", "--size", "16K"], b"").code(), 0);
    // On each CPU that this process may run on, so in at least one ring.
    let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    let published = run(&["publish", set], lines.as_bytes());
    let refused = published.err().contains("lost");
    assert!(refused, "{}", published.err());

    let json = json_lines(&run(&["stat", "--json", set], b"").out());
    let (sum, rings) = json.split_last().unwrap();
    assert_eq!((&sum["dir"], &sum["rings"]), (&set.into(), &rings.len().into()));
    for name in ["written_records", "present_bytes", "full_records", "reclaimed_bytes", "data_size"]
    {
        let all: u64 = rings.iter().map(|ring| ring[name].as_u64().unwrap()).sum();
        assert_eq!(sum[name].as_u64(), Some(all), "{name}");
    }
    let of = |name: &str| sum[name].as_u64().unwrap();
    assert_eq!(of("written_records") + of("full_records"), 1000, "{sum}");
    assert_eq!(sum["balanced"], true);

    let text = run(&["stat", set], b"").out();
    for part in ["one for each CPU that published", "every record of every ring is accounted for"] {
        assert!(text.contains(part), "{text}");
    }
    let written = text.lines().find(|line| line.trim_start().starts_with("written")).unwrap();
    assert!(written.contains(&of("written_records").to_string()), "{written}");
    let doctor = run(&["doctor", set], b"").out();
    assert_eq!(doctor.matches("up to 64 processes on CPU ").count(), rings.len(), "{doctor}");
    assert_eq!(run(&["recover", set], b"").out().lines().count(), rings.len());

    // Nothing of it is removed while one ring is in use.
    let consumer = perfring_consumer::Consumer::attach(rings[0]["ring"].as_str().unwrap()).unwrap();
    run(&["rm", set], b"").refuses(1, "a process is attached to");
    assert_eq!(fs::read_dir(set).unwrap().count(), rings.len());
    drop(consumer);
    assert_eq!(run(&["rm", set], b"").code(), 0);
    assert!(!fs::exists(set).unwrap());
    run(&["stat", set], b"").refuses(3, "does not exist");
    fs::create_dir(set).unwrap();
    run(&["stat", set], b"").refuses(3, "there is no ring in");
    run(&["rm", set], b"").refuses(3, "there is no ring in");
    let other = format!("{set}/other");
    assert_eq!(run(&["create", &other], b"").code(), 0);
    run(&["rm", set], b"").refuses(1, "is not the ring of a CPU");
}

#[test]
fn each_record_says_who_wrote_it() {
    let place = Place::new();
    let set = place.path("set");
    let set = set.to_str().unwrap();
    let create = ["create", set, "--producers", "cpu", "--sample-id"];
    run(&create, b"").refuses(2, "--sample-id is for rings per CPU with timestamps");
    assert_eq!(run(&[&create[..], &["--time"]].concat(), b"").code(), 0);
    for word in ["first", "second"] {
        assert_eq!(run(&["publish", set], word.as_bytes()).code(), 0);
    }
    let shown = json_lines(&run(&["tail", set, "--format", "json"], b"").out());
    let said = |line: &Value, key: &str| line[key].as_u64().unwrap();
    let who: Vec<_> = shown.iter().map(|line| (said(line, "pid"), said(line, "tid"))).collect();
    // Two processes, of one thread each.
    assert!(who.iter().all(|(pid, tid)| pid == tid), "{who:?}");
    assert_ne!(who[0], who[1]);
    let exported = json_lines(&run(&["export", "--to", "json", set], b"").out());
    let again: Vec<_> =
        exported.iter().map(|line| (said(line, "pid"), said(line, "tid"))).collect();
    assert_eq!(again, who);
    let recording = place.path("recording");
    let recording = recording.to_str().unwrap();
    assert_eq!(run(&["record", set, "-o", recording, "-n", "2"], b"").code(), 0);
    let kept = json_lines(&run(&["export", "--to", "json", recording], b"").out());
    let kept: Vec<_> = kept.iter().map(|line| (said(line, "pid"), said(line, "tid"))).collect();
    assert_eq!(kept, who);

    let text = run(&["tail", set], b"").out();
    let first = text.lines().next().unwrap();
    assert!(first.ends_with(&format!("Z {}/{} first", who[0].0, who[0].1)), "{text}");
    let ring = fs::read_dir(set).unwrap().next().unwrap().unwrap().path();
    let stat = run(&["stat", ring.to_str().unwrap()], b"").out();
    assert!(
        stat.contains("each record has a timestamp, and the pid and tid of its writer"),
        "{stat}"
    );
}

#[test]
fn what_is_no_such_directory_is_refused() {
    let place = Place::new();
    let named = run(&["create", "shm:perfring-no-set", "--producers", "cpu"], b"");
    named.refuses(2, "need a directory");
    let empty = place.path("empty");
    fs::create_dir(&empty).unwrap();
    run(&["publish", empty.to_str().unwrap()], b"").refuses(3, "has no ring per CPU");
}

#[test]
fn tail_shows_a_directory_s_rings_in_the_order_of_time() {
    let place = Place::new();
    let set = place.path("set");
    let dir = set.to_str().unwrap();
    let tail = |args: &[&str]| run(&[&["tail", dir][..], args].concat(), b"");
    run(&["create", dir, "--producers", "cpu", "--time"], b"");
    // Whatever ring per CPU it takes, and one more ring beside.
    for (word, ring) in [("one", "a"), ("two", "b"), ("three", "a")] {
        let ring = set.join(ring);
        let ring = ring.to_str().unwrap();
        if !fs::exists(ring).unwrap() {
            assert_eq!(run(&["create", ring, "--time"], b"").code(), 0);
        }
        assert_eq!(run(&["publish", dir], word.as_bytes()).code(), 0);
        assert_eq!(run(&["publish", ring], word.as_bytes()).code(), 0);
    }
    let shown = tail(&["--format", "json"]);
    assert_eq!(shown.code(), 0, "{}", shown.err());
    let lines = json_lines(&shown.out());
    let texts: Vec<_> = lines.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["one", "one", "two", "two", "three", "three"]);
    let rings: Vec<_> = lines.iter().map(|line| line["ring"].as_str().unwrap()).collect();
    assert!(rings.iter().step_by(2).all(|ring| ring.starts_with("set/cpu")), "{rings:?}");
    assert_eq!([rings[1], rings[3], rings[5]], ["a", "b", "a"]);

    let text = tail(&["--first", "2"]).out();
    let second = text.lines().nth(1).unwrap();
    assert!(second.starts_with("a: 20") && second.ends_with("Z one"), "{text}");
    let last: String = tail(&[]).out().split_inclusive('\n').skip(3).collect();
    assert_eq!(tail(&["-n", "3"]).out(), last);
    // Waits for more, of the same order.
    let waited = tail(&["--timeout", "500ms", "--format", "json"]);
    assert_eq!((waited.code(), json_lines(&waited.out())), (124, lines));
    let enough = tail(&["-f", "--first", "6"]);
    assert_eq!((enough.code(), enough.out()), (0, tail(&[]).out()));

    tail(&["--perf", "page-faults", "--all"]).refuses(2, "name a ring of the directory");
    let unknown = tail(&["--type", "nothing"]);
    assert!(unknown.err().contains("no type is called \"nothing\""), "{}", unknown.err());
    // A damaged one is named, and the others are shown.
    fs::write(set.join("c"), vec![0; 8192]).unwrap();
    let damaged = tail(&["-n", "1"]);
    assert!(damaged.out().lines().count() == 1 && damaged.err().contains("is left out"));
    let none = place.path("none");
    fs::create_dir(&none).unwrap();
    run(&["tail", none.to_str().unwrap()], b"").refuses(3, "there is no ring in");
}
