//! Seeds: the inputs with which fuzzing begins, and which the replay plays.

mod kept;
mod made;
mod seed;

use self::seed::Seed;
use perfring_testkit::size::workspace;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Writes a target's seeds into the directory that `PERFRING_FUZZ_SEEDS` names, if it is set:
/// its libFuzzer program calls this before libFuzzer reads the directory.
///
/// # Panics
/// If a seed cannot be read or written.
pub fn write(target: &str) {
    let Some(dir) = std::env::var_os("PERFRING_FUZZ_SEEDS").map(PathBuf::from) else { return };
    fs::create_dir_all(&dir).expect("a directory for seeds");
    for (kind, seeds) in of(target) {
        for (name, bytes) in seeds {
            fs::write(dir.join(format!("{kind}-{name}")), bytes).expect("room for a seed");
        }
    }
}

/// Returns the seeds of a target by their kind: made from the golden files, kept from
/// fuzzing, and past findings.
///
/// # Panics
/// If a seed cannot be read.
#[must_use]
pub fn of(target: &str) -> [(&'static str, Vec<Seed>); 3] {
    [("made", made::of(target)), ("kept", kept::of(target)), ("crash", crashes(target))]
}

/// Returns the files in `tests/hostile/crashes/TARGET`. Most targets lack the folder.
fn crashes(target: &str) -> Vec<Seed> {
    let folder = workspace().join("tests/hostile/crashes").join(target);
    let files = match folder.read_dir() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        files => files.expect("a readable folder"),
    };
    let mut crashes: Vec<Seed> = files
        .map(|file| {
            let file = file.expect("a readable folder");
            let name = file.file_name().into_string().expect("a name in UTF-8");
            (name, fs::read(file.path()).expect("a readable file"))
        })
        .collect();
    crashes.sort_unstable();
    crashes
}
