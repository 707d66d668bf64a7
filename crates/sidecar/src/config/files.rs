//! The places that a configuration names, checked before anything is opened.

use super::input::{Input, InputSource};
use super::kinds::OutputConfig;
use super::snapshot_rule::SnapshotRule;
use super::table::ConfigError;

use perfring_consumer::Location;
use perfring_export::{Terms, check_directories, check_file, check_socket};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

/// The places of a configuration.
pub(super) struct Places<'a> {
    pub(super) inputs: &'a [Input],
    pub(super) outputs: &'a [OutputConfig],
    pub(super) snapshots: &'a [SnapshotRule],
    pub(super) terms: &'a Terms,
    pub(super) state: Option<&'a Path>,
    pub(super) status: Option<&'a Path>,
    pub(super) control: Option<&'a Path>,
    pub(super) own: Option<&'a Path>,
    pub(super) health: Option<&'a str>,
}

/// Checks that each file, each buffer and each address is used once, and can be used.
pub(super) fn check(places: &Places<'_>) -> Result<(), ConfigError> {
    let of = |whose: &str, checked: Result<(), String>| {
        checked.map_err(|why| ConfigError(format!("{whose}: {why}")))
    };
    of("state", places.state.map_or(Ok(()), in_directories))?;
    of("status", places.status.map_or(Ok(()), check_file))?;
    of(
        "[control]",
        places
            .control
            .map_or(Ok(()), |path| check_socket(path).and_then(|()| in_directories(path))),
    )?;
    of("[own]", places.own.map_or(Ok(()), check_file))?;
    places.inputs.iter().try_for_each(input)?;
    inputs_once(places.inputs)?;
    places.outputs.iter().try_for_each(OutputConfig::check)?;
    for snapshot in places.snapshots {
        of("[[snapshot]]", check_directories(&snapshot.dir))?;
    }
    once(places)?;
    addresses(places)
}

/// Checks a file whose directories are made if there are none.
fn in_directories(file: &Path) -> Result<(), String> {
    match file.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        Some(dir) if !dir.exists() => check_directories(dir),
        _ => check_file(file),
    }
}

/// Checks that what an input names is what it says.
fn input(input: &Input) -> Result<(), ConfigError> {
    let wrong = |what: String| Err(ConfigError(format!("[[input]]: {what}")));
    match &input.source {
        InputSource::Dir(dir) if dir.exists() && !dir.is_dir() => {
            wrong(format!("{} is not a directory: for a ring write ring = \"…\"", dir.display()))
        }
        InputSource::Ring(Location::File(ring)) if ring.is_dir() => wrong(format!(
            "{} is a directory: for all rings in it write dir = \"…\"",
            ring.display()
        )),
        _ => Ok(()),
    }
}

/// Checks that no two inputs read one directory or one ring, whatever they call it.
fn inputs_once(inputs: &[Input]) -> Result<(), ConfigError> {
    let mut all: HashMap<PathBuf, PathBuf> = HashMap::new();
    for input in inputs {
        let path = match &input.source {
            InputSource::Dir(dir) => dir.clone(),
            InputSource::Ring(location) => location.path(),
            InputSource::Kernel { .. } | InputSource::Bpf(_) => continue,
        };
        if let Some(other) = all.insert(whole(&path), path.clone()) {
            let read = format!("two inputs read {}", path.display());
            let otherwise = format!(", one of them as {}", other.display());
            let otherwise = if other == path { "" } else { &otherwise };
            return Err(ConfigError(format!(
                "[[input]]: {read}{otherwise}: leave one of them out"
            )));
        }
    }
    Ok(())
}

/// Checks that no two write to one file, and that nothing writes into the directory of an input.
fn once(places: &Places<'_>) -> Result<(), ConfigError> {
    let dirs = places.inputs.iter().filter_map(|input| match &input.source {
        InputSource::Dir(dir) => Some(dir.canonicalize().unwrap_or_else(|_| dir.clone())),
        _ => None,
    });
    let dirs: Vec<PathBuf> = dirs.collect();
    let is_read = |path: &Path| dirs.iter().any(|dir| path == *dir || path.parent() == Some(dir));
    // Rules may share a directory.
    if let Some(rule) = places.snapshots.iter().find(|rule| is_read(&whole(&rule.dir))) {
        return Err(ConfigError(format!(
            "[[snapshot]]: {} is in the directory of an input, where all files are read as rings: choose another directory",
            rule.dir.display()
        )));
    }
    let mut all: HashMap<PathBuf, String> = HashMap::new();
    let mut add = |place: &str, file: &Path, whose: String| {
        if is_shared(file) {
            return Ok(());
        }
        let path = whole(file);
        if is_read(&path) {
            return Err(ConfigError(format!(
                "{place}{whose} writes to {} in the directory of an input, where all files are read as rings: choose \
                 another directory",
                file.display()
            )));
        }
        match all.insert(path, whose.clone()) {
            None => Ok(()),
            Some(other) => Err(ConfigError(format!(
                "{place}{other} and {whose} both write to {}: give one of them another path",
                file.display()
            ))),
        }
    };
    for output in places.outputs {
        let name = format!("the output {:?}", output.name);
        if let Some(file) = &output.file {
            add(&output.place, file, name.clone())?;
        }
        if let Some(buffer) = &output.buffer {
            add(&output.place, &buffer.path, format!("the buffer of {name}"))?;
        }
        if let Some(file) = output.dead_letters.path(&output.name, places.terms) {
            add(&output.place, &file, format!("the dead letters of {name}"))?;
        }
    }
    let health = places.health.and_then(|listen| listen.strip_prefix("unix:")).map(Path::new);
    let others = [
        (places.state, "state"),
        (places.status, "status"),
        (places.control, "[control]"),
        (health, "[health]"),
    ];
    for (file, whose) in others {
        file.map_or(Ok(()), |file| add("", file, whose.to_owned()))?;
    }
    Ok(())
}

/// Checks that no two listen on one address.
fn addresses(places: &Places<'_>) -> Result<(), ConfigError> {
    let mut all: Vec<(String, String)> = Vec::new();
    let outputs = places.outputs.iter();
    let outputs = outputs.filter_map(|output| {
        Some((output.listen.clone()?, format!("the output {:?}", output.name)))
    });
    let health = places.health.map(|listen| (listen.to_owned(), "[health]".to_owned()));
    for (address, whose) in outputs.chain(health) {
        if let Some((_, other)) = all.iter().find(|(other, _)| is_same(other, &address)) {
            return Err(ConfigError(format!(
                "{other} and {whose} both listen on {address}: give one of them another address"
            )));
        }
        all.push((address, whose));
    }
    Ok(())
}

/// Returns whether of two addresses one takes the other's port.
fn is_same(one: &str, other: &str) -> bool {
    match (one.parse::<SocketAddr>(), other.parse::<SocketAddr>()) {
        (Ok(one), Ok(other)) => {
            let any = one.ip().is_unspecified() || other.ip().is_unspecified();
            one.port() == other.port() && one.port() != 0 && (any || one.ip() == other.ip())
        }
        _ => one == other,
    }
}

/// Returns whether any number of outputs may write to it, as to `/dev/null`.
fn is_shared(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Returns a path that is the same for all names of a file.
fn whole(file: &Path) -> PathBuf {
    if file == Path::new("-") {
        return file.to_owned();
    }
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let by_dir = || Some(dir.canonicalize().ok()?.join(file.file_name()?));
    file.canonicalize().ok().or_else(by_dir).unwrap_or_else(|| plain(file))
}

/// Returns a path from the root without `.` and `..`. What does not exist is no link, so `x/..` is nothing.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
