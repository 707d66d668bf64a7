//! What is read of a record.

use perfring_types::Class;
use perfring_types::tagged::Data;

/// A log record, or a record without a class, beside its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Direct<'a> {
    /// Its class: that of log records, or none.
    pub class: Class,
    /// See [`Common`](crate::signal::Common).
    pub time: Option<u64>,
    /// See [`Common`](crate::signal::Common).
    pub pid: Option<u64>,
    /// See [`Common`](crate::signal::Common).
    pub scope: &'a str,
    /// See [`Common`](crate::signal::Common).
    pub truncated: u64,
    /// See [`Log`](crate::signal::Log); 0 if unknown.
    pub severity_number: u8,
    /// See [`Log`](crate::signal::Log).
    pub severity_text: &'a str,
    /// See [`Log`](crate::signal::Log).
    pub body: Option<Data<'a>>,
    /// See [`Log`](crate::signal::Log).
    pub trace_id: Option<[u8; 16]>,
    /// See [`Log`](crate::signal::Log).
    pub span_id: Option<[u8; 8]>,
    /// See [`Log`](crate::signal::Log); of a record without a class the name of its type.
    pub event_name: &'a str,
    /// See [`Log`](crate::signal::Log).
    pub observed: Option<u64>,
}
