//! Every field of every ready type comes back under OpenTelemetry's name, and any attributes do.

use super::SHAPE;
use crate::shape::{Shape, records};
use perfring_telemetry::names::{self, AttributeName, attribute, reserved};
use perfring_telemetry::producer::{Options, RecordType};
use perfring_telemetry::{
    COMMON, FIRST, Gauge, Histogram, Log, Resource, Severity, Signal, Sink, SpanEnd, SpanId,
    SpanKind, SpanStart, Status, Sum, Temporality, TraceId, Value as Reported, options,
};
use perfring_types::Class;
use perfring_types::read::{TypeTable, Value};
use proptest::prelude::*;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

struct Row {
    class: Class,
    value: Value,
    /// By the ring's own timestamp, in ns since 1970.
    wall: Option<u64>,
}

impl Row {
    /// Names and values, but for what a sink adds.
    fn fields(&self) -> Vec<(&str, &Value)> {
        let Value::Struct(fields) = &self.value else { panic!("{:?}", self.value) };
        let reported = |name: &str| {
            name != names::PID
                && name != names::TIME
                && (name != names::START_TIME || self.class != Class::Resource)
        };
        fields
            .iter()
            .map(|(name, value)| (&**name, value))
            .filter(|(name, _)| reported(name))
            .collect()
    }
}

fn rows(path: &Path) -> Vec<Row> {
    records(path, |snapshot, record| {
        let types = TypeTable::from_entries(snapshot.types().entries());
        let of = types.get(RecordType::new(record.kind).unwrap()).unwrap();
        let value = of.decode(record.bytes).unwrap();
        let (class, wall) = (of.class.known().unwrap(), record.wall(snapshot.anchors()));
        Row { class, value, wall }
    })
}

/// Returns the records but for the resources, of which each ring per CPU may have one.
fn first_resource_and_rest(path: &Path) -> Vec<Row> {
    let mut resources = 0;
    let mut rows = rows(path);
    rows.retain(|row| {
        resources += u32::from(row.class == Class::Resource);
        row.class != Class::Resource || resources == 1
    });
    rows
}

fn sink() -> (tempfile::TempDir, PathBuf, Sink) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let resource = Resource::default().with("service.name", "test").with("a.b", "c");
    let resource = resource.with("process.pid", "not mine");
    let sink = SHAPE.sink(&path, &options(), resource);
    (dir, path, sink)
}

const TRACE: TraceId = TraceId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
const SPAN: SpanId = SpanId([8; 8]);

fn s(text: &str) -> Value {
    Value::Str(text.into())
}

#[test]
fn every_field_of_every_ready_type_comes_back() {
    let (_dir, path, sink) = sink();
    let attributes = &[("k", Reported::from(true))];
    sink.emit(&Log {
        severity: Some(Severity::Fatal2),
        body: "b".into(),
        trace_id: Some(TRACE),
        span_id: Some(SPAN),
        event_name: "e",
        observed_time_unix_nano: Some(5),
        scope: "s",
        file: "f",
        line: Some(7),
        attributes,
    })
    .unwrap();
    let start = SpanStart::new(TRACE, SPAN, "n");
    sink.emit(&SpanStart {
        parent_span_id: Some(SpanId([9; 8])),
        kind: Some(SpanKind::Server),
        link: Some((TRACE, SPAN)),
        scope: "s",
        attributes,
        ..start
    })
    .unwrap();
    sink.emit(&SpanEnd {
        parent_span_id: Some(SpanId([9; 8])),
        duration_nano: Some(1),
        status: Some((Status::Error, "why")),
        attributes,
        ..SpanEnd::new(TRACE, SPAN, "n")
    })
    .unwrap();
    sink.emit(&Gauge { unit: "By", description: "d", attributes, ..Gauge::new("n", -1i64) })
        .unwrap();
    let sum = Sum { unit: "1", description: "d", attributes, ..Sum::cumulative("n", 3u64) };
    sink.emit(&Sum { start_time_unix_nano: Some(4), ..sum }).unwrap();
    sink.emit(&Histogram {
        unit: "s",
        description: "d",
        value: Some(0.5),
        temporality: Temporality::Cumulative,
        start_time_unix_nano: Some(4),
        count: Some(3),
        sum: Some(1.5),
        min: Some(0.25),
        max: Some(1.0),
        attributes,
        ..Histogram::state("n", &[0.5, 1.0], &[1, 2, 0])
    })
    .unwrap();

    let (trace, span) = (Value::Bytes(TRACE.0.to_vec()), Value::Bytes(SPAN.0.to_vec()));
    let parent = Value::Bytes(vec![9; 8]);
    let (u, f, k) = (Value::U64, Value::F64, Value::Bool(true));
    let expected: Vec<(Class, Vec<(&str, Value)>)> = vec![
        (Class::Resource, vec![("service.name", s("test")), ("a.b", s("c"))]),
        (
            Class::Log,
            vec![
                ("severity_number", u(22)),
                ("severity_text", s("FATAL2")),
                ("body", s("b")),
                ("trace_id", trace.clone()),
                ("span_id", span.clone()),
                ("event_name", s("e")),
                ("observed_time_unix_nano", u(5)),
                ("otel.scope.name", s("s")),
                ("code.file.path", s("f")),
                ("code.line.number", u(7)),
                ("k", k.clone()),
            ],
        ),
        (
            Class::SpanStart,
            vec![
                ("trace_id", trace.clone()),
                ("span_id", span.clone()),
                ("parent_span_id", parent.clone()),
                ("name", s("n")),
                ("kind", u(2)),
                ("link.trace_id", trace.clone()),
                ("link.span_id", span.clone()),
                ("otel.scope.name", s("s")),
                ("k", k.clone()),
            ],
        ),
        (
            Class::SpanEnd,
            vec![
                ("trace_id", trace),
                ("span_id", span),
                ("parent_span_id", parent),
                ("name", s("n")),
                ("duration_nano", u(1)),
                ("status.code", u(2)),
                ("status.message", s("why")),
                ("k", k.clone()),
            ],
        ),
        (
            Class::Gauge,
            vec![
                ("name", s("n")),
                ("unit", s("By")),
                ("description", s("d")),
                ("value", Value::I64(-1)),
                ("k", k.clone()),
            ],
        ),
        (
            Class::Sum,
            vec![
                ("name", s("n")),
                ("unit", s("1")),
                ("description", s("d")),
                ("value", u(3)),
                ("is_monotonic", Value::Bool(true)),
                ("aggregation_temporality", u(2)),
                ("start_time_unix_nano", u(4)),
                ("k", k.clone()),
            ],
        ),
        (
            Class::Histogram,
            vec![
                ("name", s("n")),
                ("unit", s("s")),
                ("description", s("d")),
                ("value", f(0.5)),
                ("aggregation_temporality", u(2)),
                ("start_time_unix_nano", u(4)),
                ("count", u(3)),
                ("sum", f(1.5)),
                ("min", f(0.25)),
                ("max", f(1.0)),
                ("explicit_bounds", Value::List(vec![f(0.5), f(1.0)])),
                ("bucket_counts", Value::List(vec![u(1), u(2), u(0)])),
                ("k", k),
            ],
        ),
    ];
    let rows = first_resource_and_rest(&path);
    assert_eq!(rows.len(), expected.len());
    for (row, (class, fields)) in rows.iter().zip(&expected) {
        assert_eq!(row.class, *class);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value)).collect();
        assert_eq!(row.fields(), fields);
        assert_eq!(row.value.get(names::PID), Some(&u(std::process::id().into())));
        assert_eq!(row.value.get(names::TIME).is_some(), !sink.is_timed());
    }
}

#[test]
fn all_fields_of_the_ready_types_but_a_logs_source_are_reserved() {
    let all = [
        Log::SCHEMA,
        SpanStart::SCHEMA,
        SpanEnd::SCHEMA,
        Gauge::SCHEMA,
        Sum::SCHEMA,
        Histogram::SCHEMA,
    ];
    for schema in all {
        assert_eq!(schema.fields[..usize::from(FIRST)], COMMON);
        for field in schema.fields {
            let is_attribute = [names::FILE, names::LINE].contains(&field.name);
            assert_eq!(
                reserved(schema.class).contains(&field.name),
                !is_attribute,
                "{}",
                field.name
            );
        }
    }
    let ids: HashSet<_> = all.iter().map(|schema| schema.id).collect();
    assert_eq!(ids.len(), all.len());
}

#[test]
fn the_numbers_are_opentelemetrys() {
    let severities: Vec<_> = Severity::ALL.iter().map(|one| one.number()).collect();
    assert_eq!(severities, (1..=24).collect::<Vec<_>>());
    let kinds: Vec<_> = SpanKind::ALL.iter().map(|one| one.number()).collect();
    assert_eq!(kinds, [1, 2, 3, 4, 5]);
    let statuses: Vec<_> = Status::ALL.iter().map(|one| one.number()).collect();
    assert_eq!(statuses, [0, 1, 2]);
    assert_eq!(Severity::from_number(0), None);
}

#[test]
fn each_record_has_its_time_once_by_the_ring_or_by_the_sink() {
    let dir = tempfile::tempdir().unwrap();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    // Rings per CPU have timestamps, whatever was asked for.
    for time in [true, false] {
        let path = dir.path().join(time.to_string());
        let before = now();
        let sink = SHAPE.sink(&path, &Options { time, ..options() }, Resource::here());
        sink.emit(&Gauge::new("n", 1u64)).unwrap();
        let after = now();
        for row in rows(&path) {
            let own = row.value.get(names::TIME);
            let reported = match (row.wall, own) {
                (Some(wall), None) if time || SHAPE == Shape::Cpus => wall,
                (None, Some(Value::U64(own))) if !time && SHAPE == Shape::Ring => *own,
                other => panic!("{other:?}"),
            };
            // The ring's anchor to the wall-clock is some ns off.
            assert!(
                (before - 10_000..=after + 10_000).contains(&reported),
                "{before} {reported} {after}"
            );
        }
    }
}

#[test]
fn a_ring_without_room_for_the_ready_types_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let none = perfring_telemetry::producer::Options { types_size: 0, ..options() };
    let place = dir.path().join("ring");
    let refused = match SHAPE {
        Shape::Ring => Sink::create(place, &none, Resource::here()),
        Shape::Cpus => Sink::open(place, &none, Resource::here()),
    };
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("no type table"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_attributes_come_back(
        names in proptest::collection::hash_set(".{0,60}|body|trace_id|attributes\\..{0,9}|…", 0..8),
        text: String,
    ) {
        let (_dir, path, sink) = sink();
        let attributes: Vec<_> = names.iter().map(|name| (name.as_str(), Reported::from(&text))).collect();
        sink.emit(&Log { body: Reported::from(&text), attributes: &attributes, ..Log::default() }).unwrap();
        let rows = first_resource_and_rest(&path);
        prop_assert_eq!(rows[1].value.get("body"), Some(&Value::Str(text.clone())));
        let back: HashSet<String> = rows[1]
            .fields()
            .into_iter()
            .filter_map(|(name, value)| {
                assert_eq!(value, &Value::Str(text.clone()));
                attribute(Class::Log, name).map(str::to_owned)
            })
            .collect();
        // Code attributes have a field of their own; their names are the same.
        prop_assert_eq!(back, names);
    }

    #[test]
    fn an_attributes_name_is_found_again(name in ".{0,300}") {
        for class in Class::ALL {
            let written = AttributeName::new(class, &name);
            let back = attribute(class, written.as_str()).unwrap();
            prop_assert!(back == name || name.starts_with(back) && name.len() > 244);
        }
    }
}

#[test]
fn each_resource_of_a_process_has_its_pid_and_the_same_start() {
    let before = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos());
    let (_dir, path, first) = sink();
    let resource = Resource::default().with("start_time_unix_nano", "mine");
    let resource = resource.with("process.pid", "not mine");
    let second = match SHAPE {
        Shape::Ring => Sink::attach(&path, resource).unwrap(),
        Shape::Cpus => SHAPE.sink(&path, &options(), resource),
    };
    drop((first, second));
    let rows = rows(&path);
    let get = |row: usize, name: &str| rows[row].value.get(name).cloned();
    assert_eq!(rows.len(), 2);
    for row in 0..2 {
        assert_eq!(get(row, "process.pid"), Some(Value::U64(std::process::id().into())));
    }
    let Some(Value::U64(start)) = get(0, "start_time_unix_nano") else { panic!("no start") };
    assert_eq!(get(1, "start_time_unix_nano"), Some(Value::U64(start)));
    // Another test of this process may have made the first sink.
    assert!(start.abs_diff(before.unwrap()) < 600_000_000_000);
    assert_eq!(get(1, "attributes.start_time_unix_nano"), Some(s("mine")));
}
