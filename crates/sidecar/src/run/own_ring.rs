//! The ring in which the sidecar publishes its own figures, so that they go to its outputs as any
//! other metrics do.

use super::figures::{Figure, Present, Rings, gather};
use crate::config::{Input, InputSource, Own};
use perfring_consumer::{AttachError, Location};
use perfring_producer::{Options, Policy};
use perfring_telemetry::{Gauge, Resource, Sink, SinkError, Sum, Temporality, Value};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Room for the figures of a hundred rings, some times.
const SIZE: u64 = 1 << 20;

/// The ring. It stays when the sidecar ends, and the next one continues it.
pub(super) struct OwnRing {
    sink: Sink,
    interval: Duration,
    next: Option<Instant>,
    /// When the sums began, ns since 1970.
    start: Option<u64>,
}

impl OwnRing {
    /// Creates the ring, or continues it.
    pub(super) fn open(config: &Own) -> Result<Self, SinkError> {
        let location = || Location::from(config.ring.clone());
        let resource = Resource::here().with("service.name", "perfring-sidecar");
        let sink = match Sink::attach_one(location(), resource.clone()) {
            Err(SinkError::Attach(AttachError::NotFound { .. })) => {
                let options =
                    Options { size: SIZE, policy: Policy::Drop, time: true, ..Options::many() };
                Sink::create(location(), &options, resource)?
            }
            attached => attached?,
        };
        let start = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let start = start.and_then(|since| u64::try_from(since.as_nanos()).ok());
        Ok(OwnRing { sink, interval: config.interval, next: None, start })
    }

    /// Publishes all figures, if it is time.
    pub(super) fn publish(&mut self, now: Instant, present: Present<'_>) {
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = now.checked_add(self.interval);
        gather(present, Rings::Few, &mut |figure| self.emit(figure));
    }

    /// Publishes a figure. A ring that is full counts it, and the next one has the sum again.
    fn emit(&self, figure: &Figure<'_>) {
        let attributes: Vec<(&str, Value<'_>)> =
            figure.attributes.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
        let (name, unit, description) = (figure.name, figure.unit, figure.help);
        let attributes = &attributes;
        let _ = match figure.grows {
            true => self.sink.emit(&Sum {
                unit,
                description,
                temporality: Temporality::Cumulative,
                start_time_unix_nano: self.start,
                attributes,
                ..Sum::delta(name, figure.value as u64)
            }),
            false => self.sink.emit(&Gauge {
                unit,
                description,
                attributes,
                ..Gauge::new(name, figure.value)
            }),
        };
    }
}

/// Returns the input that reads the ring, unless it is in one of the directories that are followed.
pub(super) fn input_of(config: &Own, inputs: &[Input]) -> Option<Input> {
    let dir = config.ring.parent().filter(|dir| !dir.as_os_str().is_empty());
    let whole = |dir: &Path| dir.canonicalize().ok();
    let own = whole(dir.unwrap_or(Path::new(".")));
    let is_in = |input: &Input| match &input.source {
        InputSource::Dir(dir) => own.is_some() && whole(dir) == own,
        InputSource::Ring(location) => location.path() == config.ring,
        InputSource::Kernel { .. } | InputSource::Bpf(_) => false,
    };
    let source = InputSource::Ring(config.ring.clone().into());
    (!inputs.iter().any(is_in)).then(|| Input::new(source))
}
