//! The short mode, in two processes and more: every contestant delivers every record, intact and in
//! order, or counts its loss.
//!
//! A program of its own and no `#[test]`, because the harness runs its own executable again as the
//! child.

use perfring_bench::{CHILD_ARG, Options, Part};
use serde_json::Value;
use std::io;
use std::process::ExitCode;

const NAME: &str = "every_record_arrives_whole_and_in_turn";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == CHILD_ARG) {
        return done(perfring_bench::child(&args[1..]));
    }
    // cargo-nextest passes this to a test program.
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

/// Runs it with JSON. [`perfring_bench::run`] itself fails on damage, on loss where producers wait,
/// and on figures of producers, ring and consumer that disagree.
fn run(options: Options) -> Result<Vec<Value>, Box<dyn std::error::Error>> {
    let mut out = Vec::new();
    perfring_bench::run(&Options { json: true, ..options }, &mut out, &mut io::sink())?;
    let lines = String::from_utf8(out)?;
    Ok(lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Returns the samples of a part.
fn samples<'a>(lines: &'a [Value], bench: &'a str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |line| line["bench"] == bench && line["repetition"] != "median")
}

fn short() -> Result<(), Box<dyn std::error::Error>> {
    let lines = run(Options::short())?;
    let (mut streams, mut records) = (0, 0);
    for line in samples(&lines, "throughput") {
        if line["lost"] != 0 || line["bad"] != 0 || line["records"].as_u64() < Some(2_560) {
            return Err(format!("not every record arrived: {line}").into());
        }
        if line["contestant"] != "memcpy" {
            streams += 1;
            records += line["records"].as_u64().unwrap_or_default();
        }
    }
    // Two rings and six payloads, a round or more.
    if streams < 12 {
        return Err(format!("only {streams} samples").into());
    }
    println!("{streams} samples, {records} records verified");
    many(&lines, "large rings")?;
    // So small that producers overwrite, are refused and wait.
    let (payloads, producers) = (vec![64], vec![3, 8]);
    let (parts, data_size) = (vec![Part::Many], 1 << 16);
    let lines = run(Options { payloads, producers, parts, data_size, ..Options::short() })?;
    many(&lines, "small rings")
}

/// Checks that every shape was seen with several producers, and every attempt was published or
/// refused.
fn many(lines: &[Value], what: &str) -> Result<(), Box<dyn std::error::Error>> {
    for shape in ["alone", "lossy", "lossless"] {
        let (mut races, mut records, mut lost) = (0, 0, 0);
        for line in samples(lines, "many").filter(|line| line["shape"] == shape) {
            let count = |name: &str| line[name].as_u64().unwrap_or_default();
            let causes = ["full", "contended", "pending", "other"].map(count);
            if count("lost") != causes.iter().sum::<u64>() || line["bad"] != 0 {
                return Err(format!("counts that do not agree: {line}").into());
            }
            if shape == "lossless" && (count("lost") != 0 || count("records") < 20_480) {
                return Err(format!("not every record arrived: {line}").into());
            }
            races += u32::from(line["contestant"] == "shared" && count("producers") > 1);
            records += count("records");
            lost += count("lost");
        }
        if races == 0 {
            return Err(format!("{what}: no samples of many producers {shape}").into());
        }
        println!("{what}, many producers {shape}: {races} races, {records} records, {lost} lost");
    }
    Ok(())
}
