//! Samples of a ring's metrics area as records, so that whatever passes on records passes them on.

use perfring_consumer::metrics::{MetricSample, MetricValue};
use perfring_telemetry::names;
use perfring_types::tagged::TaggedWriter;

/// Writes a sample as the payload of a record of its type: the fields that a [`Sum`](perfring_telemetry::Sum), a
/// [`Gauge`](perfring_telemetry::Gauge) or a [`Histogram`](perfring_telemetry::Histogram) has, beside the type's constants. A
/// record that describes the process is taken as it is.
///
/// `wall` is when the sample was taken, ns since 1970, if the record's timestamp does not say so.
pub fn sampled(sample: &MetricSample, wall: Option<u64>, payload: &mut Vec<u8>) {
    if let MetricValue::Record(bytes) = &sample.value {
        payload.extend_from_slice(bytes);
        return;
    }
    let mut writer = TaggedWriter::new(payload);
    if let Some(wall) = wall {
        writer.u64(names::TIME, wall);
    }
    writer.u64(names::PID, sample.pid.into());
    if sample.metric.is_cumulative() {
        writer.u64(names::START_TIME, sample.start_time_unix_nano);
    }
    match &sample.value {
        MetricValue::U64(value) => writer.u64(names::VALUE, *value),
        MetricValue::I64(value) => writer.i64(names::VALUE, *value),
        MetricValue::F64(value) => writer.f64(names::VALUE, *value),
        MetricValue::Histogram { buckets, counts, zeros, sum, range, .. } => {
            let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
            let end = counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
            let of_zero = counts.iter().fold(*zeros, |sum, count| sum.saturating_add(*count));
            writer.u64(names::COUNT, of_zero);
            writer.f64(names::SUM, *sum);
            if let Some((least, greatest)) = range {
                writer.f64(names::MIN, *least);
                writer.f64(names::MAX, *greatest);
            }
            writer.i64(names::SCALE, buckets.scale().into());
            writer.u64(names::ZERO_COUNT, *zeros);
            writer.f64(names::ZERO_THRESHOLD, buckets.zero_threshold());
            if let Some(counts) = counts.get(first..end).filter(|counts| !counts.is_empty()) {
                writer.i64(names::POSITIVE_OFFSET, i64::from(buckets.first()) + first as i64);
                writer.u64s(names::POSITIVE_COUNTS, counts);
            }
        }
        _ => {}
    }
}
