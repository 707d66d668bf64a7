//! The engine that `perfring sidecar` runs, with the demo's outputs.

use super::files::Files;
use super::watch::Watch;
use crate::failure::{Failure, note};
use perfring_export::json::{JsonLines, Options as JsonOptions};
use perfring_export::{Output, OutputError, Perfetto, PerfettoOptions};
use perfring_set::MergeFigures;
use perfring_sidecar::config::{Delivery, Input, InputSource, OutputConfig};
use perfring_sidecar::{Config, End, Level, Message, Sidecar, Signals};
use signal_hook::consts::SIGTERM;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time that a record waits for earlier ones of other rings.
pub(super) const DELAY_MS: u64 = 5;

/// A thread that runs the sidecar.
#[derive(Debug)]
pub(super) struct Engine {
    signals: Signals,
    thread: JoinHandle<Result<Done, Failure>>,
}

#[derive(Debug)]
pub(super) struct Done {
    /// Records that each output has delivered.
    pub(super) delivered: Vec<(String, u64)>,
    pub(super) merge: MergeFigures,
}

impl Engine {
    /// Follows all rings of a directory.
    pub(super) fn start(dir: &Path, files: &Files, watch: &Watch) -> Self {
        let signals = Signals::default();
        let (dir, files, watch) = (dir.to_owned(), files.clone(), watch.clone());
        let until = signals.clone();
        let thread = std::thread::spawn(move || run(config(&dir, &files, &watch), &until));
        Engine { signals, thread }
    }

    /// Returns whether it ended before it was asked to.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Delivers what was read, then ends it.
    pub(super) fn finish(self) -> Result<Done, Failure> {
        self.signals.stop(SIGTERM);
        let panicked = || Failure::General("demo: the sidecar's thread panicked".to_owned());
        self.thread.join().unwrap_or_else(|_| Err(panicked()))
    }
}

fn config(dir: &Path, files: &Files, watch: &Watch) -> Config {
    let mut config = Config::default();
    config.settings.delay = Duration::from_millis(DELAY_MS);
    config.settings.log_interval = Duration::ZERO;
    config.add_input(Input::new(InputSource::Dir(dir.to_owned())));
    let watch = watch.clone();
    let lines = JsonOptions { path: files.lines.clone(), ..JsonOptions::default() };
    let trace = PerfettoOptions::new(&files.trace);
    config.outputs = vec![
        required("watch", move |_| Ok(watch.clone())),
        required("json lines", move |name| JsonLines::open(name, &lines)),
        required("trace", move |name| Perfetto::open(name, &trace)),
    ];
    config
}

/// An output that must deliver a record before the record leaves its ring.
fn required<O: Output + 'static>(
    name: &str,
    open: impl Fn(&str) -> Result<O, OutputError> + 'static,
) -> OutputConfig {
    let open =
        move |name: &str| -> Result<Box<dyn Output>, OutputError> { Ok(Box::new(open(name)?)) };
    OutputConfig::new(name, Delivery::Required, open)
}

/// Says what is wrong with an output. The screen shows rings and their losses.
fn say(message: &Message<'_>) {
    if message.level < Level::Info && (message.output.is_some() || message.level < Level::Warn) {
        note(&message.to_string());
    }
}

fn run(config: Config, signals: &Signals) -> Result<Done, Failure> {
    let mut sidecar = Sidecar::start(config)?;
    // No signal makes it read its configuration again.
    let mut reload = || Ok(Config::default());
    match sidecar.run(signals, &mut reload, &mut say) {
        End::Signal(_) => {}
        End::ClosedPipe => return Err(Failure::ClosedPipe),
        End::Failed(error) => return Err(Failure::General(format!("demo: {error}"))),
        other => return Err(Failure::General(format!("demo: the sidecar ended: {other:?}"))),
    }
    let engine = sidecar.engine();
    let delivered = |output: perfring_sidecar::OutputStatus<'_>| {
        (output.name.to_owned(), output.figures.delivered)
    };
    Ok(Done { delivered: engine.outputs().map(delivered).collect(), merge: engine.merge_figures() })
}
