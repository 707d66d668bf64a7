//! The report on many producers: lines of JSON, or tables.

use super::cases::{Case, Group};
use super::crew::Found;
use super::race::{Placement, Sample, Shape, Way, Who};
use crate::audit::Losses;
use crate::cores::Distance;
use crate::error::Result;
use crate::options::Options;
use crate::stats::{median, range, ratio};
use crate::tables::{Repetition, Summary, aligned};
use serde::Serialize;
use std::io::Write;

/// Million records a second of the kernel's BPF ring buffer with a libbpf consumer that sleeps and
/// is woken as by default, on a similar machine (two cores of an AMD EPYC, Linux 6.18), in another
/// run. Quoted, not measured: what is measured here has rows of its own.
const QUOTED: [(Shape, usize, usize, f64); 6] = [
    (Shape::Alone, 8, 1, 37.0),
    (Shape::Alone, 64, 1, 37.0),
    (Shape::Lossy, 8, 1, 9.5),
    (Shape::Lossy, 64, 1, 9.0),
    (Shape::Lossy, 8, 2, 12.6),
    (Shape::Lossy, 64, 2, 9.1),
];
const PLACEMENT_NOTE: &str = "apart: all producers on one core, the consumer, if any, on the \
                              other; spread: on both in turn";
const QUOTED_NOTE: &str = "quoted: the kernel's BPF ring buffer with a libbpf consumer, another \
                           run on a machine of this kind; back to back 20.8 at best; overwriting, \
                           as published for an EPYC 9654, 32 with one producer and 9.6 with two";

fn quoted(case: &Case) -> Option<f64> {
    let here = |of: &&(Shape, usize, usize, f64)| {
        (of.0, of.1, of.2) == (case.shape, case.payload, case.producers)
    };
    QUOTED.iter().find(here).map(|of| of.3 * 1e6)
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    bench: &'static str,
    contestant: &'static str,
    payload: usize,
    producers: usize,
    policy: &'static str,
    audience: &'static str,
    shape: &'static str,
    way: &'static str,
    placement: &'static str,
    reader: &'static str,
    repetition: Repetition,
    records_per_s: f64,
    bytes_per_s: f64,
    /// Over all producers: the time per record.
    ns_per_record: f64,
    records: u64,
    lost: u64,
    #[serde(flatten)]
    refused: Losses,
    bad: u64,
    /// Relative to the ring of one producer.
    exclusive_ratio: Option<f64>,
    /// Relative to the same with two producers.
    two_ratio: Option<f64>,
    /// Relative to the kernel's ring, measured here with as many producers.
    bpf_ratio: Option<f64>,
    /// From another run.
    bpf_quoted_records_per_s: Option<f64>,
    hop_before_ns: Option<f64>,
    hop_after_ns: Option<f64>,
    distance: Distance,
    #[serde(flatten)]
    summary: Option<Summary>,
}

/// The results that a case is compared with.
struct Bases<'a> {
    exclusive: Option<&'a [Sample]>,
    two: Option<&'a [Sample]>,
    bpf: Option<&'a [Sample]>,
}

fn bases<'a>(found: &'a Found, group: &'a Group, case: &Case) -> Bases<'a> {
    let ours = |other: &Case| (other.who == Who::Shared).then_some(());
    let all = |wanted: Case| found.groups.iter().find_map(|group| group.samples_of(&wanted));
    let exclusive =
        Case { who: Who::Exclusive, producers: 1, placement: Placement::Apart, ..*case };
    Bases {
        exclusive: ours(case).and_then(|()| group.samples_of(&exclusive)),
        two: (case.producers > 2)
            .then(|| group.samples_of(&Case { producers: 2, ..*case }))
            .flatten(),
        bpf: ours(case).and_then(|()| all(Case { who: Who::Bpf, way: Way::Reserve, ..*case })),
    }
}

fn row(case: &Case, options: &Options, sample: &Sample) -> Row {
    let alone = case.shape == Shape::Alone;
    Row {
        bench: "many",
        contestant: case.who.name(),
        payload: case.payload,
        producers: case.producers,
        policy: if alone { "overwrite" } else { "drop" },
        audience: if alone { "none" } else { "keen" },
        shape: case.shape.name(),
        way: case.way.name(),
        placement: case.placement.name(),
        reader: options.reader.name(),
        repetition: Repetition::Nth(sample.round),
        records_per_s: sample.records_per_s,
        bytes_per_s: sample.records_per_s * case.payload as f64,
        ns_per_record: 1e9 / sample.records_per_s,
        records: sample.records,
        lost: sample.refused.total(),
        refused: sample.refused,
        bad: sample.bad,
        exclusive_ratio: None,
        two_ratio: None,
        bpf_ratio: None,
        bpf_quoted_records_per_s: quoted(case),
        hop_before_ns: sample.hops_ns[0],
        hop_after_ns: sample.hops_ns[1],
        distance: sample.distance,
        summary: None,
    }
}

fn figures<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Vec<(&'static str, f64)> {
    samples.into_iter().map(|s| (s.distance.name(), s.records_per_s)).collect()
}

/// Returns a line for each sample, compared with its neighbours of the same round.
fn singles(found: &Found, group: &Group, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for (case, samples) in &group.cases {
        let bases = bases(found, group, case);
        for sample in samples {
            let by = |base: Option<&[Sample]>| {
                let base = base?.iter().find(|other| other.round == sample.round)?;
                ratio(sample.distance.name(), &figures([sample]), &figures([base]))
            };
            rows.push(Row {
                exclusive_ratio: by(bases.exclusive),
                two_ratio: by(bases.two),
                bpf_ratio: by(bases.bpf),
                ..row(case, options, sample)
            });
        }
    }
    rows
}

/// Returns a line for each case and distance.
#[expect(clippy::arithmetic_side_effects, reason = "counts of one run")]
fn medians(found: &Found, group: &Group, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for (case, samples) in &group.cases {
        let bases = bases(found, group, case);
        let left_out = samples.iter().filter(|s| s.distance == Distance::Mixed).count();
        for distance in [Distance::Near, Distance::Far, Distance::None] {
            let here: Vec<&Sample> = samples.iter().filter(|s| s.distance == distance).collect();
            let rates = || here.iter().map(|s| s.records_per_s);
            let (Some(first), Some(rate), Some((min, max))) =
                (here.first(), median(rates()), range(rates()))
            else {
                continue;
            };
            let by = |base: Option<&[Sample]>| {
                ratio(distance.name(), &figures(samples), &figures(base?))
            };
            let hop = |nth: usize| {
                median(here.iter().filter_map(|s| s.hops_ns.get(nth).copied().flatten()))
            };
            let refused = here.iter().fold(Losses::default(), |sum, s| sum + s.refused);
            rows.push(Row {
                repetition: Repetition::Median("median"),
                records_per_s: rate,
                bytes_per_s: rate * case.payload as f64,
                ns_per_record: 1e9 / rate,
                records: here.iter().map(|s| s.records).sum(),
                lost: refused.total(),
                refused,
                bad: here.iter().map(|s| s.bad).sum(),
                exclusive_ratio: by(bases.exclusive),
                two_ratio: by(bases.two),
                bpf_ratio: by(bases.bpf),
                hop_before_ns: hop(0),
                hop_after_ns: hop(1),
                summary: Some(Summary { samples: here.len(), left_out, min, max }),
                ..row(case, options, first)
            });
        }
    }
    rows
}

/// Returns every line.
pub(crate) fn rows(found: &Found, options: &Options) -> Vec<Row> {
    let of_group = |group| {
        let singles = singles(found, group, options);
        singles.into_iter().chain(medians(found, group, options))
    };
    found.groups.iter().flat_map(of_group).collect()
}

fn title(shape: Shape) -> &'static str {
    match shape {
        Shape::Alone => "Producers alone, overwrite mode: records of all together",
        Shape::Lossy => {
            "Producers and a consumer, drop mode: verified records, and refused ones (a batch of \
             the shared ring is one)"
        }
        Shape::Lossless => "The same, producers wait for room: verified records",
    }
}

const HEAD: &str = "payload | way | ring | producers | cores | distance | hop ns | samples | \
                    left out | M records/s | range | ns/record | of exclusive | of two | of bpf | \
                    bpf quoted | full | contended | pending | bad";

/// Whether the kernel's ring was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Bpf<'a> {
    measured: bool,
    why_not: Option<&'a str>,
}

impl<'a> Bpf<'a> {
    pub(crate) fn of(found: &'a Found) -> Self {
        let why_not = found.no_bpf.as_deref();
        Bpf { measured: why_not.is_none(), why_not }
    }
}

/// Writes the tables and the conclusions.
pub(crate) fn write(found: &Found, options: &Options, out: &mut dyn Write) -> Result<()> {
    for shape in Shape::ALL {
        let groups = found
            .groups
            .iter()
            .filter(|group| group.cases.first().is_some_and(|(case, _)| case.shape == shape));
        let rows: Vec<Row> = groups.flat_map(|group| medians(found, group, options)).collect();
        writeln!(out, "\n{}\n{}", title(shape), aligned(HEAD, rows.iter().map(cells)))?;
        match shape {
            Shape::Alone => {
                uncontended(&rows, out)?;
                least(&rows, out)?;
            }
            Shape::Lossy => least(&rows, out)?,
            Shape::Lossless => {}
        }
    }
    writeln!(out, "\n{PLACEMENT_NOTE}\n{QUOTED_NOTE}")?;
    match &found.no_bpf {
        None => writeln!(
            out,
            "bpf: measured here, no wake-ups, its consumer polls as perfring's does; alone it \
             releases space unread"
        )?,
        Some(why) => writeln!(out, "bpf: not measured here: {why}")?,
    }
    Ok(())
}

/// Writes what one producer pays while it is alone.
fn uncontended(rows: &[Row], out: &mut dyn Write) -> Result<()> {
    let lone = |row: &&Row| {
        row.contestant == Who::Shared.name() && (row.producers, row.way) == (1, Way::Publish.name())
    };
    for row in rows.iter().filter(lone) {
        let (payload, ns) = (row.payload, row.ns_per_record);
        writeln!(out, "uncontended publish, {payload} bytes, {}: {ns:.1} ns", row.distance.name())?;
    }
    Ok(())
}

/// Writes whether more than two producers publish less than two do.
fn least(rows: &[Row], out: &mut dyn Write) -> Result<()> {
    let ours = rows.iter().filter(|row| row.contestant == Who::Shared.name());
    let ratios = ours.filter_map(|row| Some((row.two_ratio?, row)));
    if let Some((ratio, row)) = ratios.min_by(|(a, _), (b, _)| a.total_cmp(b)) {
        writeln!(
            out,
            "least that more than two producers publish, by what two do: {ratio:.2} ({} of {} \
             bytes, {} producers, {}, {})",
            row.way,
            row.payload,
            row.producers,
            row.placement,
            row.distance.name()
        )?;
    }
    Ok(())
}

fn cells(row: &Row) -> Vec<String> {
    let dash = || "-".to_owned();
    let times = |ratio: Option<f64>| ratio.map_or_else(dash, |r| format!("{r:.2}"));
    let million = |rate: f64| format!("{:.1}", rate / 1e6);
    let (samples, left_out, span) = match row.summary {
        Some(s) => (s.samples, s.left_out, format!("{}..{}", million(s.min), million(s.max))),
        None => (1, 0, String::new()),
    };
    vec![
        row.payload.to_string(),
        row.way.to_owned(),
        row.contestant.to_owned(),
        row.producers.to_string(),
        row.placement.to_owned(),
        row.distance.name().to_owned(),
        row.hop_before_ns.map_or_else(dash, |ns| format!("{ns:.0}")),
        samples.to_string(),
        left_out.to_string(),
        million(row.records_per_s),
        span,
        format!("{:.1}", row.ns_per_record),
        times(row.exclusive_ratio),
        times(row.two_ratio),
        times(row.bpf_ratio),
        row.bpf_quoted_records_per_s.map_or_else(dash, million),
        row.refused.full.to_string(),
        row.refused.contended.to_string(),
        row.refused.pending.to_string(),
        row.bad.to_string(),
    ]
}
