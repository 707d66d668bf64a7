//! Divides requests that are too large.

use super::batch::Request;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, SummaryDataPoint,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

impl Request {
    /// Returns the number of log records, spans or data points.
    pub(super) fn items(&self) -> u64 {
        let items = match self {
            Request::Logs(request) => count(&request.resource_logs),
            Request::Metrics(request) => count(&request.resource_metrics),
            Request::Traces(request) => count(&request.resource_spans),
        };
        items as u64
    }

    /// Divides it in two that have all of its items, in their order.
    ///
    /// # Errors
    /// It has a single item, and is given back.
    pub(super) fn halves(mut self) -> Result<(Self, Self), Self> {
        let at = (self.items() / 2) as usize;
        if at == 0 {
            return Err(self);
        }
        let mut rest = self.empty();
        match (&mut self, &mut rest) {
            (Request::Logs(all), Request::Logs(rest)) => {
                rest.resource_logs = split(&mut all.resource_logs, at);
            }
            (Request::Metrics(all), Request::Metrics(rest)) => {
                rest.resource_metrics = split(&mut all.resource_metrics, at);
            }
            (Request::Traces(all), Request::Traces(rest)) => {
                rest.resource_spans = split(&mut all.resource_spans, at);
            }
            _ => {}
        }
        Ok((self, rest))
    }

    fn empty(&self) -> Self {
        match self {
            Request::Logs(_) => Request::Logs(Default::default()),
            Request::Metrics(_) => Request::Metrics(Default::default()),
            Request::Traces(_) => Request::Traces(Default::default()),
        }
    }
}

/// A part of a request that has items.
trait Part {
    fn items(&self) -> usize;

    /// Keeps the first `at` items, and returns the others.
    fn split(&mut self, at: usize) -> Self;
}

fn count<T: Part>(parts: &[T]) -> usize {
    parts.iter().map(Part::items).sum()
}

/// Keeps the first `at` items, and returns the others.
fn split<T: Part>(parts: &mut Vec<T>, mut at: usize) -> Vec<T> {
    let whole = parts.iter().take_while(|part| {
        let left = at.checked_sub(part.items());
        at = left.unwrap_or(at);
        left.is_some()
    });
    let whole = whole.count();
    let mut rest = parts.split_off(whole);
    if at > 0
        && let Some(torn) = rest.first_mut()
    {
        let end = torn.split(at);
        parts.push(std::mem::replace(torn, end));
    }
    rest
}

/// Parts that are an item.
macro_rules! items {
    ($($item:ident)*) => {$(
        impl Part for $item {
            fn items(&self) -> usize {
                1
            }

            fn split(&mut self, _at: usize) -> Self {
                self.clone() // never: it is kept or moved as a whole
            }
        }
    )*};
}

/// Parts that have a list of others.
macro_rules! lists {
    ($($list:ident { $parts:ident })*) => {$(
        impl Part for $list {
            fn items(&self) -> usize {
                count(&self.$parts)
            }

            fn split(&mut self, at: usize) -> Self {
                let rest = split(&mut self.$parts, at);
                let kept = std::mem::take(&mut self.$parts);
                let other = $list { $parts: rest, ..self.clone() };
                self.$parts = kept;
                other
            }
        }
    )*};
}

items! { LogRecord Span NumberDataPoint HistogramDataPoint ExponentialHistogramDataPoint SummaryDataPoint }
lists! {
    ResourceLogs { scope_logs }
    ScopeLogs { log_records }
    ResourceMetrics { scope_metrics }
    ScopeMetrics { metrics }
    ResourceSpans { scope_spans }
    ScopeSpans { spans }
}

impl Part for Metric {
    fn items(&self) -> usize {
        match &self.data {
            Some(Data::Gauge(data)) => data.data_points.len(),
            Some(Data::Sum(data)) => data.data_points.len(),
            Some(Data::Histogram(data)) => data.data_points.len(),
            Some(Data::ExponentialHistogram(data)) => data.data_points.len(),
            Some(Data::Summary(data)) => data.data_points.len(),
            None => 0,
        }
    }

    fn split(&mut self, at: usize) -> Self {
        let mut other = self.clone();
        match (&mut self.data, &mut other.data) {
            (Some(Data::Gauge(mine)), Some(Data::Gauge(rest))) => {
                rest.data_points = split(&mut mine.data_points, at);
            }
            (Some(Data::Sum(mine)), Some(Data::Sum(rest))) => {
                rest.data_points = split(&mut mine.data_points, at);
            }
            (Some(Data::Histogram(mine)), Some(Data::Histogram(rest))) => {
                rest.data_points = split(&mut mine.data_points, at);
            }
            (Some(Data::ExponentialHistogram(mine)), Some(Data::ExponentialHistogram(rest))) => {
                rest.data_points = split(&mut mine.data_points, at);
            }
            (Some(Data::Summary(mine)), Some(Data::Summary(rest))) => {
                rest.data_points = split(&mut mine.data_points, at);
            }
            _ => {}
        }
        other
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use opentelemetry_proto::tonic::metrics::v1::Gauge;

    /// Divides until single items are left.
    fn singles(request: Request) -> Vec<Request> {
        match request.halves() {
            Ok((first, second)) => [singles(first), singles(second)].concat(),
            Err(single) => vec![single],
        }
    }

    #[test]
    fn all_items_stay_in_order_with_their_resource_and_scope() {
        let record = |number: u32| LogRecord { flags: number, ..Default::default() };
        let mut next = 0;
        let mut scope = |url: &str, records: u32| {
            let log_records = (next..next + records).map(record).collect();
            next += records;
            ScopeLogs { log_records, schema_url: url.into(), ..Default::default() }
        };
        let scopes = [vec![scope("a", 3), scope("b", 1)], vec![scope("c", 5)]];
        let of = |scope_logs| ResourceLogs { scope_logs, ..Default::default() };
        let mut all = Request::Logs(Default::default());
        if let Request::Logs(all) = &mut all {
            all.resource_logs = scopes.map(of).into();
        }
        assert_eq!(all.items(), 9);
        let singles = singles(all);
        let seen: Vec<(u32, String)> = singles
            .iter()
            .map(|single| {
                let Request::Logs(request) = single else { panic!() };
                let scope = &request.resource_logs[0].scope_logs[0];
                (scope.log_records[0].flags, scope.schema_url.clone())
            })
            .collect();
        let wanted = "aaabccccc".chars().map(String::from);
        assert_eq!(seen, (0..9).zip(wanted).collect::<Vec<_>>());
    }

    #[test]
    fn a_metric_is_divided_by_its_points() {
        let point = |number: u64| NumberDataPoint { time_unix_nano: number, ..Default::default() };
        let gauge = Gauge { data_points: (0..3).map(point).collect() };
        let name = "g".to_owned();
        let metric = Metric { name, data: Some(Data::Gauge(gauge)), ..Default::default() };
        let scope = ScopeMetrics { metrics: vec![metric], ..Default::default() };
        let resource = ResourceMetrics { scope_metrics: vec![scope], ..Default::default() };
        let mut all = Request::Metrics(Default::default());
        if let Request::Metrics(all) = &mut all {
            all.resource_metrics = vec![resource];
        }
        let points: Vec<u64> = singles(all)
            .iter()
            .map(|single| {
                let Request::Metrics(request) = single else { panic!() };
                let metric = &request.resource_metrics[0].scope_metrics[0].metrics[0];
                let Some(Data::Gauge(gauge)) = &metric.data else { panic!() };
                assert_eq!((&*metric.name, gauge.data_points.len()), ("g", 1));
                gauge.data_points[0].time_unix_nano
            })
            .collect();
        assert_eq!(points, [0, 1, 2]);
    }
}
