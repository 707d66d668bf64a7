//! `perfring sidecar`: follows rings as they come and go, and hands their records on.

use crate::args;
use crate::failure::{Failure, note};
use perfring_sidecar::config::{Input, Mode, Place, Trust};
use perfring_sidecar::{Config, ConfigError, End, Rule, Sidecar, Signals, StartError};
use std::path::PathBuf;

/// Follow rings as they come and go, and hand their records on
///
/// Reads all rings of a directory in the order of time, and writes what it reads to outputs: lines
/// of JSON, OTLP, NATS, Prometheus, traces, recordings. A record leaves its ring only when every
/// output that promises delivery has delivered it, so nothing is lost when an output is down or
/// this process is killed: the rings fill, and then tell what they lose. After a death a record can
/// come twice; its ring's uuid and its position tell.
///
/// Drop rings are consumed. Rings that overwrite are only looked at, and with --state this goes on
/// where it was.
///
/// SIGTERM and SIGINT deliver what was read and end, a second one ends at once. SIGHUP reads the
/// configuration again, SIGUSR1 writes the status, SIGUSR2 keeps what overwrite rings hold.
///
/// Example: perfring sidecar /dev/shm/rings --output json:- --output otlp:http://localhost:4318
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories of rings; without any, and without --config, the default one
    dirs: Vec<PathBuf>,
    /// What to do, in TOML; flags are added to it
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where records go: KIND or KIND:WHAT, as json:-, json:FILE, otlp:URL, nats:URL,
    /// prometheus:ADDRESS, recording:FILE, perfetto:FILE, ctf:DIR, perf-data:FILE, parquet:DIR, null
    #[arg(long = "output", short, value_name = "KIND[:WHAT]")]
    outputs: Vec<String>,
    /// Move nothing: look at all rings, as any number of others may
    #[arg(long)]
    observe: bool,
    /// Who may write rings without having their records copied before anything looks at them: this
    /// user alone (auto), everybody who can (peers), or nobody (nobody: all records are copied). A
    /// ring whose file is truncated is set aside in any case
    #[arg(long, value_name = "WHOM", value_parser = args::one_of([
        ("auto", Trust::Auto), ("peers", Trust::Peers), ("nobody", Trust::Nobody)]))]
    trust: Option<Trust>,
    /// Save the places in rings that are looked at in this file, and go on there
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Write figures to this file, as JSON, now and then
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Keep what overwrite rings hold in this directory on SIGUSR2
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
    /// Read what is there, and end
    #[arg(long)]
    once: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    check: bool,
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
            config.add_input(Input::new(Place::Dir(dir)));
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
        config.rules.extend(self.snapshots.clone().map(Rule::on_signal));
        let settings = &mut config.settings;
        settings.state = self.state.clone().or(settings.state.take());
        settings.status = self.status.clone().or(settings.status.take());
        config.check()?;
        Ok(config)
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let config = args.config().map_err(|error| Failure::Usage(error.to_string()))?;
    if args.check {
        config.describe().iter().for_each(|line| note(line));
        return Ok(());
    }
    let signals = Signals::install()
        .map_err(|error| Failure::General(format!("cannot handle signals: {error}")))?;
    perfring_sidecar::raise_limits();
    let mut sidecar = Sidecar::start(config)?;
    if args.once {
        sidecar = sidecar.once();
    }
    match sidecar.run(&signals, &mut || args.config(), &mut |sentence| note(sentence)) {
        End::Drained => Ok(()),
        End::Signal(signal) => Err(Failure::Signal(signal)),
        End::ClosedPipe => Err(Failure::ClosedPipe),
        End::Failed(error) => Err(Failure::general(error)),
        other => Err(Failure::General(format!("ended: {other:?}"))),
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Config(error) => Failure::Usage(error.to_string()),
            other => Failure::General(other.to_string()),
        }
    }
}
