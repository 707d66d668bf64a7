//! The configuration of a sidecar: a TOML file, flags, or both.

mod files;
pub(crate) mod filter;
mod input;
mod kinds;
pub(crate) mod record_rule;
mod resource;
pub(crate) mod service;
pub(crate) mod snapshot_rule;
mod table;

pub use input::{From, Input, InputSource, Mode, Trusted};
pub use kinds::{Delivery, OutputConfig};
pub use perfring_types::read::parse_duration;
pub(crate) use service::REASONS;
pub use service::{Control, Health, Own};
pub use table::ConfigError;

use crate::log::LogFormat;
use files::Places;
use perfring_export::{FileMode, Terms, read_duration};
use record_rule::RecordRule;
use serde::Deserialize;
use snapshot_rule::SnapshotRule;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::Tables;

/// The configuration of a sidecar.
///
/// ```
/// use perfring_sidecar::Config;
/// let config = Config::parse(r#"
///     delay = "20ms"
///
///     [[input]]
///     dir = "/run/rings"
///
///     [[output]]
///     type = "json"
///     path = "/var/log/rings.jsonl"
///     max_bytes = 100_000_000
/// "#, "sidecar.toml")?;
/// assert_eq!(config.inputs.len(), 1);
/// assert_eq!(config.outputs[0].name, "json");
///
/// let error = Config::parse("dealy = \"20ms\"", "sidecar.toml").unwrap_err();
/// assert!(error.to_string().starts_with("sidecar.toml, line 1: unknown field `dealy`"));
/// # Ok::<(), perfring_sidecar::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// General settings.
    pub settings: Settings,
    /// The inputs.
    pub inputs: Vec<Input>,
    /// The outputs.
    pub outputs: Vec<OutputConfig>,
    /// When to keep what overwrite rings hold.
    pub snapshots: Vec<SnapshotRule>,
    /// Which records outputs are not given.
    pub record_rules: Vec<RecordRule>,
    /// `[resource]`: attributes that outputs add to the resource of each process. An attribute that the process has wins.
    pub resource: Vec<(String, String)>,
}

/// The usual time between two samples of a metrics area.
pub(crate) const METRICS_INTERVAL: Duration = Duration::from_secs(5);

/// General settings of a sidecar: the keys at the beginning of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How much a record may arrive later than others and still be put in the order of
    /// time: each record is held back for this long. Each quiet ring is polled twice in this time:
    /// with 100 ms, a thousand of them cost most of a hundredth of a core, and more with less.
    #[serde(deserialize_with = "read_duration")]
    pub delay: Duration,
    /// How long rings are read at the end, at most, until outputs have what they held when a signal
    /// asked for it: `"10s"`.
    #[serde(deserialize_with = "read_duration")]
    pub drain: Duration,
    /// The time that outputs have after that to deliver what they hold.
    #[serde(deserialize_with = "read_duration")]
    pub shutdown: Duration,
    /// The file in which the positions in observed rings are saved, so that the next run continues
    /// there. Without it, reading starts at their oldest records again. (A ring that is consumed
    /// keeps its own position.) Its directory is created if it does not exist.
    pub state: Option<PathBuf>,
    /// The time between two saves.
    #[serde(deserialize_with = "read_duration")]
    pub state_interval: Duration,
    /// A file that is replaced at each interval with the figures of rings and outputs, as JSON.
    pub status: Option<PathBuf>,
    /// The time between two of these. SIGUSR1 requests one at once.
    #[serde(deserialize_with = "read_duration")]
    pub status_interval: Duration,
    /// The time between two lines of figures on stderr; 0 for none, also at the end.
    #[serde(deserialize_with = "read_duration")]
    pub log_interval: Duration,
    /// The form of its messages.
    pub log: LogFormat,
    /// The ring for its own figures, if they are to go to its outputs.
    pub own: Option<Own>,
    /// The endpoint that says how it is, if there is to be one.
    pub health: Option<Health>,
    /// The socket for requests, if there is to be one.
    pub control: Option<Control>,
    /// The mode of the files that outputs create, of snapshots and of the status: `"0640"`.
    pub mode: FileMode,
    /// The time between two samples of the instruments in the metrics areas of rings: each is a record for the outputs.
    #[serde(deserialize_with = "read_duration")]
    pub metrics_interval: Duration,
    /// The longest pause between two attempts of an output.
    #[serde(deserialize_with = "read_duration")]
    pub max_backoff: Duration,
}

impl Settings {
    /// Returns what outputs have in common.
    pub(crate) fn terms(&self) -> Terms {
        let dir = self.state.as_deref().map(|state| match state.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
            _ => ".".into(),
        });
        Terms { mode: self.mode, max_backoff: self.max_backoff, dead_letters: dir }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            delay: Duration::from_millis(100),
            drain: Duration::from_secs(10),
            shutdown: Duration::from_secs(10),
            state: None,
            state_interval: Duration::from_secs(1),
            status: None,
            status_interval: Duration::from_secs(10),
            log_interval: Duration::from_secs(60),
            log: LogFormat::default(),
            own: None,
            health: None,
            control: None,
            mode: FileMode::default(),
            metrics_interval: METRICS_INTERVAL,
            max_backoff: Terms::default().max_backoff,
        }
    }
}

impl Config {
    /// Returns the path of the socket that a configuration names in `[control]`, for a program that asks the sidecar. Nothing
    /// else of it needs to be valid here, as a variable of the sidecar's environment.
    ///
    /// # Errors
    /// [`ConfigError`]: the file cannot be read, is no TOML, or `[control]` is invalid.
    pub fn socket(path: &Path) -> Result<Option<PathBuf>, ConfigError> {
        let (text, name) = text_of(path)?;
        let control = Tables::parse(&text, &name)?.take_one("control")?;
        Ok(control
            .map(|table| table.read::<Control>())
            .transpose()?
            .and_then(|control| control.path))
    }

    /// Parses a configuration; `name` is its name in errors.
    ///
    /// # Errors
    /// [`ConfigError`] with the line.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let mut tables = Tables::parse(text, name)?;
        let inputs = tables.take("input")?;
        let outputs = tables.take("output")?;
        let rules = tables.take("snapshot")?;
        let record_rules = tables.take("rule")?;
        let resource = tables.take_one("resource")?;
        let environment = |name: &str| std::env::var(name).ok();
        let resource = resource.map(|table| resource::read(table, &environment)).transpose()?;
        let resource = resource.unwrap_or_default();
        let mut config = Config { settings: tables.rest()?, resource, ..Config::default() };
        for table in inputs {
            config.inputs.push(Input::read(table)?);
        }
        for table in outputs {
            let output = OutputConfig::read(table, &config.names())?;
            config.push(output);
        }
        for table in rules {
            config.snapshots.push(SnapshotRule::read(table)?);
        }
        for table in record_rules {
            config.record_rules.push(RecordRule::read(table)?);
        }
        Ok(config)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`]: it cannot be read, or see [`Config::parse`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (text, name) = text_of(path)?;
        Self::parse(&text, &name)
    }

    /// Adds the output of a flag `--output`: `KIND`, or `KIND:` and the kind's first option, as in
    /// `json:events.jsonl`.
    ///
    /// ```
    /// use perfring_sidecar::Config;
    /// let mut config = Config::default();
    /// config.add_output("json:-")?;
    /// config.add_output("null")?;
    /// assert!(config.add_output("fax:12345").unwrap_err().to_string().contains("known are"));
    /// # Ok::<(), perfring_sidecar::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn add_output(&mut self, flag: &str) -> Result<(), ConfigError> {
        let output = OutputConfig::of_flag(flag, &self.names())?;
        self.push(output);
        Ok(())
    }

    /// Adds a directory of rings, or a single ring.
    pub fn add_input(&mut self, input: Input) {
        self.inputs.push(input);
    }

    /// Checks the configuration as a whole.
    ///
    /// # Errors
    /// [`ConfigError`]: no input, two of one directory or ring, no output, two of one name, two with one file or one address, a place that cannot be
    /// written to, an address that is none, a file that cannot be read, or a rule for an output that is not there.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.inputs.is_empty() {
            return Err(ConfigError(
                "there is no input: name a directory of rings, or write [[input]] with dir, \
                 ring or perf"
                    .to_owned(),
            ));
        }
        if self.outputs.is_empty() && self.snapshots.is_empty() {
            return Err(ConfigError(
                "there is no output: write --output json:-, or [[output]] with type = \"json\", or [[snapshot]]"
                    .to_owned(),
            ));
        }
        let mut names = HashSet::new();
        if let Some(twice) = self.outputs.iter().find(|output| !names.insert(&output.name)) {
            return Err(ConfigError(format!(
                "two outputs are called {:?}: give one of them another name",
                twice.name
            )));
        }
        if let Some(health) = &self.settings.health {
            health.check()?;
        }
        RecordRule::check(&self.record_rules, &self.outputs)?;
        let settings = &self.settings;
        files::check(&Places {
            inputs: &self.inputs,
            outputs: &self.outputs,
            snapshots: &self.snapshots,
            terms: &settings.terms(),
            state: settings.state.as_deref(),
            status: settings.status.as_deref(),
            control: settings.control.as_ref().and_then(|control| control.path.as_deref()),
            own: settings.own.as_ref().map(|own| &*own.ring),
            health: settings.health.as_ref().map(|health| &*health.listen),
        })
    }

    /// Returns how long an output may take to deliver what was read.
    pub(crate) fn delivered_within(&self, output: &str) -> Duration {
        let output = self.outputs.iter().find(|of| of.name == output);
        let of = output.and_then(|of| of.delivered_within);
        let all = || {
            let health = self.settings.health.as_ref().map(|health| health.delivered_within);
            let within = health.unwrap_or_else(|| Health::default().delivered_within);
            within.saturating_add(output.map_or(Duration::ZERO, |of| of.held_for))
        };
        of.unwrap_or_else(all)
    }

    /// Returns whether the sidecar is not ready while a ring is not read for this reason.
    pub(crate) fn needs(&self, reason: perfring_set::NotRead) -> bool {
        match &self.settings.health {
            Some(health) => health.needs(reason),
            None => Health::default().needs(reason),
        }
    }

    /// Returns the configuration that is applied: without an output, inputs consume nothing, because their records would be lost.
    pub(crate) fn settled(mut self) -> Self {
        if self.outputs.is_empty() {
            self.inputs.iter_mut().for_each(Input::observe);
        }
        self
    }

    /// Describes it, one item per line: for `--check`.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let settled = self.clone().settled();
        let inputs = settled
            .inputs
            .iter()
            .flat_map(|input| std::iter::once(input.describe()).chain(input.describe_missing()));
        let outputs = self
            .outputs
            .iter()
            .flat_map(|output| std::iter::once(output.describe()).chain(output.describe_pipe()));
        let rules = self.record_rules.iter().map(RecordRule::describe);
        let snapshots = self
            .snapshots
            .iter()
            .flat_map(|rule| std::iter::once(rule.describe()).chain(rule.describe_missing()));
        let added = self.resource.iter();
        let added =
            added.map(|(name, value)| format!("adds {name}={value} to each process's resource"));
        inputs.chain(outputs).chain(rules).chain(snapshots).chain(added).collect()
    }

    fn push(&mut self, mut output: OutputConfig) {
        output.resource.clone_from(&self.resource);
        self.outputs.push(output);
    }

    fn names(&self) -> HashSet<String> {
        self.outputs.iter().map(|output| output.name.clone()).collect()
    }
}

/// Reads a configuration, and returns its text and its name in errors.
fn text_of(path: &Path) -> Result<(String, String), ConfigError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError(format!("cannot read {name}: {error}")))?;
    Ok((text, name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
    use super::*;

    #[test]
    fn a_file_that_delivers_at_its_end_has_that_much_longer() {
        let within = |keys: &str| {
            let output = format!("[[output]]\ntype = \"perf-data\"\npath = \"x\"\n{keys}");
            let input = "[[input]]\ndir = \"/rings\"\n";
            let config = Config::parse(&format!("{input}{output}"), "test").unwrap();
            config.delivered_within("perf-data").as_secs()
        };
        assert_eq!(within(""), 30 + 300);
        assert_eq!(within("max_age = \"1m\""), 30 + 60);
        assert_eq!(within("max_age = \"0s\""), 30);
        assert_eq!(within("delivered_within = \"7s\""), 7);
    }
}
