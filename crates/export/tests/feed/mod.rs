//! A ring that a test writes to, and its records as events.
#![allow(dead_code)] // each test uses some of it

use perfring_consumer::{Item, Observer, Start, stat::OwnerInfo};
use perfring_export::{Event, Loss, Origin, Output, Rec, Took, What};
use perfring_telemetry::producer::Options;
use perfring_telemetry::{Gauge, Histogram, Log, Resource, Sink, Sum, Value, options};
use perfring_testkit::wait::until;
use perfring_types::read::TypeTable;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The time that a receiver has for an answer. A busy receiver takes seconds; a lost answer ends no wait of a test
/// before the watchdog.
pub(crate) const ANSWER: Duration = Duration::from_secs(120);

/// The numbers of events, for all rings.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) next: u64,
}

/// Waits until the output has delivered all that it took, or knows that it cannot.
pub(crate) fn delivers(to: &mut dyn Output) {
    until("all is delivered", || {
        to.flush().unwrap();
        to.unsettled().is_none()
    });
}

/// Waits until the output says that it is in this trouble.
pub(crate) fn reports(to: &mut dyn Output, what: &str) {
    until(what, || {
        to.flush().unwrap();
        to.figures().trouble.is_some_and(|why| why.contains(what))
    });
}

/// Writes log records whose bodies are these numbers.
pub(crate) fn emit(feed: &Feed, which: std::ops::Range<u64>) {
    for number in which {
        feed.sink.emit(&Log { body: number.into(), ..Log::default() }).unwrap();
    }
}

/// Publishes samples with which something is wrong, each of an instrument that has its cause's name; returns the causes.
pub(crate) fn emit_wrong_samples(feed: &Feed) -> Vec<&'static str> {
    let state = Histogram::state;
    let histograms = [
        ("bounds", state("bounds", &[1.0, f64::INFINITY], &[1, 2, 3])),
        ("bounds", state("bounds", &[f64::NAN], &[1, 2])),
        ("bounds", state("bounds", &[1.0, 1.0], &[1, 2, 3])),
        ("bounds", state("bounds", &[2.0, 1.0], &[1, 2, 3])),
        ("buckets", state("buckets", &[1.0, 2.0], &[1, 2])),
        ("buckets", state("buckets", &[1.0], &[1, 2, 3])),
        ("counts", Histogram { count: Some(4), ..state("counts", &[1.0], &[1, 2]) }),
        ("counts", state("counts", &[1.0], &[u64::MAX, 1])),
        ("not_finite", Histogram { sum: Some(f64::NAN), ..state("not_finite", &[1.0], &[1, 2]) }),
        ("not_finite", Histogram { max: Some(f64::NAN), ..state("not_finite", &[1.0], &[1, 2]) }),
        ("not_finite", Histogram::one("not_finite", f64::NAN)),
        ("not_finite", Histogram::one("not_finite", f64::INFINITY)),
        ("no_number", state("no_number", &[], &[])),
        ("no_name", state("", &[1.0], &[1, 2])),
    ];
    let sums = [
        ("negative", Sum::delta("negative", -1i64)),
        ("negative", Sum::cumulative("negative", -0.5)),
        ("not_finite", Sum::delta("not_finite", f64::NAN)),
        ("not_finite", Sum::cumulative("not_finite", f64::NEG_INFINITY)),
    ];
    let gauges = [("no_number", Gauge::new("no_number", Value::Str("17")))];
    histograms.iter().for_each(|(_, it)| feed.sink.emit(it).unwrap());
    sums.iter().for_each(|(_, it)| feed.sink.emit(it).unwrap());
    gauges.iter().for_each(|(_, it)| feed.sink.emit(it).unwrap());
    let histograms = histograms.iter().map(|(cause, _)| *cause);
    histograms.chain(sums.map(|(cause, _)| cause)).chain(gauges.map(|(cause, _)| cause)).collect()
}

/// Returns how often each of these occurs.
pub(crate) fn counted<'a>(all: &[&'a str]) -> BTreeMap<&'a str, u64> {
    let mut counts = BTreeMap::new();
    all.iter().for_each(|it| *counts.entry(*it).or_default() += 1);
    counts
}

pub(crate) struct Feed {
    _dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) sink: Sink,
    observer: Observer,
    pub(crate) origin: Origin,
    pub(crate) began: bool,
}

impl Feed {
    pub(crate) fn new(id: u32, name: &str) -> Self {
        Feed::with(id, name, options(), Resource::default().with("service.name", "shop"))
    }

    pub(crate) fn with(id: u32, name: &str, options: Options, resource: Resource) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let sink = Sink::create(&path, &options, resource).unwrap();
        let observer = Observer::attach(&path, Start::Oldest).unwrap();
        let mut uuid = [7; 16];
        uuid[15] = id as u8;
        let origin = Origin {
            id,
            name: name.into(),
            location: path.display().to_string(),
            uuid,
            epoch: 1,
            policy: Some(observer.layout().policy),
            timed: true,
            data_size: observer.layout().data_size,
            producer: OwnerInfo {
                pid: std::process::id(),
                name: "test".into(),
                ..OwnerInfo::default()
            },
            types: TypeTable::default(),
            anchors: observer.anchors(),
            ..Origin::default()
        };
        Feed { _dir: dir, path, sink, observer, origin, began: false }
    }

    /// Passes all new events to this output, and waits while it is busy. Returns the number of
    /// records.
    pub(crate) fn pump(&mut self, numbers: &mut Numbers, to: &mut dyn Output) -> u64 {
        self.pump_if(numbers, to, |_| true)
    }

    /// Passes on all events of the ring from its beginning, as a reader that begins again.
    pub(crate) fn again(&mut self, numbers: &mut Numbers, to: &mut dyn Output) -> u64 {
        self.observer = Observer::attach(&self.path, Start::Oldest).unwrap();
        self.began = false;
        self.pump(numbers, to)
    }

    /// The same for some of the records.
    pub(crate) fn pump_if(
        &mut self,
        numbers: &mut Numbers,
        to: &mut dyn Output,
        wanted: impl Fn(&Rec<'_>) -> bool,
    ) -> u64 {
        self.origin.types = TypeTable::from_entries(self.observer.types().entries());
        self.origin.anchors = self.observer.anchors();
        if !std::mem::replace(&mut self.began, true) {
            report(numbers, to, &self.origin, || What::Began);
        }
        let mut records = 0;
        while let Some(item) = self.observer.read().unwrap() {
            let Item::Record(record) = item else { panic!("the test's ring lost something") };
            if wanted(&Rec::new(record, &self.origin)) {
                report(numbers, to, &self.origin, || What::Record(Rec::new(record, &self.origin)));
                records += 1;
            }
        }
        records
    }

    pub(crate) fn lose(&mut self, numbers: &mut Numbers, to: &mut dyn Output, loss: Loss) {
        report(numbers, to, &self.origin, || What::Lost(loss));
    }

    pub(crate) fn end(&mut self, numbers: &mut Numbers, to: &mut dyn Output) {
        report(numbers, to, &self.origin, || What::Ended);
    }
}

fn report<'a>(
    numbers: &mut Numbers,
    to: &mut dyn Output,
    origin: &'a Origin,
    what: impl Fn() -> What<'a>,
) {
    let seq = numbers.next;
    numbers.next += 1;
    until("an output that is busy takes an event later", || {
        to.flush().unwrap();
        to.take(&Event { seq, origin, what: what() }).unwrap() == Took::Yes
    });
}
