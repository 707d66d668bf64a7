//! From items to requests: waits for resources, and fills batches until it is time to send them.

use super::batch::{Batch, Building, Credit};
use super::made::{From, Item, Made, Seen};
use super::mapping::{Lane, LongSpans, Mapping};
use super::rings::{Ring, Waiting};
use super::samples::Samples;
use super::spans::{Limits, Spans};
use perfring_events::{
    Event, Origin,
    signal::{Reported, Resource, Resources, SpanEnd, SpanStart},
};
use prost::Message as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interval at which timeouts are checked while records arrive.
const TEND: Duration = Duration::from_millis(20);

/// A ring, the epoch of that, and the process.
type Whose = (u32, u64, Option<u64>);

/// Items that are held back, and batches that are ready to be sent.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) options: Mapping,
    ready: Vec<(Lane, Batch)>,
    resources: Resources,
    rings: BTreeMap<u32, Ring>,
    spans: Spans,
    samples: Samples,
    samples_since: Option<Instant>,
    logs: Building,
    metrics: Building,
    traces: Building,
    /// The resource that was asked for last.
    last: Option<(Whose, Arc<Reported>)>,
    /// Events of records that wait for a resource, each with its count.
    waiting: BTreeMap<u64, usize>,
    waiting_bytes: usize,
    tended: Instant,
    closed: bool,
    /// Events that need no request.
    delivered: u64,
}

impl Flow {
    pub(super) fn new(options: &Mapping) -> Self {
        let limits = Limits {
            spans: options.open_spans,
            bytes: options.held_bytes,
            wait: options.span_wait,
            grace: options.span_grace,
            log: options.long_spans == LongSpans::Log && options.signals.contains(&Lane::Logs),
        };
        Flow {
            options: options.clone(),
            ready: Vec::new(),
            resources: Resources::default(),
            rings: BTreeMap::new(),
            spans: Spans::new(limits),
            samples: Samples::default(),
            samples_since: None,
            logs: Building::default(),
            metrics: Building::default(),
            traces: Building::default(),
            last: None,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            tended: Instant::now(),
            closed: false,
            delivered: 0,
        }
    }

    /// Returns the batches that are to be sent now, for good.
    pub(super) fn ready(&mut self) -> Vec<(Lane, Batch)> {
        std::mem::take(&mut self.ready)
    }

    pub(super) fn sends(&self, lane: Lane) -> bool {
        self.options.signals.contains(&lane)
    }

    /// Returns what is remembered of a ring.
    pub(super) fn ring(&mut self, origin: &Origin) -> &mut Ring {
        self.rings.entry(origin.id).or_insert_with(|| Ring::new(origin))
    }

    /// Adds attributes to each resource.
    pub(super) fn add_resource(&mut self, attributes: &[(String, String)]) {
        self.resources.add(attributes);
    }

    /// Returns the resource of an unknown process.
    pub(super) fn unknown(&mut self, origin: &Origin) -> Arc<Reported> {
        self.resources.unknown(origin, None)
    }

    /// Handles the start of a span.
    pub(super) fn start(&mut self, seen: &Seen, start: &SpanStart<'_>) {
        self.of_spans(seen.now, |spans, out| spans.start(seen, start, out));
    }

    /// Handles the end of a span.
    pub(super) fn end(&mut self, seen: &Seen, end: &SpanEnd<'_>) {
        self.of_spans(seen.now, |spans, out| spans.end(seen, end, out));
    }

    /// Handles a resource that a process reports.
    pub(super) fn learn(&mut self, event: &Event<'_>, resource: &Resource<'_>, now: Instant) {
        self.last = None;
        self.resources.learn(event.origin, resource);
        let Some(pid) = resource.common.pid else { return };
        let Some(ring) = self.rings.get_mut(&event.origin.id) else { return };
        let released = ring.release(|waiting| waiting.made.pid == Some(pid));
        ring.gave_up.remove(&pid);
        self.released(released, now);
    }

    /// Handles the end of a ring.
    pub(super) fn ended(&mut self, event: &Event<'_>, now: Instant) {
        let id = event.origin.id;
        self.last = None;
        self.give_up(|ring, _| ring == id, now);
        let wall = self.rings.get(&id).map_or(0, |ring| ring.last);
        let seen = Seen { ring: id, pos: 0, credit: Credit::of(event, 0), now, wall };
        let resources = &mut self.resources;
        self.spans.ring_ended(&seen, |pid| {
            let reported = pid.and_then(|pid| resources.get(id, pid)).cloned();
            reported.unwrap_or_else(|| resources.unknown(event.origin, pid))
        });
        self.resources.forget(id);
        self.rings.remove(&id);
        self.samples.forget_idle();
    }

    /// Returns the oldest event of which something is held back or ready.
    pub(super) fn oldest(&self) -> Option<u64> {
        let waiting = self.waiting.first_key_value().map(|(seq, _)| *seq);
        let gathered = [self.logs.oldest(), self.metrics.oldest(), self.traces.oldest()];
        let ready = self.ready.iter().map(|(_, batch)| batch.credit.seq).min();
        let held = [self.spans.oldest(), self.samples.oldest(), waiting, ready];
        gathered.into_iter().chain(held).flatten().min().filter(|seq| *seq != u64::MAX)
    }

    /// Makes everything ready: nothing follows.
    pub(super) fn close(&mut self) {
        self.closed = true;
        let now = Instant::now();
        self.give_up(|_, _| true, now);
        self.of_spans(now, Spans::close);
        self.send_everything(now);
    }

    /// Makes everything ready but open spans.
    #[cfg(feature = "fuzz")]
    pub(super) fn gather(&mut self) {
        let now = Instant::now();
        self.give_up(|_, _| true, now);
        self.send_everything(now);
    }

    /// Returns the number of records for which nothing is sent.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Passes on the items of a change of spans.
    fn of_spans(&mut self, now: Instant, act: impl FnOnce(&mut Spans, &mut Vec<Made>)) {
        let mut out = Vec::new();
        act(&mut self.spans, &mut out);
        out.into_iter().for_each(|made| self.hand_on(made, now));
    }

    /// Sends a log record in the way of [`Flow::hand_on`].
    pub(super) fn hand_on_log(&mut self, from: &From<'_>, encoded: &[u8], now: Instant) {
        let From { seen, pid, scope } = from;
        let waits = || from.made(Item::Log(encoded.to_vec()));
        let Some(ring) = self.rings.get_mut(&seen.ring) else {
            return self.hand_on(waits(), now);
        };
        let key = (seen.ring, ring.origin.producer.epoch, *pid);
        if self.last.as_ref().is_none_or(|(its, _)| *its != key) {
            let reported = match pid {
                Some(pid) => self.resources.get(seen.ring, *pid).cloned(),
                None => Some(self.resources.unknown(&ring.origin, None)),
            };
            let Some(reported) = reported else {
                return self.hand_on(waits(), now);
            };
            self.last = Some((key, reported));
        }
        let Some((_, reported)) = &self.last else { return };
        ring.first.get_or_insert(seen.pos);
        self.logs.add(reported, scope, encoded, 1, seen.credit, now);
        self.send_full();
    }

    /// Sends an item with its resource, or lets it wait for that.
    pub(super) fn hand_on(&mut self, made: Made, now: Instant) {
        if matches!(made.item, Item::Nothing) {
            self.delivered += made.credit.records;
            return;
        }
        let reported = made.reported.clone().or_else(|| {
            let reported = made.pid.and_then(|pid| self.resources.get(made.ring, pid));
            reported.cloned()
        });
        let reported = match (reported, self.rings.get_mut(&made.ring)) {
            (Some(reported), _) => reported,
            (None, Some(ring)) => {
                let otherwise = self.resources.unknown(&ring.origin, made.pid);
                if !self.closed && ring.waits_for(made.pid) {
                    let bytes = made.item.size();
                    *self.waiting.entry(made.credit.seq).or_default() += 1;
                    self.waiting_bytes += bytes;
                    ring.waiting.push_back(Waiting { made, otherwise, since: now, bytes });
                    if self.waiting_bytes > self.options.held_bytes {
                        self.give_up(|_, _| true, now);
                    }
                    return;
                }
                otherwise
            }
            // Items of a removed ring were reported already.
            (None, None) => {
                Arc::new(Reported { attributes: Vec::new(), start: None, truncated: 0 })
            }
        };
        self.deliver(&reported, made, now);
    }

    fn deliver(&mut self, reported: &Arc<Reported>, made: Made, now: Instant) {
        let Made { ring, scope, item, credit, pos, .. } = made;
        if let Some(ring) = self.rings.get_mut(&ring) {
            ring.first.get_or_insert(pos);
        }
        match item {
            Item::Log(record) => self.logs.add(reported, &scope, &record, 1, credit, now),
            Item::Span(span) => self.traces.add(reported, &scope, &span, 1, credit, now),
            Item::Sample(sample) => {
                self.samples_since.get_or_insert(now);
                let more = self.samples.add(reported, &scope, *sample, credit);
                if !more || self.options.metric_interval.is_zero() {
                    self.send_samples(now);
                }
            }
            Item::Nothing => self.delivered += credit.records,
        }
        self.send_full();
    }

    fn send_samples(&mut self, now: Instant) {
        self.samples_since = None;
        let (points, credit) = self.samples.take();
        let Some(credit) = credit else { return };
        let last = points.len().saturating_sub(1);
        for (at, (reported, scope, metric, points)) in points.into_iter().enumerate() {
            // All points keep their records held; the last one counts them.
            let records = if at == last { credit.records } else { 0 };
            let credit = Credit { records, ..credit };
            self.metrics.add(&reported, &scope, &metric.encode_to_vec(), points, credit, now);
            self.send_full();
        }
    }

    /// Makes the batches ready that are full.
    fn send_full(&mut self) {
        self.send(|items, bytes, _, options| {
            items >= options.batch_items as u64 || bytes >= options.batch_bytes
        });
    }

    /// Makes the batches ready for which this returns true: by items, bytes and the time of the first
    /// item.
    fn send(&mut self, is_due: impl Fn(u64, usize, Option<Instant>, &Mapping) -> bool) {
        let options = &self.options;
        let due = |items, bytes, since| items > 0 && is_due(items, bytes, since, options);
        let ready = &mut self.ready;
        send_if(&mut self.logs, due, |batch| ready.push((Lane::Logs, batch)));
        send_if(&mut self.metrics, due, |batch| ready.push((Lane::Metrics, batch)));
        send_if(&mut self.traces, due, |batch| ready.push((Lane::Traces, batch)));
    }

    fn send_everything(&mut self, now: Instant) {
        self.send_samples(now);
        self.send(|_, _, _, _| true);
        for ring in self.rings.values_mut() {
            ring.first = None;
        }
    }

    /// Limits the bytes of a ring that held items keep in it.
    pub(super) fn make_room(&mut self, seen: &Seen, most: u64) {
        let before = seen.pos.saturating_sub(most);
        if most == 0 || before == 0 {
            return;
        }
        self.of_spans(seen.now, |spans, out| spans.release(seen.ring, before, out));
        let Some(ring) = self.rings.get(&seen.ring) else { return };
        if ring.waiting.front().is_some_and(|waiting| waiting.made.pos < before) {
            self.give_up(|ring, _| ring == seen.ring, seen.now);
        }
        if self.rings.get(&seen.ring).and_then(|ring| ring.first).is_some_and(|pos| pos < before) {
            self.send_everything(seen.now);
        }
    }

    /// Sends all held items, of any ring: an item that waits also keeps later ones of all other
    /// rings.
    pub(super) fn release_all(&mut self, now: Instant) {
        if self.closed {
            return;
        }
        self.of_spans(now, Spans::release_all);
        self.give_up(|_, _| true, now);
        self.send_everything(now);
    }

    /// Stops waiting for the resources of these items.
    fn give_up(&mut self, which: impl Fn(u32, &Waiting) -> bool, now: Instant) {
        let mut released = Vec::new();
        for (id, ring) in &mut self.rings {
            let some = ring.release(|waiting| which(*id, waiting));
            ring.gave_up.extend(some.iter().filter_map(|waiting| waiting.made.pid));
            released.extend(some);
        }
        self.released(released, now);
    }

    fn released(&mut self, released: Vec<Waiting>, now: Instant) {
        for Waiting { made, otherwise, bytes, .. } in released {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
            if let Some(count) = self.waiting.get_mut(&made.credit.seq) {
                *count -= 1;
                if *count == 0 {
                    self.waiting.remove(&made.credit.seq);
                }
            }
            let reported = made.pid.and_then(|pid| self.resources.get(made.ring, pid)).cloned();
            self.deliver(&reported.unwrap_or(otherwise), made, now);
        }
    }

    /// Handles timeouts, if they were not checked for a while.
    pub(super) fn tend_in_time(&mut self, now: Instant) {
        if now.saturating_duration_since(self.tended) >= TEND {
            self.tend(now);
        }
    }

    /// Handles timeouts.
    pub(super) fn tend(&mut self, now: Instant) {
        self.tended = now;
        self.of_spans(now, |spans, out| spans.tend(now, out));
        let wait = self.options.resource_wait;
        if !self.waiting.is_empty() {
            self.give_up(|_, waiting| now.saturating_duration_since(waiting.since) >= wait, now);
        }
        let interval = self.options.metric_interval;
        let since = self.samples_since;
        if since.is_some_and(|since| now.saturating_duration_since(since) >= interval) {
            self.send_samples(now);
        }
        let delay = self.options.batch_delay;
        self.send(|_, _, since, _| {
            since.is_some_and(|since| now.saturating_duration_since(since) >= delay)
        });
    }
}

fn send_if(
    building: &mut Building,
    due: impl Fn(u64, usize, Option<Instant>) -> bool,
    send: impl FnMut(Batch),
) {
    if due(building.items, building.bytes, building.since) {
        building.seal().into_iter().for_each(send);
    }
}
