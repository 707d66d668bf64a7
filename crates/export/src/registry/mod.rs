//! All outputs by name: one entry for each, which is all that others know of it.

mod options;

pub use perfring_events::delivery::opener::Opener;
pub use perfring_events::delivery::output::Delivers;
use perfring_events::{
    Null, Output, OutputError, Rotation, Terms, check_directory, check_file,
    delivery::{checks::of_output, rotated::Rotated, series::series as all_of, terms::OwnTerms},
};

use options::{FileOptions, HasTerms, Nothing};
use perfring_files::{Ctf, CtfOptions, CtfVersion, PerfData, Perfetto, json::JsonLines};
use perfring_recording::Recording;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::rc::Rc;

/// A kind of output.
#[derive(Debug)]
pub struct Kind {
    /// Its name, as in `type = "json"`.
    pub name: &'static str,
    /// Whether this build has it: otherwise a feature of its name is off.
    pub is_here: bool,
    /// The option that says where it writes to, which a flag gives after a colon; `None` if it has
    /// no options.
    pub first: Option<&'static str>,
    /// What that option names.
    pub place: Place,
    /// Which of its options says whether it may replace what is there.
    pub replaces: Replaces,
    /// What it is, in a line of help.
    pub about: &'static str,
    /// How to open what it wrote, where `{}` stands for the path.
    pub reader: Option<&'static str>,
    /// When a record counts as delivered.
    pub delivers: Delivers,
}

/// Where an output writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere.
    Nothing,
    /// It has an address, and is asked.
    Listens,
    /// An address.
    Address,
    /// A list of addresses.
    Addresses,
    /// A file, or stdout as `-`, which is the default.
    Stream,
    /// A file.
    File,
    /// A file, or a pipe that its writer is given.
    FileOrPipe,
    /// A directory of its own.
    Directory,
}

/// Which option of an output says whether it may replace what is where it writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaces {
    /// Not at all: it appends to a file, or writes to none.
    Never,
    /// By the option `overwrite`: `true` or `false`.
    Overwrite,
    /// By the option `existing`: `replace` or `refuse`.
    Existing,
}

/// The options of an output, as a file or flags have them.
pub trait ReadOptions {
    /// Why they are no options of this output.
    type Error;

    /// Takes some of them out and parses these.
    ///
    /// # Errors
    /// What is wrong with them.
    fn part<T: DeserializeOwned>(&mut self, keys: &[&'static str]) -> Result<T, Self::Error>;

    /// Notes keys of which serde does not say that they are expected.
    fn expects(&mut self, _: &[&'static str]) {}

    /// Parses all others.
    ///
    /// # Errors
    /// What is wrong with them.
    fn read<T: DeserializeOwned>(self) -> Result<T, Self::Error>;
}

/// Makes the list of kinds and the function that opens them of one list.
macro_rules! kinds {
    ($(
        $name:literal $(with $feature:literal)?, $first:expr, $place:ident, $replaces:ident,
        $about:literal, $reader:expr, $delivers:ident, $make:ident($($with:expr),+);
    )*) => {
        /// All kinds, also those that this build does not have.
        pub const KINDS: &[Kind] = &[$(Kind {
            name: $name,
            is_here: true $(&& cfg!(feature = $feature))?,
            first: $first,
            place: Place::$place,
            replaces: Replaces::$replaces,
            about: $about,
            reader: $reader,
            delivers: Delivers::$delivers,
        }),*];

        /// Parses the options of an output of this kind; `None` if this build has no such kind.
        ///
        /// ```
        /// use perfring_export::Terms;
        /// use perfring_export::registry::{self, ReadOptions};
        /// use serde::de::DeserializeOwned;
        /// struct Toml(toml::Table);
        /// impl ReadOptions for Toml {
        ///     type Error = toml::de::Error;
        ///     fn part<T: DeserializeOwned>(&mut self, keys: &[&str]) -> Result<T, Self::Error> {
        ///         let part = keys.iter().filter_map(|key| self.0.remove_entry(*key));
        ///         part.collect::<toml::Table>().try_into()
        ///     }
        ///     fn read<T: DeserializeOwned>(self) -> Result<T, Self::Error> {
        ///         self.0.try_into()
        ///     }
        /// }
        /// let options = |text: &str| Toml(toml::from_str(text).expect("it is TOML"));
        /// let open = registry::opener("null", options("")).expect("it is in every build")?;
        /// assert_eq!(open.open("nothing", &Terms::default())?.figures().taken, 0);
        /// assert!(registry::opener("null", options("a = 1")).is_some_and(|read| read.is_err()));
        /// assert!(registry::opener("fax", options("")).is_none());
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn opener<R: ReadOptions>(kind: &str, options: R) -> Option<Result<Opener, R::Error>> {
            match kind {
                $($(#[cfg(feature = $feature)])? $name => Some($make(options, Place::$place, Delivers::$delivers, $($with),+)),)*
                _ => None,
            }
        }
    };
}

kinds! {
    "json", Some("path"), Stream, Never, "JSON lines: an object for each record and each loss",
        Some("each line of {} is an object: `jq . {}`"), Written, single(JsonLines::check, JsonLines::open);
    "perfetto", Some("path"), File, Overwrite, "A trace for https://ui.perfetto.dev",
        Some("open {} in https://ui.perfetto.dev"), Written, series(in_file, Perfetto::open);
    "ctf", Some("path"), Directory, Overwrite,
        "A CTF 1.8 trace for babeltrace2 and Trace Compass: a directory",
        Some("read it with `babeltrace2 {}`"), Written, series(in_directory, Ctf::open);
    "ctf2", Some("path"), Directory, Overwrite,
        "A CTF 2 trace for babeltrace2 from 2.1 on: a directory",
        Some("read it with `babeltrace2 {}`, version 2.1 or later"), Written, series(in_directory, ctf2);
    "parquet" with "parquet", Some("path"), Directory, Overwrite,
        "Tables for pyarrow, DuckDB and others, one for each signal and each other type: a directory",
        Some("read it with Python: `pyarrow.parquet.read_table(\"{}/logs.parquet\")`"),
        Finished, series(perfring_files::Parquet::check, perfring_files::Parquet::open);
    "perf-data", Some("path"), File, Overwrite, "A file for `perf script` and related tools",
        Some("read it with `perf script -i {}`"), Finished, series(in_file, PerfData::open);
    "otlp" with "otlp", Some("endpoint"), Address, Never,
        "OTLP over HTTP, to a collector: logs, metrics and traces. OUT is its address, or unix:// \
         and the path of its socket",
        None, Written, mapped(&perfring_otlp::Options::KEYS, perfring_otlp::Otlp::check, perfring_otlp::Otlp::open);
    "otlp-json" with "otlp", Some("path"), Stream, Never,
        "OTLP as JSON lines, for the OpenTelemetry Collector's otlp_json_file receiver",
        Some("each line of {} is a request of OTLP: the Collector's receiver otlp_json_file reads them"),
        Written, mapped(&perfring_files::json::Options::KEYS, perfring_otlp::OtlpFile::check, perfring_otlp::OtlpFile::open);
    "nats" with "nats", Some("servers"), Addresses, Never,
        "NATS JetStream. OUT is a server's address",
        None, Written, single(perfring_nats::Nats::check, perfring_nats::Nats::open);
    "recording", Some("path"), FileOrPipe, Existing,
        "A recording: a selection of another one, or what rings hold",
        Some("read it with `perfring export {} --to json`"), Written, series(in_file, Recording::open);
    "prometheus" with "prometheus", Some("listen"), Listens, Never,
        "Metrics that Prometheus asks for",
        None, Written, single(perfring_prometheus::Prometheus::check, perfring_prometheus::Prometheus::open);
    "null", None, Nothing, Never, "Nowhere: for measuring", None, Written,
        single(|_, _: &Nothing| Ok(()), |_, _: &Nothing| Ok(Null::default()));
}

impl Kind {
    /// Returns the kind of this name.
    ///
    /// ```
    /// use perfring_export::registry::{Kind, Place};
    /// assert_eq!(Kind::of("perf-data").unwrap().place, Place::File);
    /// ```
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Kind> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// Returns the kinds that this build has.
    pub fn here() -> impl Iterator<Item = &'static Kind> {
        KINDS.iter().filter(|kind| kind.is_here)
    }

    /// Returns whether it can be written into a pipe.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.place, Place::Stream | Place::FileOrPipe)
    }

    /// Returns what a flag that names it looks like.
    ///
    /// ```
    /// use perfring_export::registry::Kind;
    /// assert_eq!(Kind::of("ctf").unwrap().flag(), "ctf:DIR");
    /// ```
    #[must_use]
    pub fn flag(&self) -> String {
        let name = self.name;
        match self.place {
            Place::Nothing => name.to_owned(),
            Place::Listens => format!("{name}:ADDRESS"),
            Place::Address | Place::Addresses => format!("{name}:URL"),
            Place::Stream => format!("{name}:FILE (or {name}:-)"),
            Place::File | Place::FileOrPipe => format!("{name}:FILE"),
            Place::Directory => format!("{name}:DIR"),
        }
    }

    /// Says that this build does not have it, and where it is.
    #[must_use]
    pub fn missing(&self) -> String {
        format!("this build has no {}: `cargo install perfring-cli --features full`", self.name)
    }
}

fn single<R: ReadOptions, T, O>(
    mut options: R,
    place: Place,
    _: Delivers,
    check: impl Fn(&str, &T) -> Result<(), OutputError> + 'static,
    open: impl Fn(&str, &T) -> Result<O, OutputError> + 'static,
) -> Result<Opener, R::Error>
where
    T: HasTerms + DeserializeOwned + 'static,
    O: Output + 'static,
{
    let own: OwnTerms = options.part(own_keys(place))?;
    let options: Rc<T> = Rc::new(options.read()?);
    let checked = Rc::clone(&options);
    Ok(Opener::new(
        move |name| check(name, &checked),
        move |name, terms| Ok(Box::new(open(name, &options.with(own.or(terms)))?)),
    ))
}

/// Returns the keys of an output that say what else it has in common with others.
fn own_keys(place: Place) -> &'static [&'static str] {
    match place {
        Place::Nothing | Place::Listens => &[],
        Place::Address | Place::Addresses => OwnTerms::KEYS.get(..1).unwrap_or_default(),
        Place::Stream | Place::File | Place::FileOrPipe | Place::Directory => &OwnTerms::KEYS,
    }
}

/// Reads options with the keys of [`perfring_otlp::Mapping`] among them.
#[cfg(feature = "otlp")]
fn mapped<R: ReadOptions, T, O>(
    mut options: R,
    place: Place,
    delivers: Delivers,
    others: &[&'static str],
    check: impl Fn(&str, &T) -> Result<(), OutputError> + 'static,
    open: impl Fn(&str, &T) -> Result<O, OutputError> + 'static,
) -> Result<Opener, R::Error>
where
    T: HasTerms + DeserializeOwned + 'static,
    O: Output + 'static,
{
    options.expects(others);
    options.expects(&perfring_otlp::Mapping::KEYS);
    single(options, place, delivers, check, open)
}

/// Checks the place of an output that writes files.
fn in_file<T: FileOptions>(name: &str, options: &T) -> Result<(), OutputError> {
    of_output(name, check_file(options.path()))
}

fn ctf2(name: &str, options: &CtfOptions) -> Result<Ctf, OutputError> {
    Ctf::open(name, &CtfOptions { version: CtfVersion::V2, ..options.clone() })
}

/// Checks the place of an output that writes directories.
fn in_directory<T: FileOptions>(name: &str, options: &T) -> Result<(), OutputError> {
    of_output(name, check_directory(options.path()))
}

fn series<R, T, O>(
    mut options: R,
    place: Place,
    delivers: Delivers,
    check: impl Fn(&str, &T) -> Result<(), OutputError> + 'static,
    open: impl Fn(&str, &T) -> Result<O, OutputError> + Clone + 'static,
) -> Result<Opener, R::Error>
where
    R: ReadOptions,
    T: FileOptions + DeserializeOwned + 'static,
    O: Output + 'static,
{
    let rotation: Rotation = options.part(&Rotation::KEYS)?;
    let own: OwnTerms = options.part(own_keys(place))?;
    let options: T = options.read()?;
    let checked = (rotation.clone(), options.clone());
    let open = rotated(options, rotation, own, delivers, open);
    let check =
        move |name: &str| of_output(name, checked.0.check()).and_then(|()| check(name, &checked.1));
    Ok(Opener::new(check, open))
}

/// Returns what opens an output of files, one after the other if they are rotated.
fn rotated<T: FileOptions + 'static, O: Output + 'static>(
    options: T,
    rotation: Rotation,
    own: OwnTerms,
    delivers: Delivers,
    open: impl Fn(&str, &T) -> Result<O, OutputError> + Clone + 'static,
) -> impl Fn(&str, &Terms) -> Result<Box<dyn Output>, OutputError> + 'static {
    move |name, terms| {
        let terms = own.or(terms);
        let options = options.with(terms.clone());
        let (path, first) = (options.path().to_owned(), options.first());
        if first != path {
            mend_all(&path);
        }
        if !rotation.is_any() && delivers == Delivers::Written {
            return Ok(Box::new(open(name, &options.at(first))?));
        }
        let (its, open) = (name.to_owned(), open.clone());
        let next = move |path: &Path| -> Result<Box<dyn Output>, OutputError> {
            Ok(Box::new(open(&its, &options.at(path.to_owned()))?))
        };
        let next = Box::new(next);
        Ok(Box::new(Rotated::open(name, &rotation, &terms, delivers, &path, first, next)?))
    }
}

/// Opens a recording that begins its next file as the rotation says, like the output `recording` of a
/// configuration. Where the file exists, and is not to be replaced or continued, it begins with the next number.
///
/// ```
/// use perfring_export::recording::{Options, Reader};
/// use perfring_export::{Event, Origin, Rotation, What, registry};
/// # let dir = tempfile::tempdir()?;
/// let options = Options { path: dir.path().join("run.perfrec"), ..Options::default() };
/// let rotation = Rotation { max_bytes: 1, ..Rotation::default() };
/// let mut recording = registry::recordings("recording", &options, &rotation)?;
/// for seq in [1, 2] {
///     let event = Event { seq, origin: &Origin::default(), what: What::Began };
///     recording.take(&event)?;
///     recording.flush()?; // the first file is full
/// }
/// Reader::open(&dir.path().join("run.000002.perfrec"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`OutputError`], if the first file cannot be opened, or the rotation is none.
pub fn recordings(
    name: &str,
    options: &perfring_recording::Options,
    rotation: &Rotation,
) -> Result<Box<dyn Output>, OutputError> {
    let own = OwnTerms::default();
    let open = rotated(options.clone(), rotation.clone(), own, Delivers::Written, Recording::open);
    open(name, &options.terms)
}

/// Ends the traces of earlier processes where they are whole.
fn mend_all(path: &Path) {
    for trace in all_of(path).unwrap_or_default().iter().filter(|trace| trace.is_dir()) {
        let _ = Ctf::mend(trace); // one that cannot be mended is not this process's problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_once_and_says_where_it_writes_to() {
        for (at, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[at + 1..].iter().all(|other| other.name != kind.name), "{}", kind.name);
            assert_eq!(kind.first.is_none(), kind.place == Place::Nothing, "{}", kind.name);
        }
    }
}
