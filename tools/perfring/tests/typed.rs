//! Typed records, as the command line shows them.

use crate::command::{Live, Place, json_lines, run};
use crate::kinds::{BLOB, EVENT, LINE, LOG, ORDER, all_kinds, log, order};
use nix::sys::signal::Signal;
use perfring_producer::Producer;
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const GOLDEN: &str = r#"demo.Order id=1 age=0.1 s side=buy venue=XETRA legs=[{qty=7 {piece} price=12.5 EUR} {qty=0 {piece} price=-0.0 EUR}]
demo.Order id=18446744073709551615 age=NaN s side=9 venue="a\u{1b}[31m b" legs=[{qty=7 {piece} price=12.5 EUR} {qty=0 {piece} price=-0.0 EUR}]
demo.Line plain text	with a tab
demo.Event b=[1 2.5 null] a={c="d e"}
demo.Event 17
demo.Blob \xff\x00
of no type
WARN  shop::checkout: card was\nrefused  elapsed=12.5 ms user="Ann \u{7} B"  trace=4bf92f35 span=00f067aa
start GET /cart  http.request.method=GET  span=00f067aa
more   paid=true  span=00f067aa
end   shop: GET /cart took 1.5ms  span=00f067aa pid=77
INFO  fell back  tries=3  at src/main.rs:9
demo.Order too short\x1b [the record is not a valid "demo.Order": it has 10 bytes instead of 56]
demo.Event { [the record is not a valid "demo.Event": it is not JSON: EOF while parsing an object at line 1 column 1]
"#;

#[test]
fn records_are_shown_by_their_types_from_every_reader() {
    let place = Place::new();
    let ring = all_kinds(&place);
    for reader in ["dump", "tail", "consume"] {
        let done = run(&[reader, &ring], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        assert_eq!(done.out(), GOLDEN, "{reader}");
        let bad = "perfring: 2 records do not match the type table, and are shown as bytes\n";
        assert!(done.err().starts_with(bad), "{reader}: {}", done.err());
    }
}

#[test]
fn json_has_typed_values_or_the_payload() {
    let place = Place::new();
    let ring = all_kinds(&place);
    for reader in ["dump", "tail", "consume"] {
        let done = run(&[reader, "--format", "json", &ring], b"");
        let lines = json_lines(&done.out());
        assert_eq!(lines.len(), 14);
        let keys = |at: usize| -> Vec<&str> {
            lines[at].as_object().unwrap().keys().map(String::as_str).collect()
        };
        let typed = ["fields", "len", "pos", "type", "type_name"];
        assert_eq!(keys(0), typed);
        assert_eq!(
            (&lines[0]["type"], &lines[0]["type_name"]),
            (&json!(5000), &json!("demo.Order"))
        );
        let legs = json!([{"qty": 7, "price": 12.5}, {"qty": 0, "price": -0.0}]);
        assert_eq!(
            lines[0]["fields"],
            json!({"id": 1, "age": 0.1, "side": "buy", "venue": "XETRA", "legs": legs})
        );
        assert_eq!(lines[1]["fields"]["id"], u64::MAX);
        assert_eq!(lines[1]["fields"]["age"], "NaN");
        assert_eq!(lines[1]["fields"]["side"], 9);
        assert_eq!(lines[1]["fields"]["venue"], "a\u{1b}[31m b");
        assert_eq!(keys(2), ["len", "pos", "text", "type", "type_name"]);
        assert_eq!(lines[2]["text"], "plain text\twith a tab");
        assert_eq!(lines[3]["fields"], json!({"b": [1, 2.5, null], "a": {"c": "d e"}}));
        assert_eq!(keys(4), ["len", "pos", "type", "type_name", "value"]);
        assert_eq!(lines[4]["value"], 17);
        assert_eq!((keys(5)[0], &lines[5]["type_name"]), ("base64", &json!("demo.Blob")));
        assert_eq!(keys(6), ["len", "pos", "text", "type"]);
        let fields = json!({
            "severity_number": 13, "severity_text": "WARN", "target": "shop::checkout",
            "body": "card was\nrefused", "elapsed": 12.5, "user": "Ann \u{7} B",
            "trace_id": "4bf92f3577b34da60000000000000001", "span_id": "00f067aa0ba902b7",
        });
        assert_eq!(lines[7]["fields"], fields);
        let classes: Vec<_> = lines[7..12].iter().map(|line| &line["class"]).collect();
        assert_eq!(classes, ["log", "span_start", "span_start", "span_end", "log"]);
        assert_eq!(keys(12), ["bad", "len", "pos", "text", "type", "type_name"]);
        assert_eq!(lines[12]["text"], "too short\u{1b}");
        assert_eq!(
            lines[12]["bad"],
            r#"the record is not a valid "demo.Order": it has 10 bytes instead of 56"#
        );
        assert!(!done.out().contains('\x1b'));
    }
}

#[test]
fn payloads_can_be_shown_untyped() {
    let place = Place::new();
    let ring = all_kinds(&place);
    let out = run(&["dump", "--untyped", "--where", "id=1", &ring], b"").out();
    assert!(out.starts_with("\\x01\\x00\\x00") && out.lines().count() == 1, "{out}");
    let line = &json_lines(&run(&["dump", "--untyped", "--format", "json", &ring], b"").out())[3];
    assert_eq!(line["text"], r#"{"b":[1,2.5,null],"a":{"c":"d e"}}"#);
    assert!(line.get("type_name").is_none());
    let raw = run(&["dump", "--format", "raw", "--type", "demo.Line", &ring], b"");
    assert_eq!(raw.out(), "plain text\twith a tab");
    assert!(!raw.err().contains("type table"), "{}", raw.err());
    // Payloads that are not decoded are not reported as bad.
    for args in [&["--format", "raw"][..], &["--type", "demo.Line"], &["--where", "id=1"]] {
        let done = run(&[&["dump", &ring], args].concat(), b"");
        assert!(!done.err().contains("type table"), "{args:?}: {}", done.err());
    }
    run(&["dump", "--untyped", "--format", "raw", &ring], b"").refuses(2, "raw has no types");
}

#[test]
fn types_and_values_select_records_and_nothing_counts_as_lost() {
    let place = Place::new();
    let ring = all_kinds(&place);
    let hashed = LOG.id.get().to_string();
    for (args, shown) in [
        (&["--type", "demo.Order"][..], 3),
        (&["--type", "5000"], 3),
        (&["--type", "0x1388", "--type", "demo.Line"], 4),
        (&["--type", &hashed], 1),
        (&["--type", "4096"], 1),
        (&["--where", "severity_number>=13"], 1),
        (&["--where", "severity_number>=9"], 2),
        (&["--where", "severity_number>13"], 0),
        (&["--where", "severity_text=WARN", "--where", "user~Ann"], 1),
        (&["--where", "severity_text=WARN", "--where", "user=Ann"], 0),
        (&["--where", "legs.0.price=12.5"], 2),
        (&["--where", "legs.1.qty!=0"], 0),
        (&["--where", "side=buy"], 1),
        (&["--where", "side!=buy"], 1),
        (&["--where", "id<2", "--type", "demo.Order"], 1),
        (&["--where", "id<=1", "--type", "demo.Line"], 0),
        (&["--where", "a.c=d e"], 1),
        (&["--where", "no.such~x"], 0),
        (&["--where", "no.such!=x"], 0),
        (&["--where", "trace_id~4bf9"], 1),
    ] {
        for reader in ["dump", "tail"] {
            let done = run(&[&[reader, &ring], args].concat(), b"");
            assert_eq!((done.code(), done.out().lines().count()), (0, shown), "{args:?}");
            assert!(!done.err().contains("LOST"), "{}", done.err());
            if reader == "dump" {
                let sum =
                    format!("perfring: {shown} of 14 records shown; since the ring was created");
                assert!(done.err().contains(&sum), "{}", done.err());
            }
        }
    }
    for (args, says) in [
        (["--where", "severity"], "\"severity\" is not a condition: write FIELD=VALUE"),
        (["--where", "=3"], "is not a condition"),
        (["--where", ""], "is not a condition"),
        (["--where", "severity_number >> 3"], "\"severity_number >> 3\": >> is no operator"),
        (["--where", "severity_number>=foo"], "\"foo\" is no number"),
        (["--where", "severity_number>3 && body~x"], "a condition has one field: repeat --where"),
        (["--type", ""], "name or number"),
    ] {
        for reader in ["dump", "tail", "consume"] {
            run(&[&[reader, &ring[..]], &args[..]].concat(), b"").refuses(2, says);
        }
    }
    // What the ring's types alone tell.
    let orders = ["--type", "demo.Order", "--where"];
    for reader in ["dump", "tail", "export"] {
        let to = ["--to", "json"];
        let to = if reader == "export" { &to[..] } else { &[] };
        let ask = |says| run(&[&[reader, &ring[..]], &orders[..], &[says], to].concat(), b"");
        for (bad, says) in [
            ("id>=foo", "--where: \"foo\" is no number, and \"id\" is one"),
            ("side=hold", "--where: \"hold\" is no value of \"side\""),
        ] {
            let done = ask(bad);
            assert_eq!(done.code(), 2, "{}", done.err());
            assert!(done.err().contains(says), "{}", done.err());
        }
        let unknown = ask("nosuch=1");
        assert_eq!(unknown.code(), 0, "{}", unknown.err());
        assert!(unknown.err().contains("no type has a field \"nosuch\""), "{}", unknown.err());
    }
    let done = run(&["dump", "--type", "demo.order", "--type", "77", &ring], b"");
    let says = "no type is called \"demo.order\"; `perfring types";
    assert!(done.code() == 0 && done.err().contains(says), "{}", done.err());
    // Only shown records are counted, and the others are consumed as well.
    let done = run(&["tail", "-n", "1", "--type", "demo.Blob", &ring], b"");
    assert_eq!(done.out(), "demo.Blob \\xff\\x00\n");
    let done = run(&["consume", "-n", "1", "--fail-on-loss", "--type", "demo.Blob", &ring], b"");
    assert_eq!((done.code(), done.out().as_str()), (0, "demo.Blob \\xff\\x00\n"));
    assert_eq!(run(&["consume", "-n", "1", &ring], b"").out(), "of no type\n");
}

/// A reader that waits says at once what a reader of what is there says at its end.
#[test]
fn a_follower_says_at_once_that_no_record_can_meet_a_condition() {
    let wrong = [
        ("id>=foo", "perfring: --where: \"foo\" is no number, and \"id\" is one"),
        ("nosuch=1", "perfring: --where: no type has a field \"nosuch\""),
    ];
    let place = Place::new();
    let ring = place.ring(&[]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    producer.register(&ORDER).unwrap();
    let dir = place.path("");
    let dir = dir.to_str().unwrap();
    let out = Place::new();
    for (condition, says) in wrong {
        let recording = out.path(condition);
        let recording = recording.to_str().unwrap();
        // A ring has its types before its records; of a directory, the types of records are known.
        for (nth, args) in [
            &["tail", "-f", &ring][..],
            &["consume", "-f", &ring],
            &["tail", "-f", dir],
            &["record", "-q", "-o", recording, dir],
        ]
        .iter()
        .enumerate()
        {
            if nth == 2 {
                producer.publish_as(ORDER.id, &order(1, 0.1, 1, "XETRA")).unwrap();
            }
            let mut live = Live::start(&[args, &["--where", condition][..]].concat());
            let mut err = BufReader::new(live.child.stderr.take().unwrap());
            let mut line = String::new();
            err.read_line(&mut line).unwrap();
            let all = format!("{says}; waiting for records of other types\n");
            assert!(
                line.starts_with(says) && line.ends_with(&all[says.len()..]),
                "{args:?}: {line}"
            );
            live.signal(Signal::SIGINT);
            let mut rest = String::new();
            err.read_to_string(&mut rest).unwrap();
            assert!(!rest.contains("--where"), "{args:?}: {rest}");
            live.child.wait().unwrap();
        }
    }
    // A type that a record may still have is no reason.
    producer.register(&LOG).unwrap();
    let mut live = Live::start(&["tail", "-f", "--where", "severity_number=13", &ring]);
    producer.publish_as(LOG.id, &log("late", 1.0, "x")).unwrap();
    assert!(live.line().contains("late"));
    live.signal(Signal::SIGINT);
    assert_eq!(live.end().1, "");
}

#[test]
fn losses_are_shown_whatever_is_selected() {
    let place = Place::new();
    let ring = place.ring(&["--size", "4K"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    producer.register(&LINE).unwrap();
    while producer.publish_as(LINE.id, b"fill").is_ok() {}
    assert_eq!(run(&["consume", "-n", "9", &ring], b"").code(), 0);
    producer.publish_as(LINE.id, b"after").unwrap();
    for format in ["text", "json"] {
        let args = ["tail", "--type", "nothing", "--fail-on-loss", "--format", format, &ring];
        let done = run(&args, b"");
        assert_eq!(done.code(), 5);
        let reported = if format == "json" { done.out() } else { done.err() };
        assert!(reported.contains("full"), "{reported}");
    }
}

#[test]
fn a_follower_learns_types_that_are_registered_later() {
    for (reader, policy) in [("tail", "drop"), ("consume", "drop"), ("consume", "overwrite")] {
        let place = Place::new();
        let ring = place.ring(&["--policy", policy]);
        let mut producer = Producer::attach(Path::new(&ring)).unwrap();
        producer.publish_as(LINE.id, b"unknown").unwrap();
        let mut live = Live::start(&[reader, "-f", &ring]);
        assert_eq!(live.line(), "unknown");
        for (nth, schema) in [LINE, EVENT, BLOB].iter().enumerate() {
            producer.register(schema).unwrap();
            producer.publish_as(schema.id, b"1").unwrap();
            assert_eq!(live.line(), format!("{} 1", schema.name), "{reader} {policy} {nth}");
        }
    }
}

#[test]
fn records_with_timestamps_are_shown_with_their_times_and_selected_by_them() {
    let place = Place::new();
    let ring = place.ring(&["--time"]);
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    producer.register(&LINE).unwrap();
    let began = SystemTime::now();
    // No two of these are in one millisecond, so timestamps need not be exact.
    let later = |than: SystemTime| loop {
        let now = SystemTime::now();
        if now.duration_since(than).is_ok_and(|time| time > Duration::from_millis(2)) {
            return now;
        }
    };
    later(began);
    producer.publish_as(LINE.id, b"one").unwrap();
    let between = later(SystemTime::now());
    later(between);
    producer.publish(b"two").unwrap();
    let after = later(SystemTime::now());
    drop(producer);
    let ns = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    for reader in ["dump", "tail"] {
        let text = run(&[reader, "-p", &ring, "--since", "1h"], b"");
        let lines: Vec<String> = text.out().lines().map(str::to_owned).collect();
        let words: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!((words.len(), words[1], words[3], words[4]), (5, "5001", "demo.Line", "one"));
        let shown = humantime::parse_rfc3339(words[2]).unwrap();
        assert!(words[2].len() == 27 && began < shown && shown < between, "{}", lines[0]);
        assert!(lines[1].ends_with("Z two"), "{}", lines[1]);
    }
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    producer.publish(b"three").unwrap();
    drop(producer);
    let between = humantime::format_rfc3339_nanos(between).to_string();
    let after_three = humantime::format_rfc3339_nanos(later(SystemTime::now())).to_string();
    for (reader, since, expected) in [
        ("dump", "1h", &["one", "two", "three"][..]),
        ("dump", "0s", &["three"]),
        ("dump", &between, &["two", "three"]),
        ("dump", &after_three, &[]),
        ("tail", "1h", &["one", "two", "three"]),
        ("tail", "0s", &[]),
        ("tail", &between, &["two", "three"]),
        ("consume", "0s", &[]),
    ] {
        if reader == "consume" {
            let mut producer = Producer::attach(Path::new(&ring)).unwrap();
            producer.publish(b"four").unwrap();
        }
        let done = run(&[reader, "--format", "json", "--since", since, &ring], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        let lines = json_lines(&done.out());
        let texts: Vec<&str> = lines.iter().map(|line| line["text"].as_str().unwrap()).collect();
        assert_eq!(texts, expected, "{reader} {since}");
        for line in &lines {
            let wall = line["time_unix_ns"].as_u64().unwrap();
            let time = humantime::parse_rfc3339(line["time"].as_str().unwrap()).unwrap();
            assert_eq!(ns(time), wall);
            assert!(line["time_ns"].is_u64() && line["time"].as_str().unwrap().len() == 30);
            assert!((ns(began)..ns(after) + 3_600_000_000_000).contains(&wall));
        }
    }
    run(&["dump", "--since", "5", &ring], b"").refuses(2, "like 5s or 2h 30m");
    assert_eq!(json_lines(&run(&["stat", "--json", &ring], b"").out())[0]["time"], true);
    fs::remove_file(&ring).unwrap();
    let ring = place.ring(&[]);
    for reader in ["dump", "tail", "consume"] {
        run(&[reader, "--since", "5s", &ring], b"").refuses(2, "perfring create --time");
    }
}

#[test]
fn a_length_of_time_uses_timestamps_and_a_date_the_wall_clock() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/golden");
    let dump = |path: &str, since: &str| {
        let done = run(&["dump", "--format", "json", "--since", since, path], b"");
        let lines = json_lines(&done.out());
        let records = lines.iter().filter_map(|line| line["pos"].as_u64()).collect::<Vec<_>>();
        (records, done)
    };
    // Its wall clock was set an hour ahead before position 100; the timestamps are 1,440 ns apart.
    let path = golden.join("timed_drop.perfring");
    let path = path.to_str().unwrap();
    assert_eq!(dump(path, "1s").0, [24, 56, 144, 168]);
    assert_eq!(dump(path, "1120ns").0, [56, 144, 168]);
    assert_eq!(dump(path, "0s").0, [168]);
    assert_eq!(dump(path, "2023-11-14T23:00:00Z").0, [144, 168]);
    // So does the readable part of a ring with invalid totals.
    let place = Place::new();
    let broken = place.path("broken");
    fs::copy(path, &broken).unwrap();
    let file = fs::File::options().write(true).open(&broken).unwrap();
    file.write_all_at(&8u64.to_ne_bytes(), 1544).unwrap(); // words that were written
    let (records, done) = dump(broken.to_str().unwrap(), "0s");
    assert_eq!((records, done.code()), (vec![168], 4));
    // The first anchor is overwritten: the times of records before the second are unknown.
    let ring = place.path("undated");
    fs::copy(path, &ring).unwrap();
    let file = fs::File::options().write(true).open(&ring).unwrap();
    file.write_all_at(&90u64.to_ne_bytes(), 2880).unwrap(); // its position
    let (records, done) = dump(ring.to_str().unwrap(), "2023-11-14T00:00:00Z");
    assert_eq!(records, [144, 168]);
    assert!(done.err().contains("2 records have no wall-clock time any more"), "{}", done.err());
    assert_eq!(dump(ring.to_str().unwrap(), "1s").0, [24, 56, 144, 168]);
}
