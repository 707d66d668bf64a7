//! The short mode: every contestant that can run does whatever it says it can, every record arrives
//! whole and in turn or is known to be lost, and what is told of losses is what was seen.
//!
//! A program of its own and no `#[test]`, because the harness runs its own executable again as the
//! processes of each sample.

use perfring_compare::child::{CHILD_ARG, child};
use perfring_compare::options::{Options, Workload};
use perfring_compare::rows::{Row, parse};
use perfring_compare::run::{faults, run};
use std::io;
use std::process::ExitCode;

const NAME: &str = "every_contestant_does_what_it_says_it_can";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == CHILD_ARG) {
        return done(child(&args[1..]));
    }
    // What cargo-nextest asks of a test program.
    if args.iter().any(|arg| arg == "--list") {
        if !args.iter().any(|arg| arg == "--ignored") {
            println!("{NAME}: test");
        }
        return ExitCode::SUCCESS;
    }
    let result = short();
    println!("test {NAME} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
    done(result)
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

fn short() -> Result<(), Box<dyn std::error::Error>> {
    let mut json = Vec::new();
    let mut each = |row: &Row| {
        serde_json::to_writer(&mut json, row)?;
        json.push(b'\n');
        Ok(())
    };
    let rows = run(&Options::short(), &mut each, &mut io::sink())?;
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
    // What is written can be read again, by whoever makes a report of it.
    let again = parse(&String::from_utf8(json)?)?;
    if again.len() != rows.len() {
        return Err(format!("{} rows of {} were read again", again.len(), rows.len()).into());
    }
    Ok(())
}

/// Ours was in every workload, and something was overwritten.
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
