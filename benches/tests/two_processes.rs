//! The short mode, in two processes and more: every contestant delivers every record, intact and in
//! order, or counts its loss.
//!
//! A program of its own and no `#[test]`, because the harness runs its own executable again as the
//! child.

use perfring_bench::conductor::INTERRUPTED;
use perfring_bench::entrants::OURS;
use perfring_bench::kinds::fits;
use perfring_bench::rows::{Kind, Row, Sample};
use perfring_bench::scale::Scale;
use perfring_bench::workload::Workload;
use perfring_bench::{BenchError, CHILD_ARG, Options, child, faults, measure};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

const NAME: &str = "every_record_arrives_whole_and_in_turn";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == CHILD_ARG) {
        return done(child(&args[1..], &OURS));
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

/// Runs the short mode with these options. Nothing may be damaged, or lost where senders wait.
fn run(options: &Options) -> Result<Vec<Sample>, Box<dyn std::error::Error>> {
    let rows = measure(&OURS, options, &mut |_| Ok(()), &mut io::sink())?;
    let faults = faults(&rows);
    if !faults.is_empty() {
        return Err(faults.join("\n").into());
    }
    let samples = rows.into_iter().filter_map(|row| match row {
        Row::Sample(sample) => Some(*sample),
        _ => None,
    });
    Ok(samples.collect())
}

fn short() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::short();
    let samples = run(&options)?;
    let mut streams: BTreeMap<(&str, usize), u64> = BTreeMap::new();
    for figures in samples.iter().map(|sample| &sample.figures) {
        if figures.kind.workload == Workload::Throughput {
            if figures.records < 2_560 {
                return Err(format!("not every record arrived: {figures:?}").into());
            }
            *streams.entry((figures.contestant, figures.kind.payload)).or_default() +=
                figures.records;
        }
    }
    for entry in OURS.all() {
        // A ring per CPU needs rseq, which not every kernel and C library has.
        let may_be_absent = entry.name == "perfring cpu" && entry.absent().is_some();
        for &payload in &options.payloads {
            let takes_part = fits(&Kind::of(Workload::Throughput, payload), entry).is_ok();
            if takes_part && !may_be_absent && !streams.contains_key(&(entry.name, payload)) {
                return Err(format!("no sample of {} with {payload} bytes", entry.name).into());
            }
        }
    }
    println!("{} streams, {} records verified", streams.len(), streams.values().sum::<u64>());
    many(&samples, "large rings")?;
    // So small that senders overwrite and wait.
    let options = Options::short();
    let scale = Scale { data_size: 1 << 16, ..options.scale };
    let workloads = vec![Workload::Producers];
    many(&run(&Options { workloads, senders: vec![3, 8], scale, ..options })?, "small rings")?;
    interrupted()
}

/// A log in which the second comparison is interrupted.
#[derive(Default)]
struct Interrupts {
    rounds: u32,
}

impl Write for Interrupts {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.rounds += u32::from(text.ends_with(b"\n"));
        INTERRUPTED.store(self.rounds > 1, Ordering::Relaxed);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks that the table of an interrupted run has what was measured before.
fn interrupted() -> Result<(), Box<dyn std::error::Error>> {
    let contestants = vec!["perfring publish".to_owned()];
    let workloads = vec![Workload::Throughput];
    let options = Options { workloads, contestants, payloads: vec![8, 64], ..Options::short() };
    let (mut table, mut log) = (Vec::new(), Interrupts::default());
    let ended = perfring_bench::run(&OURS, &options, &mut table, &mut log);
    let table = String::from_utf8(table)?;
    match ended {
        Err(BenchError::Interrupted) if table.contains(Workload::Throughput.title()) => Ok(()),
        ended => Err(format!("{ended:?} after {} rounds: {table}", log.rounds).into()),
    }
}

/// Checks that many producers of one ring delivered every record, or overwrote some.
fn many(samples: &[Sample], what: &str) -> Result<(), Box<dyn std::error::Error>> {
    for lossy in [false, true] {
        let (mut races, mut records, mut lost) = (0, 0, 0);
        for figures in samples.iter().map(|sample| &sample.figures) {
            let Kind { workload, senders, lossy: this, .. } = figures.kind;
            let ours = workload == Workload::Producers && figures.contestant == "perfring shared";
            if !ours || senders == 1 || this != lossy {
                continue;
            }
            if figures.records < 20_480 {
                return Err(format!("not every record was sent: {figures:?}").into());
            }
            races += 1;
            records += figures.records;
            lost += figures.lost;
        }
        if races == 0 || (lossy && lost == 0) {
            return Err(format!("{what}: {races} races, {lost} overwritten").into());
        }
        println!("{what}, many producers: {races} races, {records} records, {lost} overwritten");
    }
    Ok(())
}
