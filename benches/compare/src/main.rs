//! `perfring-compare`: see the library.
#![allow(missing_docs, rustdoc::broken_intra_doc_links)] // the help texts contain no links

use clap::Parser;
use perfring_bench::Result;
use perfring_bench::conductor::INTERRUPTED;
use perfring_bench::contestant::Role;
use perfring_bench::waits::WaitStrategy;
use perfring_bench::workload::Workload;
use perfring_bench::{BenchError, CHILD_ARG, child_of, exit_code};
use perfring_compare::entrants::{ALL, by_name};
use perfring_compare::options::Options;
use perfring_compare::rows::Row;
use perfring_compare::run::{about, run, usual};
use perfring_compare::summary::faults;
use perfring_compare::table;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// perfring beside other means of transferring records from one process to another
#[derive(Parser)]
#[command(name = "compare")]
struct Measure {
    /// Workloads: throughput, latency, wakeup, producers, overwrite, fanout, full, cold, memory
    /// [all]
    #[arg(long, value_delimiter = ',', value_name = "W,..")]
    only: Vec<Workload>,
    /// Contestants, besides the limits; see --list [all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,..")]
    contestants: Vec<String>,
    /// Payloads of throughput: 8, 64, 256, 1024, 4096, 16384, 65472 [all]
    #[arg(long, value_delimiter = ',', value_name = "BYTES,..")]
    payloads: Vec<usize>,
    /// Numbers of senders of producers, each on a core of its own where there are enough [1,2,4,8]
    #[arg(long, value_delimiter = ',', value_name = "N,..")]
    senders: Vec<usize>,
    /// Numbers of receivers of fanout [1,4,16]
    #[arg(long, value_delimiter = ',', value_name = "N,..")]
    receivers: Vec<usize>,
    /// Samples of each kind, the contestants taking turns [5]
    #[arg(long, value_name = "N")]
    repetitions: Option<usize>,
    /// [0.3]
    #[arg(long, value_name = "S")]
    seconds_per_sample: Option<f64>,
    /// Of each ring, a power of two [1048576]
    #[arg(long, value_name = "BYTES")]
    data_size: Option<u64>,
    /// How a reader that found nothing polls again, where the harness can choose: latency,
    /// throughput or adaptive; the same rule for all, also for the keen reader of overwrite
    /// [adaptive]
    #[arg(long)]
    pace: Option<WaitStrategy>,
    /// A few records of each kind, to see that it works
    #[arg(long)]
    short: bool,
    /// Lists all contestants, and those that cannot run here
    #[arg(long)]
    list: bool,
    /// JSON lines, as described in ROWS.md; - is standard output, without a table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Measure {
    fn options(&self) -> Options {
        let mut options = if self.short { Options::short() } else { Options::default() };
        let set = |to: &mut Vec<usize>, from: &Vec<usize>| {
            if !from.is_empty() {
                to.clone_from(from);
            }
        };
        set(&mut options.payloads, &self.payloads);
        set(&mut options.senders, &self.senders);
        set(&mut options.receivers, &self.receivers);
        if !self.only.is_empty() {
            options.workloads.clone_from(&self.only);
        }
        options.contestants.clone_from(&self.contestants);
        let scale = &mut options.scale;
        scale.repetitions = self.repetitions.unwrap_or(scale.repetitions);
        scale.seconds_per_sample = self.seconds_per_sample.unwrap_or(scale.seconds_per_sample);
        scale.data_size = self.data_size.unwrap_or(scale.data_size);
        scale.pace = self.pace.unwrap_or(scale.pace);
        options
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    exit_code(match args.split_first() {
        Some((first, rest)) if first == CHILD_ARG => child_of(rest, by_name),
        _ => compare(&Measure::parse()),
    })
}

/// Writes names, roles, and whether they can run here.
fn list(options: &Options, out: &mut dyn Write) -> Result<()> {
    for entry in ALL {
        let role = match entry.role {
            Role::Limit => "limit",
            Role::Ours => "ours",
            Role::Rival => "rival",
            Role::Reference => "reference, threads",
        };
        match entry.absent() {
            Some(reason) => writeln!(out, "{} ({role}): absent: {reason}", entry.name)?,
            None => {
                let settings = about(&usual(*entry), options).settings;
                writeln!(out, "{} ({role}): {settings}", entry.name)?;
            }
        }
    }
    Ok(())
}

fn compare(measure: &Measure) -> Result<()> {
    let options = measure.options();
    if measure.list {
        return list(&options, &mut io::stdout());
    }
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, INTERRUPTED.clone())?;
    }
    let stdout = measure.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let mut json: Option<Box<dyn Write>> = match &measure.json {
        None => None,
        Some(_) if stdout => Some(Box::new(io::stdout())),
        Some(path) => Some(Box::new(BufWriter::new(File::create(path)?))),
    };
    let mut each = |row: &Row| -> Result<()> {
        if let Some(json) = &mut json {
            let mut line = serde_json::to_vec(row)?;
            line.push(b'\n');
            json.write_all(&line)?;
            // For readers that follow the file, and for an interrupted run.
            json.flush()?;
        }
        Ok(())
    };
    let rows = run(&options, &mut each, &mut io::stderr())?;
    if !stdout {
        table::write(&rows, &mut io::stdout())?;
    }
    let faults = faults(&rows);
    if faults.is_empty() { Ok(()) } else { Err(BenchError::Faults(faults.join("\n"))) }
}
