//! The findings, as text and as JSON.

use crate::columns;
use crate::failure::Failure;
use crate::output::json::line;
use crate::records::time::exact_utc;
use perfring_export::Stream;
use perfring_why::{Facts, Finding, Kind, Line, Parts, Report, Thread};
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
    let mut print = || match json {
        true => {
            for finding in report.findings.iter().take(top) {
                line(&mut out, &object(finding, facts.wall(finding.time)))?;
            }
            line(&mut out, &sums(report))
        }
        false => report.lines(facts, top).try_for_each(|Line { title, sentence }| {
            writeln!(out, "{}", wrapped(&title, &sentence, width))
        }),
    };
    print().and_then(|()| out.flush()).map_err(Failure::output)
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
        "records": Some(finding.records).filter(|records| finding.kind == Kind::Loss && *records > 0),
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
        "faulting_or_own_ns": parts.faulting_or_own(),
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
