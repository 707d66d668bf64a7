//! `perfring metrics`: what the instruments in rings' metrics areas have measured.

use crate::args;
use crate::columns::{self, paragraph};
use crate::events::input::rings_of;
use crate::failure::{Failure, note, summary};
use crate::output::figures_format::FiguresFormat;
use crate::output::json::line;
use perfring_consumer::{
    AttachError, Location, MetricKind, MetricSample, MetricSamples, MetricValue, MetricsFill,
    Observer, Start,
};
use perfring_export::Stream;
use perfring_figures::areas::unmeasured;
use perfring_figures::owner::{count, printable};
use perfring_telemetry::names;
use perfring_types::Class;
use perfring_types::read::{Type, TypeTable, Value};
use serde_json::{Map, json};
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

/// Show what the instruments of processes have measured: counters, gauges and histograms
///
/// They are in the metrics area of a ring (`perfring create --producers many --metrics-size 1M`), where processes keep them as memory. Each line has
/// the values of one process, and its name if its resource has `service.name`. The values of a dead process stay until an area that
/// is full needs their room. With --sum each line adds up all processes whose values are there, dead ones included. A sum that may
/// lack some is marked `perhaps not all` (in JSON `"complete": false`): values were replaced or found no room, or the area is damaged. The
/// command changes nothing: it shows the file of killed processes, or a copy of it, as well. If an area is damaged, what precedes
/// the damage is shown and the exit code is 4.
///
/// Of a histogram the text has estimates of its median and its 99th percentile: the upper bounds of their buckets. JSON has an object
/// per line, with the buckets and with all that the resource says.
///
/// Example: perfring metrics /dev/shm/shop --sum
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A path, shm:NAME, or a directory of rings
    #[arg(value_parser = args::location())]
    ring: Location,
    /// Add up what processes have measured. Gauges have no sum: each process's is shown
    #[arg(long)]
    sum: bool,
    #[command(flatten)]
    format: FiguresFormat,
}

/// The columns of values: a histogram takes more, and other values are not padded to that.
const VALUE: usize = 24;

/// Attributes of an instrument or of a process.
type Attributes = Vec<(String, Value)>;

/// An instrument of a process, or of several whose values were added up.
struct Row {
    name: String,
    unit: String,
    description: String,
    attributes: Attributes,
    sample: MetricSample,
    of: Of,
}

/// Whose values a row has.
enum Of {
    /// One process, and what its resource says of it.
    Process(Attributes),
    /// So many, and whether the area certainly has the values of all that have measured.
    Sum { processes: u64, is_complete: bool },
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let several = matches!(&args.ring, Location::File(path) if path.is_dir());
    let mut out = BufWriter::new(Stream::stdout());
    let (mut damages, mut without, mut shown) = (Vec::new(), 0, false);
    for ring in rings_of(&args.ring)? {
        let observer = match Observer::attach(&ring, Start::Latest) {
            Err(AttachError::NotFound { .. }) if several => continue, // removed meanwhile
            opened => opened?,
        };
        if observer.layout().metrics_size == 0 {
            without += 1;
            continue;
        }
        let metrics =
            observer.metrics().map_err(|error| Failure::Damaged(format!("{ring}: {error}")))?;
        // The types after the samples: an instrument's type was registered before it.
        let types = TypeTable::from_entries(observer.types().entries());
        let name = printable(&ring.name(observer.layout()));
        let mut rows = rows(&metrics, &types);
        if args.sum {
            let is_complete = unmeasured(&metrics.fill).is_none() && metrics.fill.damage.is_none();
            rows = sums(rows, is_complete);
        }
        let written = match args.format.is_json() {
            true => write_json(&mut out, several.then_some(&*name), &rows),
            false => write_text(&mut out, several.then_some(&*name), &rows),
        };
        written.map_err(Failure::output)?;
        shown |= !rows.is_empty();
        let MetricsFill { size, used, refused, replaced, damage, .. } = metrics.fill;
        if refused > 0 {
            note(&format!(
                "{ring}: {} found no room, so those measurements are nowhere ({used} of {size} bytes are in use): make the \
                 ring with a larger --metrics-size",
                count(refused, "instrument")
            ));
        }
        if replaced > 0 {
            note(&format!(
                "{ring}: the values of {} of processes that had ended were replaced for want of room, so the sums lack those: make the \
                 ring with a larger --metrics-size",
                count(replaced, "instrument")
            ));
        }
        if damage.is_none() && rows.is_empty() && refused == 0 {
            summary(&format!("{ring}: no instrument has been registered yet"));
        }
        damages.extend(damage.map(|damage| {
            format!(
                "{ring}: {damage}: what is behind that is not shown; the ring's records are not concerned"
            )
        }));
    }
    out.flush().map_err(Failure::output)?;
    if without > 0 && !shown {
        let made = if several { "no ring there has" } else { "the ring has" };
        let what = if several { "a metrics area" } else { "no metrics area" };
        summary(&format!(
            "{made} {what}: `perfring create --producers many --metrics-size 1M` makes one with it"
        ));
    }
    match &damages[..] {
        [] => Ok(()),
        damages => Err(Failure::Damaged(damages.join("; "))),
    }
}

fn rows(metrics: &MetricSamples, types: &TypeTable) -> Vec<Row> {
    let mut resources = HashMap::new();
    for sample in &metrics.samples {
        let MetricValue::Record(payload) = &sample.value else { continue };
        let attributes = types.get(sample.kind).and_then(|kind| resource(kind, payload));
        resources.extend(attributes.map(|attributes| (sample.owner, attributes)));
    }
    let measured = |sample: &&MetricSample| !matches!(sample.value, MetricValue::Record(_));
    let of = |sample: &MetricSample| {
        Of::Process(resources.get(&sample.owner).cloned().unwrap_or_default())
    };
    let mut rows: Vec<Row> = metrics
        .samples
        .iter()
        .filter(measured)
        .map(|sample| row(sample, types.get(sample.kind), of(sample)))
        .collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name)); // stable: attributes and processes as they came
    rows
}

/// Returns what a process has said of itself; `None` if the record says something else.
fn resource(kind: &Type, payload: &[u8]) -> Option<Attributes> {
    let class = kind.class.known().filter(|class| *class == Class::Resource)?;
    let Value::Struct(fields) = kind.decode(payload).ok()? else { return None };
    let attribute =
        |(name, value): (Arc<str>, _)| Some((names::attribute(class, &name)?.to_owned(), value));
    Some(fields.into_iter().filter_map(attribute).collect())
}

/// Adds up rows of the same type and kind of values, in the order of the first of each.
fn sums(rows: Vec<Row>, is_complete: bool) -> Vec<Row> {
    let mut sums: Vec<Row> = Vec::new();
    let mut found = HashMap::new();
    for mut row in rows {
        if matches!(row.sample.metric, MetricKind::GaugeI64 | MetricKind::GaugeF64) {
            sums.push(row);
            continue;
        }
        let at = *found.entry((row.sample.kind, row.sample.metric)).or_insert(sums.len());
        match sums.get_mut(at) {
            Some(Row { sample, of: Of::Sum { processes, .. }, .. }) => {
                *processes += 1;
                add(&mut sample.value, &row.sample.value);
            }
            _ => {
                row.of = Of::Sum { processes: 1, is_complete };
                sums.push(row);
            }
        }
    }
    sums
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
fn row(sample: &MetricSample, kind: Option<&Type>, of: Of) -> Row {
    // An empty record has what the type has as constants.
    let decoded = kind.and_then(|kind| Some((kind, kind.decode(&[]).ok()?)));
    let mut row = Row {
        name: format!("type {}", sample.kind.get()),
        unit: String::new(),
        description: String::new(),
        attributes: Vec::new(),
        sample: sample.clone(),
        of,
    };
    let Some((kind, Value::Struct(fields))) = decoded else { return row };
    let class = kind.class.known().unwrap_or(Class::Plain);
    row.name.clone_from(&kind.name);
    for (name, value) in fields {
        match (&*name, &value) {
            (names::NAME, Value::Str(text)) => row.name.clone_from(text),
            (names::UNIT, Value::Str(text)) => row.unit.clone_from(text),
            (names::DESCRIPTION, Value::Str(text)) => row.description.clone_from(text),
            _ => {
                if let Some(attribute) = names::attribute(class, &name) {
                    row.attributes.push((attribute.to_owned(), value));
                }
            }
        }
    }
    row
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

fn write_json(out: &mut impl Write, ring: Option<&str>, rows: &[Row]) -> io::Result<()> {
    let object_of = |attributes: &Attributes| -> Map<String, serde_json::Value> {
        attributes.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
    };
    for Row { name, unit, description, attributes, sample, of } in rows {
        let mut object = json!({
            "name": name,
            "kind": kind_of(sample.metric),
            "unit": unit,
            "description": description,
            "attributes": object_of(attributes),
        });
        let whose = match of {
            Of::Process(resource) => json!({
                "pid": sample.pid,
                "alive": sample.is_alive,
                "start_time_unix_ns": sample.start_time_unix_nano,
                "resource": object_of(resource),
            }),
            Of::Sum { processes, is_complete } => {
                json!({ "processes": processes, "complete": is_complete })
            }
        };
        let more = match &sample.value {
            MetricValue::U64(value) => json!({ "value": value }),
            MetricValue::I64(value) => json!({ "value": value }),
            MetricValue::F64(value) => json!({ "value": value }),
            MetricValue::Histogram { buckets, counts, zeros, sum, range, refused } => {
                let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
                let end =
                    counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
                json!({
                    "count": counts.iter().fold(*zeros, |sum, count| sum.saturating_add(*count)),
                    "sum": sum,
                    "min": range.map(|(least, _)| least),
                    "max": range.map(|(_, greatest)| greatest),
                    "scale": buckets.scale(),
                    "zero_count": zeros,
                    "zero_threshold": buckets.zero_threshold(),
                    "offset": i64::from(buckets.first()) + first as i64,
                    "bucket_counts": counts.get(first..end),
                    "refused": refused,
                })
            }
            _ => json!({}),
        };
        if let Some(object) = object.as_object_mut() {
            let parts = [whose, more].into_iter().filter_map(|part| match part {
                serde_json::Value::Object(part) => Some(part),
                _ => None,
            });
            object.extend(parts.flatten());
            object.extend(ring.map(|ring| ("ring".to_owned(), ring.into())));
        }
        line(out, &object)?;
    }
    Ok(())
}

fn write_text(out: &mut impl Write, ring: Option<&str>, rows: &[Row]) -> io::Result<()> {
    if let Some(ring) = ring.filter(|_| !rows.is_empty()) {
        writeln!(out, "{ring}")?;
    }
    let shown: Vec<[String; 3]> =
        rows.iter().map(|row| [what(row), value(row), process(row)]).collect();
    let width = |at: usize, most: usize| {
        let all = shown.iter().map(|cells| cells[at].chars().count());
        all.filter(|width| *width <= most).max().unwrap_or(0)
    };
    let (first, second) = (width(0, usize::MAX), width(1, VALUE));
    for [what, value, process] in &shown {
        let text = format!("{value:second$}  {process}");
        writeln!(out, "{}", paragraph(&format!("{what:first$}  "), &text, columns::width()))?;
    }
    Ok(())
}

fn what(row: &Row) -> String {
    let attributes: Vec<String> = row
        .attributes
        .iter()
        .map(|(name, value)| format!("{}={}", printable(name), printable(&value.to_string())))
        .collect();
    match attributes.is_empty() {
        true => printable(&row.name),
        false => format!("{} {}", printable(&row.name), attributes.join(" ")),
    }
}

fn value(row: &Row) -> String {
    let unit = match row.unit.is_empty() || row.unit == "1" {
        true => String::new(),
        false => format!(" {}", printable(&row.unit)),
    };
    match &row.sample.value {
        MetricValue::U64(value) => format!("{value}{unit}"),
        MetricValue::I64(value) => format!("{value}{unit}"),
        MetricValue::F64(value) => format!("{value}{unit}"),
        MetricValue::Histogram { buckets, counts, zeros, sum, range, refused } => {
            let all = counts.iter().fold(*zeros, |sum, count| sum.saturating_add(*count));
            let Some((least, greatest)) = range.filter(|_| all > 0) else { return "none".into() };
            let quantile = |share: f64| {
                let wanted = (share * all as f64).ceil() as u64;
                let mut seen = *zeros;
                let mut at = (i64::from(buckets.first())..).zip(counts);
                let bound =
                    |index: i64| (index as f64 * 2f64.powi(-i32::from(buckets.scale()))).exp2();
                let found = at.find_map(|(index, count)| {
                    seen = seen.saturating_add(*count);
                    (seen >= wanted).then(|| bound(index + 1))
                });
                if *zeros >= wanted {
                    0.0
                } else {
                    found.unwrap_or(greatest).clamp(least, greatest)
                }
            };
            let refused = match refused {
                0 => String::new(),
                refused => format!(", {refused} refused"),
            };
            format!(
                "{all} measured, mean {}, min {}, p50 {}, p99 {}, max {}{unit}{refused}",
                short(sum / all as f64),
                short(least),
                short(quantile(0.5)),
                short(quantile(0.99)),
                short(greatest)
            )
        }
        _ => String::new(),
    }
}

/// A number with three digits or more.
fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = (2.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn process(row: &Row) -> String {
    let resource = match &row.of {
        Of::Process(resource) => resource,
        Of::Sum { processes, is_complete } => {
            let processes = match processes {
                1 => "1 process".to_owned(),
                processes => format!("{processes} processes"),
            };
            return if *is_complete { processes } else { processes + ", perhaps not all" };
        }
    };
    let service = resource.iter().find_map(|(name, value)| match value {
        Value::Str(service) if name == "service.name" => Some(format!(" ({})", printable(service))),
        _ => None,
    });
    let ended = if row.sample.is_alive { "" } else { ", ended" };
    format!("process {}{}{ended}", row.sample.pid, service.unwrap_or_default())
}
