//! The sidecar's own figures as JSON, and in one line. A figure's key is its name on Prometheus pages, without the prefix that
//! the object says, and without `_total`.

use super::figures::{Present, Space, held, resident, with_space};
use super::unreadable::Unreadable;
use crate::engine::{Engine, OutputStatus, RingFigures, RingStatus};
use perfring_consumer::{Policy, stat::Count};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Returns all figures as JSON.
pub(crate) fn json(present: Present<'_>) -> Value {
    let Present { engine, unreadable, since, .. } = present;
    let mut rings = Vec::new();
    with_space(engine, since.elapsed(), |ring, space| rings.push(ring_json(ring, space)));
    rings.sort_by_cached_key(|ring| ring["ring"].to_string());
    let outputs: Vec<Value> = engine.outputs().map(|output| output_json(&output)).collect();
    let counts = unreadable.counts().into_iter();
    let counts: Value =
        counts.map(|(reason, count)| (reason.name().to_owned(), Value::from(count))).collect();
    let (merge, ended) = (engine.merge_figures(), engine.ended_figures());
    json!({
        "process_uptime_seconds": since.elapsed().as_secs_f64(),
        "pid": std::process::id(),
        "rings": rings,
        "ended": {
            "records": ended.records,
            "bytes": ended.bytes,
            "lost_records": lost_json(ended, |count| count.records),
            "lost_bytes": lost_json(ended, |count| count.bytes),
            "late": ended.late,
        },
        "rings_damaged": engine.damaged(),
        "rings_unreadable": counts,
        "unreadable_rings": unreadable.json(),
        "copies": unreadable.copies_json(engine),
        "outputs": outputs,
        "merge": { "late": merge.late, "late_most_seconds": merge.late_most as f64 / 1e9, "polls": merge.polls },
        "settled": engine.is_settled(),
        "process_memory_usage_bytes": resident(),
    })
}

fn lost_json(figures: &RingFigures, of: fn(&Count) -> u64) -> Value {
    let lost = figures.lost.iter();
    lost.map(|(cause, count)| (cause.name().to_owned(), Value::from(of(count)))).collect()
}

fn ring_json(ring: &RingStatus<'_>, space: Space) -> Value {
    let Space { size, lag, fill, unread_age, metrics } = space;
    json!({
        "ring": ring.origin.name,
        "location": ring.location(),
        "uuid": ring.origin.uuid_text(),
        "policy": match ring.origin.policy {
            Some(Policy::Drop) => "drop",
            Some(Policy::Overwrite) => "overwrite",
            // Those of the kernel are in no file.
            None if ring.origin.location == ring.origin.name => "kernel",
            None => "metrics",
        },
        "observed": ring.observed,
        "copied": ring.copied,
        "removed": ring.removed,
        "priority": ring.priority,
        "records": ring.figures.records,
        "bytes": ring.figures.bytes,
        "lost_records": lost_json(ring.figures, |count| count.records),
        "lost_bytes": lost_json(ring.figures, |count| count.bytes),
        "late": ring.figures.late,
        "late_most_seconds": ring.figures.late_most as f64 / 1e9,
        "size_bytes": size,
        "lag_bytes": lag,
        "fill_ratio": fill,
        "unread_age_seconds": unread_age.map(|age| age.as_secs_f64()),
        "instruments_refused": metrics.map(|metrics| metrics.refused),
        "instruments_replaced": metrics.map(|metrics| metrics.replaced),
        "metrics_damaged": metrics.and_then(|metrics| metrics.damage).map(|damage| damage.to_string()),
    })
}

fn output_json(output: &OutputStatus<'_>) -> Value {
    let figures = &output.figures;
    let refused_by: serde_json::Map<String, Value> = figures
        .refused_by
        .iter()
        .map(|(cause, count)| ((*cause).into(), (*count).into()))
        .collect();
    let rules: Vec<Value> = output
        .rules
        .iter()
        .map(|rule| {
            json!({
                "rule": rule.name,
                "kept": rule.kept,
                "left_out": rule.left_out,
                "left_out_bytes": rule.left_out_bytes,
            })
        })
        .collect();
    json!({
        "output": output.name,
        "delivery": output.delivery.name(),
        "taken": figures.taken,
        "delivered": figures.delivered,
        "held": held(figures),
        "bytes": figures.bytes,
        "retries": figures.retries,
        "refused": figures.refused,
        "refused_by": refused_by,
        "refusing": figures.refusing.is_some(),
        "buffer_bytes": figures.buffer.map(|buffer| buffer.bytes),
        "buffer_limit_bytes": figures.buffer.map(|buffer| buffer.max_bytes),
        "dropped": output.dropped.records,
        "damaged": figures.damaged,
        "rules": rules,
        "removed_files": figures.removed.files,
        "behind": output.is_behind,
        "trouble": figures.trouble.clone().or_else(|| Some(output.failed?.to_string())),
    })
}

/// Formats the figures in one line.
pub(crate) fn line(engine: &Engine, unreadable: &Unreadable) -> String {
    let (mut rings, mut lag) = (0, 0u64);
    for ring in engine.rings() {
        // A ring whose file is removed may have a producer that still runs.
        rings += u64::from(!ring.removed || ring.lag > 0);
        lag = lag.saturating_add(ring.lag);
    }
    // Also of rings that are not read any more.
    let sum = engine.ring_figures();
    let lost = sum.lost.iter().map(|(_, count)| count.records).fold(0, u64::saturating_add);
    let records = sum.records;
    let count =
        |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let (rings, records) = (count(rings, "ring"), count(records, "record"));
    let mut line = format!("{rings}: {records}, {lost} lost, {lag} bytes to deliver");
    let late = engine.merge_figures().late;
    if late > 0 {
        let _ = write!(line, ", {late} late");
    }
    if engine.damaged() > 0 {
        let _ = write!(line, ", {} damaged since the start", count(engine.damaged(), "ring"));
    }
    if unreadable.len() > 0 {
        let _ = write!(line, ", {} not read now", unreadable.len());
    }
    match unreadable.copies(engine).count() {
        0 => {}
        1 => line.push_str(", 1 copy of a ring"),
        copies => {
            let _ = write!(line, ", {copies} copies of rings");
        }
    }
    for output in engine.outputs() {
        let figures = &output.figures;
        let _ = write!(line, "; {}: {} delivered", output.name, figures.delivered);
        if output.is_behind {
            line.push_str(", behind");
        }
        if let Some(buffer) = figures.buffer.filter(|buffer| buffer.bytes > 0) {
            let _ = write!(line, ", {} bytes wait in its buffer", buffer.bytes);
        }
        let left_out = output.rules.iter().map(|rule| rule.left_out).sum();
        for (count, what) in [
            (output.dropped.records, "dropped"),
            (figures.refused, "refused"),
            (left_out, "left out by rules"),
            (figures.damaged, "lost in its damaged buffer"),
        ] {
            if count > 0 {
                let _ = write!(line, ", {count} {what}");
            }
        }
    }
    line
}
