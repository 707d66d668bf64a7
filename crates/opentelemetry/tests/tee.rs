//! Exporters that write into a ring, and keep what the SDK's own OTLP exporter would send.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics as ProtoMetrics;
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::logs::tonic::group_logs_by_resource_and_scope;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use perfring_opentelemetry::{RingLogExporter, RingMetricExporter, RingSpanExporter};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What was exported, and the results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept<T>(Arc<Mutex<(Vec<T>, Results)>>);

type Results = Vec<Result<(), String>>;

impl<T> Kept<T> {
    fn keep(&self, sent: Vec<T>, result: OTelSdkResult) -> OTelSdkResult {
        let mut kept = self.0.lock().unwrap();
        kept.0.extend(sent);
        kept.1.push(result.as_ref().copied().map_err(ToString::to_string));
        result
    }

    /// Takes what was sent.
    pub(crate) fn sent(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap().0)
    }

    /// Takes the results of the exports.
    pub(crate) fn results(&self) -> Results {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }
}

#[derive(Debug)]
pub(crate) struct Tee<E, T> {
    pub(crate) inner: E,
    resource: ResourceAttributesWithSchema,
    pub(crate) kept: Kept<T>,
}

impl<E, T> Tee<E, T> {
    pub(crate) fn new(inner: E) -> (Self, Kept<T>) {
        let kept = Kept(Arc::default());
        let tee = Tee {
            inner,
            resource: ResourceAttributesWithSchema::default(),
            kept: Kept(Arc::clone(&kept.0)),
        };
        (tee, kept)
    }
}

impl SpanExporter for Tee<RingSpanExporter, ResourceSpans> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = group_spans_by_resource_and_scope(batch.clone(), &self.resource);
        self.kept.keep(sent, self.inner.export(batch).await)
    }
    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }
    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }
    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
        self.inner.set_resource(resource);
    }
}

impl LogExporter for Tee<RingLogExporter, ResourceLogs> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let sent = group_logs_by_resource_and_scope(&batch, &self.resource);
        self.kept.keep(sent, self.inner.export(batch).await)
    }
    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }
    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
        self.inner.set_resource(resource);
    }
}

impl PushMetricExporter for Tee<RingMetricExporter, ProtoMetrics> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let sent = ExportMetricsServiceRequest::from(metrics).resource_metrics;
        self.kept.keep(sent, self.inner.export(metrics).await)
    }
    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }
    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }
    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}
