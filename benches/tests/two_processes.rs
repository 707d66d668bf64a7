//! The short mode, in two processes: every contestant delivers every record, whole and in turn.
//!
//! A program of its own and no `#[test]`, because the harness runs its own executable again as the
//! child.

use perfring_bench::{CHILD_ARG, Options};
use std::io;
use std::process::ExitCode;

const NAME: &str = "every_record_arrives_whole_and_in_turn";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == CHILD_ARG) {
        return done(perfring_bench::child(&args[1..]));
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

/// Runs it with JSON, and counts what the lines say; [`perfring_bench::run`] itself fails on loss
/// in drop mode and on damage.
fn short() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = Vec::new();
    let options = Options { json: true, ..Options::short() };
    perfring_bench::run(&options, &mut out, &mut io::sink())?;
    let (mut lines, mut records) = (0, 0);
    for line in String::from_utf8(out)?.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        if value["bench"] == "throughput" && value["repetition"] != "median" {
            if value["lost"] != 0 || value["bad"] != 0 || value["records"].as_u64() < Some(20_480) {
                return Err(format!("not every record arrived: {value}").into());
            }
            if value["contestant"] != "memcpy" {
                lines += 1;
                records += value["records"].as_u64().unwrap_or_default();
            }
        }
    }
    // Two rings and six payloads, a round or more.
    if lines < 12 {
        return Err(format!("only {lines} samples").into());
    }
    println!("{lines} samples, {records} records verified");
    Ok(())
}
