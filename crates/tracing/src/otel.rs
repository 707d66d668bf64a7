//! The fields of a span that OpenTelemetry gives a meaning: `otel.kind`, `otel.name`, `otel.status_code` and
//! `otel.status_message`, as `tracing-opentelemetry` has them.

use crate::visit::Fields;
use perfring_producer::types::tagged::TaggedWriter;
use perfring_telemetry::{SpanKind, Status, names};
use std::error::Error;
use std::fmt;
use tracing_core::field::{Field, Visit};

/// What such fields say of a span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Otel {
    pub(crate) kind: Option<SpanKind>,
    pub(crate) name: Option<String>,
    pub(crate) status: Option<Status>,
    pub(crate) message: Option<String>,
    /// Whether there are other fields.
    pub(crate) has_more: bool,
}

impl Otel {
    /// Takes the value of a field, if it says one of these. Another value is an attribute.
    fn take(&mut self, field: &Field, value: &dyn fmt::Display) -> bool {
        match field.name() {
            "otel.kind" => set(&mut self.kind, SpanKind::from_name(&value.to_string())),
            "otel.status_code" => set(&mut self.status, Status::from_name(&value.to_string())),
            "otel.status_message" | "otel.status_description" => {
                set(&mut self.message, Some(value.to_string()))
            }
            "otel.name" => set(&mut self.name, Some(value.to_string())),
            _ => false,
        }
    }

    fn visit(&mut self, field: &Field, value: &dyn fmt::Display) {
        let is_more = !self.take(field, value);
        self.has_more |= is_more;
    }

    /// Takes what was said later.
    pub(crate) fn update(&mut self, later: Otel) {
        self.kind = later.kind.or(self.kind);
        self.status = later.status.or(self.status);
        self.name = later.name.or(self.name.take());
        self.message = later.message.or(self.message.take());
    }

    /// Returns whether the span's end has something of it.
    pub(crate) fn is_of_end(&self) -> bool {
        self.name.is_some() || self.status.is_some() || self.message.is_some()
    }

    /// Returns the status of the span's end, and its text. A text alone is of an error.
    pub(crate) fn status(&self) -> Option<(Status, &str)> {
        let message = self.message.as_deref();
        let status = self.status.or(message.map(|_| Status::Error));
        status.map(|status| (status, message.unwrap_or_default()))
    }

    /// Writes what a span's start has of it.
    pub(crate) fn write(&self, writer: &mut TaggedWriter<'_>) {
        if let Some(kind) = self.kind {
            writer.u64(names::KIND, kind.number());
        }
    }
}

fn set<T>(to: &mut Option<T>, value: Option<T>) -> bool {
    let is_set = value.is_some();
    if is_set {
        *to = value;
    }
    is_set
}

impl Visit for Otel {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.visit(field, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.visit(field, &Shown(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.visit(field, &value);
    }
}

/// A value as its `Debug` shows it: `%value` has its `Display` there.
struct Shown<'a>(&'a dyn fmt::Debug);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Appends each visited field that has no such meaning.
pub(crate) struct Others<'a, 'w>(pub(crate) Fields<'a, 'w>);

impl Others<'_, '_> {
    fn unless_taken(
        &mut self,
        field: &Field,
        value: &dyn fmt::Display,
        act: impl FnOnce(&mut Self),
    ) {
        if !Otel::default().take(field, value) {
            act(self);
        }
    }
}

impl Visit for Others<'_, '_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.unless_taken(field, &value, |this| this.0.record_f64(field, value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.unless_taken(field, &value, |this| this.0.record_i64(field, value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.unless_taken(field, &value, |this| this.0.record_u64(field, value));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.unless_taken(field, &value, |this| this.0.record_i128(field, value));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.unless_taken(field, &value, |this| this.0.record_u128(field, value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.unless_taken(field, &value, |this| this.0.record_bool(field, value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.unless_taken(field, &value, |this| this.0.record_str(field, value));
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.0.record_bytes(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.unless_taken(field, &value, |this| this.0.record_error(field, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.unless_taken(field, &Shown(value), |this| this.0.record_debug(field, value));
    }
}
