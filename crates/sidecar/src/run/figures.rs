//! The sidecar's own figures as metrics: the one table of their names, which the guide repeats.
//!
//! Attributes have the names of OpenTelemetry's semantic conventions where those have one. Its
//! `otel.sdk.exporter.*` metrics do not fit: they count log records, spans and data points apart, and an
//! output here counts records of any kind.

use super::unreadable::Unreadable;
use crate::config::OutputConfig;
use crate::engine::shown::Look;
use crate::engine::{Engine, OutputStatus, RingFigures, RingStatus};
use perfring_consumer::metrics::MetricsFill;
use perfring_export::Figures;
pub(super) use perfring_export::figures::{CAUSE, RING};
use perfring_export::figures::{LOST_BYTES, LOST_RECORDS};
use std::time::{Duration, Instant};

/// More rings than these are added up.
const RINGS: usize = 100;
/// So many rings at once are looked into for their oldest unread records.
const LOOKS: usize = 200;

pub(crate) const OUTPUT: &str = "otel.component.name";
const KIND: &str = "otel.component.type";
pub(crate) const RULE: &str = "perfring.rule.name";

/// Names and values.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// A figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure<'a> {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) help: &'static str,
    /// Whether it only grows.
    pub(crate) grows: bool,
    pub(crate) value: f64,
    pub(crate) attributes: Attributes<'a>,
}

/// Which rings have figures of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rings {
    Each,
    /// As many as a ring has room for, otherwise only their sums.
    Few,
}

/// Passes on figures.
struct Gather<'a>(&'a mut dyn FnMut(&Figure<'_>));

impl Gather<'_> {
    fn counter(
        &mut self,
        (name, unit, help): (&'static str, &'static str, &'static str),
        value: u64,
        attributes: Attributes<'_>,
    ) {
        let value = value as f64;
        (self.0)(&Figure { name, unit, help, grows: true, value, attributes });
    }

    fn gauge(
        &mut self,
        (name, unit, help): (&'static str, &'static str, &'static str),
        value: f64,
        attributes: Attributes<'_>,
    ) {
        (self.0)(&Figure { name, unit, help, grows: false, value, attributes });
    }
}

const RECORDS: (&str, &str, &str) = ("perfring.ring.records", "{record}", "Records that were read");
const BYTES: (&str, &str, &str) = ("perfring.ring.bytes", "By", "Bytes of their payloads");
const LATE: (&str, &str, &str) =
    ("perfring.ring.late", "{record}", "Records that arrived too late for the order of time");
const LAG: (&str, &str, &str) =
    ("perfring.ring.lag", "By", "Bytes between what is delivered and what is published");
const SIZE: (&str, &str, &str) = ("perfring.ring.size", "By", "Bytes that the ring has room for");
const FILL: (&str, &str, &str) =
    ("perfring.ring.fill", "1", "The share of the ring that is unread, from 0 to 1");
const UNREAD_AGE: (&str, &str, &str) =
    ("perfring.ring.unread_age", "s", "How long ago the oldest unread record was published");

const INSTRUMENTS_REFUSED: (&str, &str, &str) = (
    "perfring.ring.instruments_refused",
    "{instrument}",
    "Instruments that found no room in the metrics area, and measured nothing",
);
const INSTRUMENTS_REPLACED: (&str, &str, &str) = (
    "perfring.ring.instruments_replaced",
    "{instrument}",
    "Instruments of ended processes whose values were replaced for want of room",
);
const METRICS_DAMAGED: (&str, &str, &str) =
    ("perfring.ring.metrics_damaged", "", "1 while a part of the metrics area cannot be read");

/// What figures are of: the sidecar at this moment.
#[derive(Clone, Copy)]
pub(crate) struct Present<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) unreadable: &'a Unreadable,
    pub(crate) outputs: &'a [OutputConfig],
    /// When it started.
    pub(crate) since: Instant,
}

const BUFFER: (&str, &str, &str) =
    ("perfring.output.buffer", "By", "Bytes in its buffer on disk that it has not delivered");
const BUFFER_LIMIT: (&str, &str, &str) =
    ("perfring.output.buffer_limit", "By", "The limit of its buffer on disk");
const UNREADABLE: (&str, &str, &str) =
    ("perfring.rings.unreadable", "{ring}", "Rings of the inputs that are not read, by cause");

/// Passes all figures to `take`.
pub(crate) fn gather(present: Present<'_>, rings: Rings, take: &mut dyn FnMut(&Figure<'_>)) {
    let Present { engine, unreadable, outputs, since } = present;
    let mut gather = Gather(take);
    let count = engine.rings().count();
    // Without a name: what rings counted that are not read any more, or all.
    if rings == Rings::Each || count <= RINGS {
        with_space(engine, since.elapsed(), |ring, space| of_ring(ring, space, &mut gather));
        if *engine.ended_figures() != RingFigures::default() {
            of_figures(engine.ended_figures(), &[], &mut gather);
        }
    } else {
        of_figures(&engine.ring_figures(), &[], &mut gather);
        let mut all = Space::default();
        with_space(engine, since.elapsed(), |_, space| all.add(&space));
        all.pass_on(&[], &mut gather);
    }
    for output in engine.outputs() {
        let kind = outputs.iter().find(|config| config.name == output.name);
        of_output(&output, kind.map_or("custom", |config| &config.kind), &mut gather);
    }
    let merge = engine.merge_figures();
    let late = ("perfring.merge.late_most", "s", "The most that a record was late");
    gather.gauge(late, merge.late_most as f64 / 1e9, &[]);
    let damaged =
        "Rings that could not be read, or read on, because they were damaged or truncated";
    gather.counter(("perfring.rings.damaged", "{ring}", damaged), engine.damaged(), &[]);
    gather.gauge(("perfring.rings", "{ring}", "Rings that are read"), count as f64, &[]);
    for (reason, count) in unreadable.counts() {
        gather.gauge(UNREADABLE, count as f64, &[(CAUSE, reason.name())]);
    }
    if let Some(bytes) = resident() {
        gather.gauge(("process.memory.usage", "By", "Memory of the sidecar"), bytes as f64, &[]);
    }
    gather.gauge(
        ("process.uptime", "s", "How long the sidecar runs"),
        since.elapsed().as_secs_f64(),
        &[],
    );
}

/// Passes on all rings, and how their space is used. Of many rings, the age of a moving one is found every few seconds, so
/// that figures hold up no records.
pub(super) fn with_space(
    engine: &Engine,
    since: Duration,
    mut take: impl FnMut(&RingStatus<'_>, Space),
) {
    let share = engine.rings().count().div_ceil(LOOKS).max(1);
    let turn = usize::try_from(since.as_secs()).unwrap_or_default() % share;
    for (at, ring) in engine.rings().enumerate() {
        let look = if at % share == turn { Look::New } else { Look::Known };
        let space = Space::of(engine, &ring, look);
        take(&ring, space);
    }
}

fn of_ring(ring: &RingStatus<'_>, space: Space, gather: &mut Gather<'_>) {
    let name = [(RING, &*ring.origin.name)];
    of_figures(ring.figures, &name, gather);
    space.pass_on(&name, gather);
}

/// How a ring's space is used. Of several rings: sums of bytes, and the greatest fill and age.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Space {
    pub(super) size: u64,
    pub(super) lag: u64,
    /// From 0 to 1; `None` for a ring of the kernel.
    pub(super) fill: Option<f64>,
    /// `None` for a ring without timestamps.
    pub(super) unread_age: Option<Duration>,
    /// How full it is; `None` if it is no metrics area.
    pub(super) metrics: Option<MetricsFill>,
}

impl Space {
    fn of(engine: &Engine, ring: &RingStatus<'_>, look: Look) -> Self {
        let size = ring.origin.data_size;
        let fill = ring.unread().map(|unread| unread as f64 / size.max(1) as f64);
        let (unread_age, metrics) = (engine.unread_age(ring, look), ring.metrics());
        Space { size, lag: ring.lag, fill, unread_age, metrics }
    }

    fn add(&mut self, other: &Space) {
        self.size = self.size.saturating_add(other.size);
        self.lag = self.lag.saturating_add(other.lag);
        self.unread_age = self.unread_age.max(other.unread_age);
        let fills = [self.fill, other.fill].into_iter().flatten();
        self.fill = fills.reduce(f64::max);
        let areas = [self.metrics, other.metrics].into_iter().flatten();
        self.metrics = areas.reduce(MetricsFill::plus);
    }

    fn pass_on(&self, name: Attributes<'_>, gather: &mut Gather<'_>) {
        gather.gauge(SIZE, self.size as f64, name);
        gather.gauge(LAG, self.lag as f64, name);
        if let Some(fill) = self.fill {
            gather.gauge(FILL, fill, name);
        }
        if let Some(age) = self.unread_age {
            gather.gauge(UNREAD_AGE, age.as_secs_f64(), name);
        }
        if let Some(metrics) = self.metrics {
            // What the area says now: no counters, because those of a ring that ends may not fall.
            gather.gauge(INSTRUMENTS_REFUSED, metrics.refused as f64, name);
            gather.gauge(INSTRUMENTS_REPLACED, metrics.replaced as f64, name);
            gather.gauge(METRICS_DAMAGED, metrics.damage.map_or(0.0, |_| 1.0), name);
        }
    }
}

/// Passes on what a ring counted, by its name; without a name, what several did.
fn of_figures(figures: &RingFigures, name: Attributes<'_>, gather: &mut Gather<'_>) {
    gather.counter(RECORDS, figures.records, name);
    gather.counter(BYTES, figures.bytes, name);
    gather.counter(LATE, figures.late, name);
    for (cause, lost) in &figures.lost {
        let cause = (CAUSE, cause.name());
        let attributes = [name, &[cause]].concat();
        gather.counter(LOST_RECORDS, lost.records, &attributes);
        gather.counter(LOST_BYTES, lost.bytes, &attributes);
    }
}

fn of_output(output: &OutputStatus<'_>, kind: &str, gather: &mut Gather<'_>) {
    let (name, figures) = ([(OUTPUT, output.name), (KIND, kind)], &output.figures);
    let records = "{record}";
    let taken = ("perfring.output.taken", records, "Records that it took");
    gather.counter(taken, figures.taken, &name);
    let delivered = ("perfring.output.delivered", records, "Records that it delivered");
    gather.counter(delivered, figures.delivered, &name);
    let held = ("perfring.output.held", records, "Records that it took and has not delivered");
    gather.gauge(held, self::held(figures) as f64, &name);
    gather.counter(
        ("perfring.output.bytes", "By", "Bytes that it wrote or sent"),
        figures.bytes,
        &name,
    );
    gather.counter(("perfring.output.retries", "{retry}", "Retries"), figures.retries, &name);
    let refused = ("perfring.output.refused", records, "Records that were refused for good");
    let mut other = figures.refused;
    for (cause, count) in &figures.refused_by {
        other = other.saturating_sub(*count);
        gather.counter(refused, *count, &[name[0], name[1], (CAUSE, cause)]);
    }
    if other > 0 || figures.refused_by.is_empty() {
        gather.counter(refused, other, &[name[0], name[1], (CAUSE, "_OTHER")]);
    }
    if let Some(buffer) = &figures.buffer {
        gather.gauge(BUFFER, buffer.bytes as f64, &name);
        gather.gauge(BUFFER_LIMIT, buffer.max_bytes as f64, &name);
    }
    let dropped = ("perfring.output.dropped", records, "Records that it had no room for");
    gather.counter(dropped, output.dropped.records, &name);
    let damaged = ("perfring.output.damaged", records, "Records that damage to its buffer took");
    gather.counter(damaged, figures.damaged, &name);
    for rule in &output.rules {
        let name = [name[0], name[1], (RULE, rule.name)];
        let kept = ("perfring.rule.kept", records, "Records that a rule kept");
        gather.counter(kept, rule.kept, &name);
        let left_out = ("perfring.rule.left_out", records, "Records that a rule left out");
        gather.counter(left_out, rule.left_out, &name);
        let bytes = ("perfring.rule.left_out_bytes", "By", "Bytes of those, headers included");
        gather.counter(bytes, rule.left_out_bytes, &name);
    }
    let trouble = figures.trouble.is_some() || output.failed.is_some();
    let help = "1 while something is wrong with it";
    gather.gauge(("perfring.output.trouble", "", help), f64::from(u8::from(trouble)), &name);
    let help = "1 while it lacks what others have, and reads it from the rings";
    let behind = f64::from(u8::from(output.is_behind));
    gather.gauge(("perfring.output.behind", "", help), behind, &name);
}

/// Returns how many records an output took and has not delivered.
pub(super) fn held(figures: &Figures) -> u64 {
    figures.taken.saturating_sub(figures.delivered).saturating_sub(figures.refused)
}

/// Returns the memory of this process in bytes: the kernel's figure.
pub(super) fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
mod tests {
    use super::*;
    use crate::config::{Input, InputSource};
    use perfring_consumer::Location;
    use perfring_producer::{Options, Producer};

    #[test]
    fn the_ages_of_many_rings_are_found_in_turns_and_stay_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = Engine::new(Duration::from_millis(1)).unwrap();
        for number in 0..=LOOKS {
            let path = dir.path().join(number.to_string());
            let options = Options { size: 4096, time: true, ..Options::default() };
            Producer::create(&path, &options).unwrap().publish(b"unread").unwrap();
            let location = Location::from(path);
            let input = Input::new(InputSource::Ring(location.clone()));
            engine.attach(&location, &input, None, |_| None).unwrap();
        }
        let ages = |second| {
            let (mut found, mut fills) = (0, 0);
            with_space(&engine, Duration::from_secs(second), |_, space| {
                found += usize::from(space.unread_age.is_some_and(|age| age > Duration::ZERO));
                fills += usize::from(space.fill.is_some_and(|fill| fill > 0.0));
            });
            assert_eq!(fills, LOOKS + 1);
            found
        };
        assert_eq!((ages(0), ages(1)), (LOOKS / 2 + 1, LOOKS + 1));
        assert_eq!(ages(2), LOOKS + 1, "the records are the same");
    }
}
