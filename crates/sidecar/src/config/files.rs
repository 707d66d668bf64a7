//! The files that outputs write to, checked before anything is opened.

use super::kinds::OutputConfig;
use super::table::ConfigError;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Checks that each file has one output, and a directory to be in.
pub(super) fn check(outputs: &[OutputConfig]) -> Result<(), ConfigError> {
    let mut all: HashMap<PathBuf, &str> = HashMap::new();
    for output in outputs {
        if let Some(file) = &output.file {
            directory_of(file, &output.name)?;
        }
        let buffer = output.buffer.iter().map(|buffer| &buffer.path);
        for file in output.file.iter().chain(buffer) {
            let other = match is_shared(file) {
                true => None,
                false => all.insert(whole(file), &output.name),
            };
            if let Some(other) = other {
                let (name, file) = (&output.name, file.display());
                return Err(ConfigError(format!(
                    "the outputs {other:?} and {name:?} both write to {file}: give one of them \
                     another path"
                )));
            }
        }
    }
    Ok(())
}

/// Checks that the directory of a file exists.
pub(super) fn directory_of(file: &Path, whose: &str) -> Result<(), ConfigError> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    match dir.filter(|dir| !dir.is_dir()) {
        None => Ok(()),
        Some(dir) => Err(ConfigError(format!(
            "{whose}: the directory {} of {} does not exist: create it, or choose another path",
            dir.display(),
            file.display()
        ))),
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
    file.canonicalize().ok().or_else(by_dir).unwrap_or_else(|| file.to_owned())
}
