//! Rules of the flight recorder: when to keep what overwrite rings hold.

use super::filter::{Severity, severity};
use super::table::{ConfigError, Table};
use perfring_export::{Rec, read_duration, read_some_duration};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// A rule of `[[snapshot]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRule {
    /// The trigger.
    pub on: On,
    /// The directory of the files.
    pub dir: PathBuf,
    /// The least time between two snapshots by this rule.
    pub min_interval: Duration,
    /// How many snapshots by this rule are kept, the newest.
    pub keep: usize,
    /// Whether snapshots have the evidence of causes for `perfring why`, and what that says in a file beside each.
    pub why: bool,
    /// A gap between two records counts in that file from this length on.
    pub slower_than: Duration,
}

/// The trigger of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// A record of this type, by name.
    Type(String),
    /// A record with at least this severity.
    Severity(u64),
    /// A ring has lost its last producer: it died, or detached. A ring does not distinguish the
    /// two.
    ProducerDeath,
    /// Only SIGUSR2.
    Signal,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    on: String,
    dir: PathBuf,
    #[serde(default = "interval", deserialize_with = "read_duration")]
    min_interval: Duration,
    #[serde(default = "keep")]
    keep: usize,
    #[serde(default)]
    why: bool,
    #[serde(default, deserialize_with = "read_some_duration")]
    slower_than: Option<Duration>,
}

fn interval() -> Duration {
    Duration::from_secs(60)
}

fn keep() -> usize {
    10
}

fn slower_than() -> Duration {
    Duration::from_nanos(perfring_why::Options::default().slower_than)
}

impl SnapshotRule {
    pub(crate) fn read(table: Table<'_>) -> Result<Self, ConfigError> {
        let at = table.at();
        let wrong = |what: &str| at.error_in("on", what);
        let keys: Keys = table.read()?;
        let on = match &*keys.on {
            "producer death" => On::ProducerDeath,
            "signal" | "" => On::Signal,
            on => match (on.strip_prefix("type "), on.strip_prefix("severity>=")) {
                (Some(name), _) => On::Type(name.trim().to_owned()),
                (_, Some(least)) => {
                    let least = Severity::parse(least.trim()).map_err(|what| wrong(&what))?;
                    On::Severity(least.number())
                }
                _ => {
                    return Err(wrong(
                        "a snapshot is on = \"type NAME\", \"severity>=17\", \"producer death\" or \"signal\"",
                    ));
                }
            },
        };
        let Keys { dir, min_interval, keep, why, .. } = keys;
        if keep == 0 {
            let what = "no snapshot would be kept: write 1 or more, or leave the [[snapshot]] out";
            return Err(at.error_in("keep", what));
        }
        if keys.slower_than.is_some() && !why {
            let what = "slower_than is for snapshots with why = true";
            return Err(at.error_in("slower_than", what));
        }
        let slower_than = keys.slower_than.unwrap_or_else(slower_than);
        if dir.as_os_str().is_empty() {
            return Err(at.error_in("dir", "it is empty: name a directory for snapshots"));
        }
        Ok(SnapshotRule { on, dir, min_interval, keep, why, slower_than })
    }

    /// Returns whether this record triggers the rule.
    #[must_use]
    pub fn is_met_by(&self, record: &Rec<'_>) -> bool {
        match &self.on {
            On::Type(name) => record.kind_of().is_some_and(|kind| kind.name == *name),
            On::Severity(least) => severity(record).is_some_and(|severity| severity >= *least),
            On::ProducerDeath | On::Signal => false,
        }
    }

    /// Creates a rule that only SIGUSR2 triggers.
    #[must_use]
    pub fn on_signal(dir: PathBuf) -> Self {
        SnapshotRule {
            on: On::Signal,
            dir,
            min_interval: interval(),
            keep: keep(),
            why: false,
            slower_than: slower_than(),
        }
    }

    pub(crate) fn waits_for_death(&self) -> bool {
        self.on == On::ProducerDeath
    }

    /// Returns the reason as it appears in the name of a snapshot.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.on {
            On::Type(name) => format!("type {name}"),
            On::Severity(least) => format!("severity {least}"),
            On::ProducerDeath => "producer death".to_owned(),
            On::Signal => "signal".to_owned(),
        }
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "keeps what overwrite rings hold in {} on {}, at most every {}, the last {}{}",
            self.dir.display(),
            self.reason(),
            humantime::format_duration(self.min_interval),
            self.keep.max(1),
            if self.why { ", each with the causes of its gaps and losses" } else { "" }
        )
    }

    /// Says that the directory is not there, and which permission is missing for causes.
    pub(super) fn describe_missing(&self) -> impl Iterator<Item = String> {
        let dir = self.dir.display();
        let is_new = matches!(self.dir.try_exists(), Ok(false));
        let is_new =
            is_new.then(|| format!("{dir} does not exist yet: the first snapshot makes it"));
        is_new.into_iter().chain(self.why.then(perfring_witness::missing).flatten())
    }
}
