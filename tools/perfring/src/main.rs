//! `perfring`: creates, feeds, follows and inspects rings from the command line.
//!
//! `cli.rs` lists the commands; each has a file or a folder in `commands`.
#![forbid(unsafe_code)]

mod any_producer;
mod args;
mod cli;
mod columns;
mod commands;
mod events;
mod failure;
mod figures;
mod output;
mod records;
mod ring_name;
mod stop;
mod verbosity;

use clap::Parser;
use cli::{Cli, usage_sentence};
use failure::{Failure, note};
use std::process::ExitCode;

fn main() -> ExitCode {
    // A process that may write to a ring's file may also truncate it: that is an error for that
    // ring.
    if let Err(error) = perfring_consumer::install_sigbus_handler() {
        note(&format!("a ring whose file is truncated will end this process: {error}"));
    }
    perfring_consumer::register_process(); // before there are threads
    perfring_sidecar::raise_limits(); // for commands that have many rings open
    let done = match Cli::try_parse() {
        Ok(cli) => cli.run(),
        Err(error) if error.use_stderr() => Err(Failure::Usage(usage_sentence(&error))),
        Err(error) => {
            // Help and version; a closed pipe is ignored.
            let _ = error.print();
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
