//! `perfring metrics`: what the instruments in rings' metrics areas have measured.

use crate::args;
use crate::columns::{self, paragraph};
use crate::events::input::rings_of;
use crate::failure::{Failure, note, summary};
use crate::output::figures_format::FiguresFormat;
use crate::output::json::line;
use perfring_consumer::{
    AttachError, Location, Observer, Start,
    metrics::{MetricValue, MetricsFill},
};
use perfring_export::Stream;
use perfring_figures::instruments::{Measured, Of};
use perfring_figures::owner::{count, printable};
use perfring_types::read::{TypeTable, Value};
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// Show the values of processes' instruments: counters, gauges and histograms
///
/// They are in the metrics area of a ring (`perfring create --producers many --metrics-size 1M`), where processes keep them as
/// memory. Each line has the values of one process, and its name if its resource has `service.name`. The values of a dead
/// process stay until an area that is full needs their room. With --sum each line adds up all processes whose values are there,
/// dead ones included. A sum that may lack some is marked `perhaps not all` (in JSON `"complete": false`): values were replaced
/// or found no room, or the area is damaged. The command changes nothing: it shows the file of killed processes, or a copy of
/// it, as well. If an area is damaged, the values before the damage are shown and the exit code is 4.
///
/// For a histogram the text shows estimates of its median and its 99th percentile: the upper bounds of their buckets. JSON has
/// an object per line, with the buckets and the whole resource.
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
        let mut rows = Measured::each(&metrics, &types);
        if args.sum {
            rows = Measured::sums(rows, &metrics);
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
                "{ring}: {} found no room, so nothing that they measure is stored ({used} of {size} bytes are in use): make the \
                 ring with a larger --metrics-size",
                count(refused, "instrument")
            ));
        }
        if replaced > 0 {
            note(&format!(
                "{ring}: the values of {} of processes that had ended were replaced for want of room, so sums do not include them: make the \
                 ring with a larger --metrics-size",
                count(replaced, "instrument")
            ));
        }
        if damage.is_none() && rows.is_empty() && refused == 0 {
            summary(&format!("{ring}: no instrument has been registered yet"));
        }
        damages.extend(damage.map(|damage| {
            format!(
                "{ring}: {damage}; what follows is not shown, and the ring's records are not affected"
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

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    measured: &'a Measured,
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<&'a str>,
}

fn write_json(out: &mut impl Write, ring: Option<&str>, all: &[Measured]) -> io::Result<()> {
    all.iter().try_for_each(|measured| line(out, &Line { measured, ring }))
}

fn write_text(out: &mut impl Write, ring: Option<&str>, rows: &[Measured]) -> io::Result<()> {
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

fn what(row: &Measured) -> String {
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

fn value(row: &Measured) -> String {
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

fn process(row: &Measured) -> String {
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
