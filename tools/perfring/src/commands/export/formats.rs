//! The formats, and how each is opened.

use crate::failure::Failure;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use perfring_export::recording::Recording;
use perfring_export::registry::{self, KINDS, Kind, Place, ReadOptions, Replaces};
use perfring_export::{Output, Stream, Terms, check_directory, check_file};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;

/// The format of an export.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format(&'static Kind);

/// Parses the name of a format.
pub(super) fn format() -> impl TypedValueParser<Value = Format> {
    let formats =
        KINDS.iter().filter(|kind| !matches!(kind.place, Place::Nothing | Place::Listens));
    let values = formats.map(|kind| PossibleValue::new(kind.name).help(kind.about));
    PossibleValuesParser::new(values)
        .try_map(|name| Kind::of(&name).map(Format).ok_or("it is not a format"))
}

/// Parses `NAME=VALUE`.
pub(super) fn option(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((name.replace('-', "_"), value))
}

impl Format {
    fn is_dir(self) -> bool {
        self.0.place == Place::Directory
    }

    /// Returns whether it shows explanations.
    pub(super) fn explains(self) -> bool {
        self.0.name == "perfetto"
    }

    /// Returns how to open what was written.
    pub(super) fn how_to_open(self, path: &Path) -> Option<String> {
        Some(self.0.reader?.replace("{}", &path.display().to_string()))
    }
}

/// The options of a format.
struct Asked {
    format: Format,
    options: Map<String, Value>,
}

impl Asked {
    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.options.insert(name.to_owned(), value.into());
    }

    /// Sets the path of the output. Returns whether that is stdout.
    fn file(&mut self, path: Option<&Path>, force: bool) -> Result<bool, Failure> {
        let (format, name) = (self.format, self.format.0.name);
        let path = match path {
            None if format.0.is_stream() => Path::new("-"),
            None => return Err(Failure::Usage(format!("--to {name} needs a file: add -o OUT"))),
            Some(path) => path,
        };
        let to_stdout = path.as_os_str() == "-";
        if to_stdout && !format.0.is_stream() {
            let why = "cannot be written to a pipe: name a file with -o OUT";
            return Err(Failure::Usage(format!("the format {name} {why}")));
        }
        let Some(text) = path.to_str() else {
            return Err(Failure::Usage("the name of the output must be UTF-8".to_owned()));
        };
        self.set("path", text);
        match format.0.replaces {
            Replaces::Never => {}
            Replaces::Overwrite => self.set("overwrite", force),
            Replaces::Existing => self.set("existing", if force { "replace" } else { "refuse" }),
        }
        Ok(to_stdout)
    }
}

impl ReadOptions for Asked {
    type Error = Failure;

    fn part<T: DeserializeOwned>(&mut self, keys: &[&str]) -> Result<T, Failure> {
        let part = keys.iter().filter_map(|key| self.options.remove_entry(*key));
        parse(self.format, part.collect())
    }

    fn read<T: DeserializeOwned>(self) -> Result<T, Failure> {
        parse(self.format, self.options)
    }
}

fn parse<T: DeserializeOwned>(format: Format, options: Map<String, Value>) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(options)).map_err(|error| {
        Failure::Usage(format!("--option of the format {}: {error}", format.0.name))
    })
}

pub(super) fn open(
    format: Format,
    path: Option<&Path>,
    force: bool,
    own: &[(String, Value)],
) -> Result<Box<dyn Output>, Failure> {
    let Format(kind) = format;
    let mut asked = Asked { format, options: Map::new() };
    let address = path.and_then(Path::to_str).zip(kind.first);
    match kind.place {
        Place::Address => address.into_iter().for_each(|(at, key)| asked.set(key, at)),
        Place::Addresses => address.into_iter().for_each(|(at, key)| asked.set(key, vec![at])),
        _ if asked.file(path, force)? && kind.place == Place::FileOrPipe => {
            if io::stdout().is_terminal() {
                let why = "a recording is binary: write it into a file with -o OUT, or a pipe";
                return Err(Failure::Usage(why.to_owned()));
            }
            return Ok(Box::new(Recording::to(kind.name, Stream::stdout())?));
        }
        _ => {}
    }
    asked.options.extend(own.iter().cloned());
    let open =
        registry::opener(kind.name, asked).ok_or_else(|| Failure::Usage(kind.missing()))??;
    let place = path.filter(|path| path.as_os_str() != "-" && kind.first == Some("path"));
    let old = place.map_or(Ok(None), |path| check_room(format, path, force))?;
    open.check(kind.name).map_err(|error| match place.map(|path| check_place(format, path)) {
        None | Some(Ok(())) => Failure::Usage(error.to_string()),
        Some(Err(_)) => Failure::general(error),
    })?;
    // An invalid option leaves the file as it is.
    if let Some(path) = old {
        let failed =
            |error| Failure::General(format!("{} cannot be removed: {error}", path.display()));
        fs::remove_file(path).map_err(failed)?;
    }
    Ok(open.open(kind.name, &Terms::default())?)
}

/// Checks whether the output could be made there, whatever its options are.
fn check_place(format: Format, path: &Path) -> Result<(), String> {
    if format.is_dir() { check_directory(path) } else { check_file(path) }
}

/// Checks that the path is free, or may be replaced. Returns a file that is removed before the output is opened.
fn check_room(format: Format, path: &Path, force: bool) -> Result<Option<&Path>, Failure> {
    let Ok(meta) = fs::metadata(path) else { return Ok(None) };
    let shown = path.display();
    let refused = |what: &str| Err(Failure::General(format!("{shown} {what}")));
    if meta.is_dir() {
        let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        return match format.is_dir() {
            true if force || is_empty() => Ok(None),
            true => refused("exists and is not empty: choose another name, or add --force"),
            false => refused("is a directory: name a file in it"),
        };
    }
    if format.is_dir() {
        return refused("is not a directory, and the format writes one: choose another name");
    }
    if !meta.is_file() {
        return Ok(None); // a pipe or a device can be written to
    }
    if !force {
        return refused("already exists: choose another name, or add --force");
    }
    // The other formats replace the file.
    Ok((format.0.replaces == Replaces::Never).then_some(path))
}
