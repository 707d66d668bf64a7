//! What is in the ring, field by field; and what is not, which is counted and said once.

use crate::rows::{of, ring, rows, s};
use crate::tee::Tee;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger, LoggerProvider};
use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanId, Status, TraceFlags, TraceId, TraceState,
    Tracer, TracerProvider,
};
use opentelemetry::{Array, InstrumentationScope, KeyValue, Value as Sdk};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use perfring_opentelemetry::{Lack, RingExporter};
use perfring_types::Class;
use perfring_types::read::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn at(ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(ns)
}

fn shop() -> Resource {
    let zones = Sdk::Array(Array::String(vec!["a".into(), "b".into()]));
    let attributes = [
        KeyValue::new("service.name", "shop"),
        KeyValue::new("cpus", 8),
        KeyValue::new("zones", zones),
    ];
    Resource::builder_empty().with_attributes(attributes).build()
}

#[test]
fn a_span_is_in_the_ring_with_the_times_of_the_past() {
    let (_dir, path, ring) = ring();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(ring.spans())
        .with_resource(shop())
        .build();
    let tracer = provider.tracer("library");
    let other = SpanContext::new(
        TraceId::from_bytes([2; 16]),
        SpanId::from_bytes([3; 8]),
        TraceFlags::SAMPLED,
        true,
        TraceState::default(),
    );
    let links = vec![Link::new(other.clone(), Vec::new(), 0), Link::new(other, Vec::new(), 0)];
    let builder = SpanBuilder::from_name("serve").with_start_time(at(1_000)).with_links(links);
    let mut span = tracer.build(builder.with_attributes([KeyValue::new("order", 17)]));
    span.add_event_with_timestamp("retry", at(1_500), vec![KeyValue::new("body", "b")]);
    span.set_status(Status::error("no room"));
    let (trace, its) = (span.span_context().trace_id(), span.span_context().span_id());
    span.end_with_timestamp(at(3_001));
    provider.force_flush().unwrap();

    let ids = || {
        let bytes = |id: &[u8]| Value::Bytes(id.to_vec());
        vec![
            ("trace_id".to_owned(), bytes(&trace.to_bytes())),
            ("span_id".to_owned(), bytes(&its.to_bytes())),
        ]
    };
    let with = |time: u64, more: Vec<(&str, Value)>| {
        let mut all = vec![("time_unix_nano".to_owned(), Value::U64(time))];
        all.extend(ids());
        all.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    let link =
        [("link.trace_id", Value::Bytes(vec![2; 16])), ("link.span_id", Value::Bytes(vec![3; 8]))];
    let scope = ("otel.scope.name", s("library"));
    let more = vec![
        ("name", s("serve")),
        ("kind", Value::U64(1)),
        scope.clone(),
        ("order", Value::I64(17)),
    ];
    let wanted = [
        (Class::SpanStart, with(1_000, [more, link.to_vec()].concat())),
        (Class::SpanStart, with(1_000, link.to_vec())),
        (
            Class::Log,
            with(1_500, vec![("event_name", s("retry")), scope, ("attributes.body", s("b"))]),
        ),
        (
            Class::SpanEnd,
            with(
                3_001,
                vec![
                    ("name", s("serve")),
                    ("duration_nano", Value::U64(2_001)),
                    ("status.code", Value::U64(2)),
                    ("status.message", s("no room")),
                ],
            ),
        ),
    ];
    let all = rows(&path);
    let got: Vec<_> = all.iter().filter(|row| row.class != Class::Resource).collect();
    for (got, (class, fields)) in got.iter().zip(&wanted) {
        let mut its = got.fields();
        its.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!((got.class, &its), (*class, fields));
    }
    assert_eq!(got.len(), 4);
    let resource = &of(Class::Resource, &path)[0];
    let zones = Value::List(vec![s("a"), s("b")]);
    assert_eq!(resource.get("service.name"), Some(s("shop")));
    assert_eq!((resource.get("cpus"), resource.get("zones")), (Some(Value::I64(8)), Some(zones)));
    let pid = Some(Value::U64(std::process::id().into()));
    assert!(all.iter().all(|row| row.get("process.pid") == pid));
    provider.shutdown().unwrap();
}

/// Asserts these counts, and that one result named each.
fn assert_lacks(ring: &RingExporter, said: &str, wanted: &[(Lack, u64)]) {
    for lack in Lack::ALL {
        let count = wanted.iter().find(|(its, _)| its == lack).map_or(0, |(_, count)| *count);
        assert_eq!(ring.lack(*lack), count, "{lack:?}");
        assert_eq!(said.contains(lack.name()), count > 0, "{lack:?}: {said}");
    }
    assert_eq!(ring.dropped(), 0);
}

#[test]
fn what_spans_have_and_records_do_not_is_counted_and_said_once() {
    let (_dir, path, ring) = ring();
    let (tee, kept) = Tee::new(ring.spans());
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(tee)
        .with_resource(shop())
        .with_max_events_per_span(1)
        .with_max_links_per_span(2)
        .build();
    let scope = InstrumentationScope::builder("library")
        .with_version("1.0")
        .with_schema_url("https://example.com")
        .with_attributes([KeyValue::new("a", 1), KeyValue::new("b", 2)])
        .build();
    let state = TraceState::from_key_value([("vendor", "x")]).unwrap();
    let other = SpanContext::new(
        TraceId::from_bytes([2; 16]),
        SpanId::from_bytes([3; 8]),
        TraceFlags::SAMPLED,
        true,
        state,
    );
    let attributes = || vec![KeyValue::new("k", 1)];
    let links = (0..3).map(|_| Link::new(other.clone(), attributes(), 0)).collect();
    let name = "n".repeat(300);
    let list = |texts: &[&'static str]| {
        Sdk::Array(Array::String(texts.iter().map(|text| (*text).into()).collect()))
    };
    let builder = SpanBuilder::from_name("serve").with_links(links).with_attributes([
        KeyValue::new("one text", list(&["a"])),
        KeyValue::new("one negative", Sdk::Array(vec![-1i64].into())),
        KeyValue::new("twice", 1),
        KeyValue::new("twice", "last"),
        KeyValue::new(name.clone(), true),
        KeyValue::new("long", "x".repeat(1 << 17)),
    ]);
    let tracer = provider.tracer_with_scope(scope.clone());
    let mut span = tracer.build(builder);
    span.add_event("kept", Vec::new());
    span.add_event("dropped", Vec::new());
    span.end();
    let said = kept.results().remove(0).unwrap_err();
    assert!(said.contains("this is said once"), "{said}");
    let wanted = [
        (Lack::ScopeVersions, 2),
        (Lack::SchemaUrls, 2),
        (Lack::ScopeAttributes, 4),
        (Lack::TraceStates, 2),
        (Lack::LinkAttributes, 2),
        (Lack::DroppedCounts, 2),
        (Lack::Retyped, 2),
        (Lack::Replaced, 1),
        (Lack::LongNames, 1),
        (Lack::LongRecords, 1),
    ];
    assert_lacks(&ring, &said, &wanted);
    let start = &of(Class::SpanStart, &path)[0];
    assert_eq!(
        (start.get("one text"), start.get("one negative")),
        (Some(s("a")), Some(Value::I64(-1)))
    );
    assert_eq!(start.get("twice"), Some(s("last")));
    assert_eq!(start.get(&name[..255]), Some(Value::Bool(true)));
    assert_eq!(start.get("…"), Some(Value::U64(1)), "what had no room");
    // Again: counted, and not said.
    tracer.build(SpanBuilder::from_name("again")).end();
    assert_eq!(kept.results(), [Ok(())]);
    assert_eq!(ring.lack(Lack::ScopeVersions), 3);
}

#[test]
fn what_logs_have_and_records_do_not_is_counted_and_said_once() {
    let (_dir, path, ring) = ring();
    let (tee, kept) = Tee::new(ring.logs());
    let provider =
        SdkLoggerProvider::builder().with_simple_exporter(tee).with_resource(shop()).build();
    let logger = provider.logger("library");
    let mut log = logger.create_log_record();
    let raw = || AnyValue::Bytes(Box::new(vec![0, 255]));
    let inner: AnyValue = ["a", "b"].into_iter().collect();
    let map: AnyValue = [("b", inner.clone()), ("a", AnyValue::Double(f64::NAN)), ("c", raw())]
        .into_iter()
        .collect();
    log.set_body(map);
    log.add_attribute("nested", [inner, AnyValue::Boolean(true)].into_iter().collect::<AnyValue>());
    log.add_attribute("one", ["a"].into_iter().collect::<AnyValue>());
    log.add_attribute("twice", 1);
    log.add_attribute("twice", 2);
    logger.emit(log);
    let said = kept.results().remove(0).unwrap_err();
    assert_lacks(&ring, &said, &[(Lack::Retyped, 3), (Lack::Replaced, 1)]);
    let log = &of(Class::Log, &path)[0];
    assert_eq!(log.get("body"), Some(s(r#"{"a":"NaN","b":["a","b"],"c":"00ff"}"#)));
    assert_eq!(log.get("nested"), Some(s(r#"[["a","b"],true]"#)));
    assert_eq!((log.get("one"), log.get("twice")), (Some(s("a")), Some(Value::I64(2))));
    // It had no time: that of its observation.
    let observed = log.get("observed_time_unix_nano");
    assert!(observed.is_some() && log.get("time_unix_nano") == observed);
}
