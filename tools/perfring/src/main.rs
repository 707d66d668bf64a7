//! `perfring`: make, feed, follow and inspect rings from the command line.
#![forbid(unsafe_code)]

mod args;
#[cfg(feature = "bench")]
mod bench;
mod columns;
mod demo;
mod doctor;
mod dump;
mod export;
mod failure;
mod follow;
mod generate;
mod kernel;
mod ls;
mod manage;
mod many;
mod output;
mod owner;
mod prune;
mod publish;
mod record;
mod recover;
mod replay;
mod select;
mod shapes;
mod sidecar;
mod stat;
mod stop;
mod time;
#[cfg(feature = "top")]
mod top;
mod typed;
mod types;

use crate::failure::{Failure, note};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Shared-memory rings between processes: make, feed, follow and inspect them
///
/// RING is a path (best on a tmpfs: /dev/shm/...) or shm:NAME for a POSIX segment. Data goes to
/// stdout, everything else to stderr.
///
/// Exit codes: 0 done, 1 error, 2 wrong usage, 3 no such ring, 4 damaged or no ring at all, 5 data
/// was lost (with --fail-on-loss), 6 the kernel does not allow it (tail --perf), 124 the time was
/// over, 130 and 143 ended by SIGINT and SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "perfring", version, after_help = "Try it: perfring demo")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Create(manage::CreateArgs),
    Rm(manage::RmArgs),
    Publish(publish::Args),
    Tail(follow::TailArgs),
    Consume(follow::ConsumeArgs),
    Dump(dump::Args),
    Record(record::Args),
    Export(export::Args),
    Replay(replay::Args),
    Sidecar(sidecar::Args),
    Types(types::Args),
    Stat(stat::Args),
    Ls(ls::Args),
    Prune(prune::Args),
    Recover(recover::Args),
    #[cfg(feature = "top")]
    Top(top::Args),
    Doctor(doctor::Args),
    #[cfg(feature = "bench")]
    Bench(bench::Args),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
    #[cfg(feature = "bench")]
    #[command(name = perfring_bench::CHILD_ARG, hide = true)]
    BenchChild(bench::ChildArgs),
    #[command(name = "demo-child", hide = true)]
    DemoChild(demo::ChildArgs),
}

fn main() -> ExitCode {
    // Whoever may write a ring's file may cut it short, too: that is an error for that ring.
    if let Err(error) = perfring_consumer::install_guard() {
        note(&format!("a ring whose file is cut short will end this process: {error}"));
    }
    let done = Cli::try_parse().map_err(Failure::from).and_then(|cli| match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Create(args) => manage::create(&args),
        Command::Rm(args) => manage::rm(&args),
        Command::Publish(args) => publish::run(&args),
        Command::Tail(args) => follow::tail(&args),
        Command::Consume(args) => follow::consume(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Sidecar(args) => sidecar::run(&args),
        Command::Types(args) => types::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Prune(args) => prune::run(&args),
        Command::Recover(args) => recover::run(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::man(&args),
        #[cfg(feature = "bench")]
        Command::BenchChild(args) => bench::child(&args),
        Command::DemoChild(args) => demo::child(&args),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
