//! OTLP as lines of JSON, read by the types of the crate `opentelemetry-proto`.

use crate::common::Followed;
use crate::common::shapes::{full_ring, lapped_ring, two_of_one_pid};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest as Logs;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest as Metrics;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Traces;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use perfring_export::otlp::{FileOptions, Lane, Mapper, OtlpFile};
use perfring_export::{Output, Took};
use prost::Message;
use std::fs;
use std::path::Path;
use std::time::Instant;

fn options(path: &Path) -> FileOptions {
    let mut options = FileOptions::default();
    options.lines.path = path.to_owned();
    options
}

/// Requests of all signals.
#[derive(Debug, Default, PartialEq)]
struct Requests {
    logs: Vec<Logs>,
    metrics: Vec<Metrics>,
    traces: Vec<Traces>,
}

impl Requests {
    fn of_file(path: &Path) -> Self {
        let mut all = Requests::default();
        for line in fs::read_to_string(path).unwrap().lines() {
            match line.split('"').nth(1).unwrap() {
                "resourceLogs" => all.logs.push(serde_json::from_str(line).unwrap()),
                "resourceMetrics" => all.metrics.push(serde_json::from_str(line).unwrap()),
                "resourceSpans" => all.traces.push(serde_json::from_str(line).unwrap()),
                other => panic!("{other}"),
            }
        }
        all.comparable()
    }

    /// Maps the same rings for an output that sends.
    fn of(rings: &[Followed]) -> Self {
        let (mut mapper, mut all) = (Mapper::new(&FileOptions::default().mapping), Self::default());
        for ring in rings {
            ring.events(0, |event| mapper.take(event));
        }
        mapper.close();
        for (lane, batch) in mapper.ready() {
            let message = &*batch.into_message();
            match lane {
                Lane::Logs => all.logs.push(Logs::decode(message).unwrap()),
                Lane::Metrics => all.metrics.push(Metrics::decode(message).unwrap()),
                Lane::Traces => all.traces.push(Traces::decode(message).unwrap()),
            }
        }
        all.comparable()
    }

    /// Removes the times at which records were observed, and sorts metrics, whose order says nothing.
    fn comparable(mut self) -> Self {
        for metrics in &mut self.metrics {
            metrics.resource_metrics.sort_by_key(|of| format!("{:?}", of.resource));
        }
        let scopes = self.metrics.iter_mut().flat_map(|metrics| &mut metrics.resource_metrics);
        for metrics in scopes.flat_map(|of| &mut of.scope_metrics).map(|of| &mut of.metrics) {
            for metric in metrics.iter_mut() {
                if let Some(Data::Sum(sum)) = &mut metric.data {
                    sum.data_points.sort_by_key(|point| format!("{point:?}"));
                }
            }
            metrics.sort_by_key(|metric| metric.name.clone());
        }
        let scopes = self.logs.iter_mut().flat_map(|logs| &mut logs.resource_logs);
        let records = scopes.flat_map(|of| &mut of.scope_logs).flat_map(|of| &mut of.log_records);
        records.for_each(|record| record.observed_time_unix_nano = 0);
        self
    }
}

#[test]
fn lines_are_the_requests_that_a_receiver_would_get() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let rings = [
        full_ring(&at("full"), 1),
        lapped_ring(&at("lapped"), 2),
        two_of_one_pid(dir.path(), 3, "shop"),
    ];
    let path = at("telemetry.jsonl");
    let mut out = OtlpFile::open("file", &options(&path)).unwrap();
    for ring in &rings {
        ring.export(&mut out);
    }
    out.close(Instant::now()).unwrap();
    let records: usize = rings.iter().map(|ring| ring.records().len()).sum();
    let figures = out.figures();
    assert_eq!((figures.taken, figures.delivered), (records as u64, records as u64));
    assert_eq!((figures.refused, out.unsettled()), (0, None));
    let (read, sent) = (Requests::of_file(&path), Requests::of(&rings));
    assert!(!sent.logs.is_empty() && !sent.metrics.is_empty());
    assert_eq!(read, sent);
}

#[test]
fn a_record_is_settled_once_its_line_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("telemetry.jsonl");
    let mut out = OtlpFile::open("file", &options(&path)).unwrap();
    let ring = two_of_one_pid(dir.path(), 1, "shop");
    ring.events(7, |event| {
        assert_eq!(out.take(event).unwrap(), Took::Yes);
    });
    assert_eq!((out.unsettled(), out.figures().delivered), (Some(8), 0), "they wait for more");
    out.hurry();
    assert_eq!(out.unsettled(), Some(8), "they are ready, and not written");
    out.flush().unwrap();
    assert_eq!((out.unsettled(), out.figures().delivered), (None, 3));
    // Another process appends, after the last whole line.
    drop(out);
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{before}{{\"resourceLogs\":[")).unwrap();
    OtlpFile::open("file", &options(&path)).unwrap().close(Instant::now()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
}
