//! `perfring bench`.

use crate::failure::Failure;
use perfring_bench::{BenchError, Options};
use std::io;

/// Measure this machine: rings between two processes, beside a floor, memcpy and a cache line
///
/// Takes the same options as `cargo bench`, see below. Eight minutes, five of them for `many`;
/// --short takes some seconds and proves nothing but that it works.
///
/// Example: perfring bench --json
#[derive(Debug, clap::Args)]
#[command(after_help = perfring_bench::USAGE)]
pub(crate) struct Args {
    /// See below
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// The other process of a measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct ChildArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let options = Options::parse(args.options.clone()).map_err(failure)?;
    perfring_bench::run(&options, &mut io::stdout(), &mut io::stderr()).map_err(failure)
}

pub(crate) fn child(args: &ChildArgs) -> Result<(), Failure> {
    perfring_bench::child(&args.args).map_err(failure)
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Io(error) => Failure::output(&error),
        // The sentence alone; it goes on with all the options.
        BenchError::Usage(why) => {
            let why = why.lines().next().unwrap_or_default();
            Failure::Usage(format!("{why}; see `perfring bench --help`"))
        }
        other => Failure::General(other.to_string()),
    }
}
