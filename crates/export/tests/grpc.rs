//! OTLP over gRPC, to a server of tonic with OpenTelemetry's own services.
#![cfg(feature = "grpc")]

mod server;

use self::server::{At, Server};
use crate::feed::{ANSWER, Feed, Numbers, delivers, emit, reports};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use perfring_export::otlp::{Headers, Mapping, Options, Otlp, Protocol};
use perfring_export::{DeadLetterFile, Output};
use perfring_telemetry::{Gauge, SpanEnd, SpanId, SpanStart, TraceId};
use perfring_testkit::wait::deadline;
use std::collections::BTreeSet;
use std::time::Duration;
use tonic::{Code, Status};

fn options(server: &Server) -> Options {
    Options {
        protocol: Some(Protocol::Grpc),
        endpoint: Some(server.endpoint()),
        timeout: Some(ANSWER),
        mapping: Mapping {
            batch_delay: Duration::ZERO,
            metric_interval: Duration::ZERO,
            ..Mapping::default()
        },
        ..Options::default()
    }
}

/// The same with other ways to make items of records.
fn mapped(server: &Server, set: impl FnOnce(&mut Mapping)) -> Options {
    let mut options = options(server);
    set(&mut options.mapping);
    options
}

/// Returns the bodies (numbers) of all received log records, in their order.
fn numbers(server: &Server) -> Vec<i64> {
    let got = server.got.lock().unwrap();
    let scopes = got.logs.iter().flat_map(|(request, _)| &request.resource_logs);
    let records = scopes.flat_map(|of| &of.scope_logs).flat_map(|of| &of.log_records);
    let number = |record: &opentelemetry_proto::tonic::logs::v1::LogRecord| match record
        .body
        .as_ref()?
        .value
    {
        Some(Any::IntValue(number)) => Some(number),
        _ => None,
    };
    records.filter_map(number).collect()
}

#[test]
fn each_signal_arrives_at_its_service_with_headers() {
    let server = Server::start(At::Port);
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let headers = Headers([("x-scope".into(), "ours".into())].into());
    let options = Options { headers, ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..3);
    feed.sink.emit(&Gauge::new("g", 5u64)).unwrap();
    let (trace_id, span_id) = (TraceId([1; 16]), SpanId([2; 8]));
    feed.sink.emit(&SpanStart::new(trace_id, span_id, "s")).unwrap();
    feed.sink.emit(&SpanEnd::new(trace_id, span_id, "s")).unwrap();
    let taken = feed.pump(&mut seqs, &mut otlp);
    otlp.close(deadline()).unwrap();
    assert_eq!(numbers(&server), [0, 1, 2]);
    let got = server.got.lock().unwrap();
    let (_, metadata) = &got.logs[0];
    assert_eq!(metadata.get("x-scope").unwrap(), "ours");
    assert!(metadata.get("user-agent").unwrap().to_str().unwrap().starts_with("perfring/"));
    assert_eq!(got.metrics[0].resource_metrics[0].scope_metrics[0].metrics[0].name, "g");
    assert_eq!(got.traces[0].resource_spans[0].scope_spans[0].spans[0].name, "s");
    let figures = otlp.figures();
    assert_eq!((figures.delivered, figures.refused, figures.trouble), (taken, 0, None));
}

#[test]
fn only_what_the_receiver_calls_malformed_is_refused() {
    let server = Server::start(At::Port);
    let codes = [Code::Unavailable, Code::Unauthenticated, Code::Unimplemented, Code::Internal];
    server.reply(codes.map(|code| Err(Status::new(code, "no"))));
    server.reply([Err(Status::invalid_argument("no such field")), Ok(2)]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dead.jsonl");
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = Options {
        dead_letters: DeadLetterFile::At(path.clone()),
        ..mapped(&server, |mapping| {
            mapping.batch_items = 10;
            mapping.batch_delay = Duration::from_secs(3600);
        })
    };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..30);
    let taken = feed.pump(&mut seqs, &mut otlp);
    otlp.close(deadline()).unwrap();
    // The first ten are refused; two of the next ten are rejected, though this test has seen them.
    assert!(numbers(&server).into_iter().eq(10..30));
    let figures = otlp.figures();
    assert_eq!(figures.refused_by, [("INVALID_ARGUMENT", 10), ("partial success", 2)]);
    assert_eq!((figures.retries, figures.delivered), (4, taken - 12));
    let letters = std::fs::read_to_string(path).unwrap();
    assert_eq!(letters.lines().count(), 2);
    assert!(letters.contains("no such field"), "{letters}");
}

#[test]
fn while_requests_are_refused_as_a_whole_it_says_so_until_a_later_one_is_accepted() {
    let server = Server::start(At::Port);
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = mapped(&server, |mapping| {
        mapping.batch_items = 10;
        mapping.batch_delay = Duration::from_secs(3600);
    });
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    let replies = [Err(Status::invalid_argument("no such field")), Ok(10), Ok(2), Ok(0)];
    for (n, reply) in (0..).zip(replies) {
        server.reply([reply]);
        emit(&feed, 10 * n..10 * n + 10);
        feed.pump(&mut seqs, &mut otlp);
        delivers(&mut otlp);
        assert_eq!(otlp.figures().refusing.is_some(), n < 2, "{n}: {:?}", otlp.figures());
    }
}

#[test]
fn a_new_token_ends_the_pause_that_the_receiver_asks_for() {
    let server = Server::start(At::Port);
    server.got.lock().unwrap().token = Some("Bearer new".into());
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "old").unwrap();
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = Options { token_file: Some(token.clone()), ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..10);
    feed.pump(&mut seqs, &mut otlp);
    reports(&mut otlp, "UNAUTHENTICATED");
    std::fs::write(&token, "new").unwrap();
    delivers(&mut otlp);
    assert_eq!(numbers(&server).len(), 10);
}

#[test]
fn messages_that_are_too_large_are_halved() {
    let server = Server::with(At::Port, 2000);
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = mapped(&server, |mapping| {
        mapping.batch_items = 100;
        mapping.batch_delay = Duration::from_secs(3600);
    });
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..100);
    feed.pump(&mut seqs, &mut otlp);
    otlp.close(deadline()).unwrap();
    assert!(numbers(&server).into_iter().eq(0..100));
    assert_eq!(otlp.figures().refused, 0);
}

#[test]
fn a_server_that_is_missing_killed_and_comes_back_gets_everything() {
    let dir = tempfile::tempdir().unwrap();
    for at in [At::Port, At::Socket(dir.path().join("otel.sock"))] {
        let server = Server::start(at);
        let options = mapped(&server, |mapping| mapping.batch_items = 10);
        let (at, _) = server.kill();
        let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
        let mut otlp = Otlp::open("otlp", &options).unwrap();
        emit(&feed, 0..100);
        feed.pump(&mut seqs, &mut otlp);
        reports(&mut otlp, "UNAVAILABLE");
        let server = Server::start(at);
        delivers(&mut otlp);
        let (at, mut seen) = server.kill();
        emit(&feed, 100..200);
        feed.pump(&mut seqs, &mut otlp);
        reports(&mut otlp, "");
        let server = Server::start(at);
        otlp.close(deadline()).unwrap();
        seen.extend(numbers(&server));
        assert!(seen.into_iter().eq(0..200));
    }
}

#[test]
fn a_silent_server_times_out() {
    let server = Server::start(At::Port);
    server.got.lock().unwrap().silent = 1;
    let (mut feed, mut seqs) = (Feed::new(1, "ring"), Numbers::default());
    let options = Options { timeout: Some(Duration::from_millis(100)), ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    emit(&feed, 0..10);
    feed.pump(&mut seqs, &mut otlp);
    otlp.close(deadline()).unwrap();
    // A slow answer makes another attempt, too: then a record arrives twice.
    assert!(numbers(&server).into_iter().collect::<BTreeSet<_>>().into_iter().eq(0..10));
    assert!(otlp.figures().retries > 0);
}
