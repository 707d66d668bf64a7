//! What the instruments in a ring's metrics area have measured, with what their types and their processes say of them.

use perfring_consumer::metrics::{MetricKind, MetricSample, MetricSamples, MetricValue};
use perfring_telemetry::names;
use perfring_types::Class;
use perfring_types::read::{Type, TypeTable, Value};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::sync::Arc;

/// Attributes of an instrument or of a process.
pub type Attributes = Vec<(String, Value)>;

/// An instrument of a process, or of several whose values were added up.
///
/// It is serialized as the object that `perfring metrics --json` prints.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The instrument's name; the number of its type, if that is unknown.
    pub name: String,
    /// Its unit, or empty.
    pub unit: String,
    /// What it measures, or empty.
    pub description: String,
    /// The attributes of all its measurements.
    pub attributes: Attributes,
    /// Its values. Of a sum over processes, all but the values are those of the first process.
    pub sample: MetricSample,
    /// Whose values they are.
    pub of: Of,
}

/// Whose values a [`Measured`] has.
#[derive(Clone, Debug)]
pub enum Of {
    /// One process, and what its resource says of it.
    Process(Attributes),
    /// Several processes.
    Sum {
        /// How many.
        processes: u64,
        /// Whether the area certainly has the values of all that have measured.
        is_complete: bool,
    },
}

impl Measured {
    /// Returns the instruments of each process, by name. `types` was read after the samples: an instrument's type is registered
    /// before it.
    #[must_use]
    pub fn each(metrics: &MetricSamples, types: &TypeTable) -> Vec<Measured> {
        let mut resources = HashMap::new();
        for sample in &metrics.samples {
            let MetricValue::Record(payload) = &sample.value else { continue };
            let attributes = types.get(sample.kind).and_then(|kind| resource(kind, payload));
            resources.extend(attributes.map(|attributes| (sample.owner, attributes)));
        }
        let mut all: Vec<Measured> = metrics
            .samples
            .iter()
            .filter(|sample| !matches!(sample.value, MetricValue::Record(_)))
            .map(|sample| {
                let resource = resources.get(&sample.owner).cloned().unwrap_or_default();
                described(sample, types.get(sample.kind), Of::Process(resource))
            })
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name)); // stable: attributes and processes as they came
        all
    }

    /// Adds up those of the same type and kind of values, in the order of the first of each. Gauges stay as they are.
    #[must_use]
    pub fn sums(all: Vec<Measured>, metrics: &MetricSamples) -> Vec<Measured> {
        let is_complete = metrics.fill.trouble().is_none();
        let mut sums: Vec<Measured> = Vec::new();
        let mut found = HashMap::new();
        for mut one in all {
            if matches!(one.sample.metric, MetricKind::GaugeI64 | MetricKind::GaugeF64) {
                sums.push(one);
                continue;
            }
            let at = *found.entry((one.sample.kind, one.sample.metric)).or_insert(sums.len());
            match sums.get_mut(at) {
                Some(Measured { sample, of: Of::Sum { processes, .. }, .. }) => {
                    *processes += 1;
                    add(&mut sample.value, &one.sample.value);
                }
                _ => {
                    one.of = Of::Sum { processes: 1, is_complete };
                    sums.push(one);
                }
            }
        }
        sums
    }
}

/// Returns what a process has said of itself; `None` if the record says something else.
fn resource(kind: &Type, payload: &[u8]) -> Option<Attributes> {
    let class = kind.class.known().filter(|class| *class == Class::Resource)?;
    let Value::Struct(fields) = kind.decode(payload).ok()? else { return None };
    let attribute =
        |(name, value): (Arc<str>, _)| Some((names::attribute(class, &name)?.to_owned(), value));
    Some(fields.into_iter().filter_map(attribute).collect())
}

/// Adds values of the same kind.
fn add(to: &mut MetricValue, more: &MetricValue) {
    match (to, more) {
        (MetricValue::U64(to), MetricValue::U64(more)) => *to = to.saturating_add(*more),
        (MetricValue::I64(to), MetricValue::I64(more)) => *to = to.saturating_add(*more),
        (MetricValue::F64(to), MetricValue::F64(more)) => *to += more,
        (
            MetricValue::Histogram { counts, zeros, sum, range, refused, .. },
            MetricValue::Histogram {
                counts: more_counts,
                zeros: more_zeros,
                sum: more_sum,
                range: more_range,
                refused: more_refused,
                ..
            },
        ) => {
            for (to, more) in counts.iter_mut().zip(more_counts) {
                *to = to.saturating_add(*more);
            }
            *zeros = zeros.saturating_add(*more_zeros);
            *refused = refused.saturating_add(*more_refused);
            *sum += more_sum;
            *range = match (*range, *more_range) {
                (Some((least, greatest)), Some((a, b))) => Some((least.min(a), greatest.max(b))),
                (one, other) => one.or(other),
            };
        }
        _ => {}
    }
}

/// Returns an instrument with what its type says; without a type, with the type's number as its name.
fn described(sample: &MetricSample, kind: Option<&Type>, of: Of) -> Measured {
    let mut one = Measured {
        name: format!("type {}", sample.kind.get()),
        unit: String::new(),
        description: String::new(),
        attributes: Vec::new(),
        sample: sample.clone(),
        of,
    };
    // An empty record has what the type has as constants.
    let decoded = kind.and_then(|kind| Some((kind, kind.decode(&[]).ok()?)));
    let Some((kind, Value::Struct(fields))) = decoded else { return one };
    let class = kind.class.known().unwrap_or(Class::Plain);
    one.name.clone_from(&kind.name);
    for (name, value) in fields {
        match (&*name, &value) {
            (names::NAME, Value::Str(text)) => one.name.clone_from(text),
            (names::UNIT, Value::Str(text)) => one.unit.clone_from(text),
            (names::DESCRIPTION, Value::Str(text)) => one.description.clone_from(text),
            _ => {
                if let Some(attribute) = names::attribute(class, &name) {
                    one.attributes.push((attribute.to_owned(), value));
                }
            }
        }
    }
    one
}

/// Attributes as an object.
struct Object<'a>(&'a Attributes);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn kind_of(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::CounterU64 | MetricKind::CounterF64 => "counter",
        MetricKind::UpDownI64 | MetricKind::UpDownF64 => "up_down_counter",
        MetricKind::GaugeI64 | MetricKind::GaugeF64 => "gauge",
        MetricKind::Histogram(_) => "histogram",
        MetricKind::Record(_) => "record",
    }
}

impl Serialize for Measured {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let sample = &self.sample;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("kind", kind_of(sample.metric))?;
        map.serialize_entry("unit", &self.unit)?;
        map.serialize_entry("description", &self.description)?;
        map.serialize_entry("attributes", &Object(&self.attributes))?;
        match &self.of {
            Of::Process(resource) => {
                map.serialize_entry("pid", &sample.pid)?;
                map.serialize_entry("slot", &(sample.owner >> 48))?;
                map.serialize_entry("alive", &sample.is_alive)?;
                map.serialize_entry("start_time_unix_ns", &sample.start_time_unix_nano)?;
                map.serialize_entry("resource", &Object(resource))?;
            }
            Of::Sum { processes, is_complete } => {
                map.serialize_entry("processes", processes)?;
                map.serialize_entry("complete", is_complete)?;
            }
        }
        match &sample.value {
            MetricValue::U64(value) => map.serialize_entry("value", value)?,
            MetricValue::I64(value) => map.serialize_entry("value", value)?,
            MetricValue::F64(value) => map.serialize_entry("value", value)?,
            MetricValue::Histogram { buckets, counts, zeros, sum, range, refused } => {
                let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
                let end =
                    counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
                let count = counts.iter().fold(*zeros, |sum, count| sum.saturating_add(*count));
                map.serialize_entry("count", &count)?;
                map.serialize_entry("sum", sum)?;
                map.serialize_entry("min", &range.map(|(least, _)| least))?;
                map.serialize_entry("max", &range.map(|(_, greatest)| greatest))?;
                map.serialize_entry("scale", &buckets.scale())?;
                map.serialize_entry("zero_count", zeros)?;
                map.serialize_entry("zero_threshold", &buckets.zero_threshold())?;
                map.serialize_entry("offset", &(i64::from(buckets.first()) + first as i64))?;
                map.serialize_entry("bucket_counts", &counts.get(first..end))?;
                map.serialize_entry("refused", refused)?;
            }
            _ => {}
        }
        map.end()
    }
}
