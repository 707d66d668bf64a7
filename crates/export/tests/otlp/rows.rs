//! The received messages, in rows.

use super::*;
pub(crate) use opentelemetry_proto::tonic::common::v1::KeyValue;
pub(crate) use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
pub(crate) use opentelemetry_proto::tonic::logs::v1::LogRecord;
pub(crate) use opentelemetry_proto::tonic::metrics::v1::metric::Data;
pub(crate) use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Point;
pub(crate) use opentelemetry_proto::tonic::metrics::v1::{
    HistogramDataPoint, Metric, NumberDataPoint,
};
pub(crate) use opentelemetry_proto::tonic::resource::v1::Resource;
pub(crate) use opentelemetry_proto::tonic::trace::v1::Span;
pub(crate) use perfring_consumer::{Cause, RecordType};
pub(crate) use perfring_export::otlp::{LongSpans, Plain};
pub(crate) use perfring_export::{Loss, LossCause, Output};
pub(crate) use perfring_telemetry::types::{Class, Encoding, Field, Schema, Shape};
pub(crate) use perfring_telemetry::{
    Gauge, Histogram, Log, Severity, SpanEnd, SpanId, SpanKind, SpanStart, Status, Sum,
    Temporality, TraceId, Value, names,
};

pub(crate) const TRACE: TraceId = TraceId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
pub(crate) const SPAN: SpanId = SpanId([8; 8]);
pub(crate) const PARENT: SpanId = SpanId([9; 8]);

pub(crate) fn find(pairs: &[KeyValue], key: &str) -> Option<Any> {
    let pair = pairs.iter().find(|pair| pair.key == key)?;
    pair.value.clone()?.value
}

/// The service of a record whose resource was not read: what this process has published as its context, as its sinks do
/// where the telemetry crate has that feature, else the name of the ring's producer.
pub(crate) fn unreported_service() -> String {
    let published = perfring_context::ProcessContext::own().unwrap();
    let service = published.as_ref().and_then(|published| published.get("service.name"));
    service.unwrap_or("test").to_owned()
}

pub(crate) fn s(text: &str) -> Option<Any> {
    Some(Any::StringValue(text.into()))
}

pub(crate) fn i(value: i64) -> Option<Any> {
    Some(Any::IntValue(value))
}

pub(crate) type Rows<T> = Vec<(Resource, String, T)>;

pub(crate) fn logs(server: &Server) -> Rows<LogRecord> {
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

pub(crate) fn spans(server: &Server) -> Rows<Span> {
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

pub(crate) fn metrics(server: &Server) -> Rows<Metric> {
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

pub(crate) fn close(mut otlp: Otlp) {
    otlp.close(deadline()).unwrap();
    assert_eq!(otlp.unsettled(), None);
    let figures = otlp.figures();
    assert_eq!((figures.delivered, figures.refused), (figures.taken, 0), "{figures:?}");
}
