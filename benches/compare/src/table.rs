//! The report on the terminal.

use crate::CompareError;
use crate::absences::grouped;
use crate::notes;
use crate::rows::{Absent, Median, Row, number};
use crate::workload::Workload;
use comfy_table::{CellAlignment, Table, presets};
use std::io::Write;

/// Writes the whole report.
///
/// # Errors
/// If `out` fails.
pub fn write(rows: &[Row], out: &mut dyn Write) -> Result<(), CompareError> {
    for row in rows {
        if let Row::Machine(m) = row {
            let cores = m.cores.map_or_else(
                || "only one core: not pinned, and no measure of anything".to_owned(),
                |[here, there]| format!("receivers on core {here}, one sender on {there}"),
            );
            writeln!(out, "{}, Linux {}, {cores}, load {}", m.cpu, m.kernel, m.load)?;
            writeln!(out, "commit {}, {}, {} {}", m.commit, m.rustc, m.target, m.rustflags)?;
            let (size, count, time) = (m.data_size / 1024, m.repetitions, m.seconds_per_sample);
            writeln!(out, "{size} KiB rings, {count} repetitions of {time} s, {}", m.started)?;
            if count == 1 {
                writeln!(
                    out,
                    "one repetition: it proves that everything works, and measures nothing"
                )?;
            }
        }
    }
    contestants(rows, out)?;
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
            beside(rows, workload, out)?;
        }
    }
    absent(rows, out)
}

fn contestants(rows: &[Row], out: &mut dyn Write) -> Result<(), CompareError> {
    let lines = rows.iter().filter_map(|row| match row {
        Row::Contestant(c) => {
            Some(vec![c.name.clone(), c.version.clone(), c.location.words().to_owned()])
        }
        _ => None,
    });
    let head = ["contestant", "version", "between"];
    Ok(writeln!(out, "\n{}", aligned(&head, lines, CellAlignment::Left))?)
}

/// Writes the notes beside the figures of a workload.
fn beside(rows: &[Row], workload: Workload, out: &mut dyn Write) -> Result<(), CompareError> {
    for remark in notes::remarks(rows, workload) {
        writeln!(out, "{remark}")?;
    }
    if workload == Workload::Producers {
        writeln!(out, "Scaling of rings of their own:")?;
        for line in notes::scaling(rows) {
            writeln!(out, "  {line}")?;
        }
    }
    let small = if workload == Workload::Throughput { ", at 64 bytes" } else { "" };
    let lines = notes::few_settings(rows, workload).into_iter().map(|setting| {
        let kinds = setting.kinds.join("; ");
        [setting.contestant, &kinds, setting.waits, setting.settings].map(str::to_owned).to_vec()
    });
    let settings = format!("settings{small}");
    let head = ["contestant", "for", "its reader", &settings];
    Ok(writeln!(out, "\n{}", aligned(&head, lines, CellAlignment::Left))?)
}

fn absent(rows: &[Row], out: &mut dyn Write) -> Result<(), CompareError> {
    let absent: Vec<&Absent> = rows
        .iter()
        .filter_map(|row| match row {
            Row::Absent(absent) => Some(absent),
            _ => None,
        })
        .collect();
    if !absent.is_empty() {
        writeln!(out)?;
    }
    for (names, place, reason) in grouped(&absent) {
        writeln!(out, "{place}: {names}: {reason}")?;
    }
    Ok(())
}

fn table(workload: Workload, medians: &[&Median]) -> String {
    let head = [
        match workload {
            Workload::Throughput => "payload",
            Workload::Producers => "senders",
            Workload::Overwrite => "reader",
            Workload::Fanout => "receivers",
            _ => "",
        },
        "contestant",
        "cores",
        "distance",
        "hop ns",
        "samples",
        "left out",
        workload.unit(),
        "range",
        match workload {
            Workload::Latency | Workload::Wakeup => "p90 / p99 / p99.9 / max ns",
            Workload::Memory => "processes + kernel KiB",
            _ => "ns/record",
        },
        "of floor",
        match workload {
            Workload::Latency => "of line",
            Workload::Producers => "late",
            _ => "",
        },
        "of best rival",
        "lost",
        "bad",
    ];
    let lines = medians.iter().map(|median| cells(workload, median));
    aligned(&head, lines, CellAlignment::Right)
}

fn cells(workload: Workload, median: &Median) -> Vec<String> {
    let (f, scale) = (&median.figures, workload.scale());
    let dash = || "-".to_owned();
    let times = |ratio: Option<f64>| ratio.map_or_else(dash, |r| format!("{r:.2}"));
    let detail = match f.latency {
        Some(l) => [l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns].map(number).join(" / "),
        None if workload == Workload::Memory => f.weighed(),
        None if matches!(workload, Workload::Full | Workload::Cold) => dash(),
        None => number(f.ns_per_record),
    };
    vec![
        notes::which(&f.kind),
        f.contestant.clone(),
        f.cores.words(),
        f.distance.clone(),
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

fn aligned(
    head: &[&str],
    lines: impl Iterator<Item = Vec<String>>,
    alignment: CellAlignment,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head.iter().copied());
    for column in table.column_iter_mut() {
        column.set_cell_alignment(alignment);
    }
    table.add_rows(lines);
    table.trim_fmt()
}
