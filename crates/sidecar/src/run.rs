//! The sidecar: the engine with its inputs, its configuration and its files.

mod damaged;
mod drain;
mod inputs;
mod outputs;
mod own;
mod positions;
mod recorder;
mod status;

pub use positions::PositionsError;

use crate::config::{Config, ConfigError};
use crate::engine::turn::Turn;
use crate::engine::{Engine, Note};
use crate::signals::Signals;
use inputs::Inputs;
use outputs::Outputs;
use perfring_consumer::{ClockError, install_sigbus_handler};
use perfring_export::{OutputError, replace};
use positions::Positions;
use recorder::Recorder;
use std::io;
use std::time::{Duration, Instant};
use thiserror::Error;

/// The interval of polling everything but records.
const POLL: Duration = Duration::from_millis(20);
/// The longest sleep while there is nothing to read.
const SLEEP: Duration = Duration::from_millis(50);
/// The longest sleep while outputs have something to deliver.
const SLEEP_HELD: Duration = Duration::from_millis(2);
/// The first and the longest pause while an output without room stops all reading.
const STALLED: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(20));
/// The interval of checks for dead producers.
const DEATHS: Duration = Duration::from_millis(250);
/// The interval at which outputs that show them get the sidecar's own figures.
const OWN: Duration = Duration::from_secs(1);

/// Why a sidecar does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An output cannot be opened.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The saved positions cannot be used.
    #[error(transparent)]
    Positions(#[from] PositionsError),
    /// The clock of the timestamps is unknown.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The SIGBUS handler for truncated files cannot be installed.
    #[error("cannot take SIGBUS: {0}")]
    SigbusHandler(io::Error),
    /// An input cannot be followed.
    #[error("{0}")]
    Input(String),
}

/// Why a sidecar ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum End {
    /// A signal asked for it: what the rings held then is delivered, as far as time allowed.
    Signal(i32),
    /// All that was present is read and delivered: only after [`Sidecar::once`].
    Drained,
    /// The reader of an output's lines has closed the pipe.
    ClosedPipe,
    /// An output with required delivery cannot continue.
    Failed(OutputError),
}

/// Reads a new configuration: for SIGHUP.
pub type Reload<'a> = &'a mut dyn FnMut() -> Result<Config, ConfigError>;

/// A running sidecar.
///
/// ```
/// use perfring_sidecar::{Config, End, Sidecar, Signals, config::{Input, InputSource}};
/// # use perfring_producer::{Options, Producer, RecordType};
/// # let dir = tempfile::tempdir()?;
/// # let (rings, lines) = (dir.path().join("rings"), dir.path().join("lines.jsonl"));
/// # std::fs::create_dir(&rings)?;
/// # Producer::create(rings.join("one"), &Options::default())?.publish(b"x")?;
/// let mut config = Config::default();
/// config.add_input(Input::new(InputSource::Dir(rings)));
/// config.add_output(&format!("json:{}", lines.display()))?;
/// let mut sidecar = Sidecar::start(config)?.once(); // reads what is present, then ends
/// let ended = sidecar.run(&Signals::default(), &mut || Ok(Config::default()), &mut |_| {});
/// assert!(matches!(ended, End::Drained));
/// assert_eq!(std::fs::read_to_string(&lines)?.lines().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sidecar {
    config: Config,
    engine: Engine,
    inputs: Inputs,
    positions: Positions,
    recorder: Recorder,
    since: Instant,
    once: bool,
    timers: Timers,
    outputs: Outputs,
}

/// When tasks are due.
struct Timers {
    poll: Instant,
    positions: Instant,
    status: Instant,
    log: Instant,
    deaths: Instant,
    own: Instant,
}

impl Sidecar {
    /// Opens all outputs, and starts to follow all inputs.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: Config) -> Result<Self, StartError> {
        config.check()?;
        // A ring whose file is truncated is only that ring's problem.
        install_sigbus_handler().map_err(StartError::SigbusHandler)?;
        let positions = Positions::open(config.settings.state.as_deref())?;
        let mut engine = Engine::new(config.settings.delay())?;
        let mut outputs = Outputs::default();
        for output in &config.outputs {
            outputs.add(&mut engine, output)?;
        }
        engine.set_rules(config.rules.clone());
        engine.set_record_rules(config.record_rules.clone());
        let mut inputs = Inputs::default();
        for input in &config.inputs {
            inputs.add(input).map_err(StartError::Input)?;
        }
        let now = Instant::now();
        let log = now + Duration::from_secs(config.settings.log_interval_seconds);
        Ok(Sidecar {
            config,
            engine,
            inputs,
            positions,
            recorder: Recorder::default(),
            since: now,
            once: false,
            timers: Timers { poll: now, positions: now, status: now, log, deaths: now, own: now },
            outputs,
        })
    }

    /// Ends when everything present is read.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Returns the engine, to inspect it.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs until it is asked to end, or cannot continue; then delivers what the rings hold, within the
    /// deadlines of the configuration. Passes its messages to `say`.
    pub fn run(&mut self, signals: &Signals, reload: Reload<'_>, say: &mut dyn FnMut(&str)) -> End {
        let ended = self.work(signals, reload, say);
        if let End::Signal(_) = ended {
            self.drain(say);
        }
        let deadline = Instant::now() + self.config.settings.shutdown();
        let errors = self.engine.close(deadline);
        self.report_notes(say);
        self.positions.update(self.engine.saved());
        if let Err(error) = self.positions.save() {
            say(&error.to_string());
        }
        self.write_status(say);
        if matches!(ended, End::Signal(_)) && self.config.settings.log_interval_seconds > 0 {
            self.report_end(say);
        }
        let mut first = None;
        for error in errors {
            let reported = match &ended {
                End::Failed(reported) => reported.output == error.output,
                _ => error.closed_pipe,
            };
            if !reported {
                say(&error.to_string());
            }
            first.get_or_insert(error);
        }
        match (ended, first) {
            (End::Drained, Some(error)) => End::Failed(error),
            (ended, _) => ended,
        }
    }

    fn work(&mut self, signals: &Signals, reload: Reload<'_>, say: &mut dyn FnMut(&str)) -> End {
        let mut pause = STALLED.0;
        // All rings present at the start are merged from the start, however many there are.
        while signals.stopped().is_none()
            && !self.inputs.poll(&mut self.engine, &self.positions, say)
        {}
        // What is present at the first poll is what `once` reads.
        let mut heads = None;
        loop {
            if let Some(signal) = signals.stopped() {
                return End::Signal(signal);
            }
            let now = Instant::now();
            if now >= self.timers.poll {
                self.timers.poll = now + POLL;
                let all = self.poll(signals, reload, say);
                if self.once && all && heads.is_none() {
                    heads = Some(self.engine.heads());
                }
                if let Some(ended) = self.failed() {
                    return ended;
                }
            }
            let turn = self.engine.turn();
            match turn {
                Turn::More => {}
                Turn::Empty => {
                    let is_past = |heads| self.engine.is_past(heads) && self.engine.is_level();
                    if heads.as_ref().is_some_and(is_past) {
                        return End::Drained;
                    }
                    let held = !self.engine.is_settled();
                    self.engine.wait(if held { SLEEP_HELD } else { SLEEP });
                }
                Turn::Stalled => std::thread::sleep(pause),
            }
            pause = match turn {
                Turn::Stalled => (2 * pause).min(STALLED.1),
                _ => STALLED.0,
            };
        }
    }

    /// Polls everything but records. Returns whether all present rings are attached to.
    fn poll(&mut self, signals: &Signals, reload: Reload<'_>, say: &mut dyn FnMut(&str)) -> bool {
        let now = Instant::now();
        if signals.take_reload() {
            self.reload(reload(), say);
        }
        let all = self.inputs.poll(&mut self.engine, &self.positions, say);
        self.inputs.prune(&mut self.engine, say);
        self.engine.flush();
        self.engine.release_delivered();
        self.engine.end_removed(); // also if turns are always full
        self.report_notes(say);
        self.outputs.report_troubles(&self.engine, say);
        self.apply_rules(signals, now, say);
        let settings = &self.config.settings;
        if now >= self.timers.positions {
            self.timers.positions = now + Duration::from_millis(settings.state_interval_ms);
            self.positions.update(self.engine.saved());
            if let Err(error) = self.positions.save() {
                say(&error.to_string());
            }
        }
        let (log, status) = (settings.log_interval_seconds, settings.status_interval_seconds);
        if now >= self.timers.log && log > 0 {
            self.timers.log = now + Duration::from_secs(log);
            say(&status::line(&self.engine));
        }
        if now >= self.timers.own {
            self.timers.own = now + OWN;
            self.outputs.show_own(&self.engine);
        }
        let asked = signals.take_status();
        if asked || (now >= self.timers.status && settings.status.is_some()) {
            self.timers.status = now + Duration::from_secs(status);
            self.write_status(say);
            if asked {
                say(&status::line(&self.engine));
            }
        }
        all
    }

    fn write_status(&self, say: &mut dyn FnMut(&str)) {
        let Some(path) = &self.config.settings.status else { return };
        let write = || -> io::Result<()> {
            let mut text = serde_json::to_vec(&status::json(&self.engine, self.since.elapsed()))?;
            text.push(b'\n');
            replace(path, &text)
        };
        if let Err(error) = write() {
            say(&format!("cannot write the status to {}: {error}", path.display()));
        }
    }

    fn report_notes(&mut self, say: &mut dyn FnMut(&str)) {
        for note in self.engine.notes() {
            match note {
                Note::SetAside { ring, uuid, why, .. } => {
                    say(&format!("{ring}: {why}; it is set aside, and the others continue"));
                    self.inputs.damaged.set_aside(uuid);
                }
                Note::Ended { ring, uuid, removed, saved, .. } => {
                    self.outputs.forget(&ring);
                    // A ring that stays may be read again, with another configuration.
                    if let Some(saved) = saved {
                        self.positions.update([(uuid, saved)].into());
                    }
                    if removed {
                        self.positions.forget(&uuid);
                    }
                }
            }
        }
    }

    fn apply_rules(&mut self, signals: &Signals, now: Instant, say: &mut dyn FnMut(&str)) {
        let asked = signals.take_snapshot();
        let met = self.engine.met();
        let mut died = Vec::new();
        if self.config.rules.iter().any(|rule| rule.waits_for_death()) && now >= self.timers.deaths
        {
            self.timers.deaths = now + DEATHS;
            died = self.engine.deaths();
        }
        if asked && self.config.rules.is_empty() {
            say("no snapshot is written: no [[snapshot]] names a directory");
        }
        for (at, rule) in self.config.rules.iter().enumerate() {
            let on_death = rule.waits_for_death() && !died.is_empty();
            let is_met = met & (1 << at.min(63)) != 0 || on_death;
            if asked || is_met {
                let reason = if asked { "signal".to_owned() } else { rule.reason() };
                self.recorder.snapshot(at, rule, &reason, asked, &self.engine, say);
            }
        }
    }

    /// Returns the failure of an output with required delivery.
    fn failed(&mut self) -> Option<End> {
        let failed = self.engine.take_failed();
        failed.or_else(|| self.outputs.broken.take()).map(|error| match error.closed_pipe {
            true => End::ClosedPipe,
            false => End::Failed(error),
        })
    }

    /// Applies a new configuration; an invalid one is rejected as a whole.
    fn reload(&mut self, config: Result<Config, ConfigError>, say: &mut dyn FnMut(&str)) {
        let checked = config.and_then(|config| config.check().map(|()| config));
        let config = match checked {
            Ok(config) => config,
            Err(error) => return say(&format!("{error}; the old configuration stays")),
        };
        let (old, shutdown) = (&self.config.outputs, self.config.settings.shutdown());
        let changed = self.outputs.change(&mut self.engine, old, &config.outputs, shutdown, say);
        if let Err(error) = changed {
            return match &self.outputs.broken {
                None => say(&format!("{error}; the old configuration stays")),
                Some(why) => say(&format!(
                    "{why}; the sidecar ends, and undelivered records stay in the rings: start \
                     it again"
                )),
            };
        }
        self.positions.update(self.engine.saved());
        for input in self.config.inputs.iter().filter(|input| !config.inputs.contains(input)) {
            self.engine.drop_input(input);
            self.inputs.remove(input);
        }
        for input in config.inputs.iter().filter(|input| !self.config.inputs.contains(input)) {
            if let Err(error) = self.inputs.add(input) {
                say(&error);
            }
        }
        if config.settings.delay_ms != self.config.settings.delay_ms {
            say("a new delay_ms is used from the next start on");
        }
        if config.settings.state != self.config.settings.state {
            match Positions::open(config.settings.state.as_deref()) {
                Ok(positions) => self.positions = positions,
                Err(error) => say(&format!("{error}; positions are saved where they were")),
            }
        }
        self.engine.set_rules(config.rules.clone());
        self.engine.set_record_rules(config.record_rules.clone());
        self.recorder = Recorder::default();
        self.config = config;
        say("the configuration was reloaded");
    }
}
