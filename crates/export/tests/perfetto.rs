//! Traces parsed by the messages that Perfetto's own Python package ships.

use crate::common::shapes::{full_ring, kernel_ring, lapped_ring, metrics_area, two_of_one_pid};
use crate::common::{Followed, close, python, skip};
use perfring_consumer::{Policy, stat::OwnerInfo};
use perfring_export::{Event, Explanation, Origin, Output, Perfetto, PerfettoOptions, Took, What};
use perfring_telemetry::{
    Gauge, Histogram, Log, Resource, Severity, Sink, SpanEnd, SpanId, SpanStart, Sum, TraceId,
    options,
};
use perfring_types::read::Value;
use serde_json::{Value as Json, json};
use std::path::Path;

/// Returns the events of a trace; `None` if there is no reader.
fn read(path: &Path) -> Option<Vec<Json>> {
    let Some(out) =
        python("perfetto", include_str!("readers/perfetto.py"), &[path.to_str().unwrap()])
    else {
        skip("Python has no perfetto (pip: perfetto, protobuf)");
        return None;
    };
    Some(out.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn options_of(path: &Path) -> PerfettoOptions {
    PerfettoOptions::new(path)
}

/// Converts a value to its form in an event's arguments.
fn argument(value: &Value) -> Json {
    match value {
        Value::Null => json!("null"),
        Value::I128(value) => json!(value.to_string()),
        Value::U128(value) => json!(value.to_string()),
        Value::F32(value) => json!(f64::from(*value)),
        Value::List(values) => values.iter().map(argument).collect(),
        Value::Struct(fields) => {
            fields.iter().map(|(name, value)| (name.to_string(), argument(value))).collect()
        }
        other => serde_json::to_value(other).unwrap(),
    }
}

fn hex(bytes: &[u8]) -> String {
    Value::Bytes(bytes.to_vec()).to_string()
}

/// Checks that every record of the ring is an instant with all its fields, and every loss one.
fn check(events: &[Json], ring: &Followed) -> usize {
    let clocks = events.iter().find_map(|event| event.get("clocks")).unwrap();
    let ahead = clocks[1].as_u64().unwrap() - clocks[0].as_u64().unwrap();
    let mut instants = events.iter().filter(|event| {
        event["on"]["name"] == json!(ring.origin.name) && event["type"] == json!("instant")
    });
    let (mut records, mut losses) = (ring.records().into_iter(), ring.losses().into_iter());
    let mut count = 0;
    for item in &ring.items {
        let event = instants.next().unwrap();
        let parent = &event["on"]["parent"];
        assert_eq!(parent["pid"], json!(std::process::id()));
        assert_eq!(parent["process"], json!(ring.origin.producer.name));
        let args = event["args"].as_object().unwrap();
        let crate::common::Kept::Record { .. } = item else {
            let lost = losses.next().unwrap();
            let plural = if lost.records == 1 { "record" } else { "records" };
            let name = format!("LOST {} {plural}: {}", lost.records, lost.cause.name());
            assert_eq!(event["name"], json!(name));
            let cause = lost.cause.name();
            let (pos, records, bytes) = (lost.pos, lost.records, lost.bytes);
            let expected =
                json!({"ring.pos": pos, "records": records, "bytes": bytes, "cause": cause});
            assert_eq!(event["args"], expected);
            continue;
        };
        let record = records.next().unwrap();
        count += 1;
        assert_eq!(event["at"].as_u64(), record.time);
        // The snapshot is of the first ring's anchor: another's may be some ns off.
        let wall = event["at"].as_u64().unwrap() + ahead;
        assert!(wall.abs_diff(record.wall.unwrap()) < 20_000);
        assert_eq!(args["ring.pos"], json!(record.pos));
        let mut own = args.clone();
        own.remove("ring.pos");
        match &record.value {
            Some(value @ Value::Struct(_)) => {
                assert_eq!(event["name"], json!(record.name));
                assert_eq!(Json::Object(own), argument(value));
            }
            Some(value) => assert_eq!(Json::Object(own), json!({"value": argument(value)})),
            None if record.name.is_empty() => {
                assert_eq!(event["name"], json!("type 4999"));
                assert_eq!(Json::Object(own), json!({"bytes": hex(&record.bytes)}));
            }
            None => {
                assert!(own["damage"].as_str().unwrap().contains("not JSON"));
                assert_eq!(own["bytes"], json!(hex(&record.bytes)));
            }
        }
    }
    assert_eq!((instants.next(), losses.next()), (None, None));
    // The counter of losses ends at their sum.
    let counter = format!("{}: lost records", ring.origin.name);
    let last = events.iter().rfind(|event| event["on"]["name"] == json!(counter)).unwrap();
    let sum: u64 = ring.losses().iter().map(|lost| lost.records).sum();
    assert_eq!(last["value"], json!(sum));
    count
}

#[test]
fn every_record_and_every_loss_is_in_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.pftrace");
    let rings =
        [full_ring(&dir.path().join("full"), 1), lapped_ring(&dir.path().join("lapped"), 2)];
    let mut out = Perfetto::open("trace", &options_of(&path)).unwrap();
    rings.iter().for_each(|ring| ring.export(&mut out));
    close(out);
    let Some(events) = read(&path) else { return };
    let counts = rings.each_ref().map(|ring| check(&events, ring));
    println!("{counts:?} records, {:?}", rings.map(|ring| ring.losses().len()));
    assert!(counts.iter().all(|count| *count > 800));
}

#[test]
fn spans_logs_and_metrics_are_those_of_perfetto() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ring) = (dir.path().join("trace.pftrace"), dir.path().join("ring"));
    let resource = Resource::default().with("service.name", "shop");
    let sink = Sink::create(&ring, &options(), resource).unwrap();
    let trace = TraceId([7; 16]);
    let (outer, inner, other, unseen) =
        (SpanId([1; 8]), SpanId([2; 8]), SpanId([3; 8]), SpanId([4; 8]));
    let k = &[("k", 5u64.into())];
    sink.emit(&SpanStart { attributes: k, ..SpanStart::new(trace, outer, "request") }).unwrap();
    sink.emit(&SpanStart::new(trace, inner, "query")).unwrap();
    // They end in the order in which they started, as spans of threads do.
    sink.emit(&SpanStart::new(trace, other, "query")).unwrap();
    sink.emit(&SpanStart { attributes: k, ..SpanStart::new(trace, inner, "") }).unwrap();
    sink.emit(&SpanEnd::new(trace, outer, "request")).unwrap();
    sink.emit(&SpanEnd::new(trace, inner, "query")).unwrap();
    sink.emit(&SpanEnd { duration_nano: Some(1000), ..SpanEnd::new(trace, unseen, "gone") })
        .unwrap();
    let log = Log { severity: Some(Severity::Warn), body: "hello".into(), ..Log::default() };
    sink.emit(&log).unwrap();
    sink.emit(&Log { attributes: &[("thread.id", 77u64.into())], ..log }).unwrap();
    sink.emit(&Gauge { unit: "By", ..Gauge::new("free", -5i64) }).unwrap();
    sink.emit(&Gauge { attributes: k, ..Gauge::new("load", 0.5) }).unwrap();
    sink.emit(&Sum::cumulative("orders", u64::MAX)).unwrap();
    sink.emit(&Sum { unit: "{order}", ..Sum::delta("new", 3u64) }).unwrap();
    let state = Histogram::state("took", &[1.0], &[2, 1]);
    sink.emit(&Histogram { unit: "ns", count: Some(3), sum: Some(4.5), ..state }).unwrap();
    sink.emit(&Gauge::new("odd", f64::NAN)).unwrap();

    let mut followed = Followed::open(&ring, 1);
    followed.read();
    let mut out = Perfetto::open("trace", &options_of(&path)).unwrap();
    followed.export(&mut out);
    out.flush().unwrap(); // it is complete before it is closed, too
    let Some(events) = read(&path) else { return };
    let timestamps: Vec<u64> =
        followed.records().iter().map(|record| record.time.unwrap()).collect();
    // Type, name, value, nanoseconds after which record.
    let shown: Vec<_> = events.iter().filter(|event| event.get("type").is_some()).collect();
    let rows: Vec<_> = shown
        .iter()
        .map(|event| {
            let text = |name: &str| event[name].as_str().unwrap().to_owned();
            (text("type"), text("name"), event["on"]["name"].clone(), event["value"].clone())
        })
        .collect();
    let (spans, ring) = (json!("spans"), json!("ring"));
    let row = |a: &str, b: &str, c: &Json, d: Json| (a.to_owned(), b.to_owned(), c.clone(), d);
    let null = Json::Null;
    let expected = [
        row("instant", "perfring.Resource", &ring, null.clone()),
        row("slice_begin", "request", &spans, null.clone()),
        row("slice_begin", "query", &spans, null.clone()),
        row("slice_begin", "query", &spans, null.clone()),
        row("instant", "more", &spans, null.clone()),
        row("slice_end", "", &spans, null.clone()),
        row("slice_end", "", &spans, null.clone()),
        row("slice_begin", "gone", &spans, null.clone()),
        row("slice_end", "", &spans, null.clone()),
        row("instant", "hello", &ring, null.clone()),
        row("instant", "hello", &null, null.clone()),
        row("counter", "", &json!("free"), json!(-5)),
        row("counter", "", &json!("load{k=5}"), json!(0.5)),
        row("counter", "", &json!("orders"), json!(u64::MAX as f64)),
        row("counter", "", &json!("new"), json!(3)),
        row("counter", "", &json!("took.count"), json!(3)),
        row("counter", "", &json!("took.sum"), json!(4.5)),
        row("instant", "perfring.Gauge", &ring, null),
    ];
    for (is, should) in rows.iter().zip(&expected) {
        assert_eq!(is, should);
    }
    assert_eq!(rows.len(), expected.len());
    // Each span has a track; begin, more and end of one are on the same.
    let track = |at: usize| shown[at]["track"].as_u64().unwrap();
    assert_eq!((track(1), track(2), track(2), track(7)), (track(5), track(4), track(6), track(8)));
    assert!(track(1) != track(2) && track(2) != track(3) && track(3) != track(1));
    assert_eq!(shown[8]["at"].as_u64().unwrap() - shown[7]["at"].as_u64().unwrap(), 1000);
    let at = |at: usize| shown[at]["at"].as_u64().unwrap();
    assert_eq!(
        (at(0), at(1), at(5), at(8)),
        (timestamps[0], timestamps[1], timestamps[5], timestamps[7])
    );
    assert_eq!(shown[1]["args"]["k"], json!(5));
    assert_eq!(shown[4]["args"]["k"], json!(5));
    assert_eq!(shown[9]["categories"], json!(["log", "WARN"]));
    assert_eq!(shown[9]["args"]["body"], json!("hello"));
    assert_eq!(shown[10]["on"]["tid"], json!(77));
    let units: Vec<_> = (11..17).map(|at| shown[at]["on"]["unit"].as_str().unwrap()).collect();
    let count = "UNIT_COUNT";
    assert_eq!(units, ["UNIT_SIZE_BYTES", count, count, "order", count, "UNIT_TIME_NS"]);
    let adds: Vec<_> =
        (11..17).map(|at| shown[at]["on"]["is_incremental"] == json!(true)).collect();
    assert_eq!(adds, [false, false, false, true, false, false]);
    for event in &shown[1..] {
        let parent = &event["on"]["parent"];
        assert_eq!(parent, &json!({"pid": std::process::id(), "process": "shop"}));
    }
}

/// A histogram's count is shown as `took.count`, which may be the name of a gauge.
#[test]
fn series_of_one_shown_name_are_two() {
    let dir = tempfile::tempdir().unwrap();
    let (path, ring) = (dir.path().join("trace.pftrace"), dir.path().join("ring"));
    let sink = Sink::create(&ring, &options(), Resource::default()).unwrap();
    let state = Histogram::state("took", &[1.0], &[2, 1]);
    sink.emit(&Histogram { count: Some(3), ..state }).unwrap();
    sink.emit(&Gauge::new("took.count", 9u64)).unwrap();
    sink.emit(&Gauge { unit: "s", ..Gauge::new("took.count", 10u64) }).unwrap();
    sink.emit(&Gauge { attributes: &[("a", "1,b=2".into())], ..Gauge::new("n", 1u64) }).unwrap();
    let two = &[("a", "1".into()), ("b", 2u64.into())];
    sink.emit(&Gauge { attributes: two, ..Gauge::new("n", 2u64) }).unwrap();
    let mut out = Perfetto::open("trace", &options_of(&path)).unwrap();
    Followed::open(&ring, 1).read().export(&mut out);
    close(out);
    let Some(events) = read(&path) else { return };
    let is = |event: &&Json| event["type"] == json!("counter");
    let mut tracks: Vec<_> =
        events.iter().filter(is).map(|event| event["track"].as_u64().unwrap()).collect();
    assert_eq!(tracks.len(), 5);
    tracks.sort_unstable();
    tracks.dedup();
    assert_eq!(tracks.len(), 5);
}

#[test]
fn an_explanation_is_a_slice_on_a_lane_of_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("why.pftrace");
    let mut trace = Perfetto::open("trace", &options_of(&path)).unwrap();
    let gap = Explanation {
        what: "gap",
        ring: None,
        thread: Some((7, 9)),
        time: 5_000,
        length: 2_000,
        cause: "preempted",
        certainty: "certain",
        sentence: "shop (9 of shop 7) wrote nothing for 2.00 µs: it was preempted by hog (99)",
    };
    let loss = Explanation { what: "loss", thread: None, length: 0, cause: "no consumer", ..gap };
    assert!(trace.explain(&gap).unwrap() && trace.explain(&loss).unwrap());
    close(trace);
    let Some(events) = read(&path) else { return };
    let of = |name: &str| -> Vec<&Json> {
        events.iter().filter(|event| event["on"]["name"] == json!(name)).collect()
    };
    let lane = of("why: gap of thread 9");
    let parts: Vec<_> = lane.iter().map(|event| (&event["type"], event["at"].as_u64())).collect();
    let (begin, end) = (json!("slice_begin"), json!("slice_end"));
    assert_eq!(parts, [(&begin, Some(5_000)), (&end, Some(7_000))]);
    assert_eq!(lane[0]["name"], json!("preempted"));
    assert_eq!(lane[0]["on"]["parent"]["pid"], json!(7));
    let args = json!({"why": gap.sentence, "cause": "preempted", "certainty": "certain"});
    assert_eq!(lane[0]["args"], args);
    let losses = of("why: loss");
    assert_eq!((losses.len(), &losses[0]["type"]), (1, &json!("instant")));
}

#[test]
fn explanations_that_overlap_and_two_processes_of_one_pid_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("why.pftrace");
    let mut trace = Perfetto::open("trace", &options_of(&path)).unwrap();
    let origin = |id: u8, name: &str| Origin {
        id: id.into(),
        name: format!("{name}'s ring"),
        uuid: [id; 16],
        policy: Some(Policy::Drop),
        producer: OwnerInfo { pid: 7, name: name.to_owned(), ..OwnerInfo::default() },
        ..Origin::default()
    };
    let rings = [origin(1, "shop"), origin(2, "shop"), origin(3, "pay")];
    for ring in &rings {
        assert_eq!(
            trace.take(&Event { seq: 0, origin: ring, what: What::Began }).unwrap(),
            Took::Yes
        );
    }
    let gap = |ring, time, length| Explanation {
        what: "gap",
        ring: Some(ring),
        thread: Some((7, 9)),
        time,
        length,
        cause: "preempted",
        certainty: "certain",
        sentence: "it was preempted",
    };
    // The second begins in the first and ends after it, in another ring of one process. The third is of another one.
    let gaps = [(&rings[0], 5_000, 2_000), (&rings[1], 6_000, 3_000), (&rings[2], 5_500, 100)];
    for (ring, time, length) in gaps {
        assert!(trace.explain(&gap(ring, time, length)).unwrap());
    }
    close(trace);
    let Some(events) = read(&path) else { return };
    let lane: Vec<&Json> = events
        .iter()
        .filter(|event| event["on"]["name"] == json!("why: gap of thread 9"))
        .collect();
    let mut slices = Vec::new();
    for begin in lane.iter().filter(|event| event["type"] == json!("slice_begin")) {
        // Perfetto ends the slice of a track that began last.
        let on_it = |event: &&&Json| event["track"] == begin["track"] && event != &begin;
        let others: Vec<_> = lane.iter().filter(on_it).collect();
        assert_eq!(others.len(), 1, "{others:?}");
        let at = |event: &Json| event["at"].as_u64().unwrap();
        slices.push((begin["on"]["parent"]["pid"].as_u64().unwrap(), at(begin), at(others[0])));
    }
    slices.sort_unstable();
    assert_eq!(slices, [(7, 5_000, 7_000), (7, 6_000, 9_000), (4_194_304, 5_500, 5_600)]);
}

#[test]
fn two_processes_of_one_pid_are_two_with_all_that_is_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.pftrace");
    let mut out = Perfetto::open("trace", &options_of(&path)).unwrap();
    // One after the other, so that all of the first is there when the second begins.
    for (id, name) in (1..).zip(["shop", "pay"]) {
        two_of_one_pid(dir.path(), id, name).export(&mut out);
    }
    close(out);
    let Some(events) = read(&path) else { return };
    let on = |event: &Json| {
        let parent = &event["on"]["parent"];
        (parent["pid"].as_u64().unwrap(), parent["process"].as_str().unwrap().to_owned())
    };
    let is = |event: &&Json| event.get("type").is_some();
    let seen: Vec<_> =
        events.iter().filter(is).map(|event| (event["name"].clone(), on(event))).collect();
    let pid = u64::from(std::process::id());
    let of = |name: &str, process: &str, number| (json!(name), (number, process.to_owned()));
    let all = |process: &str, number| {
        ["plain", "", "thread"].map(|name| of(name, process, number)).into_iter()
    };
    assert_eq!(seen, all("shop", pid).chain(all("pay", 4_194_304)).collect::<Vec<_>>());
    // Their threads of one number are two, and so are their series of one name.
    let tids: Vec<_> = events.iter().filter_map(|event| event["on"]["tid"].as_u64()).collect();
    assert_eq!(tids, [77, 4_194_305]);
    let counters = events.iter().filter(|event| event["on"]["name"] == json!("free"));
    let counters: Vec<_> = counters.map(|event| event["track"].as_u64().unwrap()).collect();
    assert!(counters.len() == 2 && counters[0] != counters[1], "{counters:?}");
}

#[test]
fn the_kernels_records_are_on_the_tracks_of_their_threads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.pftrace");
    let mut out = Perfetto::open("trace", &options_of(&path)).unwrap();
    kernel_ring(&dir.path().join("ring"), 1).export(&mut out);
    close(out);
    let Some(events) = read(&path) else { return };
    let on: Vec<_> = events.iter().filter_map(|event| event.get("on")).collect();
    let tids: Vec<_> = on.iter().map(|on| on["tid"].as_u64().unwrap()).collect();
    assert_eq!(tids, [11, 12, 11]);
    assert!(on.iter().all(|on| on["parent"]["pid"] == json!(10)));
}

#[test]
fn samples_of_a_metrics_area_are_of_the_process_that_they_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.pftrace");
    let mut out = Perfetto::open("trace", &options_of(&path)).unwrap();
    metrics_area(&dir.path().join("area"), 1).export(&mut out);
    close(out);
    let Some(events) = read(&path) else { return };
    let on: Vec<_> = events.iter().filter_map(|event| event.get("on")).collect();
    assert_eq!(on.len(), 1);
    assert_eq!(on[0]["parent"]["pid"], json!(std::process::id()));
}

#[test]
fn an_existing_file_is_not_changed_and_a_full_disk_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.pftrace");
    std::fs::write(&path, "mine").unwrap();
    let refused = Perfetto::open("trace", &options_of(&path)).unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    close_empty(Perfetto::open("trace", &PerfettoOptions { overwrite: true, ..options_of(&path) }));
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    let missing = Perfetto::open("trace", &options_of(&dir.path().join("no/t"))).unwrap_err();
    assert!(missing.to_string().contains("create it first"), "{missing}");

    let full = PerfettoOptions { overwrite: true, ..PerfettoOptions::new("/dev/full") };
    let mut out = Perfetto::open("trace", &full).unwrap();
    let ring = full_ring(&dir.path().join("full"), 1);
    let mut failed = None;
    ring.events(0, |event| {
        if failed.is_none() {
            failed = out.take(event).err();
        }
    });
    let failed = failed.or_else(|| out.flush().err()).unwrap();
    assert!(failed.to_string().contains("is full; free some space"), "{failed}");
}

fn close_empty(output: Result<Perfetto, perfring_export::OutputError>) {
    output.unwrap().close(std::time::Instant::now()).unwrap();
}
