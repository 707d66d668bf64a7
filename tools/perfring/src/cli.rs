//! The command line: the list of commands, and the message for one that cannot be parsed.

#[cfg(feature = "bench")]
use crate::commands::bench;
#[cfg(not(all(feature = "bench", feature = "top", feature = "view")))]
use crate::commands::missing;
#[cfg(feature = "top")]
use crate::commands::top;
#[cfg(feature = "view")]
use crate::commands::view;
use crate::commands::{
    consume, create, demo, doctor, dump, export, generate, ls, metrics, prune, publish, record,
    recover, replay, rm, sidecar, stat, tail, types, why,
};
use crate::failure::Failure;
use crate::verbosity::GeneralArgs;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Shared-memory rings between processes: create, feed, follow and inspect them
///
/// RING is a path (best on a tmpfs: /dev/shm/...) or shm:NAME for a POSIX segment. Data goes to
/// stdout, everything else to stderr.
///
/// Exit codes: 0 success, 1 error, 2 wrong usage, 3 no such ring, 4 the ring is damaged or the file
/// is no ring, 5 data was lost (with --fail-on-loss), 6 it is not allowed: by the kernel (tail --perf),
/// or to read any ring of a directory, 7 the sidecar is not ready (sidecar status), 124 timeout, 130 and 143 ended by SIGINT and SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "perfring", version, after_help = "Try it: perfring demo")]
pub(crate) struct Cli {
    #[command(flatten)]
    general: GeneralArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Create(create::Args),
    Rm(rm::Args),
    Publish(publish::Args),
    Tail(tail::Args),
    Consume(consume::Args),
    Dump(dump::Args),
    Record(record::Args),
    Export(export::Args),
    Replay(replay::Args),
    Sidecar(sidecar::Args),
    Types(types::Args),
    Stat(stat::Args),
    Why(why::Args),
    Metrics(metrics::Args),
    Ls(ls::Args),
    Prune(prune::Args),
    Recover(recover::Args),
    #[cfg(feature = "top")]
    Top(top::Args),
    #[cfg(not(feature = "top"))]
    #[command(hide = true)]
    Top(missing::Args),
    #[cfg(feature = "view")]
    View(view::Args),
    #[cfg(not(feature = "view"))]
    #[command(hide = true)]
    View(missing::Args),
    Doctor(doctor::Args),
    #[cfg(feature = "bench")]
    Bench(bench::Args),
    #[cfg(not(feature = "bench"))]
    #[command(hide = true)]
    Bench(missing::Args),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
    #[cfg(feature = "bench")]
    #[command(name = perfring_bench::CHILD_ARG, hide = true)]
    BenchChild(bench::ChildArgs),
    #[command(name = "demo-child", hide = true)]
    DemoChild(demo::ChildArgs),
}

impl Cli {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.general.apply();
        match self.command {
            Command::Demo(args) => demo::run(&args),
            Command::Create(args) => create::run(&args),
            Command::Rm(args) => rm::run(&args),
            Command::Publish(args) => publish::run(&args),
            Command::Tail(args) => tail::run(&args),
            Command::Consume(args) => consume::run(&args),
            Command::Dump(args) => dump::run(&args),
            Command::Record(args) => record::run(&args),
            Command::Export(args) => export::run(&args),
            Command::Replay(args) => replay::run(&args),
            Command::Sidecar(args) => sidecar::run(&args),
            Command::Types(args) => types::run(&args),
            Command::Stat(args) => stat::run(&args),
            Command::Why(args) => why::run(&args),
            Command::Metrics(args) => metrics::run(&args),
            Command::Ls(args) => ls::run(&args),
            Command::Prune(args) => prune::run(&args),
            Command::Recover(args) => recover::run(&args),
            #[cfg(feature = "top")]
            Command::Top(args) => top::run(&args),
            #[cfg(not(feature = "top"))]
            Command::Top(_) => Err(missing::refusal("top", "full")),
            #[cfg(feature = "view")]
            Command::View(args) => view::run(&args),
            #[cfg(not(feature = "view"))]
            Command::View(_) => Err(missing::refusal("view", "full")),
            Command::Doctor(args) => doctor::run(&args),
            #[cfg(feature = "bench")]
            Command::Bench(args) => bench::run(&args),
            #[cfg(not(feature = "bench"))]
            Command::Bench(_) => Err(missing::refusal("bench", "full,bench")),
            Command::Completions(args) => generate::completions(&args, &Self::command()),
            Command::Man(args) => generate::man(&args, Self::command()),
            #[cfg(feature = "bench")]
            Command::BenchChild(args) => bench::child(&args),
            Command::DemoChild(args) => demo::child(&args),
        }
    }
}

/// Parses the arguments of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let matches = with_signs(Cli::command()).try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

/// Lets sizes and times begin with a minus sign, in all commands: their own parsers then say what is wrong with `-1s`,
/// where clap would take it for options.
fn with_signs(command: clap::Command) -> clap::Command {
    let amounts = ["TIME", "BYTES", "SIZE", "N|N/s|max"];
    let is_amount = |arg: &clap::Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        arg.get_action().takes_values() && names.iter().any(|name| amounts.contains(&&**name))
    };
    let with_sign = |arg: clap::Arg| match is_amount(&arg) {
        true => arg.allow_hyphen_values(true),
        false => arg,
    };
    command.mut_args(with_sign).mut_subcommands(with_signs)
}

/// Turns clap's message of several paragraphs into one sentence.
pub(crate) fn usage_sentence(error: &clap::Error) -> String {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if error.kind() == DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command is missing; see `perfring --help`".to_owned();
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let said = text.split("\nUsage:").next().unwrap_or(text);
    let said = said.split("\nFor more information").next().unwrap_or(said);
    let said: Vec<String> = said
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|paragraph| !paragraph.is_empty())
        .collect();
    let said = said.join("; ");
    let command = std::env::args()
        .nth(1)
        .filter(|arg| Cli::command().get_subcommands().any(|known| known.get_name() == arg));
    match command {
        Some(command) => format!("{said}; see `perfring {command} --help`"),
        None => format!("{said}; see `perfring --help`"),
    }
}
