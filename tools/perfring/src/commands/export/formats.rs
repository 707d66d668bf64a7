//! The formats, and how each is opened.

#[cfg(not(all(feature = "nats", feature = "otlp", feature = "parquet")))]
use crate::commands::missing;
use crate::failure::Failure;
use clap::ValueEnum;
use perfring_export::recording::Recording;
use perfring_export::{Ctf, Output, OutputError, PerfData, Perfetto, json};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// JSON lines: an object for each record and each loss
    Json,
    /// A trace for <https://ui.perfetto.dev>
    Perfetto,
    /// A CTF 1.8 trace for babeltrace2 and Trace Compass: a directory
    Ctf,
    /// Tables for pyarrow, DuckDB and others, one for each type: a directory
    Parquet,
    /// A file for `perf script` and related tools
    PerfData,
    /// OTLP over HTTP, to a collector: logs, metrics and traces. OUT is its address, or unix:// and
    /// the path of its socket
    Otlp,
    /// NATS JetStream. OUT is a server's address
    Nats,
    /// A recording: a selection of another one, or what rings hold
    Recording,
}

/// Parses `NAME=VALUE`.
pub(super) fn option(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((name.replace('-', "_"), value))
}

impl Format {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns whether it can be written into a pipe.
    fn is_stream(self) -> bool {
        matches!(self, Format::Json | Format::Recording)
    }

    fn is_dir(self) -> bool {
        matches!(self, Format::Ctf | Format::Parquet)
    }

    /// Returns how to open what was written.
    pub(super) fn how_to_open(self, path: &Path) -> Option<String> {
        let path = path.display();
        Some(match self {
            Format::Json => format!("each line of {path} is an object: `jq . {path}`"),
            Format::Perfetto => format!("open {path} in https://ui.perfetto.dev"),
            Format::PerfData => format!("read it with `perf script -i {path}`"),
            Format::Recording => format!("read it with `perfring export {path} --to json`"),
            Format::Ctf => format!("read it with `babeltrace2 {path}`"),
            Format::Parquet => {
                format!(
                    "read it with Python: `pyarrow.parquet.read_table(\"{path}/TYPE.parquet\")`"
                )
            }
            Format::Otlp | Format::Nats => return None,
        })
    }
}

/// The options of a format.
struct Asked<'a> {
    format: Format,
    options: Map<String, Value>,
    own: &'a [(String, Value)],
}

impl Asked<'_> {
    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.options.insert(name.to_owned(), value.into());
    }

    /// Sets the path of the output, once it may be written. Returns whether that is stdout.
    fn file(&mut self, name: &str, path: Option<&Path>, force: bool) -> Result<bool, Failure> {
        let format = self.format;
        let path = match path {
            None if format.is_stream() => Path::new("-"),
            None => return Err(Failure::Usage(format!("--to {name} needs a file: add -o OUT"))),
            Some(path) => path,
        };
        let to_stdout = path.as_os_str() == "-";
        if to_stdout && !format.is_stream() {
            let why = "cannot be written to a pipe: name a file with -o OUT";
            return Err(Failure::Usage(format!("the format {name} {why}")));
        }
        let Some(text) = path.to_str() else {
            return Err(Failure::Usage("the name of the output must be UTF-8".to_owned()));
        };
        if !to_stdout {
            make_room(format, path, force)?;
        }
        self.set("path", text);
        match format {
            Format::Json => {}
            Format::Recording => self.set("existing", if force { "replace" } else { "refuse" }),
            _ => self.set("overwrite", force),
        }
        Ok(to_stdout)
    }

    fn read<T: DeserializeOwned>(mut self) -> Result<T, Failure> {
        self.options.extend(self.own.iter().cloned());
        serde_json::from_value(Value::Object(self.options)).map_err(|error| {
            Failure::Usage(format!("--option of the format {}: {error}", self.format.name()))
        })
    }
}

pub(super) fn open(
    format: Format,
    path: Option<&Path>,
    force: bool,
    own: &[(String, Value)],
) -> Result<Box<dyn Output>, Failure> {
    let name = format.name();
    let mut asked = Asked { format, options: Map::new(), own };
    let mut to_stdout = false;
    match (format, path.and_then(Path::to_str)) {
        (Format::Otlp, Some(endpoint)) => asked.set("endpoint", endpoint),
        (Format::Nats, Some(server)) => asked.set("servers", vec![server]),
        (Format::Otlp | Format::Nats, None) => {}
        _ => to_stdout = asked.file(&name, path, force)?,
    }
    match format {
        Format::Json => boxed(json::JsonLines::open(&name, &asked.read()?)),
        Format::Recording if to_stdout => {
            if io::stdout().is_terminal() {
                let why = "a recording is binary: write it into a file with -o OUT, or a pipe";
                return Err(Failure::Usage(why.to_owned()));
            }
            boxed(Recording::to(&name, io::stdout()))
        }
        Format::Recording => boxed(Recording::open(&name, &asked.read()?)),
        Format::Perfetto => boxed(Perfetto::open(&name, &asked.read()?)),
        Format::PerfData => boxed(PerfData::open(&name, &asked.read()?)),
        Format::Ctf => boxed(Ctf::open(&name, &asked.read()?)),
        #[cfg(feature = "parquet")]
        Format::Parquet => boxed(perfring_export::Parquet::open(&name, &asked.read()?)),
        #[cfg(feature = "otlp")]
        Format::Otlp => boxed(perfring_export::otlp::Otlp::open(&name, &asked.read()?)),
        #[cfg(feature = "nats")]
        Format::Nats => boxed(perfring_export::nats::Nats::open(&name, &asked.read()?)),
        #[cfg(not(all(feature = "nats", feature = "otlp", feature = "parquet")))]
        _ => Err(missing::refusal(&name, "full")),
    }
}

fn boxed<T: Output + 'static>(opened: Result<T, OutputError>) -> Result<Box<dyn Output>, Failure> {
    match opened {
        Ok(output) => Ok(Box::new(output)),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the path is free, or may be replaced.
fn make_room(format: Format, path: &Path, force: bool) -> Result<(), Failure> {
    let Ok(meta) = fs::metadata(path) else { return Ok(()) };
    let shown = path.display();
    let refused = |what: &str| Err(Failure::General(format!("{shown} {what}")));
    if meta.is_dir() {
        let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        return match format.is_dir() {
            true if force || is_empty() => Ok(()),
            true => refused("exists and is not empty: choose another name, or add --force"),
            false => refused("is a directory: name a file in it"),
        };
    }
    if format.is_dir() {
        return refused("is not a directory, and the format writes one: choose another name");
    }
    if !meta.is_file() {
        return Ok(()); // a pipe or a device can be written to
    }
    if !force {
        return refused("already exists: choose another name, or add --force");
    }
    // The other formats replace the file; JSON lines would be appended to it.
    if format == Format::Json {
        fs::remove_file(path)
            .map_err(|error| Failure::General(format!("{shown} cannot be removed: {error}")))?;
    }
    Ok(())
}
