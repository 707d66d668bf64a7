//! Every field under its name, whatever is there and whatever is missing.

use super::*;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Point;
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, Metric, NumberDataPoint};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use perfring_consumer::{Cause, RecordType};
use perfring_export::otlp::{LongSpans, Plain};
use perfring_export::{Loss, LossCause, Output};
use perfring_telemetry::types::{Class, Encoding, Field, Schema, Shape};
use perfring_telemetry::{
    Gauge, Histogram, Log, Severity, SpanEnd, SpanId, SpanKind, SpanStart, Status, Sum,
    Temporality, TraceId, Value, names,
};
use std::time::Instant;

const TRACE: TraceId = TraceId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
const SPAN: SpanId = SpanId([8; 8]);
const PARENT: SpanId = SpanId([9; 8]);

fn find(pairs: &[KeyValue], key: &str) -> Option<Any> {
    let pair = pairs.iter().find(|pair| pair.key == key)?;
    pair.value.clone()?.value
}

fn s(text: &str) -> Option<Any> {
    Some(Any::StringValue(text.into()))
}

fn i(value: i64) -> Option<Any> {
    Some(Any::IntValue(value))
}

type Rows<T> = Vec<(Resource, String, T)>;

fn logs(server: &Server) -> Rows<LogRecord> {
    let got = server.got.lock().unwrap();
    let mut out = Vec::new();
    for of in got.logs.iter().flat_map(|request| &request.resource_logs) {
        for scope in &of.scope_logs {
            let name = scope.scope.as_ref().map_or("", |scope| &scope.name);
            for record in &scope.log_records {
                out.push((of.resource.clone().unwrap(), name.to_owned(), record.clone()));
            }
        }
    }
    out
}

fn spans(server: &Server) -> Rows<Span> {
    let got = server.got.lock().unwrap();
    let mut out = Vec::new();
    for of in got.traces.iter().flat_map(|request| &request.resource_spans) {
        for scope in &of.scope_spans {
            let name = scope.scope.as_ref().map_or("", |scope| &scope.name);
            for span in &scope.spans {
                out.push((of.resource.clone().unwrap(), name.to_owned(), span.clone()));
            }
        }
    }
    out
}

fn metrics(server: &Server) -> Rows<Metric> {
    let got = server.got.lock().unwrap();
    let mut out = Vec::new();
    for of in got.metrics.iter().flat_map(|request| &request.resource_metrics) {
        for scope in &of.scope_metrics {
            let name = scope.scope.as_ref().map_or("", |scope| &scope.name);
            for metric in &scope.metrics {
                out.push((of.resource.clone().unwrap(), name.to_owned(), metric.clone()));
            }
        }
    }
    out
}

fn close(mut otlp: Otlp) {
    otlp.close(Instant::now() + feed::PATIENCE).unwrap();
    assert_eq!(otlp.undelivered(), None);
    let figures = otlp.figures();
    assert_eq!((figures.delivered, figures.refused), (figures.taken, 0), "{figures:?}");
}

#[test]
fn every_field_of_a_log_record_arrives() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(3, "shop-1");
    let mut otlp = open(&server);
    let log = Log {
        severity: Some(Severity::Fatal2),
        body: "b".into(),
        trace_id: Some(TRACE),
        span_id: Some(SPAN),
        event_name: "e",
        observed_time_unix_nano: Some(5),
        scope: "scope",
        file: "f.rs",
        line: Some(7),
        attributes: &[
            ("k", true.into()),
            ("big", Value::U64(u64::MAX)),
            ("d", 0.5.into()),
            ("raw", Value::Bytes(&[1, 2])),
            ("list", Value::U64s(&[1, 2])),
            ("body", "not the body".into()),
        ],
    };
    feed.sink.emit(&log).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    close(otlp);
    let (resource, scope, got) = logs(&server).remove(0);
    assert_eq!(find(&resource.attributes, "service.name"), s("shop"));
    assert_eq!(find(&resource.attributes, "process.pid"), i(std::process::id().into()));
    assert_eq!(find(&resource.attributes, "perfring.ring.name"), s("shop-1"));
    let uuid = s("07070707-0707-0707-0707-070707070703");
    assert_eq!(find(&resource.attributes, "perfring.ring.uuid"), uuid);
    assert_eq!(scope, "scope");
    assert!(got.time_unix_nano > 1_600_000_000_000_000_000);
    assert_eq!(got.observed_time_unix_nano, 5);
    assert_eq!((got.severity_number, &*got.severity_text), (22, "FATAL2"));
    assert_eq!(got.body.unwrap().value, s("b"));
    assert_eq!((got.trace_id, got.span_id), (TRACE.0.to_vec(), SPAN.0.to_vec()));
    assert_eq!(got.event_name, "e");
    let all = &got.attributes;
    assert_eq!(find(all, "code.file.path"), s("f.rs"));
    assert_eq!(find(all, "code.line.number"), i(7));
    assert_eq!(find(all, "k"), Some(Any::BoolValue(true)));
    assert_eq!(find(all, "big"), s("18446744073709551615"));
    assert_eq!(find(all, "d"), Some(Any::DoubleValue(0.5)));
    assert_eq!(find(all, "raw"), Some(Any::BytesValue(vec![1, 2])));
    assert!(matches!(find(all, "list"), Some(Any::ArrayValue(list)) if list.values.len() == 2));
    assert_eq!(find(all, "body"), s("not the body"));
    assert!(matches!(find(all, "perfring.key"), Some(Any::StringValue(key))
        if key.starts_with("07070707070707070707070707070703-")));
    assert_eq!(all.len(), 9, "{all:?}");
    assert_eq!(got.dropped_attributes_count, 0);
}

#[test]
fn what_was_cut_is_counted() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let mut otlp = open(&server);
    let long = "x".repeat(feed.sink.max_len());
    let attributes = [("a", (&long).into()), ("b", 1u64.into()), ("c", 2u64.into())];
    feed.sink.emit(&Log { attributes: &attributes, ..Log::default() }).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    close(otlp);
    let got = logs(&server).remove(0).2;
    assert!(got.dropped_attributes_count > 0);
    assert_eq!(find(&got.attributes, "…"), None);
}

fn start<'a>() -> SpanStart<'a> {
    SpanStart {
        parent_span_id: Some(PARENT),
        kind: Some(SpanKind::Server),
        link: Some((TraceId([3; 16]), SpanId([4; 8]))),
        scope: "scope",
        attributes: &[("a", Value::U64(1)), ("b", Value::U64(2))],
        ..SpanStart::new(TRACE, SPAN, "GET /")
    }
}

fn end<'a>() -> SpanEnd<'a> {
    SpanEnd {
        parent_span_id: Some(PARENT),
        duration_nano: Some(1000),
        status: Some((Status::Error, "why")),
        attributes: &[("c", Value::U64(3))],
        ..SpanEnd::new(TRACE, SPAN, "GET /")
    }
}

#[test]
fn every_field_of_a_span_arrives_from_two_rings_as_one() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let (mut one, mut two) = (Feed::new(1, "one"), Feed::new(2, "two"));
    let mut otlp = open(&server);
    one.sink.emit(&start()).unwrap();
    let more = SpanStart {
        link: Some((TRACE, PARENT)),
        attributes: &[("b", Value::U64(22)), ("x", Value::Bool(true))],
        ..SpanStart::new(TRACE, SPAN, "")
    };
    one.sink.emit(&more).unwrap();
    two.sink.emit(&end()).unwrap();
    one.pump(&mut seqs, &mut otlp);
    assert!(otlp.undelivered().is_some(), "the start is held for its end");
    two.pump(&mut seqs, &mut otlp);
    close(otlp);
    let all = spans(&server);
    assert_eq!(all.len(), 1);
    let (resource, scope, span) = &all[0];
    assert_eq!(find(&resource.attributes, "perfring.ring.name"), s("one"));
    assert_eq!(scope, "scope");
    assert_eq!((&*span.trace_id, &*span.span_id), (&TRACE.0[..], &SPAN.0[..]));
    assert_eq!((&*span.parent_span_id, &*span.name, span.kind), (&PARENT.0[..], "GET /", 2));
    assert!(span.start_time_unix_nano > 1_600_000_000_000_000_000);
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    assert_ne!(span.end_time_unix_nano - span.start_time_unix_nano, 1000, "the stamps count");
    let status = span.status.as_ref().unwrap();
    assert_eq!((status.code, &*status.message), (2, "why"));
    let names: Vec<_> = span.attributes.iter().map(|pair| &*pair.key).collect();
    assert_eq!(names, ["a", "b", "x", "c"]);
    assert_eq!(find(&span.attributes, "b"), i(22));
    let links: Vec<_> = span.links.iter().map(|link| (&*link.trace_id, &*link.span_id)).collect();
    assert_eq!(links, [(&[3; 16][..], &[4; 8][..]), (&TRACE.0[..], &PARENT.0[..])]);
    assert_eq!(logs(&server).len(), 0);
}

#[test]
fn an_end_without_a_start_says_so() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let options = perfring_export::otlp::Options { span_grace_ms: 0, ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    feed.sink.emit(&end()).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    until("it is sent", || {
        otlp.flush().unwrap();
        otlp.undelivered().is_none()
    });
    let span = spans(&server).remove(0).2;
    assert_eq!(find(&span.attributes, "perfring.span.start"), s("missing"));
    assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 1000);
    assert_eq!((&*span.name, &*span.parent_span_id), ("GET /", &PARENT.0[..]));
    close(otlp);
}

#[test]
fn a_start_that_comes_after_its_end_is_joined() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let (mut one, mut two) = (Feed::new(1, "one"), Feed::new(2, "two"));
    let options = perfring_export::otlp::Options { span_grace_ms: 3_600_000, ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    one.sink.emit(&start()).unwrap();
    two.sink.emit(&end()).unwrap();
    two.pump(&mut seqs, &mut otlp);
    one.pump(&mut seqs, &mut otlp);
    until("it is sent", || {
        otlp.flush().unwrap();
        otlp.undelivered().is_none()
    });
    let all = spans(&server);
    let (resource, _, span) = &all[0];
    assert_eq!((all.len(), span.kind, span.attributes.len()), (1, 2, 3));
    assert_eq!(find(&span.attributes, "perfring.span.start"), None);
    assert_eq!(find(&resource.attributes, "perfring.ring.name"), s("one"));
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    close(otlp);
}

#[test]
fn a_span_whose_ring_is_gone_is_told_as_unfinished() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let options = perfring_export::otlp::Options { span_grace_ms: 0, ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    feed.sink.emit(&start()).unwrap();
    feed.sink.emit(&Log { body: "last words".into(), ..Log::default() }).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    feed.end(&mut seqs, &mut otlp);
    until("it is sent", || {
        otlp.flush().unwrap();
        otlp.undelivered().is_none()
    });
    let (resource, _, span) = spans(&server).remove(0);
    assert_eq!(find(&resource.attributes, "service.name"), s("shop"));
    assert_eq!(find(&span.attributes, "perfring.span.end"), s("missing"));
    let status = span.status.unwrap();
    assert_eq!((status.code, &*status.message), (2, "its ring is gone, and it had not ended"));
    assert_eq!(span.end_time_unix_nano, logs(&server)[0].2.time_unix_nano);
    close(otlp);
}

#[test]
fn a_long_span_lets_its_ring_go_and_is_whole_in_the_end() {
    for long_spans in [LongSpans::Log, LongSpans::Memory] {
        let (server, mut seqs) = (Server::start(), Numbers::default());
        let mut feed = Feed::new(1, "ring");
        let options =
            perfring_export::otlp::Options { span_wait_ms: 0, long_spans, ..options(&server) };
        let mut otlp = Otlp::open("otlp", &options).unwrap();
        feed.sink.emit(&start()).unwrap();
        feed.pump(&mut seqs, &mut otlp);
        until("the start holds nothing any more", || {
            otlp.flush().unwrap();
            otlp.undelivered().is_none()
        });
        let told = logs(&server);
        assert_eq!(told.len(), usize::from(long_spans == LongSpans::Log));
        if let Some((resource, scope, log)) = told.first() {
            assert_eq!(find(&resource.attributes, "service.name"), s("shop"));
            assert_eq!((&**scope, &*log.event_name), ("scope", "perfring.span.start"));
            assert_eq!((&*log.trace_id, &*log.span_id), (&TRACE.0[..], &SPAN.0[..]));
            assert_eq!(find(&log.attributes, "a"), i(1));
            assert_eq!(find(&log.attributes, "perfring.span.name"), s("GET /"));
            assert_eq!(
                find(&log.attributes, "perfring.span.parent_span_id"),
                s("0909090909090909")
            );
            assert!(log.time_unix_nano > 0);
        }
        feed.sink.emit(&end()).unwrap();
        feed.pump(&mut seqs, &mut otlp);
        close(otlp);
        let all = spans(&server);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].2.kind, all[0].2.attributes.len()), (2, 3));
    }
}

#[test]
fn what_waits_holds_a_quarter_of_its_ring_at_most() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    feed.origin.data_size = 4096;
    let options = perfring_export::otlp::Options {
        span_wait_ms: 3_600_000,
        metric_interval_ms: 3_600_000,
        resource_wait_ms: 3_600_000,
        ..options(&server)
    };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    feed.sink.emit(&start()).unwrap();
    feed.sink.emit(&Gauge::new("g", 1u64)).unwrap();
    let not_resource =
        |rec: &perfring_export::Rec<'_>| rec.kind_of().unwrap().name != "perfring.Resource";
    feed.pump_if(&mut seqs, &mut otlp, not_resource);
    assert_eq!((spans(&server).len(), metrics(&server).len()), (0, 0));
    assert_eq!(otlp.undelivered(), Some(1));
    for number in 0..100u64 {
        feed.sink.emit(&Log { body: number.into(), ..Log::default() }).unwrap();
    }
    feed.pump_if(&mut seqs, &mut otlp, not_resource);
    let last = seqs.next;
    until("nothing is held but what came last", || {
        otlp.flush().unwrap();
        otlp.undelivered().is_none_or(|seq| seq > last - 60)
    });
    assert_eq!(metrics(&server).len(), 1);
    // The resource was not waited for any longer.
    let told = logs(&server);
    let start = told.iter().find(|row| row.2.event_name == "perfring.span.start").unwrap();
    assert_eq!(find(&start.0.attributes, "service.name"), s("test"));
    close(otlp);
}

#[test]
fn too_many_open_spans_are_told_oldest_first() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let options = perfring_export::otlp::Options { open_spans: 3, ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    for number in 1..=5 {
        feed.sink.emit(&SpanStart::new(TRACE, SpanId([number; 8]), "s")).unwrap();
    }
    feed.pump(&mut seqs, &mut otlp);
    until("two are sent", || {
        otlp.flush().unwrap();
        spans(&server).len() == 2
    });
    for (at, (_, _, span)) in spans(&server).iter().enumerate() {
        assert_eq!(span.span_id, [at as u8 + 1; 8]);
        assert!(span.status.as_ref().unwrap().message.contains("too many spans are open"));
    }
    close(otlp);
}

fn number(metric: &Metric) -> &NumberDataPoint {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => &gauge.data_points[0],
        Data::Sum(sum) => &sum.data_points[0],
        other => panic!("{other:?}"),
    }
}

fn histogram(metric: &Metric) -> (&HistogramDataPoint, i32) {
    let Some(Data::Histogram(of)) = &metric.data else { panic!("{metric:?}") };
    assert_eq!(of.data_points.len(), 1);
    (&of.data_points[0], of.aggregation_temporality)
}

#[test]
fn every_field_of_samples_arrives() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let mut otlp = open(&server);
    let attributes = &[("k", Value::Str("v"))];
    let gauge = Gauge { unit: "By", description: "d", attributes, ..Gauge::new("g", -1i64) };
    feed.sink.emit(&gauge).unwrap();
    let sum = Sum { unit: "1", description: "e", attributes, ..Sum::cumulative("s", 3u64) };
    feed.sink.emit(&Sum { start_time_unix_nano: Some(4), ..sum }).unwrap();
    feed.sink.emit(&Sum { is_monotonic: false, ..Sum::delta("down", -2.5) }).unwrap();
    feed.sink
        .emit(&Histogram {
            unit: "s",
            temporality: Temporality::Cumulative,
            start_time_unix_nano: Some(4),
            count: Some(3),
            sum: Some(1.5),
            min: Some(0.25),
            max: Some(1.0),
            attributes,
            ..Histogram::state("h", &[0.5, 1.0], &[1, 2, 0])
        })
        .unwrap();
    feed.sink.emit(&Histogram::one("one", 42.0)).unwrap();
    feed.sink.emit(&Sum::cumulative("from start", 1u64)).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    close(otlp);
    let all = metrics(&server);
    let of = |name: &str| &all.iter().find(|row| row.2.name == name).unwrap().2;

    let got = of("g");
    assert_eq!((&*got.unit, &*got.description), ("By", "d"));
    let point = number(got);
    assert_eq!((point.value, point.start_time_unix_nano), (Some(Point::AsInt(-1)), 0));
    assert!(point.time_unix_nano > 1_600_000_000_000_000_000);
    assert_eq!(find(&point.attributes, "k"), s("v"));

    let got = of("s");
    let Some(Data::Sum(sum)) = &got.data else { panic!() };
    assert_eq!((sum.is_monotonic, sum.aggregation_temporality), (true, 2));
    assert_eq!((number(got).value, number(got).start_time_unix_nano), (Some(Point::AsInt(3)), 4));

    let got = of("down");
    let Some(Data::Sum(sum)) = &got.data else { panic!() };
    assert_eq!((sum.is_monotonic, sum.aggregation_temporality), (false, 1));
    assert_eq!(number(got).value, Some(Point::AsDouble(-2.5)));

    let (point, temporality) = histogram(of("h"));
    assert_eq!((point.count, point.sum, temporality), (3, Some(1.5), 2));
    assert_eq!((point.min, point.max, point.start_time_unix_nano), (Some(0.25), Some(1.0), 4));
    assert_eq!((&*point.explicit_bounds, &*point.bucket_counts), (&[0.5, 1.0][..], &[1, 2, 0][..]));
    assert_eq!(find(&point.attributes, "k"), s("v"));

    let (point, temporality) = histogram(of("one"));
    assert_eq!((point.count, point.sum, temporality), (1, Some(42.0), 1));
    assert_eq!((point.explicit_bounds.len(), point.bucket_counts.len()), (15, 16));
    assert_eq!(point.bucket_counts[4], 1, "25 < 42 <= 50");

    let begun = number(of("from start"));
    assert!(begun.start_time_unix_nano > 1_600_000_000_000_000_000, "that of the resource");
    assert!(begun.start_time_unix_nano < begun.time_unix_nano);
}

#[test]
fn samples_are_gathered_and_nothing_of_them_is_lost() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let options =
        perfring_export::otlp::Options { metric_interval_ms: 3_600_000, ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    for at in 0..1000u64 {
        let which = &[("k", Value::U64(at % 2))];
        feed.sink.emit(&Sum { attributes: which, ..Sum::delta("delta", 1u64) }).unwrap();
        // As two threads: the greatest counts, not the last.
        let value = if at % 2 == 0 { at } else { at - 1 };
        feed.sink.emit(&Sum::cumulative("total", value)).unwrap();
        feed.sink.emit(&Gauge::new("gauge", at)).unwrap();
        feed.sink.emit(&Histogram::one("one", at as f64)).unwrap();
        feed.sink.emit(&Histogram::state("state", &[1.0], &[1, 2])).unwrap();
    }
    feed.sink.emit(&Sum::cumulative("total", 5u64)).unwrap();
    feed.sink.emit(&Histogram::state("state", &[2.0], &[1, 2])).unwrap(); // other bounds
    feed.pump(&mut seqs, &mut otlp);
    assert_eq!(metrics(&server).len(), 0);
    close(otlp);
    let all = metrics(&server);
    let of = |name: &str| &all.iter().find(|row| row.2.name == name).unwrap().2;
    let Some(Data::Sum(sum)) = &of("delta").data else { panic!() };
    let values: Vec<_> = sum.data_points.iter().map(|point| point.value).collect();
    assert_eq!(values, [Some(Point::AsInt(500)); 2]);
    assert_eq!(number(of("total")).value, Some(Point::AsInt(998)));
    assert_eq!(number(of("gauge")).value, Some(Point::AsInt(999)));
    let (point, _) = histogram(of("one"));
    assert_eq!((point.count, point.sum), (1000, Some(499_500.0)));
    assert_eq!((point.min, point.max), (Some(0.0), Some(999.0)));
    assert_eq!(point.bucket_counts.iter().sum::<u64>(), 1000);
    let Some(Data::Histogram(of)) = &of("state").data else { panic!() };
    let counts: Vec<_> = of.data_points.iter().map(|point| &*point.bucket_counts).collect();
    assert_eq!(counts, [&[1000, 2000][..], &[1, 2]]);
}

#[test]
fn a_sum_does_not_go_back_from_one_interval_to_the_next() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let mut otlp = open(&server); // each sample is a point
    for value in [5u64, 7, 6, 8] {
        feed.sink.emit(&Sum::cumulative("total", value)).unwrap();
    }
    feed.pump(&mut seqs, &mut otlp);
    close(otlp);
    let values: Vec<_> = metrics(&server).iter().map(|row| number(&row.2).value).collect();
    let expected = [5, 7, 7, 8].map(|value| Some(Point::AsInt(value)));
    assert_eq!(values, expected);
}

#[test]
fn a_record_before_its_resource_waits_for_it_and_not_for_ever() {
    for late in [true, false] {
        let (server, mut seqs) = (Server::start(), Numbers::default());
        let mut feed = Feed::new(1, "ring");
        let wait = if late { 3_600_000 } else { 0 };
        let options = perfring_export::otlp::Options { resource_wait_ms: wait, ..options(&server) };
        let mut otlp = Otlp::open("otlp", &options).unwrap();
        feed.sink.emit(&Log { body: "first".into(), ..Log::default() }).unwrap();
        feed.sink.emit(&Gauge::new("g", 1u64)).unwrap();
        let is_resource =
            |rec: &perfring_export::Rec<'_>| rec.kind_of().unwrap().name == "perfring.Resource";
        feed.pump_if(&mut seqs, &mut otlp, |rec| !is_resource(rec));
        if late {
            otlp.flush().unwrap();
            assert_eq!(otlp.undelivered(), Some(1));
            // The same ring from its beginning: here only the resource.
            let mut again = Feed::with(
                1,
                "ring",
                perfring_telemetry::options(),
                perfring_telemetry::Resource::default().with("service.name", "late"),
            );
            again.began = true;
            again.pump_if(&mut seqs, &mut otlp, is_resource);
        }
        until("it is sent", || {
            otlp.flush().unwrap();
            otlp.undelivered().is_none()
        });
        let service = s(if late { "late" } else { "test" });
        let (told, _, _) = &logs(&server)[0];
        assert_eq!(find(&told.attributes, "service.name"), service);
        assert_eq!(find(&told.attributes, "process.pid"), i(std::process::id().into()));
        assert_eq!(find(&metrics(&server)[0].0.attributes, "service.name"), service);
        close(otlp);
    }
}

#[test]
fn losses_are_a_log_record_and_counts() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let options =
        perfring_export::otlp::Options { metric_interval_ms: 3_600_000, ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    for (pos, cause) in [(64, Cause::Full), (128, Cause::Full), (192, Cause::Lapped)] {
        let cause = LossCause::Ring(cause);
        let loss = Loss { pos, records: 3, bytes: 100, cause, time: Some(1), wall: Some(99) };
        feed.lose(&mut seqs, &mut otlp, loss);
    }
    close(otlp);
    let all = logs(&server);
    assert_eq!(all.len(), 3);
    let (resource, _, log) = &all[0];
    assert_eq!(find(&resource.attributes, "perfring.ring.name"), s("ring"));
    assert_eq!((log.time_unix_nano, &*log.event_name), (99, "perfring.loss"));
    assert_eq!(find(&log.attributes, "perfring.lost.records"), i(3));
    assert_eq!(find(&log.attributes, "perfring.lost.cause"), s("full"));
    assert_eq!(
        find(&log.attributes, "perfring.key"),
        s("07070707070707070707070707070701-64-lost")
    );
    let all = metrics(&server);
    let (_, _, lost) = all.iter().find(|row| row.2.name == "perfring.lost_records").unwrap();
    let Some(Data::Sum(sum)) = &lost.data else { panic!() };
    let mut counts: Vec<_> =
        sum.data_points.iter().map(|it| (find(&it.attributes, "cause"), it.value)).collect();
    counts.sort_by_key(|count| format!("{count:?}"));
    let expected = [(s("full"), Some(Point::AsInt(6))), (s("lapped"), Some(Point::AsInt(3)))];
    assert_eq!(counts, expected);
    assert_eq!(find(&sum.data_points[0].attributes, "ring"), s("ring"));
}

#[test]
fn records_without_a_class_are_log_records_if_wanted() {
    for plain in [Plain::Logs, Plain::Off] {
        let (server, mut seqs) = (Server::start(), Numbers::default());
        let mut feed = Feed::new(1, "ring");
        let options = perfring_export::otlp::Options { plain, ..options(&server) };
        let mut otlp = Otlp::open("otlp", &options).unwrap();
        let fields = [Field::new("x", 0, Shape::ANY)];
        let odd = feed.sink.declare(Class::Plain, "demo.Point", "", &fields).unwrap();
        feed.sink.write(odd, |values| values.u64("x", 5)).unwrap();
        // A sum that does not say what it counts from is none.
        let bad = feed.sink.declare(Class::Sum, "demo.Bad", "", &[]).unwrap();
        feed.sink.write(bad, |values| values.text(names::NAME, "n")).unwrap();
        let other =
            perfring_telemetry::producer::SharedProducer::attach(feed.path.clone()).unwrap();
        other.publish(RecordType::BYTES, b"a line").unwrap();
        let line = Schema::new("demo.Line", Encoding::Utf8).with_hashed_id();
        other.register(&line).unwrap();
        other.publish(line.id, b"a typed line").unwrap();
        feed.pump(&mut seqs, &mut otlp);
        close(otlp);
        let all = logs(&server);
        let of = |name: &str| all.iter().find(|row| row.2.event_name == name).map(|row| &row.2);
        let fault = find(&of("demo.Bad").unwrap().attributes, "perfring.fault");
        assert_eq!(fault, s("a sum without a finite number"));
        assert_eq!(find(&of("demo.Bad").unwrap().attributes, "name"), s("n"));
        if plain == Plain::Off {
            assert_eq!(all.len(), 1);
            continue;
        }
        assert_eq!(find(&of("demo.Point").unwrap().attributes, "x"), i(5));
        assert_eq!(of("demo.Line").unwrap().body.clone().unwrap().value, s("a typed line"));
        let bytes = of("").unwrap();
        assert_eq!(bytes.body.clone().unwrap().value, s("a line"));
        let kind = i64::from(RecordType::BYTES.get());
        assert_eq!(find(&bytes.attributes, "perfring.type"), i(kind));
    }
}

#[test]
fn signals_that_are_not_wanted_are_taken_and_left_out() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let signals = vec![perfring_export::otlp::Lane::Traces];
    let options = perfring_export::otlp::Options { signals, ..options(&server) };
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    feed.sink.emit(&Log { body: "b".into(), ..Log::default() }).unwrap();
    feed.sink.emit(&Gauge::new("g", 1u64)).unwrap();
    feed.sink.emit(&start()).unwrap();
    feed.sink.emit(&end()).unwrap();
    feed.pump(&mut seqs, &mut otlp);
    close(otlp);
    assert_eq!((logs(&server).len(), metrics(&server).len(), spans(&server).len()), (0, 0, 1));
}
