//! Joins the starts and ends of spans.

use super::batch::Credit;
use super::made::{Item, Made, Seen};
use super::wire;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use perfring_events::{
    later,
    signal::{Reported, SpanEnd, SpanStart},
};
use prost::Message as _;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Key = ([u8; 16], [u8; 8]);

/// Spans that are open, and ends that wait for a late start.
///
/// A span has one start and one end, in one ring or in two. Spans that are not passed on yet hold
/// their records in their ring, but not for ever: see [`Limits`].
#[derive(Debug, Default)]
pub(super) struct Spans {
    limits: Limits,
    open: HashMap<Key, Open>,
    /// By the event that each began with: the oldest is forgotten first.
    born: BTreeSet<(u64, Key)>,
    /// By the oldest event that is not passed on.
    held: BTreeSet<(u64, Key)>,
    /// The same for each ring, by position.
    rings: HashMap<u32, BTreeSet<(u64, Key)>>,
    /// When to stop waiting.
    due: BTreeSet<(Instant, Key)>,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) spans: usize,
    pub(super) bytes: usize,
    pub(super) wait: Duration,
    pub(super) grace: Duration,
    /// Whether a start that waited too long is sent as a log record.
    pub(super) log: bool,
}

#[derive(Debug)]
struct Open {
    span: Span,
    /// The time of its start, or of its end if that is all that is known.
    ring: u32,
    pid: Option<u64>,
    reported: Option<Arc<Reported>>,
    scope: String,
    started: bool,
    ended: bool,
    born: u64,
    bytes: usize,
    /// Its records that are not passed on yet, and their first position in the ring.
    held: Option<(Credit, u64)>,
    since: Instant,
    due: Option<Instant>,
    why: &'static str,
    /// The last known time of its ring, ns since 1970.
    last: u64,
}

impl Spans {
    pub(super) fn new(limits: Limits) -> Self {
        Spans { limits, ..Spans::default() }
    }

    /// Returns the oldest event that is not passed on.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.held.first().map(|(seq, _)| *seq)
    }

    pub(super) fn start(&mut self, seen: &Seen, start: &SpanStart<'_>, out: &mut Vec<Made>) {
        let key = (start.trace_id, start.span_id);
        let named = start.name.is_some();
        let mut more = wire::span(start);
        if more.start_time_unix_nano == 0 {
            more.start_time_unix_nano = seen.wall;
        }
        let mut open = self.remove(&key).unwrap_or_else(|| Open::new(seen));
        if named {
            (open.ring, open.pid, open.reported) = (seen.ring, start.common.pid, None);
        } else if !open.started {
            open.pid = open.pid.or(start.common.pid);
        }
        if !start.common.scope.is_empty() {
            open.scope = start.common.scope.to_owned();
        }
        open.started |= named;
        open.hold(seen);
        if open.span.span_id.is_empty() {
            open.span = more;
        } else {
            wire::extend(&mut open.span, more);
        }
        if open.started && open.ended {
            out.push(open.made());
        } else {
            self.insert(key, open, out);
        }
    }

    pub(super) fn end(&mut self, seen: &Seen, end: &SpanEnd<'_>, out: &mut Vec<Made>) {
        let key = (end.trace_id, end.span_id);
        let mut open = match self.remove(&key) {
            // Two ends: two spans, as far as is known.
            Some(open) if open.ended => {
                out.push(open.made());
                Open::new(seen)
            }
            Some(open) => open,
            None => Open::new(seen),
        };
        if open.span.span_id.is_empty() {
            open.span.trace_id = end.trace_id.to_vec();
            open.span.span_id = end.span_id.to_vec();
            open.pid = end.common.pid;
        }
        if !open.started {
            // The time of a record that extends a span is not its start.
            open.span.start_time_unix_nano = 0;
        }
        open.hold(seen);
        open.ended = true;
        wire::end(&mut open.span, end, seen.wall);
        if open.started {
            out.push(open.made());
        } else {
            open.due = Some(later(seen.now, self.limits.grace));
            self.insert(key, open, out);
        }
    }

    /// Passes on what is held in this ring before this position, to free its space.
    pub(super) fn release(&mut self, ring: u32, before: u64, out: &mut Vec<Made>) {
        while let Some((pos, key)) = self.rings.get(&ring).and_then(|held| held.first().copied())
            && pos < before
        {
            self.pass(key, out);
        }
    }

    /// Passes on what is held in any ring.
    pub(super) fn release_all(&mut self, out: &mut Vec<Made>) {
        let rings: Vec<u32> = self.rings.keys().copied().collect();
        rings.into_iter().for_each(|ring| self.release(ring, u64::MAX, out));
    }

    /// Handles timeouts.
    pub(super) fn tend(&mut self, now: Instant, out: &mut Vec<Made>) {
        while let Some((due, key)) = self.due.first().copied()
            && due <= now
        {
            if let Some(open) = self.remove(&key) {
                out.push(open.made());
            }
        }
        while let Some((_, key)) = self.held.first().copied()
            && let Some(open) = self.open.get(&key)
            && now.saturating_duration_since(open.since) >= self.limits.wait
        {
            self.pass(key, out);
        }
    }

    /// Handles the end of a ring: a span's end can then only arrive from another ring.
    pub(super) fn ring_ended(
        &mut self,
        seen: &Seen,
        mut reported: impl FnMut(Option<u64>) -> Arc<Reported>,
    ) {
        let its = self.open.iter().filter(|(_, open)| open.ring == seen.ring);
        let its: Vec<Key> = its.map(|(key, _)| *key).collect();
        for key in its {
            let Some(mut open) = self.remove(&key) else { continue };
            open.reported.get_or_insert_with(|| reported(open.pid));
            open.why = "its ring was removed before it ended";
            open.last = seen.wall;
            open.due.get_or_insert(later(seen.now, self.limits.grace));
            self.put(key, open);
        }
    }

    /// Passes on everything that must not wait, as this process ends.
    pub(super) fn close(&mut self, out: &mut Vec<Made>) {
        while let Some((_, key)) = self.due.first().copied() {
            if let Some(open) = self.remove(&key) {
                out.push(open.made());
            }
        }
        while let Some((_, key)) = self.held.first().copied() {
            self.pass(key, out);
        }
    }

    /// Passes on what is held of a span, and remembers it.
    fn pass(&mut self, key: Key, out: &mut Vec<Made>) {
        let Some(mut open) = self.remove(&key) else { return };
        if open.ended {
            out.push(open.made());
            return;
        }
        if let Some((credit, pos)) = open.held.take() {
            let item = if self.limits.log {
                Item::Log(open.as_log().encode_to_vec())
            } else {
                Item::Nothing
            };
            out.push(open.with(item, credit, pos));
        }
        self.put(key, open);
    }

    fn insert(&mut self, key: Key, mut open: Open, out: &mut Vec<Made>) {
        open.bytes = open.span.encoded_len() + 256; // the approximate size of the rest
        self.put(key, open);
        while self.open.len() > self.limits.spans || self.bytes > self.limits.bytes {
            let Some((_, oldest)) = self.born.first().copied() else { break };
            let Some(mut open) = self.remove(&oldest) else { break };
            open.why = "too many spans are open: it was the oldest, and is no longer waited for";
            out.push(open.made());
        }
    }

    fn put(&mut self, key: Key, open: Open) {
        self.bytes += open.bytes;
        self.born.insert((open.born, key));
        if let Some((credit, pos)) = open.held {
            self.held.insert((credit.seq, key));
            self.rings.entry(open.ring).or_default().insert((pos, key));
        }
        if let Some(due) = open.due {
            self.due.insert((due, key));
        }
        self.open.insert(key, open);
    }

    fn remove(&mut self, key: &Key) -> Option<Open> {
        let open = self.open.remove(key)?;
        self.bytes = self.bytes.saturating_sub(open.bytes);
        self.born.remove(&(open.born, *key));
        if let Some((credit, pos)) = open.held {
            self.held.remove(&(credit.seq, *key));
            if let Some(of_ring) = self.rings.get_mut(&open.ring) {
                of_ring.remove(&(pos, *key));
                if of_ring.is_empty() {
                    self.rings.remove(&open.ring);
                }
            }
        }
        if let Some(due) = open.due {
            self.due.remove(&(due, *key));
        }
        Some(open)
    }
}

impl Open {
    fn new(seen: &Seen) -> Self {
        Open {
            span: Span::default(),
            ring: seen.ring,
            pid: None,
            reported: None,
            scope: String::new(),
            started: false,
            ended: false,
            born: seen.credit.seq,
            bytes: 0,
            held: None,
            since: seen.now,
            due: None,
            why: "",
            last: seen.wall,
        }
    }

    /// Adds a record that is not passed on yet.
    fn hold(&mut self, seen: &Seen) {
        let credit = seen.credit;
        self.held = Some(match self.held {
            None => {
                self.since = seen.now;
                (credit, seen.pos)
            }
            // A record of another ring: only that of the span's start is held.
            Some((before, pos)) => {
                (before.and(credit), if seen.ring == self.ring { pos.min(seen.pos) } else { pos })
            }
        });
    }

    fn with(&self, item: Item, credit: Credit, pos: u64) -> Made {
        Made {
            ring: self.ring,
            pid: self.pid,
            reported: self.reported.clone(),
            scope: self.scope.clone(),
            item,
            credit,
            pos,
        }
    }

    /// Returns the span, with what is known.
    fn made(mut self) -> Made {
        let mut span = std::mem::take(&mut self.span);
        if !self.started {
            span.attributes.push(wire::pair("perfring.span.start", wire::text("missing")));
        }
        if !self.ended {
            wire::unfinished(&mut span, self.last, self.why);
        }
        if span.start_time_unix_nano == 0 {
            span.start_time_unix_nano = span.end_time_unix_nano;
        }
        let nothing = (Credit { seq: u64::MAX, records: 0, digest: 0 }, 0);
        let (credit, pos) = self.held.unwrap_or(nothing);
        self.with(Item::Span(span.encode_to_vec()), credit, pos)
    }

    /// Returns the known part of an open span as a log record.
    fn as_log(&self) -> LogRecord {
        let span = &self.span;
        let mut attributes = span.attributes.clone();
        let mut more = |name, value| attributes.push(wire::pair(name, value));
        more("perfring.span.name", wire::text(&*span.name));
        more("perfring.span.kind", wire::int(span.kind.into()));
        if !span.parent_span_id.is_empty() {
            more("perfring.span.parent_span_id", wire::text(hex(&span.parent_span_id)));
        }
        if !span.links.is_empty() {
            let link = |link: &opentelemetry_proto::tonic::trace::v1::span::Link| {
                wire::text(hex(&link.trace_id) + "-" + &hex(&link.span_id))
            };
            let values = span.links.iter().map(link).collect();
            let value = Some(Any::ArrayValue(ArrayValue { values }));
            more("perfring.span.links", AnyValue { value });
        }
        LogRecord {
            time_unix_nano: span.start_time_unix_nano,
            observed_time_unix_nano: self.last,
            body: Some(wire::text(format!("span {:?} is open", span.name))),
            attributes,
            dropped_attributes_count: span.dropped_attributes_count,
            trace_id: span.trace_id.clone(),
            span_id: span.span_id.clone(),
            event_name: "perfring.span.start".into(),
            ..LogRecord::default()
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
