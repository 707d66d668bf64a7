//! The kinds of outputs.

use super::duration;
use super::filter::{Filter, Severity};
use super::opened::Opened;
use super::table::{ConfigError, Table};
use perfring_export::{
    BufferOptions, Buffered, Ctf, CtfOptions, Null, Output, OutputError, PerfData, PerfDataOptions,
    Perfetto, PerfettoOptions, free_path, json, numbered, recording,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

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
    /// The file or the directory that it writes to, or `-` for stdout.
    pub(super) file: Option<PathBuf>,
    same: String,
    open: Open,
}

type Open = Rc<dyn Fn(&str) -> Result<Opened, OutputError>>;

/// The kinds that a program may be built without.
const FEATURES: [&str; 4] = ["nats", "otlp", "parquet", "prometheus"];

/// The kinds of this build, and the first option of each.
const KINDS: &[(&str, &str)] = &[
    ("json", "path"),
    #[cfg(feature = "otlp")]
    ("otlp", "endpoint"),
    #[cfg(feature = "nats")]
    ("nats", "servers"),
    #[cfg(feature = "prometheus")]
    ("prometheus", "listen"),
    ("recording", "path"),
    ("perfetto", "path"),
    ("ctf", "path"),
    ("perf-data", "path"),
    #[cfg(feature = "parquet")]
    ("parquet", "path"),
    ("null", ""),
];

/// Keys of all outputs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Common {
    r#type: String,
    name: String,
    delivery: Delivery,
    types: Vec<String>,
    r#where: Vec<String>,
    min_severity: Option<Severity>,
    buffer: Option<BufferOptions>,
    #[serde(deserialize_with = "duration::read_some")]
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
            file: None,
            same: String::new(),
            open: Rc::new(move |name| Ok(open(name)?.into())),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// The output's error.
    pub(crate) fn open(&self) -> Result<Opened, OutputError> {
        let mut opened = (self.open)(&self.name)?;
        if let Some(options) = &self.buffer {
            opened.output = Box::new(Buffered::open(&self.name, options, opened.output)?);
        }
        Ok(opened)
    }

    /// Returns whether it is configured like the other.
    #[must_use]
    pub fn is_as(&self, other: &OutputConfig) -> bool {
        self.name == other.name && self.same == other.same
    }

    /// Parses a flag `--output`: a kind, and after a colon its first option.
    pub(super) fn of_flag(flag: &str, taken: &HashSet<String>) -> Result<Self, ConfigError> {
        let name = format!("--output {flag}");
        let (kind, value) = flag.split_once(':').unwrap_or((flag, ""));
        let mut pairs = vec![("type", kind)];
        match KINDS.iter().find(|(known, _)| *known == kind) {
            Some((_, key)) if kind != flag && key.is_empty() => {
                return Err(ConfigError(format!("{name}: {kind} has no options")));
            }
            Some((_, key)) if kind != flag => pairs.push((key, value)),
            _ => {}
        }
        Self::read(Table::of(&name, &pairs), taken)
    }

    pub(super) fn read(mut table: Table<'_>, taken: &HashSet<String>) -> Result<Self, ConfigError> {
        let same = table.same();
        let common: Common = table.part(&Common::KEYS)?;
        let wrong = |message: &str| table.error(message);
        let known = KINDS.iter().map(|(kind, _)| *kind).collect::<Vec<_>>().join(", ");
        if common.r#type.is_empty() {
            return Err(wrong(&format!("an output needs a type: known are {known}")));
        }
        let filter = Filter::new(&common.types, &common.r#where, common.min_severity);
        let filter = filter.map_err(|message| wrong(&message))?;
        let (kind, delivery, buffer) = (common.r#type, common.delivery, common.buffer);
        let delivered_within = common.delivered_within;
        let unknown = wrong(&match FEATURES.contains(&&*kind) {
            true => {
                format!("this build has no {kind}: `cargo install perfring-cli --features full`")
            }
            false => format!("{kind:?} is not a type of output: known are {known}"),
        });
        // As its default in `json::Options`.
        let file = match &*kind {
            "json" => Some(table.text("path").unwrap_or_else(|| "-".to_owned())),
            "recording" | "perfetto" | "ctf" | "perf-data" | "parquet" => table.text("path"),
            _ => None,
        };
        let open = open(&kind, table).transpose()?.ok_or(unknown)?;
        let name = match &*common.name {
            "" => free_name(&kind, taken),
            name => name.to_owned(),
        };
        let file = file.map(PathBuf::from);
        Ok(OutputConfig {
            name,
            kind,
            delivery,
            filter,
            buffer,
            delivered_within,
            file,
            same,
            open,
        })
    }

    pub(super) fn describe(&self) -> String {
        let delivery = match self.delivery {
            // Its files are not readable before that, and it would hold all rings until the end.
            Delivery::Required if self.kind == "parquet" => {
                "records leave their rings once it has taken them, and its files can be read once \
                 it is closed: a death before that loses what it took"
            }
            Delivery::Required => "records leave their rings once it has delivered them",
            Delivery::BestEffort => "it gets what it has room for",
        };
        let filter = if self.filter.is_any() { ", of selected records" } else { "" };
        let buffer = self.buffer.as_ref().map_or_else(String::new, |buffer| {
            let path = buffer.path.display();
            format!("; {} bytes wait in {path} while it has no room", buffer.max_bytes)
        });
        format!("writes to {} ({}): {delivery}{filter}{buffer}", self.name, self.kind)
    }
}

impl fmt::Debug for OutputConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputConfig").field("name", &self.name).field("kind", &self.kind).finish()
    }
}

/// Returns the function that opens an output of this kind; `None` if there is no such kind.
fn open(kind: &str, table: Table<'_>) -> Option<Result<Open, ConfigError>> {
    Some(match kind {
        "null" => of(table, |_, _: &Nothing| Ok(Null::default())),
        "json" => of(table, json::JsonLines::open),
        #[cfg(feature = "otlp")]
        "otlp" => of(table, perfring_export::otlp::Otlp::open),
        #[cfg(feature = "nats")]
        "nats" => of(table, perfring_export::nats::Nats::open),
        #[cfg(feature = "prometheus")]
        "prometheus" => table.read().map(|options| {
            let open = move |name: &str| Opened::prometheus(name, &options);
            Rc::new(open) as Open
        }),
        // A process that is started again does not refuse the files of the last one, and goes on
        // beside them.
        "recording" => of(table, |name, options: &recording::Options| {
            let path = match options.existing {
                recording::Existing::Refuse => free_path(&options.path),
                _ => options.path.clone(),
            };
            recording::Recording::open(name, &recording::Options { path, ..options.clone() })
        }),
        "perfetto" => of(table, |name, options: &PerfettoOptions| {
            let path = beside(&options.path, options.overwrite);
            Perfetto::open(name, &PerfettoOptions { path, ..options.clone() })
        }),
        "ctf" => of(table, |name, options: &CtfOptions| {
            let path = beside(&options.path, options.overwrite);
            if path != options.path {
                mend_all(&options.path);
            }
            Ctf::open(name, &CtfOptions { path, ..options.clone() })
        }),
        "perf-data" => of(table, |name, options: &PerfDataOptions| {
            let path = beside(&options.path, options.overwrite);
            PerfData::open(name, &PerfDataOptions { path, ..options.clone() })
        }),
        #[cfg(feature = "parquet")]
        "parquet" => of(table, |name, options: &perfring_export::ParquetOptions| {
            let path = beside(&options.path, options.overwrite);
            let options = perfring_export::ParquetOptions { path, ..options.clone() };
            perfring_export::Parquet::open(name, &options)
        }),
        _ => return None,
    })
}

fn beside(path: &Path, overwrite: bool) -> PathBuf {
    if overwrite { path.to_owned() } else { free_path(path) }
}

/// Ends the traces of earlier processes where they are whole.
fn mend_all(path: &Path) {
    // One that cannot be mended is not this process's problem.
    let mut traces = (1..).map(|nth| if nth == 1 { path.to_owned() } else { numbered(path, nth) });
    while traces.next().is_some_and(|trace| trace.is_dir() && Ctf::mend(&trace).is_ok()) {}
}

/// No options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn of<T: DeserializeOwned + 'static, O: Output + 'static>(
    table: Table<'_>,
    open: impl Fn(&str, &T) -> Result<O, OutputError> + 'static,
) -> Result<Open, ConfigError> {
    let options: T = table.read()?;
    Ok(Rc::new(move |name| {
        let output: Box<dyn Output> = Box::new(open(name, &options)?);
        Ok(output.into())
    }))
}

/// Returns the kind's own name, with a number if that is taken.
fn free_name(kind: &str, taken: &HashSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{kind}-{number}"));
    let mut names = std::iter::once(kind.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}
