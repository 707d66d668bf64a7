//! Records as OpenTelemetry's signals: log records, spans, samples of metrics, resources.
//!
//! A record whose type has a class is decoded by the reserved names of
//! [`perfring_telemetry::names`]; all other records are [`Plain`]. No field of a record is left
//! out: a reserved name with an invalid value stays an attribute, and a record that does not match
//! its class becomes a plain one that says why.
//!
//! ```
//! use perfring_events::signal::Signal;
//! use perfring_events::{Origin, Rec};
//! # use perfring_consumer::{Item, Snapshot};
//! # use perfring_telemetry::{Gauge, Resource, Sink, options};
//! # use perfring_types::read::TypeTable;
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("ring");
//! # let sink = Sink::create(&path, &options(), Resource::default())?;
//! # sink.emit(&Gauge { unit: "{job}", ..Gauge::new("queue.depth", 17u64) })?;
//! # let snapshot = Snapshot::take(&path)?;
//! # let origin = Origin {
//! #     id: 0, name: "ring".into(), location: String::new(), uuid: [0; 16], epoch: 1, policy: None,
//! #     timed: true, data_size: 65536, producer: Default::default(),
//! #     types: TypeTable::from_entries(snapshot.types().entries()),
//! #     anchors: snapshot.anchors().clone(),
//! #     ..Origin::default()
//! # };
//! # let mut seen = Vec::new();
//! # for item in &snapshot {
//! #     let Item::Record(record) = item? else { continue };
//! let record = Rec::new(record, &origin);
//! match Signal::of(&record) {
//!     Signal::Gauge(gauge) => println!("{} is {:?} {}", gauge.what.name, gauge.value, gauge.what.unit),
//!     other => println!("{other:?}"),
//! }
//! #     seen.push(format!("{:?}", Signal::of(&record)));
//! # }
//! # assert!(seen[0].starts_with("Resource") && seen[1].starts_with("Gauge"), "{seen:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bounds;
mod direct;
mod exponential;
mod fault;
mod kinds;
mod measure;
mod read;
mod resources;

pub use bounds::{Bounds, Histograms};
pub use direct::{Direct, DirectReader};
pub use exponential::{BUCKETS_MAX, Exponential, Run, SCALE_MAX};
pub use fault::Fault;
pub use kinds::{
    Attributes, Common, Gauge, Histogram, HistogramData, Log, Plain, PlainBody, Resource, Signal,
    SpanEnd, SpanStart, Sum,
};
pub use measure::{Buckets, DEFAULT_BOUNDS, Instrument, Number, Temporality};
pub use resources::{Added, Reported, Resources};
