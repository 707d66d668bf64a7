//! Faults are detected.

use crate::Fallible;
use perfring_bench::rows::Row;
use perfring_bench::scale::Scale;
use perfring_bench::workload::Workload;
use perfring_bench::{Options, faults, measure};
use perfring_compare::contest::faulty;
use perfring_compare::entrants::ALL;
use std::io;
use std::time::{Duration, Instant};

/// With sound contestants, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the rows of a run with this contestant.
fn with(name: &str, workload: Workload) -> Result<Vec<Row>, String> {
    let options = Options {
        workloads: vec![workload],
        contestants: vec![name.to_owned(), "perfring in place".to_owned()],
        payloads: vec![64],
        scale: Scale { patience: PATIENCE, ..Options::short().scale },
        ..Options::short()
    };
    measure(&ALL, &options, &mut |_| Ok(()), &mut io::sink()).map_err(|error| error.to_string())
}

/// Returns whether this contestant has samples.
fn sampled(rows: &[Row], name: &str) -> bool {
    rows.iter().any(|row| match row {
        Row::Sample(sample) => sample.figures.contestant == name,
        _ => false,
    })
}

/// Each fault is reported with its message, and all other contestants are measured.
pub(crate) fn found() -> Fallible {
    let cases = [
        ("nothing", Workload::Throughput, ""),
        ("dies", Workload::Throughput, "ended early: signal: 6"),
        ("dies", Workload::Throughput, "the sender's last words"),
        ("damages", Workload::Throughput, "1 records damaged"),
        ("loses", Workload::Throughput, "1 records lost where none may be"),
        ("lies", Workload::Throughput, "0 losses reported, and 1 were seen"),
    ];
    for (fault, workload, words) in cases {
        let name = format!("faulty: {fault}");
        let rows = with(&name, workload)?;
        let found = faults(&rows);
        let mut all = found.iter();
        if words.is_empty() {
            if !found.is_empty() || !sampled(&rows, &name) {
                return Err(format!("{name}: {found:?}").into());
            }
        } else if !all.any(|found| found.starts_with(&name) && found.contains(words)) {
            return Err(format!("{name}: no {words:?} in {found:?}").into());
        }
        if let Some(other) = found.iter().find(|found| !found.starts_with(&name)) {
            return Err(format!("{name}: but {other}").into());
        }
        if !sampled(&rows, "perfring in place") {
            return Err(format!("{name}: the run did not go on").into());
        }
    }
    Ok(())
}

/// A contestant that hangs is ended when the patience ends, and not before.
pub(crate) fn hung() -> Fallible {
    let start = Instant::now();
    let options = Options {
        workloads: vec![Workload::Latency],
        contestants: vec!["faulty: hangs".to_owned(), "perfring in place".to_owned()],
        scale: Scale { seconds_per_sample: 0.1, patience: PATIENCE, ..Options::short().scale },
        ..Options::short()
    };
    let rows = measure(&ALL, &options, &mut |_| Ok(()), &mut io::sink())?;
    let took = start.elapsed();
    let found = faults(&rows);
    if found.len() != 1 || !found.iter().all(|found| found.contains("hangs")) {
        return Err(format!("{found:?}").into());
    }
    if !sampled(&rows, "perfring in place") || took < faulty::PATIENCE {
        return Err(format!("ended after {took:?}").into());
    }
    Ok(())
}
