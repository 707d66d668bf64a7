//! The sidecar: the engine with its inputs, its configuration and its files.

mod damaged;
mod inputs;
mod outputs;
mod own;
mod places;
mod recorder;
mod replace;
mod status;

pub use places::PlacesError;

use crate::config::{Config, ConfigError};
use crate::engine::turn::Turn;
use crate::engine::{Engine, Note};
use crate::signals::Signals;
use inputs::Inputs;
use outputs::Outputs;
use perfring_consumer::{ClockError, install_sigbus_handler};
use perfring_export::OutputError;
use places::Places;
use recorder::Recorder;
use replace::replace;
use std::io;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How often anything but records is looked at.
const POLL: Duration = Duration::from_millis(20);
/// The longest sleep while there is nothing to read.
const SLEEP: Duration = Duration::from_millis(50);
/// The same while outputs have something to deliver.
const SLEEP_HELD: Duration = Duration::from_millis(2);
/// Pauses while nothing can be read, as an output has no room.
const STALLED: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(20));
/// How often producers are looked for that are gone.
const DEATHS: Duration = Duration::from_millis(250);
/// How often outputs that show them get the sidecar's own figures.
const OWN: Duration = Duration::from_secs(1);

/// Why a sidecar does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An output cannot be opened.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The saved places cannot be used.
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// The clock of stamps is not known.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The system takes no handler for files that are cut short.
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
    /// A signal asked for it.
    Signal(i32),
    /// All that was there is read and delivered: of [`Sidecar::once`].
    Drained,
    /// Whoever read the lines of an output is gone.
    ClosedPipe,
    /// An output that must have everything cannot go on.
    Failed(OutputError),
}

/// Reads a new configuration: for SIGHUP.
pub type Reload<'a> = &'a mut dyn FnMut() -> Result<Config, ConfigError>;

/// A running sidecar.
///
/// ```
/// use perfring_sidecar::{Config, End, Sidecar, Signals, config::{Input, Place}};
/// # use perfring_producer::{Options, Producer};
/// # let dir = tempfile::tempdir()?;
/// # let (rings, lines) = (dir.path().join("rings"), dir.path().join("lines.jsonl"));
/// # std::fs::create_dir(&rings)?;
/// # Producer::create(rings.join("one"), &Options::default())?.publish(b"x")?;
/// let mut config = Config::default();
/// config.add_input(Input::new(Place::Dir(rings)));
/// config.add_output(&format!("json:{}", lines.display()))?;
/// let mut sidecar = Sidecar::start(config)?.once(); // reads what is there, and ends
/// let ended = sidecar.run(&Signals::default(), &mut || Ok(Config::default()), &mut |_| {});
/// assert!(matches!(ended, End::Drained));
/// assert_eq!(std::fs::read_to_string(&lines)?.lines().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sidecar {
    config: Config,
    engine: Engine,
    inputs: Inputs,
    places: Places,
    recorder: Recorder,
    since: Instant,
    once: bool,
    timers: Timers,
    outputs: Outputs,
}

/// When things are due.
struct Timers {
    poll: Instant,
    places: Instant,
    status: Instant,
    log: Instant,
    deaths: Instant,
    own: Instant,
}

impl Sidecar {
    /// Opens all outputs, and begins to follow all inputs.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: Config) -> Result<Self, StartError> {
        config.check()?;
        // A ring whose file is cut short is that ring's trouble.
        install_sigbus_handler().map_err(StartError::SigbusHandler)?;
        let places = Places::open(config.settings.state.as_deref())?;
        let mut engine = Engine::new(config.settings.delay())?;
        let mut outputs = Outputs::default();
        for output in &config.outputs {
            outputs.add(&mut engine, output)?;
        }
        engine.set_rules(config.rules.clone());
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
            places,
            recorder: Recorder::default(),
            since: now,
            once: false,
            timers: Timers { poll: now, places: now, status: now, log, deaths: now, own: now },
            outputs,
        })
    }

    /// Ends when all is read that is there.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// The engine, to look at.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs until it is asked to end, or cannot go on; then delivers what was read, as far as the
    /// deadline of the configuration lets it. What it has to say it says in sentences.
    pub fn run(&mut self, signals: &Signals, reload: Reload<'_>, say: &mut dyn FnMut(&str)) -> End {
        let ended = self.work(signals, reload, say);
        let deadline = Instant::now() + self.config.settings.shutdown();
        let errors = self.engine.close(deadline);
        self.look_at_notes(say);
        self.places.update(self.engine.saved());
        if let Err(error) = self.places.save() {
            say(&error.to_string());
        }
        self.write_status(say);
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
        // All that is there at the start is merged from the start, however many rings there are.
        while signals.stopped().is_none() && !self.inputs.poll(&mut self.engine, &self.places, say)
        {
        }
        // What is there at the first look is what there is to be read once.
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
                    if heads.as_ref().is_some_and(|heads| self.engine.is_past(heads)) {
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

    /// Everything but records. Whether all rings that are there are attached to.
    fn poll(&mut self, signals: &Signals, reload: Reload<'_>, say: &mut dyn FnMut(&str)) -> bool {
        let now = Instant::now();
        if signals.take_reload() {
            self.reload(reload(), say);
        }
        let all = self.inputs.poll(&mut self.engine, &self.places, say);
        self.inputs.prune(&mut self.engine, say);
        self.engine.flush();
        self.engine.let_go();
        self.engine.see_off(); // also where turns are always full
        self.look_at_notes(say);
        self.outputs.report_troubles(&self.engine, say);
        self.look_at_rules(signals, now, say);
        let settings = &self.config.settings;
        if now >= self.timers.places {
            self.timers.places = now + Duration::from_millis(settings.state_interval_ms);
            self.places.update(self.engine.saved());
            if let Err(error) = self.places.save() {
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

    fn look_at_notes(&mut self, say: &mut dyn FnMut(&str)) {
        for note in self.engine.notes() {
            match note {
                Note::SetAside { ring, uuid, why, .. } => {
                    say(&format!("{ring}: {why}; it is set aside, and the others go on"));
                    self.inputs.damaged.set_aside(uuid);
                }
                Note::Ended { ring, uuid, vanished, saved, .. } => {
                    self.outputs.forget(&ring);
                    // A ring that stays may be read again, by another configuration.
                    if let Some(saved) = saved {
                        self.places.update([(uuid, saved)].into());
                    }
                    if vanished {
                        self.places.forget(&uuid);
                    }
                }
            }
        }
    }

    fn look_at_rules(&mut self, signals: &Signals, now: Instant, say: &mut dyn FnMut(&str)) {
        let asked = signals.take_snapshot();
        let met = self.engine.met();
        let mut died = Vec::new();
        if self.config.rules.iter().any(|rule| rule.waits_for_death()) && now >= self.timers.deaths
        {
            self.timers.deaths = now + DEATHS;
            died = self.engine.deaths();
        }
        if asked && self.config.rules.is_empty() {
            say("no snapshot is made: there is no [[snapshot]] that says where to");
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

    /// An output that must have everything and cannot go on.
    fn failed(&mut self) -> Option<End> {
        let failed = self.engine.take_failed();
        failed.or_else(|| self.outputs.broken.take()).map(|error| match error.closed_pipe {
            true => End::ClosedPipe,
            false => End::Failed(error),
        })
    }

    /// Takes a new configuration, of which nothing is taken if it cannot be.
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
                    "{why}; the sidecar ends, and keeps in the rings what is not delivered: start \
                     it again"
                )),
            };
        }
        self.places.update(self.engine.saved());
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
            say("another delay_ms counts from the next start on");
        }
        if config.settings.state != self.config.settings.state {
            match Places::open(config.settings.state.as_deref()) {
                Ok(places) => self.places = places,
                Err(error) => say(&format!("{error}; places are saved where they were")),
            }
        }
        self.engine.set_rules(config.rules.clone());
        self.recorder = Recorder::default();
        self.config = config;
        say("the configuration was read again");
    }
}
