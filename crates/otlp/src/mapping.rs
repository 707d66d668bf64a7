//! How records become items and batches.

#[cfg(any(feature = "file", feature = "http"))]
use perfring_events::{OutputError, delivery::checks::more_than_zero};
use perfring_events::{
    read_duration, read_size,
    signal::{Bounds, Histograms},
};
use serde::Deserialize;
use std::time::Duration;

/// How records become log records, data points and spans, and these become batches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mapping {
    /// The signals that are sent. Records of others are taken and left out.
    pub signals: Vec<Lane>,
    /// How records without a class are sent.
    pub plain: Plain,
    /// Whether each log record has an attribute `perfring.key`, the same when it is sent again:
    /// OTLP itself does not recognise duplicates.
    pub key: bool,
    /// The approximate limit of log records, spans or data points in a batch.
    pub batch_items: usize,
    /// The approximate limit of bytes in a batch before compression.
    #[serde(deserialize_with = "read_size")]
    pub batch_bytes: usize,
    /// How long a batch waits for more items.
    #[serde(deserialize_with = "read_duration")]
    pub batch_delay: Duration,
    /// Samples of one instrument with the same attributes become one data point per interval of
    /// this many ms; 0 sends each sample.
    #[serde(deserialize_with = "read_duration")]
    pub metric_interval: Duration,
    /// The bounds of buckets for measurements. A histogram that a program has sorted keeps its own.
    pub buckets: Bounds,
    /// What measurements become. By default histograms with these bounds, which every receiver understands; exponential
    /// ones are exact to a few percent whatever is measured, and a receiver must know them.
    pub histograms: Histograms,
    /// How long a record waits for the resource of its process.
    #[serde(deserialize_with = "read_duration")]
    pub resource_wait: Duration,
    /// The limit of open spans that are remembered.
    pub open_spans: usize,
    /// The approximate limit of bytes of records that wait for a resource and of open spans.
    #[serde(deserialize_with = "read_size")]
    pub held_bytes: usize,
    /// How long a span's start is held in its ring for the end.
    #[serde(deserialize_with = "read_duration")]
    pub span_wait: Duration,
    /// What happens to it then.
    pub long_spans: LongSpans,
    /// How long an end waits for a late start; and an open span of a removed ring for an end
    /// from another ring.
    #[serde(deserialize_with = "read_duration")]
    pub span_grace: Duration,
}

impl Mapping {
    /// All keys: serde does not name them in the errors of options that contain them.
    pub const KEYS: [&str; 15] = [
        "signals",
        "plain",
        "key",
        "batch_items",
        "batch_bytes",
        "batch_delay",
        "metric_interval",
        "buckets",
        "histograms",
        "resource_wait",
        "open_spans",
        "held_bytes",
        "span_wait",
        "long_spans",
        "span_grace",
    ];

    /// Checks bounds and limits.
    #[cfg(any(feature = "file", feature = "http"))]
    pub(crate) fn check(&self, name: &str) -> Result<(), OutputError> {
        if self.signals.is_empty() {
            let why = "signals is empty, so nothing would be sent: name some, or remove the output";
            return Err(OutputError::new(name, why));
        }
        self.buckets.check().map_err(|why| OutputError::new(name, why))?;
        let limits = [
            ("batch_items", self.batch_items),
            ("batch_bytes", self.batch_bytes),
            ("held_bytes", self.held_bytes),
        ];
        more_than_zero(name, &limits.map(|(key, size)| (key, size as u64)))
    }
}

impl Default for Mapping {
    fn default() -> Self {
        Mapping {
            signals: Lane::ALL.to_vec(),
            plain: Plain::Logs,
            key: true,
            batch_items: 2048,
            batch_bytes: 1 << 20,
            batch_delay: Duration::from_millis(200),
            metric_interval: Duration::from_secs(10),
            buckets: Bounds::default(),
            histograms: Histograms::default(),
            resource_wait: Duration::from_secs(1),
            open_spans: 10_000,
            held_bytes: 16 << 20,
            span_wait: Duration::from_secs(10),
            long_spans: LongSpans::Log,
            span_grace: Duration::from_secs(1),
        }
    }
}

/// A signal: each has its own address and requests.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// Log records.
    Logs,
    /// Samples of metrics.
    Metrics,
    /// Spans.
    Traces,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Lane; 3] = [Lane::Logs, Lane::Metrics, Lane::Traces];

    /// Returns its name in addresses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Lane::Logs => "logs",
            Lane::Metrics => "metrics",
            Lane::Traces => "traces",
        }
    }
}

/// How records without a class are sent.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Plain {
    /// As log records, with their fields as attributes.
    Logs,
    /// Not at all.
    Off,
}

/// What happens to a span's start whose end does not arrive for long.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LongSpans {
    /// It is sent as a log record `perfring.span.start`, and remembered: its data survives a crash
    /// of this process.
    Log,
    /// It is only remembered.
    Memory,
}
