//! The findings, as text and as JSON.

use crate::columns;
use crate::failure::Failure;
use crate::output::json::line;
use crate::records::time::{When, exact_utc};
use perfring_export::Stream;
use perfring_figures::owner::count;
use perfring_why::{Facts, Finding, Kind, Parts, Report, Sum, Thread, UNKNOWN, span};
use serde_json::{Value, json};
use std::io::{BufWriter, Write};

/// Prints the worst findings, and the sums.
pub(super) fn report(
    report: &Report,
    facts: &Facts,
    top: usize,
    json: bool,
) -> Result<(), Failure> {
    let (mut out, width) = (BufWriter::new(Stream::stdout()), columns::width());
    // Where nothing watched the threads, each gap would have the same sentence: the last line says it once.
    let is_said = |finding: &&Finding| {
        json || report.covered > 0 || finding.kind != Kind::Gap || finding.cause != UNKNOWN
    };
    for finding in report.findings.iter().filter(is_said).take(top) {
        let wall = facts.wall(finding.time);
        let written = match json {
            true => line(&mut out, &object(finding, wall)),
            false => {
                let time = match finding.time {
                    0 => "at an unknown time".to_owned(),
                    timestamp => When { timestamp, wall }.text(),
                };
                let title = format!("{time}  {:<7}  ", finding.certainty.word());
                writeln!(out, "{}", wrapped(&title, &finding.sentence, width))
            }
        };
        written.map_err(Failure::output)?;
    }
    let written = match json {
        true => line(&mut out, &sums(report)),
        false => writeln!(out, "{}", wrapped("", &summary(report, facts, top), width)),
    };
    written.and_then(|()| out.flush()).map_err(Failure::output)
}

/// The columns that a sentence has beside its time, at least: on narrower lines it stands below.
const BESIDE: usize = 60;

/// Wraps a sentence behind its title, or below.
fn wrapped(title: &str, sentence: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if !title.is_empty() && title.len() + BESIDE > width => {
            format!("{}\n{}", title.trim_end(), columns::paragraph("    ", sentence, Some(width)))
        }
        _ => columns::paragraph(title, sentence, width),
    }
}

/// Says how many findings there are by cause, and what they rest on.
fn summary(report: &Report, facts: &Facts, top: usize) -> String {
    let all = report.count();
    let mut causes: Vec<_> = report.sums.iter().collect();
    causes.sort_by_key(|((kind, cause), sum)| {
        (*kind, *cause == UNKNOWN, std::cmp::Reverse(sum.findings), *cause)
    });
    let of = |kind: Kind| -> String {
        let own = causes.iter().filter(|((its, _), _)| *its == kind);
        let said: Vec<String> =
            own.clone().map(|((_, cause), sum)| format!("{cause} {}", sum.findings)).collect();
        let number: u64 = own.map(|(_, sum)| sum.findings).sum();
        let what = match kind {
            Kind::Owner => format!("{} in trouble", count(number, "owner")),
            Kind::Loss => count(number, "loss"),
            Kind::Gap => count(number, "gap"),
            Kind::Read => count(number, "late read"),
            Kind::Machine => format!("{} of the machine", count(number, "event")),
        };
        if number == 0 { what } else { format!("{what} ({})", said.join(", ")) }
    };
    let mut said = match all {
        0 if report.records == 0 && facts.untimed() == 0 => "there are no records".to_owned(),
        0 if report.covered == 0 => "nothing is found".to_owned(),
        0 => "nothing is out of the ordinary".to_owned(),
        _ => {
            let has = |kind: &Kind| causes.iter().any(|((its, _), _)| its == kind);
            let rare = [Kind::Read, Kind::Machine].into_iter().filter(has);
            let kinds = [Kind::Owner, Kind::Loss, Kind::Gap].into_iter().chain(rare);
            kinds.map(of).collect::<Vec<_>>().join(", ")
        }
    };
    let is_gap =
        |((kind, cause), _): &(&(Kind, &str), &Sum)| *kind == Kind::Gap && *cause == UNKNOWN;
    let alike = match report.covered {
        0 => report.sums.iter().filter(is_gap).map(|(_, sum)| sum.findings).sum(),
        _ => 0,
    };
    let shown = all.saturating_sub(alike).min(top as u64);
    if all > shown + alike {
        said += &format!("; {} not shown", all - shown - alike);
    }
    said += &match report.covered {
        0 => format!(
            "; the context switches of all threads were not recorded in these {}; `perfring record DIR --why` records them",
            span(report.length)
        ),
        covered => format!("; kernel events cover {} of {}", span(covered), span(report.length)),
    };
    if report.missing > 0 {
        said += &format!(", and {} of them were lost", report.missing);
    }
    if report.hidden > 0 {
        let gaps = count(report.hidden, "time");
        said += &format!("; {gaps} between two records had losses within, so they may be no gaps");
    }
    if facts.untimed() > 0 {
        let records = count(facts.untimed(), "record");
        said += &format!("; {records} without a timestamp, so gaps between them are not known");
    }
    if report.anonymous > 0 {
        let (records, name) = match report.anonymous {
            1 => ("1 record".to_owned(), "names"),
            number => (format!("{number} records"), "name"),
        };
        said += &format!("; {records} {name} no thread, so gaps between them are not known");
    }
    said
}

/// OpenTelemetry's names of a thread.
fn attributes(thread: Thread, name: Option<&str>) -> Value {
    json!({ "process.pid": thread.pid, "thread.id": thread.tid, "thread.name": name })
}

fn object(finding: &Finding, wall: Option<u64>) -> Value {
    let by = finding.by.as_ref().map(|(task, name)| {
        json!({ "process.pid": task.pid, "thread.id": task.tid, "description": name })
    });
    json!({
        "what": finding.kind.word(),
        "time": wall.map(exact_utc),
        "time_ns": finding.time,
        "time_unix_ns": wall,
        "duration_ns": finding.length,
        "ring": (!finding.ring.is_empty()).then_some(&finding.ring),
        "attributes": finding.thread.map(|thread| attributes(thread, finding.name.as_deref())),
        "records": (finding.kind == Kind::Loss).then_some(finding.records),
        "cause": finding.cause,
        "certainty": finding.certainty.word(),
        "by": by,
        "system_call": finding.call,
        "sentence": finding.sentence,
        "parts": finding.parts.as_ref().map(parts),
        "preempted_by": finding.preempted_by.iter().map(|(task, name, ns)| json!({
            "process.pid": task.pid, "thread.id": task.tid, "description": name, "duration_ns": ns,
        })).collect::<Vec<_>>(),
        "stopped_ns": finding.stopped,
        "throttled_ns": finding.throttled,
    })
}

fn parts(parts: &Parts) -> Value {
    json!({
        "ran_ns": parts.ran,
        "preempted_ns": parts.preempted_in_all(),
        "kept_ns": parts.kept,
        "waited_ns": parts.waited,
        "faulting_ns": parts.faulting,
        "faulting_or_own_ns": parts.faulting_or_own,
        "preemptions": parts.preemptions,
        "waits": parts.waits,
        "page_faults": parts.faults,
        "migrations": parts.migrations,
    })
}

fn sums(report: &Report) -> Value {
    let causes: Vec<Value> = report
        .sums
        .iter()
        .map(|((kind, cause), sum)| {
            json!({
                "what": kind.word(), "cause": cause, "findings": sum.findings,
                "duration_ns": sum.length, "records": sum.records,
            })
        })
        .collect();
    json!({ "summary": {
        "findings": report.count(),
        "unknown": report.unknown(),
        "causes": causes,
        "duration_ns": report.length,
        "covered_ns": report.covered,
        "kernel_events_lost": report.missing,
        "records": report.records,
        "records_without_thread": report.anonymous,
        "hidden_by_losses": report.hidden,
    }})
}
