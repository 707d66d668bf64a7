//! Inputs: where records come from.

use super::table::{ConfigError, Table};
use perfring_consumer::{Location, Promise, Trust};
use perfring_export::read_some_duration;
use perfring_kernel::{BpfOptions, EventKind, UnknownBpfOption, UnknownEvent};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// A directory of rings, or a single ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// What is read.
    pub source: InputSource,
    /// The beginning of the names of its rings, before a slash.
    pub name: Option<String>,
    /// How its rings are read.
    pub mode: Mode,
    /// Where an observed ring without a saved position is started.
    pub from: From,
    /// Which drop rings' records are copied before they are decoded: by default those of rings that
    /// other users may write to. (A ring whose file is truncated is set aside in any case.)
    pub trust: Trusted,
    /// After this many seconds a ring of a directory is removed that is read to its end, and whose
    /// producers are dead. An overwrite ring with records stays: they are a program's last words. So does one with a
    /// metrics area.
    pub prune_after: Option<Duration>,
    /// Whether outputs are given its records before those of other rings. `None`: those of the rings whose
    /// [names](perfring_set::is_priority) say so.
    pub priority: Option<bool>,
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InputSource {
    /// All rings in a directory, as they come and go.
    Dir(PathBuf),
    /// One ring, now or once it exists.
    Ring(Location),
    /// Kernel events.
    Kernel {
        /// The events.
        events: Vec<EventKind>,
        /// The process; `None` for all processes.
        pid: Option<u32>,
    },
    /// A BPF ring-buffer map.
    Bpf(BpfOptions),
}

/// How rings are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Drop rings are consumed, overwrite rings observed. Without any output, all rings are observed.
    #[default]
    Auto,
    /// As the only consumer: delivered records make room for new ones. Overwrite rings are also
    /// read by their only consumer, with the position saved in the ring.
    Consume,
    /// As one of any number of observers: nothing is consumed, and no producer waits.
    Observe,
}

/// Where a ring is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// At its oldest record.
    #[default]
    Oldest,
    /// With new records only.
    Latest,
}

/// The operator's word for a [`Trust`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trusted {
    /// `auto`: copies where other users than this process's may write.
    #[default]
    Auto,
    /// `peers`: the operator promises that all processes which may write the rings keep to the
    /// protocol.
    Peers,
    /// `nobody`: copies.
    Nobody,
}

impl Trusted {
    #[allow(unsafe_code, reason = "the promise is the operator's, who is the one that can make it")]
    pub(crate) fn trust(self) -> Trust {
        match self {
            Trusted::Auto => Trust::Auto,
            // SAFETY: by choosing this word the operator promises it: see its documentation, and that
            // of the command's `--trust`.
            Trusted::Peers => Trust::Peers(unsafe { Promise::all_writers_keep_to_the_protocol() }),
            Trusted::Nobody => Trust::Nobody,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Keys {
    name: Option<String>,
    dir: Option<PathBuf>,
    ring: Option<String>,
    perf: Vec<String>,
    pid: Option<u32>,
    bpf: Option<String>,
    mode: Mode,
    from: From,
    trust: Trusted,
    #[serde(deserialize_with = "read_some_duration")]
    prune_after: Option<Duration>,
    priority: Option<bool>,
}

impl Input {
    /// Creates an input of this source, read as suits the rings.
    #[must_use]
    pub fn new(source: InputSource) -> Self {
        let (mode, from, trust) = (Mode::Auto, From::Oldest, Trusted::Auto);
        Input { source, name: None, mode, from, trust, prune_after: None, priority: None }
    }

    pub(super) fn read(table: Table<'_>) -> Result<Self, ConfigError> {
        let at = table.at();
        let mut keys: Keys = table.read()?;
        let events: Result<Vec<EventKind>, _> = keys.perf.iter().map(|name| name.parse()).collect();
        let events =
            events.map_err(|error: UnknownEvent| at.error_in("perf", &error.to_string()))?;
        if events.is_empty() && keys.pid.is_some() {
            return Err(at.error_in("pid", "pid is for perf"));
        }
        let bpf: Option<Result<BpfOptions, _>> = keys.bpf.as_deref().map(str::parse);
        let bpf = bpf
            .transpose()
            .map_err(|error: UnknownBpfOption| at.error_in("bpf", &error.to_string()))?;
        let source = match (keys.dir.take(), keys.ring.take(), events.is_empty(), bpf) {
            (Some(dir), None, true, None) => InputSource::Dir(dir),
            _ if keys.prune_after.is_some() => {
                return Err(at.error_in("prune_after", "prune_after is for directories"));
            }
            (None, Some(ring), true, None) => InputSource::Ring(Location::from(&*ring)),
            (None, None, false, None) => InputSource::Kernel { events, pid: keys.pid },
            (None, None, true, Some(mut bpf)) => {
                bpf.observe |= keys.mode == Mode::Observe;
                InputSource::Bpf(bpf)
            }
            _ => return Err(at.error("an input has one of dir, ring, perf and bpf")),
        };
        let Keys { name, mode, from, trust, prune_after, priority, .. } = keys;
        if name.as_ref().is_some_and(|name| name.trim().is_empty()) {
            let what = "the name of an input is empty: give it one, or leave the key out";
            return Err(at.error_in("name", what));
        }
        Ok(Input { source, name, mode, from, trust, prune_after, priority })
    }

    /// Changes the mode to one that consumes nothing, unless the operator chose the mode.
    pub(super) fn observe(&mut self) {
        if self.mode == Mode::Auto {
            self.mode = Mode::Observe;
            if let InputSource::Bpf(options) = &mut self.source {
                options.observe = true;
            }
        }
    }

    /// Describes that a directory or a ring is not there, if that is so.
    pub(super) fn describe_missing(&self) -> Option<String> {
        let path = match &self.source {
            InputSource::Dir(dir) => dir.clone(),
            InputSource::Ring(location) => location.path(),
            InputSource::Kernel { .. } | InputSource::Bpf(_) => return None,
        };
        // A path that may not be read is another matter.
        let is_missing = matches!(path.try_exists(), Ok(false));
        is_missing
            .then(|| format!("{} does not exist yet: the sidecar waits for it", path.display()))
    }

    /// Returns what it reads.
    pub(crate) fn what(&self) -> String {
        match &self.source {
            InputSource::Dir(dir) => format!("all rings in {}", dir.display()),
            InputSource::Ring(location) => format!("the ring {location}"),
            InputSource::Kernel { events, pid } => {
                let events: Vec<String> = events.iter().map(ToString::to_string).collect();
                let whose = pid.map_or("all processes".to_owned(), |pid| format!("process {pid}"));
                format!("the kernel's {} of {whose}", events.join(", "))
            }
            InputSource::Bpf(options) => format!("the BPF map {options}"),
        }
    }

    pub(super) fn describe(&self) -> String {
        let what = self.what();
        let priority = match self.priority {
            Some(true) => "; given to outputs before others",
            Some(false) => "; without priority, whatever their names",
            None => "",
        };
        let named =
            self.name.as_ref().map_or(String::new(), |name| format!("; names begin with {name}/"));
        if let InputSource::Kernel { .. } = self.source {
            return format!("reads {what}{priority}{named}");
        }
        if let InputSource::Bpf(options) = &self.source {
            let how = if options.observe { "observed" } else { "consumed" };
            return format!("reads {what}: {how}{priority}{named}");
        }
        let mode = match self.mode {
            Mode::Auto => "drop rings are consumed, overwrite rings observed",
            Mode::Consume => "consumed",
            Mode::Observe => "observed",
        };
        let prune = self.prune_after.map_or(String::new(), |after| {
            let after = match after.is_zero() {
                true => "once".to_owned(),
                false => format!("{} after", humantime::format_duration(after)),
            };
            format!("; removed {after} they were read and their producers ended")
        });
        let trust = match self.trust {
            _ if self.mode == Mode::Observe => "",
            Trusted::Auto => "; copied where others may write",
            Trusted::Nobody => "; copied",
            Trusted::Peers => "; not copied",
        };
        format!("reads {what}: {mode}{trust}{prune}{priority}{named}")
    }
}
