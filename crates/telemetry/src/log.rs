//! A sink for the `log` crate (feature `log`).

use crate::names;
use crate::severity::Severity;
use crate::signals::Log;
use crate::sink::Sink;
use crate::value::Value;
use log::{Level, LevelFilter, Metadata, Record, SetLoggerError};

/// Writes the records of the `log` crate into a ring.
///
/// All records are of the type [`Log`], with their target and source location in the record, because
/// `log` has no static call sites that could be registered as types. Key-value pairs are not written.
/// A program that uses `tracing` as well takes `perfring-tracing` and `tracing-log` instead.
///
/// ```
/// use perfring_telemetry::{Resource, Sink, log::RingLog, options};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("ring");
/// let sink = Sink::create(&path, &options(), Resource::here())?;
/// RingLog::new(sink).install(log::LevelFilter::Info)?;
/// log::warn!("disk is nearly full");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RingLog {
    sink: Sink,
}

impl RingLog {
    /// Creates a logger that writes to this sink.
    #[must_use]
    pub fn new(sink: Sink) -> Self {
        RingLog { sink }
    }

    /// Installs it as the program's logger, for records up to this level.
    ///
    /// # Errors
    /// [`SetLoggerError`] if the program has a logger.
    pub fn install(self, level: LevelFilter) -> Result<(), SetLoggerError> {
        log::set_boxed_logger(Box::new(self))?;
        log::set_max_level(level);
        Ok(())
    }
}

impl log::Log for RingLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true // `log::max_level` has decided
    }

    fn log(&self, record: &Record<'_>) {
        let severity = match record.level() {
            Level::Error => Severity::Error,
            Level::Warn => Severity::Warn,
            Level::Info => Severity::Info,
            Level::Debug => Severity::Debug,
            Level::Trace => Severity::Trace,
        };
        let module = record.module_path().filter(|module| *module != record.target());
        let attributes = [(names::MODULE, Value::from(module.unwrap_or_default()))];
        let text = record.args();
        // The ring counts what it refuses.
        let _ = self.sink.emit(&Log {
            severity: Some(severity),
            body: text.as_str().map_or(Value::Display(text), Value::Str),
            scope: record.target(),
            file: record.file().unwrap_or_default(),
            line: record.line(),
            attributes: if module.is_some() { &attributes } else { &[] },
            ..Log::default()
        });
    }

    fn flush(&self) {}
}
