//! Traces: those of which rings hold spans, and the spans of one, over all rings and processes.

use super::clock::Clock;
use super::seen::Seen;
use super::shown::hex;
use perfring_events::Rec;
use perfring_events::signal::{Attributes, Common, Signal, SpanEnd, SpanStart};
use perfring_figures::escape::one_line;
use perfring_types::Class;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Traces of one answer: those with the newest records.
const TRACES: usize = 200;
/// Traces that are known while rings are looked at.
const KNOWN: usize = 20_000;
/// Spans of a trace.
const SPANS: usize = 2_000;
/// Characters of a name or a value, and bytes of all attributes of a trace.
const TEXT: usize = 200;
const ATTRIBUTES: usize = 1 << 20;

/// A trace in the list of all.
#[derive(Debug, Default, Serialize)]
struct Known {
    id: String,
    /// The name of its first span without a parent, or else of any.
    name: String,
    #[serde(skip)]
    has_root: bool,
    from: Option<i64>,
    to: Option<i64>,
    spans: usize,
    /// Spans of which no end was found.
    open: usize,
    /// Its spans, and whether the end of each was found.
    #[serde(skip)]
    ids: BTreeMap<[u8; 8], bool>,
    errors: usize,
    rings: BTreeSet<u32>,
}

/// The traces of which there are spans.
#[derive(Debug, Default, Serialize)]
pub(super) struct Traces {
    traces: Vec<Known>,
    /// Whether there are more traces than are in the answer.
    more: bool,
    #[serde(skip)]
    all: HashMap<[u8; 16], Known>,
    /// Rings that are not looked at, as there are too many.
    pub(super) left_out: usize,
}

/// A span, from its start, its end, or both.
#[derive(Debug, Default, Serialize)]
struct Shown {
    id: String,
    parent: Option<String>,
    name: String,
    ring: u32,
    ring_name: String,
    pid: Option<u64>,
    kind: Option<u8>,
    scope: String,
    start: Option<i64>,
    end: Option<i64>,
    /// Whether the start's record was found, and the end's.
    has_start: bool,
    has_end: bool,
    status: Option<u8>,
    status_message: String,
    attributes: Vec<(String, String)>,
}

/// The spans of a trace.
#[derive(Debug, Serialize)]
pub(super) struct Trace {
    #[serde(skip)]
    id: [u8; 16],
    spans: Vec<Shown>,
    #[serde(skip)]
    places: HashMap<[u8; 8], usize>,
    /// Records of spans, and attributes, for which there was no room.
    more: usize,
    attributes_left_out: usize,
    /// Records that were gone before they could be looked at, and were lost: some may have been of this trace.
    missed: u64,
    pub(super) left_out: usize,
    #[serde(skip)]
    bytes: usize,
}

/// Reads the id of a trace: 32 digits.
pub(super) fn id(text: &str) -> Option<[u8; 16]> {
    let text = text.trim();
    let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)).flatten()
}

fn short(text: &str) -> String {
    one_line(&text.chars().take(TEXT).collect::<String>())
}

/// Returns the signal of a record if it is of a span.
fn span<'a>(record: &'a Rec<'_>) -> Option<Signal<'a>> {
    let class = record.kind_of()?.class.known()?;
    matches!(class, Class::SpanStart | Class::SpanEnd).then(|| Signal::of(record))
}

fn at(common: &Common<'_>, clock: &Clock) -> Option<i64> {
    common.time.map(|time| clock.of_wall(time))
}

impl Traces {
    /// Takes what is found in a ring.
    pub(super) fn see(&mut self, ring: u32, seen: &Seen<'_>, clock: &Clock) {
        let Seen::Record(_, record) = seen else { return };
        let Some(signal) = span(record) else { return };
        let (trace, span, t, name, has_parent) = match &signal {
            Signal::SpanStart(of) => {
                let t = at(&of.common, clock);
                (of.trace_id, of.span_id, t, of.name, of.parent_span_id.is_some())
            }
            Signal::SpanEnd(of) => {
                let t = at(&of.common, clock);
                (of.trace_id, of.span_id, t, Some(of.name), of.parent_span_id.is_some())
            }
            _ => return,
        };
        if self.all.len() >= KNOWN && !self.all.contains_key(&trace) {
            self.more = true;
            self.shrink();
        }
        let known = self.all.entry(trace).or_default();
        known.rings.insert(ring);
        let begun = match &signal {
            Signal::SpanEnd(of) => t.zip(of.duration).map(|(t, ns)| t.saturating_sub_unsigned(ns)),
            _ => t,
        };
        known.from = [known.from, begun].into_iter().flatten().min();
        known.to = known.to.max(t);
        let is_end = matches!(signal, Signal::SpanEnd(_));
        if known.ids.len() < SPANS || known.ids.contains_key(&span) {
            *known.ids.entry(span).or_default() |= is_end;
        }
        if let Signal::SpanEnd(SpanEnd { status_code: Some(2), .. }) = signal {
            known.errors += 1;
        }
        if let Some(name) = name.filter(|name| !name.is_empty())
            && (known.name.is_empty() || (!has_parent && !known.has_root))
        {
            known.name = short(name);
            known.has_root = !has_parent;
        }
    }

    /// Forgets the half with the oldest records.
    fn shrink(&mut self) {
        let mut ends: Vec<_> = self.all.values().map(|known| known.to).collect();
        ends.sort_unstable();
        let middle = ends.get(ends.len() / 2).copied().flatten();
        self.all.retain(|_, known| known.to > middle);
    }

    /// Returns the answer: the last traces, the newest first.
    pub(super) fn finish(mut self) -> Self {
        let known = self.all.drain().map(|(id, known)| Known {
            id: hex(&id),
            spans: known.ids.len(),
            open: known.ids.values().filter(|has_end| !**has_end).count(),
            ..known
        });
        self.traces = known.collect();
        self.traces.sort_by(|a, b| (b.to, &b.id).cmp(&(a.to, &a.id)));
        self.more |= self.traces.len() > TRACES;
        self.traces.truncate(TRACES);
        self
    }
}

impl Trace {
    pub(super) fn new(id: [u8; 16]) -> Self {
        Trace {
            id,
            spans: Vec::new(),
            places: HashMap::new(),
            more: 0,
            attributes_left_out: 0,
            missed: 0,
            left_out: 0,
            bytes: 0,
        }
    }

    /// Takes what is found in a ring.
    pub(super) fn see(&mut self, ring: u32, name: &str, seen: &Seen<'_>, clock: &Clock) {
        match seen {
            Seen::Record(_, record) => match span(record) {
                Some(Signal::SpanStart(start)) if start.trace_id == self.id => {
                    self.start((ring, name), &start, clock);
                }
                Some(Signal::SpanEnd(end)) if end.trace_id == self.id => {
                    self.end((ring, name), &end, clock);
                }
                _ => {}
            },
            Seen::Lost(loss) => self.missed = self.missed.saturating_add(loss.records),
            Seen::Missed(records) => self.missed = self.missed.saturating_add(*records),
            Seen::More => self.more += 1,
            Seen::Ring { .. } => {}
        }
    }

    /// Returns the span of this id.
    fn span(&mut self, (ring, name): (u32, &str), id: [u8; 8], pid: Option<u64>) -> Option<usize> {
        if let Some(place) = self.places.get(&id) {
            return Some(*place);
        }
        if self.spans.len() >= SPANS {
            self.more += 1;
            return None;
        }
        let place = self.spans.len();
        let (id_text, ring_name) = (hex(&id), name.to_owned());
        self.spans.push(Shown { id: id_text, ring, ring_name, pid, ..Shown::default() });
        self.places.insert(id, place);
        Some(place)
    }

    fn start(&mut self, ring: (u32, &str), of: &SpanStart<'_>, clock: &Clock) {
        let place = self.span(ring, of.span_id, of.common.pid);
        let Some(span) = place.and_then(|place| self.spans.get_mut(place)) else { return };
        if let Some(name) = of.name {
            span.name = short(name);
            span.has_start = true;
            span.start = at(&of.common, clock);
            span.scope = short(of.common.scope);
        }
        span.kind = of.kind.or(span.kind);
        span.parent = of.parent_span_id.map(|id| hex(&id)).or(span.parent.take());
        self.attributes(place, &of.common.attributes);
    }

    fn end(&mut self, ring: (u32, &str), of: &SpanEnd<'_>, clock: &Clock) {
        let place = self.span(ring, of.span_id, of.common.pid);
        let Some(span) = place.and_then(|place| self.spans.get_mut(place)) else { return };
        span.has_end = true;
        span.end = at(&of.common, clock);
        let begun = span.end.zip(of.duration).map(|(end, ns)| end.saturating_sub_unsigned(ns));
        span.start = span.start.or(begun);
        if span.name.is_empty() {
            span.name = short(of.name);
        }
        span.parent = of.parent_span_id.map(|id| hex(&id)).or(span.parent.take());
        span.status = of.status_code;
        span.status_message = short(of.status_message);
        self.attributes(place, &of.common.attributes);
    }

    /// Adds attributes: a later value replaces an earlier one of the same name.
    fn attributes(&mut self, place: Option<usize>, all: &Attributes<'_>) {
        let Some(span) = place.and_then(|place| self.spans.get_mut(place)) else { return };
        for (name, value) in all {
            let (name, value) = (short(name), short(&value.to_string()));
            if let Some((_, old)) = span.attributes.iter_mut().find(|(its, _)| *its == name) {
                *old = value;
            } else if self.bytes + name.len() + value.len() > ATTRIBUTES {
                self.attributes_left_out += 1;
            } else {
                self.bytes += name.len() + value.len();
                span.attributes.push((name, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_32_digits() {
        let one = id(" 0000000000000000000000000000000A ").expect("an id");
        assert_eq!((one[15], hex(&one).len()), (10, 32));
        for bad in ["", "a", &"g".repeat(32), &"1".repeat(33), "+0000000000000000000000000000001"] {
            assert_eq!(id(bad), None, "{bad}");
        }
    }
}
