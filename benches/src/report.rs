//! The report: one JSON object a line, or tables.

use crate::case::{Case, Group, Quantiles, Sample};
use crate::contest::ring::{Audience, Contestant, Policy};
use crate::cores::Distance;
use crate::error::BenchError;
use crate::machine::Machine;
use crate::many::crew::Found;
use crate::many::report as many;
use crate::options::{Options, Part};
use crate::stats::{median, range, ratio};
use crate::tables::{Repetition, Summary, aligned};
use serde::Serialize;
use std::io::Write;

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
struct Row {
    bench: &'static str,
    contestant: &'static str,
    payload: usize,
    producers: u32,
    policy: &'static str,
    audience: &'static str,
    reader: &'static str,
    repetition: Repetition,
    records_per_s: f64,
    bytes_per_s: f64,
    ns_per_record: f64,
    records: u64,
    lost: u64,
    bad: u64,
    /// This figure relative to the floor's; see [`Sample::figure`] for which figure.
    floor_ratio: Option<f64>,
    hop_before_ns: Option<f64>,
    hop_after_ns: Option<f64>,
    distance: Distance,
    #[serde(flatten)]
    latency: Option<Latency>,
    /// Relative to the same contestant's in drop mode with a keen reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    drop_ratio: Option<f64>,
    /// Relative to that of a bare cache line.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_ratio: Option<f64>,
    #[serde(flatten)]
    summary: Option<Summary>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Latency {
    p50_ns: f64,
    p99_ns: f64,
    p999_ns: f64,
}

impl From<Quantiles> for Latency {
    fn from(of: Quantiles) -> Self {
        Latency { p50_ns: of.p50, p99_ns: of.p99, p999_ns: of.p999 }
    }
}

/// Writes the whole report.
pub(crate) fn write(
    machine: &Machine,
    options: &Options,
    groups: &[Group],
    found: &Found,
    out: &mut dyn Write,
) -> Result<(), BenchError> {
    if options.json {
        #[derive(Serialize)]
        struct First<'a> {
            bench: &'static str,
            #[serde(flatten)]
            machine: &'a Machine,
            /// Whether the kernel's ring takes part among many producers.
            #[serde(skip_serializing_if = "Option::is_none")]
            bpf: Option<many::Bpf<'a>>,
        }
        let bpf = options.parts.contains(&Part::Many).then(|| many::Bpf::of(found));
        line(out, &First { bench: "machine", machine, bpf })?;
        for group in groups {
            for row in singles(group, options).into_iter().chain(medians(group, options)) {
                line(out, &row)?;
            }
        }
        if options.parts.contains(&Part::Many) {
            for row in many::rows(found, options) {
                line(out, &row)?;
            }
        }
    } else {
        writeln!(out, "{machine}")?;
        for part in &options.parts {
            if *part == Part::Many {
                many::write(found, options, out)?;
                continue;
            }
            let of_part = |group: &&Group| group.cases.iter().all(|(case, _)| case.part == *part);
            let rows: Vec<Row> =
                groups.iter().filter(of_part).flat_map(|group| medians(group, options)).collect();
            writeln!(out, "\n{}\n{}", title(*part), table(*part, &rows))?;
        }
    }
    Ok(out.flush()?)
}

fn line(out: &mut dyn Write, value: &impl Serialize) -> Result<(), BenchError> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(out.write_all(&line)?)
}

/// The cases of a group that one is compared with.
struct Bases<'a> {
    floor: Option<&'a [Sample]>,
    drop: Option<&'a [Sample]>,
    line: Option<&'a [Sample]>,
}

fn bases<'a>(group: &'a Group, case: &Case) -> Bases<'a> {
    let find = |wanted: &dyn Fn(&Case) -> bool| {
        let (_, samples) = group.cases.iter().find(|(other, _)| wanted(other))?;
        Some(samples.as_slice())
    };
    let drops = case.policy == Policy::Drop;
    Bases {
        floor: find(&|other| {
            other.contestant == Contestant::Floor && (other.policy == Policy::Drop) == drops
        }),
        drop: (case.part == Part::Overwrite)
            .then(|| {
                find(&|other| {
                    other.contestant == case.contestant
                        && other.policy == Policy::Drop
                        && other.audience == Audience::Keen
                })
            })
            .flatten(),
        line: find(&|other| other.contestant == Contestant::Line),
    }
}

fn row(case: &Case, options: &Options, sample: &Sample) -> Row {
    Row {
        bench: case.part.name(),
        contestant: case.contestant.name(),
        payload: case.payload,
        producers: 1,
        policy: case.policy.name(),
        audience: case.audience.name(),
        reader: options.reader.name(),
        repetition: Repetition::Nth(sample.round),
        records_per_s: sample.records_per_s,
        bytes_per_s: sample.records_per_s * case.payload as f64,
        ns_per_record: sample.ns_per_record,
        records: sample.records,
        lost: sample.lost,
        bad: sample.bad,
        floor_ratio: None,
        hop_before_ns: sample.hops_ns.map(|[before, _]| before),
        hop_after_ns: sample.hops_ns.map(|[_, after]| after),
        distance: sample.distance,
        latency: sample.latency.map(Latency::from),
        drop_ratio: None,
        line_ratio: None,
        summary: None,
    }
}

/// Returns a line for each sample, compared with its neighbours of the same round.
fn singles(group: &Group, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for (case, samples) in &group.cases {
        let bases = bases(group, case);
        for sample in samples {
            let by = |base: Option<&[Sample]>| {
                let base = base?.iter().find(|other| other.round == sample.round)?;
                let one = |sample: &Sample| [(sample.distance, sample.figure(case.part))];
                ratio(sample.distance, &one(sample), &one(base))
            };
            rows.push(Row {
                floor_ratio: by(bases.floor),
                drop_ratio: by(bases.drop),
                line_ratio: by(bases.line),
                ..row(case, options, sample)
            });
        }
    }
    rows
}

/// Returns a line for each case and distance.
fn medians(group: &Group, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for (case, samples) in &group.cases {
        let bases = bases(group, case);
        let left_out = samples.iter().filter(|s| s.distance == Distance::Mixed).count();
        for distance in [Distance::Near, Distance::Far, Distance::None] {
            let here: Vec<&Sample> = samples.iter().filter(|s| s.distance == distance).collect();
            let Some(first) = here.first() else { continue };
            let mid =
                |get: &dyn Fn(&Sample) -> Option<f64>| median(here.iter().filter_map(|s| get(s)));
            let figures = |samples: &[Sample]| -> Vec<(Distance, f64)> {
                samples.iter().map(|s| (s.distance, s.figure(case.part))).collect()
            };
            let by = |base: Option<&[Sample]>| ratio(distance, &figures(samples), &figures(base?));
            let Some((min, max)) = range(here.iter().map(|s| s.figure(case.part))) else {
                continue;
            };
            let rate = mid(&|s| Some(s.records_per_s)).unwrap_or_default();
            rows.push(Row {
                repetition: Repetition::Median("median"),
                records_per_s: rate,
                bytes_per_s: rate * case.payload as f64,
                ns_per_record: mid(&|s| Some(s.ns_per_record)).unwrap_or_default(),
                records: here.iter().map(|s| s.records).sum(),
                lost: here.iter().map(|s| s.lost).sum(),
                bad: here.iter().map(|s| s.bad).sum(),
                floor_ratio: by(bases.floor),
                drop_ratio: by(bases.drop),
                line_ratio: by(bases.line),
                hop_before_ns: mid(&|s| s.hops_ns.map(|[before, _]| before)),
                hop_after_ns: mid(&|s| s.hops_ns.map(|[_, after]| after)),
                latency: mid(&|s| s.latency.map(|l| l.p50)).map(|p50_ns| Latency {
                    p50_ns,
                    p99_ns: mid(&|s| s.latency.map(|l| l.p99)).unwrap_or_default(),
                    p999_ns: mid(&|s| s.latency.map(|l| l.p999)).unwrap_or_default(),
                }),
                summary: Some(Summary { samples: here.len(), left_out, min, max }),
                ..row(case, options, first)
            });
        }
    }
    rows
}

fn title(part: Part) -> &'static str {
    match part {
        Part::Throughput => "Verified records from one process to another, drop mode",
        Part::Overwrite => "The cost of a record to the producer, 64 bytes",
        Part::Latency => "Half a round trip, polling all the time, 64 bytes",
        Part::Many => "", // has tables of its own
    }
}

fn table(part: Part, rows: &[Row]) -> String {
    let head: &[&str] = match part {
        Part::Throughput => &[
            "payload",
            "contestant",
            "distance",
            "hop ns",
            "samples",
            "left out",
            "M records/s",
            "range",
            "GB/s",
            "of floor",
            "lost",
            "bad",
        ],
        Part::Overwrite => &[
            "contestant",
            "policy",
            "reader",
            "distance",
            "hop ns",
            "samples",
            "left out",
            "ns/record",
            "range",
            "of drop",
            "of floor",
            "unseen",
            "bad",
        ],
        Part::Latency => &[
            "contestant",
            "distance",
            "hop ns",
            "samples",
            "left out",
            "p50 ns",
            "range",
            "p99 ns",
            "p99.9 ns",
            "of line",
            "of floor",
            "lost",
            "bad",
        ],
        Part::Many => &[],
    };
    aligned(head, rows.iter().map(|row| cells(part, row)))
}

fn cells(part: Part, row: &Row) -> Vec<String> {
    let times = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
    let scale = if part == Part::Throughput { 1e6 } else { 1.0 };
    let hop = row.hop_before_ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
    let (samples, left_out, span) = match row.summary {
        Some(s) => (s.samples, s.left_out, format!("{:.1}..{:.1}", s.min / scale, s.max / scale)),
        None => (1, 0, String::new()),
    };
    let [samples, left_out] = [samples, left_out].map(|n| n.to_string());
    let distance = row.distance.name().to_owned();
    let contestant = row.contestant.to_owned();
    let [lost, bad] = [row.lost, row.bad].map(|n| n.to_string());
    let floor = times(row.floor_ratio);
    match part {
        Part::Throughput => vec![
            row.payload.to_string(),
            contestant,
            distance,
            hop,
            samples,
            left_out,
            format!("{:.1}", row.records_per_s / scale),
            span,
            format!("{:.2}", row.bytes_per_s / 1e9),
            floor,
            lost,
            bad,
        ],
        Part::Overwrite => vec![
            contestant,
            row.policy.to_owned(),
            row.audience.to_owned(),
            distance,
            hop,
            samples,
            left_out,
            format!("{:.2}", row.ns_per_record),
            span,
            times(row.drop_ratio),
            floor,
            lost,
            bad,
        ],
        Part::Latency => {
            let [p50, p99, p999] = row
                .latency
                .map_or([f64::NAN; 3], |l| [l.p50_ns, l.p99_ns, l.p999_ns])
                .map(|ns| format!("{ns:.0}"));
            vec![
                contestant,
                distance,
                hop,
                samples,
                left_out,
                p50,
                span,
                p99,
                p999,
                times(row.line_ratio),
                floor,
                lost,
                bad,
            ]
        }
        Part::Many => Vec::new(),
    }
}
