//! What the sidecar's OTLP output makes of a ring is what the SDK's own OTLP exporter would send, but for what the
//! documentation lists.

use crate::rows::ring;
use crate::tee::Tee;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger, LoggerProvider, Severity};
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt,
    TraceFlags, TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Array, Context, InstrumentationScope, KeyValue, Value};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope as Scope, KeyValue as Pair};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs};
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, metric::Data};
use opentelemetry_proto::tonic::resource::v1::Resource as Its;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::{
    Aggregation, Instrument, PeriodicReader, SdkMeterProvider, Stream, Temporality,
};
use opentelemetry_sdk::trace::SdkTracerProvider;
use perfring_consumer::{Item, Observer, Start};
use perfring_events::Shapes;
use perfring_events::{Event as Taken, What};
use perfring_opentelemetry::Lack;
use perfring_otlp::{Lane, Mapper, Mapping};
use prost::Message as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn at(ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(ns)
}

/// The requests that the sidecar would send: of this lane, encoded.
fn forwarded(path: &Path, lane: Lane) -> Vec<Vec<u8>> {
    let mut observer = Observer::attach(path, Start::Oldest).unwrap();
    let mut shapes = Shapes::open(path, 1).unwrap();
    let mut mapper = Mapper::new(&Mapping { key: false, ..Mapping::default() });
    mapper.take(&Taken { seq: 0, origin: shapes.origin(), what: What::Began });
    let mut seq = 1;
    while let Some(item) = observer.read().unwrap() {
        let Item::Record(record) = item else { panic!("the test's ring lost something") };
        shapes.prepare(&record);
        let origin = shapes.origin();
        let what = What::Record(perfring_events::Rec::new(record, origin));
        mapper.take(&Taken { seq, origin, what });
        seq += 1;
    }
    mapper.close();
    let ready = mapper.ready().into_iter();
    ready.filter(|(its, _)| *its == lane).map(|(_, batch)| batch.into_message()).collect()
}

fn sorted(mut pairs: Vec<Pair>) -> Vec<Pair> {
    pairs.sort_by(|a, b| a.key.cmp(&b.key));
    pairs
}

/// Without what the ring adds.
fn resource(resource: Option<Its>) -> Vec<Pair> {
    let mut pairs = sorted(resource.unwrap().attributes);
    pairs.retain(|pair| !pair.key.starts_with("perfring.ring.") && pair.key != "process.pid");
    assert!(!pairs.is_empty());
    pairs
}

fn scope(scope: Option<Scope>) -> String {
    scope.unwrap().name
}

/// Something that was sent, with its resource and the name of its scope.
type Sent<T> = (Vec<Pair>, String, T);

fn spans(all: Vec<ResourceSpans>) -> Vec<Sent<Span>> {
    let mut sent = Vec::new();
    for of in all {
        let of_process = resource(of.resource);
        for of in of.scope_spans {
            let name = scope(of.scope);
            sent.extend(of.spans.into_iter().map(|span| (of_process.clone(), name.clone(), span)));
        }
    }
    sent.sort_by(|a, b| a.2.span_id.cmp(&b.2.span_id));
    sent
}

fn logs(all: Vec<ResourceLogs>) -> Vec<Sent<LogRecord>> {
    let mut sent = Vec::new();
    for of in all {
        let of_process = resource(of.resource);
        for of in of.scope_logs {
            let name = scope(of.scope);
            let logs = of.log_records.into_iter();
            sent.extend(logs.map(|log| (of_process.clone(), name.clone(), log)));
        }
    }
    sent.sort_by(|a, b| {
        (a.2.time_unix_nano, &a.2.event_name).cmp(&(b.2.time_unix_nano, &b.2.event_name))
    });
    sent
}

/// A process's resource, with values of all types.
fn shop() -> Resource {
    let attributes = [
        KeyValue::new("service.name", "shop"),
        KeyValue::new("canary", true),
        KeyValue::new("cpus", 8),
        KeyValue::new("load", 0.5),
        KeyValue::new("zones", texts(&["a", "b"])),
        KeyValue::new("ports", Value::Array(vec![80i64].into())),
        KeyValue::new("start_time_unix_nano", "reserved"),
    ];
    Resource::builder_empty().with_attributes(attributes).build()
}

fn texts(texts: &[&'static str]) -> Value {
    Value::Array(Array::String(texts.iter().map(|text| (*text).into()).collect()))
}

/// Attributes of all types, in all lengths of lists that keep their type.
fn attributes() -> Vec<KeyValue> {
    let list = |array: Array| Value::Array(array);
    vec![
        KeyValue::new("yes", true),
        KeyValue::new("int", -7),
        KeyValue::new("least", i64::MIN),
        KeyValue::new("double", 0.1),
        KeyValue::new("infinite", f64::NEG_INFINITY),
        KeyValue::new("text", "tëxt"),
        KeyValue::new("empty", ""),
        KeyValue::new("name", "reserved"),
        KeyValue::new("attributes.name", "with the prefix"),
        KeyValue::new("texts", texts(&["a", "b", "a"])),
        KeyValue::new("no texts", texts(&[])),
        KeyValue::new("truths", list(vec![true, false].into())),
        KeyValue::new("ints", list(vec![1i64, 2].into())),
        KeyValue::new("mixed ints", list(vec![-1i64, i64::MAX].into())),
        KeyValue::new("one int", list(vec![3i64].into())),
        KeyValue::new("doubles", list(vec![0.5, f64::INFINITY].into())),
        KeyValue::new("one double", list(vec![0.5].into())),
    ]
}

fn context(trace: u8, span: u8) -> SpanContext {
    let (trace, span) = (TraceId::from_bytes([trace; 16]), SpanId::from_bytes([span; 8]));
    SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::default())
}

fn make_spans(provider: &SdkTracerProvider) {
    let (shop, store) = (provider.tracer("shop"), provider.tracer("store"));
    let link = |of| Link::new(of, Vec::new(), 0);
    let parent = Context::new().with_remote_span_context(context(1, 9));
    let serve = SpanBuilder::from_name("serve")
        .with_kind(SpanKind::Server)
        .with_start_time(at(1_700_000_000_000_000_001))
        .with_attributes(attributes())
        .with_links(vec![link(context(2, 3)), link(context(4, 5)), link(context(4, 6))]);
    let mut serve = shop.build_with_context(serve, &parent);
    serve.add_event_with_timestamp("retry", at(1_700_000_000_000_000_555), attributes());
    serve.add_event_with_timestamp("give up", at(1_700_000_000_000_000_777), Vec::new());
    let within = parent.with_remote_span_context(serve.span_context().clone());
    serve.set_status(Status::error("no room"));
    serve.end_with_timestamp(at(1_700_000_003_000_000_002));
    let kinds = [SpanKind::Internal, SpanKind::Client, SpanKind::Producer, SpanKind::Consumer];
    for (nth, kind) in kinds.into_iter().enumerate() {
        let nth = nth as u64;
        // The last two are roots; one has no duration.
        let parent = if nth < 2 { within.clone() } else { Context::new() };
        let start = 1_700_000_000_000_000_000 + nth;
        let builder = SpanBuilder::from_name(format!("work {nth}"));
        let builder = builder.with_kind(kind).with_start_time(at(start));
        let mut span = store.build_with_context(builder, &parent);
        if nth == 1 {
            span.set_status(Status::Ok);
        }
        span.end_with_timestamp(at(start + nth * 1_000_000));
    }
}

#[test]
fn spans_links_and_events_are_forwarded_as_the_sdk_would() {
    for is_batch in [false, true] {
        let (_dir, path, ring) = ring();
        let (tee, kept) = Tee::new(ring.spans());
        let builder = SdkTracerProvider::builder().with_resource(shop());
        let provider = if is_batch {
            builder.with_batch_exporter(tee).build()
        } else {
            builder.with_simple_exporter(tee).build()
        };
        make_spans(&provider);
        provider.force_flush().unwrap();
        provider.shutdown().unwrap();
        assert!(kept.results().iter().all(Result::is_ok));
        let mut theirs = spans(kept.sent());
        // Not carried, and not counted: flags. A span's events are log records.
        let mut events = Vec::new();
        for (of_process, name, span) in &mut theirs {
            span.flags = 0;
            span.links.iter_mut().for_each(|link| link.flags = 0);
            for event in std::mem::take(&mut span.events) {
                let log = LogRecord {
                    time_unix_nano: event.time_unix_nano,
                    event_name: event.name,
                    attributes: event.attributes,
                    trace_id: span.trace_id.clone(),
                    span_id: span.span_id.clone(),
                    ..LogRecord::default()
                };
                events.push((of_process.clone(), name.clone(), log));
            }
        }
        let ours = forwarded(&path, Lane::Traces).into_iter().flat_map(|message| {
            ExportTraceServiceRequest::decode(&*message).unwrap().resource_spans
        });
        let ours = spans(ours.collect());
        assert_eq!((ours.len(), events.len()), (5, 2));
        assert_eq!(ours, theirs);
        let logs_sent = forwarded(&path, Lane::Logs)
            .into_iter()
            .flat_map(|message| ExportLogsServiceRequest::decode(&*message).unwrap().resource_logs);
        let mut logs_sent = logs(logs_sent.collect());
        for (_, _, log) in &mut logs_sent {
            assert!(log.observed_time_unix_nano > 0, "when the sidecar saw it");
            log.observed_time_unix_nano = 0;
        }
        assert_eq!(logs_sent, events);
        assert_eq!(ring.dropped(), 0);
        assert!(Lack::ALL.iter().all(|lack| ring.lack(*lack) == 0));
    }
}

fn make_logs(provider: &SdkLoggerProvider) {
    let logger = provider.logger("library");
    let mut log = logger.create_log_record();
    log.set_timestamp(at(1_700_000_000_000_000_001));
    log.set_observed_timestamp(at(1_700_000_000_000_000_002));
    log.set_severity_number(Severity::Warn2);
    log.set_severity_text("warning");
    log.set_event_name("disk.full");
    log.set_target("shop::disk");
    log.set_body(AnyValue::from("disk is nearly full"));
    log.set_trace_context(TraceId::from_bytes([1; 16]), SpanId::from_bytes([2; 8]), None);
    let any = |values: &[i64]| {
        AnyValue::ListAny(Box::new(values.iter().map(|it| (*it).into()).collect()))
    };
    log.add_attributes([
        ("yes", AnyValue::Boolean(true)),
        ("int", (-7i64).into()),
        ("double", 0.1.into()),
        ("text", "tëxt".into()),
        ("raw", AnyValue::Bytes(Box::new(vec![0, 255]))),
        ("list", any(&[1, -2])),
        ("one", any(&[3])),
        ("none", any(&[])),
        ("body", "reserved".into()),
    ]);
    logger.emit(log);
    let mut bodies = vec![AnyValue::Int(17), AnyValue::Double(0.5), AnyValue::Boolean(false)];
    bodies.push(AnyValue::Bytes(Box::new(vec![1, 2])));
    bodies.push(any(&[5, 6]));
    for (nth, body) in bodies.into_iter().enumerate() {
        // The number alone, the text alone, and neither.
        let mut log = logger.create_log_record();
        log.set_timestamp(at(1_700_000_001_000_000_000 + nth as u64));
        log.set_body(body);
        match nth {
            0 => log.set_severity_number(Severity::Trace),
            1 => log.set_severity_text("odd"),
            _ => {}
        }
        logger.emit(log);
    }
}

#[test]
fn log_records_are_forwarded_as_the_sdk_would() {
    for is_batch in [false, true] {
        let (_dir, path, ring) = ring();
        let (tee, kept) = Tee::new(ring.logs());
        let builder = SdkLoggerProvider::builder().with_resource(shop());
        let provider = if is_batch {
            builder.with_batch_exporter(tee).build()
        } else {
            builder.with_simple_exporter(tee).build()
        };
        make_logs(&provider);
        provider.force_flush().unwrap();
        provider.shutdown().unwrap();
        assert!(kept.results().iter().all(Result::is_ok));
        let theirs = logs(kept.sent());
        let ours = forwarded(&path, Lane::Logs)
            .into_iter()
            .flat_map(|message| ExportLogsServiceRequest::decode(&*message).unwrap().resource_logs);
        assert_eq!(logs(ours.collect()), theirs);
        assert_eq!(theirs.len(), 6);
        assert!(Lack::ALL.iter().all(|lack| ring.lack(*lack) == 0));
    }
}

/// Metrics in one order, without the start of gauges.
fn metrics(all: Vec<ResourceMetrics>) -> Vec<Sent<Metric>> {
    let mut sent = Vec::new();
    for of in all {
        let of_process = resource(of.resource);
        for of in of.scope_metrics {
            let name = scope(of.scope);
            for mut metric in of.metrics {
                match metric.data.as_mut().unwrap() {
                    Data::Gauge(of) => {
                        of.data_points.iter_mut().for_each(|point| {
                            point.start_time_unix_nano = 0;
                            point.attributes = sorted(point.attributes.clone());
                        });
                        of.data_points.sort_by_key(|point| format!("{:?}", point.attributes));
                    }
                    Data::Sum(of) => {
                        for point in &mut of.data_points {
                            point.attributes = sorted(point.attributes.clone());
                        }
                        of.data_points.sort_by_key(|point| format!("{:?}", point.attributes));
                    }
                    Data::Histogram(of) => {
                        for point in &mut of.data_points {
                            point.attributes = sorted(point.attributes.clone());
                        }
                        of.data_points.sort_by_key(|point| format!("{:?}", point.attributes));
                    }
                    Data::ExponentialHistogram(of) => {
                        for point in &mut of.data_points {
                            point.attributes = sorted(point.attributes.clone());
                        }
                    }
                    other => panic!("{other:?}"),
                }
                sent.push((of_process.clone(), name.clone(), metric));
            }
        }
    }
    sent.sort_by(|a, b| a.2.name.cmp(&b.2.name));
    sent
}

#[test]
fn points_are_forwarded_as_the_sdk_would() {
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let (_dir, path, ring) = ring();
        let (tee, kept) = Tee::new(ring.metrics().with_temporality(temporality));
        let reader = PeriodicReader::builder(tee).with_interval(Duration::from_secs(3600)).build();
        let exponential = |instrument: &Instrument| {
            let aggregation = Aggregation::Base2ExponentialHistogram {
                max_size: 160,
                max_scale: 20,
                record_min_max: true,
            };
            let stream = Stream::builder().with_aggregation(aggregation).build();
            stream.ok().filter(|_| instrument.name() == "exponential")
        };
        let provider = SdkMeterProvider::builder()
            .with_reader(reader)
            .with_view(exponential)
            .with_resource(shop())
            .build();
        let meter = provider.meter("shop");
        let a = [KeyValue::new("k", "a"), KeyValue::new("list", texts(&["x", "y"]))];
        let b = [KeyValue::new("k", "b"), KeyValue::new("value", 1)]; // a reserved name
        let orders = meter.u64_counter("orders").with_unit("{order}").with_description("d").build();
        orders.add(17, &a);
        orders.add(u64::from(u32::MAX) + 1, &b);
        meter.f64_counter("seconds").with_unit("s").build().add(0.25, &[]);
        meter.i64_up_down_counter("open").build().add(-3, &a);
        meter.f64_gauge("temperature").with_unit("Cel").build().record(-0.5, &b);
        meter.i64_gauge("depth").build().record(i64::MIN, &[]);
        let took =
            meter.f64_histogram("took").with_unit("s").with_boundaries(vec![0.5, 1.0]).build();
        [0.25, 0.5, 0.75, 9.0].iter().for_each(|it| took.record(*it, &a));
        took.record(1.0, &b);
        let sizes = meter.u64_histogram("sizes").build();
        [0, 5, 6, 20_000].iter().for_each(|it| sizes.record(*it, &[]));
        let none = meter.f64_histogram("no_bounds").with_boundaries(Vec::new()).build();
        none.record(2.0, &[]);
        let exponential = meter.f64_histogram("exponential").with_unit("s").build();
        [0.25, 0.0, 1.0, 1.5, -3.0, 9e9].iter().for_each(|it| exponential.record(*it, &a));
        provider.force_flush().unwrap();
        let theirs = metrics(kept.sent());
        let ours = forwarded(&path, Lane::Metrics).into_iter().flat_map(|message| {
            ExportMetricsServiceRequest::decode(&*message).unwrap().resource_metrics
        });
        let ours = metrics(ours.collect());
        assert_eq!((ours.len(), theirs.len()), (9, 9));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs);
        }
        assert!(kept.results().iter().all(Result::is_ok));
        assert!(Lack::ALL.iter().all(|lack| ring.lack(*lack) == 0));
        provider.shutdown().unwrap();
    }
}

#[test]
fn what_the_limits_of_the_sdk_drop_is_counted_in_the_span() {
    let (_dir, path, ring) = ring();
    let (tee, kept) = Tee::new(ring.spans());
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(tee)
        .with_resource(shop())
        .with_max_attributes_per_span(3)
        .build();
    let scope = InstrumentationScope::builder("shop").build();
    let tracer = provider.tracer_with_scope(scope);
    let builder = SpanBuilder::from_name("serve").with_attributes(attributes());
    tracer.build(builder).end();
    let theirs = spans(kept.sent());
    let ours = forwarded(&path, Lane::Traces)
        .into_iter()
        .flat_map(|message| ExportTraceServiceRequest::decode(&*message).unwrap().resource_spans);
    let ours = spans(ours.collect());
    assert_eq!(ours[0].2.dropped_attributes_count as usize, attributes().len() - 3);
    assert_eq!(ours[0].2.dropped_attributes_count, theirs[0].2.dropped_attributes_count);
    assert_eq!(ours[0].2.attributes, theirs[0].2.attributes);
    // What the record has no room for is counted with it.
    let long = KeyValue::new("long", "x".repeat(1 << 17));
    let builder =
        SpanBuilder::from_name("long").with_attributes([vec![long], attributes()].concat());
    let mut span = tracer.build(builder);
    let its = span.span_context().span_id().to_bytes().to_vec();
    span.end();
    let ours = forwarded(&path, Lane::Traces)
        .into_iter()
        .flat_map(|message| ExportTraceServiceRequest::decode(&*message).unwrap().resource_spans);
    let long = spans(ours.collect()).into_iter().find(|(.., span)| span.span_id == its).unwrap();
    // One text was truncated; the two after it had no room.
    assert_eq!(long.2.dropped_attributes_count as usize, attributes().len() - 2 + 3);
    assert_eq!(ring.lack(Lack::LongRecords), 1);
}
