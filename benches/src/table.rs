//! The report on the terminal.

use crate::error::Result;
use crate::kinds::describe;
use crate::payload::SMALL;
use crate::rows::{Figures, Kind, Median, Row};
use crate::workload::Workload;
use comfy_table::{CellAlignment, Table, presets};
use std::io::Write;

/// Writes the whole report.
pub(crate) fn write(rows: &[Row], out: &mut dyn Write) -> Result<()> {
    let mut contestants = Vec::new();
    for row in rows {
        match row {
            Row::Machine(m) => {
                writeln!(out, "{m}")?;
                writeln!(out, "latencies go in steps of {} ns", number(m.clock_step_ns))?;
            }
            Row::Contestant(c) => contestants
                .push([c.name, &c.version, c.location.words()].map(str::to_owned).to_vec()),
            _ => {}
        }
    }
    let head = "contestant | version | between";
    writeln!(out, "\n{}", left_aligned(head, contestants.into_iter()))?;
    writeln!(out, "\nA row of `cores` has the receiver's, and behind | the senders'.")?;
    for workload in Workload::ALL {
        let medians: Vec<&Median> = rows
            .iter()
            .filter_map(|row| match row {
                Row::Median(median) if median.figures.kind.workload == workload => Some(&**median),
                _ => None,
            })
            .collect();
        if !medians.is_empty() {
            writeln!(out, "\n{}\n{}", workload.title(), table(workload, &medians))?;
            settings(rows, workload, out)?;
        }
    }
    absent(rows, out)
}

/// Writes how each contestant was set up for a workload. Streams of other lengths than 64 bytes
/// differ only in numbers, so they are left to the JSON lines.
fn settings(rows: &[Row], workload: Workload, out: &mut dyn Write) -> Result<()> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let Row::Use(one) = row else { continue };
        let few = workload == Workload::Throughput && one.kind.payload != SMALL;
        let line = [one.contestant, &one.waits, &one.settings].map(str::to_owned).to_vec();
        if one.kind.workload == workload && !few && !lines.contains(&line) {
            lines.push(line);
        }
    }
    let head = "contestant | its reader | settings";
    Ok(writeln!(out, "\n{}", left_aligned(head, lines.into_iter()))?)
}

/// Writes who took no part in what, each reason once.
fn absent(rows: &[Row], out: &mut dyn Write) -> Result<()> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for row in rows {
        let Row::Absent(one) = row else { continue };
        let what = if one.failed { "failed at" } else { "absent from" };
        let from = one.workload.map_or("everything", Workload::name);
        let part = one.part.map_or_else(String::new, |part| format!(" ({part})"));
        let reason = format!("{what} {from}{part}: {}", one.reason);
        match reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, names)) => names.push(one.name),
            None => reasons.push((reason, vec![one.name])),
        }
    }
    writeln!(out)?;
    for (reason, names) in reasons {
        writeln!(out, "{reason}: {}", names.join(", "))?;
    }
    Ok(())
}

/// Formats with three digits or more.
fn number(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        middle if middle < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns what distinguishes kinds of one workload.
fn which(kind: &Kind) -> String {
    match kind.workload {
        Workload::Throughput => kind.payload.to_string(),
        Workload::Producers | Workload::Overwrite | Workload::Fanout => describe(kind),
        _ => String::new(),
    }
}

/// Describes memory by its two parts.
fn weighed(figures: &Figures) -> String {
    let kernel = figures.kernel_bytes.map(|bytes| bytes as f64);
    let mapped = figures.memory_bytes.unwrap_or_default() - kernel.unwrap_or_default();
    let kernel = kernel.map_or("unknown".to_owned(), |kernel| format!("{:.0}", kernel / 1024.0));
    format!("{:.0} + {kernel}", mapped / 1024.0)
}

fn table(workload: Workload, medians: &[&Median]) -> String {
    let detail = match workload {
        Workload::Latency | Workload::Wakeup => "p90 / p99 / p99.9 / max ns",
        Workload::Memory => "processes + kernel KiB",
        _ => "ns/record",
    };
    let more = match workload {
        Workload::Latency => "of line",
        Workload::Producers => "late",
        _ => "",
    };
    let head = format!(
        "of | contestant | cores | distance | hop ns | samples | left out | {} | range | \
         {detail} | of floor | {more} | of best rival | lost | bad",
        workload.unit()
    );
    let lines = medians.iter().map(|median| cells(workload, median));
    aligned(&head, lines)
}

fn cells(workload: Workload, median: &Median) -> Vec<String> {
    let (f, scale) = (&median.figures, workload.scale());
    let dash = || "-".to_owned();
    let times = |ratio: Option<f64>| ratio.map_or_else(dash, |r| format!("{r:.2}"));
    let detail = match f.latency {
        Some(l) => [l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns].map(number).join(" / "),
        None if workload == Workload::Memory => weighed(f),
        None if matches!(workload, Workload::Full | Workload::Cold) => dash(),
        None => number(f.ns_per_record),
    };
    vec![
        which(&f.kind),
        f.contestant.to_owned(),
        f.cores.words(),
        f.distance.to_owned(),
        f.hop_before_ns.map_or_else(dash, |ns| format!("{ns:.0}")),
        median.samples.to_string(),
        median.left_out.to_string(),
        f.figure().map_or_else(dash, |figure| number(figure / scale)),
        format!("{}..{}", number(median.min / scale), number(median.max / scale)),
        detail,
        times(median.of_floor),
        match workload {
            Workload::Latency => times(median.of_line),
            Workload::Producers => f.late.map_or_else(dash, |late| late.to_string()),
            _ => String::new(),
        },
        times(median.of_best),
        f.lost.to_string(),
        f.bad.to_string(),
    ]
}

/// Formats a table with right-aligned columns, whose names in `head` are separated by ` | `.
fn aligned(head: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    formatted(head, rows, CellAlignment::Right)
}

/// Formats a table of text.
fn left_aligned(head: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    formatted(head, rows, CellAlignment::Left)
}

fn formatted(
    head: &str,
    rows: impl Iterator<Item = Vec<String>>,
    alignment: CellAlignment,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head.split(" | "));
    for column in table.column_iter_mut() {
        column.set_cell_alignment(alignment);
    }
    table.add_rows(rows);
    table.trim_fmt()
}
