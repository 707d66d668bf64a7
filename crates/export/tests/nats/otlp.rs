//! Records of OpenTelemetry's vocabulary, as the Collector's NATS receiver reads them.

use super::feed::{loss, options, origin, record};
use crate::feed::{Feed, Numbers, emit};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use perfring_consumer::Cause;
use perfring_export::nats::{Nats, Options, Payload};
use perfring_export::otlp::Mapping;
use perfring_export::{DeadLetterFile, Event, Output};
use perfring_telemetry::{Gauge, SpanEnd, SpanId, SpanStart, TraceId};
use perfring_testkit::rng::Rng;
use perfring_testkit::wait::{deadline, until};
use perfring_testrig::nats::{Server, Stored};
use prost::Message as _;
use std::collections::BTreeMap;
use std::time::Duration;

fn as_otlp(server: &Server) -> Options {
    let otlp = Mapping {
        batch_delay: Duration::ZERO,
        metric_interval: Duration::ZERO,
        ..Mapping::default()
    };
    Options { payload: Payload::Auto, otlp, ..options(server) }
}

/// Returns the bodies (numbers) and keys of log records in the order of the stream.
fn logs(stored: &[Stored]) -> Vec<(i64, String)> {
    let mut out = Vec::new();
    for message in stored.iter().filter(|message| message.subject == "otel_logs") {
        let request = ExportLogsServiceRequest::decode(&*message.payload).unwrap();
        for of in request.resource_logs {
            for record in of.scope_logs.into_iter().flat_map(|scope| scope.log_records) {
                let Some(Any::IntValue(body)) = record.body.unwrap().value else { continue };
                let key = record.attributes.iter().find(|pair| pair.key == "perfring.key");
                let key = key.unwrap().value.as_ref().unwrap().value.as_ref();
                let Some(Any::StringValue(key)) = key else { panic!("{key:?}") };
                out.push((body, key.clone()));
            }
        }
    }
    out
}

#[test]
fn each_signal_has_its_subject_and_all_else_is_json() {
    let Some(server) = Server::start() else { return };
    let (mut feed, mut seqs) = (Feed::new(1, "shop"), Numbers::default());
    let mut nats = Nats::open("engine", &as_otlp(&server)).unwrap();
    emit(&feed, 0..3);
    feed.sink.emit(&Gauge::new("g", 5u64)).unwrap();
    let (trace_id, span_id) = (TraceId([1; 16]), SpanId([2; 8]));
    feed.sink.emit(&SpanStart::new(trace_id, span_id, "s")).unwrap();
    feed.sink.emit(&SpanEnd::new(trace_id, span_id, "s")).unwrap();
    let taken = feed.pump(&mut seqs, &mut nats);
    // A ring without types of the vocabulary.
    let ring = origin(9, "plain");
    for what in [record(64, b"bytes", &ring), loss(128, 7, Cause::Full)] {
        nats.take(&Event { seq: seqs.next, origin: &ring, what }).unwrap();
        seqs.next += 1;
    }
    nats.close(deadline()).unwrap();
    assert_eq!(nats.unsettled(), None);
    let figures = nats.figures();
    assert_eq!((figures.taken, figures.delivered), (taken + 1, taken + 1));
    let stored = server.stored();
    let of = |subject: &str| stored.iter().filter(|one| one.subject == subject).collect::<Vec<_>>();
    let bodies: Vec<i64> = logs(&stored).into_iter().map(|(body, _)| body).collect();
    assert_eq!(bodies, [0, 1, 2]);
    let log = ExportLogsServiceRequest::decode(&*of("otel_logs")[0].payload).unwrap();
    let resource = log.resource_logs[0].resource.as_ref().unwrap();
    assert!(resource.attributes.iter().any(|pair| pair.key == "service.name"));
    let metrics = of("otel_metrics");
    let metrics = ExportMetricsServiceRequest::decode(&*metrics[0].payload).unwrap();
    assert_eq!(metrics.resource_metrics[0].scope_metrics[0].metrics[0].name, "g");
    let traces = of("otel_traces");
    let traces = ExportTraceServiceRequest::decode(&*traces[0].payload).unwrap();
    assert_eq!(traces.resource_spans[0].scope_spans[0].spans[0].name, "s");
    assert_eq!(of("perfring.plain.bytes").len(), 1);
    assert_eq!(of("perfring.plain.lost").len(), 1);
    // What is lost of a ring that has such types is a log record.
    let before = of("otel_logs").len();
    let mut nats = Nats::open("engine", &as_otlp(&server)).unwrap();
    feed.began = false;
    feed.pump(&mut seqs, &mut nats);
    let perfring_export::What::Lost(lost) = loss(1 << 40, 7, Cause::Full) else { return };
    feed.lose(&mut seqs, &mut nats, lost);
    nats.close(deadline()).unwrap();
    let after = server.stored();
    assert!(after.iter().filter(|one| one.subject == "otel_logs").count() > before);
    assert!(!after.iter().any(|one| one.subject == "perfring.shop.lost"));
}

#[test]
fn with_otlp_alone_all_records_are_log_records() {
    let Some(server) = Server::start() else { return };
    let options =
        Options { payload: Payload::Otlp, logs_subject: "own.logs".into(), ..as_otlp(&server) };
    let mut nats = Nats::open("engine", &options).unwrap();
    let ring = origin(9, "plain");
    nats.take(&Event { seq: 0, origin: &ring, what: record(64, b"bytes", &ring) }).unwrap();
    nats.close(deadline()).unwrap();
    let stored = server.stored();
    assert_eq!(stored[0].subject, "own.logs");
    assert!(ExportLogsServiceRequest::decode(&*stored[0].payload).is_ok());
    let subjects = server
        .ask(async |context| {
            context.get_stream("perfring").await.unwrap().cached_info().config.clone()
        })
        .subjects;
    assert_eq!(subjects, ["own.logs", "otel_metrics", "otel_traces"]);
}

/// A batch has one id, however often it is sent, so the server drops it as a whole.
#[test]
fn a_server_killed_at_random_doubles_no_batch() {
    let Some(mut server) = Server::start() else { return };
    let mut dice = Rng::from_env();
    let (mut feed, mut seqs) = (Feed::new(1, "shop"), Numbers::default());
    let mut options = as_otlp(&server);
    (options.otlp.batch_items, options.otlp.batch_delay) = (10, Duration::from_secs(3600));
    let mut nats = Nats::open("engine", &options).unwrap();
    for part in 0..6 {
        emit(&feed, part * 500..part * 500 + 500);
        let at = nats.figures().delivered + 1 + dice.below(300);
        feed.pump(&mut seqs, &mut nats);
        until("enough is delivered", || nats.figures().delivered >= at);
        server.kill();
        server.up();
    }
    nats.close(deadline()).unwrap();
    let seen = logs(&server.stored());
    let bodies: Vec<i64> = seen.iter().map(|(body, _)| *body).collect();
    assert!(bodies.into_iter().eq(0..3000), "each once, in the ring's order");
    let keys: BTreeMap<&String, ()> = seen.iter().map(|(_, key)| (key, ())).collect();
    assert_eq!(keys.len(), 3000);
}

/// The same events in batches of the same size: as after a crash of the sidecar.
#[test]
fn the_same_batches_of_log_records_again_are_recognised() {
    let Some(server) = Server::start() else { return };
    let mut options = as_otlp(&server);
    (options.otlp.batch_items, options.otlp.batch_delay) = (10, Duration::from_secs(3600));
    let mut feed = Feed::new(1, "shop");
    emit(&feed, 0..100);
    for _ in 0..2 {
        let mut nats = Nats::open("engine", &options).unwrap();
        let mut seqs = Numbers::default();
        feed.again(&mut seqs, &mut nats);
        nats.close(deadline()).unwrap();
        assert_eq!(nats.figures().delivered, 101);
    }
    assert_eq!(logs(&server.stored()).len(), 100);
}

#[test]
fn a_batch_that_is_too_large_for_the_server_holds_the_output() {
    let config = "jetstream { store_dir: STORE }\nmax_payload: 2000";
    let Some(mut server) = Server::with(config) else { return };
    let (mut feed, mut seqs) = (Feed::new(1, "shop"), Numbers::default());
    let mut options = as_otlp(&server);
    (options.otlp.batch_items, options.otlp.batch_delay) = (100, Duration::from_secs(3600));
    let mut nats = Nats::open("engine", &options).unwrap();
    emit(&feed, 0..100);
    feed.pump(&mut seqs, &mut nats);
    until("it says so", || {
        nats.flush().unwrap();
        nats.figures().trouble.is_some_and(|why| why.contains("set `otlp.batch_bytes`"))
    });
    assert_eq!(nats.figures().refused, 0);
    server.kill();
    server.configure("jetstream { store_dir: STORE }");
    server.up();
    nats.close(deadline()).unwrap();
    assert_eq!(logs(&server.stored()).len(), 100);
}

#[test]
fn a_single_record_that_is_too_large_is_kept_as_a_dead_letter() {
    let config = "jetstream { store_dir: STORE }\nmax_payload: 4000";
    let Some(server) = Server::with(config) else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dead.jsonl");
    let dead_letters = DeadLetterFile::At(path.clone());
    let mut nats = Nats::open("engine", &Options { dead_letters, ..options(&server) }).unwrap();
    let ring = origin(0, "ring");
    let bytes = [7; 8000];
    nats.take(&Event { seq: 0, origin: &ring, what: record(64, &bytes, &ring) }).unwrap();
    nats.close(deadline()).unwrap();
    let figures = nats.figures();
    assert_eq!(figures.refused_by, [("too large", 1)]);
    assert!(figures.trouble.unwrap().contains("kept in"));
    let line: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(line["signal"], "perfring.ring.bytes");
    assert!(line["request"].as_str().unwrap().len() > 8000);
}
