//! The report on the terminal.

use crate::CompareError;
use crate::contest::Home;
use crate::notes;
use crate::options::Workload;
use crate::rows::{Absent, Figures, Median, Row};
use comfy_table::{CellAlignment, Table, presets};
use std::io::Write;

/// Writes all of it.
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
            writeln!(out, "\n{}\n{}", title(workload), table(workload, &medians))?;
            beside(rows, workload, out)?;
        }
    }
    absent(rows, out)
}

fn contestants(rows: &[Row], out: &mut dyn Write) -> Result<(), CompareError> {
    let lines = rows.iter().filter_map(|row| match row {
        Row::Contestant(c) => {
            Some(vec![c.name.clone(), c.version.clone(), home(c.home).to_owned()])
        }
        _ => None,
    });
    let head = ["contestant", "version", "between"];
    Ok(writeln!(out, "\n{}", aligned(&head, lines, CellAlignment::Left))?)
}

/// What is said beside the figures of a workload.
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

/// Where its ends are.
pub fn home(home: Home) -> &'static str {
    match home {
        Home::Processes => "processes",
        Home::Threads => "threads",
        Home::Kernel => "kernel and process",
    }
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

/// Absences that have a reason in common together: names, from what, and the reason.
pub fn grouped(absent: &[&Absent]) -> Vec<(String, String, String)> {
    // The places of each name first: not everybody is absent from all that somebody is.
    let mut each: Vec<(&Absent, Vec<Place<'_>>)> = Vec::new();
    for one in absent {
        let place = (one.workload.map_or("everything", Workload::name), one.part.as_deref());
        let same = |(other, _): &&mut (&Absent, Vec<Place<'_>>)| {
            (&other.name, &other.reason, other.failed) == (&one.name, &one.reason, one.failed)
        };
        match each.iter_mut().find(same) {
            Some((_, places)) => places.push(place),
            None => each.push((one, vec![place])),
        }
    }
    let mut groups: Vec<(Vec<&str>, &Absent, String)> = Vec::new();
    for (one, places) in each {
        let places = words(&places);
        let same = |(_, other, of): &&mut (Vec<&str>, &Absent, String)| {
            other.reason == one.reason && other.failed == one.failed && *of == places
        };
        match groups.iter_mut().find(same) {
            Some((names, ..)) => names.push(&one.name),
            None => groups.push((vec![&one.name], one, places)),
        }
    }
    let group = |(names, one, places): (Vec<&str>, &Absent, String)| {
        let what = if one.failed { "failed at" } else { "absent from" };
        (names.join(", "), format!("{what} {places}"), one.reason.clone())
    };
    groups.into_iter().map(group).collect()
}

/// A workload, and what of it.
type Place<'a> = (&'a str, Option<&'a str>);

/// Each workload once, with its parts behind it, but for those of which all are there.
fn words(places: &[Place<'_>]) -> String {
    let mut words: Vec<String> = Vec::new();
    for &(workload, _) in places {
        let parts: Vec<&str> =
            places.iter().filter(|(of, _)| *of == workload).filter_map(|(_, part)| *part).collect();
        // All workloads that have parts have two.
        let word = match parts.as_slice() {
            [part] => format!("{workload} ({part})"),
            _ => workload.to_owned(),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(", ")
}

/// What a workload is, in words.
pub fn title(workload: Workload) -> &'static str {
    match workload {
        Workload::Throughput => "Lossless, one sender, one receiver: verified records",
        Workload::Latency => "Half a round trip, looking all the time, 64 bytes",
        Workload::Wakeup => "Half a round trip, sleeping in the kernel, 64 bytes",
        Workload::Producers => {
            "Many senders, 64 bytes, each on a core of its own where there are enough: records of all \
             together, verified by one receiver of a lossless channel; or sent, where nobody reads"
        }
        Workload::Overwrite => {
            "What a record of 64 bytes costs a sender that overwrites the oldest"
        }
        Workload::Fanout => {
            "Each record to every receiver, all receivers on one core, 64 bytes: verified records of \
             all together; who waits for its receivers (lossless) and who does not (lossy) apart"
        }
        Workload::Full => "What an offer of 64 bytes costs that is refused, as it is full",
        Workload::Cold => {
            "From nothing to the first record read, both processes running: making it and opening \
             both ends"
        }
        Workload::Memory => {
            "Memory of a channel that has moved twice its size: growth of the proportional set of \
             all processes, and what the kernel holds besides"
        }
    }
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
        unit(workload),
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

/// What the figure of a workload is in.
pub fn unit(workload: Workload) -> &'static str {
    match workload {
        Workload::Throughput | Workload::Producers | Workload::Fanout => "M records/s",
        Workload::Latency | Workload::Wakeup => "p50 ns",
        Workload::Overwrite => "ns/record",
        Workload::Full => "ns/refusal",
        Workload::Cold => "us",
        Workload::Memory => "KiB",
    }
}

/// How much of the figure makes one of its unit.
pub fn scale(workload: Workload) -> f64 {
    match workload {
        Workload::Throughput | Workload::Producers | Workload::Fanout => 1e6,
        Workload::Cold => 1e3,
        Workload::Memory => 1024.0,
        _ => 1.0,
    }
}

/// Three digits or more.
pub fn number(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        middle if middle < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn cells(workload: Workload, median: &Median) -> Vec<String> {
    let (f, scale) = (&median.figures, scale(workload));
    let dash = || "-".to_owned();
    let times = |ratio: Option<f64>| ratio.map_or_else(dash, |r| format!("{r:.2}"));
    let detail = match f.latency {
        Some(l) => [l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns].map(number).join(" / "),
        None if workload == Workload::Memory => weighed(f),
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

/// Memory as its two parts.
pub fn weighed(figures: &Figures) -> String {
    let kernel = figures.kernel_bytes.map(|bytes| bytes as f64);
    let all = figures.memory_bytes.unwrap_or_default();
    let mapped = (all - kernel.unwrap_or_default()) / 1024.0;
    kernel.map_or_else(
        || format!("{mapped:.0} + unknown"),
        |kernel| format!("{mapped:.0} + {:.0}", kernel / 1024.0),
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_absent_from_more_than_was_said() {
        let partly = |name: &str, workload, part: Option<&str>, reason: &str| Absent {
            name: name.to_owned(),
            workload,
            part: part.map(str::to_owned),
            reason: reason.to_owned(),
            failed: false,
        };
        let absent = |name, workload, reason| partly(name, workload, None, reason);
        let all = [
            absent("a", Some(Workload::Full), "r"),
            absent("b", Some(Workload::Full), "r"),
            absent("a", Some(Workload::Cold), "r"),
            absent("b", Some(Workload::Cold), "r"),
            absent("c", Some(Workload::Full), "r"),
            absent("d", None, "s"),
            partly("e", Some(Workload::Fanout), Some("lossy"), "t"),
            partly("f", Some(Workload::Fanout), Some("lossy"), "u"),
            partly("f", Some(Workload::Fanout), Some("lossless"), "u"),
        ];
        let all: Vec<&Absent> = all.iter().collect();
        let text = |(names, place, reason)| format!("{place}: {names}: {reason}");
        let lines: Vec<String> = grouped(&all).into_iter().map(text).collect();
        let want = [
            "absent from full, cold: a, b: r",
            "absent from full: c: r",
            "absent from everything: d: s",
            "absent from fanout (lossy): e: t",
            "absent from fanout: f: u",
        ];
        assert_eq!(lines, want);
    }
}
