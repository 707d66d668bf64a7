//! The page's server, asked over plain HTTP.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use perfring_producer::{Options as RingOptions, Policy, Producer, SharedProducer};
use perfring_telemetry::meter::{self, Instrument, Meter};
use perfring_telemetry::{Gauge, Resource, Sink, SpanEnd, SpanId, SpanStart, TraceId, options};
use perfring_testkit::wait::WATCHDOG;
use perfring_view::serve::{Options, Server};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::TryRecvError;

fn server(dir: &Path) -> Server {
    let listen = "127.0.0.1:0".to_owned();
    Server::start(Options { paths: vec![dir.to_owned()], recordings: Vec::new(), listen }).unwrap()
}

/// Sends a request, with these further lines of its head.
fn send(server: &Server, method: &str, path: &str, host: &str, lines: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    // What never comes fails the test.
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n")
        .unwrap();
    stream
}

/// Returns the head and the body of an answer.
fn read(mut stream: TcpStream) -> (String, Vec<u8>) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let at = all.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let body = all.split_off(at + 4);
    (String::from_utf8(all).unwrap().to_ascii_lowercase(), body)
}

fn token(server: &Server) -> String {
    let path = server.url().splitn(4, '/').nth(3).unwrap();
    format!("/{path}")
}

fn ask(server: &Server, method: &str, path: &str) -> (String, String) {
    let path = token(server) + path;
    let (head, body) = read(send(server, method, &path, &server.address().to_string(), ""));
    let body = match head.contains("transfer-encoding: chunked") {
        true => unchunked(&body),
        false => body,
    };
    (head, String::from_utf8_lossy(&body).into_owned())
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let at = body.windows(2).position(|bytes| bytes == b"\r\n").unwrap();
        let len = usize::from_str_radix(std::str::from_utf8(&body[..at]).unwrap(), 16).unwrap();
        if len == 0 {
            return whole;
        }
        whole.extend(&body[at + 2..at + 2 + len]);
        body = &body[at + 4 + len..];
    }
}

/// The stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(server: &Server) -> Self {
        let path = token(server) + "api/events";
        Events(BufReader::new(send(server, "GET", &path, &server.address().to_string(), "")))
    }

    /// Reads until an update says so.
    fn until(&mut self, mut says: impl FnMut(&str) -> bool) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream has ended");
            if let Some(data) = line.strip_prefix("data: ")
                && says(data)
            {
                return data.to_owned();
            }
        }
    }
}

#[test]
fn only_who_has_the_token_and_asks_by_the_own_name_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let (address, own) = (server.address().to_string(), token(&server));
    let status = |path: &str, host: &str, lines: &str| {
        let (head, body) = read(send(&server, "GET", path, host, lines));
        assert!(head.starts_with("http/1.1 200") || body.len() < 100, "{head}");
        head.split(' ').nth(1).unwrap().to_owned()
    };
    let port = server.address().port();
    for path in ["/", "/view.css", "/api/events", "/0123456789abcdef0123456789abcdef/", &own[..33]]
    {
        assert_eq!(
            status(path, &address, ""),
            if path == &own[..33] { "200" } else { "404" },
            "{path}"
        );
    }
    assert_eq!(status(&own, &address, ""), "200");
    assert_eq!(status(&own, &format!("localhost:{port}"), ""), "200");
    assert_eq!(status(&own, &format!("evil.example:{port}"), ""), "403", "DNS rebinding");
    assert_eq!(status(&own, &address, "Origin: http://evil.example\r\n"), "403");
    assert_eq!(status(&own, &address, "Sec-Fetch-Site: cross-site\r\n"), "403");
    assert_eq!(
        status(&(own.clone() + "api/freeze"), &address, ""),
        "405",
        "a link takes no snapshot"
    );

    let (head, page) = ask(&server, "GET", "");
    for line in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "x-frame-options: deny",
    ] {
        assert!(head.contains(line), "{line} is not in {head}");
    }
    assert!(!head.contains("access-control") && !head.contains("set-cookie"), "{head}");
    let scripts = page.matches("<script").count();
    assert_eq!(scripts, page.matches("<script src=").count(), "no script is in the page itself");
}

#[test]
fn rings_that_come_and_go_are_in_the_stream_and_nothing_is_written_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders");
    let mut producer = Producer::create(&path, &RingOptions::default()).unwrap();
    producer.publish(b"one").unwrap();
    let before = std::fs::read(&path).unwrap();
    let server = server(dir.path());
    let mut events = Events::open(&server);
    let first = events.until(|data| data.contains("\"orders\""));
    assert!(
        first.contains("\"state\":\"no consumer\"") && first.contains("\"written\":1"),
        "{first}"
    );
    let (_, text) = ask(&server, "GET", "api/records?rings=0");
    assert!(text.contains("\"text\":\"one\""), "{text}");
    let tick = events.until(|data| data.contains("\"ticks\":[{"));
    assert!(tick.contains("\"whole\":false"), "nothing was missed: {tick}");
    assert!(before == std::fs::read(&path).unwrap(), "an observer has written to the ring");

    producer.publish(b"two").unwrap();
    events.until(|data| data.contains("\"written\":2"));
    let other = Producer::create(dir.path().join("<b>later"), &RingOptions::default()).unwrap();
    let later = events.until(|data| data.contains("later"));
    assert!(later.contains("\"what\":\"appeared\"") && later.contains("<b>later"), "{later}");
    drop(other);
    events.until(|data| data.contains("\"how\":\"detached\""));
    std::fs::remove_file(&path).unwrap();
    events.until(|data| data.contains("\"gone\":[0]"));
    drop(server);
    let mut rest = String::new();
    // The stream ends with the server.
    let _ = events.0.read_to_string(&mut rest);
}

#[test]
fn a_filter_narrows_the_records_and_its_error_is_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let options = RingOptions { time: true, policy: Policy::Overwrite, ..RingOptions::default() };
    let mut producer = Producer::create(dir.path().join("logs"), &options).unwrap();
    let schema =
        perfring_types::Schema::new("demo.Line", perfring_types::Encoding::Json).with_hashed_id();
    producer.register(&schema).unwrap();
    for nth in 0..10 {
        producer
            .publish_as(schema.id, format!("{{\"nth\":{nth},\"text\":\"<script>\"}}").as_bytes())
            .unwrap();
    }
    let server = server(dir.path());
    Events::open(&server).until(|data| data.contains("logs"));
    let count = |query: &str| {
        let (_, text) = ask(&server, "GET", &format!("api/records?rings=all&{query}"));
        (text.matches("\"pos\":").count(), text)
    };
    assert_eq!(count("").0, 10);
    assert_eq!(count("where=nth%3E%3D7").0, 3);
    assert_eq!(count("where=nth%3E%3D7+%26%26+nth%3C8").0, 1);
    assert_eq!(count("type=demo.Line&limit=4").0, 4);
    assert_eq!(count("type=demo.Other").0, 0);
    let (_, wrong) = count("where=nth%3D1+%26%26+nth");
    assert!(
        wrong.contains("\"at\":9,\"len\":3") && wrong.contains("is not a condition"),
        "{wrong}"
    );
    let (_, text) = count("limit=1");
    let seq = text.split("\"seq\":").nth(1).unwrap().split(',').next().unwrap();
    let (head, whole) = ask(&server, "GET", &format!("api/record?ring=0&seq={seq}"));
    assert!(head.contains("application/json") && whole.contains("[\"nth\",\"9\"]"), "{whole}");
    assert!(whole.contains("7b226e7468223a39"), "{whole}");
}

/// As two containers have that run one program: one pid, and one name.
#[test]
fn two_producers_of_one_pid_and_name_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let first = SharedProducer::create(&path, &RingOptions::default()).unwrap();
    let second = SharedProducer::attach(&path).unwrap();
    let server = server(dir.path());
    let mut events = Events::open(&server);
    events.until(|data| data.contains("ring"));
    drop(first);
    events.until(|data| data.contains("\"what\":\"detached\""));
    drop(second);
    events.until(|data| data.contains("\"what\":\"detached\""));
}

#[test]
fn the_history_of_a_ring_begins_with_a_rate() {
    let dir = tempfile::tempdir().unwrap();
    let options = RingOptions { policy: Policy::Overwrite, ..RingOptions::default() };
    let mut producer = Producer::create(dir.path().join("busy"), &options).unwrap();
    std::thread::scope(|scope| {
        let (_end, ends) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            while ends.try_recv() == Err(TryRecvError::Empty) {
                producer.publish(b"x").unwrap();
                std::thread::yield_now();
            }
        });
        let server = server(dir.path());
        let mut events = Events::open(&server);
        let mut points = Vec::new();
        while points.is_empty() {
            events.until(|update| update.contains("\"ticks\":[{"));
            let (_, history) = ask(&server, "GET", "api/history?rings=0");
            let history: Value = serde_json::from_str(&history).unwrap();
            points = history["0"].as_array().unwrap().clone();
        }
        println!("{points:?}");
        assert!(points[0][1][0].as_f64() > Some(0.0), "{points:?}");
    });
}

#[test]
fn a_snapshot_is_frozen_looked_at_and_downloaded() {
    let dir = tempfile::tempdir().unwrap();
    let options = RingOptions { time: true, policy: Policy::Overwrite, ..RingOptions::default() };
    let mut producer = Producer::create(dir.path().join("flight"), &options).unwrap();
    (0..10).for_each(|nth| producer.publish(format!("record {nth}").as_bytes()).unwrap());
    let server = server(dir.path());
    Events::open(&server).until(|data| data.contains("flight"));
    let (_, made) = ask(&server, "POST", "api/freeze?rings=0");
    assert!(made.contains("\"records\":10") && made.contains("\"name\":\"flight\""), "{made}");
    producer.publish(b"too late").unwrap();
    let (_, records) = ask(&server, "GET", "api/recording/records?id=0&limit=3");
    assert_eq!(records.matches("\"pos\":").count(), 3);
    assert!(records.contains("record 9") && !records.contains("too late"), "{records}");
    let seq = records.split("\"seq\":").nth(1).unwrap().split(',').next().unwrap();
    let (_, earlier) =
        ask(&server, "GET", &format!("api/recording/records?id=0&limit=3&before={seq}"));
    assert!(earlier.contains("record 6") && !earlier.contains("record 7"), "{earlier}");
    let (_, whole) = ask(&server, "GET", &format!("api/recording/record?id=0&seq={seq}"));
    assert!(whole.contains("7265636f72642037"), "{whole}");
    let (_, lanes) =
        ask(&server, "GET", "api/recording/timeline?id=0&from=-1&to=3600000000000&bins=4");
    assert!(lanes.contains("\"bins\":[10,0,0,0]") && lanes.contains("record 0"), "{lanes}");
    let (_, live) =
        ask(&server, "GET", "api/timeline?rings=0&from=-3600000000000&to=3600000000000&bins=1");
    assert!(live.contains("\"bins\":[11]"), "{live}");

    let (head, recording) = ask(&server, "GET", "api/recording/recording?id=0");
    assert!(head.contains("attachment; filename=\"flight.perfrec\""), "{head}");
    assert!(recording.contains("record 9"));
    let (_, lines) = ask(&server, "GET", "api/recording/json?id=0");
    assert_eq!(lines.lines().count(), 10);
    let (_, trace) = ask(&server, "GET", "api/recording/perfetto?id=0");
    assert!(trace.contains("flight"));
    let (_, all) = ask(&server, "GET", "api/recordings");
    assert_eq!(all.matches("\"base\":").count(), 1);
    ask(&server, "POST", "api/remove?id=0");
    assert_eq!(ask(&server, "GET", "api/recordings").1, "[]");
    assert!(ask(&server, "GET", "api/recording/json?id=0").0.starts_with("http/1.1 404"));
    assert!(ask(&server, "POST", "api/freeze?rings=7").1.contains("no such ring"));
}

#[test]
fn silent_connections_neither_keep_the_page_out_nor_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let mut events = Events::open(&server);
    events.until(|_| true);
    let silent: Vec<TcpStream> =
        (0..400).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let (head, _) = ask(&server, "GET", "");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let ring = Producer::create(dir.path().join("later"), &RingOptions::default()).unwrap();
    events.until(|data| data.contains("later"));
    drop((ring, silent));
}

#[test]
fn what_is_too_long_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let long = |len: usize| format!("api/records?where={}", "x".repeat(len));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    let (own, address) = (token(&server), server.address());
    // It is not read to its end: the answer is lost if the connection is closed before that.
    let _ = write!(stream, "GET {own}{} HTTP/1.1\r\nHost: {address}\r\n\r\n", long(100_000));
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer).map_err(|error| error.kind());
    assert!(!matches!(ended, Err(std::io::ErrorKind::WouldBlock)), "it is waited for");
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{answer:?}");
    assert!(ask(&server, "GET", &long(10_000)).1.contains("is not a condition"));
    let many = vec!["a%3D1"; 33].join("%26%26");
    let (_, wrong) = ask(&server, "GET", &format!("api/records?where={many}"));
    assert!(wrong.contains("a filter has at most 32 conditions"), "{wrong}");
    let rings = (0..1_500).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    let (head, why) = ask(&server, "POST", &format!("api/freeze?rings={rings}"));
    assert!(head.starts_with("http/1.1 409") && why.contains("at most 1000 rings"), "{head}{why}");
}

/// Returns the number after a name in an answer.
fn number(answer: &str, name: &str) -> u64 {
    let after = answer
        .split(&format!("\"{name}\":"))
        .nth(1)
        .unwrap_or_else(|| panic!("{name}: {answer:.200}"));
    after.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn answers_about_traces_and_metrics_are_bounded_and_those_of_a_snapshot_are_the_same() {
    const SPANS: u64 = 2_500;
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::create(dir.path().join("shop"), &options(), Resource::here()).unwrap();
    let (large, text) = (TraceId([7; 16]), "x".repeat(200));
    let attributes = ["a", "b", "c"].map(|name| (name, (&*text).into()));
    for nth in 0..SPANS {
        let span = SpanId((nth + 1).to_be_bytes());
        let start = SpanStart { attributes: &attributes, ..SpanStart::new(large, span, "many") };
        sink.emit(&start).unwrap();
    }
    for nth in 1..=300u128 {
        let (trace, span) = (TraceId(nth.to_be_bytes()), SpanId([1; 8]));
        let end = SpanEnd::new(trace, span, "few");
        sink.emit(&SpanEnd { duration_nano: Some(5), ..end }).unwrap();
    }
    for nth in 0..60u64 {
        let attributes = &[("shard", nth.into())];
        sink.emit(&Gauge { attributes, ..Gauge::new("depth", nth) }).unwrap();
    }
    let server = server(dir.path());
    Events::open(&server).until(|data| data.contains("shop"));
    ask(&server, "POST", "api/freeze?rings=0");
    let span = "from=-3600000000000&to=3600000000000&bins=100000";
    let metric = format!("{span}&name=depth&unit=&kind=gauge");
    for (source, rings) in [("api/", "rings=all"), ("api/recording/", "id=0")] {
        let get = |what: &str| ask(&server, "GET", &format!("{source}{what}&{rings}"));
        let (_, all) = get("traces?");
        assert_eq!((all.matches("\"id\":").count(), all.contains("\"more\":true")), (200, true));
        let (_, one) = get(&format!("traces?trace={:032x}", 300));
        assert_eq!(one.matches("\"has_end\":true,").count(), 1, "{one}");
        assert!(one.contains("\"has_start\":false"), "{one}");
        let (_, most) = get(&format!("traces?trace={}", "07".repeat(16)));
        assert_eq!(most.matches("\"has_start\":true").count(), 2_000);
        assert_eq!(number(&most, "more"), SPANS - 2_000);
        assert!(number(&most, "attributes_left_out") > 0 && most.len() < 3 << 20, "{}", most.len());
        let (head, _) = get("traces?trace=7");
        assert!(head.starts_with("http/1.1 400"), "{head}");
        let (_, metrics) = get(&format!("metrics?{metric}"));
        assert_eq!(metrics.matches("\"points\":[[").count(), 48);
        assert_eq!(number(&metrics, "more_samples"), 12);
        let (_, three) = get(&format!("metrics?{metric}&where=shard%3C3"));
        assert_eq!(three.matches("\"points\":[[").count(), 3, "{three}");
        let (_, other) = get(&format!("metrics?{span}"));
        assert!(other.contains("\"series\":[]") && other.contains("\"name\":\"depth\""), "{other}");
        let (head, _) = get("metrics?from=5&to=5");
        assert!(head.starts_with("http/1.1 400"), "{head}");
        println!("{source}: {} and {} bytes", most.len(), metrics.len());
    }
}

#[test]
fn the_instruments_of_a_metrics_area_are_series_with_a_sample_each_second() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop");
    let meter = Meter::open_or_create(&path, &meter::options(), Resource::here()).unwrap();
    let by_card = &[("by", "card".into())];
    let orders = Instrument { attributes: by_card, ..Instrument::new("orders") };
    let orders = meter.counter::<u64>(&orders).unwrap();
    orders.add(7);
    meter.histogram(&Instrument { unit: "s", ..Instrument::new("latency") }).unwrap().record(0.5);
    let server = server(dir.path());
    Events::open(&server).until(|data| data.contains("shop"));
    let span = "from=-3600000000000&to=3600000000000&bins=600&rings=all";
    let points = |what: &str| -> Vec<f64> {
        let (_, text) = ask(&server, "GET", &format!("api/metrics?{span}&{what}"));
        let answer: Value = serde_json::from_str(&text).unwrap();
        let series = answer["series"].as_array().unwrap();
        assert_eq!(series.len(), 1, "{text}");
        assert_eq!(series[0]["pid"], std::process::id());
        let points = series[0]["points"].as_array().unwrap();
        points.iter().map(|point| point[1].as_f64().unwrap()).collect()
    };
    assert_eq!(points("name=orders&unit=&kind=sum"), [7.0]);
    assert_eq!(points("name=latency&unit=s&kind=buckets"), [1.0], "the count");
    orders.add(1);
    let grown = || points("name=orders&unit=&kind=sum").last() == Some(&8.0);
    perfring_testkit::wait::until("the next sample", grown);
    // What the process has measured is there after its end.
    drop((orders, meter));
    assert_eq!(points("name=orders&unit=&kind=sum").last(), Some(&8.0));
    let (_, where_by) = ask(
        &server,
        "GET",
        &format!("api/metrics?{span}&name=orders&unit=&kind=sum&where=by%3Dcash"),
    );
    assert!(where_by.contains("\"series\":[]"), "{where_by}");
}

#[test]
fn a_span_that_was_looked_at_is_still_in_its_trace_after_the_ring_has_overwritten_it() {
    let dir = tempfile::tempdir().unwrap();
    let small = RingOptions { size: 1 << 14, ..options() };
    let sink = Sink::create(dir.path().join("shop"), &small, Resource::here()).unwrap();
    let trace = TraceId([7; 16]);
    sink.emit(&SpanStart::new(trace, SpanId([1; 8]), "first")).unwrap();
    let server = server(dir.path());
    Events::open(&server).until(|data| data.contains("shop"));
    let spans = || {
        let (_, text) = ask(&server, "GET", &format!("api/traces?trace={}", "07".repeat(16)));
        ["first", "last"].map(|name| text.matches(&format!("\"name\":\"{name}\"")).count())
    };
    assert_eq!(spans(), [1, 0]);
    (0..1_000u64).for_each(|nth| sink.emit(&Gauge::new("depth", nth)).unwrap());
    sink.emit(&SpanStart::new(trace, SpanId([2; 8]), "last")).unwrap();
    assert_eq!(spans(), [1, 1]);
}
