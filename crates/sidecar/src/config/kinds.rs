//! The kinds of outputs.

use super::filter::{Filter, Severity, Where};
use super::table::{ConfigError, Table};
use perfring_export::registry::{self, Delivers, Kind, Opener, Place};
use perfring_export::{
    BufferOptions, Buffered, DeadLetterFile, Output, OutputError, Terms, read_duration, read_size,
    read_some_duration,
};
use serde::Deserialize;
use std::collections::HashSet;
use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

/// The age at which a file is finished that cannot be read before that, unless the configuration has another: a file without an
/// end would hold its rings for ever.
const MAX_AGE: &str = "5m";

/// The delivery guarantee of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// A record leaves its ring only after this output has delivered it: at least once. If it
    /// cannot, records stay in the rings, and other outputs go on.
    #[default]
    Required,
    /// Records that this output has no room for are dropped and counted: it never holds anything
    /// back.
    BestEffort,
}

impl Delivery {
    /// Returns its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Delivery::Required => "required",
            Delivery::BestEffort => "best-effort",
        }
    }
}

/// The configuration of an output.
#[derive(Clone)]
pub struct OutputConfig {
    /// Its unique name.
    pub name: String,
    /// Its kind: the key `type`.
    pub kind: String,
    /// Its delivery guarantee.
    pub delivery: Delivery,
    /// The records that it gets.
    pub filter: Filter,
    /// What it has no room for waits there.
    pub buffer: Option<BufferOptions>,
    /// How long it may take to deliver what was read, before the sidecar is not ready.
    pub delivered_within: Option<Duration>,
    /// How long it may hold records until their file is finished; 0 if they are delivered at once.
    pub(super) held_for: Duration,
    /// The limits at which its file is finished, and the next file begun.
    limits: Limits,
    /// The file or the directory that it writes to, or `-` for stdout.
    pub(super) file: Option<PathBuf>,
    /// Where it keeps what its receiver refuses for good.
    pub(super) dead_letters: DeadLetterFile,
    /// The address that it listens on.
    pub(crate) listen: Option<String>,
    /// Attributes that it adds to the resource of each process.
    pub(super) resource: Vec<(String, String)>,
    /// Where it stands in the configuration, for errors.
    pub(super) place: String,
    same: String,
    /// Its other keys and values, without secrets.
    settings: Vec<String>,
    open: Opener,
}

/// The limits at which a file is finished; 0 for none.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    max_bytes: u64,
    max_age: Duration,
}

/// A size as a configuration has it.
#[derive(Deserialize)]
struct Size(#[serde(deserialize_with = "read_size")] u64);

/// A time as a configuration has it.
#[derive(Deserialize)]
struct Time(#[serde(deserialize_with = "read_duration")] Duration);

impl Limits {
    /// Reads the keys of an output, which says what is wrong with them.
    fn of(table: &Table<'_>) -> Self {
        Limits {
            max_bytes: table.value("max_bytes").map_or(0, |Size(bytes)| bytes),
            max_age: table.value("max_age").map_or(Duration::ZERO, |Time(age)| age),
        }
    }

    fn describe(self) -> Vec<String> {
        let bytes = (self.max_bytes > 0).then(|| format!("at {} bytes", self.max_bytes));
        let age = (!self.max_age.is_zero())
            .then(|| format!("after {}", humantime::format_duration(self.max_age)));
        bytes.into_iter().chain(age).collect()
    }
}

/// Keys that the sentence about an output has in other words.
const DESCRIBED: [&str; 6] = ["type", "name", "delivery", "buffer", "max_bytes", "max_age"];

/// Keys of all outputs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Common {
    r#type: String,
    name: String,
    delivery: Delivery,
    types: Vec<String>,
    r#where: Vec<Where>,
    min_severity: Option<Severity>,
    buffer: Option<BufferOptions>,
    #[serde(deserialize_with = "read_some_duration")]
    delivered_within: Option<Duration>,
}

impl Common {
    const KEYS: [&str; 8] = [
        "type",
        "name",
        "delivery",
        "types",
        "where",
        "min_severity",
        "buffer",
        "delivered_within",
    ];
}

impl OutputConfig {
    /// Creates an output that the caller opens.
    pub fn new(
        name: &str,
        delivery: Delivery,
        open: impl Fn(&str) -> Result<Box<dyn Output>, OutputError> + 'static,
    ) -> Self {
        OutputConfig {
            name: name.to_owned(),
            kind: "custom".to_owned(),
            delivery,
            filter: Filter::default(),
            buffer: None,
            delivered_within: None,
            held_for: Duration::ZERO,
            limits: Limits::default(),
            file: None,
            same: String::new(),
            settings: Vec::new(),
            place: String::new(),
            dead_letters: DeadLetterFile::Off,
            listen: None,
            resource: Vec::new(),
            open: Opener::new(|_| Ok(()), move |name, _| open(name)),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// The output's error.
    pub(crate) fn open(&self, terms: &Terms) -> Result<Box<dyn Output>, OutputError> {
        let mut output = self.open.open(&self.name, terms)?;
        output.add_resource(&self.resource);
        Ok(match &self.buffer {
            Some(options) => Box::new(Buffered::open(&self.name, options, output)?),
            None => output,
        })
    }

    /// Checks what opening it would refuse.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let buffer = self.buffer.as_ref().map_or(Ok(()), |buffer| buffer.check(&self.name));
        buffer
            .and_then(|()| self.open.check(&self.name))
            .map_err(|error| ConfigError(format!("{}{error}", self.place)))
    }

    /// Returns whether it is configured like the other.
    #[must_use]
    pub fn is_as(&self, other: &OutputConfig) -> bool {
        self.name == other.name && self.same == other.same && self.resource == other.resource
    }

    /// Parses a flag `--output`: a kind, and after a colon its first option.
    pub(super) fn of_flag(flag: &str, taken: &HashSet<String>) -> Result<Self, ConfigError> {
        let name = format!("--output {flag}");
        let (kind, value) = flag.split_once(':').unwrap_or((flag, ""));
        let first = match Kind::of(kind).filter(|_| kind != flag) {
            Some(of) if of.first.is_none() => {
                return Err(ConfigError(format!("{name}: {kind} has no options")));
            }
            of => of.map(|of| (of, value)),
        };
        Self::read(Table::of(&name, kind, first), taken)
    }

    pub(super) fn read(mut table: Table<'_>, taken: &HashSet<String>) -> Result<Self, ConfigError> {
        let (same, at) = (table.same(), table.error("").0);
        let settings = table.shown(&DESCRIBED);
        let position = table.at();
        let common: Common = table.part(&Common::KEYS)?;
        let wrong = |message: &str| position.error_in("type", message);
        let known = Kind::here().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
        if common.r#type.is_empty() {
            return Err(wrong(&format!("an output needs a type: known are {known}")));
        }
        let filter = Filter::new(&common.types, &common.r#where, common.min_severity);
        let (kind, delivery, buffer) = (common.r#type, common.delivery, common.buffer);
        let delivered_within = common.delivered_within;
        let Some(of) = Kind::of(&kind) else {
            let what = format!("{kind:?} is not a type of output: known are {known}");
            return Err(wrong(&what));
        };
        let missing = table.error(&of.missing());
        let place = of.first.and_then(|key| table.text(key)).map(PathBuf::from);
        let listen = place.as_ref().filter(|_| of.place == Place::Listens);
        let listen = listen.map(|listen| listen.to_string_lossy().into_owned());
        let file = match of.place {
            Place::Stream => Some(place.unwrap_or_else(|| "-".into())),
            Place::File | Place::FileOrPipe | Place::Directory => place,
            _ => None,
        };
        let dead_letters = match of.place {
            Place::Address | Place::Addresses => table.value("dead_letters").unwrap_or_default(),
            _ => DeadLetterFile::Off,
        };
        if of.delivers == Delivers::Finished {
            table.default("max_age", MAX_AGE);
        }
        let limits = Limits::of(&table);
        let held_for = match of.delivers {
            Delivers::Finished => limits.max_age,
            Delivers::Written => Duration::ZERO,
        };
        let open = registry::opener(&kind, table).ok_or(missing)??;
        let name = match &*common.name {
            "" => free_name(&kind, taken),
            name => name.to_owned(),
        };
        Ok(OutputConfig {
            name,
            kind,
            delivery,
            filter,
            buffer,
            delivered_within,
            held_for,
            limits,
            file,
            dead_letters,
            listen,
            resource: Vec::new(),
            place: at,
            same,
            settings,
            open,
        })
    }

    /// Describes that the start waits for the reader of a named pipe, if that is so.
    pub(super) fn describe_pipe(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        let is_pipe = file.metadata().is_ok_and(|meta| meta.file_type().is_fifo());
        is_pipe.then(|| {
            format!(
                "{} is a named pipe: the sidecar starts once a process reads it",
                file.display()
            )
        })
    }

    pub(super) fn describe(&self) -> String {
        let delivers = Kind::of(&self.kind).map_or(Delivers::Written, |kind| kind.delivers);
        let delivery = match self.delivery {
            Delivery::Required => delivers.sentence(),
            Delivery::BestEffort => "it gets what it has room for",
        };
        let mut ends = self.limits.describe();
        if delivers == Delivers::Finished {
            ends.extend(["when a ring fills".to_owned(), "at the end".to_owned()]);
        }
        let ends = match ends.is_empty() {
            true => String::new(),
            false => format!("; a file is finished {}", ends.join(", or ")),
        };
        let filter = if self.filter.is_any() { ", of selected records" } else { "" };
        let buffer = self.buffer.as_ref().map_or_else(String::new, |buffer| {
            let path = buffer.path.display();
            format!("; {} bytes wait in {path} while it has no room", buffer.max_bytes)
        });
        let settings = match self.settings.is_empty() {
            true => String::new(),
            false => format!("; {}", self.settings.join(", ")),
        };
        let (name, kind) = (&self.name, &self.kind);
        format!("writes to {name} ({kind}): {delivery}{filter}{ends}{buffer}{settings}")
    }
}

impl fmt::Debug for OutputConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputConfig").field("name", &self.name).field("kind", &self.kind).finish()
    }
}

/// Returns the kind's own name, with a number if that is taken.
fn free_name(kind: &str, taken: &HashSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{kind}-{number}"));
    let mut names = std::iter::once(kind.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}
