//! The exporter of spans.

use crate::door::{Door, Out, Shut};
use crate::fields::{nanos, number};
use crate::lacks::Lack;
use opentelemetry::trace::{Event, SpanId, SpanKind as Kind, Status as Ended};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use perfring_telemetry::types::Schema;
use perfring_telemetry::types::tagged::TaggedWriter;
use perfring_telemetry::{Log, Signal, SpanEnd, SpanKind, SpanStart, Status, names};
use std::sync::Arc;
use std::time::Duration;

/// Writes spans into a ring: see [`RingExporter::spans`](crate::RingExporter::spans).
///
/// A span is a `span_start` with its attributes, one more for each link but the first, a `log` record for each event, and a
/// `span_end`. Each has the time of what it tells.
#[derive(Debug)]
pub struct RingSpanExporter {
    pub(crate) door: Arc<Door>,
    pub(crate) shut: Shut,
}

const START: Schema<'static> = SpanStart::SCHEMA;
const START_TRACE: u16 = number(&START, names::TRACE_ID);
const START_SPAN: u16 = number(&START, names::SPAN_ID);
const START_PARENT: u16 = number(&START, names::PARENT_SPAN_ID);
const START_NAME: u16 = number(&START, names::NAME);
const START_KIND: u16 = number(&START, names::KIND);
const LINK_TRACE: u16 = number(&START, names::LINK_TRACE_ID);
const LINK_SPAN: u16 = number(&START, names::LINK_SPAN_ID);

const END: Schema<'static> = SpanEnd::SCHEMA;
const END_TRACE: u16 = number(&END, names::TRACE_ID);
const END_SPAN: u16 = number(&END, names::SPAN_ID);
const END_PARENT: u16 = number(&END, names::PARENT_SPAN_ID);
const END_NAME: u16 = number(&END, names::NAME);
const END_DURATION: u16 = number(&END, names::DURATION);
const END_STATUS: u16 = number(&END, names::STATUS_CODE);
const END_MESSAGE: u16 = number(&END, names::STATUS_MESSAGE);

const LOG: Schema<'static> = Log::SCHEMA;
const LOG_TRACE: u16 = number(&LOG, names::TRACE_ID);
const LOG_SPAN: u16 = number(&LOG, names::SPAN_ID);
const LOG_EVENT: u16 = number(&LOG, names::EVENT_NAME);

impl SpanExporter for RingSpanExporter {
    /// Writes the spans at once, and does not wait but for the ring's lock.
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.shut.check()?;
        self.door.write("spans", |out| {
            batch.iter().for_each(|span| out.item(|out| write(span, out)));
        })
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.shut.check()?;
        self.door.flush()
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        self.shut.shut()?;
        self.door.flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.door.set_resource(resource);
    }
}

fn write(span: &SpanData, out: &mut Out<'_>) {
    let (start, end) = (nanos(span.start_time), nanos(span.end_time));
    let context = &span.span_context;
    let ids = |writer: &mut TaggedWriter<'_>, trace: u16, its: u16| {
        writer.bytes(trace, &context.trace_id().to_bytes());
        writer.bytes(its, &context.span_id().to_bytes());
    };
    let parent = Some(span.parent_span_id).filter(|id| *id != SpanId::INVALID);
    let links = &span.links.links;
    let mut others = links.iter();
    let first = others.next();
    out.record(&START, start, |record| {
        ids(record.writer, START_TRACE, START_SPAN);
        if let Some(parent) = parent {
            record.writer.bytes(START_PARENT, &parent.to_bytes());
        }
        // A start without a name would add to another one.
        record.writer.text(START_NAME, &span.name);
        record.writer.u64(START_KIND, kind(&span.span_kind).number());
        if let Some(link) = first {
            record.writer.bytes(LINK_TRACE, &link.span_context.trace_id().to_bytes());
            record.writer.bytes(LINK_SPAN, &link.span_context.span_id().to_bytes());
        }
        record.scope(&span.instrumentation_scope, None);
        record.attributes(&span.attributes, span.dropped_attributes_count);
    });
    for link in others {
        out.record(&START, start, |record| {
            ids(record.writer, START_TRACE, START_SPAN);
            record.writer.bytes(LINK_TRACE, &link.span_context.trace_id().to_bytes());
            record.writer.bytes(LINK_SPAN, &link.span_context.span_id().to_bytes());
        });
    }
    for event in &span.events.events {
        let Event { name, timestamp, attributes, dropped_attributes_count, .. } = event;
        out.record(&LOG, nanos(*timestamp), |record| {
            ids(record.writer, LOG_TRACE, LOG_SPAN);
            record.text(LOG_EVENT, name);
            record.scope(&span.instrumentation_scope, None);
            record.attributes(attributes, *dropped_attributes_count);
        });
    }
    out.record(&END, end, |record| {
        ids(record.writer, END_TRACE, END_SPAN);
        if let Some(parent) = parent {
            record.writer.bytes(END_PARENT, &parent.to_bytes());
        }
        record.text(END_NAME, &span.name);
        record.writer.u64(END_DURATION, end.saturating_sub(start));
        let (code, message) = match &span.status {
            Ended::Unset => (Status::Unset, ""),
            Ended::Ok => (Status::Ok, ""),
            Ended::Error { description } => (Status::Error, &**description),
        };
        record.writer.u64(END_STATUS, code.number());
        record.text(END_MESSAGE, message);
    });
    let states = links.iter().map(|link| &link.span_context).chain([context]);
    let states = states.filter(|context| !context.trace_state().header().is_empty());
    out.lacks.count(Lack::TraceStates, states.count() as u64);
    let of_links = links
        .iter()
        .map(|link| link.attributes.len() as u64 + u64::from(link.dropped_attributes_count));
    out.lacks.count(Lack::LinkAttributes, of_links.sum());
    let dropped = u64::from(span.events.dropped_count) + u64::from(span.links.dropped_count);
    out.lacks.count(Lack::DroppedCounts, dropped);
}

fn kind(kind: &Kind) -> SpanKind {
    match kind {
        Kind::Internal => SpanKind::Internal,
        Kind::Server => SpanKind::Server,
        Kind::Client => SpanKind::Client,
        Kind::Producer => SpanKind::Producer,
        Kind::Consumer => SpanKind::Consumer,
    }
}
