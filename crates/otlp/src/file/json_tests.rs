use super::json::object;
use super::{FileOptions, OtlpFile, names};
use crate::mapping::{Lane, Mapping};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList, any_value::Value,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
    exponential_histogram_data_point::Buckets, metric::Data, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span};
use perfring_events::Output;
use perfring_files::json::{Integers, Options};
use prost::Message as _;
use serde::de::DeserializeOwned;

fn line(message: &names::Message, request: &[u8]) -> Option<String> {
    let mut line = Vec::new();
    object(message, request, &mut line)?;
    Some(String::from_utf8(line).unwrap())
}

/// Checks that `opentelemetry-proto` reads from a line what was in the request.
fn check<T: prost::Message + DeserializeOwned + PartialEq + std::fmt::Debug>(
    message: &names::Message,
    request: &T,
) {
    let line = line(message, &request.encode_to_vec()).unwrap();
    let read: T = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(&read, request, "{line}");
}

fn pair(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// Attributes with a value of each kind.
fn attributes() -> Vec<KeyValue> {
    let list = |values: Vec<Value>| ArrayValue {
        values: values.into_iter().map(|value| AnyValue { value: Some(value) }).collect(),
    };
    let text = || Value::StringValue("é \" \\ \n \u{7f} 🦀".to_owned());
    vec![
        pair("text", text()),
        pair("no text", Value::StringValue(String::new())),
        pair("yes", Value::BoolValue(true)),
        pair("no", Value::BoolValue(false)),
        pair("least", Value::IntValue(i64::MIN)),
        pair("none", Value::IntValue(0)),
        pair("double", Value::DoubleValue(-0.1)),
        pair("large", Value::DoubleValue(f64::MAX)),
        pair("list", Value::ArrayValue(list(vec![text(), Value::IntValue(7)]))),
        pair("empty", Value::ArrayValue(list(Vec::new()))),
        pair("map", Value::KvlistValue(KeyValueList { values: vec![pair("in", text())] })),
        pair("bytes", Value::BytesValue(vec![0, 255, 1])),
    ]
}

fn resource() -> Option<Resource> {
    Some(Resource {
        attributes: attributes(),
        dropped_attributes_count: u32::MAX,
        ..Resource::default()
    })
}

fn scope() -> Option<InstrumentationScope> {
    let (name, version) = ("shop".to_owned(), "1".to_owned());
    Some(InstrumentationScope {
        name,
        version,
        attributes: attributes(),
        dropped_attributes_count: u32::MAX - 1,
    })
}

#[test]
fn a_line_of_logs_is_read_as_the_request_that_it_was() {
    let log = LogRecord {
        time_unix_nano: u64::MAX,
        observed_time_unix_nano: 1,
        severity_number: 17,
        severity_text: "ERROR".to_owned(),
        body: Some(AnyValue { value: Some(Value::StringValue("no money".to_owned())) }),
        attributes: attributes(),
        dropped_attributes_count: 1 << 31,
        flags: u32::MAX,
        trace_id: (0..16).collect(),
        span_id: vec![0xff; 8],
        event_name: "pay".to_owned(),
    };
    let scope_logs = ScopeLogs {
        scope: scope(),
        log_records: vec![log.clone(), log],
        schema_url: "of the scope".to_owned(),
    };
    let of = |scope_logs| ResourceLogs {
        resource: resource(),
        scope_logs,
        schema_url: "of the resource".to_owned(),
    };
    let two = vec![of(vec![scope_logs.clone(), scope_logs.clone()]), of(vec![scope_logs])];
    check(&names::LOGS, &ExportLogsServiceRequest { resource_logs: two });
}

fn metrics(data: Vec<Data>) -> ExportMetricsServiceRequest {
    let metric = |data| Metric {
        name: "size".to_owned(),
        description: "how large".to_owned(),
        unit: "By".to_owned(),
        metadata: attributes(),
        data: Some(data),
    };
    let metrics = data.into_iter().map(metric).collect();
    let schema_url = String::new();
    let scope_metrics = vec![ScopeMetrics { scope: scope(), metrics, schema_url }];
    let of = ResourceMetrics { resource: resource(), scope_metrics, ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![of] }
}

fn number(value: number_data_point::Value) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(),
        start_time_unix_nano: 5,
        time_unix_nano: 6,
        flags: u32::MAX,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

#[test]
fn a_line_of_metrics_is_read_as_the_request_that_it_was() {
    use number_data_point::Value::{AsDouble, AsInt};
    let data_points = vec![number(AsInt(i64::MIN)), number(AsInt(0)), number(AsDouble(0.1))];
    let gauge = Data::Gauge(Gauge { data_points: data_points.clone() });
    let sum = Data::Sum(Sum { data_points, aggregation_temporality: 2, is_monotonic: true });
    let point = HistogramDataPoint {
        attributes: attributes(),
        start_time_unix_nano: 5,
        time_unix_nano: 6,
        count: 7,
        sum: Some(0.0),
        bucket_counts: vec![0, u64::MAX, 3],
        explicit_bounds: vec![-1.5, 2.0],
        flags: u32::MAX,
        min: Some(-3.0),
        max: Some(4.0),
        ..HistogramDataPoint::default()
    };
    let without = HistogramDataPoint { sum: None, min: None, max: None, ..point.clone() };
    let data_points = vec![point, without];
    let histogram = Data::Histogram(Histogram { data_points, aggregation_temporality: 1 });
    let point = ExponentialHistogramDataPoint {
        attributes: attributes(),
        start_time_unix_nano: 5,
        time_unix_nano: 6,
        count: 7,
        sum: Some(8.5),
        scale: -4,
        zero_count: 2,
        positive: Some(Buckets { offset: -7, bucket_counts: vec![1, 0, u64::MAX] }),
        negative: Some(Buckets { offset: 7, bucket_counts: vec![1 << 40] }),
        flags: u32::MAX,
        min: Some(-3.0),
        max: Some(4.0),
        zero_threshold: 0.25,
        ..ExponentialHistogramDataPoint::default()
    };
    let exponential = ExponentialHistogram { data_points: vec![point], aggregation_temporality: 2 };
    let exponential = Data::ExponentialHistogram(exponential);
    check(&names::METRICS, &metrics(vec![gauge, sum, histogram, exponential]));
}

#[test]
fn a_line_of_spans_is_read_as_the_request_that_it_was() {
    let (trace_id, span_id) = (vec![0xab; 16], vec![0xcd; 8]);
    let span = Span {
        trace_id: trace_id.clone(),
        span_id: span_id.clone(),
        trace_state: "a=b".to_owned(),
        parent_span_id: vec![1; 8],
        flags: 0x101,
        name: "pay".to_owned(),
        kind: 2,
        start_time_unix_nano: 5,
        end_time_unix_nano: 6,
        attributes: attributes(),
        dropped_attributes_count: u32::MAX,
        events: vec![span::Event {
            time_unix_nano: 5,
            name: "asked".to_owned(),
            attributes: attributes(),
            dropped_attributes_count: u32::MAX,
        }],
        dropped_events_count: u32::MAX,
        links: vec![span::Link {
            trace_id,
            span_id,
            trace_state: "c=d".to_owned(),
            attributes: attributes(),
            dropped_attributes_count: u32::MAX,
            flags: u32::MAX,
        }],
        dropped_links_count: u32::MAX,
        status: Some(Status { message: "no".to_owned(), code: 2 }),
    };
    let spans = vec![span];
    let scope_spans = vec![ScopeSpans { scope: scope(), spans, schema_url: String::new() }];
    let of = ResourceSpans { resource: resource(), scope_spans, ..ResourceSpans::default() };
    check(&names::TRACES, &ExportTraceServiceRequest { resource_spans: vec![of] });
}

#[test]
fn a_double_that_is_no_number_is_text_as_the_mapping_of_protocol_buffers_says() {
    use number_data_point::Value::AsDouble;
    let all = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let data_points = all.map(|value| NumberDataPoint {
        value: Some(AsDouble(value)),
        ..NumberDataPoint::default()
    });
    let request = metrics(vec![Data::Gauge(Gauge { data_points: data_points.to_vec() })]);
    let line = line(&names::METRICS, &request.encode_to_vec()).unwrap();
    let points = r#"[{"asDouble":"NaN"},{"asDouble":"Infinity"},{"asDouble":"-Infinity"}]"#;
    assert!(line.contains(points), "{line}");
}

#[test]
fn what_is_no_request_is_no_line() {
    let whole = metrics(vec![Data::Gauge(Gauge::default())]).encode_to_vec();
    assert!(line(&names::METRICS, &whole).is_some());
    assert!(line(&names::LOGS, &[0x3a, 0]).is_none(), "a field that the table lacks");
    for len in 1..whole.len() {
        assert!(line(&names::METRICS, &whole[..len]).is_none(), "{len}");
    }
    assert_eq!(line(&names::LOGS, &[]).as_deref(), Some(r#"{"resourceLogs":[]}"#));
}

#[test]
fn a_packed_list_without_values_is_a_list_without_values() {
    // Each inside the next: the bucket counts of a point of a histogram of a metric of a scope of a resource.
    let tags = [6, 1, 9, 2, 2, 1].map(|field: u8| field << 3 | 2);
    let request = tags
        .into_iter()
        .fold(Vec::new(), |inner: Vec<u8>, tag| [&[tag, inner.len() as u8], &inner[..]].concat());
    let expected = ExportMetricsServiceRequest::decode(&request[..]).unwrap();
    let line = line(&names::METRICS, &request).unwrap();
    assert!(line.contains(r#"{"bucketCounts":[]}"#), "{line}");
    assert_eq!(serde_json::from_str::<ExportMetricsServiceRequest>(&line).unwrap(), expected);
}

#[test]
fn records_of_what_is_no_request_are_counted_as_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = FileOptions::default();
    options.lines.path = dir.path().join("out.jsonl");
    let mut file = OtlpFile::open("out", &options).unwrap();
    file.line(Lane::Logs, (1, 3), &[0x3a, 0]).unwrap();
    file.line(Lane::Logs, (4, 1), &[]).unwrap();
    file.flush().unwrap();
    let figures = file.figures();
    assert_eq!((figures.refused_by, figures.delivered), (vec![("malformed", 3)], 1));
    let lines = std::fs::read_to_string(options.lines.path).unwrap();
    assert_eq!(lines, "{\"resourceLogs\":[]}\n");
}

#[test]
fn all_keys_are_named() {
    let keys = |error: toml::de::Error| {
        let (_, keys) = error.message().split_once("expected one of ").unwrap();
        let keys = keys.split('`').skip(1).step_by(2).map(str::to_owned);
        keys.collect::<Vec<_>>()
    };
    assert_eq!(keys(toml::from_str::<Mapping>("x = 1").unwrap_err()), Mapping::KEYS);
    assert_eq!(keys(toml::from_str::<Options>("x = 1").unwrap_err()), Options::KEYS);
}

#[test]
fn options_that_mean_nothing_here_are_refused() {
    let mut options = FileOptions::default();
    options.lines.integers = Integers::Text;
    let refused = OtlpFile::check("out", &options).unwrap_err().to_string();
    assert!(refused.contains("remove `integers`"), "{refused}");
    let options: FileOptions = toml::from_str("signals = []").unwrap();
    let refused = OtlpFile::check("out", &options).unwrap_err().to_string();
    assert!(refused.contains("nothing would be sent"), "{refused}");
    let options: FileOptions = toml::from_str("batch_items = 0").unwrap();
    let refused = OtlpFile::open("out", &options).unwrap_err().to_string();
    assert!(refused.contains("batch_items"), "{refused}");
}
