//! The report: one JSON object a line, or tables.

use crate::case::Case;
use crate::cores::Distance;
use crate::error::Result;
use crate::groups::{FLOOR, Group, HALF, PERFRING};
use crate::machine::Machine;
use crate::many::crew::Found;
use crate::many::report as many;
use crate::options::{Options, Part};
use crate::part::Audience;
use crate::player::LINE;
use crate::rows::Sample;
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
    /// The compared figure relative to the floor's.
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

/// Writes the whole report.
pub(crate) fn write(
    machine: &Machine,
    options: &Options,
    groups: &[Group],
    found: &Found,
    out: &mut dyn Write,
) -> Result<()> {
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
            let of_part = groups.iter().filter(|group| group.part == *part);
            let rows: Vec<Row> = of_part.flat_map(|group| medians(group, options)).collect();
            writeln!(out, "\n{}\n{}", title(*part), table(*part, &rows))?;
        }
    }
    Ok(out.flush()?)
}

fn line(out: &mut dyn Write, value: &impl Serialize) -> Result<()> {
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
        let turn = group.turns.iter().find(|turn| wanted(&turn.case))?;
        Some(turn.samples.as_slice())
    };
    let lossy = case.kind.lossy;
    Bases {
        floor: find(&|other| other.entry.name == FLOOR.name && other.kind.lossy == lossy),
        drop: (group.part == Part::Overwrite)
            .then(|| find(&|other| contestant(other) == contestant(case) && !other.kind.lossy))
            .flatten(),
        line: find(&|other| other.entry.name == LINE.name),
    }
}

/// Returns the name in the report: eviction by halves is a policy of the same contestant.
fn contestant(case: &Case) -> &'static str {
    if case.entry.name == HALF.name { PERFRING.name } else { case.entry.name }
}

fn policy(case: &Case) -> &'static str {
    match (case.kind.lossy, case.entry.name == HALF.name) {
        (false, _) => "drop",
        (true, false) => "overwrite",
        (true, true) => "overwrite_half",
    }
}

fn row(group: &Group, case: &Case, options: &Options, sample: &Sample) -> Row {
    let figures = &sample.figures;
    Row {
        bench: group.part.name(),
        contestant: contestant(case),
        payload: case.kind.payload,
        producers: 1,
        policy: policy(case),
        audience: if case.kind.audience == Audience::None { "none" } else { "keen" },
        reader: options.reader.name(),
        repetition: Repetition::Nth(sample.round),
        records_per_s: figures.records_per_s,
        bytes_per_s: figures.records_per_s * case.kind.payload as f64,
        ns_per_record: figures.ns_per_record,
        records: figures.records,
        lost: figures.lost,
        bad: figures.bad,
        floor_ratio: None,
        hop_before_ns: figures.hop_before_ns,
        hop_after_ns: figures.hop_after_ns,
        distance: Distance::named(figures.distance),
        latency: figures.latency.map(|l| Latency {
            p50_ns: l.p50_ns,
            p99_ns: l.p99_ns,
            p999_ns: l.p999_ns,
        }),
        drop_ratio: None,
        line_ratio: None,
        summary: None,
    }
}

fn figures<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Vec<(&'static str, f64)> {
    let figure = |s: &Sample| (s.figures.distance, s.figures.figure().unwrap_or(f64::NAN));
    samples.into_iter().map(figure).collect()
}

/// Returns a line for each sample, compared with its neighbours of the same round.
fn singles(group: &Group, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for turn in &group.turns {
        let bases = bases(group, &turn.case);
        for sample in &turn.samples {
            let by = |base: Option<&[Sample]>| {
                let base = base?.iter().find(|other| other.round == sample.round)?;
                ratio(sample.figures.distance, &figures([sample]), &figures([base]))
            };
            rows.push(Row {
                floor_ratio: by(bases.floor),
                drop_ratio: by(bases.drop),
                line_ratio: by(bases.line),
                ..row(group, &turn.case, options, sample)
            });
        }
    }
    rows
}

/// Returns a line for each case and distance.
fn medians(group: &Group, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for turn in &group.turns {
        let (case, bases) = (&turn.case, bases(group, &turn.case));
        let at = |distance: Distance| move |s: &&Sample| s.figures.distance == distance.name();
        let left_out = turn.samples.iter().filter(at(Distance::Mixed)).count();
        for distance in [Distance::Near, Distance::Far, Distance::None] {
            let here: Vec<&Sample> = turn.samples.iter().filter(at(distance)).collect();
            let Some(first) = here.first() else { continue };
            let lines: Vec<Row> = here.iter().map(|s| row(group, case, options, s)).collect();
            let mid = |get: &dyn Fn(&Row) -> Option<f64>| median(lines.iter().filter_map(get));
            let by = |base: Option<&[Sample]>| {
                ratio(distance.name(), &figures(&turn.samples), &figures(base?))
            };
            let figure = |s: &&Sample| s.figures.figure();
            let Some((min, max)) = range(here.iter().filter_map(figure)) else { continue };
            let rate = mid(&|r| Some(r.records_per_s)).unwrap_or_default();
            let quantile = |get: fn(&Latency) -> f64| mid(&|r| r.latency.as_ref().map(get));
            rows.push(Row {
                repetition: Repetition::Median("median"),
                records_per_s: rate,
                bytes_per_s: rate * case.kind.payload as f64,
                ns_per_record: mid(&|r| Some(r.ns_per_record)).unwrap_or_default(),
                records: lines.iter().map(|r| r.records).sum(),
                lost: lines.iter().map(|r| r.lost).sum(),
                bad: lines.iter().map(|r| r.bad).sum(),
                floor_ratio: by(bases.floor),
                drop_ratio: by(bases.drop),
                line_ratio: by(bases.line),
                hop_before_ns: mid(&|r| r.hop_before_ns),
                hop_after_ns: mid(&|r| r.hop_after_ns),
                latency: quantile(|l| l.p50_ns).map(|p50_ns| Latency {
                    p50_ns,
                    p99_ns: quantile(|l| l.p99_ns).unwrap_or_default(),
                    p999_ns: quantile(|l| l.p999_ns).unwrap_or_default(),
                }),
                summary: Some(Summary { samples: here.len(), left_out, min, max }),
                ..row(group, case, options, first)
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
    let head = match part {
        Part::Throughput => {
            "payload | contestant | distance | hop ns | samples | left out | \
             M records/s | range | GB/s | of floor | lost | bad"
        }
        Part::Overwrite => {
            "contestant | policy | reader | distance | hop ns | samples | \
             left out | ns/record | range | of drop | of floor | unseen | bad"
        }
        Part::Latency => {
            "contestant | distance | hop ns | samples | left out | p50 ns | \
             range | p99 ns | p99.9 ns | of line | of floor | lost | bad"
        }
        Part::Many => "",
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
