//! The files that remain after the demo, and how to open them.

use super::screen::{Bytes, Screen, Style};
use crate::failure::Failure;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The files that the sidecar writes.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) trace: PathBuf,
    pub(super) lines: PathBuf,
}

impl Files {
    pub(super) fn of(dir: &Path) -> Self {
        Files { trace: dir.join("demo.pftrace"), lines: dir.join("demo.jsonl") }
    }

    /// Prints their paths and how to open them.
    pub(super) fn show(&self, screen: &mut Screen) -> Result<(), Failure> {
        screen.say(
            Style::Bold,
            "\nThe sidecar left two files, with each of these records, and each reported loss:",
        )?;
        let lines = shell(&self.lines);
        let size = |path: &Path| Bytes(path.metadata().map_or(0, |meta| meta.len()));
        screen.line(&format!("{}  {}", self.trace.display(), size(&self.trace)))?;
        screen.line("    open https://ui.perfetto.dev in a browser, there \"Open trace file\":")?;
        screen.line("    the page reads it locally, nothing is uploaded")?;
        screen.line(&format!("{}  {}", self.lines.display(), size(&self.lines)))?;
        screen.line(&format!("    head -n 3 {lines}"))?;
        screen.line(&format!("    jq -c 'select(.lost)' {lines}"))
    }

    /// Removes them, and their directory if nothing else is in it.
    pub(super) fn remove(&self) {
        for path in [&self.trace, &self.lines] {
            let _ = std::fs::remove_file(path); // there may be none yet
        }
        if let Some(dir) = self.trace.parent() {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

/// Quotes a path for a shell.
fn shell(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    match path.chars().all(plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

/// The directory of the files: one that was asked for, or a fresh one, which is kept only if the
/// demo runs to its end.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) fresh: Option<TempDir>,
}

impl Place {
    /// Creates it. Existing files are not overwritten.
    pub(super) fn new(asked: Option<&Path>) -> Result<Self, Failure> {
        let Some(asked) = asked else {
            // Figures of this host are for its owner only.
            let private = Permissions::from_mode(0o700);
            let mut builder = tempfile::Builder::new();
            let fresh = builder.prefix("perfring-demo-").permissions(private).tempdir();
            let fresh = fresh.map_err(|error| failed(&std::env::temp_dir(), &error))?;
            return Ok(Place { dir: whole(fresh.path())?, fresh: Some(fresh) });
        };
        std::fs::create_dir_all(asked).map_err(|error| failed(asked, &error))?;
        let dir = whole(asked)?;
        let Files { trace, lines } = Files::of(&dir);
        match [trace, lines].iter().find(|path| path.symlink_metadata().is_ok()) {
            Some(path) => {
                let hint = "remove it, or name another directory with --out";
                Err(Failure::General(format!("{} already exists: {hint}", path.display())))
            }
            None => Ok(Place { dir, fresh: None }),
        }
    }

    /// Keeps the directory when the demo ends.
    pub(super) fn keep(&mut self) {
        let _ = self.fresh.take().map(TempDir::keep);
    }
}

fn whole(dir: &Path) -> Result<PathBuf, Failure> {
    dir.canonicalize().map_err(|error| failed(dir, &error))
}

fn failed(dir: &Path, error: &io::Error) -> Failure {
    let hint = "name a directory that you may write to with --out";
    Failure::General(format!("cannot make a directory in {}: {error}: {hint}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gets_the_path_as_it_is() {
        assert_eq!(shell(Path::new("/tmp/a-1.jsonl")), "/tmp/a-1.jsonl");
        assert_eq!(shell(Path::new("/it's a/b")), r"'/it'\''s a/b'");
    }
}
