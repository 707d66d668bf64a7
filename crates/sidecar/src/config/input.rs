//! Where records come from.

use super::ConfigError;
use super::table::Table;
use perfring_consumer::Home;
use serde::Deserialize;
use std::path::PathBuf;

/// A directory of rings, or a single ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Which.
    pub place: Place,
    /// How its rings are read.
    pub mode: Mode,
    /// Where a ring is begun that is observed and of which no place is saved.
    pub from: From,
    /// After so many seconds a ring of a directory is removed that is read to its end, and whose
    /// producers are gone. An overwrite ring with records stays: they are somebody's last words.
    pub prune_after_seconds: Option<u64>,
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// All rings in a directory, as they come and go.
    Dir(PathBuf),
    /// One ring, now or once it is there.
    Ring(Home),
}

/// How rings are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Drop rings are consumed, overwrite rings observed.
    #[default]
    Auto,
    /// As the one consumer: what was delivered makes room for more. Rings that overwrite are read
    /// by their one consumer as well, with the place saved in the ring.
    Consume,
    /// As one of any number that look on: nothing is moved, and nobody waits for this one.
    Observe,
}

/// Where a ring is begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// At its oldest record.
    #[default]
    Oldest,
    /// With what comes from now on.
    Latest,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Keys {
    dir: Option<PathBuf>,
    ring: Option<String>,
    mode: Mode,
    from: From,
    prune_after_seconds: Option<u64>,
}

impl Input {
    /// Of this place, read as suits the rings.
    #[must_use]
    pub fn new(place: Place) -> Self {
        Input { place, mode: Mode::Auto, from: From::Oldest, prune_after_seconds: None }
    }

    pub(super) fn read(table: Table<'_>) -> Result<Self, ConfigError> {
        let wrong = table.error("an input has either dir or ring");
        let no_prune = table.error("prune_after_seconds is for directories");
        let keys: Keys = table.read()?;
        let place = match (keys.dir, keys.ring) {
            (Some(dir), None) => Place::Dir(dir),
            (None, Some(_)) if keys.prune_after_seconds.is_some() => return Err(no_prune),
            (None, Some(ring)) => Place::Ring(Home::from(&*ring)),
            _ => return Err(wrong),
        };
        let prune_after_seconds = keys.prune_after_seconds;
        Ok(Input { place, mode: keys.mode, from: keys.from, prune_after_seconds })
    }

    pub(super) fn describe(&self) -> String {
        let place = match &self.place {
            Place::Dir(dir) => format!("all rings in {}", dir.display()),
            Place::Ring(home) => format!("the ring {home}"),
        };
        let mode = match self.mode {
            Mode::Auto => "drop rings are consumed, overwrite rings observed",
            Mode::Consume => "consumed",
            Mode::Observe => "observed",
        };
        let prune = self.prune_after_seconds.map_or(String::new(), |seconds| {
            format!("; removed {seconds} s after they were read and left by their producers")
        });
        format!("reads {place}: {mode}{prune}")
    }
}
