//! The short mode: every contestant that can run does what it claims, every record arrives intact
//! and in order or is known to be lost, and reported losses are the losses seen.
//!
//! A program of its own and no `#[test]`, because the harness runs its own executable again as the
//! processes of each sample.

use perfring_bench::rows::Row;
use perfring_bench::workload::Workload;
use perfring_bench::{CHILD_ARG, Options, child, faults, measure};
use perfring_compare::entrants::ALL;
use std::io;
use std::process::ExitCode;

mod short_tests {
    pub(crate) mod faults;
    pub(crate) mod signals;
}

type Fallible = Result<(), Box<dyn std::error::Error>>;
type Test = fn() -> Fallible;

const TESTS: [(&str, Test); 5] = [
    ("every_contestant_does_what_it_says_it_can", short),
    ("a_fault_is_found_and_the_run_goes_on", short_tests::faults::found),
    ("who_hangs_is_ended", short_tests::faults::hung),
    ("a_signal_ends_all_processes", short_tests::signals::ends),
    ("a_closed_pipe_is_no_error", short_tests::signals::closed_pipe),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == CHILD_ARG) {
        return done(child(&args[1..], &ALL));
    }
    // cargo-nextest passes this to a test program.
    if args.iter().any(|arg| arg == "--list") {
        if !args.iter().any(|arg| arg == "--ignored") {
            TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        }
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let mut all = Ok(());
    for (name, test) in TESTS {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            let result = test();
            println!("test {name} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
            all = all.and(result);
        }
    }
    done(all)
}

fn done(result: Result<(), impl std::fmt::Display>) -> ExitCode {
    result.map_or_else(
        |error| {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn short() -> Fallible {
    let mut json = Vec::new();
    let mut each = |row: &Row| {
        serde_json::to_writer(&mut json, row)?;
        json.push(b'\n');
        Ok(())
    };
    let rows = measure(&ALL, &Options::short(), &mut each, &mut io::sink())?;
    let (mut samples, mut records, mut lost) = (0, 0, 0);
    for row in &rows {
        match row {
            Row::Absent(absent) if absent.workload.is_none() => {
                println!("absent: {}: {}", absent.name, absent.reason);
            }
            Row::Sample(sample) => {
                samples += 1;
                records += sample.figures.records;
                lost += sample.figures.lost;
            }
            _ => {}
        }
    }
    println!("{samples} samples, {records} records, {lost} overwritten unread and known to be");
    let faults = faults(&rows);
    if !faults.is_empty() {
        return Err(faults.join("\n").into());
    }
    complete(&rows)?;
    let lines = String::from_utf8(json)?;
    let objects = lines.lines().filter(|line| line.starts_with("{\"row\":")).count();
    if objects != rows.len() {
        return Err(format!("{objects} lines of {} rows", rows.len()).into());
    }
    Ok(())
}

/// Checks that perfring was in every workload, and something was overwritten.
fn complete(rows: &[Row]) -> Result<(), String> {
    for workload in Workload::ALL {
        let ours = |row: &&Row| match row {
            Row::Sample(sample) => {
                let figures = &sample.figures;
                figures.kind.workload == workload
                    && figures.contestant.starts_with("perfring")
                    && figures.records > 0
                    && figures.figure().is_some_and(|figure| figure > 0.0)
            }
            _ => false,
        };
        if rows.iter().filter(ours).count() == 0 {
            return Err(format!("no sample of {workload}"));
        }
    }
    let overwritten = rows.iter().any(|row| match row {
        Row::Sample(sample) => !sample.lossless && sample.figures.lost > 0,
        _ => false,
    });
    if overwritten { Ok(()) } else { Err("nothing was overwritten".to_owned()) }
}
