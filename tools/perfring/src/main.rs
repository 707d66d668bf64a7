//! `perfring`: creates, feeds, follows and inspects rings from the command line.
//!
//! `cli.rs` lists the commands; each has a file or a folder in `commands`.
#![forbid(unsafe_code)]

mod any_producer;
mod args;
mod cli;
mod columns;
mod commands;
mod core_file;
mod events;
mod failure;
mod figures;
mod image;
mod left_out;
mod output;
mod records;
mod stop;
mod verbosity;

use cli::usage_sentence;
use failure::{Failure, note};
use perfring_export::Stream;
use signal_hook::consts::SIGXFSZ;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use verbosity::may_color;

fn main() -> ExitCode {
    // A process that may write to a ring's file may also truncate it: that is an error for that
    // ring.
    if let Err(error) = perfring_consumer::install_sigbus_handler() {
        note(&format!("a ring whose file is truncated will end this process: {error}"));
    }
    perfring_consumer::register_process(); // before there are threads
    // Handled, the signal ends nothing: a write over `ulimit -f` is an error that names the limit. A program that this one
    // starts has the default again.
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, Arc::default()) {
        note(&format!("a file larger than `ulimit -f` allows will end this process: {error}"));
    }
    perfring_sidecar::raise_limits(); // for commands that have many rings open
    let done = match cli::parse() {
        Ok(cli) => cli.run(),
        Err(error) if error.use_stderr() => Err(Failure::Usage(usage_sentence(&error))),
        Err(help) => print_help(&help),
    };
    match (done, left_out::end()) {
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
        (Ok(()), Err(failure)) | (Err(failure), Ok(())) => failure.report(),
        (Err(failure), Err(left_out)) => {
            let _ = left_out.report(); // the code is that of the other
            failure.report()
        }
    }
}

/// Prints the help or the version.
fn print_help(help: &clap::Error) -> Result<(), Failure> {
    let text = help.render();
    let text = match may_color() {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    Stream::stdout().write_all(text.as_bytes()).map_err(Failure::output)
}
