//! JSON lines: their content, and files that are started, finished, filled and torn.

use crate::feed::{Feed, Numbers};
use perfring_consumer::{Cause, Item, Snapshot};
use perfring_export::json::{Integers, JsonLines, Options, encode};
use perfring_export::signal::Added;
use perfring_export::{Event, Loss, LossCause, Output, Rec, Shapes, Took, What};
use perfring_producer::types::{Encoding, Schema};
use perfring_producer::{Options as RingOptions, Producer, RecordType};
use perfring_telemetry::{Log, Resource};
use perfring_types::Record;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Instant;

#[repr(C)]
#[derive(Clone, Copy, Record, bytemuck::Pod, bytemuck::Zeroable)]
struct Tick {
    count: u64,
    share: f64,
}

/// A snapshot of a ring with records for every kind of line.
fn ring(dir: &Path) -> (Snapshot, Shapes) {
    let path = dir.join("a \"ring\"");
    let options = RingOptions { time: true, ..RingOptions::default() };
    let mut producer = Producer::create(&path, &options).unwrap();
    producer.publish_pod(&Tick { count: 7, share: 0.5 }).unwrap();
    producer.publish_pod(&Tick { count: 8, share: f64::NAN }).unwrap();
    producer.publish("a \"text\"\n\u{1f600}".as_bytes()).unwrap();
    producer.publish(&[0xff, 0]).unwrap();
    let id = RecordType::new(5000).unwrap();
    producer.register(&Schema { id, ..Schema::new("demo.Doc", Encoding::Json) }).unwrap();
    producer.publish_as(id, b"[1,2]").unwrap();
    producer.publish_as(id, b"[1,").unwrap();
    let snapshot = Snapshot::take(&path).unwrap();
    let shapes = Shapes::of_snapshot(&snapshot, &path.into(), 3);
    (snapshot, shapes)
}

fn each(snapshot: &Snapshot, shapes: &Shapes, mut then: impl FnMut(&Event<'_>)) {
    for (seq, item) in (1..).zip(snapshot) {
        let Item::Record(record) = item.unwrap() else { panic!() };
        let what = What::Record(Rec::new(record, shapes.origin()));
        then(&Event { seq, origin: shapes.origin(), what });
    }
}

fn line(event: &Event<'_>) -> Value {
    let mut out = Vec::new();
    assert!(encode(event, Integers::Number, &Added::default(), &mut out));
    assert!(!out.contains(&b'\n'));
    serde_json::from_slice(&out).unwrap()
}

/// jq and JavaScript have 53 bits for an integer.
#[test]
fn large_integers_are_text_if_asked_for_wherever_they_stand() {
    let exact = (1i64 << 53) - 1;
    let origin =
        perfring_export::Origin { name: "ring".into(), epoch: u64::MAX, ..Default::default() };
    let origin = {
        let dir = tempfile::tempdir().unwrap();
        let mut producer =
            Producer::create(dir.path().join("ring"), &RingOptions::default()).unwrap();
        let id = RecordType::new(5000).unwrap();
        producer.register(&Schema { id, ..Schema::new("demo.Doc", Encoding::Json) }).unwrap();
        let shapes = Shapes::open(dir.path().join("ring"), 1).unwrap();
        perfring_export::Origin { types: shapes.origin().types.clone(), ..origin }
    };
    let document = format!(
        r#"{{"small":{exact},"large":{},"low":{},"least":{},"most":[{},{{"deep":{}}}],"share":1e+300}}"#,
        exact + 1,
        -exact - 1,
        i64::MIN,
        u64::MAX,
        u64::MAX,
    );
    let record = perfring_consumer::RecordRef {
        pos: 1 << 60,
        kind: 5000,
        bytes: document.as_bytes(),
        time: Some(exact as u64),
        writer: None,
    };
    let event = |what| Event { seq: 1, origin: &origin, what };
    let lines = [Integers::Number, Integers::Text].map(|integers| {
        let what = What::Record(Rec::new(record, &origin));
        let mut line = Vec::new();
        assert!(encode(&event(what), integers, &Added::default(), &mut line));
        String::from_utf8(line).unwrap()
    });
    assert!(lines[0].ends_with(&format!(r#""fields":{document}}}"#)), "{}", lines[0]);
    let texts: Value = serde_json::from_str(&lines[1]).unwrap();
    let fields = json!({
        "small": exact, "large": "9007199254740992", "low": "-9007199254740992",
        "least": "-9223372036854775808",
        "most": ["18446744073709551615", {"deep": "18446744073709551615"}], "share": 1e300,
    });
    assert_eq!(texts["fields"], fields);
    assert_eq!(
        (&texts["epoch"], &texts["pos"]),
        (&json!("18446744073709551615"), &json!("1152921504606846976"))
    );
    assert_eq!((&texts["time_ns"], &texts["type"]), (&json!(exact), &json!(5000)));
    let mut line = Vec::new();
    encode(
        &event(What::Lost(Loss::new(0, u64::MAX, 8, LossCause::Busy))),
        Integers::Text,
        &Added::default(),
        &mut line,
    );
    let lost: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(
        (&lost["lost"]["records"], &lost["lost"]["bytes"]),
        (&json!("18446744073709551615"), &json!(8))
    );

    // The option of the output.
    let dir = tempfile::tempdir().unwrap();
    let options: Options = toml::from_str("integers = \"text\"").unwrap();
    let options = Options { path: dir.path().join("lines"), ..options };
    let mut out = JsonLines::open("json", &options).unwrap();
    out.take(&event(What::Record(Rec::new(record, &origin)))).unwrap();
    out.close(Instant::now()).unwrap();
    assert_eq!(fs::read_to_string(&options.path).unwrap(), format!("{}\n", lines[1]));
}

#[test]
fn a_line_has_the_record_and_its_origin() {
    let dir = tempfile::tempdir().unwrap();
    let (snapshot, shapes) = ring(dir.path());
    let mut lines = Vec::new();
    each(&snapshot, &shapes, |event| lines.push(line(event)));
    let uuid = shapes.origin().uuid_text();
    for line in &lines {
        assert_eq!((&line["ring"], &line["uuid"]), (&json!("a \"ring\""), &json!(uuid)));
        let (time, ns) = (line["time"].as_str().unwrap(), line["time_unix_ns"].as_u64().unwrap());
        assert_eq!(time, perfring_export::utc(ns).to_string());
        assert!(line["time_ns"].is_u64() && line["pos"].is_u64() && line["epoch"].is_u64());
        assert!(line["late_ns"].is_null());
    }
    assert_eq!(lines[0]["fields"], json!({"count": 7, "share": 0.5}));
    assert_eq!(
        (&lines[0]["type_name"], &lines[0]["len"]),
        (&json!("perfring-export.Tick"), &json!(16))
    );
    assert!(lines.iter().all(|line| line.get("class").is_none()));
    assert_eq!(lines[1]["fields"]["share"], "NaN");
    assert_eq!(lines[2]["text"], "a \"text\"\n\u{1f600}");
    assert_eq!((&lines[3]["base64"], &lines[3]["text"]), (&json!("/wA="), &Value::Null));
    assert_eq!((&lines[4]["value"], &lines[4]["text"]), (&json!([1, 2]), &Value::Null));
    assert_eq!(lines[5]["text"], "[1,");
    assert!(lines[5]["bad"].as_str().unwrap().contains("it is not JSON"));
}

#[test]
fn losses_and_lateness_are_written_and_beginnings_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let (snapshot, shapes) = ring(dir.path());
    let origin = shapes.origin();
    let loss = Loss { time: Some(5), ..Loss::new(64, 3, 96, LossCause::Busy) };
    let lost = line(&Event { seq: 1, origin, what: What::Lost(loss) });
    let expected = json!({"pos": 64, "records": 3, "bytes": 96, "cause": "output busy"});
    assert_eq!((&lost["lost"], &lost["ring"]), (&expected, &json!("a \"ring\"")));
    for what in [What::Began, What::Ended] {
        let (event, none) = (Event { seq: 1, origin, what }, Added::default());
        assert!(!encode(&event, Integers::Number, &none, &mut Vec::new()));
    }
    let Some(Ok(Item::Record(record))) = snapshot.iter().next() else { panic!() };
    let mut rec = Rec::new(record, origin);
    rec.late = 9;
    assert_eq!(line(&Event { seq: 1, origin, what: What::Record(rec) })["late_ns"], 9);
}

#[test]
fn resources_have_what_the_configuration_adds_and_the_process_lacks() {
    let resource = Resource::default().with("service.version", "1").with("time_unix_nano", "now");
    let mut feed = Feed::with(1, "shop", perfring_telemetry::options(), resource);
    feed.sink.emit(&Log { body: "mine".into(), ..Log::default() }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.jsonl");
    let mut lines = JsonLines::open("json", &options(&path)).unwrap();
    lines.add_resource(
        &[("service.version", "2"), ("k8s.pod.name", "shop-7"), ("time_unix_nano", "then")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    feed.pump(&mut Numbers::default(), &mut lines);
    lines.flush().unwrap();
    let all: Vec<Value> =
        text(&path).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fields = &all[0]["fields"];
    assert_eq!(
        (&fields["service.version"], &fields["k8s.pod.name"]),
        (&json!("1"), &json!("shop-7"))
    );
    assert_eq!((&all[0]["class"], &all[1]["class"]), (&json!("resource"), &json!("log")));
    // A name that is reserved has a prefix, also in what is added.
    assert_eq!(fields["attributes.time_unix_nano"], json!("now"));
    assert!(all[1]["fields"]["body"] == "mine" && all[1]["fields"].get("k8s.pod.name").is_none());
}

fn options(path: &Path) -> Options {
    Options { path: path.to_owned(), ..Options::default() }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn files_are_finished_at_line_ends_and_only_the_newest_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (snapshot, shapes) = ring(dir.path());
    let path = dir.path().join("out.jsonl");
    let options = Options { max_bytes: 1000, keep: 2, ..options(&path) };
    let mut lines = JsonLines::open("json", &options).unwrap();
    for _ in 0..10 {
        each(&snapshot, &shapes, |event| assert_eq!(lines.take(event).unwrap(), Took::Yes));
        lines.flush().unwrap();
        assert_eq!(lines.unsettled(), None);
    }
    let mut files: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("out"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 3, "{files:?}");
    let number = |name: &str| name.split('.').nth(1).unwrap().parse::<u64>().unwrap();
    assert_eq!(number(&files[1]), number(&files[0]) + 1);
    for name in &files[..2] {
        let text = text(&dir.path().join(name));
        assert!(text.len() >= 1000 && text.len() < 1500 && text.ends_with('\n'), "{}", text.len());
        text.lines().for_each(|line| drop(serde_json::from_str::<Value>(line).unwrap()));
    }
    assert_eq!(lines.figures().delivered, 60);
}

#[test]
fn a_torn_line_is_removed_and_a_file_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let (snapshot, shapes) = ring(dir.path());
    let path = dir.path().join("out.jsonl");
    fs::write(&path, "{\"whole\":1}\n{\"torn\":").unwrap();
    let mut lines = JsonLines::open("json", &options(&path)).unwrap();
    let error = JsonLines::open("json", &options(&path)).unwrap_err().to_string();
    assert!(error.contains("another process writes to"), "{error}");
    each(&snapshot, &shapes, |event| assert_eq!(lines.take(event).unwrap(), Took::Yes));
    lines.close(Instant::now()).unwrap();
    drop(lines);
    let all = text(&path);
    assert_eq!((all.lines().count(), all.lines().next()), (7, Some("{\"whole\":1}")));
    all.lines().for_each(|line| drop(serde_json::from_str::<Value>(line).unwrap()));
    // A torn first line that is longer than a block.
    fs::write(&path, "x".repeat(10_000)).unwrap();
    drop(JsonLines::open("json", &options(&path)).unwrap());
    assert_eq!(text(&path), "");
}

#[test]
fn an_unusable_path_is_refused_with_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none").join("x");
    for (path, says) in
        [(missing.as_path(), "the directory must exist"), (dir.path(), "cannot write")]
    {
        let error = JsonLines::open("json", &options(path)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_device_is_written_to_and_never_renamed() {
    // A device of our own, so that a failure has no side effects.
    let dir = tempfile::tempdir().unwrap();
    let device = dir.path().join("null");
    let made = std::process::Command::new("mknod").arg(&device).args(["c", "1", "3"]).status();
    let usable = fs::OpenOptions::new().append(true).open(&device).is_ok();
    if !made.is_ok_and(|made| made.success()) || !usable {
        let why = "only root may create devices, and not everywhere";
        assert!(std::env::var_os("PERFRING_NO_SKIP").is_none(), "{why}");
        eprintln!("SKIPPED: {why}");
        return;
    }
    let (snapshot, shapes) = ring(dir.path());
    let options = Options {
        max_bytes: 100,
        max_age: std::time::Duration::from_secs(1),
        keep: 1,
        ..options(&device)
    };
    // It can be shared.
    let mut both = [(); 2].map(|()| JsonLines::open("json", &options).unwrap());
    for lines in &mut both {
        for _ in 0..10 {
            each(&snapshot, &shapes, |event| assert_eq!(lines.take(event).unwrap(), Took::Yes));
            lines.flush().unwrap();
            assert_eq!(lines.unsettled(), None);
        }
    }
    assert!(!fs::metadata(&device).unwrap().is_file());
    let names = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(names, 2, "the device and the ring");
}

#[test]
fn another_file_with_the_name_is_not_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let (snapshot, shapes) = ring(dir.path());
    let path = dir.path().join("out.jsonl");
    let options = Options { max_bytes: 100, ..options(&path) };
    let mut lines = JsonLines::open("json", &options).unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    each(&snapshot, &shapes, |event| assert_eq!(lines.take(event).unwrap(), Took::Yes));
    lines.flush().unwrap();
    assert!(
        path.is_dir() && lines.figures().trouble.unwrap().contains("another file has its name")
    );
}

#[test]
fn an_unknown_number_of_lost_records_is_null() {
    let dir = tempfile::tempdir().unwrap();
    let (_, shapes) = ring(dir.path());
    let of = |records, bytes, cause| {
        let what = What::Lost(Loss::new(0, records, bytes, cause));
        line(&Event { seq: 1, origin: shapes.origin(), what })["lost"]["records"].clone()
    };
    let lapped = LossCause::Ring(Cause::Lapped);
    assert_eq!(of(3, 72, lapped), 3);
    assert_eq!(of(0, 72, lapped), Value::Null);
    // The marker of another writer may report no records.
    assert_eq!(of(0, 0, LossCause::Ring(Cause::Foreign)), 0);
    assert_eq!(of(2, 0, LossCause::UnknownDamage), 2);
    assert_eq!(of(0, 0, LossCause::UnknownDamage), Value::Null);
}
