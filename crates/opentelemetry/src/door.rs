//! The ring that the exporters of a process share.

use crate::fields::Record;
use crate::lacks::{Lack, Lacks};
use opentelemetry::{Array, Value as Sdk};
use opentelemetry_sdk::Resource as SdkResource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use perfring_producer::{Location, Options, Producers, ReserveError, SharedProducer, files};
use perfring_telemetry::types::Schema;
use perfring_telemetry::{Resource, ResourceValue, Sink, SinkError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A ring, and what is known of what was written.
#[derive(Debug)]
pub(crate) struct Door {
    location: Location,
    /// Attached once the resource is known.
    sink: OnceLock<Sink>,
    /// The first resource that an exporter was given.
    resource: Mutex<Option<SdkResource>>,
    pub(crate) lacks: Lacks,
    /// The sink's dropped records that an exporter's result has reported.
    told: AtomicU64,
}

impl Door {
    pub(crate) fn open(location: Location, options: &Options) -> Result<Self, SinkError> {
        let options = Options { producers: Producers::Many, time: true, ..*options };
        files::create_if_missing(location.clone(), &options)?;
        // What an attachment refuses is refused here, not at the first span.
        SharedProducer::attach(location.clone()).map_err(SinkError::Attach)?;
        Ok(Door {
            location,
            sink: OnceLock::new(),
            resource: Mutex::new(None),
            lacks: Lacks::default(),
            told: AtomicU64::new(0),
        })
    }

    fn resource(&self) -> MutexGuard<'_, Option<SdkResource>> {
        self.resource.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an exporter's resource. In a ring, a process has one.
    pub(crate) fn set_resource(&self, resource: &SdkResource) {
        let mut first = self.resource();
        let differs = *first.get_or_insert_with(|| resource.clone()) != *resource;
        self.lacks.count(Lack::Resources, u64::from(differs));
    }

    /// Returns the sink, and attaches it first if this is the first export.
    fn sink(&self) -> Result<&Sink, OTelSdkError> {
        if let Some(sink) = self.sink.get() {
            return Ok(sink);
        }
        let resource = self.resource();
        if let Some(sink) = self.sink.get() {
            return Ok(sink);
        }
        let converted = resource.as_ref().map(|it| converted(it, &self.lacks)).unwrap_or_default();
        let sink = Sink::attach(self.location.clone(), converted)
            .map_err(|error| failed(format!("nothing was written: {error}")))?;
        Ok(self.sink.get_or_init(|| sink))
    }

    /// Returns how many records this process could not publish.
    pub(crate) fn dropped(&self) -> u64 {
        self.sink.get().map_or(0, Sink::dropped)
    }

    /// Looks at the ring's file, and reports what was lost since the last report.
    pub(crate) fn flush(&self) -> OTelSdkResult {
        if let Some(sink) = self.sink.get() {
            let gone = |error: SinkError| failed(format!("the ring cannot be written: {error}"));
            sink.check().map_err(gone)?;
        }
        self.report(&Batch::default(), "")
    }

    /// Writes a batch of `items`, and reports what of it, or of earlier ones, was not written.
    pub(crate) fn write(&self, items: &str, write: impl FnOnce(&mut Out<'_>)) -> OTelSdkResult {
        let mut out = Out { sink: self.sink()?, lacks: &self.lacks, batch: Batch::default() };
        write(&mut out);
        let batch = out.batch;
        self.report(&batch, items)
    }

    fn report(&self, batch: &Batch, items: &str) -> OTelSdkResult {
        let dropped = self.dropped();
        let before = self.told.fetch_max(dropped, Ordering::Relaxed);
        let earlier = dropped.saturating_sub(before).saturating_sub(batch.refused);
        let mut said = Vec::new();
        if let Some(error) = &batch.error {
            let Batch { items: all, incomplete, .. } = batch;
            let location = &self.location;
            said.push(format!(
                "{incomplete} of {all} {items} are not, or not whole, in {location}: {error}"
            ));
        }
        if earlier > 0 {
            said.push(format!(
                "{earlier} more records were refused, or written into a file that was removed"
            ));
        }
        said.extend(self.lacks.say());
        if said.is_empty() { Ok(()) } else { Err(failed(said.join(". "))) }
    }
}

fn failed(sentence: String) -> OTelSdkError {
    OTelSdkError::InternalFailure(sentence)
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Spans, log records or points.
    items: u64,
    /// Those of which at least one record was refused.
    incomplete: u64,
    refused: u64,
    /// Why the last one was refused.
    error: Option<ReserveError>,
}

/// Where a batch is written.
#[derive(Debug)]
pub(crate) struct Out<'a> {
    sink: &'a Sink,
    pub(crate) lacks: &'a Lacks,
    pub(crate) batch: Batch,
}

impl Out<'_> {
    /// Counts what `write` writes as one item.
    pub(crate) fn item(&mut self, write: impl FnOnce(&mut Self)) {
        let before = self.batch.refused;
        write(self);
        self.batch.items += 1;
        self.batch.incomplete += u64::from(self.batch.refused > before);
    }

    /// Writes a record of a built-in type: first its time, which is in the past, then what `fill` writes.
    pub(crate) fn record(
        &mut self,
        schema: &Schema<'static>,
        time: u64,
        fill: impl FnOnce(&mut Record<'_, '_>),
    ) {
        let lacks = self.lacks;
        let done = self.sink.write(schema.id, |writer| {
            writer.u64(0, time);
            fill(&mut Record { writer, lacks, class: schema.class });
            lacks.count(Lack::LongRecords, u64::from(writer.is_truncated()));
        });
        if let Err(error) = done {
            self.batch.refused += 1;
            self.batch.error = Some(error);
        }
    }
}

/// Whether an exporter was shut down.
#[derive(Debug, Default)]
pub(crate) struct Shut(AtomicBool);

impl Shut {
    pub(crate) fn check(&self) -> OTelSdkResult {
        if self.0.load(Ordering::Relaxed) { Err(OTelSdkError::AlreadyShutdown) } else { Ok(()) }
    }

    pub(crate) fn shut(&self) -> OTelSdkResult {
        if self.0.swap(true, Ordering::Relaxed) {
            Err(OTelSdkError::AlreadyShutdown)
        } else {
            Ok(())
        }
    }
}

/// Returns the SDK's resource as the format has it.
fn converted(resource: &SdkResource, lacks: &Lacks) -> Resource {
    lacks.count(Lack::SchemaUrls, u64::from(resource.schema_url().is_some()));
    let mut pairs: Vec<_> = resource.iter().collect();
    pairs.sort_by(|a, b| a.0.cmp(b.0));
    pairs.into_iter().fold(Resource::default(), |resource, (key, value)| {
        resource.with(key.as_str().to_owned(), attribute(value, lacks))
    })
}

fn attribute(value: &Sdk, lacks: &Lacks) -> ResourceValue {
    match value {
        Sdk::Bool(value) => (*value).into(),
        Sdk::I64(value) => (*value).into(),
        Sdk::F64(value) => (*value).into(),
        Sdk::String(value) => value.as_str().to_owned().into(),
        Sdk::Array(array) => {
            let values: Vec<ResourceValue> = match array {
                Array::Bool(values) => values.iter().map(|it| (*it).into()).collect(),
                Array::I64(values) => values.iter().map(|it| (*it).into()).collect(),
                Array::F64(values) => values.iter().map(|it| (*it).into()).collect(),
                Array::String(values) => {
                    values.iter().map(|it| it.as_str().to_owned().into()).collect()
                }
                _ => Vec::new(),
            };
            let is_single = match values[..] {
                [ResourceValue::F64(_)] => false,
                [ResourceValue::I64(value)] => value < 0,
                [_] => true,
                _ => false,
            };
            lacks.count(Lack::Retyped, u64::from(is_single));
            ResourceValue::List(values)
        }
        other => {
            lacks.count(Lack::Retyped, 1);
            other.to_string().into()
        }
    }
}
