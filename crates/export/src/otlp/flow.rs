//! From what was made of records to requests: waits for resources, gathers, and lets go in time.

use super::batch::Credit;
use super::options::{Lane, Options};
use super::rings::Waiting;
use super::{Item, Made, Otlp, Seen};
use crate::signal::Told;
use prost::Message as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Otlp {
    pub(super) fn hand_on_all(&mut self, made: Vec<Made>, now: Instant) {
        for made in made {
            self.hand_on(made, now);
        }
    }

    /// Sends it with its resource, or lets it wait for that.
    pub(super) fn hand_on(&mut self, made: Made, now: Instant) {
        if matches!(made.item, Item::Nothing) {
            self.delivered += made.credit.records;
            return;
        }
        let told = made.told.clone().or_else(|| {
            let told = made.pid.and_then(|pid| self.resources.get(made.ring, pid));
            told.cloned()
        });
        let told = match (told, self.rings.get_mut(&made.ring)) {
            (Some(told), _) => told,
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
            // What is of a ring that is gone has been told.
            (None, None) => Arc::new(Told { attributes: Vec::new(), start: None, cut: 0 }),
        };
        self.deliver(&told, made, now);
    }

    fn deliver(&mut self, told: &Arc<Told>, made: Made, now: Instant) {
        let Made { ring, scope, item, credit, pos, .. } = made;
        if let Some(ring) = self.rings.get_mut(&ring) {
            ring.first.get_or_insert(pos);
        }
        match item {
            Item::Log(record) => self.logs.add(told, &scope, record, 1, credit, now),
            Item::Span(span) => self.traces.add(told, &scope, span, 1, credit, now),
            Item::Sample(sample) => {
                self.samples_since.get_or_insert(now);
                let more = self.samples.add(told, &scope, sample, credit);
                if !more || self.options.metric_interval_ms == 0 {
                    self.send_samples(now);
                }
            }
            Item::Nothing => self.delivered += credit.records,
        }
        self.send(|items, bytes, _, options| {
            items >= options.batch_items as u64 || bytes >= options.batch_bytes
        });
    }

    fn send_samples(&mut self, now: Instant) {
        self.samples_since = None;
        let (points, credit) = self.samples.take();
        let Some(credit) = credit else { return };
        let last = points.len().saturating_sub(1);
        for (at, (told, scope, metric, points)) in points.into_iter().enumerate() {
            // All hold what they were made of; the last one counts it.
            let records = if at == last { credit.records } else { 0 };
            let credit = Credit { records, ..credit };
            self.metrics.add(&told, &scope, metric, points, credit, now);
            self.send(|items, bytes, _, options| {
                items >= options.batch_items as u64 || bytes >= options.batch_bytes
            });
        }
    }

    /// Sends the batches of which this is true: of items, bytes and when the first item came.
    fn send(&mut self, is_due: impl Fn(u64, usize, Option<Instant>, &Options) -> bool) {
        let options = &self.options;
        let due = |items, bytes, since| items > 0 && is_due(items, bytes, since, options);
        if due(self.logs.items(), self.logs.bytes(), self.logs.since())
            && let Some(batch) = self.logs.seal()
        {
            self.lanes.push(Lane::Logs, batch);
        }
        if due(self.metrics.items(), self.metrics.bytes(), self.metrics.since())
            && let Some(batch) = self.metrics.seal()
        {
            self.lanes.push(Lane::Metrics, batch);
        }
        if due(self.traces.items(), self.traces.bytes(), self.traces.since())
            && let Some(batch) = self.traces.seal()
        {
            self.lanes.push(Lane::Traces, batch);
        }
    }

    pub(super) fn send_everything(&mut self, now: Instant) {
        self.send_samples(now);
        self.send(|_, _, _, _| true);
        for ring in self.rings.values_mut() {
            ring.first = None;
        }
    }

    /// What is held back keeps no more than so many bytes of a ring.
    pub(super) fn make_room(&mut self, seen: &Seen, most: u64) {
        let before = seen.pos.saturating_sub(most);
        if most == 0 || before == 0 {
            return;
        }
        let mut out = Vec::new();
        self.spans.let_go(seen.ring, before, &mut out);
        self.hand_on_all(out, seen.now);
        let Some(ring) = self.rings.get(&seen.ring) else { return };
        if ring.waiting.front().is_some_and(|waiting| waiting.made.pos < before) {
            self.give_up(|ring, _| ring == seen.ring, seen.now);
        }
        if self.rings.get(&seen.ring).and_then(|ring| ring.first).is_some_and(|pos| pos < before) {
            self.send_everything(seen.now);
        }
    }

    /// Holds nothing back, of any ring: what one waits for keeps what came later in all others.
    pub(super) fn let_go_all(&mut self, now: Instant) {
        let mut out = Vec::new();
        self.spans.let_go_all(&mut out);
        self.hand_on_all(out, now);
        self.give_up(|_, _| true, now);
        self.send_everything(now);
    }

    /// Waits no longer for the resources of these.
    pub(super) fn give_up(&mut self, which: impl Fn(u32, &Waiting) -> bool, now: Instant) {
        let mut released = Vec::new();
        for (id, ring) in &mut self.rings {
            let some = ring.release(|waiting| which(*id, waiting));
            ring.gave_up.extend(some.iter().filter_map(|waiting| waiting.made.pid));
            released.extend(some);
        }
        self.released(released, now);
    }

    pub(super) fn released(&mut self, released: Vec<Waiting>, now: Instant) {
        for Waiting { made, otherwise, bytes, .. } in released {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
            if let Some(count) = self.waiting.get_mut(&made.credit.seq) {
                *count -= 1;
                if *count == 0 {
                    self.waiting.remove(&made.credit.seq);
                }
            }
            let told = made.pid.and_then(|pid| self.resources.get(made.ring, pid)).cloned();
            self.deliver(&told.unwrap_or(otherwise), made, now);
        }
    }

    /// What time asks for.
    pub(super) fn tend(&mut self, now: Instant) {
        self.tended = now;
        let mut out = Vec::new();
        self.spans.tend(now, &mut out);
        self.hand_on_all(out, now);
        let wait = Duration::from_millis(self.options.resource_wait_ms);
        if !self.waiting.is_empty() {
            self.give_up(|_, waiting| now.saturating_duration_since(waiting.since) >= wait, now);
        }
        let interval = Duration::from_millis(self.options.metric_interval_ms);
        let since = self.samples_since;
        if since.is_some_and(|since| now.saturating_duration_since(since) >= interval) {
            self.send_samples(now);
        }
        let delay = Duration::from_millis(self.options.batch_delay_ms);
        self.send(|_, _, since, _| {
            since.is_some_and(|since| now.saturating_duration_since(since) >= delay)
        });
    }
}

impl Item {
    fn size(&self) -> usize {
        let size = match self {
            Item::Log(record) => record.encoded_len(),
            Item::Span(span) => span.encoded_len(),
            Item::Sample(sample) => sample.size(),
            Item::Nothing => 0,
        };
        size + 256
    }
}
