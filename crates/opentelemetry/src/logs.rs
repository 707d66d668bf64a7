//! The exporter of log records.

use crate::door::{Door, Out, Shut};
use crate::fields::{nanos, number};
use crate::lacks::Lack;
use opentelemetry::{InstrumentationScope, SpanId, TraceId};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter, SdkLogRecord};
use perfring_telemetry::types::Schema;
use perfring_telemetry::types::tagged::Key;
use perfring_telemetry::{Log, Signal, names};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Writes log records into a ring: see [`RingExporter::logs`](crate::RingExporter::logs).
///
/// A record without a time has that of its observation. The scope is the record's target, if it has one, as with the SDK's
/// own exporters.
#[derive(Debug)]
pub struct RingLogExporter {
    pub(crate) door: Arc<Door>,
    pub(crate) shut: Shut,
}

const LOG: Schema<'static> = Log::SCHEMA;
const NUMBER: u16 = number(&LOG, names::SEVERITY_NUMBER);
const TEXT: u16 = number(&LOG, names::SEVERITY_TEXT);
const BODY: u16 = number(&LOG, names::BODY);
const TRACE: u16 = number(&LOG, names::TRACE_ID);
const SPAN: u16 = number(&LOG, names::SPAN_ID);
const EVENT: u16 = number(&LOG, names::EVENT_NAME);
const OBSERVED: u16 = number(&LOG, names::OBSERVED_TIME);

impl LogExporter for RingLogExporter {
    /// Writes the log records at once, and does not wait but for the ring's lock.
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        self.shut.check()?;
        self.door.write("log records", |out| {
            batch.iter().for_each(|(log, scope)| out.item(|out| write(log, scope, out)));
        })
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        self.shut.shut()?;
        self.door.flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.door.set_resource(resource);
    }
}

fn write(log: &SdkLogRecord, scope: &InstrumentationScope, out: &mut Out<'_>) {
    let observed = log.observed_timestamp();
    let time = log.timestamp().or(observed).unwrap_or_else(SystemTime::now);
    out.record(&LOG, nanos(time), |record| {
        if let Some(severity) = log.severity_number() {
            record.writer.u64(NUMBER, severity as u64);
        }
        record.text(TEXT, log.severity_text().unwrap_or_default());
        if let Some(context) = log.trace_context() {
            if context.trace_id != TraceId::INVALID {
                record.writer.bytes(TRACE, &context.trace_id.to_bytes());
            }
            if context.span_id != SpanId::INVALID {
                record.writer.bytes(SPAN, &context.span_id.to_bytes());
            }
        }
        if let Some(observed) = observed {
            record.writer.u64(OBSERVED, nanos(observed));
        }
        record.text(EVENT, log.event_name().unwrap_or_default());
        record.scope(scope, log.target().map(|target| &**target));
        if let Some(body) = log.body() {
            record.any(Key::Field(BODY), body);
        }
        // Of each name the last one, as with spans.
        for (at, (name, value)) in log.attributes_iter().enumerate() {
            if log.attributes_iter().skip(at + 1).any(|(its, _)| its == name) {
                record.lacks.count(Lack::Replaced, 1);
            } else {
                record.attribute(name.as_str(), |key, record| record.any(key, value));
            }
        }
    });
}
