//! `perfring sidecar`: follows rings as they come and go, and delivers their records to outputs.

mod ask;

use crate::args;
use crate::failure::{Failure, note};
use crate::verbosity::{has_details, has_summaries};
use ask::Ask;
use clap::Subcommand as _;
use perfring_export::Stream;
use perfring_export::registry::{KINDS, Kind};
use perfring_sidecar::config::{Control, Input, InputSource, Mode, Trusted};
use perfring_sidecar::{
    Config, ConfigError, End, Level, Log, LogFormat, Message, Sidecar, Signals, SnapshotRule,
    StartError,
};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Its number, which is the same on all architectures.
const SIGTERM: i32 = 15;

/// Follow rings as they come and go, and deliver their records to outputs
///
/// Reads all rings of a directory in the order of time, and writes the records to outputs: JSON
/// lines, OTLP, NATS, Prometheus, traces, recordings. A record leaves its ring only when every
/// required output has delivered it. So nothing is lost when an output is down or this process is
/// killed: the rings fill, and then report their losses. After a crash a record can be delivered
/// twice; its ring's uuid and its position identify it.
///
/// Drop rings are consumed. Overwrite rings are only observed, and with --state reading continues
/// where it stopped.
///
/// SIGTERM and SIGINT deliver the records that are in the rings, within --drain, and then end the
/// process: after SIGTERM with code 0. The last line names the rings with records left. A second
/// signal ends the process at once. SIGHUP reloads the configuration: a changed output resumes
/// where it stopped, even if it was stuck. SIGUSR1 writes the status, and SIGUSR2 takes snapshots
/// of overwrite rings. With --control, or [control] in the configuration, `perfring sidecar
/// status`, `reload`, `snapshot` and `drain` do the same, and report the result; `retry` ends the
/// pause of outputs that wait before their next attempt.
///
/// Example: perfring sidecar /dev/shm/rings --output json:- --output otlp:http://localhost:4318
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    ask: Option<Ask>,
    /// Directories of rings; without any, and without --config, the default one
    dirs: Vec<PathBuf>,
    /// The configuration file, in TOML; flags are added to it
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    #[arg(long = "output", short, value_name = "KIND[:WHAT]", help = kinds())]
    outputs: Vec<String>,
    /// Consume nothing: observe all rings, as any number of other processes may
    #[arg(long)]
    observe: bool,
    /// The rings whose records are copied before they are decoded: rings that other users may write
    /// to (auto), all rings (nobody), or none (peers: you promise that every process that may write
    /// to the rings keeps to the protocol; any other process can make this one misbehave in any way).
    /// A ring whose file is truncated is set aside in any case
    #[arg(long, value_name = "WHOM", value_parser = args::one_of([
        ("auto", Trusted::Auto), ("peers", Trusted::Peers), ("nobody", Trusted::Nobody)]))]
    trust: Option<Trusted>,
    /// Save the positions in observed rings in this file, and continue there
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Write figures to this file, as JSON, at intervals
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Keep what overwrite rings hold in this directory on SIGUSR2
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
    /// How long to read on at most, after SIGTERM or SIGINT, until outputs have what the rings held:
    /// 10s, unless the configuration has another time
    #[arg(long, value_name = "TIME", value_parser = args::parse_duration)]
    drain: Option<std::time::Duration>,
    /// Listen for `perfring sidecar status`, `reload`, `retry`, `snapshot` and `drain` at this socket, or at
    /// control.sock in $RUNTIME_DIRECTORY, for root in /run/perfring-sidecar, else in
    /// $XDG_RUNTIME_DIR/perfring-sidecar
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    control: Option<Option<PathBuf>>,
    /// The form of messages on stderr: time, level, output and message as key=value, or as JSON. With
    /// -q only what is wrong, with -v also which rings come and go
    #[arg(long, value_name = "FORM", value_parser = args::one_of([
        ("text", LogFormat::Text), ("json", LogFormat::Json)]))]
    log: Option<LogFormat>,
    /// Read what is present, then end
    #[arg(long)]
    once: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    check: bool,
}

/// Returns the help of `--output`.
fn kinds() -> String {
    let kinds: Vec<String> = KINDS.iter().map(Kind::flag).collect();
    format!("An output for the records: KIND or KIND:WHAT, as {}", kinds.join(", "))
}

impl Args {
    fn config(&self) -> Result<Config, ConfigError> {
        let mut config = match &self.config {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        let mut dirs = self.dirs.clone();
        if config.inputs.is_empty() && dirs.is_empty() {
            dirs.push(perfring_set::RingSet::default_dir());
        }
        for dir in dirs {
            config.add_input(Input::new(InputSource::Dir(dir)));
        }
        for output in &self.outputs {
            config.add_output(output)?;
        }
        if self.observe {
            config.inputs.iter_mut().for_each(|input| input.mode = Mode::Observe);
        }
        if let Some(trust) = self.trust {
            config.inputs.iter_mut().for_each(|input| input.trust = trust);
        }
        config.snapshots.extend(self.snapshots.clone().map(SnapshotRule::on_signal));
        let settings = &mut config.settings;
        settings.log = self.log.unwrap_or(settings.log);
        settings.drain = self.drain.unwrap_or(settings.drain);
        settings.state = self.state.clone().or(settings.state.take());
        settings.status = self.status.clone().or(settings.status.take());
        if let Some(path) = &self.control {
            // Without a path, the configuration's.
            let configured = settings.control.take().and_then(|control| control.path);
            settings.control = Some(Control { path: path.clone().or(configured) });
        }
        config.check()?;
        Ok(config)
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(asked) = &args.ask {
        return ask::run(asked);
    }
    // Behind an option, a word is a directory.
    let is_verb = |dir: &&str| Ask::has_subcommand(dir) && !Path::new(dir).exists();
    if let Some(verb) = args.dirs.iter().filter_map(|dir| dir.to_str()).find(is_verb) {
        let how = format!("`perfring sidecar {verb} --control=PATH`");
        return Err(Failure::Usage(format!(
            "the options of `{verb}` stand behind it: write {how}"
        )));
    }
    let config = args.config().map_err(|error| Failure::Usage(error.to_string()))?;
    if args.check {
        config.describe().iter().for_each(|line| note(line));
        return Ok(());
    }
    let least = match (has_summaries(), has_details()) {
        (_, true) => Level::Debug,
        (true, _) => Level::Info,
        _ => Level::Warn,
    };
    let mut log = Log::new(config.settings.log, least);
    let is_json = config.settings.log == LogFormat::Json;
    let ended = serve(args, config, &mut log);
    log.finish(print);
    match ended {
        // The last message has the form of the others, where a program reads them.
        Err(failure) if is_json => Err(failure.reported(|sentence| {
            let level = Level::Error;
            log.write(&Message { level, output: None, text: sentence, is_periodic: true }, print);
        })),
        ended => ended,
    }
}

fn serve(args: &Args, config: Config, log: &mut Log) -> Result<(), Failure> {
    let signals = Signals::install()
        .map_err(|error| Failure::General(format!("cannot handle signals: {error}")))?;
    let mut sidecar = Sidecar::start(config)?.with_systemd();
    if args.once {
        sidecar = sidecar.once();
    }
    match sidecar.run(&signals, &mut || args.config(), &mut |message| log.write(message, print)) {
        End::Drained | End::Signal(SIGTERM) => Ok(()),
        End::Signal(signal) => Err(Failure::Signal(signal)),
        End::Incomplete(inputs) => Err(Failure::General(format!(
            "{} not read: the reasons are above",
            perfring_figures::owner::count(inputs as u64, "input")
        ))),
        End::ClosedPipe => Err(Failure::ClosedPipe),
        End::Failed(error) => Err(Failure::general(error)),
        other => Err(Failure::General(format!("ended: {other:?}"))),
    }
}

/// Writes a line to stderr; an error of that cannot be reported.
fn print(line: &str) {
    let _ = Stream::stderr().write_all(line.as_bytes());
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Config(error) => Failure::Usage(error.to_string()),
            other => Failure::General(other.to_string()),
        }
    }
}
