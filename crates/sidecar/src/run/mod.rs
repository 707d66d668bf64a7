//! The sidecar: the engine with its inputs, its configuration and its files.

mod answers;
mod causes;
mod damaged;
mod drain;
mod drained;
mod error;
mod explainer;
mod figures;
#[cfg(feature = "health")]
mod health;
mod inputs;
mod lock_file;
mod losses;
mod new_config;
mod outputs;
mod own;
mod own_ring;
mod positions;
mod recorder;
mod requests;
mod service;
mod snapshots;
mod socket;
mod status;
mod systemd;
mod unreadable;

pub use error::StartError;
pub use positions::PositionsError;

use crate::config::{Config, ConfigError};
use crate::engine::turn::Turn;
use crate::engine::{Engine, Note};
use crate::log::{Level, Message, Say};
use crate::signals::Signals;
use figures::Present;
use inputs::Inputs;
use losses::Losses;
use outputs::Outputs;
use own_ring::OwnRing;
use perfring_consumer::install_sigbus_handler;
use perfring_export::{OutputError, WriteError, later, replace};
use positions::Positions;
use recorder::Recorder;
use service::Service;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

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
/// The interval at which outputs that ask learn which producers are alive.
const PRODUCERS: Duration = Duration::from_secs(5);
/// The interval at which outputs that show them get the sidecar's own figures.
const OWN: Duration = Duration::from_secs(1);

/// Why a sidecar ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum End {
    /// A signal asked for it: what the rings held then is delivered, as far as time allowed.
    Signal(i32),
    /// All that was present is read and delivered: only after [`Sidecar::once`].
    Drained,
    /// As [`End::Drained`], without so many rings and directories, which could not be opened. The log has the reasons.
    Incomplete(usize),
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
    service: Service,
    own: Option<OwnRing>,
    losses: Losses,
    /// Connections of those who asked for the end. The last field: they end when all else is released.
    drained: Vec<UnixStream>,
}

/// When tasks are due.
struct Timers {
    poll: Instant,
    positions: Instant,
    status: Instant,
    log: Instant,
    deaths: Instant,
    producers: Instant,
    own: Instant,
}

impl Sidecar {
    /// Opens all outputs, and starts to follow all inputs.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: Config) -> Result<Self, StartError> {
        config.check()?;
        let config = config.settled();
        // A ring whose file is truncated is only that ring's problem.
        install_sigbus_handler().map_err(StartError::SigbusHandler)?;
        let mut outputs = Outputs::new(config.settings.terms());
        let recorder = Recorder::new(config.settings.mode);
        let service = Service::open(&config.settings, &mut outputs)?;
        let positions = Positions::open(config.settings.state.as_deref())?;
        let mut engine = Engine::new(config.settings.delay)?;
        engine.set_metrics_interval(config.settings.metrics_interval);
        for output in &config.outputs {
            outputs.add(&mut engine, output)?;
        }
        engine.set_snapshots(config.snapshots.clone());
        engine.set_record_rules(config.record_rules.clone());
        let mut inputs = Inputs::default();
        for input in &config.inputs {
            inputs.add(input).map_err(StartError::Input)?;
        }
        let own = config.settings.own.as_ref();
        if let Some(input) = own.and_then(|own| own_ring::input_of(own, &config.inputs)) {
            inputs.add(&input).map_err(StartError::Input)?;
        }
        let own = own.map(OwnRing::open).transpose()?;
        let now = Instant::now();
        let log = later(now, config.settings.log_interval);
        Ok(Sidecar {
            config,
            engine,
            inputs,
            positions,
            recorder,
            since: now,
            once: false,
            timers: Timers {
                poll: now,
                positions: now,
                status: now,
                log,
                deaths: now,
                producers: now,
                own: now,
            },
            outputs,
            service,
            own,
            losses: Losses::default(),
            drained: Vec::new(),
        })
    }

    /// Ends when everything present is read.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Notifies systemd of how it is, if that started this process: `sd_notify(3)`.
    #[must_use]
    pub fn with_systemd(mut self) -> Self {
        self.service.notify_systemd();
        self
    }

    /// Returns the engine, to inspect it.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs until it is asked to end, or cannot continue; then delivers what the rings hold, within the
    /// deadlines of the configuration. Passes its messages to `say`.
    pub fn run(
        &mut self,
        signals: &Signals,
        reload: Reload<'_>,
        say: &mut dyn FnMut(&Message<'_>),
    ) -> End {
        let say = &mut Say(say);
        if let Some(address) = self.service.address() {
            say.info(&format!("[health] is served at {address}"));
        }
        let ended = self.work(signals, reload, say);
        self.service.ending();
        if let End::ClosedPipe = ended {
            say.info("the reader of stdout has closed it: the sidecar ends, and the rest stays in the rings");
        }
        if let End::Signal(_) = ended {
            self.drain(signals, say);
        }
        let deadline = later(Instant::now(), self.config.settings.shutdown);
        let errors = self.engine.close(deadline);
        // Outputs come first, and where they were. Snapshots are written and explained meanwhile.
        self.losses.report(&self.engine, say);
        self.positions.update(self.engine.saved());
        if let Err(error) = self.positions.save() {
            say.warn(&error.to_string());
        }
        self.recorder.end(deadline, say);
        self.report_notes(say);
        self.outputs.report_troubles(&self.engine, say);
        self.outputs.report_unmet(&self.engine, say);
        self.write_status(say);
        let mut first = None;
        for error in errors {
            let reported = match &ended {
                End::Failed(reported) => reported.output == error.output,
                _ => error.closed_pipe,
            };
            if !reported {
                say.of(&error.output, Level::Warn, &error.sentence);
            }
            first.get_or_insert(error);
        }
        self.report_end(matches!(ended, End::Signal(_) | End::Drained), say);
        match (ended, first) {
            (End::Drained, Some(error)) => End::Failed(error),
            (End::Drained, None) => match self.inputs.not_opened() {
                0 => End::Drained,
                rings => End::Incomplete(rings),
            },
            (ended, _) => ended,
        }
    }

    fn work(&mut self, signals: &Signals, reload: Reload<'_>, say: &mut Say<'_>) -> End {
        let mut pause = STALLED.0;
        // All rings present at the start are merged from the start, however many there are.
        while signals.stopped().is_none()
            && !self.inputs.poll(&mut self.engine, &self.positions, say)
        {}
        self.service.followed();
        if !self.once {
            self.report_start(say);
        }
        // What is present at the first poll is what `once` reads.
        let mut heads = None;
        loop {
            if let Some(signal) = signals.stopped() {
                return End::Signal(signal);
            }
            let now = Instant::now();
            if now >= self.timers.poll {
                self.timers.poll = later(now, POLL);
                let all = self.poll(signals, reload, say);
                if self.once && all && heads.is_none() {
                    heads = Some(self.engine.heads());
                    self.engine.sample_metrics();
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
    fn poll(&mut self, signals: &Signals, reload: Reload<'_>, say: &mut Say<'_>) -> bool {
        let now = Instant::now();
        self.answer_requests(signals, Some(&mut *reload), say);
        if signals.take_reload()
            && let Err(sentence) = self.reload(reload(), say)
        {
            say.warn(&sentence);
        }
        let all = self.inputs.poll(&mut self.engine, &self.positions, say);
        self.inputs.prune(&mut self.engine, say);
        self.engine.flush();
        self.engine.release_delivered();
        self.engine.end_removed(); // also if turns are always full
        self.report_notes(say);
        self.outputs.report_troubles(&self.engine, say);
        self.recorder.watch(&self.config.snapshots, &self.engine, now, say);
        self.take_snapshots(signals, now, say);
        self.service.look(now, &mut self.engine, &self.inputs, &self.config);
        if let Some(own) = &mut self.own {
            let present = Present {
                engine: &self.engine,
                unreadable: &self.inputs.unreadable,
                outputs: &self.config.outputs,
                since: self.since,
            };
            own.publish(now, present);
        }
        let settings = &self.config.settings;
        if now >= self.timers.positions {
            self.timers.positions = later(now, settings.state_interval);
            self.positions.update(self.engine.saved());
            if let Err(error) = self.positions.save() {
                say.warn(&error.to_string());
            }
        }
        let (log, status) = (settings.log_interval, settings.status_interval);
        if now >= self.timers.log && !log.is_zero() {
            self.timers.log = later(now, log);
            say.figures(Level::Info, &self.line());
        }
        if now >= self.timers.producers {
            self.timers.producers = later(now, PRODUCERS);
            self.engine.show_producers();
        }
        if now >= self.timers.own {
            self.timers.own = later(now, OWN);
            self.losses.report(&self.engine, say);
            if self.outputs.compare.is_none_or(|next| now >= next) {
                self.outputs.report_unmet(&self.engine, say);
            }
            self.outputs.show_own(self.present());
        }
        let asked = signals.take_status();
        if asked || (now >= self.timers.status && settings.status.is_some()) {
            self.timers.status = later(now, status);
            self.write_status(say);
            if asked {
                say.figures(Level::Info, &self.line());
            }
        }
        all
    }

    fn write_status(&self, say: &mut Say<'_>) {
        let Some(path) = &self.config.settings.status else { return };
        let write = || -> io::Result<()> {
            let mut text = serde_json::to_vec(&self.status())?;
            text.push(b'\n');
            replace(path, &text, self.config.settings.mode)
        };
        if let Err(error) = write() {
            say.warn(&format!(
                "cannot write the status to {}: {}",
                path.display(),
                WriteError(&error)
            ));
        }
    }

    fn report_notes(&mut self, say: &mut Say<'_>) {
        for note in self.engine.notes() {
            match note {
                Note::SetAside { ring, uuid, why, location, again } => {
                    let others = "and the others continue";
                    if let Some(location) = location.clone().filter(|_| again) {
                        let why = format!("{ring}: {why}; it is tried again each second, {others}");
                        self.inputs.interrupted(uuid, &location.path(), &why, say);
                    } else {
                        say.warn(&format!("{ring}: {why}; it is set aside, {others}"));
                        self.inputs.set_aside(uuid, location, &why);
                    }
                }
                Note::SameName { name, location } => say.warn(&format!(
                    "two rings are named {name}: the one at {location} has its location as its name; give one of the inputs a \
                     name"
                )),
                Note::Trouble { ring, trouble } => say.warn(&format!("{ring}: {trouble}")),
                Note::Ended { ring, uuid, figures, removed, saved } => {
                    self.losses.report_one(&ring, uuid, &figures, say);
                    say.debug(&format!("{ring} is not read any more"));
                    self.outputs.forget(&ring);
                    self.inputs.ended(&uuid);
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

    /// Returns the failure of an output with required delivery.
    fn failed(&mut self) -> Option<End> {
        let failed = self.engine.take_failed();
        failed.or_else(|| self.outputs.broken.take()).map(|error| match error.closed_pipe {
            true => End::ClosedPipe,
            false => End::Failed(error),
        })
    }
}
