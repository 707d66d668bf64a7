//! Panics as log records.

use crate::spans;
use perfring_telemetry::{Log, Severity, Sink, Value};
use std::panic::PanicHookInfo;
use std::thread;

/// Wraps the process's panic hook in one that writes to this sink first.
pub(crate) fn install(sink: Sink, layer: u64) {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        write(&sink, layer, info);
        previous(info);
    }));
}

/// Takes no lock of the layer, and calls no code of the program: the panic may come from either.
fn write(sink: &Sink, layer: u64, info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message.as_str(),
        (None, None) => "a panic whose payload is no text",
    };
    let thread = thread::current();
    let name = [("thread.name", Value::from(thread.name().unwrap_or_default()))];
    let location = info.location();
    let ids = spans::current(layer);
    // The ring counts what it refuses.
    let _ = sink.emit(&Log {
        severity: Some(Severity::Fatal),
        body: message.into(),
        trace_id: ids.map(|ids| ids.trace()),
        span_id: ids.map(|ids| ids.span()),
        event_name: "panic",
        file: location.map(|location| location.file()).unwrap_or_default(),
        line: location.map(|location| location.line()),
        attributes: if thread.name().is_some() { &name } else { &[] },
        ..Log::default()
    });
}
