//! Log records.

use super::record::*;
use crate::ids::{SpanId, TraceId};
use crate::severity::Severity;

/// A log record.
///
/// ```
/// use perfring_telemetry::{Log, Severity};
/// let log = Log {
///     severity: Some(Severity::Warn),
///     body: "disk is nearly full".into(),
///     attributes: &[("left", 12u64.into()), ("mount", "/var".into())],
///     ..Log::default()
/// };
/// # let dir = tempfile::tempdir()?;
/// # let sink = perfring_telemetry::Sink::create(dir.path().join("r"), &perfring_telemetry::options(), perfring_telemetry::Resource::here())?;
/// sink.emit(&log)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Log<'a> {
    /// Its severity.
    pub severity: Option<Severity>,
    /// Its text.
    pub body: Value<'a>,
    /// The trace that it happened in.
    pub trace_id: Option<TraceId>,
    /// The span that it happened in.
    pub span_id: Option<SpanId>,
    /// The name of its kind of event, or empty.
    pub event_name: &'a str,
    /// When it was observed, in ns since 1970, if that was much later than it happened.
    pub observed_time_unix_nano: Option<u64>,
    /// The part of the program that it is from, or empty.
    pub scope: &'a str,
    /// The source file, or empty.
    pub file: &'a str,
    /// The line in the source file.
    pub line: Option<u32>,
    /// All other fields.
    pub attributes: Attributes<'a>,
}

fields! { LOG:
    LOG_NUMBER = any(names::SEVERITY_NUMBER, "1 to 24, as OpenTelemetry has them"),
    LOG_TEXT = plain(names::SEVERITY_TEXT),
    LOG_BODY = plain(names::BODY),
    LOG_TRACE = plain(names::TRACE_ID),
    LOG_SPAN = plain(names::SPAN_ID),
    LOG_EVENT = plain(names::EVENT_NAME),
    LOG_OBSERVED = ns(names::OBSERVED_TIME, "since 1970"),
    LOG_SCOPE = plain(names::SCOPE),
    LOG_FILE = plain(names::FILE),
    LOG_LINE = plain(names::LINE),
}

impl Signal for Log<'_> {
    const SCHEMA: Schema<'static> = schema("perfring.Log", Class::Log, "a log record", LOG);
}

impl sealed::Fill for Log<'_> {
    fn fill(&self, writer: &mut TaggedWriter<'_>) {
        if let Some(severity) = self.severity {
            writer.u64(LOG_NUMBER, severity.number());
            writer.text(LOG_TEXT, severity.name());
        }
        maybe(self.trace_id, |id| writer.bytes(LOG_TRACE, &id.0));
        maybe(self.span_id, |id| writer.bytes(LOG_SPAN, &id.0));
        maybe(self.observed_time_unix_nano, |time| writer.u64(LOG_OBSERVED, time));
        text(LOG_EVENT, self.event_name, writer);
        text(LOG_SCOPE, self.scope, writer);
        text(LOG_FILE, self.file, writer);
        maybe(self.line, |line| writer.u64(LOG_LINE, line.into()));
        if !matches!(self.body, Value::None) {
            self.body.write(LOG_BODY, writer);
        }
        attributes(Class::Log, self.attributes, writer);
    }

    fn severity(&self) -> Option<Severity> {
        self.severity
    }

    fn may_have_trace(&self) -> bool {
        self.trace_id.is_none()
    }

    fn fill_within(&self, (trace, span): sealed::Within, writer: &mut TaggedWriter<'_>) {
        writer.bytes(LOG_TRACE, &trace);
        writer.bytes(LOG_SPAN, &span);
        self.fill(writer);
    }
}
