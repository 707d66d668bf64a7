//! Converts signals to the messages of OTLP.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, exponential_histogram_data_point,
    number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::Link;
use opentelemetry_proto::tonic::trace::v1::{Span, Status, status};
use perfring_events::signal::{
    Attributes, Buckets, Exponential, Number, Reported, Run, SpanEnd, SpanStart,
};
use perfring_types::read::Value;
use perfring_types::tagged::{Data, List};
use std::borrow::Cow;
use std::sync::Arc;

/// What OTLP has for a value.
pub(super) enum Term<'a> {
    None,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    List(&'a [Value]),
    Doubles(List<'a, f64>),
    Wholes(List<'a, u64>),
    Struct(&'a [(Arc<str>, Value)]),
}

pub(super) fn term(value: &Value) -> Term<'_> {
    match value {
        Value::Bool(value) => Term::Bool(*value),
        Value::I64(value) => Term::Int(*value),
        Value::U64(value) => whole(*value),
        Value::I128(value) => whole(*value),
        Value::U128(value) => whole(*value),
        Value::F32(value) => Term::Double((*value).into()),
        Value::F64(value) => Term::Double(*value),
        Value::Char(value) => Term::Text(value.to_string().into()),
        Value::Str(value) => Term::Text(value.into()),
        Value::Bytes(value) => Term::Bytes(value),
        Value::Label { name: Some(name), .. } => Term::Text((&**name).into()),
        Value::Label { value, name: None } => Term::Int(*value),
        Value::List(values) => Term::List(values),
        Value::Struct(fields) => Term::Struct(fields),
        _ => Term::None,
    }
}

/// Returns the same for a value that is not decoded.
pub(super) fn raw(data: Data<'_>) -> Term<'_> {
    match data {
        Data::Bool(value) => Term::Bool(value),
        Data::I64(value) => Term::Int(value),
        Data::U64(value) => whole(value),
        Data::I128(value) => whole(value),
        Data::U128(value) => whole(value),
        Data::F64(value) => Term::Double(value),
        Data::Text(text) => Term::Text(text.into()),
        Data::Bytes(bytes) => Term::Bytes(bytes),
        Data::F64s(list) => Term::Doubles(list),
        Data::U64s(list) => Term::Wholes(list),
        _ => Term::None,
    }
}

/// Returns a number, or its text if it is too large for one.
pub(super) fn whole<'a>(value: impl TryInto<i64> + ToString + Copy) -> Term<'a> {
    value.try_into().map_or_else(|_| Term::Text(value.to_string().into()), Term::Int)
}

pub(super) fn any(value: &Value) -> AnyValue {
    of_term(term(value))
}

fn of_term(term: Term<'_>) -> AnyValue {
    let list = |values| Some(Any::ArrayValue(ArrayValue { values }));
    let value = match term {
        Term::None => None,
        Term::Bool(value) => Some(Any::BoolValue(value)),
        Term::Int(value) => Some(Any::IntValue(value)),
        Term::Double(value) => Some(Any::DoubleValue(value)),
        Term::Text(text) => Some(Any::StringValue(text.into_owned())),
        Term::Bytes(bytes) => Some(Any::BytesValue(bytes.to_vec())),
        Term::List(values) => list(values.iter().map(any).collect()),
        Term::Doubles(values) => list(values.iter().map(Term::Double).map(of_term).collect()),
        Term::Wholes(values) => list(values.iter().map(whole).map(of_term).collect()),
        Term::Struct(fields) => Some(Any::KvlistValue(KeyValueList {
            values: fields.iter().map(|(name, value)| pair(name, any(value))).collect(),
        })),
    };
    AnyValue { value }
}

pub(super) fn pair(name: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(value), ..KeyValue::default() }
}

pub(super) fn text(value: impl Into<String>) -> AnyValue {
    AnyValue { value: Some(Any::StringValue(value.into())) }
}

pub(super) fn int(value: i64) -> AnyValue {
    AnyValue { value: Some(Any::IntValue(value)) }
}

pub(super) fn attributes(from: &Attributes<'_>) -> Vec<KeyValue> {
    from.iter().map(|(name, value)| pair(name, any(value))).collect()
}

/// Adds attributes; they replace those of the same name.
pub(super) fn replace(to: &mut Vec<KeyValue>, from: Vec<KeyValue>) {
    for new in from {
        match to.iter_mut().find(|its| its.key == new.key) {
            Some(its) => *its = new,
            None => to.push(new),
        }
    }
}

pub(super) fn count(truncated: u64) -> u32 {
    u32::try_from(truncated).unwrap_or(u32::MAX)
}

pub(super) fn resource(reported: &Reported) -> Resource {
    Resource {
        attributes: reported
            .attributes
            .iter()
            .map(|(name, value)| pair(name, any(value)))
            .collect(),
        dropped_attributes_count: count(reported.truncated),
        ..Resource::default()
    }
}

pub(super) fn scope(name: &str) -> Option<InstrumentationScope> {
    // No scope means an unknown one.
    let known = !name.is_empty();
    known.then(|| InstrumentationScope { name: name.to_owned(), ..Default::default() })
}

/// Returns a span with the fields of its start.
pub(super) fn span(start: &SpanStart<'_>) -> Span {
    Span {
        trace_id: start.trace_id.to_vec(),
        span_id: start.span_id.to_vec(),
        parent_span_id: start.parent_span_id.map(Vec::from).unwrap_or_default(),
        name: start.name.unwrap_or_default().to_owned(),
        kind: start.kind.unwrap_or_default().into(),
        start_time_unix_nano: start.common.time.unwrap_or_default(),
        attributes: attributes(&start.common.attributes),
        dropped_attributes_count: count(start.common.truncated),
        links: start.link.map(|(trace, span)| link(trace, span)).into_iter().collect(),
        ..Span::default()
    }
}

fn link(trace: [u8; 16], span: [u8; 8]) -> Link {
    Link { trace_id: trace.to_vec(), span_id: span.to_vec(), ..Link::default() }
}

/// Extends a span; fields that are not set stay.
pub(super) fn extend(span: &mut Span, more: Span) {
    if !more.name.is_empty() {
        span.name = more.name;
        span.start_time_unix_nano = more.start_time_unix_nano;
    }
    if span.parent_span_id.is_empty() {
        span.parent_span_id = more.parent_span_id;
    }
    if more.kind != 0 {
        span.kind = more.kind;
    }
    replace(&mut span.attributes, more.attributes);
    span.dropped_attributes_count =
        span.dropped_attributes_count.saturating_add(more.dropped_attributes_count);
    span.links.extend(more.links);
}

/// Sets a span's end.
pub(super) fn end(span: &mut Span, end: &SpanEnd<'_>, now: u64) {
    let at = end.common.time.unwrap_or(now);
    span.end_time_unix_nano = at;
    // A program may name a span at its end.
    if !end.name.is_empty() {
        span.name = end.name.to_owned();
    }
    if span.parent_span_id.is_empty() {
        span.parent_span_id = end.parent_span_id.map(Vec::from).unwrap_or_default();
    }
    if span.start_time_unix_nano == 0 {
        span.start_time_unix_nano = at.saturating_sub(end.duration.unwrap_or_default());
    }
    if let Some(code) = end.status_code {
        span.status = Some(Status { code: code.into(), message: end.status_message.to_owned() });
    }
    replace(&mut span.attributes, attributes(&end.common.attributes));
    span.dropped_attributes_count =
        span.dropped_attributes_count.saturating_add(count(end.common.truncated));
}

/// Marks a span whose end is unknown.
pub(super) fn unfinished(span: &mut Span, at: u64, why: &str) {
    span.end_time_unix_nano = at.max(span.start_time_unix_nano);
    span.attributes.push(pair("perfring.span.end", text("missing")));
    span.status = Some(Status { code: status::StatusCode::Error.into(), message: why.to_owned() });
}

pub(super) fn number(value: Number) -> number_data_point::Value {
    match value {
        Number::Int(value) => number_data_point::Value::AsInt(value),
        Number::Double(value) => number_data_point::Value::AsDouble(value),
    }
}

pub(super) fn buckets(of: Buckets) -> HistogramDataPoint {
    HistogramDataPoint {
        count: of.count,
        sum: of.sum,
        bucket_counts: of.buckets,
        explicit_bounds: of.bounds,
        min: of.min,
        max: of.max,
        ..HistogramDataPoint::default()
    }
}

pub(super) fn exponential(of: Exponential) -> ExponentialHistogramDataPoint {
    let buckets = |of: Run| exponential_histogram_data_point::Buckets {
        offset: of.offset,
        bucket_counts: of.counts,
    };
    ExponentialHistogramDataPoint {
        count: of.count,
        sum: Some(of.sum),
        scale: of.scale,
        zero_count: of.zero,
        zero_threshold: of.zero_threshold,
        positive: Some(buckets(of.positive)),
        negative: Some(buckets(of.negative)),
        min: of.min.is_finite().then_some(of.min),
        max: of.max.is_finite().then_some(of.max),
        ..ExponentialHistogramDataPoint::default()
    }
}
