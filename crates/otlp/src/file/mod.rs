//! OTLP as lines of JSON, in files.

mod json;
#[cfg(test)]
mod json_tests;
mod names;

use crate::mapper::Mapper;
use crate::mapping::{Lane, Mapping};
use perfring_events::{Event, Figures, Output, OutputError, Terms, Took, What};
use perfring_files::json::{Integers, Lines, Options};
use serde::Deserialize;
use std::time::Instant;

/// Options of an [`OtlpFile`].
///
/// ```
/// use perfring_otlp::FileOptions;
/// let options: FileOptions = toml::from_str(r#"
///     path = "telemetry.jsonl"
///     max_bytes = "64M"
///     signals = ["logs"]
/// "#)?;
/// assert_eq!((options.lines.max_bytes, options.mapping.signals.len()), (64 << 20, 1));
/// assert!(toml::from_str::<FileOptions>("colour = 1").is_err());
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileOptions {
    /// Where lines are written, and how: keys like all others. `integers` stays as it is by default, for OTLP writes those of 64
    /// bits as text.
    #[serde(flatten)]
    pub lines: Options,
    /// How records become log records, data points and spans, and these lines: keys like all others.
    #[serde(flatten)]
    pub mapping: Mapping,
    /// What it has in common with other outputs.
    #[serde(skip)]
    pub terms: Terms,
}

/// Writes OTLP as lines of JSON, in the format of the specification's file exporter. The OpenTelemetry Collector's receiver
/// `otlp_json_file` reads them (`otlpjsonfile` before its renaming in 2026). Each line is a request, an object with
/// `resourceLogs`, `resourceMetrics` or `resourceSpans`. The [crate](crate) says what becomes of a record; files are those of
/// [`perfring_files::json`].
///
/// ```
/// use perfring_events::Output;
/// use perfring_otlp::{FileOptions, OtlpFile};
/// # let dir = tempfile::tempdir()?;
/// let mut options = FileOptions::default();
/// options.lines.path = dir.path().join("telemetry.jsonl");
/// let mut file = OtlpFile::open("telemetry", &options)?;
/// // file.take(&event)? for each event
/// file.close(std::time::Instant::now())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OtlpFile {
    mapper: Mapper,
    lines: Lines,
    taken: u64,
    /// Records of requests that this crate cannot write.
    malformed: u64,
}

impl OtlpFile {
    /// Checks the options, and where lines are written.
    ///
    /// # Errors
    /// What [`OtlpFile::open`] would refuse, but for another process that writes to the file.
    pub fn check(name: &str, options: &FileOptions) -> Result<(), OutputError> {
        if options.lines.integers != Integers::Number {
            let why = "OTLP writes integers of 64 bits as text: remove `integers`";
            return Err(OutputError::new(name, why));
        }
        options.mapping.check(name)?;
        Lines::check(name, &options.lines)
    }

    /// Opens the file, which is created if it does not exist, or stdout.
    ///
    /// # Errors
    /// The options are invalid, the file cannot be written to, or another process writes to it.
    pub fn open(name: &str, options: &FileOptions) -> Result<Self, OutputError> {
        Self::check(name, options)?;
        let lines = Options { terms: options.terms.clone(), ..options.lines.clone() };
        let lines = Lines::open(name, &lines)?;
        Ok(OtlpFile { mapper: Mapper::new(&options.mapping), lines, taken: 0, malformed: 0 })
    }

    /// Writes the requests that are complete.
    fn send(&mut self) -> Result<(), OutputError> {
        for (lane, batch) in self.mapper.ready() {
            self.line(lane, (batch.seq(), batch.records()), &batch.into_message())?;
        }
        Ok(())
    }

    /// Writes a request, with the number of its first event and of its records.
    fn line(
        &mut self,
        lane: Lane,
        (seq, records): (u64, u64),
        request: &[u8],
    ) -> Result<(), OutputError> {
        let message = match lane {
            Lane::Logs => &names::LOGS,
            Lane::Metrics => &names::METRICS,
            Lane::Traces => &names::TRACES,
        };
        let malformed = &mut self.malformed;
        self.lines.put(seq, records, |line| {
            let begin = line.len();
            let is_whole = json::object(message, request, line).is_some();
            if !is_whole {
                line.truncate(begin);
                *malformed += records;
            }
            is_whole
        })
    }
}

impl Output for OtlpFile {
    fn add_resource(&mut self, attributes: &[(String, String)]) {
        self.mapper.add_resource(attributes);
    }

    fn take(&mut self, event: &Event<'_>) -> Result<Took, OutputError> {
        if self.lines.is_full()? {
            return Ok(Took::Busy);
        }
        self.taken += u64::from(matches!(event.what, What::Record(_)));
        self.mapper.take(event);
        self.send()?;
        Ok(Took::Yes)
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.mapper.tend();
        self.send()?;
        self.lines.flush()
    }

    fn hurry(&mut self) {
        self.mapper.hurry();
    }

    fn retry(&mut self) -> bool {
        self.lines.retry()
    }

    fn unsettled(&mut self) -> Option<u64> {
        let oldest = self.mapper.oldest().into_iter().chain(self.lines.unsettled()).min();
        oldest.filter(|seq| *seq != u64::MAX) // what holds nothing back
    }

    fn close(&mut self, deadline: Instant) -> Result<(), OutputError> {
        self.mapper.close();
        self.send()?;
        self.lines.close(deadline)
    }

    fn figures(&self) -> Figures {
        let written = self.lines.figures();
        let delivered = self.mapper.delivered() + written.delivered;
        let mut figures = Figures { taken: self.taken, delivered, ..written };
        self.mapper.left_out().add_to(&mut figures);
        if self.malformed > 0 {
            figures.refuse("malformed", self.malformed);
        }
        figures
    }
}
