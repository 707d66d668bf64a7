//! `perfring bench`.

use crate::failure::Failure;

/// Measure this machine: latency and throughput of rings between two processes
///
/// Example: perfring bench --json
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(_args: &Args) -> Result<(), Failure> {
    Err(Failure::General("bench is not built in: build perfring with its benches".to_owned()))
}
