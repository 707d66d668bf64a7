//! Samples of metrics: single, and combined.

use super::rows::*;
use super::*;
use crate::feed::{counted, delivers, emit_wrong_samples};
use perfring_export::otlp::Lane;
use std::collections::BTreeMap;
use std::time::Duration;

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
fn samples_are_combined_and_nothing_of_them_is_lost() {
    let (server, mut seqs) = (Server::start(), Numbers::default());
    let mut feed = Feed::new(1, "ring");
    let options = mapped(&server, |mapping| mapping.metric_interval = Duration::from_secs(3600));
    let mut otlp = Otlp::open("otlp", &options).unwrap();
    for at in 0..1000u64 {
        let which = &[("k", Value::U64(at % 2))];
        feed.sink.emit(&Sum { attributes: which, ..Sum::delta("delta", 1u64) }).unwrap();
        // As from two threads: the greatest is used, not the last.
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
fn a_sample_with_which_something_is_wrong_is_a_log_record_or_counted_by_cause() {
    for signals in [&[Lane::Metrics, Lane::Logs][..], &[Lane::Metrics]] {
        let (server, mut seqs) = (Server::start(), Numbers::default());
        let options = mapped(&server, |mapping| mapping.signals = signals.to_vec());
        let mut otlp = Otlp::open("otlp", &options).unwrap();
        let mut feed = Feed::new(1, "ring");
        let causes = emit_wrong_samples(&feed);
        feed.sink.emit(&Histogram::state("fine", &[1.0], &[1, 2])).unwrap();
        feed.pump(&mut seqs, &mut otlp);
        delivers(&mut otlp);
        let figures = otlp.figures();
        let trouble = figures.trouble.clone().unwrap();
        assert!(trouble.contains(": no_number: a gauge without a number"), "{trouble}");
        assert_eq!(metrics(&server).len(), 1, "the good one");
        if signals.contains(&Lane::Logs) {
            assert!(trouble.contains("is sent as a log record"), "{trouble}");
            assert_eq!((figures.refused, figures.delivered), (0, figures.taken));
            assert_eq!(logs(&server).len(), causes.len());
        } else {
            assert!(trouble.contains("is left out"), "{trouble}");
            assert_eq!((figures.refused, figures.delivered), (causes.len() as u64, 2));
            let by_cause: BTreeMap<_, _> = figures.refused_by.into_iter().collect();
            assert_eq!(by_cause, counted(&causes));
        }
    }
}

#[test]
fn measurements_have_bounds_by_unit_or_are_exponential() {
    use opentelemetry_proto::tonic::metrics::v1::{
        AggregationTemporality, exponential_histogram_data_point,
    };
    use perfring_export::signal::Histograms;
    let values = [0.001, 0.1, 0.1, 3.0, 0.0, -2.0];
    for histograms in [Histograms::Explicit, Histograms::Exponential] {
        let (server, mut seqs) = (Server::start(), Numbers::default());
        let options = mapped(&server, |mapping| {
            mapping.histograms = histograms;
            mapping.metric_interval = Duration::from_secs(3600);
        });
        let mut otlp = Otlp::open("otlp", &options).unwrap();
        let mut feed = Feed::new(1, "ring");
        for value in values {
            feed.sink.emit(&Histogram { unit: "s", ..Histogram::one("took", value) }).unwrap();
        }
        feed.sink.emit(&Histogram::state("sorted", &[1.0], &[1, 2])).unwrap();
        feed.pump(&mut seqs, &mut otlp);
        close(otlp);
        let all = metrics(&server);
        let of = |name: &str| &all.iter().find(|row| row.2.name == name).unwrap().2;
        assert_eq!(histogram(of("sorted")).0.explicit_bounds, [1.0], "it keeps its own");
        if histograms == Histograms::Explicit {
            let (point, _) = histogram(of("took"));
            assert_eq!((point.explicit_bounds[0], point.explicit_bounds.len()), (0.005, 14));
            assert_eq!(point.bucket_counts[..7], [3, 0, 0, 0, 0, 2, 0]);
            continue;
        }
        let Some(Data::ExponentialHistogram(of)) = &of("took").data else { panic!() };
        assert_eq!(of.aggregation_temporality, AggregationTemporality::Delta as i32);
        let [point] = &of.data_points[..] else { panic!("{of:?}") };
        assert_eq!((point.count, point.zero_count, point.zero_threshold), (6, 1, 0.0));
        assert!((point.sum.unwrap() - 1.201).abs() < 1e-12);
        assert_eq!((point.min, point.max), (Some(-2.0), Some(3.0)));
        assert!(point.time_unix_nano > 0);
        let count = |buckets: &Option<exponential_histogram_data_point::Buckets>, value: f64| {
            // By the definition of the protocol: base^i < value <= base^(i + 1).
            let buckets = buckets.as_ref().unwrap();
            let index = (value.log2() * f64::from(point.scale).exp2()).ceil() as i32 - 1;
            let at = usize::try_from(index - buckets.offset).unwrap();
            (buckets.bucket_counts[at], buckets.bucket_counts.iter().sum::<u64>())
        };
        assert_eq!(count(&point.positive, 0.1), (2, 4));
        assert_eq!((count(&point.positive, 0.001).0, count(&point.positive, 3.0).0), (1, 1));
        assert_eq!(count(&point.negative, 2.0), (1, 1));
    }
}
