//! Divides requests that are too large.

use crate::mapping::Lane;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;

/// A request of any signal. What it has in its parts is not decoded, so however deep values are
/// nested in it, it can be divided.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<OfResource>,
}

/// What a request has of one resource.
#[derive(Clone, PartialEq, Message)]
struct OfResource {
    #[prost(bytes = "vec", tag = "1")]
    resource: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<OfScope>,
}

/// What a request has of one scope of a resource.
#[derive(Clone, PartialEq, Message)]
struct OfScope {
    #[prost(bytes = "vec", optional, tag = "1")]
    scope: Option<Vec<u8>>,
    /// Log records, spans or metrics.
    #[prost(bytes = "vec", repeated, tag = "2")]
    items: Vec<Vec<u8>>,
}

/// A request, and how many log records, spans or data points it has.
pub(super) type Part = (Vec<u8>, u64);

/// Divides a request in two that have all of its items, in their order; `None` if it has a single
/// item.
pub(super) fn halves(lane: Lane, message: &[u8]) -> Option<(Part, Part)> {
    let mut first = Request::decode(message).ok()?;
    let scopes = first.resources.iter().flat_map(|of| &of.scopes);
    let all: u64 = scopes.flat_map(|of| &of.items).map(|item| count(lane, item)).sum();
    let half = all / 2;
    if half == 0 {
        return None;
    }
    let mut left = half;
    let mut second = Request::default();
    for of in &mut first.resources {
        let mut scopes = Vec::new();
        for its in &mut of.scopes {
            let items = split(lane, &mut its.items, &mut left);
            if !items.is_empty() {
                scopes.push(OfScope { scope: its.scope.clone(), items });
            }
        }
        of.scopes.retain(|its| !its.items.is_empty());
        if !scopes.is_empty() {
            second.resources.push(OfResource { resource: of.resource.clone(), scopes });
        }
    }
    first.resources.retain(|of| !of.scopes.is_empty());
    Some(((first.encode_to_vec(), half), (second.encode_to_vec(), all - half)))
}

/// Keeps as many items as are left to keep, and returns the others.
fn split(lane: Lane, items: &mut Vec<Vec<u8>>, left: &mut u64) -> Vec<Vec<u8>> {
    let whole = items.iter().take_while(|item| {
        let after = left.checked_sub(count(lane, item));
        *left = after.unwrap_or(*left);
        after.is_some()
    });
    let whole = whole.count();
    let mut rest = items.split_off(whole);
    // Only metrics have several.
    if *left > 0
        && let Some(torn) = rest.first_mut()
        && let Ok(mut metric) = Metric::decode(&**torn)
    {
        let end = split_points(&mut metric, *left as usize);
        items.push(metric.encode_to_vec());
        *torn = end.encode_to_vec();
        *left = 0;
    }
    rest
}

/// Returns the number of data points; of a log record or a span, 1.
fn count(lane: Lane, item: &[u8]) -> u64 {
    if lane != Lane::Metrics {
        return 1;
    }
    let points = match Metric::decode(item).ok().and_then(|metric| metric.data) {
        Some(Data::Gauge(data)) => data.data_points.len(),
        Some(Data::Sum(data)) => data.data_points.len(),
        Some(Data::Histogram(data)) => data.data_points.len(),
        Some(Data::ExponentialHistogram(data)) => data.data_points.len(),
        Some(Data::Summary(data)) => data.data_points.len(),
        None => 1,
    };
    points as u64
}

/// Keeps the first points, and returns the same metric with the others.
fn split_points(metric: &mut Metric, at: usize) -> Metric {
    let mut other = metric.clone();
    match (&mut metric.data, &mut other.data) {
        (Some(Data::Gauge(mine)), Some(Data::Gauge(rest))) => {
            rest.data_points = mine.data_points.split_off(at);
        }
        (Some(Data::Sum(mine)), Some(Data::Sum(rest))) => {
            rest.data_points = mine.data_points.split_off(at);
        }
        (Some(Data::Histogram(mine)), Some(Data::Histogram(rest))) => {
            rest.data_points = mine.data_points.split_off(at);
        }
        (Some(Data::ExponentialHistogram(mine)), Some(Data::ExponentialHistogram(rest))) => {
            rest.data_points = mine.data_points.split_off(at);
        }
        (Some(Data::Summary(mine)), Some(Data::Summary(rest))) => {
            rest.data_points = mine.data_points.split_off(at);
        }
        _ => {}
    }
    other
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, any_value::Value};
    use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
    use opentelemetry_proto::tonic::metrics::v1::{
        Gauge, NumberDataPoint, ResourceMetrics, ScopeMetrics,
    };
    use opentelemetry_proto::tonic::resource::v1::Resource;

    /// What of a log record is not nested.
    #[derive(Clone, PartialEq, Message)]
    struct Numbered {
        #[prost(fixed32, tag = "8")]
        flags: u32,
    }

    /// Divides until single items are left.
    fn singles(lane: Lane, message: &[u8]) -> Vec<Vec<u8>> {
        match halves(lane, message) {
            Some(((first, before), (second, after))) => {
                let parts = [(first, before), (second, after)].map(|(part, items)| {
                    let singles = singles(lane, &part);
                    assert_eq!(singles.len() as u64, items);
                    singles
                });
                parts.concat()
            }
            None => vec![message.to_vec()],
        }
    }

    #[test]
    fn all_items_stay_in_order_with_their_resource_and_scope() {
        // Deeper than what prost decodes.
        let deep = (0..200).fold(AnyValue { value: Some(Value::IntValue(1)) }, |value, _| {
            AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![value] })) }
        });
        let record =
            |number| LogRecord { flags: number, body: Some(deep.clone()), ..Default::default() };
        let mut next = 0;
        let mut scope = |name: &str, records: u32| {
            let log_records = (next..next + records).map(record).collect();
            next += records;
            let scope = InstrumentationScope { name: name.into(), ..Default::default() };
            ScopeLogs { log_records, scope: Some(scope), ..Default::default() }
        };
        let scopes = [vec![scope("a", 3), scope("b", 1)], vec![scope("c", 5)]];
        let of = |(scope_logs, name): (_, &str)| {
            let attributes = vec![KeyValue { key: name.into(), ..Default::default() }];
            let resource = Some(Resource { attributes, ..Default::default() });
            ResourceLogs { resource, scope_logs, ..Default::default() }
        };
        let resource_logs = scopes.into_iter().zip(["one", "two"]).map(of).collect();
        let all = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
        assert!(ExportLogsServiceRequest::decode(&*all).is_err(), "the whole of it is too deep");
        let seen: Vec<(u32, String)> = singles(Lane::Logs, &all)
            .iter()
            .map(|single| {
                let single = Request::decode(&**single).unwrap();
                let [of] = &single.resources[..] else { panic!("{single:?}") };
                let [its] = &of.scopes[..] else { panic!("{single:?}") };
                let [item] = &its.items[..] else { panic!("{single:?}") };
                let number = Numbered::decode(&**item).unwrap().flags;
                let scope = InstrumentationScope::decode(&**its.scope.as_ref().unwrap()).unwrap();
                let resource = Resource::decode(&*of.resource).unwrap();
                (number, format!("{} {}", resource.attributes[0].key, scope.name))
            })
            .collect();
        let scopes = ["one a", "one a", "one a", "one b"].into_iter().chain(["two c"; 5]);
        let wanted: Vec<(u32, String)> = (0..).zip(scopes.map(String::from)).collect();
        assert_eq!(seen, wanted);
    }

    #[test]
    fn a_metric_is_divided_by_its_points() {
        let point = |number: u64| NumberDataPoint { time_unix_nano: number, ..Default::default() };
        let gauge = |from: u64, to: u64| {
            let gauge = Gauge { data_points: (from..to).map(point).collect() };
            Metric { name: "g".into(), data: Some(Data::Gauge(gauge)), ..Default::default() }
        };
        let metrics = vec![gauge(0, 1), gauge(1, 4), gauge(4, 5)];
        let scope = ScopeMetrics { metrics, ..Default::default() };
        let resource = ResourceMetrics { scope_metrics: vec![scope], ..Default::default() };
        let all = ExportMetricsServiceRequest { resource_metrics: vec![resource] };
        let points: Vec<u64> = singles(Lane::Metrics, &all.encode_to_vec())
            .iter()
            .map(|single| {
                let request = ExportMetricsServiceRequest::decode(&**single).unwrap();
                let metric = &request.resource_metrics[0].scope_metrics[0].metrics[0];
                let Some(Data::Gauge(gauge)) = &metric.data else { panic!() };
                assert_eq!((&*metric.name, gauge.data_points.len()), ("g", 1));
                gauge.data_points[0].time_unix_nano
            })
            .collect();
        assert_eq!(points, [0, 1, 2, 3, 4]);
    }
}
