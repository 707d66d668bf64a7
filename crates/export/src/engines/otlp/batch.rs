//! Batches: the content of requests.

use super::wire;
use crate::model::event::Event;
use crate::model::signal::Reported;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// The events in an item, to find out when they are delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    /// The number of the oldest.
    pub(super) seq: u64,
    /// The number of records. An event that gives two items is counted with one of them.
    pub(super) records: u64,
    /// Identifies the events and their order: the same when they are read again.
    pub(super) digest: u128,
}

impl Credit {
    /// Returns the credit of one event.
    pub(super) fn of(event: &Event<'_>, records: u64) -> Self {
        let digest = match event.key() {
            Some(key) => {
                let cause = key.lost.map_or(0, |cause| cause.len() as u128);
                mix(mix(u128::from_le_bytes(key.uuid), key.pos.into()), cause)
            }
            None => 0,
        };
        Credit { seq: event.seq, records, digest }
    }

    pub(super) fn and(self, other: Credit) -> Credit {
        Credit {
            seq: self.seq.min(other.seq),
            records: self.records + other.records,
            digest: mix(self.digest, other.digest),
        }
    }
}

/// A step of the FNV-1a hash of 128 bits, with words instead of bytes and its halves exchanged, so
/// that each bit comes to count for all.
fn mix(before: u128, word: u128) -> u128 {
    (before ^ word).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b).rotate_left(64)
}

/// A complete request.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(super) request: Request,
    /// Log records, spans or data points.
    pub(super) items: u64,
    pub(super) credit: Credit,
    /// The memory charged for it while it waits to be sent from here.
    #[cfg_attr(not(feature = "otlp"), expect(dead_code))]
    pub(super) bytes: usize,
}

#[cfg(feature = "nats")]
impl Batch {
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.request.encode()
    }

    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    pub(crate) fn records(&self) -> u64 {
        self.credit.records
    }

    /// Returns the number of its oldest event.
    pub(crate) fn seq(&self) -> u64 {
        self.credit.seq
    }

    /// Identifies its events and their order: the same when they are read again.
    pub(crate) fn digest(&self) -> u128 {
        self.credit.digest
    }
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    Logs(ExportLogsServiceRequest),
    Metrics(ExportMetricsServiceRequest),
    Traces(ExportTraceServiceRequest),
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Request::Logs(request) => request.encode_to_vec(),
            Request::Metrics(request) => request.encode_to_vec(),
            Request::Traces(request) => request.encode_to_vec(),
        }
    }
}

/// Log records, spans or metrics, by the messages that hold them.
pub(super) trait Item: Message + Default {
    fn request(groups: Groups<Self>) -> Request;
}

/// By resource, then by scope.
type Groups<T> = Vec<(Arc<Reported>, Vec<(String, Vec<T>)>)>;

/// Names the messages of one signal, and their fields for the parts of a resource and of a scope.
macro_rules! items {
    ($($item:ident: $kind:ident, $request:ident { $resources:ident },
        $of_resource:ident { $scopes:ident }, $of_scope:ident { $items:ident };)*) => {$(
        impl Item for $item {
            fn request(groups: Groups<Self>) -> Request {
                let scope = |(scope, $items): (String, Vec<Self>)| {
                    $of_scope { scope: wire::scope(&scope), $items, ..Default::default() }
                };
                let of = |(reported, scopes): (Arc<Reported>, Vec<(String, Vec<Self>)>)| $of_resource {
                    resource: Some(wire::resource(&reported)),
                    $scopes: scopes.into_iter().map(scope).collect(),
                    ..Default::default()
                };
                let $resources = groups.into_iter().map(of).collect();
                Request::$kind($request { $resources })
            }
        }
    )*};
}

items! {
    LogRecord: Logs, ExportLogsServiceRequest { resource_logs },
        ResourceLogs { scope_logs }, ScopeLogs { log_records };
    Span: Traces, ExportTraceServiceRequest { resource_spans },
        ResourceSpans { scope_spans }, ScopeSpans { spans };
    Metric: Metrics, ExportMetricsServiceRequest { resource_metrics },
        ResourceMetrics { scope_metrics }, ScopeMetrics { metrics };
}

/// A batch that is being filled.
#[derive(Debug, Default)]
pub(super) struct Building<T> {
    groups: Groups<T>,
    /// By the address of the resource, which `groups` keeps alive.
    places: HashMap<(usize, String), (usize, usize)>,
    resources: HashMap<usize, usize>,
    pub(super) items: u64,
    pub(super) bytes: usize,
    credit: Option<Credit>,
    /// When its first item was added.
    pub(super) since: Option<Instant>,
}

impl<T: Item> Building<T> {
    /// Adds something that counts as `items` items.
    pub(super) fn add(
        &mut self,
        reported: &Arc<Reported>,
        scope: &str,
        item: T,
        items: u64,
        credit: Credit,
        now: Instant,
    ) {
        self.items += items;
        self.bytes += item.encoded_len() + 8;
        self.credit = Some(self.credit.map_or(credit, |before| before.and(credit)));
        self.since.get_or_insert(now);

        let address = Arc::as_ptr(reported).addr();
        let (resource, place) = match self.places.get(&(address, scope.to_owned())) {
            Some(place) => *place,
            None => {
                let groups = &mut self.groups;
                let resource = *self.resources.entry(address).or_insert_with(|| {
                    groups.push((Arc::clone(reported), Vec::new()));
                    groups.len() - 1
                });
                let Some((_, scopes)) = groups.get_mut(resource) else { return };
                scopes.push((scope.to_owned(), Vec::new()));
                let place = (resource, scopes.len() - 1);
                self.places.insert((address, scope.to_owned()), place);
                self.bytes += 256; // the approximate size of a resource
                place
            }
        };
        let group = self.groups.get_mut(resource).and_then(|(_, scopes)| scopes.get_mut(place));
        if let Some((_, its)) = group {
            its.push(item);
        }
    }

    /// Returns the oldest event in it.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.credit.map(|credit| credit.seq)
    }

    /// Returns its content as a complete batch.
    pub(super) fn seal(&mut self) -> Option<Batch> {
        let this = std::mem::take(self);
        let request = T::request(this.groups);
        this.credit.map(|credit| Batch { request, items: this.items, credit, bytes: this.bytes })
    }
}
