//! The start and the end of a span.

use super::record::*;
use crate::ids::{SpanId, TraceId};
use crate::severity::{SpanKind, Status};

/// The start of a span.
///
/// Without a name, it adds to a span that has begun: later attributes, or a span that it follows from.
#[derive(Clone, Copy, Debug)]
pub struct SpanStart<'a> {
    /// The span's trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// The parent span; none for the first span of a trace.
    pub parent_span_id: Option<SpanId>,
    /// Its name, the same for all spans of the kind; empty if it has begun before.
    pub name: &'a str,
    /// Its kind.
    pub kind: Option<SpanKind>,
    /// A span that it follows from.
    pub link: Option<(TraceId, SpanId)>,
    /// The part of the program that it is from, or empty.
    pub scope: &'a str,
    /// All other fields.
    pub attributes: Attributes<'a>,
}

impl<'a> SpanStart<'a> {
    /// Creates the start of a span without parent, link and attributes.
    #[must_use]
    pub fn new(trace_id: TraceId, span_id: SpanId, name: &'a str) -> Self {
        SpanStart {
            trace_id,
            span_id,
            parent_span_id: None,
            name,
            kind: None,
            link: None,
            scope: "",
            attributes: &[],
        }
    }
}

fields! { SPAN_START:
    START_TRACE = plain(names::TRACE_ID),
    START_SPAN = plain(names::SPAN_ID),
    START_PARENT = plain(names::PARENT_SPAN_ID),
    START_NAME = plain(names::NAME),
    START_KIND = any(names::KIND, "1 internal, 2 server, 3 client, 4 producer, 5 consumer"),
    START_LINK_TRACE = any(names::LINK_TRACE_ID, "it follows from this span"),
    START_LINK_SPAN = plain(names::LINK_SPAN_ID),
    START_SCOPE = plain(names::SCOPE),
}

impl Signal for SpanStart<'_> {
    const SCHEMA: Schema<'static> = schema(
        "perfring.SpanStart",
        Class::SpanStart,
        "a span begins; or, without a name, more of one that has begun",
        SPAN_START,
    );
}

impl sealed::Fill for SpanStart<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        writer.bytes(START_TRACE, &self.trace_id.0);
        writer.bytes(START_SPAN, &self.span_id.0);
        maybe(self.parent_span_id, |id| writer.bytes(START_PARENT, &id.0));
        text(START_NAME, self.name, writer);
        maybe(self.kind, |kind| writer.u64(START_KIND, kind.number()));
        if let Some((trace, span)) = self.link {
            writer.bytes(START_LINK_TRACE, &trace.0);
            writer.bytes(START_LINK_SPAN, &span.0);
        }
        text(START_SCOPE, self.scope, writer);
        attributes(Class::SpanStart, self.attributes, writer);
    }
}

/// The end of a span, with what a reader needs that missed the start.
#[derive(Clone, Copy, Debug)]
pub struct SpanEnd<'a> {
    /// The span's trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// The parent span; none for the first span of a trace.
    pub parent_span_id: Option<SpanId>,
    /// Its name.
    pub name: &'a str,
    /// Its duration in ns.
    pub duration_nano: Option<u64>,
    /// Its status, and a text.
    pub status: Option<(Status, &'a str)>,
    /// All other fields.
    pub attributes: Attributes<'a>,
}

impl<'a> SpanEnd<'a> {
    /// Creates the end of a span without status and attributes.
    #[must_use]
    pub fn new(trace_id: TraceId, span_id: SpanId, name: &'a str) -> Self {
        SpanEnd {
            trace_id,
            span_id,
            parent_span_id: None,
            name,
            duration_nano: None,
            status: None,
            attributes: &[],
        }
    }
}

fields! { SPAN_END:
    END_TRACE = plain(names::TRACE_ID),
    END_SPAN = plain(names::SPAN_ID),
    END_PARENT = plain(names::PARENT_SPAN_ID),
    END_NAME = plain(names::NAME),
    END_DURATION = ns(names::DURATION, "it began so much before"),
    END_STATUS = any(names::STATUS_CODE, "0 unset, 1 ok, 2 error"),
    END_MESSAGE = plain(names::STATUS_MESSAGE),
}

impl Signal for SpanEnd<'_> {
    const SCHEMA: Schema<'static> =
        schema("perfring.SpanEnd", Class::SpanEnd, "a span ends", SPAN_END);
}

impl sealed::Fill for SpanEnd<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        writer.bytes(END_TRACE, &self.trace_id.0);
        writer.bytes(END_SPAN, &self.span_id.0);
        maybe(self.parent_span_id, |id| writer.bytes(END_PARENT, &id.0));
        text(END_NAME, self.name, writer);
        maybe(self.duration_nano, |nano| writer.u64(END_DURATION, nano));
        if let Some((status, message)) = self.status {
            writer.u64(END_STATUS, status.number());
            text(END_MESSAGE, message, writer);
        }
        attributes(Class::SpanEnd, self.attributes, writer);
    }
}
