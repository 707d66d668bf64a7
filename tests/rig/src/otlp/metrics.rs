//! The points of metrics, as a test looks at them.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
pub use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use std::collections::BTreeMap;

/// A point of a sum or a gauge.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// `service.name` of its resource.
    pub service: String,
    pub name: String,
    pub unit: String,
    /// The attributes that are texts.
    pub attributes: BTreeMap<String, String>,
    pub value: f64,
    /// ns since 1970; 0 if unknown.
    pub start: u64,
    pub time: u64,
    /// `None` of a gauge.
    pub is_monotonic: Option<bool>,
    pub temporality: Option<AggregationTemporality>,
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |pair: KeyValue| match pair.value?.value? {
        Any::StringValue(text) => Some((pair.key, text)),
        _ => None,
    };
    attributes.into_iter().filter_map(text).collect()
}

pub(super) fn points(request: ExportMetricsServiceRequest) -> Vec<Point> {
    let mut points = Vec::new();
    for of in request.resource_metrics {
        let resource = texts(of.resource.unwrap_or_default().attributes);
        let service = resource.get("service.name").cloned().unwrap_or_default();
        for metric in of.scope_metrics.into_iter().flat_map(|of| of.metrics) {
            let (all, is_monotonic, temporality) = match metric.data {
                Some(Data::Gauge(gauge)) => (gauge.data_points, None, None),
                Some(Data::Sum(sum)) => {
                    let temporality = sum.aggregation_temporality();
                    (sum.data_points, Some(sum.is_monotonic), Some(temporality))
                }
                other => panic!("neither a sum nor a gauge: {other:?}"),
            };
            points.extend(all.into_iter().map(|point| Point {
                service: service.clone(),
                name: metric.name.clone(),
                unit: metric.unit.clone(),
                attributes: texts(point.attributes),
                value: match point.value {
                    Some(Value::AsInt(value)) => value as f64,
                    Some(Value::AsDouble(value)) => value,
                    None => panic!("{} has no value", metric.name),
                },
                start: point.start_time_unix_nano,
                time: point.time_unix_nano,
                is_monotonic,
                temporality,
            }));
        }
    }
    points
}
